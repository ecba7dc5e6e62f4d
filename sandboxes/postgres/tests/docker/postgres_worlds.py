"""A PostgreSQL with a table of each awkward shape, and runs on it that a feed and a scan watch."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import psycopg
from statediff_postgres.sandbox import PostgresSystem

from statediff.capture.guard import Established, differing
from statediff.model.readings import SourceCapture
from statediff.model.state import MemoryChunks, State
from statediff.packs import PackSource

LONG = "ü" * 31
DDL = f"""
CREATE TABLE item (id int PRIMARY KEY, name text, price numeric, size float8, ok boolean);
CREATE TABLE note (body text, n int);
CREATE UNLOGGED TABLE quick (id int PRIMARY KEY, body text);
CREATE TABLE wide (id int PRIMARY KEY, body text, n int);
ALTER TABLE wide ALTER body SET STORAGE EXTERNAL;
CREATE TABLE "{LONG}" ("{LONG}" int PRIMARY KEY, v text);
CREATE TABLE sums (a int PRIMARY KEY, b int GENERATED ALWAYS AS (a * 2) STORED, c text);
CREATE TABLE part (id int, region text, v text, PRIMARY KEY (id, region))
  PARTITION BY LIST (region);
CREATE TABLE part_n PARTITION OF part FOR VALUES IN ('n');
CREATE TABLE part_s PARTITION OF part FOR VALUES IN ('s');
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TABLE felt (id int PRIMARY KEY, how mood, rel regclass);
CREATE TABLE base (id int PRIMARY KEY, v text);
CREATE TABLE derived (more text) INHERITS (base);
CREATE SEQUENCE numbers;
CREATE VIEW shown AS SELECT id, name FROM item;
CREATE MATERIALIZED VIEW kept AS SELECT count(*) AS n FROM item;
"""
SEED = f"""
INSERT INTO item
  SELECT n, 'item ' || n, n * 1.10, n / 3.0, n % 2 = 0 FROM generate_series(1, 300) n;
INSERT INTO note VALUES ('x', 1), ('x', 1), ('y', NULL);
INSERT INTO quick VALUES (1, 'a');
INSERT INTO wide SELECT n, repeat(md5(n::text), 400), n FROM generate_series(1, 5) n;
INSERT INTO "{LONG}" VALUES (1, 'a');
INSERT INTO sums (a, c) VALUES (1, 'x'), (2, 'y');
INSERT INTO part
  SELECT n, CASE n % 2 WHEN 0 THEN 'n' ELSE 's' END, 'p' FROM generate_series(1, 6) n;
INSERT INTO felt VALUES (1, 'ok', 'item'), (2, 'sad', NULL);
INSERT INTO base VALUES (1, 'b');
INSERT INTO derived VALUES (2, 'd', 'm');
"""


def now() -> datetime:
    return datetime.now(UTC)


def world(folder: Path) -> PostgresSystem:
    """The system, not started."""
    files = {"ddl": folder / "ddl.sql", "seed": folder / "seed.sql"}
    files["ddl"].write_text(DDL)
    files["seed"].write_text(SEED)
    return PostgresSystem(PackSource("store", "postgres", None, files), (), folder / "own")


class Watched:
    """One run that was watched by a feed, and scanned."""

    def __init__(self, system: PostgresSystem, store: MemoryChunks | None = None) -> None:
        self.store = store or MemoryChunks()
        (self.source,) = system.sources()
        (self.feed,) = system.feeds()
        self.feed.attach()
        self.before: SourceCapture = self.source.read(self.store, now, None)

    def end(self) -> tuple[Established, SourceCapture]:
        """The state that the feed establishes, and the one that a scan finds."""
        try:
            told = self.feed.establish(self.store, now, self.before.state)
            return told, self.source.read(self.store, now, self.before.state)
        finally:
            self.feed.detach()


def run(system: PostgresSystem, statements: Sequence[str]) -> tuple[Established, SourceCapture]:
    """The feed's and the scan's result of the agent's statements; the system is reset first."""
    system.reset()
    watched = Watched(system)
    try:
        with psycopg.connect(system.url, autocommit=True) as agent:
            for statement in statements:
                agent.execute(statement)
    except BaseException:
        watched.feed.detach()
        raise
    return watched.end()


def agrees(told: Established, scan: SourceCapture) -> bool:
    """True if the feed established the very state that the scan shows."""
    assert differing(told.part.state, scan.state) == ()
    assert told.part.state.digest() == scan.state.digest()
    assert told.part.reading.is_complete == scan.reading.is_complete
    last = told.seen.transactions[-1].state if told.seen.transactions else None
    assert last is None or last.digest() == told.part.state.digest()
    return True


def ids(state: State, name: str, field: str = "id") -> list[object]:
    return [row[field] for _, row in state.tables[name].rows()]
