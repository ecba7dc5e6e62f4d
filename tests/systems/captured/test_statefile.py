"""A captured state comes back as it was, and nothing comes back that was changed."""

from __future__ import annotations

import sqlite3
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import statediff
from statediff.cli.main import run
from statediff.contract.document.refinement import refine
from statediff.contract.document.schemafile import parse_schema_file
from statediff.errors import InputError, StatediffError, UsageError
from statediff.systems.captured.statefile import write_state
from statediff.workspace.inputs import one_capture


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "app.sqlite"
    with sqlite3.connect(path) as connection:
        connection.executescript("""
            CREATE TABLE user (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, born DATE,
                               cash DECIMAL(10, 2), photo BLOB);
            INSERT INTO user VALUES (1, 'Ada', '1815-12-10', '1.50', x'00ff');
            INSERT INTO user VALUES (2, 'Bob', NULL, 2, NULL);
            CREATE TABLE pair (a INTEGER, b INTEGER, PRIMARY KEY (b, a)) WITHOUT ROWID;
            CREATE TABLE note (text TEXT);
            INSERT INTO note VALUES ('one'), ('one');
        """)  # fmt: skip
    connection.close()
    return path


def captured(state: str | Path, out: Path, *more: str) -> Path:
    assert run(["capture", f"db={state}", "--out", str(out), *more]) == 0
    return out


def digest(state: str | Path) -> str | None:
    [part] = one_capture([f"db={state}"], lambda _: None).parts
    return part.reading.digest


def change(path: Path, statement: str) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(statement)
    connection.close()


def test_it_is_the_same_state_and_the_same_bytes(database: Path, tmp_path: Path) -> None:
    one, two = captured(database, tmp_path / "1.state"), captured(database, tmp_path / "2.state")
    assert one.read_bytes() == two.read_bytes()
    assert digest(one) == digest(database)
    again = captured(one, tmp_path / "3.state")
    assert again.read_bytes() == one.read_bytes()
    assert statediff.changes(f"db={one}", f"db={two}") == ()


def test_it_is_compared_with_the_system_itself_both_ways(database: Path, tmp_path: Path) -> None:
    """A sequence moved, and a row came: JSON tables would show the row alone."""
    before = captured(database, tmp_path / "before.state")
    change(database, "INSERT INTO user (name) VALUES ('Cleo')")
    after = captured(database, tmp_path / "after.state")
    seen = [
        {(d["op"], d["type"]) for d in statediff.changes(f"db={one}", f"db={two}")}
        for one, two in ((before, database), (before, after), (after, before), (database, before))
    ]
    forward, back = {("create", "user"), ("update", "db.sequence")}, {
        ("delete", "user"), ("update", "db.sequence"),
    }  # fmt: skip
    assert seen == [forward, forward, back, back]


def test_a_state_schema_is_applied_once(database: Path, tmp_path: Path) -> None:
    schema = tmp_path / "schema.yaml"
    schema.write_text("""
schema: app
version: 1.0.0
entities:
  person:
    table: user
    fields: {label: {column: name}}
""")
    plain = captured(database, tmp_path / "plain.state")
    refined = captured(database, tmp_path / "refined.state", "--schema", str(schema))
    change(database, "UPDATE user SET name = 'Bo' WHERE id = 2")
    for before in (plain, refined):
        [delta] = statediff.changes(f"db={before}", f"db={database}", schema=schema)
        assert (delta["type"], delta["path"], delta["before"]) == ("person", "label", "Bob")


def test_a_schema_says_the_same_of_a_captured_state_as_of_its_system(tmp_path: Path) -> None:
    path, schema = tmp_path / "app.sqlite", tmp_path / "schema.yaml"
    with sqlite3.connect(path) as connection:
        connection.executescript("""
            CREATE TABLE visit (id INTEGER PRIMARY KEY, at TIMESTAMP, said TEXT, day TEXT,
                                paid TEXT, done INTEGER, more TEXT);
            INSERT INTO visit VALUES
                (1, '2026-03-29 02:30:00', '2026-03-01T10:00:00', '2026-03-01','1.5', 1, '{"a":1}'),
                (2, '2026-03-01 10:00:00', 'soon', 'today', '01', 2, '{'),
                (3, NULL, NULL, NULL, NULL, NULL, NULL);
        """)  # fmt: skip
    connection.close()
    schema.write_text("""
schema: app
version: 1.0.0
entities:
  visit:
    fields:
      at: {type: timestamp, zone: Europe/Berlin}
      said: {type: timestamp, zone: UTC, form: "YYYY-MM-DDThh:mm:ss[.ffffff]"}
      day: {type: date}
      paid: {type: decimal}
      done: {type: bool}
      more: {type: map}
""")
    plain = captured(path, tmp_path / "plain.state")
    file = parse_schema_file(schema.read_bytes(), "schema.yaml")
    same, there = (
        one_capture([f"db={state}"], lambda source: refine(file, source)).parts[0].state
        for state in (plain, path)
    )
    assert same.tables["visit"].type == there.tables["visit"].type
    assert [*same.tables["visit"].rows()] == [*there.tables["visit"].rows()]
    instants = [row["at"] for _, row in same.tables["visit"].rows()]
    skipped = datetime.fromisoformat("2026-03-29 02:30")  # the hour that no clock showed
    assert instants == [skipped, datetime(2026, 3, 1, 9, tzinfo=UTC), None]


def test_a_type_that_the_other_side_lacks_is_never_taken_for_empty(
    database: Path, tmp_path: Path
) -> None:
    before = captured(database, tmp_path / "before.state")
    change(database, "DROP TABLE note")
    after = captured(database, tmp_path / "after.state")
    with pytest.raises(InputError, match="no such type"):
        statediff.changes(f"db={before}", f"db={after}")


def test_files_whose_kinds_both_sides_decide_are_captured_on_both(
    database: Path, tmp_path: Path
) -> None:
    before = captured(database, tmp_path / "before.state")
    tables = tmp_path / "tables.json"
    tables.write_text('{"user": []}')
    with pytest.raises(UsageError, match="both sides of a source are of one kind"):
        statediff.changes(f"db={before}", f"db={tables}")
    two = one_capture([f"a={database}", f"b={database}"], lambda _: None)
    with pytest.raises(UsageError, match="holds one source"):
        write_state(two, tmp_path / "x.state", is_refined=False)


@settings(max_examples=40)
@given(st.data())
def test_a_byte_that_was_changed_is_found_or_says_nothing_else(data: st.DataObject) -> None:
    """The zip's own bookkeeping is no part of the state; whatever is, is covered by a digest."""
    content = bytearray(ORIGINAL["bytes"])
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= 1 << data.draw(st.integers(0, 7))
    path = Path(ORIGINAL["folder"]) / "changed.state"
    path.write_bytes(content)
    try:
        found = digest(path)
    except StatediffError:
        return
    assert found == ORIGINAL["digest"]


ORIGINAL: dict[str, object] = {}


@pytest.fixture(autouse=True)
def original(database: Path, tmp_path: Path) -> None:
    if not ORIGINAL:
        path = captured(database, tmp_path / "original.state")
        ORIGINAL.update(bytes=path.read_bytes(), digest=digest(path), folder=str(tmp_path))


def test_a_compressed_part_is_refused(database: Path, tmp_path: Path) -> None:
    path = captured(database, tmp_path / "a.state")
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    with pytest.raises(InputError, match="not a captured state"):
        digest(path)


def test_a_part_that_claims_more_bytes_than_there_are_is_damage(
    database: Path, tmp_path: Path
) -> None:
    path = captured(database, tmp_path / "1.state")
    content = bytearray(path.read_bytes())
    entry = content.rindex(b"PK\x01\x02")
    for at in (20, 24):  # as it is stored, and as it is
        content[entry + at : entry + at + 4] = (10**8).to_bytes(4, "little")
    path.write_bytes(content)
    with pytest.raises(InputError, match="damaged"):
        digest(path)
