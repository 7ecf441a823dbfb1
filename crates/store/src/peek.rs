//! A look into the database beside the process that works on it, or without one: nothing is
//! locked, migrated or written.

use std::path::Path;

use civ_types::{PortId, ValidatorId};
use rusqlite::Connection;

use crate::conn::{self, ReadConn};
use crate::error::StoreError;
use crate::{schema, validators as table};

/// A database that is only read.
#[derive(Debug)]
pub struct Look(Connection);

impl Look {
    /// Opens it. What a read needs must be there: the schema is not brought to this version.
    ///
    /// # Errors
    /// [`StoreError`]: the file cannot be read, or is no database.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let connection = conn::open_to_look(path)?;
        // Opening reads nothing yet.
        schema::version(&connection)?;
        Ok(Self(connection))
    }

    /// Carries out `job` in a snapshot of its own.
    ///
    /// # Errors
    /// What `job` returns, or [`StoreError`] of the database.
    pub fn read<T, E: From<StoreError>>(
        &self,
        job: impl FnOnce(&ReadConn<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let snapshot = self.0.unchecked_transaction().map_err(StoreError::from)?;
        job(&ReadConn::new(&snapshot))
    }
}

/// The validators that the database holds, and their ports, in order of name.
///
/// # Errors
/// [`StoreError`]: the file cannot be read, or is no database of this product.
pub fn validators(path: &Path) -> Result<Vec<(ValidatorId, PortId)>, StoreError> {
    Look::open(path)?.read(table::ports)
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
