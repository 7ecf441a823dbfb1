//! A backup takes the place of the database: verified first, whole or not at all, and such that
//! nothing that was given out since is given out again.
//!
//! Agents, readers of the history and the cloud go on from today, while the database goes back. So
//! its numbers (claims, addresses in the queue, events, results) go on behind today's, and ports
//! that are not ours any more are left alone.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use civ_orch::attempt::{Event, FaultKind, Report, StateName};
use civ_orch::reconcile::Held;
use civ_types::{IpId, PortId, Utc, ValidatorId};
use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior, params};
use serde_json::json;

use crate::advance::{NotAdvanced, advance};
use crate::backup::{self, BackupError, Partial, Snapshot, Watch};
use crate::codec::word;
use crate::conn::{self, ReadConn, WriteTx};
use crate::error::{OpenError, StoreError};
use crate::events::{self, NewEvent, Severity};
use crate::leases;
use crate::lock::Lock;
use crate::{Rules, blocks, catch_up, integrity, migrate, validators};

/// How far numbers are moved on when nobody can say which were given out since the backup: more
/// than a thousand a second for ten days, and no number becomes too large for JSON by it.
const JUMP: i64 = 1_000_000_000;

/// The tables whose numbers are given to others.
const NUMBERED: [&str; 4] = ["ips", "events", "checks", "notifications"];

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// What was put in place.
    pub made: backup::Made,
    /// The version of the schema that the backup had; it has been brought to this program's.
    pub version: i64,
    /// Where the database is that was there; `None` if there was none.
    pub aside: Option<PathBuf>,
    /// Why the database that was there could not say which numbers and ports are in use today.
    pub unread: Option<String>,
    /// Validators of the backup whose port is not ours any more: they were left out.
    pub dropped: Vec<(ValidatorId, PortId)>,
}

/// Why nothing was restored. Nothing was changed, unless it says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The place cannot be had: a process works on the database, or the folder is not writable.
    #[error(transparent)]
    Place(#[from] OpenError),
    /// The backup cannot be used, or not be copied.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// The copy could not be made ready.
    #[error("the copy of the backup could not be prepared")]
    Prepare(#[from] StoreError),
    /// A file could not be moved.
    #[error("{done}: cannot move {}; run the same command again", path.display())]
    Move {
        /// Which file.
        path: PathBuf,
        /// How far it is.
        done: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

/// What the database that is there knows of today.
#[derive(Debug, Default)]
struct Today {
    last_claim: i64,
    numbers: Vec<(&'static str, i64)>,
    ports: BTreeSet<PortId>,
    /// Writes that were answered are not in it: more is in use than it knows of.
    lacks_writes: bool,
}

impl Today {
    fn read(path: &Path, noted: Option<Utc>) -> Result<Self, StoreError> {
        let connection = conn::open_to_look(path)?;
        let ends = integrity::last_write(&connection)?;
        let sql = "SELECT last_claim FROM runtime WHERE id = 1";
        let last_claim = connection.query_row(sql, [], |row| row.get(0))?;
        let mut numbers = Vec::new();
        for table in NUMBERED {
            numbers.push((table, last_number(&connection, table)?));
        }
        let ports = leases::ports(&ReadConn::new(&connection))?;
        Ok(Self {
            last_claim,
            numbers,
            ports: ports.into_iter().collect(),
            lacks_writes: noted.is_some_and(|noted| ends.is_none_or(|ends| ends < noted)),
        })
    }

    fn last(&self, table: &str) -> i64 {
        let found = self.numbers.iter().find(|(name, _)| *name == table);
        found.map_or(0, |(_, last)| *last)
    }
}

fn last_number(connection: &Connection, table: &str) -> rusqlite::Result<i64> {
    let sql = "SELECT seq FROM sqlite_sequence WHERE name = ?1";
    let last: Option<i64> = connection
        .query_row(sql, [table], |row| row.get(0))
        .optional()?;
    Ok(last.unwrap_or(0))
}

/// Puts a copy of `from` in the place of the database `path`, which nobody may work on; the one
/// that is there is kept beside it under another name.
///
/// Blocks for as long as it takes: not to be called on an async worker.
///
/// # Errors
/// [`RestoreError`].
pub fn restore(
    from: &Path,
    path: &Path,
    now: Utc,
    rules: Rules,
    watch: Watch<'_>,
) -> Result<Restored, RestoreError> {
    let lock = Lock::take(path)?;
    if backup::is_same(from, path) {
        return Err(BackupError::Itself {
            to: path.to_owned(),
        }
        .into());
    }
    let snapshot = Snapshot::open(from)?;
    let version = snapshot.version;
    // Whoever has the lock is the only one to restore.
    Partial::sweep(path, Duration::ZERO);
    let partial = Partial::create(path)?;
    let made = snapshot.copy(&partial, watch)?;
    drop(snapshot);
    let (today, unread) = match today(path, lock.noted()) {
        Ok(today) if today.lacks_writes => {
            let why = "its last writes are missing".to_owned();
            (Some(today), Some(why))
        }
        Ok(today) => (Some(today), None),
        Err(why) => (None, Some(why)),
    };
    let aside = is_there(path).then(|| name_aside(path, now));
    let dropped = prepare(partial.path(), now, rules, today.as_ref(), |tx| {
        let payload = json!({
            "from": from.display().to_string(),
            "last_write": made.last_write.map(|at| at.to_string()),
            "kept_as": aside.as_ref().map(|path| path.display().to_string()),
        });
        let event = NewEvent {
            severity: Severity::Warning,
            payload: payload.to_string(),
            ..NewEvent::new("database_restored")
        };
        events::append(tx, &event)
    })?;
    hand_over(partial.path(), path);
    partial.sync()?;
    if unread.is_none() {
        fold_in(path);
    }
    exchange(path, partial, aside.as_deref())?;
    lock.forget().map_err(|source| RestoreError::Move {
        path: path.to_owned(),
        done: "the backup is in place, but its lock could not be renewed",
        source,
    })?;
    Ok(Restored {
        made,
        version,
        aside,
        unread,
        dropped,
    })
}

/// Whoever restores as root leaves the database to the user that it belonged to.
fn hand_over(copy: &Path, path: &Path) {
    if let Ok(old) = fs::metadata(path) {
        // Others than root may give nothing away, and it is theirs already.
        drop(std::os::unix::fs::chown(
            copy,
            Some(old.uid()),
            Some(old.gid()),
        ));
    }
}

fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

fn today(path: &Path, noted: Option<Utc>) -> Result<Today, String> {
    if !is_there(path) {
        return Err("there is none".to_owned());
    }
    Today::read(path, noted).map_err(|error| {
        let source = std::error::Error::source(&error).map(ToString::to_string);
        source.unwrap_or_else(|| error.to_string())
    })
}

/// `control-api.db.before-20261201T033411Z`, or with a number behind it if that is taken.
fn name_aside(path: &Path, now: Utc) -> PathBuf {
    let first = path.with_added_extension(format!("before-{}", now.compact()));
    let others = (2_u32..).map(|n| with_suffix(&first, &format!("-{n}")));
    let mut names = std::iter::once(first.clone()).chain(others);
    names.find(|name| !is_there(name)).unwrap_or(first)
}

/// Brings the copy to this version and to today.
fn prepare(
    copy: &Path,
    now: Utc,
    rules: Rules,
    today: Option<&Today>,
    tell: impl FnOnce(&mut WriteTx<'_>) -> Result<(), StoreError>,
) -> Result<Vec<(ValidatorId, PortId)>, RestoreError> {
    let mut connection = conn::open_writer(copy)?;
    migrate::migrate(&mut connection)?;
    catch_up(&mut connection).map_err(StoreError::from)?;
    let tx = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(StoreError::from)?;
    let mut write = WriteTx::new(&tx, now, rules);
    renumber(&write, today)?;
    let dropped = match today {
        Some(today) => drop_foreign(&mut write, &today.ports)?,
        None => Vec::new(),
    };
    tell(&mut write)?;
    blocks::settle(&tx).map_err(StoreError::from)?;
    tx.commit().map_err(StoreError::from)?;
    // One file again, without a log beside it.
    let mode: String = connection
        .pragma_update_and_check(None, "journal_mode", "delete", |row| row.get(0))
        .map_err(StoreError::from)?;
    if mode != "delete" {
        let what = format!("its journal mode stays {mode}");
        return Err(StoreError::corrupt(what).into());
    }
    Ok(dropped)
}

/// Lets all numbers go on behind those that were given out, or that may have been.
pub(crate) fn renumber_unknown(tx: &WriteTx<'_>) -> Result<(), StoreError> {
    renumber(tx, None)
}

fn renumber(tx: &WriteTx<'_>, today: Option<&Today>) -> Result<(), StoreError> {
    const CLAIM: &str = "UPDATE runtime SET last_claim = MAX(last_claim, ?1, ?2) + ?3";
    const NUMBER: &str = "UPDATE sqlite_sequence SET seq = MAX(seq, ?2) + ?3 WHERE name = ?1";
    // An empty table that never had a row has no entry.
    const NUMBER_NEW: &str = "INSERT INTO sqlite_sequence (name, seq) SELECT ?1, 0 \
         WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = ?1)";
    let jump = if today.is_some_and(|today| !today.lacks_writes) {
        0
    } else {
        JUMP
    };
    let none = Today::default();
    let today = today.unwrap_or(&none);
    // Claims follow the clock, but only a clock that was always right.
    let millis = tx.now().as_micros() / 1000;
    tx.sql()
        .execute(CLAIM, params![today.last_claim, millis, jump])?;
    for table in NUMBERED {
        tx.sql().execute(NUMBER_NEW, [table])?;
        let parameters = params![table, today.last(table), jump];
        tx.sql().execute(NUMBER, parameters)?;
    }
    Ok(())
}

/// Leaves out validators and leases on ports that are not ours any more: whatever is on them now
/// is somebody else's. Releases of ours had gone through before a port was given up.
fn drop_foreign(
    tx: &mut WriteTx<'_>,
    ours: &BTreeSet<PortId>,
) -> Result<Vec<(ValidatorId, PortId)>, StoreError> {
    for lease in leases::held(tx)? {
        if !ours.contains(&lease.port) {
            give_up(tx, &lease)?;
        }
    }
    let mut dropped = Vec::new();
    for (id, port) in validators::ports(tx)? {
        if !ours.contains(&port) {
            validators::delete(tx, &id)?;
            dropped.push((id, port));
        }
    }
    Ok(dropped)
}

/// The attempt goes back to the queue, or to its end if the verdict is there: by the machine, as
/// ever. The lease goes without a call to the cloud.
fn give_up(tx: &mut WriteTx<'_>, lease: &Held) -> Result<(), StoreError> {
    const SQL: &str = "SELECT id, state FROM ips WHERE claim_no = ?1 AND address = ?2";
    let why = format!("the port {} is not ours any more", lease.port);
    let attempt: Option<(IpId, StateName)> = tx
        .sql()
        .prepare_cached(SQL)?
        .query_row(params![lease.claim.0, lease.address.to_string()], |row| {
            Ok((IpId(row.get("id")?), word(row, "state", StateName::parse)?))
        })
        .optional()?;
    let report = attempt.and_then(|(ip, state)| Some((ip, left_alone(state, &why)?)));
    if let Some((ip, report)) = report {
        match advance(tx, ip, &Event::Report(lease.claim, report)) {
            Ok(_) | Err(NotAdvanced::Unknown | NotAdvanced::Refused(_)) => {}
            Err(NotAdvanced::Store(error)) => return Err(error),
        }
    }
    leases::delete(tx, lease.claim)?;
    let event = NewEvent {
        ip: attempt.map(|(ip, _)| ip),
        address: Some(lease.address),
        severity: Severity::Warning,
        payload: json!({ "found": why }).to_string(),
        ..NewEvent::new("reconciled")
    };
    events::append(tx, &event)
}

/// What the machine is told of an address that is on no port of ours.
pub(crate) fn left_alone(state: StateName, why: &str) -> Option<Report> {
    let why = why.to_owned();
    match state {
        StateName::AssigningFip => Some(Report::CloudFailed {
            kind: FaultKind::Cloud,
            why,
        }),
        StateName::AwaitingSelfCheck | StateName::Checking => Some(Report::Detached { seen: why }),
        StateName::Aggregating => Some(Report::Released),
        StateName::Queued | StateName::Done | StateName::Failed | StateName::Occupied => None,
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.to_owned().into_os_string();
    name.push(suffix);
    name.into()
}

/// The old files get their other name, the new one its own. A log that stayed behind would be
/// applied to the new database, so logs go before it comes. Whenever this is broken off, either the
/// old database is there and its end is looked at by the next start, or the new one.
fn exchange(path: &Path, new: Partial, aside: Option<&Path>) -> Result<(), RestoreError> {
    const UNTOUCHED: &str = "the database is as it was";
    const HALFWAY: &str = "the database was being put aside";
    let moved = |path: &Path, done| {
        let path = path.to_owned();
        move |source| RestoreError::Move { path, done, source }
    };
    if let Some(aside) = aside {
        for suffix in ["-wal", "-journal"] {
            let log = with_suffix(path, suffix);
            if is_there(&log) {
                fs::rename(&log, with_suffix(aside, suffix)).map_err(moved(&log, UNTOUCHED))?;
            }
        }
        keep(path, aside).map_err(moved(path, HALFWAY))?;
    }
    for suffix in ["-wal", "-journal", "-shm"] {
        let stale = with_suffix(path, suffix);
        if is_there(&stale) {
            fs::remove_file(&stale).map_err(moved(&stale, HALFWAY))?;
        }
    }
    backup::sync_folder(path).map_err(moved(path, HALFWAY))?;
    Ok(new.publish(true)?)
}

/// What the log has goes into the file that is kept: then it is one file. One that is damaged keeps
/// its log beside it, as it is.
fn fold_in(path: &Path) {
    let fold = || -> Result<(), OpenError> {
        let connection = conn::open_writer(path)?;
        let pragma = "PRAGMA wal_checkpoint(TRUNCATE)";
        let folded = connection.query_row(pragma, [], |_row| Ok(()));
        folded.map_err(|source| OpenError::of(path, source))
    };
    // It was read a moment ago; if this fails all the same, the log is kept as well.
    drop(fold());
}

/// A second name for the file, so that there is one of its name at any moment; where a file can
/// have but one name, it is moved.
fn keep(path: &Path, aside: &Path) -> io::Result<()> {
    match fs::hard_link(path, aside) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => fs::rename(path, aside),
        linked => linked,
    }
}
