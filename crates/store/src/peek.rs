//! A look into the database beside the process that works on it, or without one: nothing is
//! locked, migrated or written.

use std::path::Path;

use civ_types::{PortId, ValidatorId};
use rusqlite::{Connection, OpenFlags};

use crate::codec::text;
use crate::error::StoreError;

/// The validators that the database holds, and their ports, in order of name.
///
/// # Errors
/// [`StoreError`]: the file cannot be read, or is no database of this product.
pub fn validators(path: &Path) -> Result<Vec<(ValidatorId, PortId)>, StoreError> {
    const SQL: &str = "SELECT validator_id, port_id FROM validators ORDER BY validator_id";
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    let mut statement = connection.prepare(SQL)?;
    let rows = statement.query_map([], |row| {
        let id = text(row, "validator_id", ValidatorId::parse)?;
        Ok((id, text(row, "port_id", PortId::parse)?))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_database_of_ours_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("other.db");
        assert!(validators(&path).is_err(), "and is not made either");
        assert!(!path.exists());
        std::fs::write(&path, "text").unwrap();
        assert!(validators(&path).is_err());
    }
}
