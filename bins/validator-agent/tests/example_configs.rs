//! The example `configs/validator-agent.yaml`, the contract's older form, and the rules.
#![expect(
    clippy::unwrap_used,
    clippy::unwrap_in_result,
    reason = "a test: only the result under test is returned"
)]

use std::path::Path;

use civ_boot::config::{Faults, Loaded};
use civ_validator_agent::config::{Settings, load};

const LINK: &str = "control_api: { url: 'http://control-api.internal:8080' }\n";

fn loaded(rest: &str) -> Result<Loaded<Settings>, Faults> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("validator-agent.yaml");
    std::fs::write(&file, format!("{LINK}{rest}")).unwrap();
    load(&file)
}

fn blamed(rest: &str) -> Vec<String> {
    let faults = loaded(rest).unwrap_err();
    faults.iter().map(|fault| fault.path().to_owned()).collect()
}

#[test]
fn the_example_loads() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs/validator-agent.yaml");
    let Loaded { settings, warnings } = load(&file).unwrap();
    assert_eq!(settings.validators.len(), 1);
    assert!(settings.validators.iter().all(|one| one.token.is_none()));
    assert_eq!(settings.self_check.ip_echo_urls.len(), 2);
    assert_eq!(settings.checks.max_concurrent, 64);
    assert_eq!(settings.checks.icmp_packets_per_second, 20_000);
    assert!(warnings.is_empty());
}

#[test]
fn a_single_validator_may_stand_at_the_top() {
    let settings = loaded("validator_id: validator_01\n").unwrap().settings;
    let ids: Vec<&str> = settings
        .validators
        .iter()
        .map(|validator| validator.validator_id.as_str())
        .collect();
    assert_eq!(ids, ["validator_01"]);
}

#[test]
fn not_both_forms_and_not_none() {
    let both = "validator_id: a\nvalidators: [{ validator_id: b }]\n";
    assert_eq!(blamed(both), ["validator_id"]);
    assert_eq!(blamed(""), ["validators"]);
}

#[test]
fn ids_are_not_repeated_and_urls_are_web_addresses() {
    assert_eq!(
        blamed(
            "validators: [{ validator_id: a }, {}, { validator_id: a, bind_address: here }]\n\
             self_check: { ip_echo_urls: ['ftp://example.com'] }\n"
        ),
        [
            "validators[1].validator_id",
            "validators[2].validator_id",
            "validators[2].bind_address",
            "self_check.ip_echo_urls[0]"
        ]
    );
}

#[test]
fn the_documented_sections_of_later_versions_load_with_their_defaults_only() {
    let documented = "validator_id: a\n\
        responder: { enabled: false, http_ports: [80, 8080], tls_ports: [443] }\n\
        metrics: { listen_addr: }\n\
        checks: { diagnose: true }\n";
    let warnings = loaded(documented).unwrap().warnings;
    assert_eq!(warnings.len(), 1, "traces are announced as missing");
    assert_eq!(
        blamed("validator_id: a\nmetrics: { listen_addr: '[::]:9100' }\n"),
        ["metrics.listen_addr"]
    );
}

#[test]
fn a_responder_has_ports_and_validators_that_it_can_tell_apart() {
    let settings = loaded("validator_id: a\nresponder: { enabled: true }\n").unwrap();
    let responder = settings.settings.responder.unwrap();
    assert_eq!(
        (responder.http_ports, responder.tls_ports),
        (vec![80, 8080], vec![443])
    );
    let off = loaded("validator_id: a\nresponder: { http_ports: [81] }\n").unwrap();
    assert!(off.settings.responder.is_none());
    let bad = "responder: { enabled: true, http_ports: [0, 80], tls_ports: [80] }\n\
        validators: [{ validator_id: a }, { validator_id: b, bind_address: 10.0.0.5 },\n\
        \x20 { validator_id: c, bind_address: 10.0.0.5 }]\n";
    assert_eq!(
        blamed(bad),
        [
            "responder.http_ports[0]",
            "responder.tls_ports[0]",
            "validators[0].bind_address",
            "validators[2].bind_address",
        ]
    );
    assert_eq!(
        blamed("validator_id: a\nresponder: { enabled: true, http_ports: [] }\n"),
        ["responder.http_ports"]
    );
}
