//! Fills an empty database with invented rows: the same ones for the same amounts and seed.
//!
//! For benches only, behind the feature `bulk`. It goes past the machine of an address and past
//! durability, which is why no other part may use it.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use civ_types::{Address, Utc};
use rusqlite::{Connection, Transaction, params};

use crate::error::OpenError;
use crate::{blocks, conn, migrate};

/// How much is made.
#[derive(Debug, Clone, Copy)]
pub struct Amounts {
    /// Rows of the registry, at least `queued + ended + validators`.
    pub registry: u32,
    /// Addresses in `queued`.
    pub queued: u32,
    /// Addresses in the queue whose attempt has ended.
    pub ended: u32,
    /// Stored results, spread over the registry.
    pub checks: u32,
    /// Validators, each with an address in `checking`.
    pub validators: u32,
    /// Decides the order of the queue and the results.
    pub seed: u64,
}

/// Of a thousand addresses: so many lie in dense networks, so many are strewn over the whole IPv4
/// space, and the rest is IPv6.
const DENSE: u32 = 700;
const STREWN: u32 = 250;

/// The `n`-th address; no two are the same.
fn address(n: u32) -> Address {
    let (thousand, place) = (n / 1_000, n % 1_000);
    if place < DENSE {
        // 45.0.0.0/8 upwards, one after the other.
        let at = thousand * DENSE + place;
        return Address::from_ip(Ipv4Addr::from_bits(0x2d00_0000 + at).into());
    }
    if place < DENSE + STREWN {
        // An odd factor permutes the 2^30 addresses from 128.0.0.0 on.
        let at = (thousand * STREWN + place - DENSE).wrapping_mul(0x9e37_79b1) & 0x3fff_ffff;
        return Address::from_ip(Ipv4Addr::from_bits(0x8000_0000 | at).into());
    }
    let rest = 1_000 - DENSE - STREWN;
    let at = u128::from(thousand * rest + place - DENSE - STREWN);
    let base = u128::from_be_bytes(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0).octets());
    Address::from_ip(Ipv6Addr::from_bits(base + ((at / 256) << 64) + at % 256).into())
}

/// A number made of two others and the seed (splitmix64): no state, so that any row can be made
/// by itself.
const fn mix(seed: u64, n: u64) -> u64 {
    let mut x = seed ^ n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The name of the `n`-th validator.
#[must_use]
pub fn validator(n: u32) -> String {
    format!("bench-{n:03}")
}

fn port(n: u32) -> String {
    format!("port-{n}")
}

/// The claim, which is the fence, of the `n`-th validator.
fn claim(n: u32) -> i64 {
    i64::from(n) + 1
}

/// Microseconds: deadlines lie so far ahead that no bench meets one.
const YEAR: i64 = 365 * 24 * 3_600 * 1_000_000;

/// Makes the database at `path`, which must not exist, and fills it. `now`: the time of the
/// newest row.
///
/// # Errors
/// [`OpenError`]: the file cannot be made or written.
pub fn fill(path: &Path, amounts: &Amounts, now: Utc) -> Result<(), OpenError> {
    let mut connection = conn::open_writer(path)?;
    migrate::migrate(&mut connection)?;
    let failed = |source: rusqlite::Error| OpenError::Open {
        path: path.to_owned(),
        source: source.into(),
    };
    fill_all(&mut connection, amounts, now).map_err(failed)
}

fn fill_all(connection: &mut Connection, amounts: &Amounts, now: Utc) -> rusqlite::Result<()> {
    // Nobody waits for a row of this database to be durable.
    connection.pragma_update(None, "synchronous", "off")?;
    connection.pragma_update(None, "cache_size", -400_000)?;
    let mut all: Vec<String> = (0..amounts.registry)
        .map(|n| address(n).to_string())
        .collect();
    // Rows then come in the order of the indexes by address, which is a hundred times kinder.
    all.sort_unstable();
    let fill = Fill {
        amounts: *amounts,
        now: now.as_micros(),
        all,
    };
    let tables: [fn(&Fill, &Transaction<'_>) -> rusqlite::Result<()>; 4] =
        [Fill::registry, Fill::queue, Fill::owners, Fill::checks];
    for table in tables {
        let tx = connection.transaction()?;
        table(&fill, &tx)?;
        blocks::settle(&tx)?;
        tx.commit()?;
    }
    connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
}

struct Fill {
    amounts: Amounts,
    now: i64,
    /// In the order of their texts; the id of an address is its place, from 1.
    all: Vec<String>,
}

/// A row of the queue, as far as rows differ.
#[derive(Default)]
struct Queued {
    state: &'static str,
    verdict: Option<&'static str>,
    cause: Option<&'static str>,
    result: &'static str,
    owner: Option<u32>,
    aggregated_at: Option<i64>,
}

impl Queued {
    fn ended(at: u64, aggregated_at: i64) -> Self {
        let (state, verdict, cause, result) = match at {
            0 => ("occupied", None, None, ""),
            1 => ("failed", None, Some("cancelled"), "cancelled"),
            2 => ("failed", None, Some("self_check_retries"), "fail"),
            3 => ("done", Some("partial"), None, "partial"),
            4 => ("done", Some("fail"), None, "fail"),
            _ => ("done", Some("pass"), None, "pass"),
        };
        Self {
            state,
            verdict,
            cause,
            result,
            owner: None,
            aggregated_at: verdict.map(|_| aggregated_at),
        }
    }
}

const RESULTS: [(&str, u64); 4] = [
    ("pass", 80),
    ("partial", 87),
    ("fail", 98),
    ("cancelled", 100),
];

/// Check types of an attempt, each with its target.
const CHECKS: [(&str, &str); 8] = [
    ("https", "https://hub.docker.com"),
    ("https", "https://github.com"),
    ("icmp", "192.0.2.1"),
    ("icmp", "192.0.2.2"),
    ("tcp", "192.0.2.1:443"),
    ("http", "http://deb.debian.org"),
    ("ssh", "192.0.2.1:22"),
    ("tls", "192.0.2.1:443"),
];

impl Fill {
    fn random(&self, n: u32, bound: u64) -> u64 {
        mix(self.amounts.seed, n.into()) % bound
    }

    fn addresses(&self) -> impl Iterator<Item = (u32, &String)> {
        (0_u32..).zip(&self.all)
    }

    fn registry(&self, tx: &Transaction<'_>) -> rusqlite::Result<()> {
        const SQL: &str = "INSERT INTO registry (address, first_seen_at, last_seen_at, \
             total_cycles, last_result, last_checked_at) VALUES (?1, ?2, ?2, 1, ?3, ?4)";
        let mut statement = tx.prepare(SQL)?;
        for (n, address) in self.addresses() {
            let never = self.random(n, 20) == 0;
            let at = self.random(n, 100);
            let result = RESULTS.iter().find(|(_, below)| !never && at < *below);
            let result = result.map_or("", |(result, _)| *result);
            let checked = (!never).then_some(self.now);
            statement.execute(params![address, self.now, result, checked])?;
        }
        Ok(())
    }

    /// Places in `all` of the addresses in the queue, in the order of claiming.
    fn places(&self) -> Vec<u32> {
        let Amounts {
            registry,
            queued,
            ended,
            validators,
            ..
        } = self.amounts;
        let wanted = queued + ended + validators;
        let step = (registry / wanted.max(1)).max(1);
        let mut places: Vec<u32> = (0..wanted).map(|n| n * step).collect();
        // Neighbours come together, as operators enqueue them: lists of 256.
        places.sort_by_key(|n| (mix(self.amounts.seed, (n / step / 256).into()), *n));
        places
    }

    fn queue(&self, tx: &Transaction<'_>) -> rusqlite::Result<()> {
        const EVENT: &str = "INSERT INTO events (ip_id, address, cycle_id, event_type, severity, \
             payload, occurred_at) SELECT id, address, 1, ?1, 'info', '{}', created_at FROM ips \
             WHERE ?1 = 'enqueued' OR aggregated_at IS NOT NULL";
        let Amounts {
            ended, validators, ..
        } = self.amounts;
        for (order, place) in (0_u32..).zip(self.places()) {
            let row = if order < validators {
                Queued {
                    state: "checking",
                    owner: Some(order),
                    ..Queued::default()
                }
            } else if order < validators + ended {
                Queued::ended(self.random(place, 12), self.now + i64::from(order))
            } else {
                Queued {
                    state: "queued",
                    ..Queued::default()
                }
            };
            self.queue_row(tx, order, place, &row)?;
        }
        for what in ["enqueued", "aggregated"] {
            tx.execute(EVENT, [what])?;
        }
        Ok(())
    }

    fn queue_row(
        &self,
        tx: &Transaction<'_>,
        order: u32,
        place: u32,
        row: &Queued,
    ) -> rusqlite::Result<()> {
        const SQL: &str = "INSERT INTO ips (id, address, sequence, state, verdict, cause, result, \
             cycle_id, attempt_no, claim_no, validator_id, port_id, fip_id, due_at, associated_at, \
             checking_at, aggregated_at, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, \
             ?7, 1, 1, ?8, ?9, ?10, ?11, ?12, ?13, ?13, ?14, ?15, ?15)";
        let address = usize::try_from(place).ok().and_then(|at| self.all.get(at));
        let Some(address) = address else {
            return Ok(());
        };
        tx.prepare_cached(SQL)?.execute(params![
            i64::from(place) + 1,
            address,
            i64::from(order) + 1,
            row.state,
            row.verdict,
            row.cause,
            row.result,
            row.owner.map_or(0, claim),
            row.owner.map(validator),
            row.owner.map(port),
            row.owner.map(|n| format!("fip-{n}")),
            row.owner.map(|_| self.now + YEAR),
            row.owner.map(|_| self.now),
            row.aggregated_at,
            self.now,
        ])?;
        Ok(())
    }

    /// Validators and the leases through which they own the addresses in `checking`.
    fn owners(&self, tx: &Transaction<'_>) -> rusqlite::Result<()> {
        const VALIDATOR: &str = "INSERT INTO validators (validator_id, port_id, registered, \
             last_seen_at, created_at, updated_at) VALUES (?1, ?2, 1, ?3, ?3, ?3)";
        const LEASES: &str = "INSERT INTO leases (claim_no, ip_id, cycle_id, address, \
             validator_id, port_id, fip_id, attached, heard, made_at, changed_at) \
             SELECT claim_no, id, cycle_id, address, validator_id, port_id, fip_id, 1, 1, \
             checking_at, checking_at FROM ips WHERE state = 'checking'";
        const SETTINGS: &str = "INSERT INTO settings (id, fip_settle_seconds, inbound_ports, \
             inbound_icmp) VALUES (1, 0, '[22, 443]', 1)";
        for n in 0..self.amounts.validators {
            let parameters = params![validator(n), port(n), self.now];
            tx.prepare_cached(VALIDATOR)?.execute(parameters)?;
        }
        tx.execute(LEASES, [])?;
        tx.execute(SETTINGS, [])?;
        tx.execute(
            "UPDATE runtime SET last_claim = ?1, alive_at = ?2",
            params![self.amounts.validators, self.now],
        )?;
        Ok(())
    }

    fn checks(&self, tx: &Transaction<'_>) -> rusqlite::Result<()> {
        const SQL: &str = "INSERT INTO checks (ip_id, address, cycle_id, attempt_no, claim_no, \
             source, check_type, target, success, latency_ms, detail, checked_at, received_at) \
             VALUES (?1, ?2, 1, 1, 0, 'egress', ?3, ?4, ?5, ?6, 'ok', ?7, ?7)";
        let Amounts {
            checks, registry, ..
        } = self.amounts;
        let mut statement = tx.prepare(SQL)?;
        for (n, address) in self.addresses() {
            // Each address gets its share, the first ones one more.
            let share = checks / registry + u32::from(n < checks % registry);
            let at = self.random(n, 1_000);
            for (kind, target) in CHECKS.iter().cycle().take(share as usize) {
                let id = i64::from(n) + 1;
                let latency = i64::try_from(at).unwrap_or(0);
                statement.execute(params![
                    id,
                    address,
                    kind,
                    target,
                    at > 50,
                    latency,
                    self.now
                ])?;
            }
        }
        Ok(())
    }
}
