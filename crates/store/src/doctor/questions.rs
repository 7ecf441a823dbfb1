//! How the database is asked for contradictions, and what simple ones are put right with.

use super::Kind;

/// Each row of an answer is a contradiction. Changes that the next commit works in are none.
pub(super) const QUESTIONS: &[(Kind, &str)] = &[
    (Kind::NoDeadline, NO_DEADLINE),
    (Kind::LeaseWithoutAttempt, LEASE_WITHOUT_ATTEMPT),
    (Kind::AttemptWithoutLease, ATTEMPT_WITHOUT_LEASE),
    (Kind::ReleaseNotAsked, RELEASE_NOT_ASKED),
    (
        Kind::Counts,
        "SELECT 'block ' || block || ' of the queue counts ' || SUM(counted) || ' that are ' \
             || class || ', there are ' || SUM(there) FROM ( \
             SELECT block, class, n AS counted, 0 AS there FROM ips_counts UNION ALL \
             SELECT sequence >> 10, state || '/' || result, 0, COUNT(*) FROM ips GROUP BY 1, 2) \
         WHERE NOT EXISTS (SELECT 1 FROM ips_moves) \
         GROUP BY block, class HAVING SUM(counted) <> SUM(there)",
    ),
    (
        Kind::Counts,
        "SELECT 'the registry counts ' || SUM(counted) || ' of the result ' || json_quote(class) \
             || ', there are ' || SUM(there) FROM ( \
             SELECT class, n AS counted, 0 AS there FROM registry_counts UNION ALL \
             SELECT last_result, 0, COUNT(*) FROM registry GROUP BY last_result) \
         WHERE NOT EXISTS (SELECT 1 FROM registry_moves) \
         GROUP BY class HAVING SUM(counted) <> SUM(there)",
    ),
    (
        Kind::Waiting,
        "SELECT 'receiver ' || name || ' counts ' || waiting || ' notifications, there are ' \
             || (SELECT COUNT(*) FROM notifications n WHERE n.receiver = r.name) FROM receivers r \
         WHERE waiting <> (SELECT COUNT(*) FROM notifications n WHERE n.receiver = r.name)",
    ),
    (
        Kind::NotInRegistry,
        "SELECT 'the registry does not know ' || address || ' of the queue' FROM ips i \
         WHERE NOT EXISTS (SELECT 1 FROM registry r WHERE r.address = i.address)",
    ),
    (
        Kind::OrphanResults,
        "SELECT COUNT(*) || ' results are of ' || address || ', which the registry does not know' \
         FROM checks c WHERE NOT EXISTS (SELECT 1 FROM registry r WHERE r.address = c.address) \
         GROUP BY address",
    ),
];

/// Beside the text: the address's id.
pub(super) const NO_DEADLINE: &str = "\
     SELECT address || ' is ' || state || ' without a deadline', id FROM ips \
     WHERE due_at IS NULL \
     AND state IN ('assigning_fip', 'awaiting_self_check', 'checking', 'aggregating')";

/// Beside the text: the claim.
pub(super) const LEASE_WITHOUT_ATTEMPT: &str = "\
     SELECT 'claim ' || l.claim_no || ' holds ' || l.address || ' on port ' || l.port_id \
         || ' for no attempt, and nobody releases it', l.claim_no \
     FROM leases l LEFT JOIN ips i ON i.id = l.ip_id AND i.claim_no = l.claim_no \
         AND i.state IN ('assigning_fip', 'awaiting_self_check', 'checking') \
     WHERE NOT l.releasing AND i.id IS NULL";

/// Beside the text: the address's id, the claim, the state.
pub(super) const ATTEMPT_WITHOUT_LEASE: &str = "\
     SELECT address || ' is ' || state || ' under claim ' || claim_no || ', which has no lease', \
         id, claim_no, state FROM ips i \
     WHERE state IN ('assigning_fip', 'awaiting_self_check', 'checking', 'aggregating') \
     AND NOT EXISTS (SELECT 1 FROM leases l WHERE l.claim_no = i.claim_no)";

/// Beside the text: the claim.
pub(super) const RELEASE_NOT_ASKED: &str = "\
     SELECT 'claim ' || l.claim_no || ' is to release ' || l.address || ' from port ' \
         || l.port_id || ', and the cloud is not asked for it', l.claim_no \
     FROM leases l WHERE l.releasing AND NOT EXISTS \
         (SELECT 1 FROM outbox o WHERE o.claim_no = l.claim_no AND o.kind = 'release')";

pub(super) const OUTBOX_WITHOUT_LEASE: &str =
    "DELETE FROM outbox WHERE claim_no NOT IN (SELECT claim_no FROM leases)";

/// For what speaks of rows that are gone, and for what merely counts or remembers.
pub(super) const REPAIRS: &[&str] = &[
    OUTBOX_WITHOUT_LEASE,
    "DELETE FROM expected_checks WHERE ip_id NOT IN (SELECT id FROM ips)",
    "DELETE FROM inconclusive_checks WHERE ip_id NOT IN (SELECT id FROM ips)",
    "DELETE FROM site_progress WHERE ip_id NOT IN (SELECT id FROM ips)",
    "DELETE FROM subscriptions WHERE receiver NOT IN (SELECT name FROM receivers)",
    "DELETE FROM notifications WHERE receiver NOT IN (SELECT name FROM receivers)",
    "UPDATE receivers SET waiting = \
         (SELECT COUNT(*) FROM notifications n WHERE n.receiver = name)",
    "INSERT INTO registry (address, first_seen_at, last_seen_at, total_cycles) \
         SELECT address, created_at, updated_at, MAX(cycle_id, 1) FROM ips i \
         WHERE NOT EXISTS (SELECT 1 FROM registry r WHERE r.address = i.address)",
    "DELETE FROM checks WHERE address NOT IN (SELECT address FROM registry)",
];
