"""Gates of a full scan of MariaDB, and what a run undid: told or unobserved, none is silent."""

import re
from contextlib import closing

import pytest

pytest.importorskip("pymysqlreplication")

from sandboxes.mariadb.tests.docker.mariadb_runs import Run, connection, make_system, now
from statediff.kernel.diff import diff
from tests.witnessing import DELETED, QUEUED, ROWS, TABLES, run, witnessed

pytestmark = pytest.mark.docker("mariadb")
LONG = "n" * 63
DDL = f"""
{";".join(TABLES)};
CREATE TABLE item (id INT PRIMARY KEY, a VARCHAR(20), b VARCHAR(20), n DECIMAL(12, 4), r DOUBLE,
  w LONGTEXT, g INT AS (LENGTH(w)) STORED);
CREATE TABLE bag (x VARCHAR(20));
CREATE TABLE aside (id INT PRIMARY KEY, x INT) ENGINE = MEMORY;
CREATE TABLE {LONG} (id INT PRIMARY KEY, {LONG} VARCHAR(20));
CREATE VIEW shown AS SELECT a FROM item;
CREATE SEQUENCE counter;
CREATE TABLE counted (id INT AUTO_INCREMENT PRIMARY KEY);
CREATE TABLE part (id INT PRIMARY KEY, x VARCHAR(9)) PARTITION BY RANGE (id)
  (PARTITION low VALUES LESS THAN (10), PARTITION high VALUES LESS THAN (20));
"""
ASIDE = "exclude:\n  - {what: aside, because: it has no snapshot}\n"
SEED = f"""
{";".join(ROWS)};
INSERT INTO item (id, a, b, n, r, w) VALUES (1, 'x', 'y', 1.5, 0.0, 'short'),
  (2, 'y', 'x', 2, 0.0, REPEAT('w', 50000));
INSERT INTO bag VALUES ('same'), ('same'), ('other');
INSERT INTO {LONG} VALUES (1, 'a');
INSERT INTO part VALUES (1, 'low'), (11, 'high');
"""
GATES = {
    "values swapped between rows": (
        "UPDATE item SET a = IF(id = 1, 'y', 'x'), b = IF(id = 1, 'x', 'y')", {"item"},
    ),
    "one column swapped between rows": ("UPDATE item SET a = IF(id = 1, 'x', 'y')", {"item"}),
    "numeric scale": ("ALTER TABLE item MODIFY n DECIMAL(12, 2)", {"item", "db.column"}),
    "a table without a snapshot": ("INSERT INTO aside VALUES (1, 1)", {"aside"}),
    "a sequence": ("SELECT NEXTVAL(counter)", {"db.sequence"}),
    "numbers that a table gives out": (
        "BEGIN; INSERT INTO counted VALUES (); ROLLBACK", {"db.sequence"},
    ),
    "one of two equal rows is gone": ("DELETE FROM bag WHERE x = 'same' LIMIT 1", {"bag"}),
    "a wide value changes in one byte": (
        "UPDATE item SET w = INSERT(w, 40000, 1, 'W') WHERE id = 2", {"item"},
    ),
    "a narrow value beside a wide one": ("UPDATE item SET a = 'q' WHERE id = 2", {"item"}),
    "names of 63 bytes": (f"UPDATE {LONG} SET {LONG} = 'b'", {LONG}),
    "a view": ("CREATE OR REPLACE VIEW shown AS SELECT b AS a FROM item", {"db.view"}),
    "a generated column": ("UPDATE item SET w = 'long' WHERE id = 1", {"item"}),
    "a row moves between partitions": ("UPDATE part SET id = 12 WHERE id = 1", {"part"}),
    "a partition is emptied": ("ALTER TABLE part TRUNCATE PARTITION high", {"part"}),
    "commits that need not be on disk": (
        "SET @@SESSION.sync_binlog = 0; UPDATE item SET b = 'q' WHERE id = 1", {"item"},
    ),
    "a trigger": (
        "CREATE TRIGGER t BEFORE UPDATE ON bag FOR EACH ROW SET NEW.x = 'hers'", {"db.trigger"},
    ),
    "TRUNCATE": ("TRUNCATE bag", {"bag"}),
    "a column is added": ("ALTER TABLE bag ADD more INT DEFAULT 5", {"db.column"}),
    "a renamed column": ("ALTER TABLE item CHANGE a z VARCHAR(20)", {"item", "db.column"}),
    "a dropped table": (f"DROP TABLE {LONG}", {LONG, "db.table"}),
}  # fmt: skip


@pytest.fixture(scope="module")
def system(tmp_path_factory):
    made = make_system(tmp_path_factory.mktemp("store"), DDL, SEED)
    yield made
    made.stop()


def test_a_change_is_told_where_it_was_made_or_declared_unobserved(system):
    system.reset()
    watched = Run(system)
    watched.feed.detach()
    state, silent = watched.before, []
    for gate, (statements, where) in GATES.items():
        refused = watched.agent(*statements.split("; "))
        assert not refused or gate == "commits that need not be on disk", (gate, refused)
        found = watched.source.read(watched.store, now, state).state
        compared = diff(state, found)
        told = {d.type for d in compared.deltas} | {d.type for d in compared.doubts}
        if not where <= told:
            silent.append((gate, sorted(told)))
        state = found
    assert not silent


def test_the_server_itself_keeps_no_sign_of_zero(system):
    """So there is no change to be told; where that is not so any more, it must be a gate."""
    with closing(connection(system)) as line, line.cursor() as cursor:
        for zero in ("-0e0", "'-0'", "-1e-400", "-1e-320 / 1e300"):
            cursor.execute(f"UPDATE item SET r = {zero} WHERE id = 1")
            cursor.execute("SELECT CAST(r AS CHAR) FROM item WHERE id = 1")
            assert cursor.fetchone() == ("0",)


def test_work_that_was_rolled_back_is_no_change(system):
    system.reset()
    watched = Run(system)
    watched.feed.detach()
    assert watched.agent("BEGIN", "DELETE FROM item", "UPDATE bag SET x = 'q'", "ROLLBACK") == []
    found = diff(watched.before, watched.scan())
    assert found.deltas == ()
    assert {doubt.type for doubt in found.doubts} == {"aside"}


def test_what_was_undone_is_witnessed_with_its_transaction(system):
    system.reset()
    (source,), (feed,) = system.sources(), system.feeds()
    granted = (
        "GRANT DELETE ON store.note TO agent@localhost",
        "REVOKE DELETE ON store.note FROM agent@localhost",
    )
    with system._running().admin() as owner, closing(connection(system)) as line:
        agent = line.cursor()

        def execute(statement):
            owner.query(statement) if statement in granted else agent.execute(statement)

        sides = run(source, feed, execute, (*granted, *DELETED, *QUEUED))
    told = [
        witnessed(source, what, sides, ASIDE)
        for what in ("create: db.grant", "delete: note", "create: queue")
    ]
    found = [re.match(r"in transaction (\S+) of store \(position ", each) for each in told]
    assert [each and each[1] for each in found] == ["1", "3", "5"], told
