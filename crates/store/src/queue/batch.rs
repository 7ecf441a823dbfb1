//! Adding many addresses at once: three statements for a whole run of a list, since a statement
//! for each address costs more than the rows do.

use civ_types::Address;
use rusqlite::params;

use crate::conn::WriteTx;
use crate::error::StoreError;
use crate::notifications;
use crate::settings::to_json;

/// New addresses that stand together in a list and are not in the queue yet.
#[derive(Debug, Default)]
pub(super) struct Batch {
    list: Vec<String>,
}

impl Batch {
    pub(super) fn push(&mut self, address: Address) {
        self.list.push(address.to_string());
    }

    /// Begins a cycle of each, adds them at the end of the queue in their order, and notes that
    /// in the history.
    pub(super) fn write(&mut self, tx: &WriteTx<'_>) -> Result<(), StoreError> {
        const REGISTRY: &str = "INSERT INTO registry \
             (address, first_seen_at, last_seen_at, total_cycles) \
             SELECT value, ?2, ?2, 1 FROM json_each(?1) WHERE true \
             ON CONFLICT (address) DO UPDATE SET \
             last_seen_at = excluded.last_seen_at, total_cycles = total_cycles + 1";
        const QUEUE: &str = "INSERT INTO ips \
             (address, sequence, state, cycle_id, attempt_no, created_at, updated_at) \
             SELECT j.value, ?2 + j.key, 'queued', r.total_cycles, 1, ?3, ?3 \
             FROM json_each(?1) j CROSS JOIN registry r ON r.address = j.value";
        const EVENTS: &str = "INSERT INTO events \
             (ip_id, address, cycle_id, event_type, severity, payload, occurred_at) \
             SELECT id, address, cycle_id, 'enqueued', 'info', '{\"attempt_number\":1}', ?2 \
             FROM ips WHERE sequence >= ?1 ORDER BY sequence";
        if self.list.is_empty() {
            return Ok(());
        }
        let list = to_json(&self.list)?;
        let (end, now) = (super::end(tx)?, tx.now().as_micros());
        let run = |sql: &str, parameters: &[&dyn rusqlite::ToSql]| {
            tx.sql().prepare_cached(sql)?.execute(parameters)
        };
        run(REGISTRY, params![list, now])?;
        run(QUEUE, params![list, end, now])?;
        let n_told = run(EVENTS, params![end, now])?;
        notifications::enqueue(tx, n_told)?;
        self.list.clear();
        Ok(())
    }
}
