//! The database as it is seen from outside, through a connection of our own.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::backup::Backup;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, Row};

/// The number at the end of a name: `v2`, `port-3`, `203.0.113.4`, `site-1`.
pub(crate) fn number(text: &str) -> u8 {
    let digits = text.trim_start_matches(|c: char| !c.is_ascii_digit());
    let last = digits.rsplit(['.', '-']).next().unwrap_or_default();
    last.parse().unwrap_or(0)
}

fn name(row: &Row<'_>, column: usize) -> rusqlite::Result<u8> {
    Ok(match row.get_ref(column)? {
        ValueRef::Text(text) => number(&String::from_utf8_lossy(text)),
        _ => 0,
    })
}

/// The states by their words.
pub(crate) const STATES: [&str; 8] = [
    "queued",
    "assigning_fip",
    "awaiting_self_check",
    "checking",
    "aggregating",
    "done",
    "failed",
    "occupied",
];

fn word(row: &Row<'_>, column: usize) -> rusqlite::Result<&'static str> {
    Ok(match row.get_ref(column)? {
        ValueRef::Text(text) => STATES
            .into_iter()
            .chain(["pass", "partial", "fail", "cancelled"])
            .chain(["assign_retries", "self_check_retries"])
            .find(|word| word.as_bytes() == text)
            .unwrap_or("?"),
        _ => "",
    })
}

/// An address in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ip {
    pub(crate) id: i64,
    pub(crate) address: u8,
    pub(crate) sequence: i64,
    pub(crate) state: &'static str,
    pub(crate) verdict: &'static str,
    pub(crate) cause: &'static str,
    pub(crate) attempt: i64,
    pub(crate) claim: i64,
    pub(crate) assign: i64,
    pub(crate) self_check: i64,
    pub(crate) due: Option<i64>,
    pub(crate) associated: Option<i64>,
    pub(crate) checking: Option<i64>,
    pub(crate) egress_complete: bool,
}

impl Ip {
    /// Holds a floating IP, or may.
    pub(crate) fn holds(&self) -> bool {
        matches!(
            self.state,
            "assigning_fip" | "awaiting_self_check" | "checking"
        )
    }

    /// Has come to its end.
    pub(crate) fn ended(&self) -> bool {
        matches!(self.state, "done" | "failed" | "occupied")
    }
}

/// A lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) claim: i64,
    pub(crate) ip: Option<i64>,
    pub(crate) address: u8,
    /// 0: none.
    pub(crate) validator: u8,
    pub(crate) port: u8,
    pub(crate) attached: bool,
    pub(crate) releasing: bool,
    /// Orders of it: associate, release.
    pub(crate) orders: (bool, bool),
}

/// A validator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Validator {
    pub(crate) port: u8,
    pub(crate) registered: bool,
    pub(crate) silenced: Option<i64>,
    pub(crate) paused: Option<i64>,
    pub(crate) why: bool,
}

/// Everything that moves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Snap {
    pub(crate) ips: BTreeMap<i64, Ip>,
    pub(crate) leases: Vec<Lease>,
    pub(crate) validators: BTreeMap<u8, Validator>,
}

/// An entry of the history.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) id: i64,
    pub(crate) ip: Option<i64>,
    pub(crate) address: u8,
    pub(crate) validator: u8,
    pub(crate) kind: String,
    pub(crate) severity: String,
    pub(crate) payload: String,
}

/// A check by its key: source, site, type, target.
pub(crate) type Spec = (String, String, String, String);

/// What a verdict rests on.
#[derive(Debug, Clone, Default)]
pub(crate) struct Basis {
    pub(crate) expected: BTreeSet<Spec>,
    pub(crate) configured: BTreeSet<Spec>,
    pub(crate) results: BTreeMap<Spec, bool>,
    pub(crate) inconclusive: BTreeSet<Spec>,
    pub(crate) sites_complete: BTreeSet<String>,
}

/// The connection.
#[derive(Debug)]
pub(crate) struct View(Connection);

impl View {
    /// Opens the database; it lives as long as any connection does.
    pub(crate) fn open(uri: &str) -> rusqlite::Result<Self> {
        let connection = Connection::open_with_flags(uri, OpenFlags::default())?;
        connection.set_prepared_statement_cache_capacity(64);
        Ok(Self(connection))
    }

    /// Makes it what another one is.
    pub(crate) fn copy_from(&mut self, template: &Self) -> rusqlite::Result<()> {
        let backup = Backup::new(&template.0, &mut self.0)?;
        backup.step(-1).map(drop)
    }

    fn rows<T>(
        &self,
        sql: &str,
        parameters: impl rusqlite::Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Vec<T> {
        let mut statement = self.0.prepare_cached(sql).expect("a statement");
        let rows = statement.query_map(parameters, read).expect("rows");
        rows.collect::<Result<_, _>>().expect("a row")
    }

    /// One number.
    pub(crate) fn count(&self, sql: &str, parameters: impl rusqlite::Params) -> i64 {
        let mut statement = self.0.prepare_cached(sql).expect("a statement");
        let read = |row: &Row<'_>| row.get::<_, Option<i64>>(0);
        let found = statement.query_row(parameters, read).optional();
        found.expect("a number").flatten().unwrap_or(0)
    }

    /// Everything that moves.
    pub(crate) fn snap(&self) -> Snap {
        let ips = self.rows(
            "SELECT id, address, sequence, state, verdict, cause, attempt_no, claim_no, \
             assign_retries, self_check_retries, due_at, associated_at, checking_at, \
             egress_complete FROM ips",
            [],
            |row| {
                Ok(Ip {
                    id: row.get(0)?,
                    address: name(row, 1)?,
                    sequence: row.get(2)?,
                    state: word(row, 3)?,
                    verdict: word(row, 4)?,
                    cause: word(row, 5)?,
                    attempt: row.get(6)?,
                    claim: row.get(7)?,
                    assign: row.get(8)?,
                    self_check: row.get(9)?,
                    due: row.get(10)?,
                    associated: row.get(11)?,
                    checking: row.get(12)?,
                    egress_complete: row.get(13)?,
                })
            },
        );
        let leases = self.rows(
            "SELECT claim_no, ip_id, address, validator_id, port_id, attached, releasing, \
             EXISTS (SELECT 1 FROM outbox o WHERE o.claim_no = l.claim_no \
                 AND kind = 'associate'), \
             EXISTS (SELECT 1 FROM outbox o WHERE o.claim_no = l.claim_no AND kind = 'release') \
             FROM leases l",
            [],
            |row| {
                Ok(Lease {
                    claim: row.get(0)?,
                    ip: row.get(1)?,
                    address: name(row, 2)?,
                    validator: name(row, 3)?,
                    port: name(row, 4)?,
                    attached: row.get(5)?,
                    releasing: row.get(6)?,
                    orders: (row.get(7)?, row.get(8)?),
                })
            },
        );
        let validators = self.rows(
            "SELECT validator_id, port_id, registered, silenced_at, paused_until, paused_why \
             FROM validators",
            [],
            |row| {
                let why: String = row.get(5)?;
                let one = Validator {
                    port: name(row, 1)?,
                    registered: row.get(2)?,
                    silenced: row.get(3)?,
                    paused: row.get(4)?,
                    why: !why.is_empty(),
                };
                Ok((name(row, 0)?, one))
            },
        );
        Snap {
            ips: ips.into_iter().map(|ip| (ip.id, ip)).collect(),
            leases,
            validators: validators.into_iter().collect(),
        }
    }

    /// Entries of the history behind `last`.
    pub(crate) fn events(&self, last: i64) -> Vec<Event> {
        self.rows(
            "SELECT id, ip_id, address, validator_id, event_type, severity, payload FROM events \
             WHERE id > ?1 ORDER BY id",
            [last],
            |row| {
                Ok(Event {
                    id: row.get(0)?,
                    ip: row.get(1)?,
                    address: name(row, 2)?,
                    validator: name(row, 3)?,
                    kind: row.get(4)?,
                    severity: row.get(5)?,
                    payload: row.get(6)?,
                })
            },
        )
    }

    /// What the verdict of an attempt rests on.
    pub(crate) fn basis(&self, ip: &Ip) -> Basis {
        let spec = |row: &Row<'_>| -> rusqlite::Result<Spec> {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        };
        let of = |table: &str| {
            let sql =
                format!("SELECT source, site_id, check_type, target FROM {table} WHERE ip_id = ?1");
            self.rows(&sql, [ip.id], spec).into_iter().collect()
        };
        let results = self.rows(
            "SELECT source, site_id, check_type, target, success FROM checks \
             WHERE ip_id = ?1 AND attempt_no = ?2 AND claim_no = ?3",
            [ip.id, ip.attempt, ip.claim],
            |row| Ok((spec(row)?, row.get(4)?)),
        );
        Basis {
            expected: of("(SELECT * FROM expected_checks WHERE NOT gone)"),
            configured: self.configured(),
            results: results.into_iter().collect(),
            inconclusive: of("inconclusive_checks"),
            sites_complete: self
                .rows(
                    "SELECT site_id FROM site_progress WHERE ip_id = ?1",
                    [ip.id],
                    |row| row.get(0),
                )
                .into_iter()
                .collect(),
        }
    }

    /// The checks that are configured.
    fn configured(&self) -> BTreeSet<Spec> {
        let mut all: BTreeSet<Spec> = self
            .rows(
                "SELECT DISTINCT c.name, t.value FROM check_types c, json_each(c.\"groups\") g, \
                 target_groups tg, json_each(tg.targets) t \
                 WHERE c.enabled AND tg.name = g.value",
                [],
                |row| {
                    let source = "egress".to_owned();
                    Ok((source, String::new(), row.get(0)?, row.get(1)?))
                },
            )
            .into_iter()
            .collect();
        let sites: Vec<String> = self.rows("SELECT site_id FROM sites", [], |row| row.get(0));
        let ports: Vec<i64> = self.rows(
            "SELECT p.value FROM settings, json_each(inbound_ports) p",
            [],
            |row| row.get(0),
        );
        let mut names: Vec<String> = ports.iter().map(|port| format!("tcp-{port}")).collect();
        names.extend(ports.contains(&22).then(|| "ssh".to_owned()));
        names.extend(ports.contains(&443).then(|| "tls-443".to_owned()));
        let icmp = self.count("SELECT inbound_icmp FROM settings", []) == 1;
        names.extend(icmp.then(|| "icmp".to_owned()));
        for site in sites {
            all.extend(names.iter().map(|check| {
                let source = "inbound".to_owned();
                (source, site.clone(), check.clone(), String::new())
            }));
        }
        all
    }

    /// What is stored of a check: the detail and the claim.
    pub(crate) fn result(&self, ip: i64, attempt: i64, spec: &Spec) -> Option<(String, i64)> {
        let (source, site, check, target) = spec;
        self.rows(
            "SELECT detail, claim_no FROM checks WHERE ip_id = ?1 AND attempt_no = ?2 \
             AND source = ?3 AND site_id = ?4 AND check_type = ?5 AND target = ?6",
            rusqlite::params![ip, attempt, source, site, check, target],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .pop()
    }

    /// All moments that a restart is to move, by name, and the last sign of life.
    pub(crate) fn moments(&self) -> (BTreeMap<String, i64>, Option<i64>) {
        let all = self.rows(
            "SELECT CASE WHEN state IN ('awaiting_self_check', 'checking') \
                 THEN 'report of ' ELSE 'due of ' END || id, due_at \
                 FROM ips WHERE due_at IS NOT NULL \
             UNION ALL SELECT 'pause of ' || id, associated_at FROM ips \
                 WHERE state = 'awaiting_self_check' \
             UNION ALL SELECT 'silence of ' || validator_id, silenced_at FROM validators \
                 WHERE silenced_at IS NOT NULL \
             UNION ALL SELECT 'port of ' || validator_id, paused_until FROM validators \
                 WHERE paused_until IS NOT NULL \
             UNION ALL SELECT 'heartbeat of ' || validator_id, last_seen_at FROM validators \
                 WHERE last_seen_at IS NOT NULL \
             UNION ALL SELECT kind || ' of ' || claim_no, not_before FROM outbox",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        );
        let alive = self.rows("SELECT alive_at FROM runtime", [], |row| row.get(0));
        (
            all.into_iter().collect(),
            alive.into_iter().next().flatten(),
        )
    }
}
