//! YAML as a one-time start: each table is filled once, while it has never had a row; after that
//! the database is the only source.

use std::collections::BTreeMap;

use civ_types::{CheckName, PortId, SiteId, ValidatorId};
use rusqlite::params;

use crate::conn::WriteTx;
use crate::error::StoreError;

/// What YAML says of the tables.
#[derive(Debug, Clone, Default)]
pub struct Seed {
    /// Validators and their ports.
    pub validators: Vec<(ValidatorId, PortId)>,
    /// Sites; the slot is the place in the list, from 1.
    pub sites: Vec<SiteId>,
    /// Target groups.
    pub targets: BTreeMap<String, Vec<String>>,
    /// Check types: name, enabled, groups.
    pub check_types: Vec<(CheckName, bool, Vec<String>)>,
    /// The pause after association, in seconds.
    pub fip_settle_seconds: u32,
    /// Ports that every site checks.
    pub inbound_ports: Vec<u16>,
    /// Ports on which nothing is to answer.
    pub inbound_closed_ports: Vec<u16>,
    /// Whether every site sends echo requests.
    pub inbound_icmp: bool,
}

/// Has the table never had a row? Triggers keep the list, so that one that was emptied through the
/// API stays empty.
fn is_new(tx: &WriteTx<'_>, table: &str) -> Result<bool, StoreError> {
    const SQL: &str = "SELECT NOT EXISTS (SELECT 1 FROM seeded WHERE name = ?1)";
    Ok(tx.sql().query_row(SQL, [table], |row| row.get(0))?)
}

fn json<T: serde::Serialize>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::corrupt(error.to_string()))
}

/// Fills the tables that have never had a row.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn apply(tx: &WriteTx<'_>, seed: &Seed) -> Result<(), StoreError> {
    let now = tx.now().as_micros();
    if is_new(tx, "validators")? {
        for (validator, port) in &seed.validators {
            tx.sql().execute(
                "INSERT INTO validators (validator_id, port_id, created_at, updated_at) \
                 VALUES (?1, ?2, ?3, ?3)",
                params![validator.as_str(), port.as_str(), now],
            )?;
        }
    }
    if is_new(tx, "sites")? {
        for (slot, site) in (1_i64..).zip(&seed.sites) {
            tx.sql().execute(
                "INSERT INTO sites (slot, site_id) VALUES (?1, ?2)",
                params![slot, site.as_str()],
            )?;
        }
    }
    if is_new(tx, "target_groups")? {
        for (name, targets) in &seed.targets {
            tx.sql().execute(
                "INSERT INTO target_groups (name, targets) VALUES (?1, ?2)",
                params![name, json(targets)?],
            )?;
        }
    }
    if is_new(tx, "check_types")? {
        for (name, enabled, groups) in &seed.check_types {
            tx.sql().execute(
                "INSERT INTO check_types (name, enabled, \"groups\") VALUES (?1, ?2, ?3)",
                params![name.as_str(), enabled, json(groups)?],
            )?;
        }
    }
    tx.sql().execute(
        "INSERT OR IGNORE INTO settings (id, fip_settle_seconds, inbound_ports, inbound_icmp, \
         inbound_closed_ports) VALUES (1, ?1, ?2, ?3, ?4)",
        params![
            seed.fip_settle_seconds,
            json(&seed.inbound_ports)?,
            seed.inbound_icmp,
            json(&seed.inbound_closed_ports)?
        ],
    )?;
    Ok(())
}
