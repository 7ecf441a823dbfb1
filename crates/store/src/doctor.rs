//! What in the database contradicts itself, and how it is put right: by the machine of an address
//! and the outbox wherever these can do it, by plain SQL only for what merely counts or remembers.

mod questions;

use std::path::Path;

use civ_orch::attempt::{Event, StateName};
use civ_types::{ClaimNo, IpId, Utc};
use rusqlite::{Connection, params};

use crate::advance::{NotAdvanced, advance};
use crate::codec::{complain, readable, word};
use crate::conn::{self, ReadConn, WriteTx};
use crate::error::{OpenError, StoreError, is_damage};
use crate::hint::Hint;
use crate::leases::{self, Call};
use crate::lock::{self, Lock};
use crate::{Rules, blocks, integrity, migrate, restore, schema};
use questions::{ATTEMPT_WITHOUT_LEASE, LEASE_WITHOUT_ATTEMPT, NO_DEADLINE};
use questions::{OUTBOX_WITHOUT_LEASE, QUESTIONS, RELEASE_NOT_ASKED, REPAIRS};

/// Rows of one kind that are named; of more, only how many.
const NAMED_MAX: usize = 20;

/// A kind of contradiction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Pages or indexes are damaged.
    Damage,
    /// The schema is not what the migrations make.
    Schema,
    /// Writes that were answered are not there.
    LostWrites,
    /// A row that no version could have written.
    Row,
    /// A row that speaks of one that is not there.
    Dangling,
    /// A state that ends by a deadline has none.
    NoDeadline,
    /// A lease that no attempt holds and nobody releases.
    LeaseWithoutAttempt,
    /// An attempt whose address should be on a port, without a lease.
    AttemptWithoutLease,
    /// A lease that is to be released, without the call that does it.
    ReleaseNotAsked,
    /// Counts of blocks are not those of the rows.
    Counts,
    /// A receiver's count of notifications is not that of the rows.
    Waiting,
    /// An address of the queue that the registry does not know.
    NotInRegistry,
    /// Results of an address that the registry does not know.
    OrphanResults,
}

impl Kind {
    /// Its word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Damage => "damage",
            Self::Schema => "schema",
            Self::LostWrites => "lost_writes",
            Self::Row => "row",
            Self::Dangling => "dangling",
            Self::NoDeadline => "no_deadline",
            Self::LeaseWithoutAttempt => "lease_without_attempt",
            Self::AttemptWithoutLease => "attempt_without_lease",
            Self::ReleaseNotAsked => "release_not_asked",
            Self::Counts => "counts",
            Self::Waiting => "waiting",
            Self::NotInRegistry => "not_in_registry",
            Self::OrphanResults => "orphan_results",
        }
    }

    /// Whether [`repair`] or [`accept_loss`] can put it right.
    #[must_use]
    pub const fn is_repairable(self) -> bool {
        !matches!(self, Self::Damage | Self::Schema | Self::Row)
    }
}

/// One contradiction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Of which kind.
    pub kind: Kind,
    /// Where, and what is seen there.
    pub text: String,
}

fn found(kind: Kind, text: impl Into<String>) -> Finding {
    let text = text.into();
    Finding { kind, text }
}

/// Looks at the whole database, however large it is, beside whoever works on it.
///
/// # Errors
/// [`OpenError`]: it cannot be read at all, is not ours, or a newer version wrote it.
pub fn examine(path: &Path) -> Result<Vec<Finding>, OpenError> {
    let failed = |source| OpenError::of(path, source);
    // Before the snapshot, so that what is answered meanwhile is no loss.
    let noted = lock::noted_beside(path);
    let connection = conn::open_to_look(path).map_err(failed)?;
    let snapshot = connection.unchecked_transaction().map_err(failed)?;
    let version = schema::version(&snapshot).map_err(failed)?;
    let known = migrate::known();
    if known < version {
        let found = version;
        return Err(OpenError::Newer { found, known });
    }
    let is_empty = version < 1 && schema::is_empty(&snapshot).map_err(failed)?;
    if version < 1 && !is_empty {
        let path = path.to_owned();
        return Err(OpenError::Foreign { path });
    }
    let mut all = Vec::new();
    for fault in damage(&snapshot).map_err(failed)? {
        all.push(found(Kind::Damage, fault));
    }
    let ends = if is_empty {
        Ok(None)
    } else {
        integrity::last_write(&snapshot)
    };
    // A table that cannot be read is a finding already.
    if let (Some(noted), Ok(ends)) = (noted, ends)
        && ends.is_none_or(|ends| ends < noted)
    {
        let ends = ends.map_or_else(|| "nothing".to_owned(), |ends| ends.to_string());
        let text = format!("the database ends at {ends}, writes were answered up to {noted}");
        all.push(found(Kind::LostWrites, text));
    }
    if is_empty {
        return Ok(all);
    }
    if let Ok(drift) = schema::drift(&snapshot, version) {
        all.extend(drifted(drift));
    }
    // Rows of an older schema cannot be judged, those on damaged pages not be read.
    let is_readable = all.iter().all(|one| one.kind == Kind::LostWrites);
    if is_readable && version == known {
        all.extend(rows(&snapshot).map_err(failed)?);
    }
    Ok(all)
}

fn damage(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    match integrity::everything(connection) {
        Err(error) if is_damage(&error) => Ok(vec![error.to_string()]),
        told => told,
    }
}

fn drifted(drift: schema::Drift) -> impl Iterator<Item = Finding> {
    let told = [
        ("is missing", drift.missing),
        ("is not as it was made", drift.changed),
        ("is not ours", drift.extra),
    ];
    told.into_iter().flat_map(|(how, names)| {
        let texts = names.into_iter().map(move |name| format!("{name} {how}"));
        texts.map(|text| found(Kind::Schema, text))
    })
}

fn rows(connection: &Connection) -> rusqlite::Result<Vec<Finding>> {
    let mut all = Vec::new();
    for bad in integrity::rows(connection, None)? {
        let text = format!("table {}, row {}: {}", bad.table, bad.key, bad.what);
        all.push(found(Kind::Row, text));
    }
    for text in integrity::foreign_keys(connection)? {
        all.push(found(Kind::Dangling, text));
    }
    for (kind, sql) in QUESTIONS {
        let mut statement = connection.prepare(sql)?;
        let texts = statement.query_map([], |row| row.get::<_, String>(0))?;
        let texts: Vec<String> = texts.collect::<Result<_, _>>()?;
        let n_more = texts.len().saturating_sub(NAMED_MAX);
        let named = texts.into_iter().take(NAMED_MAX);
        all.extend(named.map(|text| found(*kind, text)));
        if n_more > 0 {
            all.push(found(*kind, format!("and {n_more} more")));
        }
    }
    Ok(all)
}

/// Puts right what [`examine`] has found within rows. What is to be released stands in the outbox
/// then, and is released like anything else.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn repair(tx: &mut WriteTx<'_>) -> Result<(), StoreError> {
    for sql in REPAIRS {
        tx.sql().execute(sql, [])?;
    }
    for id in numbers(tx, NO_DEADLINE)? {
        let sql = "UPDATE ips SET due_at = ?2 WHERE id = ?1";
        tx.sql().execute(sql, params![id, tx.now().as_micros()])?;
    }
    end_attempts(tx)?;
    for claim in numbers(tx, LEASE_WITHOUT_ATTEMPT)? {
        leases::releasing(tx, ClaimNo(claim))?;
    }
    for claim in numbers(tx, RELEASE_NOT_ASKED)? {
        leases::ask(tx, ClaimNo(claim), Call::Release)?;
        tx.hint(Hint::Outbox);
    }
    if is_miscounted(tx)? {
        blocks::begin_anew(tx.sql())?;
    }
    Ok(())
}

/// The second column of an answer.
fn numbers(tx: &WriteTx<'_>, sql: &str) -> Result<Vec<i64>, StoreError> {
    let mut statement = tx.sql().prepare(sql)?;
    let numbers = statement.query_map([], |row| row.get(1))?;
    Ok(numbers.collect::<Result<_, _>>()?)
}

/// The machine decides what becomes of an address that is on no port of ours.
fn end_attempts(tx: &mut WriteTx<'_>) -> Result<(), StoreError> {
    let attempts: Vec<(IpId, ClaimNo, StateName)> = {
        let mut statement = tx.sql().prepare(ATTEMPT_WITHOUT_LEASE)?;
        let rows = statement.query_map([], |row| {
            let state = word(row, "state", StateName::parse)?;
            Ok((IpId(row.get(1)?), ClaimNo(row.get(2)?), state))
        })?;
        readable(rows)?
    };
    // The release that the machine asks for has no lease to stand on. If the address is on our
    // port, it is found there without an owner, like any other.
    tx.sql().pragma_update(None, "defer_foreign_keys", true)?;
    for (ip, claim, state) in attempts {
        let Some(report) = restore::left_alone(state, "its lease was missing") else {
            continue;
        };
        match advance(tx, ip, &Event::Report(claim, report)) {
            Ok(_) | Err(NotAdvanced::Unknown | NotAdvanced::Refused(_)) => {}
            // Such a row is a finding of its own.
            Err(NotAdvanced::Store(StoreError::Corrupt { what })) => complain(&what),
            Err(NotAdvanced::Store(error)) => return Err(error),
        }
    }
    tx.sql().execute(OUTBOX_WITHOUT_LEASE, [])?;
    Ok(())
}

fn is_miscounted(conn: &ReadConn<'_>) -> Result<bool, StoreError> {
    for (_, sql) in QUESTIONS.iter().filter(|(kind, _)| *kind == Kind::Counts) {
        if conn.sql().prepare(sql)?.exists([])? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether nobody works on the database at this moment.
///
/// # Errors
/// [`OpenError`]: somebody does, or that cannot be known.
pub fn is_free(path: &Path) -> Result<(), OpenError> {
    Lock::take(path).map(drop)
}

/// Goes on without writes that were answered and are not there: numbers go far on, so that none of
/// those that were given out is given out again. Nobody may work on the database.
///
/// # Errors
/// [`OpenError`]: a process works on it, or it cannot be written.
pub fn accept_loss(path: &Path, now: Utc, rules: Rules) -> Result<(), OpenError> {
    let failed = |source| OpenError::of(path, source);
    let cannot = |source: Box<dyn std::error::Error + Send + Sync>| OpenError::Open {
        path: path.to_owned(),
        source,
    };
    let lock = Lock::take(path)?;
    let mut connection = conn::open_writer(path)?;
    migrate::migrate(&mut connection)?;
    let tx = connection.transaction().map_err(failed)?;
    let renumbered = restore::renumber_unknown(&WriteTx::new(&tx, now, rules));
    renumbered.map_err(|error| cannot(error.into()))?;
    tx.commit().map_err(failed)?;
    lock.forget().map_err(|error| cannot(error.into()))
}
