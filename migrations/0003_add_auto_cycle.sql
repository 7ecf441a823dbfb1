-- The auto-cycle: one row, from the start.
CREATE TABLE auto_cycle (
    id                INTEGER PRIMARY KEY CHECK (id = 1),
    enabled           INTEGER NOT NULL DEFAULT 0,
    interval_seconds  INTEGER NOT NULL DEFAULT 3600 CHECK (interval_seconds >= 60),
    max_run_seconds   INTEGER NOT NULL DEFAULT 0 CHECK (max_run_seconds >= 0),
    phase             TEXT    NOT NULL DEFAULT 'idle' CHECK (phase IN (
                          'idle', 'clearing', 'releasing', 'scanning', 'checking', 'waiting')),
    -- releasing, waiting: when it ends; checking: when it began.
    phase_at          INTEGER CHECK ((phase_at IS NOT NULL)
                          = (phase IN ('releasing', 'checking', 'waiting'))),
    run_started_at    INTEGER,
    last_started_at   INTEGER,
    last_finished_at  INTEGER,
    last_outcome      TEXT    CHECK (last_outcome IN (
                          'completed', 'no_free_ips', 'timeout', 'error', 'stopped')),
    last_error        TEXT    NOT NULL DEFAULT '',
    last_scanned_free INTEGER NOT NULL DEFAULT 0,
    runs_total        INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO auto_cycle (id) VALUES (1);

-- What a scan has found and not enqueued yet, in order of address.
CREATE TABLE scan_found (
    position INTEGER PRIMARY KEY,
    address  TEXT    NOT NULL
) STRICT;

-- Present once a scan has found everything: from then on it is carried out to its end, after a
-- restart too. Without it, what stands in scan_found is nothing.
CREATE TABLE scan_plan (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    source     TEXT    NOT NULL CHECK (source IN ('request', 'timer', 'auto_cycle')),
    pages      INTEGER NOT NULL,
    discovered INTEGER NOT NULL,
    free       INTEGER NOT NULL,
    added      INTEGER NOT NULL DEFAULT 0,
    requeued   INTEGER NOT NULL DEFAULT 0,
    reordered  INTEGER NOT NULL DEFAULT 0,
    skipped    INTEGER NOT NULL DEFAULT 0
) STRICT;
