//! Walls: who may lean on whom, who alone may use a foreign package, which folder may not name
//! what. A change of these tables is a change of the architecture.

use std::collections::BTreeMap;

use crate::places::Text;
use crate::source::{has_word, read, without_tests};

/// Packages with their dependencies, those for tests aside.
pub type Needs = BTreeMap<String, Vec<String>>;

/// A name and the names that belong to it.
type Table = &'static [(&'static str, &'static [&'static str])];

/// Package, and the packages of the workspace that it may depend on.
const ROOMS: Table = &[
    ("civ-types", &[]),
    ("civ-planted", &[]),
    ("civ-orch", &["civ-types", "civ-planted"]),
    ("civ-proto", &[]),
    ("civ-store", &["civ-types", "civ-orch", "civ-planted"]),
    ("civ-crash", &[]),
    ("civ-cloud", &["civ-types", "civ-crash", "civ-planted"]),
    ("civ-checks", &["civ-types"]),
    ("civ-link", &["civ-types", "civ-proto"]),
    ("civ-boot", &["civ-types"]),
    ("civ-validator-agent", AGENT),
    ("civ-prober", AGENT),
    (
        "civ-control-api",
        &[
            "civ-types",
            "civ-proto",
            "civ-orch",
            "civ-store",
            "civ-cloud",
            "civ-crash",
            "civ-planted",
            "civ-boot",
        ],
    ),
    ("civ-testkit", &["civ-types", "civ-orch", "civ-store"]),
    ("civ-tidy", &[]),
    // The blocks of any simulated cloud know no product.
    ("civ-simkit", &[]),
    ("civ-cloudsim", &["civ-types", "civ-boot", "civ-simkit"]),
    (
        "civ-bench",
        &["civ-types", "civ-orch", "civ-store", "civ-cloud"],
    ),
    (
        "civ-e2e",
        &[
            "civ-types",
            "civ-proto",
            "civ-boot",
            "civ-cloud",
            "civ-cloudsim",
            "civ-suite",
        ],
    ),
    ("civ-suite", &["civ-types", "civ-cloud"]),
    (
        "civ-sim",
        &[
            "civ-types",
            "civ-orch",
            "civ-store",
            "civ-cloud",
            "civ-boot",
            "civ-planted",
            "civ-control-api",
        ],
    ),
];

/// Agent and prober never see the store, the machine or the cloud.
const AGENT: &[&str] = &[
    "civ-types",
    "civ-proto",
    "civ-checks",
    "civ-link",
    "civ-boot",
];

/// Foreign package, and the only packages of the workspace that may name it.
const KEEPERS: Table = &[
    // The simulated cloud keeps its own state, in a file that the product never opens; the
    // simulation looks at the product's database from outside.
    ("rusqlite", &["civ-store", "civ-simkit", "civ-sim"]),
    ("r2d2", &["civ-store"]),
    ("r2d2_sqlite", &["civ-store"]),
    ("rustix", &["civ-checks", "civ-crash", "civ-bench"]),
    ("socket2", &["civ-checks"]),
    ("nix", &["civ-checks"]),
    ("ssh2", &["civ-checks"]),
    (
        "axum",
        &["civ-control-api", "civ-simkit", "civ-cloudsim", "civ-e2e"],
    ),
    ("askama", &["civ-control-api"]),
    ("prometheus-client", &["civ-control-api"]),
    ("utoipa", &["civ-proto", "civ-control-api"]),
    ("utoipa-axum", &["civ-control-api"]),
    ("serde_yaml", &["civ-boot", "civ-cloud"]),
    ("yaml_serde", &["civ-boot", "civ-cloud"]),
];

/// Packages that may use nothing foreign but these.
const PURE: Table = &[
    ("civ-orch", &["thiserror"]),
    ("civ-planted", &[]),
    ("civ-types", &["thiserror", "jiff"]),
    ("civ-proto", &["serde", "serde_json", "utoipa"]),
];

/// Part of control-api (a file, a folder or both), and the crates that it may not name.
const FOLDERS: Table = &[
    ("bins/control-api/src/http", &["civ_store", "civ_cloud"]),
    (
        "bins/control-api/src/dashboard",
        &["civ_store", "civ_cloud"],
    ),
    ("bins/control-api/src/app", &["axum", "civ_proto"]),
    ("bins/control-api/src/runner", &["axum", "civ_proto"]),
    (
        "bins/control-api/src/config",
        &["axum", "civ_proto", "civ_store", "civ_cloud", "civ_orch"],
    ),
    (
        "bins/control-api/src/ctl",
        &[
            "axum",
            "civ_store",
            "civ_cloud",
            "civ_orch",
            "app",
            "runner",
        ],
    ),
    (
        "bins/control-api/src/metrics",
        &["axum", "civ_proto", "civ_store", "civ_cloud"],
    ),
    ("bins/control-api/src/notify", &["axum", "civ_cloud"]),
];

fn list(table: Table, name: &str) -> Option<&'static [&'static str]> {
    let row = table.iter().find(|(other, _)| *other == name)?;
    Some(row.1)
}

/// Dependencies that break a wall.
#[must_use]
pub fn rooms(all: &Needs) -> Vec<String> {
    let mut wrong = Vec::new();
    for (package, needs) in all {
        let Some(allowed) = list(ROOMS, package) else {
            wrong.push(format!("{package} has no room: add it to ROOMS"));
            continue;
        };
        for need in needs {
            let ours = all.contains_key(need);
            if ours && !allowed.contains(&need.as_str()) {
                wrong.push(format!("{package} may not depend on {need}"));
            }
            if list(KEEPERS, need).is_some_and(|by| !by.contains(&package.as_str())) {
                wrong.push(format!("{package} may not use {need}: its keeper does"));
            }
            let impure = list(PURE, package).is_some_and(|list| !list.contains(&need.as_str()));
            if !ours && impure {
                wrong.push(format!("{package} is pure and may not use {need}"));
            }
        }
    }
    wrong
}

/// Crates that a file names although its folder may not. Inline tests may.
#[must_use]
pub fn folders(file: &Text) -> Vec<String> {
    let code = without_tests(&read(&file.text).code);
    let mut wrong = Vec::new();
    for (folder, words) in FOLDERS {
        let rest = file.path.strip_prefix(folder);
        if !rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/')) {
            continue;
        }
        for word in words.iter().filter(|word| has_word(&code, word)) {
            wrong.push(format!("{}: {folder} may not name {word}", file.path));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(package: &str, need: &str) -> Needs {
        BTreeMap::from([
            (package.to_owned(), vec![need.to_owned()]),
            ("civ-types".to_owned(), vec!["thiserror".to_owned()]),
            ("civ-store".to_owned(), vec!["rusqlite".to_owned()]),
        ])
    }

    #[test]
    fn every_kind_of_wall_holds() {
        assert!(rooms(&needs("civ-orch", "civ-types")).is_empty());
        for (package, need, word) in [
            ("civ-prober", "civ-store", "may not depend on"),
            ("civ-link", "rusqlite", "keeper"),
            ("civ-orch", "tokio", "pure"),
            ("civ-new", "civ-types", "no room"),
        ] {
            let wrong = rooms(&needs(package, need));
            assert_eq!(wrong.len(), 1, "{wrong:?}");
            assert!(wrong.iter().all(|text| text.contains(word)), "{wrong:?}");
        }
    }

    #[test]
    fn folders_may_not_name_what_lies_behind_a_wall() {
        let found = |path: &str, text: &str| {
            folders(&Text {
                path: path.to_owned(),
                text: text.to_owned(),
            })
            .len()
        };
        let import = "use civ_store::Db;\n";
        assert_eq!(found("bins/control-api/src/http/admin.rs", import), 1);
        assert_eq!(found("bins/control-api/src/http.rs", import), 1);
        assert_eq!(found("bins/control-api/src/https.rs", import), 0);
        assert_eq!(found("bins/control-api/src/app/ips.rs", import), 0);
        let comment = "// civ_store is behind app\n";
        assert_eq!(found("bins/control-api/src/http/admin.rs", comment), 0);
    }
}
