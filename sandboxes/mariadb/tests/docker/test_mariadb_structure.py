"""Indexes of MariaDB that do not have what their tables have are state: `db.structure`."""

import pytest

pytest.importorskip("pymysqlreplication")

from statediff_mariadb.source import MariaDbSource

from sandboxes.mariadb.tests.docker.mariadb_runs import Run, make_system, now
from statediff.kernel.diff import diff
from statediff.systems.relational.structure import STRUCTURE

pytestmark = pytest.mark.docker("mariadb")
DDL = """
CREATE TABLE visit (id INT PRIMARY KEY, at VARCHAR(30),
  since BIGINT AS (UNIX_TIMESTAMP(at)) VIRTUAL, KEY by_since (since));
CREATE TABLE plain (id INT PRIMARY KEY, note VARCHAR(30), KEY by_note (note));
"""
SEED = """
INSERT INTO visit (id, at) SELECT seq, '2026-01-01 10:00:00' + INTERVAL seq HOUR FROM seq_1_to_50;
INSERT INTO plain SELECT seq, seq FROM seq_1_to_50;
"""
ELSEWHERE, HERE = "SET time_zone = '+05:00'", "SET time_zone = '+00:00'"
HARMFUL = {
    "a row is written in another zone": "INSERT INTO visit (id, at) VALUES (90, '2026-02-01')",
    "a row is changed in another zone": "UPDATE visit SET at = '2026-02-01' WHERE id = 7",
}
HARMLESS = (
    "INSERT INTO visit (id, at) VALUES (90, '2026-02-01')",
    "UPDATE visit SET at = '2026-02-01' WHERE id = 7",
    "DELETE FROM visit WHERE id = 8",
    "UPDATE plain SET note = 'x' WHERE id = 3",
)


@pytest.fixture(scope="module")
def system(tmp_path_factory):
    made = make_system(tmp_path_factory.mktemp("store"), DDL, SEED)
    yield made
    made.stop()


def compared(system, *statements):
    """The diff of two scans, and the table that the feed and the scan both have."""
    system.reset()
    run = Run(system)
    try:
        assert run.agent(*statements) == []
        by_scan = run.scan()
        told = run.feed.establish(run.store, now, run.before).part.state
    finally:
        run.feed.detach()
    tables = [state.tables[STRUCTURE] for state in (told, by_scan)]
    assert [bool(t.row_count) for t in tables] in ([True, True], [False, False])
    return diff(run.before, by_scan), by_scan.tables[STRUCTURE]


@pytest.mark.parametrize("name", HARMFUL)
def test_what_an_index_lost_in_a_run_is_a_change(system, name):
    found, table = compared(system, ELSEWHERE, HARMFUL[name], HERE)
    assert table.enumeration.is_complete
    assert {row["object"] for _, row in table.rows()} == {"visit"}
    assert [d for d in found.deltas if d.type == STRUCTURE]


def test_ordinary_work_leaves_indexes_sound(system):
    found, table = compared(system, *HARMLESS)
    assert table.enumeration.is_complete
    assert not [d for d in (*found.deltas, *found.doubts) if d.type == STRUCTURE]


def test_a_server_that_others_need_is_not_asked(system):
    system.reset()
    run = Run(system)
    run.feed.detach()
    source = MariaDbSource("store", system._running().reader_url)
    enumeration = source.read(run.store, now, None).state.tables[STRUCTURE].enumeration
    assert "is checked in sandboxes" in str(enumeration.cause)


MADE = (
    "CREATE TABLE far (a INT, b INT, KEY (a), KEY (b))",
    "CREATE TABLE near (a INT, CONSTRAINT led FOREIGN KEY (a) REFERENCES far (a))",
    "CREATE TABLE words (one TEXT, two TEXT, FULLTEXT KEY found (one))",
    "CREATE TABLE parts (id INT) PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (10))",
    "CREATE SEQUENCE numbers",
    "CREATE VIEW shown AS SELECT id FROM plain WHERE id > 3",
    "CREATE FUNCTION one() RETURNS INT DETERMINISTIC RETURN 1",
    "CREATE TRIGGER t BEFORE INSERT ON plain FOR EACH ROW SET NEW.note = 'x'",
    "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO DELETE FROM plain",
)
WRITTEN_ANEW = "CREATE OR REPLACE TRIGGER t BEFORE INSERT ON plain FOR EACH ROW SET NEW.note = 'x'"
ALTERED = (
    (
        "ALTER TABLE near DROP FOREIGN KEY led",
        "ALTER TABLE near ADD CONSTRAINT led FOREIGN KEY (a) REFERENCES far (b)",
    ),
    ("ALTER TABLE words DROP KEY found, ADD FULLTEXT KEY found (two)",),
    ("ALTER TABLE parts REORGANIZE PARTITION p INTO (PARTITION p VALUES LESS THAN (20))",),
    ("ALTER SEQUENCE numbers MAXVALUE 77",),
    ("CREATE OR REPLACE VIEW shown AS SELECT id FROM plain WHERE id > 3 WITH CHECK OPTION",),
    ("CREATE OR REPLACE ALGORITHM = TEMPTABLE VIEW shown AS SELECT id FROM plain WHERE id > 3",),
    ("CREATE OR REPLACE FUNCTION one() RETURNS INT NOT DETERMINISTIC RETURN 1",),
    ("SET sql_mode = 'ANSI_QUOTES'", "CREATE OR REPLACE FUNCTION one() RETURNS INT RETURN 1"),
    ("ALTER FUNCTION one READS SQL DATA",),
    ("SET sql_mode = ''", WRITTEN_ANEW),
    ("SET NAMES latin1", WRITTEN_ANEW),
    ("SET time_zone = '+05:00'", "ALTER EVENT e ON SCHEDULE EVERY 1 DAY"),
    ("ALTER EVENT e DISABLE",),
    ("ALTER TABLE plain MODIFY note VARCHAR(30) COMMENT 'x'",),
    ("ALTER TABLE plain MODIFY note VARCHAR(30) INVISIBLE",),
    ("ALTER TABLE plain ADD CHECK (id > 0)",),
)


def test_nothing_that_an_account_can_alter_is_left_out_of_the_catalogue(system):
    system.reset()
    run = Run(system)
    run.feed.detach()
    assert run.agent(*MADE) == []
    unseen, found = [], run.scan()
    for statements in ALTERED:
        before = found
        assert run.agent(*statements) == []
        found = run.scan()
        told = [name for name in found.tables if name.startswith("db.")]
        unseen += [statements] * all(found.tables[n] == before.tables[n] for n in told)
    assert not unseen, unseen
