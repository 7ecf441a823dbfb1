-- The queue. One row an address; the column `state` is written by one function alone.
-- All times are microseconds since 1970, UTC.
CREATE TABLE ips (
    id                 INTEGER PRIMARY KEY AUTOINCREMENT,
    address            TEXT    NOT NULL UNIQUE,
    sequence           INTEGER NOT NULL,
    state              TEXT    NOT NULL CHECK (state IN (
                           'queued', 'assigning_fip', 'awaiting_self_check', 'checking',
                           'aggregating', 'done', 'failed', 'occupied')),
    verdict            TEXT    CHECK (verdict IN ('pass', 'partial', 'fail')),
    cause              TEXT    CHECK (cause IN ('cancelled', 'assign_retries', 'self_check_retries')),
    -- The contract's overall_result; '' while open and for occupied.
    result             TEXT    NOT NULL DEFAULT ''
                               CHECK (result IN ('', 'pass', 'partial', 'fail', 'cancelled')),
    cycle_id           INTEGER NOT NULL,
    attempt_no         INTEGER NOT NULL,
    claim_no           INTEGER NOT NULL DEFAULT 0,
    assign_retries     INTEGER NOT NULL DEFAULT 0,
    self_check_retries INTEGER NOT NULL DEFAULT 0,
    silent_leases      INTEGER NOT NULL DEFAULT 0,
    avoid_validator    TEXT,
    validator_id       TEXT,
    port_id            TEXT,
    fip_id             TEXT,
    -- The deadline of the state, whichever it is: what is due is one index.
    due_at             INTEGER,
    assigned_at        INTEGER,
    associated_at      INTEGER,
    checking_at        INTEGER,
    aggregated_at      INTEGER,
    released_at        INTEGER,
    -- Of the current claim.
    egress_complete    INTEGER NOT NULL DEFAULT 0,
    last_error         TEXT    NOT NULL DEFAULT '',
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL
) STRICT;
CREATE INDEX ips_by_sequence ON ips (sequence);
CREATE INDEX ips_by_state ON ips (state, sequence);
CREATE INDEX ips_by_result ON ips (result);
CREATE INDEX ips_due ON ips (due_at) WHERE due_at IS NOT NULL;

-- A floating IP that is, or may be, on one of our ports. The unique columns are the second
-- witness of "one address a validator, one validator an address". A row outlives its address.
CREATE TABLE leases (
    claim_no     INTEGER PRIMARY KEY,
    ip_id        INTEGER,              -- NULL: found on our port without an owner
    cycle_id     INTEGER,
    address      TEXT    NOT NULL UNIQUE,
    validator_id TEXT    UNIQUE,       -- NULL: found on our port without an owner
    port_id      TEXT    NOT NULL,
    fip_id       TEXT    UNIQUE,       -- NULL until the cloud was asked
    attached     INTEGER NOT NULL DEFAULT 0,
    releasing    INTEGER NOT NULL DEFAULT 0,
    heard        INTEGER NOT NULL DEFAULT 0,
    made_at      INTEGER NOT NULL,
    changed_at   INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX leases_by_port ON leases (port_id) WHERE validator_id IS NOT NULL;
CREATE INDEX leases_by_ip ON leases (ip_id);

-- What the cloud is still to be asked for, written before the call.
CREATE TABLE outbox (
    claim_no   INTEGER NOT NULL REFERENCES leases (claim_no) ON DELETE CASCADE,
    kind       TEXT    NOT NULL CHECK (kind IN ('associate', 'release')),
    tries      INTEGER NOT NULL DEFAULT 0,
    not_before INTEGER NOT NULL,
    last_error TEXT    NOT NULL DEFAULT '',
    PRIMARY KEY (claim_no, kind)
) STRICT, WITHOUT ROWID;

-- Every address ever enqueued; its count of cycles gives out cycle ids.
CREATE TABLE registry (
    address         TEXT    PRIMARY KEY,
    first_seen_at   INTEGER NOT NULL,
    last_seen_at    INTEGER NOT NULL,
    total_cycles    INTEGER NOT NULL,
    last_result     TEXT    NOT NULL DEFAULT '',
    last_checked_at INTEGER
) STRICT, WITHOUT ROWID;

-- Results. They outlive the address's row in the queue.
CREATE TABLE checks (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    ip_id       INTEGER NOT NULL,
    address     TEXT    NOT NULL,
    cycle_id    INTEGER NOT NULL,
    attempt_no  INTEGER NOT NULL,
    claim_no    INTEGER NOT NULL,
    source      TEXT    NOT NULL CHECK (source IN ('egress', 'inbound')),
    site_id     TEXT    NOT NULL DEFAULT '',
    check_type  TEXT    NOT NULL,
    target      TEXT    NOT NULL DEFAULT '',
    success     INTEGER NOT NULL,
    latency_ms  INTEGER NOT NULL DEFAULT 0,
    duration_ms INTEGER,
    detail      TEXT    NOT NULL DEFAULT '',
    checked_at  INTEGER NOT NULL,
    received_at INTEGER NOT NULL,
    UNIQUE (ip_id, attempt_no, source, site_id, check_type, target)
) STRICT;
CREATE INDEX checks_by_address ON checks (address, cycle_id);

-- Checks that count in the current claim: as configured when checking began, and handed out since.
CREATE TABLE expected_checks (
    ip_id      INTEGER NOT NULL REFERENCES ips (id) ON DELETE CASCADE,
    source     TEXT    NOT NULL,
    site_id    TEXT    NOT NULL DEFAULT '',
    check_type TEXT    NOT NULL,
    target     TEXT    NOT NULL DEFAULT '',
    PRIMARY KEY (ip_id, source, site_id, check_type, target)
) STRICT, WITHOUT ROWID;

-- Checks of the current claim that could not be carried out for a reason of ours.
CREATE TABLE inconclusive_checks (
    ip_id      INTEGER NOT NULL REFERENCES ips (id) ON DELETE CASCADE,
    source     TEXT    NOT NULL,
    site_id    TEXT    NOT NULL DEFAULT '',
    check_type TEXT    NOT NULL,
    target     TEXT    NOT NULL DEFAULT '',
    code       TEXT    NOT NULL DEFAULT '',
    PRIMARY KEY (ip_id, source, site_id, check_type, target)
) STRICT, WITHOUT ROWID;

-- Sites that have finished with the current claim.
CREATE TABLE site_progress (
    ip_id   INTEGER NOT NULL REFERENCES ips (id) ON DELETE CASCADE,
    site_id TEXT    NOT NULL,
    PRIMARY KEY (ip_id, site_id)
) STRICT, WITHOUT ROWID;

-- History, append-only.
CREATE TABLE events (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    ip_id        INTEGER,
    address      TEXT,
    cycle_id     INTEGER,
    validator_id TEXT,
    site_id      TEXT,
    event_type   TEXT    NOT NULL,
    severity     TEXT    NOT NULL CHECK (severity IN ('info', 'warning', 'error')),
    payload      TEXT    NOT NULL DEFAULT '',
    occurred_at  INTEGER NOT NULL
) STRICT;
CREATE INDEX events_by_address ON events (address, id) WHERE address IS NOT NULL;

-- Configuration: seeded from YAML once, while a table is empty.
CREATE TABLE validators (
    validator_id  TEXT    PRIMARY KEY,
    port_id       TEXT    NOT NULL UNIQUE,
    hostname      TEXT    NOT NULL DEFAULT '',
    agent_version TEXT    NOT NULL DEFAULT '',
    registered    INTEGER NOT NULL DEFAULT 0,
    last_seen_at  INTEGER,
    silenced_at   INTEGER,
    paused_until  INTEGER,
    paused_why    TEXT    NOT NULL DEFAULT '',
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE sites (
    slot         INTEGER PRIMARY KEY CHECK (slot >= 1),
    site_id      TEXT    NOT NULL UNIQUE,
    hostname     TEXT    NOT NULL DEFAULT '',
    registered   INTEGER NOT NULL DEFAULT 0,
    last_seen_at INTEGER
) STRICT;

CREATE TABLE target_groups (
    name    TEXT PRIMARY KEY,
    targets TEXT NOT NULL           -- JSON array of texts, at least one
) STRICT, WITHOUT ROWID;

CREATE TABLE check_types (
    name    TEXT    PRIMARY KEY,
    enabled INTEGER NOT NULL,
    "groups" TEXT   NOT NULL,       -- JSON array of names of target groups
    options TEXT                    -- JSON object
) STRICT, WITHOUT ROWID;

CREATE TABLE settings (
    id                       INTEGER PRIMARY KEY CHECK (id = 1),
    fip_settle_seconds       INTEGER NOT NULL CHECK (fip_settle_seconds >= 0),
    history_retention_cycles INTEGER NOT NULL DEFAULT 0 CHECK (history_retention_cycles >= 0),
    inbound_ports            TEXT    NOT NULL,   -- JSON array of numbers
    inbound_icmp             INTEGER NOT NULL
) STRICT;

-- What the process itself keeps: the last claim number given out, and its last sign of life.
CREATE TABLE runtime (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    last_claim INTEGER NOT NULL,
    alive_at   INTEGER
) STRICT;
INSERT INTO runtime (id, last_claim) VALUES (1, 0);
