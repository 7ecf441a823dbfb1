//! The examples in `configs/`, the rules between keys, and what a fault looks like.
#![expect(
    clippy::unwrap_used,
    clippy::unwrap_in_result,
    reason = "a test: only the result under test is returned"
)]

use std::path::{Path, PathBuf};

use civ_control_api::config::{Settings, load};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../configs")
        .join(name)
}

fn loaded(text: &str) -> Result<Settings, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("control-api.yaml");
    std::fs::write(&file, text).unwrap();
    match load(&file) {
        Ok(loaded) => Ok(loaded.settings),
        Err(faults) => {
            let before = format!("{}/", folder.path().display());
            Err(faults.to_string().replace(&before, ""))
        }
    }
}

/// The paths of all faults, in the order of the file.
fn blamed(text: &str) -> Vec<String> {
    let faults = loaded(text).unwrap_err();
    let path = |line: &str| line.split(": ").nth(1).map(str::to_owned);
    faults.lines().filter_map(path).collect()
}

#[test]
fn the_example_holds_the_defaults() {
    let example = load(&example("control-api.yaml")).unwrap();
    assert!(example.warnings.is_empty());
    let defaults = loaded("").unwrap();
    assert_eq!(format!("{:?}", example.settings), format!("{defaults:?}"));
}

#[test]
fn the_production_example_requires_tokens() {
    let production = load(&example("control-api.production.yaml")).unwrap();
    assert!(production.settings.auth.required);
    assert_eq!(production.settings.seed.validators.len(), 2);
    assert!(production.warnings.is_empty());
}

#[test]
fn the_documented_file_loads() {
    let settings = loaded(
        "server: { tls: { cert_file: , key_file: , client_ca_file: } }\n\
         auth: { per_agent_tokens: {} }\n\
         openstack:\n  cloud:\n\
         validators:\n  - { validator_id: validator_01, os_port_id: 6f0c }\n\
         sites:\n  - { site_id: site-1 }\n\
         targets:\n  web: [https://github.com]\n\
         check_types:\n  - { name: https, enabled: true, targets: [web] }\n\
         ip_addresses: [203.0.113.10]\n",
    )
    .unwrap();
    assert_eq!(settings.seed.check_types.len(), 1);
    assert_eq!(settings.seed.ip_addresses.len(), 1);
}

#[test]
fn all_faults_come_in_one_go_with_their_places() {
    let faults = loaded(
        "orchestrator:\n\
        \x20 lease_ttl_secs: 10\n\
        \x20 poll_interval_seconds: soon\n\
        \x20 max_assign_retries: -1\n\
         validators:\n\
        \x20 - { validator_id: a, os_port_id: p }\n\
        \x20 - { validator_id: a, os_port_id: p }\n\
         check_types:\n\
        \x20 - { name: https, targets: [web] }\n",
    )
    .unwrap_err();
    let expected = "\
control-api.yaml:2:3: orchestrator.lease_ttl_secs: unknown key; did you mean `lease_ttl_seconds`? \
Known here: poll_interval_seconds, lease_ttl_seconds, self_check_timeout_seconds, \
max_self_check_retries, max_assign_retries, checking_window_seconds, heartbeat_timeout_seconds, \
fip_settle_seconds, fip_scan_interval_seconds, release_grace_seconds, \
reconcile_interval_seconds, max_parallel_cloud_calls, inbound_checks
control-api.yaml:3:26: orchestrator.poll_interval_seconds: must be a whole number, not text
control-api.yaml:4:23: orchestrator.max_assign_retries: must be a whole number from 0 to 1000
control-api.yaml:7:21: validators[1].validator_id: names a validator that the list already has
control-api.yaml:7:36: validators[1].os_port_id: is the port of validators[0] too: each validator \
needs its own
control-api.yaml:9:30: check_types[0].targets[0]: names a group that `targets` does not define; it \
defines none";
    assert_eq!(faults, expected);
}

#[test]
fn settle_and_self_check_must_fit_into_the_lease() {
    let text = |settle: u32| {
        format!("orchestrator: {{ fip_settle_seconds: {settle}, lease_ttl_seconds: 60 }}")
    };
    assert!(loaded(&text(29)).is_ok());
    assert_eq!(blamed(&text(30)), ["orchestrator.lease_ttl_seconds"]);
}

#[test]
fn ports_are_ports_and_not_repeated() {
    let text = "orchestrator: { inbound_checks: { ports: [22, 0, 22, 65536], icmp: false } }";
    let path = |index| format!("orchestrator.inbound_checks.ports[{index}]");
    assert_eq!(blamed(text), [path(1), path(2), path(3)]);
    let closed = "orchestrator: { inbound_checks: { ports: [22], closed_ports: [22, 0, 23, 23] } }";
    let path = |index| format!("orchestrator.inbound_checks.closed_ports[{index}]");
    assert_eq!(blamed(closed), [path(0), path(1), path(3)]);
}

#[test]
fn what_this_version_lacks_is_refused_and_not_ignored() {
    let faults = loaded("cloud: { provider: simulated }\n").unwrap_err();
    let refused = faults.matches("is not available in this version").count();
    assert_eq!((refused, faults.lines().count()), (1, 1), "{faults}");
}

#[test]
fn a_certificate_and_its_key_come_together() {
    let of = |tls: &str| blamed(&format!("server: {{ tls: {{ {tls} }} }}"));
    assert_eq!(of("cert_file: a.pem"), ["server.tls.cert_file"]);
    assert_eq!(of("key_file: a.key"), ["server.tls.key_file"]);
    assert_eq!(of("client_ca_file: ca.pem"), ["server.tls.client_ca_file"]);
    let both = "server: { tls: { cert_file: a.pem, key_file: a.key, client_ca_file: ca.pem } }";
    assert!(loaded(both).unwrap().server.tls.is_some());
}

#[test]
fn a_token_of_its_own_names_an_id_and_a_place() {
    let text = "auth:\n  per_agent_tokens:\n    v1: {}\n    a/b: { token_env: V2 }\n    \
                v3: { token_env: not a name }\n    v4: { token: x, token_env: V4 }\n    v5: { token_file: /v5 }\n";
    let of = |rest: &str| format!("auth.per_agent_tokens.{rest}");
    let blamed = blamed(text);
    assert_eq!(blamed.len(), 4, "{blamed:?}");
    for path in [of("v1"), of("a/b"), of("v3.token_env"), of("v4.token")] {
        assert!(blamed.contains(&path), "{path} {blamed:?}");
    }
}

#[test]
fn a_secret_in_the_place_of_its_variable_is_not_repeated() {
    let faults = loaded(
        "auth: { admin_token_env: s3cret-value, agent_token_env: [s3cret] }\n\
         server: { listen_addr: s3cret }\n",
    )
    .unwrap_err();
    assert_eq!(faults.lines().count(), 3, "{faults}");
    assert!(!faults.contains("s3cret"), "{faults}");
}

#[test]
fn addresses_may_be_prefixes_and_every_bad_one_is_named() {
    let settings = loaded("ip_addresses: [203.0.113.0/30, 203.0.113.1]").unwrap();
    assert_eq!(settings.seed.ip_addresses.len(), 4);
    assert_eq!(
        blamed("ip_addresses: [1.2.3, 203.0.113.1, x]"),
        ["ip_addresses[0]", "ip_addresses[2]"]
    );
    assert_eq!(
        blamed("ip_addresses: [10.0.0.0/16, 11.0.0.1]"),
        ["ip_addresses"]
    );
}

#[test]
fn check_types_are_those_that_agents_know() {
    let text = |name: &str| format!("check_types: [{{ name: {name} }}]");
    for name in [
        "icmp", "tcp-22", "tls-443", "tls", "ssh", "https", "http", "tcp",
    ] {
        assert!(loaded(&text(name)).is_ok(), "{name}");
    }
    for name in ["htps", "tcp-0", "icmp-4", "tcp-x"] {
        assert_eq!(blamed(&text(name)), ["check_types[0].name"], "{name}");
    }
}

#[test]
fn proxies_are_addresses_or_prefixes() {
    let settings = loaded("server: { trusted_proxies: [10.0.0.1, 'fd00::/8'] }").unwrap();
    assert_eq!(settings.server.trusted_proxies.len(), 2);
    assert_eq!(
        blamed("server: { trusted_proxies: [proxy.example] }"),
        ["server.trusted_proxies[0]"]
    );
}

#[test]
fn receivers_of_notifications_are_checked() {
    let one = |rest: &str| {
        format!(
            "notifications: [{{ name: a, url: 'https://a.example/x?y', secret_env: A, {rest} }}]"
        )
    };
    let settings = loaded(&one("events: [failed, fip_conflict]")).unwrap();
    let receiver = &settings.notifications[0];
    assert_eq!(receiver.timeout.as_secs(), 10);
    assert_eq!(receiver.events, ["failed", "fip_conflict"]);
    assert!(loaded(&one("events: ['*']")).is_ok());
    for (rest, path) in [
        ("events: []", "events"),
        ("events: ['*', failed]", "events[0]"),
        ("events: [failed, failed]", "events[1]"),
        ("events: [occupied]", "events[0]"),
        ("events: ['*'], timeout_seconds: 61", "timeout_seconds"),
    ] {
        assert_eq!(
            blamed(&one(rest)),
            [format!("notifications[0].{path}")],
            "{rest}"
        );
    }
    let faults = loaded(&one("events: [occupied]")).unwrap_err();
    assert!(
        faults.contains("aggregated, ") && faults.contains("fip_occupied"),
        "{faults}"
    );
    assert_eq!(
        blamed("notifications: [{ url: 'ftp://a' }]"),
        ["events", "name", "secret_env", "url"].map(|key| format!("notifications[0].{key}"))
    );
    let twice = "{ name: a, url: 'http://a', secret_file: /a, events: ['*'] }";
    assert_eq!(
        blamed(&format!("notifications: [{twice}, {twice}]")),
        ["notifications[1].name"]
    );
}
