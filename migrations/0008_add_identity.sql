-- The ports on which an agent's responder answers over HTTP (JSON), as told at register; NULL: it
-- runs none.
ALTER TABLE validators ADD COLUMN responder_ports TEXT;

-- What a prober knows beyond the contract, as told at register.
ALTER TABLE sites ADD COLUMN knows_identity INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sites ADD COLUMN knows_closed_ports INTEGER NOT NULL DEFAULT 0;

-- What only the validator of this claim serves (NULL: the claim is older than that), and whether
-- it did when checking began.
ALTER TABLE leases ADD COLUMN nonce TEXT;
ALTER TABLE leases ADD COLUMN proves INTEGER NOT NULL DEFAULT 0;

-- In which assignment of the claim a check was first handed out; 0: from the start.
ALTER TABLE expected_checks ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;

-- It was taken out of the configuration since, and counts again once it is handed out again. The row
-- stays: revisions never go back.
ALTER TABLE expected_checks ADD COLUMN gone INTEGER NOT NULL DEFAULT 0;

-- Ports on which nothing is to answer: JSON array of numbers.
ALTER TABLE settings ADD COLUMN inbound_closed_ports TEXT NOT NULL DEFAULT '[]';
