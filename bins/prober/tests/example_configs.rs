//! The example `configs/prober.yaml`, and what must be given.

use std::path::Path;

use civ_prober::config::load;

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs")
}

#[test]
fn the_example_loads() {
    let loaded = load(&folder().join("prober.yaml")).unwrap();
    assert_eq!(loaded.settings.site_id.as_str(), "site-1");
    assert_eq!(loaded.settings.checks.max_concurrent, 256);
    assert_eq!(loaded.settings.checks.icmp_packets_per_second, 20_000);
    assert_eq!(loaded.settings.checks.timeout.as_secs(), 5);
    assert_eq!(loaded.settings.bind_address, None);
    assert!(loaded.warnings.is_empty());
}

#[test]
fn the_file_of_another_program_is_refused_key_by_key() {
    let faults = load(&folder().join("validator-agent.yaml")).unwrap_err();
    let paths: Vec<&str> = faults.iter().map(civ_boot::config::Fault::path).collect();
    assert_eq!(paths, ["site_id", "validators", "self_check", "responder"]);
}
