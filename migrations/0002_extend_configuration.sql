-- A slot that was set anew is another prober: signs of life from before do not count for it.
ALTER TABLE sites ADD COLUMN made_at INTEGER NOT NULL DEFAULT 0;

-- How far the history has been cut to history_retention_cycles: everything up to this address;
-- NULL: nothing is to be cut.
ALTER TABLE settings ADD COLUMN retention_after TEXT;

-- The registry by its latest result; the primary key, which is the address, is part of it.
CREATE INDEX registry_by_result ON registry (last_result);

-- Tables that have had a row. YAML fills a table once and never again, also if it was emptied.
CREATE TABLE seeded (name TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
INSERT INTO seeded SELECT 'validators' WHERE EXISTS (SELECT 1 FROM validators);
INSERT INTO seeded SELECT 'sites' WHERE EXISTS (SELECT 1 FROM sites);
INSERT INTO seeded SELECT 'target_groups' WHERE EXISTS (SELECT 1 FROM target_groups);
INSERT INTO seeded SELECT 'check_types' WHERE EXISTS (SELECT 1 FROM check_types);
CREATE TRIGGER validators_seeded AFTER INSERT ON validators BEGIN
    INSERT OR IGNORE INTO seeded VALUES ('validators');
END;
CREATE TRIGGER sites_seeded AFTER INSERT ON sites BEGIN
    INSERT OR IGNORE INTO seeded VALUES ('sites');
END;
CREATE TRIGGER target_groups_seeded AFTER INSERT ON target_groups BEGIN
    INSERT OR IGNORE INTO seeded VALUES ('target_groups');
END;
CREATE TRIGGER check_types_seeded AFTER INSERT ON check_types BEGIN
    INSERT OR IGNORE INTO seeded VALUES ('check_types');
END;
