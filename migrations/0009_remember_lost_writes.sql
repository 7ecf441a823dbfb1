-- A write to the cloud whose answer was lost may still land when its lease is over and the port is
-- no validator's any more. Until then this floating IP is ours to free on that port, and no other.
CREATE TABLE lost_writes (
    fip_id  TEXT    NOT NULL,
    port_id TEXT    NOT NULL,
    until   INTEGER NOT NULL,
    PRIMARY KEY (fip_id, port_id)
) STRICT, WITHOUT ROWID;
