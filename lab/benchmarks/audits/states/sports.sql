-- A season in the shape of the tables that MCPMark's `sports` tasks read.
CREATE TABLE events (id SERIAL PRIMARY KEY, event_key VARCHAR(100) NOT NULL UNIQUE, start_date_time TIMESTAMP);
CREATE TABLE persons (id SERIAL PRIMARY KEY, person_key VARCHAR(100) NOT NULL UNIQUE, birth_date DATE);
CREATE TABLE participants_events (id SERIAL PRIMARY KEY, participant_type VARCHAR(100) NOT NULL,
    participant_id INTEGER NOT NULL, event_id INTEGER NOT NULL REFERENCES events(id), score VARCHAR(100));
CREATE TABLE stats (id SERIAL PRIMARY KEY, stat_repository_type VARCHAR(100), stat_repository_id INTEGER NOT NULL,
    stat_holder_type VARCHAR(100), stat_holder_id INTEGER, context VARCHAR(40) NOT NULL);
INSERT INTO events SELECT n, 'event ' || n, TIMESTAMP '2007-04-01 19:00' + n * INTERVAL '1 day' FROM generate_series(1, 6) n;
INSERT INTO persons SELECT n, 'person ' || n, DATE '1980-01-01' + 90 * n::int FROM generate_series(1, 8) n;
INSERT INTO participants_events SELECT n, 'persons', 1 + n % 8, 1 + n % 6, n::text FROM generate_series(1, 20) n;
INSERT INTO stats SELECT n, 'baseball_offensive_stats', n, 'persons', 1 + n % 8, 'season-regular' FROM generate_series(1, 16) n;
