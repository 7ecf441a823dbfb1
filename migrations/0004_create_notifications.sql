-- Who is told of events by HTTP: a mirror of the configuration file, renewed at each start.
CREATE TABLE receivers (
    name        TEXT    PRIMARY KEY,
    rows_max    INTEGER NOT NULL CHECK (rows_max >= 1),
    -- Rows in `notifications`; kept beside each change, so that none of them has to count.
    waiting     INTEGER NOT NULL DEFAULT 0,
    -- Whether the event that says so has been written since the outbox last overflowed.
    overflowing INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

-- Which events a receiver is told of; '*' is all of them.
CREATE TABLE subscriptions (
    event_type TEXT NOT NULL,
    receiver   TEXT NOT NULL REFERENCES receivers (name) ON DELETE CASCADE,
    PRIMARY KEY (event_type, receiver)
) STRICT, WITHOUT ROWID;

-- What is still to be sent, written with the event itself. A row holds the whole event: neither
-- retention nor deleting an address takes it away.
CREATE TABLE notifications (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    receiver     TEXT    NOT NULL REFERENCES receivers (name) ON DELETE CASCADE,
    event_id     INTEGER NOT NULL,
    event_type   TEXT    NOT NULL,
    severity     TEXT    NOT NULL,
    address      TEXT,
    validator_id TEXT,
    site_id      TEXT,
    payload      TEXT    NOT NULL,
    occurred_at  INTEGER NOT NULL,
    -- For giving up; moved by the time that the process was down.
    queued_at    INTEGER NOT NULL,
    tries        INTEGER NOT NULL DEFAULT 0,
    -- Put aside until then, because those behind it are tried first.
    not_before   INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX notifications_by_receiver ON notifications (receiver, id);
