"""The log of a MariaDB tells a run's states: each as a scan has it, or left open."""

from contextlib import closing

import pytest

pytest.importorskip("pymysqlreplication")

from statediff_mariadb.feed import MariaDbFeed
from statediff_mariadb.source import MariaDbSource

from sandboxes.mariadb.tests.docker.mariadb_runs import Run, connection, differing, make_system, now
from statediff.capture.source import SourceUnavailable, SourceUnfollowed
from statediff.capture.take import take
from statediff.contract.document.refinement import refine
from statediff.contract.document.schemafile import parse_schema_file
from statediff.kernel.diff import diff
from statediff.model.state import MemoryChunks
from statediff.model.values import Digested

pytestmark = pytest.mark.docker("mariadb")

DDL = """
CREATE TABLE item (id INTEGER NOT NULL PRIMARY KEY, name VARCHAR(40) NOT NULL, price DECIMAL(8, 2));
CREATE TABLE note (item INTEGER REFERENCES item (id) ON DELETE CASCADE, body TEXT);
CREATE TABLE counted (id INTEGER NOT NULL AUTO_INCREMENT PRIMARY KEY, x INT);
CREATE TABLE split (id INT PRIMARY KEY, x INT, twice INT AS (2 * x) STORED, more INT AS (x + 1))
  PARTITION BY HASH (id) PARTITIONS 3;
CREATE TABLE aside (id INT PRIMARY KEY, x INT) ENGINE = MEMORY;
"""
SEED = """
INSERT INTO item VALUES (1, 'a', 1.5), (2, 'b', NULL), (3, 'c', -0.01);
INSERT INTO note VALUES (1, 'x'), (1, 'x'), (2, 'y');
INSERT INTO counted (x) VALUES (1), (2);
INSERT INTO split (id, x) VALUES (1, 1), (2, 2), (3, 3);
"""


@pytest.fixture(scope="module")
def system(tmp_path_factory):
    made = make_system(tmp_path_factory.mktemp("store"), DDL, SEED)
    yield made
    made.stop()


@pytest.fixture
def run(system):
    system.reset()
    return Run(system)


def told_of(run):
    """The established run, with every state held against the scan that was made then."""
    found = run.end()
    changed = [t.state for t in found.seen.transactions]
    assert found.part.state.digest() == run.scan().digest()
    assert len(changed) == len(run.scans) - 1
    for told, scanned in zip(changed, run.scans[1:], strict=True):
        assert differing(told, scanned)[0] == set()
    return found, changed


LONG = "n" * 63
TOLD = {
    "values swapped between rows": ["UPDATE item SET name = IF(id = 1, 'b', 'a') WHERE id < 3"],
    "a scale and a negative zero": [
        "UPDATE item SET price = price * -0.0", "UPDATE item SET price = 7",
    ],
    "equal rows without a key": [
        "INSERT INTO note VALUES (1, 'x')", "DELETE FROM note WHERE body = 'x' LIMIT 2",
    ],
    "a key that changes": ["UPDATE item SET id = id + 10 WHERE id = 3"],
    "a generated column and partitions": [
        "UPDATE split SET x = x + 1", "DELETE FROM split WHERE id = 2",
    ],
    "a row deleted and made again": [
        "DELETE FROM item WHERE id = 13", "INSERT INTO item VALUES (13, 'c', -0.01)",
    ],
    "a message queued and withdrawn": [
        "INSERT INTO note VALUES (2, 'to: everybody')",
        "DELETE FROM note WHERE body = 'to: everybody'",
    ],
    "one definition": [
        "UPDATE item SET name = 'z'", "ALTER TABLE item CHANGE name title TEXT, ADD made INT",
        "UPDATE item SET made = 1 WHERE id = 1",
    ],
    "a table with a long name": [
        f"CREATE TABLE {LONG} (id INT PRIMARY KEY)", f"INSERT INTO {LONG} VALUES (1), (2)",
    ],
    "a truncation": ["TRUNCATE note", "INSERT INTO note VALUES (3, 'new')"],
    "a dropped table": ["UPDATE item SET name = 'q' WHERE id = 2", "DROP TABLE note"],
    "a view": ["CREATE VIEW v AS SELECT 1 AS one", "UPDATE item SET name = 'v'"],
    "a trigger": [
        "CREATE TRIGGER t BEFORE UPDATE ON item FOR EACH ROW SET NEW.price = 4",
        "UPDATE item SET name = 'by trigger'",
    ],
    "rows that follow others": ["UPDATE note SET body = 'w'", "DELETE FROM item WHERE id = 1"],
}  # fmt: skip


ROWS_ONLY = list(TOLD)[: list(TOLD).index("one definition")]
IN_ONE_RUN = {
    "rows of every kind": [text for name in ROWS_ONLY for text in TOLD[name]],
    **{name: statements for name, statements in TOLD.items() if name not in ROWS_ONLY},
}


@pytest.mark.parametrize("statements", IN_ONE_RUN.values(), ids=IN_ONE_RUN)
def test_every_state_is_told_and_is_the_one_that_a_scan_showed(run, statements):
    for statement in statements:
        assert run.agent(statement) == []
        run.scan()
    found, changed = told_of(run)
    assert found.seen.gap is None
    for told, scanned in zip(changed, run.scans[1:], strict=True):
        # A definition may set back the numbers that tables give out.
        assert differing(told, scanned)[1] <= {"db.sequence"}


OPEN = {
    "numbers given out": (
        ["INSERT INTO counted (x) VALUES (5)", "INSERT INTO counted (x) VALUES (6)"],
        {"db.sequence"},
    ),
    "two definitions": (
        ["ALTER TABLE item ADD a INT DEFAULT 1", "UPDATE item SET name = 'in between'",
         "ALTER TABLE item DROP a"],
        {"item", "db.column", "note"},
    ),
    "rows that follow others twice": (
        ["DELETE FROM item WHERE id = 1", "UPDATE note SET body = 'k'",
         "DELETE FROM item WHERE id = 2"],
        {"note"},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("statements", "types"), OPEN.values(), ids=OPEN)
def test_what_the_log_does_not_show_is_open_in_between_and_known_at_the_end(run, statements, types):
    for statement in statements:
        assert run.agent(statement) == []
        run.scan()
    found, changed = told_of(run)
    assert found.seen.gap is None
    for told, scanned in zip(changed[:-1], run.scans[1:], strict=False):
        assert differing(told, scanned)[1] >= types & scanned.tables.keys()
    assert differing(changed[-1], run.scans[-1]) == (set(), set())


def test_what_was_rolled_back_leaves_numbers_behind_and_nothing_else(run):
    run.agent("BEGIN", "INSERT INTO counted (x) VALUES (9)", "DELETE FROM note", "ROLLBACK")
    run.agent("BEGIN", "UPDATE item SET name = 'p'", "SAVEPOINT s", "DELETE FROM note",
              "ROLLBACK TO s", "COMMIT")  # fmt: skip
    run.scan()
    found, changed = told_of(run)
    assert found.seen.gap is None
    assert [row["name"] for _, row in changed[-1].tables["item"].rows()] == ["p", "p", "p"]


def test_a_run_in_which_only_numbers_were_given_out_has_one_state_more(run):
    run.agent("BEGIN", "INSERT INTO counted (x) VALUES (9)", "ROLLBACK")
    run.scan()
    found, changed = told_of(run)
    assert found.seen.gap is None
    assert len(changed) == 1


@pytest.mark.parametrize(
    ("statements", "named"),
    [
        (["UPDATE item SET name = 'p'"], [True]),
        (["INSERT INTO counted (x) VALUES (9)"], [True]),
        # The log does not tell whose number that was, and one state shows both.
        (["BEGIN", "INSERT INTO counted (x) VALUES (9)", "ROLLBACK", "UPDATE note SET body = 'p'"],
         [False]),
        (["UPDATE item SET name = 'p'", "INSERT INTO counted (x) VALUES (9)"], [True, True]),
    ],
)  # fmt: skip
def test_a_transaction_has_its_number_for_a_name_where_its_changes_are_surely_its(
    run, statements, named
):
    assert run.agent(*statements) == []
    found = run.end().seen
    assert found.gap is None
    assert [bool(each.names) for each in found.transactions] == named
    assert all(e.names in ((), (f"gtid {e.position}",)) for e in found.transactions)


def test_a_table_without_a_snapshot_stays_unobserved_whatever_its_log_says(run):
    run.agent("INSERT INTO aside VALUES (1, 1)", "UPDATE item SET name = 'p'")
    found = run.end()
    assert found.seen.gap is None
    assert found.part.state.digest() == run.scan().digest()
    assert not found.part.reading.is_complete
    assert "aside" in {doubt.type for doubt in found.doubts}


def test_work_in_two_phases_is_told_from_its_second_on(run):
    for statements in (
        ["UPDATE note SET body = 'before'"],
        ["XA START 'a'", "UPDATE item SET name = 'xa'", "XA END 'a'", "XA PREPARE 'a'"],
        ["UPDATE note SET body = 'meanwhile'"],
        ["XA COMMIT 'a'"],
        ["UPDATE note SET body = 'after'"],
    ):
        assert run.agent(*statements) == []
        run.scan()
    found = run.end()
    assert found.seen.gap is None
    assert found.part.state.digest() == run.scan().digest()
    told = [t.state for t in found.seen.transactions]
    names = [{row["name"] for _, row in s.tables["item"].rows()} for s in told]
    assert names[0] == {"a", "b", "c"}
    assert not told[1].tables["item"].enumeration.is_complete
    assert not told[2].tables["item"].enumeration.is_complete
    assert names[-1] == {"xa"}


BY_SETTING = [
    "SET sql_log_bin = 0", "SET binlog_format = STATEMENT", "SET binlog_row_image = MINIMAL",
    "SET gtid_seq_no = 99999", "SET GLOBAL binlog_format = STATEMENT", "RESET MASTER",
    "PURGE BINARY LOGS TO 'changes.000002'", "FLUSH BINARY LOGS", "SET server_id = 7",
    "SET gtid_domain_id = 3",
]  # fmt: skip


def test_no_agent_can_keep_anything_off_the_log(run):
    assert run.agent(*BY_SETTING) == [(statement, 1227) for statement in BY_SETTING]


PAST_THE_LOG = {
    "unlogged rows": ["SET sql_log_bin = 0", "UPDATE store.note SET body = 'unlogged'",
                      "SET sql_log_bin = 1", "UPDATE store.note SET body = 'logged'"],
    "an unlogged definition": ["SET sql_log_bin = 0", "CREATE TABLE store.more (id INT)"],
    "statements": ["SET binlog_format = STATEMENT", "UPDATE store.item SET name = RAND()",
                   "UPDATE store.item SET name = 'x'"],
    "parts of rows": ["SET binlog_row_image = MINIMAL", "UPDATE store.item SET name = 'x'"],
    "numbers skipped": ["SET gtid_seq_no = 99999", "UPDATE store.item SET name = 'x'"],
    "a log begun anew": ["RESET MASTER", "UPDATE store.item SET name = 'x'"],
    "a log begun anew and filled": ["RESET MASTER", *["TRUNCATE store.note"] * 40],
    "a log cut": ["FLUSH BINARY LOGS", "UPDATE store.item SET name = 'x'", "FLUSH BINARY LOGS",
                  "PURGE BINARY LOGS TO 'changes.000003'"],
    "a setting": ["SET GLOBAL max_connections = 61"],
    "rights for a while": ["GRANT SUPER ON *.* TO agent@localhost", "TRUNCATE store.note",
                           "REVOKE SUPER ON *.* FROM agent@localhost"],
    "rights for a while, in disguise": ["/*! GRANT SUPER ON *.* TO agent@localhost */",
                                        "/*x*/ REVOKE SUPER ON *.* FROM agent@localhost"],
    "rights written by hand": ["UPDATE mysql.global_priv SET priv = JSON_SET(priv, '$.access', 1)"],
}  # fmt: skip


@pytest.mark.parametrize("statements", PAST_THE_LOG.values(), ids=PAST_THE_LOG)
def test_what_the_owner_does_past_the_log_is_a_gap_or_open_and_never_silent(system, statements):
    system.reset()
    run = Run(system)
    run.agent("UPDATE note SET body = 'first' WHERE item = 2")
    run.owner(*statements)
    run.scan()
    try:
        found = run.end()
    except SourceUnavailable:
        return  # the log was not whole
    finally:
        system.reset()
    if found.seen.gap is None:
        assert found.part.state.digest() == run.scans[-1].digest()
        assert not any(differing(t.state, run.scans[-1])[0] for t in found.seen.transactions[-1:])


def grants(state):
    return {(row["role"], row["privilege"]) for _, row in state.tables["db.grant"].rows()}


def test_rights_that_were_given_and_taken_again_are_witnessed_with_their_transaction(system):
    system.reset()
    run = Run(system)
    for statement in (
        "CREATE USER guest@localhost IDENTIFIED BY 'secret'",
        "GRANT DELETE ON store.note TO guest@localhost",
        "UPDATE store.note SET body = 'meanwhile'",
        "SET PASSWORD FOR guest@localhost = PASSWORD('other')",
        "DROP USER guest@localhost",
    ):
        run.owner(statement)
        run.scan()
    found, changed = told_of(run)
    system.reset()
    assert found.seen.gap is None
    assert [differing(*pair) for pair in zip(changed, run.scans[1:], strict=True)] == [
        (set(), set())
    ] * 5
    given = ("guest@localhost", "DELETE")
    assert [given in grants(state) for state in changed] == [False, True, True, True, False]


def test_rights_to_write_past_the_log_are_witnessed_and_leave_a_gap(system):
    system.reset()
    run = Run(system)
    run.owner("GRANT SUPER ON *.* TO agent@localhost", "REVOKE SUPER ON *.* FROM agent@localhost")
    run.scan()
    found = run.end()
    system.reset()
    first, last = (t.state for t in found.seen.transactions)
    assert ("agent@localhost", "SUPER") in grants(first) - grants(last)
    assert "'agent'@'localhost' may have written past its log" in found.seen.gap
    assert last.digest() == run.scans[-1].digest()


def test_what_is_written_past_the_log_by_somebody_who_may_is_found_by_a_whole_look(system):
    system.reset()
    with system._running().admin() as owner:
        owner.query("GRANT BINLOG ADMIN ON *.* TO agent@localhost")
    run = Run(system)
    run.agent("UPDATE note SET body = 'x' LIMIT 1", "SET sql_log_bin = 0", "DELETE FROM item")
    run.scan()
    found = run.end()
    system.reset()
    assert "item changed without a word in its log" in found.seen.gap
    assert found.part.state.digest() == run.scans[-1].digest()


def test_an_account_that_may_write_past_the_log_is_named_from_the_start(system):
    system.reset()
    with system._running().admin() as owner:
        owner.query("GRANT BINLOG ADMIN ON *.* TO agent@localhost")
    run = Run(system)
    run.agent("UPDATE note SET body = 'x'")
    assert "'agent'@'localhost' may have written past its log" in (run.end().seen.gap or "")
    system.reset()


def test_a_log_of_parts_cannot_be_attached_to(system):
    system.reset()
    with system._running().admin() as owner:
        owner.query("SET GLOBAL binlog_row_image = MINIMAL")
    (feed,) = system.feeds()
    with pytest.raises(SourceUnavailable, match="binlog_row_image"):
        feed.attach()
    system.reset()


def test_a_feed_that_is_not_attached_and_a_server_that_is_gone_say_so(system):
    system.reset()
    run = Run(system)
    run.feed.detach()
    with pytest.raises(SourceUnavailable, match="no feed"):
        run.feed.finish(MemoryChunks(), now, run.before)
    run.feed.attach()
    system.unplug("store")
    with pytest.raises(SourceUnavailable):
        run.feed.finish(MemoryChunks(), now, run.before)
    system.reset()


def test_a_log_that_does_not_fit_the_state_before_is_no_history(run):
    run.agent("UPDATE item SET name = 'since' WHERE id = 1")
    late = run.scan()
    run.agent("UPDATE item SET name = 'then' WHERE id = 1")
    with pytest.raises(SourceUnavailable, match="does not fit"):
        run.feed.establish(run.store, now, late)


VALUES = {
    "TINYINT UNSIGNED": "255", "SMALLINT ZEROFILL": "7", "MEDIUMINT": "-8388608",
    "BIGINT": "-9223372036854775808", "BIGINT UNSIGNED": "18446744073709551615",
    "BOOLEAN": "2", "YEAR": "1999", "BIT(9)": "B'100000001'",
    "DECIMAL(20, 3)": "-1.5", "DECIMAL(30, 10)": "-0.0000000001", "DECIMAL(3, 3)": "-0.999",
    "DECIMAL(9)": "-999999999", "DECIMAL(18, 9)": "-123456789.123456789", "DECIMAL(65, 30)": "-0.0",
    "FLOAT": "16777217.0 / 3", "DOUBLE": "-0.0e0",
    "CHAR(5)": "'a  '", "VARBINARY(9)": "X'00FF00'", "BINARY(4)": "X'0100'", "CHAR(200)": "'ü'",
    "VARCHAR(300)": "REPEAT('😀', 290)", "VARCHAR(20) CHARACTER SET latin1": "'plain'",
    "VARCHAR(20) CHARACTER SET utf8mb3": "'ü'", "LONGTEXT": "REPEAT('y', 16777217)",
    "MEDIUMBLOB": "REPEAT('y', 70000)", "JSON": """'{"a": 1,  "a": 1.0}'""",
    "DATE": "'2024-02-00'", "DATETIME": "'0000-00-00 00:00:00'",
    "DATETIME(6)": "'2024-01-02 03:04:05.6'", "TIMESTAMP(3) NULL": "'2024-01-02 03:04:05.678'",
    "TIMESTAMP NULL": "'0000-00-00 00:00:00'", "TIME": "'-00:00:01'", "TIME(1)": "'-838:59:59.0'",
    "TIME(4)": "'-00:00:01.2345'", "TIME(6)": "'-12:34:56.000001'",
    "ENUM('sad', 'ok')": "'ok'", "SET('x', 'y', 'ü')": "'x,ü'", "POINT": "POINT(1, -2)",
    "UUID": "UUID()", "INET6": "'::1'", "VARCHAR(20) CHARACTER SET latin1 COMMENT ''": "'ü'",
    "DOUBLE(9, 2)": "1.005",
}  # fmt: skip
LEFT_OPEN = ("POINT", "UUID", "INET6", "VARCHAR(20) CHARACTER SET latin1 C", "DOUBLE(9")
"""Types whose cells are not read from the log."""


def test_values_of_every_type_are_read_from_the_log_as_a_query_reads_them_or_left_open(system):
    system.reset()
    with closing(connection(system)) as line, line.cursor() as cursor:
        cursor.execute("SET sql_mode = 'NO_ENGINE_SUBSTITUTION'")
        for n, declared in enumerate(VALUES):
            cursor.execute(f"CREATE TABLE t{n} (id INT PRIMARY KEY, c {declared})")
        run = Run(system)
        for n, value in enumerate(VALUES.values()):
            cursor.execute(f"INSERT INTO t{n} VALUES (1, {value}), (2, NULL)")
    middle = run.scan()
    with closing(connection(system)) as line, line.cursor() as cursor:
        for n in range(len(VALUES)):
            cursor.execute(f"UPDATE t{n} SET id = id + 2")
    run.scan()
    found = run.end()
    wrong, untold = differing(found.seen.transactions[len(VALUES) - 1].state, middle)
    names = {f"t{n}" for n, declared in enumerate(VALUES) if declared.startswith(LEFT_OPEN)}
    assert (wrong, untold) == (set(), names)
    assert found.part.state.digest() == run.scans[-1].digest()
    assert found.seen.gap is None


def test_wide_values_are_told_by_digest_by_scan_and_by_the_log(run):
    text = (
        "schema: docs\nversion: 1.0.0\nentities:\n  doc:\n    fields:\n"
        "      b: {digest_above_bytes: 0}\n      t: {digest_above_bytes: 8}\n"
        "      v: {digest_above_bytes: 4}\n"
    )
    assert (
        run.agent(
            "CREATE TABLE doc (id INT PRIMARY KEY, b LONGBLOB, t TEXT CHARACTER SET latin1,"
            " v VARCHAR(20))",
            "INSERT INTO doc VALUES (1, x'00ff', 'é long text', 'short'), (2, NULL, 'é', 'ü')",
        )
        == []
    )
    run.feed.detach()
    how = refine(parse_schema_file(text.encode(), "schema.yaml"), run.source.name)
    source = MariaDbSource(run.source.name, run.source._url, how, may_mark=True)
    feed = MariaDbFeed(run.source.name, run.feed._url, how)
    feed.attach()
    try:
        before = source.read(run.store, now, None).state
        first, second = (row for _, row in before.tables["doc"].rows())
        assert (first["b"], first["t"], first["v"]) == (
            Digested.of(b"\0\xff"), Digested.of("é long text"), Digested.of("short"),
        )  # fmt: skip
        assert (second["b"], second["t"], second["v"]) == (None, "é", "ü")
        assert (
            run.agent(
                "UPDATE doc SET b = CONCAT(b, x'01'), t = 'ascii only' WHERE id = 1",
                "INSERT INTO doc VALUES (3, REPEAT('x', 70000), 'short', NULL)",
            )
            == []
        )
        told = feed.establish(run.store, now, before)
    finally:
        feed.detach()
    after = source.read(run.store, now, before).state
    assert told.part.state.digest() == after.digest()
    found = diff(before, after)
    assert [d.id for d in found.deltas] == ["doc[1].b", "doc[1].t", "doc[3]"]
    assert {d.type for d in found.doubts} == {"aside"}


UNFOLLOWED = {
    "transactions": ("MAX_TRANSACTIONS", 1, ["UPDATE item SET price = 7", "DELETE FROM note"]),
    "bytes": ("MAX_BYTES", 3, ["UPDATE item SET price = 7"]),
}


@pytest.mark.parametrize("name", UNFOLLOWED)
def test_a_log_that_the_run_overran_is_its_doing(run, monkeypatch, name):
    bound, limit, statements = UNFOLLOWED[name]
    monkeypatch.setattr(f"statediff_mariadb.log.{bound}", limit)
    assert run.agent(*statements) == []
    with pytest.raises(SourceUnfollowed, match=r"^caused by the run: "):
        run.end()


def test_a_database_that_the_run_drops_is_a_change(run):
    before = take([run.source], run.store, now, None, "before")
    assert run.agent("DROP DATABASE store") == []
    [part] = take([run.source], run.store, now, before, "after").parts
    assert part.state.tables[f"source.{run.source.name}"].row_count == 1
