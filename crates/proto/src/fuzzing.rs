//! What fuzzing runs: bodies as agents, probers and operators send them. The function takes any
//! bytes and panics if a property does not hold; the seeds are in `fuzz/seeds`.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{EventReport, Inconclusive, admin, agent, prober};

/// The bytes as each of the bodies: what is read once is read the same again.
pub fn bodies(bytes: &[u8]) {
    stable::<agent::Register>(bytes);
    stable::<agent::Heartbeat>(bytes);
    stable::<agent::SelfCheck>(bytes);
    stable::<agent::Results>(bytes);
    stable::<agent::Complete>(bytes);
    stable::<prober::Results>(bytes);
    stable::<EventReport>(bytes);
    stable::<Inconclusive>(bytes);
    stable::<agent::Assignment>(bytes);
    stable::<admin::Addresses>(bytes);
}

fn stable<T: DeserializeOwned + Serialize>(bytes: &[u8]) {
    let Ok(body) = serde_json::from_slice::<T>(bytes) else {
        return;
    };
    let once = serde_json::to_string(&body).unwrap_or_default();
    let again = serde_json::from_str::<T>(&once);
    let again = again.map(|body| serde_json::to_string(&body).unwrap_or_default());
    assert_eq!(again.ok().as_deref(), Some(once.as_str()));
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    #[test]
    fn properties_hold_for_bodies() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/bodies");
        let mut n_seeds = 0;
        for entry in fs::read_dir(&folder).unwrap() {
            let seed = fs::read(entry.unwrap().path()).unwrap();
            n_seeds += 1;
            for at in 0..seed.len() {
                super::bodies(&seed[..at]);
                let mut changed = seed.clone();
                for byte in *b"0\"[{,n" {
                    changed[at] = byte;
                    super::bodies(&changed);
                }
            }
            super::bodies(&seed);
        }
        assert!(n_seeds > 0, "no seeds in {}", folder.display());
    }
}
