//! Migrations: forward only, one transaction each, counted in `user_version`.

use rusqlite::{Connection, TransactionBehavior};

use crate::error::OpenError;
use crate::schema;

/// All migrations in order; the n-th (from 1) makes version n.
const MIGRATIONS: &[(&str, &str)] = &[
    (
        "0001_create_tables.sql",
        include_str!("../../../migrations/0001_create_tables.sql"),
    ),
    (
        "0002_extend_configuration.sql",
        include_str!("../../../migrations/0002_extend_configuration.sql"),
    ),
    (
        "0003_add_auto_cycle.sql",
        include_str!("../../../migrations/0003_add_auto_cycle.sql"),
    ),
    (
        "0004_create_notifications.sql",
        include_str!("../../../migrations/0004_create_notifications.sql"),
    ),
    (
        "0005_index_lists.sql",
        include_str!("../../../migrations/0005_index_lists.sql"),
    ),
    (
        "0006_mark_blocks.sql",
        include_str!("../../../migrations/0006_mark_blocks.sql"),
    ),
    (
        "0007_index_events.sql",
        include_str!("../../../migrations/0007_index_events.sql"),
    ),
    (
        "0008_add_identity.sql",
        include_str!("../../../migrations/0008_add_identity.sql"),
    ),
    (
        "0009_remember_lost_writes.sql",
        include_str!("../../../migrations/0009_remember_lost_writes.sql"),
    ),
];

/// The latest version that this program knows.
pub(crate) fn known() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

/// The migrations that make `version`.
pub(crate) fn up_to(version: i64) -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    MIGRATIONS
        .iter()
        .take(usize::try_from(version).unwrap_or_default())
}

/// Brings the database to this program's version.
///
/// A version that cannot be read is an error, not version 0: creating tables over an unreadable
/// database would make things worse.
pub(crate) fn migrate(connection: &mut Connection) -> Result<(), OpenError> {
    let failed = |name| {
        move |source: rusqlite::Error| OpenError::Migration {
            name,
            source: source.into(),
        }
    };
    let known = known();
    let found = schema::version(connection).map_err(failed("user_version"))?;
    if known < found {
        return Err(OpenError::Newer { found, known });
    }
    for (number, (name, sql)) in (1_i64..).zip(MIGRATIONS) {
        if number <= found {
            continue;
        }
        let apply = |connection: &mut Connection| {
            let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            tx.execute_batch(sql)?;
            tx.pragma_update(None, "user_version", number)?;
            tx.commit()
        };
        apply(connection).map_err(failed(name))?;
        tracing::info!(migration = name, "the database was migrated");
    }
    Ok(())
}
