//! Results and completions of checks, and what is known of a claim because of them.

use std::collections::{BTreeMap, BTreeSet};

use civ_orch::attempt::StateName;
use civ_orch::expected::{self, Progress, Reported};
use civ_types::{
    Address, AttemptNo, CheckName, CheckSpec, ClaimNo, CycleId, IpId, SiteId, Source, Utc,
};
use rusqlite::{Row, params};

use crate::codec::{maybe, text, utc};
use crate::conn::{ReadConn, WriteTx};
use crate::error::StoreError;
use crate::record::{self, IpRow};
use crate::{identity, settings};

/// A result as it came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewResult {
    /// Which check.
    pub spec: CheckSpec,
    /// Passed or failed.
    pub success: bool,
    /// Milliseconds of the step that the check is about.
    pub latency_ms: i64,
    /// Milliseconds of the whole check, if told.
    pub duration_ms: Option<i64>,
    /// What was seen.
    pub detail: String,
    /// When, by the reporter's clock.
    pub checked_at: Utc,
}

/// A stored result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultRow {
    /// Grows with every first report of a check.
    pub id: i64,
    /// The address.
    pub ip: IpId,
    /// Which enqueueing.
    pub cycle: CycleId,
    /// Which attempt.
    pub attempt: AttemptNo,
    /// What was reported.
    pub result: NewResult,
    /// When it came in, by our clock.
    pub received_at: Utc,
}

fn site_text(spec: &CheckSpec) -> &str {
    match &spec.site {
        Some(site) => site.as_str(),
        None => "",
    }
}

fn read_spec(row: &Row<'_>) -> rusqlite::Result<CheckSpec> {
    let source: String = row.get("source")?;
    let site = Some(row.get::<_, String>("site_id")?).filter(|site| !site.is_empty());
    Ok(CheckSpec {
        source: if source == Source::Egress.as_str() {
            Source::Egress
        } else {
            Source::Inbound
        },
        site: match site {
            Some(_) => maybe(row, "site_id", SiteId::parse)?,
            None => None,
        },
        name: text(row, "check_type", CheckName::parse)?,
        target: row.get("target")?,
    })
}

/// Forgets what belongs to the former claim of an address; its results stay, marked with it.
pub(crate) fn forget_claim(tx: &WriteTx<'_>, ip: IpId) -> Result<(), StoreError> {
    for sql in [
        "DELETE FROM expected_checks WHERE ip_id = ?1",
        "DELETE FROM inconclusive_checks WHERE ip_id = ?1",
        "DELETE FROM site_progress WHERE ip_id = ?1",
        "UPDATE ips SET egress_complete = 0 WHERE id = ?1",
    ] {
        tx.sql().prepare_cached(sql)?.execute([ip.0])?;
    }
    Ok(())
}

/// Makes checks count in the current claim, from that revision of the assignment on.
pub(crate) fn expect(
    tx: &WriteTx<'_>,
    ip: IpId,
    specs: &BTreeSet<CheckSpec>,
    revision: i64,
) -> Result<(), StoreError> {
    const SQL: &str = "INSERT INTO expected_checks \
         (ip_id, source, site_id, check_type, target, revision) VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
         ON CONFLICT DO UPDATE SET revision = excluded.revision, gone = 0 WHERE gone";
    let mut statement = tx.sql().prepare_cached(SQL)?;
    for spec in specs {
        statement.execute(params![
            ip.0,
            spec.source.as_str(),
            site_text(spec),
            spec.name.as_str(),
            spec.target,
            revision,
        ])?;
    }
    Ok(())
}

/// No longer makes checks count in the current claim, until they are handed out again.
pub(crate) fn uncount(
    tx: &WriteTx<'_>,
    ip: IpId,
    specs: &BTreeSet<CheckSpec>,
) -> Result<(), StoreError> {
    const SQL: &str = "UPDATE expected_checks SET gone = 1 WHERE ip_id = ?1 AND source = ?2 \
         AND site_id = ?3 AND check_type = ?4 AND target = ?5";
    let mut statement = tx.sql().prepare_cached(SQL)?;
    for spec in specs {
        let (source, name) = (spec.source.as_str(), spec.name.as_str());
        statement.execute(params![ip.0, source, site_text(spec), name, spec.target])?;
    }
    Ok(())
}

/// Notes that checks which were added meanwhile are handed out in `claim`: they count from now on.
///
/// A site that has said `complete` was not asked for them yet, so it is waited for again. An agent
/// that has said so asks no more: what was read for it just before does not count. Nor does
/// anything of a claim that is over.
///
/// `specs` are all of one origin; `seen` is the revision that was read together with them. Gives
/// the revision of the assignment that has them. If others were handed out in between, it is the
/// one that was read: this assignment does not have theirs.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn hand_out(
    tx: &WriteTx<'_>,
    ip: IpId,
    claim: ClaimNo,
    specs: &BTreeSet<CheckSpec>,
    seen: i64,
) -> Result<i64, StoreError> {
    const SITE: &str = "DELETE FROM site_progress WHERE ip_id = ?1 AND site_id = ?2";
    let current = record::fetch(tx, ip)?
        .filter(|row| row.attempt.state == StateName::Checking && row.attempt.head.claim == claim);
    let Some(row) = current else {
        return Ok(seen);
    };
    let is_open = |spec: &&CheckSpec| spec.site.is_some() || !row.egress_complete;
    let specs: BTreeSet<_> = specs.iter().filter(is_open).cloned().collect();
    let Some(first) = specs.first() else {
        return Ok(seen);
    };
    let newest = revision(tx, ip, first.site.as_ref())?;
    expect(tx, ip, &specs, newest + 1)?;
    let sites: BTreeSet<_> = specs.iter().filter_map(|spec| spec.site.as_ref()).collect();
    for site in sites {
        let parameters = params![ip.0, site.as_str()];
        tx.sql().prepare_cached(SITE)?.execute(parameters)?;
    }
    Ok(if newest == seen { seen + 1 } else { seen })
}

/// Checks that count, with the revision of the assignment that they were first in.
pub type Counted = BTreeMap<CheckSpec, i64>;

/// The checks that count in the current claim.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn expected(conn: &ReadConn<'_>, ip: IpId) -> Result<Counted, StoreError> {
    const SQL: &str = "SELECT source, site_id, check_type, target, revision \
         FROM expected_checks WHERE ip_id = ?1 AND NOT gone";
    let mut statement = conn.sql().prepare_cached(SQL)?;
    if civ_planted::is!(RemovedCounts) {
        statement = conn
            .sql()
            .prepare_cached(&SQL.replace("AND NOT gone", ""))?;
    }
    let rows = statement.query_map([ip.0], |row| Ok((read_spec(row)?, row.get("revision")?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The newest revision of the assignment of a site, or of the validator.
pub(crate) fn revision(
    conn: &ReadConn<'_>,
    ip: IpId,
    site: Option<&SiteId>,
) -> Result<i64, StoreError> {
    const SQL: &str = "SELECT COALESCE(MAX(revision), 0) FROM expected_checks \
         WHERE ip_id = ?1 AND source = ?2 AND site_id = ?3";
    let source = site.map_or(Source::Egress, |_site| Source::Inbound);
    let site = site.map_or("", SiteId::as_str);
    let parameters = params![ip.0, source.as_str(), site];
    let mut statement = conn.sql().prepare_cached(SQL)?;
    Ok(statement.query_row(parameters, |row| row.get(0))?)
}

/// What was taken out of the configuration no longer counts in the current claim.
pub(crate) fn uncount_removed(
    tx: &WriteTx<'_>,
    ip: IpId,
    claim: ClaimNo,
) -> Result<(), StoreError> {
    let proves = identity::to_compare(tx, claim)?.is_some();
    let now = settings::configured(tx)?.specs(proves);
    let mut removed: BTreeSet<_> = expected(tx, ip)?.into_keys().collect();
    removed.retain(|spec| !now.contains(spec));
    uncount(tx, ip, &removed)
}

/// Checks of a site, or of the validator, that its assignment of revision `seen` did not have, and
/// of which nothing came in.
pub(crate) fn unseen(
    conn: &ReadConn<'_>,
    ip: &IpRow,
    site: Option<&SiteId>,
    seen: i64,
) -> Result<BTreeSet<CheckSpec>, StoreError> {
    let mut counted = expected(conn, ip.attempt.head.ip)?;
    counted.retain(|spec, _| spec.site.as_ref() == site);
    let reported = progress(conn, ip)?.reported;
    Ok(expected::unseen(&counted, &reported, seen))
}

/// Stores a result of the current claim; a later report of the same check replaces it.
pub(crate) fn upsert(tx: &WriteTx<'_>, ip: &IpRow, result: &NewResult) -> Result<(), StoreError> {
    const SQL: &str = "INSERT INTO checks (ip_id, address, cycle_id, attempt_no, claim_no, source, \
         site_id, check_type, target, success, latency_ms, duration_ms, detail, checked_at, \
         received_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15) \
         ON CONFLICT (ip_id, attempt_no, source, site_id, check_type, target) DO UPDATE SET \
         claim_no = excluded.claim_no, success = excluded.success, \
         latency_ms = excluded.latency_ms, duration_ms = excluded.duration_ms, \
         detail = excluded.detail, checked_at = excluded.checked_at, \
         received_at = excluded.received_at";
    let head = &ip.attempt.head;
    tx.sql().prepare_cached(SQL)?.execute(params![
        head.ip.0,
        head.address.to_string(),
        head.cycle.0,
        head.attempt.0,
        head.claim.0,
        result.spec.source.as_str(),
        site_text(&result.spec),
        result.spec.name.as_str(),
        result.spec.target,
        result.success,
        result.latency_ms,
        result.duration_ms,
        result.detail,
        result.checked_at.as_micros(),
        tx.now().as_micros(),
    ])?;
    Ok(())
}

/// Notes that a check could not be carried out in the current claim.
pub(crate) fn inconclusive(
    tx: &WriteTx<'_>,
    ip: IpId,
    spec: &CheckSpec,
    code: &str,
) -> Result<(), StoreError> {
    const SQL: &str = "INSERT INTO inconclusive_checks \
         (ip_id, source, site_id, check_type, target, code) VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
         ON CONFLICT DO UPDATE SET code = excluded.code";
    tx.sql().prepare_cached(SQL)?.execute(params![
        ip.0,
        spec.source.as_str(),
        site_text(spec),
        spec.name.as_str(),
        spec.target,
        code,
    ])?;
    Ok(())
}

/// The agent is through with the current claim. Says whether that is news.
pub(crate) fn egress_complete(tx: &WriteTx<'_>, ip: IpId) -> Result<bool, StoreError> {
    const SQL: &str = "UPDATE ips SET egress_complete = 1 WHERE id = ?1 AND NOT egress_complete";
    Ok(tx.sql().prepare_cached(SQL)?.execute([ip.0])? == 1)
}

/// A site is through with the current claim. Says whether that is news.
pub(crate) fn site_complete(tx: &WriteTx<'_>, ip: IpId, site: &SiteId) -> Result<bool, StoreError> {
    const SQL: &str = "INSERT OR IGNORE INTO site_progress (ip_id, site_id) VALUES (?1, ?2)";
    Ok(tx
        .sql()
        .prepare_cached(SQL)?
        .execute(params![ip.0, site.as_str()])?
        == 1)
}

/// Results of one claim. In reach of the test that looks at its plan.
pub(crate) const RESULTS: &str = "SELECT source, site_id, check_type, target, success FROM checks \
     WHERE ip_id = ?1 AND attempt_no = ?2 AND claim_no = ?3";

/// What is known of the current claim of an address.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn progress(conn: &ReadConn<'_>, ip: &IpRow) -> Result<Progress, StoreError> {
    const SITES: &str = "SELECT site_id FROM site_progress WHERE ip_id = ?1";
    const NOT_CHECKED: &str =
        "SELECT source, site_id, check_type, target FROM inconclusive_checks WHERE ip_id = ?1";
    let head = &ip.attempt.head;
    let id = head.ip;
    let mut progress = Progress {
        counted: expected(conn, id)?.into_keys().collect(),
        proves: identity::to_compare(conn, head.claim)?.is_some(),
        egress_complete: ip.egress_complete,
        ..Progress::default()
    };
    let mut statement = conn.sql().prepare_cached(SITES)?;
    for site in statement.query_map([id.0], |row| text(row, 0, SiteId::parse))? {
        progress.sites_complete.insert(site?);
    }
    let mut statement = conn.sql().prepare_cached(NOT_CHECKED)?;
    for spec in statement.query_map([id.0], read_spec)? {
        progress.reported.insert(spec?, Reported::Inconclusive);
    }
    // Behind the inconclusive ones: a result of the same check is the better news.
    let mut statement = conn.sql().prepare_cached(RESULTS)?;
    let sql = RESULTS.replace("claim_no = ?3", "claim_no <= ?3");
    if civ_planted::is!(OldResultsCount) {
        statement = conn.sql().prepare_cached(&sql)?;
    }
    let rows = statement.query_map(params![id.0, head.attempt.0, head.claim.0], |row| {
        let how = if row.get("success")? {
            Reported::Passed
        } else {
            Reported::Failed
        };
        Ok((read_spec(row)?, how))
    })?;
    for row in rows {
        let (spec, how) = row?;
        progress.reported.insert(spec, how);
    }
    Ok(progress)
}

const COLUMNS: &str = "id, ip_id, cycle_id, attempt_no, source, site_id, check_type, target, \
     success, latency_ms, duration_ms, detail, checked_at, received_at";

fn read(row: &Row<'_>) -> rusqlite::Result<ResultRow> {
    Ok(ResultRow {
        id: row.get("id")?,
        ip: IpId(row.get("ip_id")?),
        cycle: CycleId(row.get("cycle_id")?),
        attempt: AttemptNo(row.get("attempt_no")?),
        result: NewResult {
            spec: read_spec(row)?,
            success: row.get("success")?,
            latency_ms: row.get("latency_ms")?,
            duration_ms: row.get("duration_ms")?,
            detail: row.get("detail")?,
            checked_at: utc(row, "checked_at")?,
        },
        received_at: utc(row, "received_at")?,
    })
}

/// All results of one attempt, in the order of their first report.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn of_attempt(
    conn: &ReadConn<'_>,
    ip: IpId,
    attempt: AttemptNo,
) -> Result<Vec<ResultRow>, StoreError> {
    let sql =
        format!("SELECT {COLUMNS} FROM checks WHERE ip_id = ?1 AND attempt_no = ?2 ORDER BY id");
    let mut statement = conn.sql().prepare_cached(&sql)?;
    let rows = statement.query_map(params![ip.0, attempt.0], read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// All results of an address that are kept, newest cycle first, within a cycle in the order of
/// their first report.
///
/// # Errors
/// [`StoreError`] of the database.
pub fn of_address(conn: &ReadConn<'_>, address: Address) -> Result<Vec<ResultRow>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM checks WHERE address = ?1 ORDER BY cycle_id DESC, id");
    let mut statement = conn.sql().prepare_cached(&sql)?;
    let rows = statement.query_map([address.to_string()], read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The checks of a site no longer count in any claim, until they are handed out again. What came
/// in of them stays.
pub(crate) fn uncount_site(tx: &WriteTx<'_>, site: &SiteId) -> Result<(), StoreError> {
    const SQL: &str = "UPDATE expected_checks SET gone = 1 WHERE site_id = ?1 \
         AND ip_id IN (SELECT id FROM ips WHERE state = 'checking')";
    tx.sql().prepare_cached(SQL)?.execute([site.as_str()])?;
    Ok(())
}
