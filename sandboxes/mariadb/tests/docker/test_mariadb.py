"""A real MariaDB in a container: read exactly, put back, proven, found wanting where changed."""

import time
import zlib
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

pymysql = pytest.importorskip("pymysql")

from urllib.parse import urlsplit  # noqa: E402

from pymysql.constants import CLIENT  # noqa: E402
from statediff_mariadb.proof import rows_of  # noqa: E402
from statediff_mariadb.sandbox import MariaDbSystem  # noqa: E402
from statediff_mariadb.session import fetched  # noqa: E402

from sandboxes.containers.tests.docker.logical import logical_types  # noqa: E402
from statediff.capture.source import SourceUnavailable  # noqa: E402
from statediff.model.schema import Kind  # noqa: E402
from statediff.model.state import Coverage, MemoryChunks  # noqa: E402
from statediff.model.values import ABSENT, Digested, same  # noqa: E402
from statediff.packs import PackSource, sandbox_pack  # noqa: E402
from statediff.systems.sqlite.sandbox import EmbeddedDatabase  # noqa: E402

pytestmark = pytest.mark.docker("mariadb")

DDL = """
CREATE TABLE item (id INTEGER NOT NULL AUTO_INCREMENT PRIMARY KEY, name VARCHAR(40) NOT NULL);
CREATE TABLE note (item INTEGER REFERENCES item (id), body TEXT);
"""
SEED = "INSERT INTO item (name) VALUES ('a'), ('b'); INSERT INTO note VALUES (1, 'x'), (1, 'x');"


BUSY_DDL = """
CREATE TABLE item (id INTEGER NOT NULL AUTO_INCREMENT PRIMARY KEY, name VARCHAR(40) NOT NULL,
  shouted VARCHAR(40) AS (UPPER(name)) STORED);
CREATE TABLE log (id INTEGER NOT NULL AUTO_INCREMENT PRIMARY KEY, item INTEGER,
  FOREIGN KEY (item) REFERENCES item (id) ON DELETE SET NULL);
CREATE TABLE untouched (id INTEGER NOT NULL PRIMARY KEY);
CREATE TRIGGER log_new AFTER INSERT ON item FOR EACH ROW INSERT INTO log (item) VALUES (NEW.id);
CREATE TRIGGER log_again AFTER INSERT ON item FOR EACH ROW INSERT INTO log (item) VALUES (NEW.id);
CREATE TRIGGER log_change AFTER UPDATE ON item FOR EACH ROW INSERT INTO log (item) VALUES (NULL);
CREATE TRIGGER keep BEFORE DELETE ON log FOR EACH ROW SIGNAL SQLSTATE '45000';
"""


def now():
    return datetime.now(UTC)


@pytest.fixture(scope="module")
def system(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pack")
    (folder / "ddl.sql").write_text(DDL)
    (folder / "seed.sql").write_text(SEED)
    files = {"ddl": folder / "ddl.sql", "seed": folder / "seed.sql"}
    made = MariaDbSystem(PackSource("store", "mariadb", None, files), (), folder / "own")
    made.start()
    yield made
    made.stop()


@pytest.fixture
def fresh(system):
    system.reset()
    proof, drift = system.verify()
    assert drift == ()
    assert proof.expected == proof.found
    assert proof.entities == 4
    return system


def connected(system, database="store"):
    parts = urlsplit(system.url)
    return pymysql.connect(
        host=parts.hostname, port=parts.port, user=parts.username, password=parts.password,
        database=database, charset="utf8mb4", autocommit=True, ssl_disabled=True,
        client_flag=CLIENT.MULTI_STATEMENTS,
    )  # fmt: skip


def as_agent(system, *statements):
    with connected(system) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def as_owner(system, *statements):
    with system._running().admin() as connection:
        for statement in statements:
            connection.query(statement)


def drifted(system):
    proof, drift = system.verify()
    assert (proof.expected == proof.found) is not bool(drift)
    return {entry.what for entry in drift}


def read(system, like=None):
    (source,) = system.sources()
    return source.read(MemoryChunks(), now, like)


def rows(state, name):
    return [row for _, row in state.tables[name].rows()]


def test_what_an_agent_changes_is_found_by_the_proof_and_gone_after_a_reset(fresh):
    container = fresh._running().container.id
    as_agent(
        fresh,
        "UPDATE note SET body = 'y' LIMIT 1",
        "BEGIN; INSERT INTO item (name) VALUES ('rolled back'); ROLLBACK",
        "CREATE VIEW v AS SELECT 1 AS one",
        "CREATE TRIGGER t BEFORE INSERT ON note FOR EACH ROW SET NEW.body = 'z'",
    )
    assert drifted(fresh) == {
        "table note",
        "definition of item",  # its next number
        "definition of v",
        "trigger store.t",
    }
    fresh.reset()
    assert drifted(fresh) == set()
    assert fresh._running().container.id == container


@pytest.fixture(scope="module")
def busy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("busy")
    (folder / "ddl.sql").write_text(BUSY_DDL)
    (folder / "seed.sql").write_text("INSERT INTO item (name) VALUES ('a'), ('b');")
    files = {"ddl": folder / "ddl.sql", "seed": folder / "seed.sql"}
    made = MariaDbSystem(PackSource("store", "mariadb", None, files), (), folder / "own")
    made.start()
    yield made
    made.stop()


def created_at(system):
    with system._running().admin() as admin:
        return fetched(
            admin,
            "SELECT create_time FROM information_schema.tables WHERE table_name = 'untouched'",
        )


def test_rows_are_put_back_without_making_the_database_again_and_set_off_no_trigger(busy):
    busy.reset()
    assert drifted(busy) == set()
    before = created_at(busy)
    as_agent(
        busy,
        "UPDATE item SET name = 'changed'",
        "INSERT INTO item (name) VALUES ('c')",
        "DELETE FROM item WHERE id = 1",
    )
    assert {"table item", "table log", "rows of log", "definition of log"} <= drifted(busy)
    busy.reset()
    assert drifted(busy) == set()
    assert created_at(busy) == before
    as_agent(busy, "INSERT INTO item (name) VALUES ('again')")
    assert "rows of log" in drifted(busy), "its triggers are there again"


def test_copies_that_were_changed_too_make_the_database_be_made_again(busy):
    busy.reset()
    as_owner(busy, "UPDATE mysql.statediff_base_0 SET name = 'forged'")
    as_agent(busy, "DELETE FROM item")
    busy.reset()
    assert drifted(busy) == set()


def with_its_crc(wanted: bytes, start: bytes, letters: bytes) -> str:
    """`start` and the letters, some in the other case, so that CRC-32 takes them for `wanted`."""
    plain = zlib.crc32(start + letters)
    basis: dict[int, tuple[int, int]] = {}
    for at in range(len(letters)):
        flipped = letters[:at] + letters[at : at + 1].swapcase() + letters[at + 1 :]
        change, flips = zlib.crc32(start + flipped) ^ plain, 1 << at
        while change and (known := basis.get(change.bit_length())):
            change, flips = change ^ known[0], flips ^ known[1]
        if change:
            basis[change.bit_length()] = change, flips
    missing, flips = plain ^ zlib.crc32(wanted), 0
    while missing:
        change, more = basis[missing.bit_length()]
        missing, flips = missing ^ change, flips ^ more
    return "".join(
        (letters[at : at + 1].swapcase() if flips >> at & 1 else letters[at : at + 1]).decode()
        for at in range(len(letters))
    )


def test_rows_that_were_made_to_have_the_checksum_of_others_are_others(fresh):
    letters = "abcdefghijklmnopqrstuvwxyz" * 2
    with connected(fresh) as line, line.cursor() as cursor, fresh._running().admin() as admin:
        cursor.execute("ALTER TABLE item ADD role VARCHAR(9) NOT NULL, ADD note TEXT NOT NULL")
        cursor.execute("UPDATE item SET role = 'guest', note = %s", (letters,))
        of_rows = rows_of(admin, "store", "item")
        cursor.execute("CHECKSUM TABLE item EXTENDED")
        checksum = cursor.fetchall()
        forged = with_its_crc(f"guest{letters}".encode(), b"admin", letters.encode())
        cursor.execute("UPDATE item SET role = 'admin', note = %s WHERE id = 1", (forged,))
        cursor.execute("CHECKSUM TABLE item EXTENDED")
        assert cursor.fetchall() == checksum, "the server itself cannot tell them apart"
        assert rows_of(admin, "store", "item") != of_rows


def test_an_agent_cannot_read_the_copies(busy):
    busy.reset()
    with pytest.raises(pymysql.Error, match="denied"):
        as_agent(busy, "SELECT * FROM mysql.statediff_base_0")


def test_a_password_of_the_agents_own_choice_is_found_and_replaced(fresh):
    url = fresh.url
    as_agent(fresh, "SET PASSWORD = PASSWORD('mine')")
    assert drifted(fresh) == {"account agent@localhost"}
    fresh.reset()
    assert drifted(fresh) == set()
    assert fresh.url != url
    as_agent(fresh, "SELECT 1")


def test_what_only_the_owner_can_change_is_found_and_the_server_is_made_anew(fresh):
    container = fresh._running().container.id
    as_owner(
        fresh,
        "SET GLOBAL max_connections = 77",
        "CREATE DATABASE beside",
        "CREATE USER second@localhost",
        "GRANT SELECT ON mysql.* TO agent@localhost",
        "CREATE FUNCTION mysql.f() RETURNS INT RETURN 1",
    )
    assert drifted(fresh) >= {
        "server setting max_connections",
        "database beside",
        "account second@localhost",
        "privileges on database mysql of agent@localhost",
        "routine mysql.f",
    }
    fresh.reset()
    assert drifted(fresh) == set()
    assert fresh._running().container.id != container


def test_the_agent_reaches_no_database_but_its_own_and_no_file(fresh):
    for statement in (
        "SELECT * FROM mysql.global_priv",
        "CREATE DATABASE mine",
        "SELECT LOAD_FILE('/etc/passwd')  INTO OUTFILE '/tmp/x'",
        "SET GLOBAL max_connections = 3",
        "CREATE USER mine@localhost",
        "GRANT ALL ON store.* TO mine@localhost",
    ):
        with pytest.raises(pymysql.Error):
            as_agent(fresh, statement)


def test_an_open_write_is_waited_for_and_named_when_the_wait_is_over(fresh):
    assert fresh.unsettled(time.monotonic()) is None
    with connected(fresh) as connection, connection.cursor() as cursor:
        connection.begin()
        cursor.execute("UPDATE note SET body = 'z'")
        assert "still open" in fresh.unsettled(time.monotonic() + 0.1)
        connection.rollback()
    assert fresh.unsettled(time.monotonic() + 1) is None


def test_a_server_that_was_unplugged_cannot_be_read_until_the_next_reset(fresh):
    (source,) = fresh.sources()
    fresh.unplug("store")
    with pytest.raises(SourceUnavailable):
        source.read(MemoryChunks(), now, None)
    assert fresh.unsettled(time.monotonic()) is not None
    assert drifted(fresh)
    fresh.reset()
    assert drifted(fresh) == set()


VALUES = [
    ("INTEGER", "-7", Kind.INT, -7),
    ("BIGINT UNSIGNED", "18446744073709551615", Kind.INT, 2**64 - 1),
    ("DECIMAL(10, 2)", "1.5", Kind.DECIMAL, Decimal("1.50")),
    ("DOUBLE", "0.1e0 + 0.2e0", Kind.FLOAT, 0.1 + 0.2),
    ("FLOAT", "16777217.0 / 3", Kind.FLOAT, 5592405.5),
    ("BOOLEAN", "TRUE", Kind.BOOL, True),
    ("BOOLEAN", "2", Kind.BOOL, 2),
    ("TEXT", r"'\t\\N {\"ü'", Kind.TEXT, '\t\\N {"ü'),
    ("VARBINARY(9)", r"X'00FF'", Kind.BYTES, b"\x00\xff"),
    ("BIT(9)", "B'100000001'", Kind.BYTES, b"\x01\x01"),
    ("DATE", "'2024-02-29'", Kind.DATE, date(2024, 2, 29)),
    ("DATETIME(6)", "'2024-01-02 03:04:05.6'", Kind.LOCAL_TIMESTAMP,
     datetime(2024, 1, 2, 3, 4, 5, 600000)),  # noqa: DTZ001 - local on purpose
    ("TIMESTAMP NULL", "'2024-01-02 03:04:05'", Kind.TIMESTAMP,
     datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)),
    ("TIME", "'-838:59:59'", Kind.TEXT, "-838:59:59"),
    ("JSON", """'{"a": 1,  "a": 1.0}'""", Kind.JSON, '{"a": 1,  "a": 1.0}'),
    ("ENUM('sad', 'ok')", "'ok'", Kind.TEXT, "ok"),
    ("UUID", "'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", Kind.TEXT,
     "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
]  # fmt: skip


def test_every_type_is_read_exactly_or_kept_as_its_text(fresh):
    columns = ", ".join(f"c{n} {entry[0]}" for n, entry in enumerate(VALUES))
    as_agent(
        fresh,
        f"CREATE TABLE every (id INT PRIMARY KEY, {columns})",
        f"INSERT INTO every VALUES (1, {', '.join(entry[1] for entry in VALUES)})",
        "INSERT INTO every (id) VALUES (2)",
    )
    capture = read(fresh)
    assert capture.reading.cause is None
    types = capture.state.schema.by_name["every"].by_name
    first, second = rows(capture.state, "every")
    for n, (declared, text, kind, value) in enumerate(VALUES):
        assert types[f"c{n}"].kind is kind, declared
        assert same(first[f"c{n}"], value), (declared, text, first[f"c{n}"])
        assert second[f"c{n}"] is None


def test_whatever_is_another_value_makes_another_digest_of_the_rows(fresh):
    others = [*(entry[:2] for entry in VALUES), ("POINT", "POINT(1, 2)"), ("LONGTEXT", "'wide'")]
    columns = ", ".join(f"c{n} {declared}" for n, (declared, _) in enumerate(others))
    as_agent(
        fresh,
        f"CREATE TABLE every (id INT PRIMARY KEY, f FLOAT, {columns})",
        f"INSERT INTO every VALUES (1, 16777216, {', '.join(text for _, text in others)})",
        "INSERT INTO every (id, f) VALUES (2, 1)",
        "CREATE TABLE swapped SELECT * FROM every",
        "UPDATE swapped a JOIN every b ON b.id = 3 - a.id SET a.f = b.f",
        "UPDATE every SET f = 16777215 WHERE id = 1",  # the same six digits
    )
    with fresh._running().admin() as admin:
        found = [rows_of(admin, "store", "swapped")]
        for n in range(len(others)):
            found.append(rows_of(admin, "store", "every"))
            assert rows_of(admin, "store", "every") == found[-1]
            as_agent(fresh, f"UPDATE every SET c{n} = NULL WHERE id = 1")
        found.append(rows_of(admin, "store", "every"))
        as_agent(fresh, "UPDATE every SET f = 16777216 WHERE id = 1")
        found.append(rows_of(admin, "store", "every"))
    assert len(set(found)) == len(found) == len(others) + 3


def test_what_cannot_be_read_is_unobserved_and_the_rest_stands(fresh):
    before = read(fresh).state
    as_agent(
        fresh,
        "CREATE TABLE aside (id INT PRIMARY KEY) ENGINE=Aria",
        "CREATE TABLE big (id INT PRIMARY KEY, t LONGTEXT)",
        "INSERT INTO big VALUES (1, REPEAT('x', 16777217)), (2, 's')",
        "ALTER TABLE item CHANGE name title VARCHAR(40) NOT NULL, ADD price INT",
        "CREATE TABLE `a``b ü` (`#` INT PRIMARY KEY)",
        "CREATE VIEW v AS SELECT 1 AS one",
    )
    with connected(fresh) as other, other.cursor() as cursor:
        cursor.execute("LOCK TABLES note WRITE")
        capture = read(fresh, before)
    after = capture.state
    assert not capture.reading.is_complete
    assert after.tables["aside"].enumeration.coverage is Coverage.UNOBSERVED
    assert after.tables["note"].enumeration.coverage is Coverage.UNOBSERVED
    assert rows(after, "big")[0]["t"] == Digested.of("x" * 16777217)
    assert rows(after, "big")[1]["t"] == "s"
    assert rows(after, "item")[0]["name"] is ABSENT
    assert rows(after, "item")[0]["title"] == "a"
    assert after.tables["a`b ü"].row_count == 0
    assert {row["name"] for row in rows(after, "db.view")} == {"v"}
    assert "v" not in after.tables


@pytest.mark.parametrize("pack", ["shop", "accounts"])
def test_the_logical_types_and_rows_are_those_of_the_embedded_variant(tmp_path, pack):
    (embedded,) = (s for s in sandbox_pack(pack).sources if s.kind == "sqlite")
    (served,) = (s for s in sandbox_pack(pack, "mariadb").sources if s.kind == "mariadb")
    one = EmbeddedDatabase(embedded, (), tmp_path / "one")
    one.reset()
    other = MariaDbSystem(served, (), tmp_path / "other")
    other.start()
    try:
        found = [read(each).state for each in (one, other)]
    finally:
        other.stop()
    expected, actual = map(logical_types, found)
    assert actual == expected
    for name in expected:
        tables = [dict(state.tables[name].rows()) for state in found]
        assert tables[0] == tables[1], name
