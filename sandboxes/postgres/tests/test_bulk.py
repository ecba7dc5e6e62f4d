"""Reading a table of PostgreSQL in columns gives the chunks that reading it by rows gives."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random

import pytest

pytest.importorskip("psycopg")

from statediff_postgres.rows import BulkReader, Column, _reader
from statediff_postgres.values import PgType

from statediff.model import bulk
from statediff.model.bulk import NotInBulk, build_from_blocks
from statediff.model.schema import EntityType, Field, Kind
from statediff.model.state import MemoryChunks, Table, build_table
from statediff.model.values import ABSENT
from statediff.systems.relational.schema import MAX_KEY_LENGTH

TYPES = {
    "id": (20, Kind.INT), "code": (25, Kind.TEXT), "flag": (16, Kind.BOOL),
    "ratio": (701, Kind.FLOAT), "price": (1700, Kind.DECIMAL), "day": (1082, Kind.DATE),
    "local": (1114, Kind.LOCAL_TIMESTAMP), "at": (1184, Kind.TIMESTAMP), "raw": (17, Kind.BYTES),
    "text": (25, Kind.TEXT), "tree": (3802, Kind.ANY),
}  # fmt: skip
THING = EntityType(
    "thing",
    ("id", "code"),
    (*(Field(n, k) for n, (_, k) in TYPES.items()), Field("gone", Kind.INT)),
)
CELLS: dict[str, list[str | None]] = {
    "code": ["", "a", "b,", 'c"', "\u00e4\r\n", "\U0001f600", "\uffff", "zz", " "],
    "flag": ["t", "f", None],
    "ratio": ["NaN", "Infinity", "-Infinity", "-0", "0.1", "1e+300", "5e-324",
              "0.30000000000000004", None],
    "price": ["1.00", "-0.00", "0", "0.000001", "12345678901234567890.10", None] * 4
    + ["NaN", "-Infinity", "0.0000001", "0.000000000"],
    "day": ["2024-02-29", "0001-01-01", None] * 4 + ["infinity", "0044-03-15 BC", "20000-01-01"],
    "local": ["2024-01-02 03:04:05.6", "9999-12-31 23:59:59.999999", None] * 4 + ["-infinity"],
    "at": ["2024-01-02 03:04:05+00", "0001-01-01 00:00:00.000001+00", None] * 4 + ["infinity"],
    "raw": ["\\x", "\\x00ff", None],
    "text": ["", "NULL", "\\N", "\\.", 'a"b', "a,b", "a\r\nb", "\n", "t", "-1", None],
    "tree": ['{"a": [1, 1.50]}', "null", None],
}  # fmt: skip


def made(random: Random) -> list[dict[str, str | None]]:
    """Rows with distinct keys, in key order: odd values are rare, so that many chunks have none."""
    keys = {
        (random.randrange(-3, 4), random.choice(CELLS["code"])) for _ in range(random.randrange(16))
    }
    rows = []
    for number, code in sorted(keys, key=lambda k: (k[0], str(k[1]))):
        cells = {name: random.choice(choices) for name, choices in CELLS.items()}
        rows.append({"id": str(number), **cells, "code": code})
    return rows


def reader() -> BulkReader:
    columns = []
    for field in THING.fields[:-1]:
        oid, _ = TYPES[field.name]
        pg_type = PgType(oid, field.name)
        read = _reader(field.kind, None, pg_type)
        columns.append(Column.of(field, pg_type, () if read is None else (read,)))
    return BulkReader(THING, tuple(columns))


def lines(rows: list[dict[str, str | None]]) -> list[bytes]:
    """The lines that the server writes: NULL bare, everything that needs it in quotes."""
    return [
        ",".join("" if c is None else quoted(c) for c in row.values()).encode() + b"\n"
        for row in rows
    ]


def quoted(text: str) -> str:
    plain = (
        text and text not in ("\\.", " ") and not set(text) & set(',"\r\n') and text.strip() == text
    )
    return text if plain else '"' + text.replace('"', '""') + '"'


def by_rows(rows: list[dict[str, str | None]], like: Table | None, store: MemoryChunks) -> Table:
    steps = {c.field.name: c.steps for c in reader().columns}
    read = []
    for row in rows:
        cells: dict = dict(row)
        for name, own in steps.items():
            for step in own:
                cells[name] = None if cells[name] is None else step(cells[name])
        read.append({**cells, "gone": ABSENT})
    return build_table(THING, read, store, like=like, is_sorted=True)


def in_bulk(rows: list[dict[str, str | None]], like: Table | None, store: MemoryChunks) -> Table:
    own = reader()
    texts = (b"".join(part) for part in (lines(rows)[at : at + 4] for at in range(0, len(rows), 4)))
    return build_from_blocks(THING, own.blocks(texts), own.encode, store, like)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several blocks and chunks of a few rows, none of which end where the others do."""
    monkeypatch.setattr("statediff.model.state.CHUNK_KEYS", 3)
    monkeypatch.setattr(bulk, "CHUNK_KEYS", 3)


def test_columns_and_rows_give_the_same_chunks() -> None:
    for seed in range(60):
        random = Random(seed)
        before, after = made(random), made(random)
        store = MemoryChunks()
        one, two = by_rows(before, None, store), in_bulk(before, None, store)
        assert one == two, seed
        assert by_rows(after, one, store) == in_bulk(after, two, store), seed


def test_keys_that_do_not_ascend_are_left_to_reading_by_rows() -> None:
    for seed in range(30):
        rows = made(Random(seed))
        for wrong in (rows[::-1], [*rows, rows[-1]], [rows[0], *rows]) if len(rows) > 1 else ():
            with pytest.raises(NotInBulk):
                in_bulk(wrong, None, MemoryChunks())


@pytest.mark.parametrize("key", [None, "x" * (MAX_KEY_LENGTH + 1)])
def test_a_row_without_a_usable_key_is_left_to_reading_by_rows(key) -> None:
    row = dict.fromkeys(TYPES, None) | {"id": "1", "code": key}
    with pytest.raises(NotInBulk, match="no key, or one beyond"):
        in_bulk([row], None, MemoryChunks())


@pytest.mark.parametrize("text", [b"\xff", b"1,2\n", b"x" + b"," * 10 + b"\n"])
def test_text_that_the_types_do_not_promise_is_left_to_reading_by_rows(text) -> None:
    own = reader()
    with pytest.raises(NotInBulk):
        list(own.blocks([text]))


def test_every_plain_kind_is_read_without_a_loop() -> None:
    own = reader()
    (block,) = own.blocks(lines([{
        "id": "1", "code": "a", "flag": "t", "ratio": "-0", "price": "1.50", "day": "2024-02-29",
        "local": "2024-01-02 03:04:05.6", "at": "2024-01-02 03:04:05+00", "raw": None, "text": "",
        "tree": None,
    }]))  # fmt: skip
    (found,) = own.encode([block]).to_pylist()
    plain = {c.field.name for c in own.columns if c.is_plain}
    assert plain == set(TYPES) - {"raw", "tree"}
    assert math.copysign(1, found["ratio"]) == -1
    assert Decimal(found["price"]).as_tuple().exponent == -2
    assert found["day"] == date(2024, 2, 29)
    assert found["local"] == datetime(2024, 1, 2, 3, 4, 5, 600000)  # noqa: DTZ001 - local on purpose
    assert found["at"] == datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)
