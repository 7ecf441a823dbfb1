-- What makes long lists cheap: counts and short pieces of text (one to three characters), by block
-- of about a thousand neighbours in the order of the list. A page or a total then looks at the
-- counts of the blocks and into a few blocks, never at all rows.
--
-- Triggers note every change in a table of moves; the writer works them in before each commit, so
-- that no reader ever sees a move. Whoever changes a row by other means is caught up with by the
-- next commit.

-- A block of the queue is 1,024 sequence numbers. A class is state and result, 'done/pass'.
CREATE TABLE ips_counts (
    block INTEGER NOT NULL,
    class TEXT    NOT NULL,
    n     INTEGER NOT NULL,
    PRIMARY KEY (block, class)
) STRICT, WITHOUT ROWID;

-- What every address of a block begins with, and all of them, a line feed before and after each.
CREATE TABLE ips_texts (
    block     INTEGER PRIMARY KEY,
    common    TEXT    NOT NULL,
    addresses TEXT    NOT NULL
) STRICT;

-- How many addresses of a block have a piece in them.
CREATE TABLE ips_grams (
    gram  INTEGER NOT NULL,
    block INTEGER NOT NULL,
    n     INTEGER NOT NULL,
    PRIMARY KEY (gram, block)
) STRICT, WITHOUT ROWID;

CREATE TABLE ips_moves (
    n        INTEGER PRIMARY KEY,
    sign     INTEGER NOT NULL CHECK (sign IN (-1, 1)),
    block    INTEGER NOT NULL,
    class    TEXT    NOT NULL,
    address  TEXT    NOT NULL
) STRICT;

CREATE TRIGGER ips_added AFTER INSERT ON ips BEGIN
    INSERT INTO ips_moves (sign, block, class, address)
        VALUES (1, new.sequence >> 10, new.state || '/' || new.result, new.address);
END;
CREATE TRIGGER ips_removed AFTER DELETE ON ips BEGIN
    INSERT INTO ips_moves (sign, block, class, address)
        VALUES (-1, old.sequence >> 10, old.state || '/' || old.result, old.address);
END;
CREATE TRIGGER ips_moved AFTER UPDATE OF sequence, state, result, address ON ips
WHEN old.sequence >> 10 <> new.sequence >> 10 OR old.state <> new.state
    OR old.result <> new.result OR old.address <> new.address
BEGIN
    INSERT INTO ips_moves (sign, block, class, address) VALUES
        (-1, old.sequence >> 10, old.state || '/' || old.result, old.address),
        (1, new.sequence >> 10, new.state || '/' || new.result, new.address);
END;

-- A block of the registry is what lies between its first address and that of the next block, in
-- the order of their texts. It is divided when it has grown. A class is the last result.
CREATE TABLE registry_blocks (
    first TEXT    PRIMARY KEY,
    block INTEGER NOT NULL UNIQUE,
    n     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE registry_counts (
    block INTEGER NOT NULL,
    class TEXT    NOT NULL,
    n     INTEGER NOT NULL,
    PRIMARY KEY (block, class)
) STRICT, WITHOUT ROWID;

CREATE TABLE registry_texts (
    block     INTEGER NOT NULL,
    class     TEXT    NOT NULL,
    addresses TEXT    NOT NULL,
    PRIMARY KEY (block, class)
) STRICT, WITHOUT ROWID;

CREATE TABLE registry_grams (
    gram  INTEGER NOT NULL,
    block INTEGER NOT NULL,
    class TEXT    NOT NULL,
    n     INTEGER NOT NULL,
    PRIMARY KEY (gram, block, class)
) STRICT, WITHOUT ROWID;

CREATE TABLE registry_moves (
    n       INTEGER PRIMARY KEY,
    sign    INTEGER NOT NULL CHECK (sign IN (-1, 1)),
    class   TEXT    NOT NULL,
    address TEXT    NOT NULL
) STRICT;

CREATE TRIGGER registry_added AFTER INSERT ON registry BEGIN
    INSERT INTO registry_moves (sign, class, address)
        VALUES (1, new.last_result, new.address);
END;
CREATE TRIGGER registry_removed AFTER DELETE ON registry BEGIN
    INSERT INTO registry_moves (sign, class, address)
        VALUES (-1, old.last_result, old.address);
END;
CREATE TRIGGER registry_moved AFTER UPDATE OF last_result, address ON registry
WHEN old.last_result <> new.last_result OR old.address <> new.address
BEGIN
    INSERT INTO registry_moves (sign, class, address) VALUES
        (-1, old.last_result, old.address), (1, new.last_result, new.address);
END;

-- What is there already is worked in before the first commit.
INSERT INTO ips_moves (sign, block, class, address)
    SELECT 1, sequence >> 10, state || '/' || result, address FROM ips;
INSERT INTO registry_moves (sign, class, address)
    SELECT 1, last_result, address FROM registry;

-- Blocks and totals take the place of these.
DROP INDEX ips_by_result;
DROP INDEX ips_by_sequence;
DROP INDEX registry_by_result;

-- The two orders of the list, with all that filters look at.
CREATE INDEX ips_in_order ON ips (sequence, id, state, result, address);
CREATE INDEX ips_by_verdict ON ips (aggregated_at DESC, id, state, result, address);
