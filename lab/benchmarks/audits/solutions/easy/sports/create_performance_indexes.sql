CREATE INDEX ON participants_events (participant_id);
CREATE INDEX ON stats (stat_holder_type, stat_holder_id);
