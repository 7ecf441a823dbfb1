//! The nonce of a claim: what its validator serves, and what probers compare with what answers on
//! the address.

use civ_types::{ClaimNo, Nonce, ValidatorId};
use rusqlite::{OptionalExtension as _, params};

use crate::codec::{maybe_word, text};
use crate::conn::{ReadConn, WriteTx};
use crate::error::StoreError;
use crate::settings::json;

/// How an address shows whose it is while its validator holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    /// The validator that holds it.
    pub validator: ValidatorId,
    /// What only that validator serves, in this claim.
    pub nonce: Nonce,
    /// The ports on which it answers over HTTP.
    pub ports: Vec<u16>,
}

/// A proof, and whether the validator served it when checking began.
struct Stored {
    proof: Proof,
    proves: bool,
}

fn stored(conn: &ReadConn<'_>, claim: ClaimNo) -> Result<Option<Stored>, StoreError> {
    const SQL: &str = "SELECT l.validator_id, l.nonce, l.proves, v.responder_ports FROM leases l \
         JOIN validators v ON v.validator_id = l.validator_id \
         WHERE l.claim_no = ?1 AND l.nonce IS NOT NULL AND v.responder_ports IS NOT NULL";
    let mut statement = conn.sql().prepare_cached(SQL)?;
    let read = |row: &rusqlite::Row<'_>| {
        let nonce = maybe_word(row, "nonce", Nonce::parse)?;
        let validator = text(row, "validator_id", ValidatorId::parse)?;
        let ports = json(row, "responder_ports")?;
        let proves: bool = row.get("proves")?;
        Ok(nonce.map(|nonce| Stored {
            proof: Proof {
                validator,
                nonce,
                ports,
            },
            proves,
        }))
    };
    let found = statement.query_row([claim.0], read).optional()?;
    Ok(found.flatten())
}

/// What the validator of a claim is to serve; `None` if it runs no responder.
pub(crate) fn of_claim(conn: &ReadConn<'_>, claim: ClaimNo) -> Result<Option<Proof>, StoreError> {
    Ok(stored(conn, claim)?.map(|stored| stored.proof))
}

/// What probers are to compare: only if the validator served it when checking began, and still
/// does. So a responder that is turned on or off midway makes no healthy address fail.
pub(crate) fn to_compare(conn: &ReadConn<'_>, claim: ClaimNo) -> Result<Option<Proof>, StoreError> {
    let proving = stored(conn, claim)?.filter(|stored| stored.proves);
    Ok(proving.map(|stored| stored.proof))
}

/// Gives a new claim its nonce.
pub(crate) fn give(tx: &WriteTx<'_>, claim: ClaimNo, nonce: &Nonce) -> Result<(), StoreError> {
    const SQL: &str = "UPDATE leases SET nonce = ?2 WHERE claim_no = ?1";
    let parameters = params![claim.0, nonce.as_str()];
    tx.sql().prepare_cached(SQL)?.execute(parameters)?;
    Ok(())
}

/// Checking begins: notes whether the validator serves its nonce, and says so.
pub(crate) fn begin(tx: &WriteTx<'_>, claim: ClaimNo) -> Result<bool, StoreError> {
    const SQL: &str = "UPDATE leases SET proves = ?2 WHERE claim_no = ?1";
    let proves = stored(tx, claim)?.is_some();
    let parameters = params![claim.0, proves];
    tx.sql().prepare_cached(SQL)?.execute(parameters)?;
    Ok(proves)
}
