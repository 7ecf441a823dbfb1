-- Which pieces of four characters the addresses of a block of the registry have, as marks in a
-- small field of bits: a search for four characters and more then looks only into blocks that have
-- all its marks. A mark can be of another piece, or of an address that left; that costs a look,
-- never a wrong answer.
CREATE TABLE registry_marks (
    block INTEGER PRIMARY KEY,
    marks BLOB    NOT NULL
) STRICT;

-- Texts have become shorter: what all their addresses begin with stands in front, once.
DELETE FROM ips_counts;
DELETE FROM ips_texts;
DELETE FROM ips_grams;
DELETE FROM ips_moves;
INSERT INTO ips_moves (sign, block, class, address)
    SELECT 1, sequence >> 10, state || '/' || result, address FROM ips;

-- Blocks are made anew, with marks, before the first commit.
DELETE FROM registry_blocks;
DELETE FROM registry_counts;
DELETE FROM registry_texts;
DELETE FROM registry_grams;
DELETE FROM registry_moves;
INSERT INTO registry_moves (sign, class, address)
    SELECT 1, last_result, address FROM registry;
