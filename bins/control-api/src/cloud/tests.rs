//! Where a login is looked for, and what is said when there is none.

use std::collections::BTreeMap;

use civ_boot::chain::Chain;

use super::*;

const CLOUDS: &str = "clouds:
  mine:
    region_name: FileRegion
    interface: internal
    cacert: ~/from-file.pem
    auth: { auth_url: 'https://file.example/v3', username: u, project_name: p }
  whole:
    auth: { auth_url: 'https://whole.example/v3', user_id: u, project_id: p, password: swordfish }
";

struct Place {
    folder: tempfile::TempDir,
    variables: BTreeMap<String, String>,
}

impl Place {
    /// A home of one's own, so that no file of whoever runs the test is found.
    fn new(variables: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut place = Self {
            variables: BTreeMap::new(),
            folder,
        };
        place.set("HOME", &place.path(""));
        variables
            .iter()
            .for_each(|(name, value)| place.set(name, value));
        place
    }

    fn set(&mut self, name: &str, value: &str) {
        self.variables.insert(name.to_owned(), value.to_owned());
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn config(&self, yaml: &str) -> Result<(OpenStackConfig, Source), String> {
        self.write("control-api.yaml", yaml);
        let file = self.folder.path().join("control-api.yaml");
        let loaded = crate::config::load(&file).map_err(|faults| faults.to_string())?;
        let found = config(&loaded.settings.openstack, &self.variables);
        found.map_err(|error| Chain(&error).to_string())
    }
}

const BY_NAME: &str = "openstack: { cloud: mine }\n";
const SECRET: &str = "clouds: { mine: { auth: { password: swordfish } } }";

#[test]
fn a_cloud_by_name_is_found_at_home_with_the_secret_beside_it() {
    let place = Place::new(&[
        ("OS_AUTH_URL", "https://ignored"),
        ("OS_REGION_NAME", "Other"),
    ]);
    place.write(".config/openstack/clouds.yaml", CLOUDS);
    place.write(".config/openstack/secure.yaml", SECRET);
    let (config, source) = place.config(BY_NAME).unwrap();
    assert_eq!(config.auth_url, "https://file.example/v3");
    assert_eq!(config.region.as_deref(), Some("FileRegion"));
    assert_eq!(config.interface, "internal");
    assert_eq!(
        config.ca_file,
        Some(place.folder.path().join("from-file.pem"))
    );
    let said = source.to_string();
    assert!(
        said.contains("clouds.yaml with ") && said.contains("secure.yaml"),
        "{said}"
    );
    assert!(!format!("{config:?} {said}").contains("swordfish"));
    // What control-api.yaml itself says wins over the file of clouds.
    let yaml = "openstack: { cloud: mine, interface: admin, ca_file: mine.pem,
        network_endpoint_override: 'https://n.example/networking' }\n";
    let (config, _) = place.config(yaml).unwrap();
    assert_eq!(config.interface, "admin");
    assert_eq!(config.ca_file, Some(PathBuf::from("mine.pem")));
    assert_eq!(
        config.endpoint_override.as_deref(),
        Some("https://n.example/networking")
    );
}

#[test]
fn a_variable_names_the_file_and_the_cloud() {
    let mut place = Place::new(&[("OS_CLOUD", "whole")]);
    place.write("elsewhere.yml", CLOUDS);
    place.write(".config/openstack/clouds.yaml", "clouds: {}");
    place.set("OS_CLIENT_CONFIG_FILE", &place.path("elsewhere.yml"));
    let (config, source) = place.config("{}\n").unwrap();
    assert_eq!(config.auth_url, "https://whole.example/v3");
    assert!(source.to_string().contains("elsewhere.yml"));
    place.set("OS_AUTH_URL", "https://variables");
    let why = place.config("{}\n").unwrap_err();
    assert!(
        why.contains("OS_CLOUD and the environment variable OS_AUTH_URL are both set"),
        "{why}"
    );
    assert!(
        place.config("openstack: { cloud: whole }\n").is_ok(),
        "named, so no doubt"
    );
}

#[test]
fn what_is_missing_is_named_with_the_places_looked_at() {
    let mut place = Place::new(&[]);
    let why = place.config(BY_NAME).unwrap_err();
    for part in [
        "no clouds.yaml for the cloud \"mine\"",
        "./clouds.yaml",
        "/etc/openstack/clouds",
    ] {
        assert!(why.contains(part), "{why}");
    }
    assert!(
        why.contains(&place.path(".config/openstack/clouds.yaml")),
        "{why}"
    );
    let why = place.config("{}\n").unwrap_err();
    assert!(
        why.starts_with("the environment variable OS_USERNAME is empty"),
        "{why}"
    );
    place.set("OS_CLIENT_CONFIG_FILE", &place.path("absent.yaml"));
    place.write(".config/openstack/clouds.yaml", CLOUDS);
    let why = place.config(BY_NAME).unwrap_err();
    assert!(
        why.ends_with(&format!("looked for: {}", place.path("absent.yaml"))),
        "{why}"
    );
    place.set("OS_CLIENT_CONFIG_FILE", &place.path(".config"));
    let why = place.config(BY_NAME).unwrap_err();
    assert!(why.contains(".config cannot be read"), "{why}");
    let why = place.config("openstack: { cloud: ' ' }\n").unwrap_err();
    assert!(
        why.contains("openstack.cloud: must be the name of a cloud"),
        "{why}"
    );
}

#[test]
fn ids_win_over_names_and_need_no_domain() {
    let place = Place::new(&[
        ("OS_AUTH_URL", "https://k/v3"),
        ("OS_USER_ID", "u1"),
        ("OS_USERNAME", "name"),
        ("OS_PASSWORD", "swordfish"),
        ("OS_PROJECT_NAME", "p"),
        ("OS_PROJECT_DOMAIN_ID", "d1"),
        ("OS_PROJECT_DOMAIN_NAME", "Other"),
        ("OS_CACERT", "ca.pem"),
    ]);
    let (config, source) = place.config("{}\n").unwrap();
    assert_eq!(source, Source::Variables);
    assert_eq!(config.ca_file, Some(PathBuf::from("ca.pem")));
    let Auth::Password { user, scope, .. } = config.auth else {
        unreachable!("there is a password")
    };
    assert_eq!(user, User::Id("u1".to_owned()));
    let (name, domain) = ("p".to_owned(), Domain::Id("d1".to_owned()));
    assert_eq!(scope, Scope::ProjectName { name, domain });
}
