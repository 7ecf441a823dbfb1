//! Migrations are numbered without gaps and have not been changed since they landed.

use civ_tidy::migrations::{Migration, check};
use civ_tidy::places::{files, root};
use sha2::{Digest as _, Sha256};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn landed_migrations_are_unchanged() {
    let migrations: Vec<Migration> = files("sql")
        .unwrap()
        .iter()
        .filter_map(|file| {
            let name = file.path.strip_prefix("migrations/")?;
            Some(Migration {
                name: name.to_owned(),
                sha256: hex(&Sha256::digest(file.text.as_bytes())),
            })
        })
        .collect();
    assert!(!migrations.is_empty(), "migrations/ holds no migration");
    // Without the list, every migration is missing in it.
    let hashes = std::fs::read_to_string(root().join("migrations/HASHES")).unwrap_or_default();
    let wrong = check(&migrations, &hashes);
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
