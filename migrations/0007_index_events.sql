-- What GET /admin/events filters by, in the order of the ids. An entry of an address is found by
-- the index of the addresses whatever else is asked for. Nearly all entries are 'info': reading
-- them in the order of ids finds a page at once, so they need no index and their inserts pay none.
CREATE INDEX events_by_type ON events (event_type);
CREATE INDEX events_by_severity ON events (severity) WHERE severity <> 'info';
