import json
import random
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff.capture.source import SourceRuined
from statediff.errors import InputError
from statediff.model.schema import Kind
from statediff.model.state import Coverage, MemoryChunks
from statediff.model.values import ABSENT, Map
from statediff.systems.tables.inference import infer_schema
from statediff.systems.tables.shape import parse_tables
from statediff.systems.tables.source import Parsed, TablesSource
from statediff.workspace.inputs import offline_clock


def read(content: bytes, **more):
    return TablesSource("json", content, **more).read(MemoryChunks(), offline_clock, None)


def rows(content: bytes, type_name: str, **more):
    return list(read(content, **more).state.tables[type_name].rows())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"]), max_size=3), inner, max_size=3
        )
    ),
    max_leaves=6,
)


@given(st.lists(st.dictionaries(st.sampled_from("abc"), JSON), max_size=8), st.randoms())
def test_shuffling_records_and_keys_changes_nothing(records, chance: random.Random):
    for keyed in (False, True):
        if keyed:
            records = [{"id": n, **r} for n, r in enumerate(records)]
        shuffled = [dict(chance.sample(list(r.items()), len(r))) for r in records]
        chance.shuffle(shuffled)
        one, two = (read(json.dumps({"t": r}).encode()) for r in (records, shuffled))
        assert one.reading.digest == two.reading.digest


def test_numbers_are_exact_and_representations_stay_apart():
    ((_, row),) = rows(b'{"t": [{"id": 1, "a": 1.10, "b": 2, "c": 1e2, "d": -0.0}]}', "t")
    assert [str(row[k]) for k in "abcd"] == ["1.10", "2", "1E+2", "-0.0"]
    assert isinstance(row["b"], int)
    assert isinstance(row["a"], Decimal)


def test_a_missing_field_is_absent_and_null_is_null():
    (_, one), (_, two) = rows(b'{"t": [{"id": 1, "a": null}, {"id": 2}]}', "t")
    assert one["a"] is None
    assert two["a"] is ABSENT


def test_nested_values_are_lists_and_maps():
    ((_, row),) = rows(b'{"t": [{"id": 1, "a": [1, {"x": []}]}]}', "t")
    assert row["a"] == (1, Map((("x", ()),)))


def test_a_type_with_one_record_without_id_is_a_multiset():
    table = read(b'{"t": [{"id": 1, "a": 2}, {"a": 3}, {"a": 3}]}').state.tables["t"]
    assert table.type.is_keyless
    assert table.row_count == 3


def test_both_sides_get_one_schema():
    one, two = b'{"t": [{"id": 1, "a": 1}]}', b'{"t": [{"b": "x"}], "u": []}'
    before = TablesSource("s", one, companion=two).schema()
    after = TablesSource("s", two, companion=one, is_after=True).schema()
    assert before == after
    assert before.by_name["t"].key == ("id",)
    assert before.by_name["u"].key == ("id",)
    assert [t.name for t in before.types if t.is_open] == ["u"]


def test_a_record_after_without_its_key_leaves_the_enumeration_incomplete():
    one, two = b'{"t": [{"id": 1}]}', b'{"t": [{"id": 1}, {"a": "x"}, {"id": null}]}'
    source = TablesSource("s", two, companion=one, is_after=True)
    captured = source.read(MemoryChunks(), offline_clock, None)
    table = captured.state.tables["t"]
    assert table.enumeration.coverage is Coverage.INCOMPLETE
    assert table.enumeration.cause == "record 1 of t has no id"
    assert table.row_count == 1
    assert not captured.reading.is_complete


def test_a_field_that_is_called_like_a_keyed_type_refers_to_it():
    schema = infer_schema(
        "s",
        parse_tables(
            b'{"order": [{"id": 1, "customer": 2, "order": 1, "note": 3}], '
            b'"customer": [{"id": 2}], "note": [{"text": "no id"}]}',
            "f",
        ),
    )
    order = schema.by_name["order"].by_name
    assert {name: f.reference for name, f in order.items()} == {
        "id": None,
        "customer": "customer",
        "order": "order",
        "note": None,
    }


def test_kinds_are_inferred_from_all_records():
    schema = infer_schema(
        "s",
        parse_tables(
            b'{"t": [{"id": 1, "n": 1, "m": 1, "l": [], "z": null}, '
            b'{"id": 2, "n": 1.5, "m": "x", "l": [1]}]}',
            "f",
        ),
    )
    kinds = {f.name: f.kind for f in schema.by_name["t"].fields}
    assert kinds == {
        "id": Kind.INT,
        "n": Kind.DECIMAL,
        "m": Kind.ANY,
        "l": Kind.LIST,
        "z": Kind.ANY,
    }


def refined(kind: Kind, zone: str | None = None, key: tuple[str, ...] = ("id",)):
    def refine(schema):
        (t,) = schema.types
        fields = tuple(replace(f, kind=kind, zone=zone) if f.name == "at" else f for f in t.fields)
        return replace(schema, types=(replace(t, fields=fields, key=key),))

    return refine


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        ("2024-03-01T10:00:00Z", None, datetime(2024, 3, 1, 10, tzinfo=UTC)),
        ("2024-03-01T10:00:00+02:00", None, datetime(2024, 3, 1, 8, tzinfo=UTC)),
        ("2024-03-01 10:00:00.5", None, datetime(2024, 3, 1, 10, 0, 0, 500000)),  # noqa: DTZ001 - local
        ("2024-03-01 10:00:00", "+02:00", datetime(2024, 3, 1, 8, tzinfo=UTC)),
        ("2024-07-01 10:00:00", "Europe/Berlin", datetime(2024, 7, 1, 8, tzinfo=UTC)),
        ("2024-10-27 02:30:00", "Europe/Berlin", datetime(2024, 10, 27, 2, 30)),  # noqa: DTZ001 - twice that night
        ("2024-03-31 02:30:00", "Europe/Berlin", datetime(2024, 3, 31, 2, 30)),  # noqa: DTZ001 - never
        ("2024-02-30 10:00:00", "UTC", "2024-02-30 10:00:00"),
        ("2024-03-01 10:00:00.1234567", "UTC", "2024-03-01 10:00:00.1234567"),
        ("yesterday", "UTC", "yesterday"),
    ],
)
def test_text_is_a_timestamp_only_where_the_schema_says_so(text, zone, expected):
    content = json.dumps({"t": [{"id": 1, "at": text}]}).encode()
    assert rows(content, "t")[0][1]["at"] == text
    found = rows(content, "t", refine=refined(Kind.TIMESTAMP, zone))[0][1]["at"]
    assert found == expected
    assert type(found) is type(expected)


def test_an_unknown_zone_is_the_callers_error():
    with pytest.raises(InputError, match="Mars/Olympus"):
        read(b'{"t": [{"id": 1, "at": "x"}]}', refine=refined(Kind.TIMESTAMP, "Mars/Olympus"))


def test_another_key_may_be_declared_and_keys_are_never_parsed():
    content = b'{"t": [{"at": "2024-01-01T00:00:00Z"}, {"at": "2024-01-01T00:00:00+00:00"}]}'
    assert len(rows(content, "t", refine=refined(Kind.TIMESTAMP, None, ("at",)))) == 2


DEEP = b"[" * 70 + b"]" * 70


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"t": [{"id": 1, "a": 1, "a": 2}]}', 'type "t", record 0: the key "a" stands twice'),
        (b'{"t": [], "t": []}', 'the key "t" stands twice'),
        (b'{"t": [{"id": 1}, {"id": NaN}]}', 'type "t", record 1: field "id": NaN'),
        (b'{"t": [{"id": -Infinity}]}', "-Infinity is not a JSON number"),
        (b'{"t": [{"id": 1e400}]}', "beyond 1e"),
        (b'{"t": [{"id": 1e-99999999999999999999}]}', "1e-99999"),
        (b'{"t": [{"id": 1e99999999999999999999}]}', "1e99999"),
        (b'{"t": [{"id": ' + b"9" * 5000 + b"}]}", "5000 digits"),
        (b'{"t": [{"id": "\\ud800"}]}', "lone surrogate"),
        (b'{"t": [{"\\ud800": 1}]}', "lone surrogate"),
        (b'{"t": [{"id": 1, "a": ' + DEEP + b"}]}", "nested deeper than 64"),
        (b"[" * 100_000, "nested deeper than 64"),
        (b'{"t": [{"id": "\xff"}]}', "f.json:1: not UTF-8: byte 0xff"),
        ('{"t": []}'.encode("utf-16"), "not UTF-8"),
        (b"[]", "expected an object {type: [record, …]}, found a list"),
        (b"null", "found null"),
        (b'{"t": {}}', 'type "t": expected a list of records, found an object'),
        (b'{"t": [1]}', 'type "t", record 0: expected an object, found a number'),
        (b'{"t": [{"id": 1}, {"id": 1}]}', "record 1: duplicate id 1, first used by record 0"),
        (b'{"": []}', "the name is empty"),
        (b'{"t": [{"#": 1}]}', "reserved"),
        (b'{"t": [\n{"id" 1}]}', "f.json:2:7: not JSON"),
        (b"", "the file is empty"),
    ],
)
def test_a_hostile_file_is_refused_with_its_place(content, message, tmp_path):
    file = tmp_path / "f.json"
    file.write_bytes(content)
    with pytest.raises(InputError) as caught:
        TablesSource("json", file).read(MemoryChunks(), offline_clock, None)
    assert message in str(caught.value)
    assert "f.json" in str(caught.value)


def test_a_missing_file_a_folder_and_a_giant_are_refused(tmp_path, monkeypatch):
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(InputError, match="expected a JSON file, found"):
            TablesSource("json", path).schema()
    monkeypatch.setattr("statediff.systems.tables.shape.MAX_BYTES", 5)
    (tmp_path / "f.json").write_bytes(b'{"t": []}')
    with pytest.raises(InputError, match="9 bytes, expected at most 5"):
        TablesSource("json", tmp_path / "f.json").schema()


def test_a_byte_order_mark_is_tolerated():
    assert len(rows(b'\xef\xbb\xbf{"t": [{"id": 1}]}', "t")) == 1


def test_ids_of_different_kinds_are_different_ids():
    assert len(rows(b'{"t": [{"id": 1}, {"id": 1.0}, {"id": "1"}, {"id": true}]}', "t")) == 4


def test_a_list_alone_is_the_type_that_is_called_like_the_source():
    list_, tables = b'[{"id": 1}, {"id": 2}]', b'{"d": [{"id": 1}, {"id": 2}]}'
    assert read(list_, parsed=Parsed("d")).reading.digest == read(tables).reading.digest
    with pytest.raises(InputError, match="found a list"):
        read(list_)


@pytest.mark.parametrize("after", [b"[1]", b"[]", b"{}", b'{"d": []}'])
def test_what_a_run_leaves_of_a_list_is_read_as_that_type(after: bytes):
    found = read(after, companion=b'[{"id": 1}]', is_after=True, parsed=Parsed("d"))
    assert set(found.state.tables) == {"d"}


@pytest.mark.parametrize(
    ("before", "after"),
    [(b'[{"id": 1}]', b"["), (b'[{"id": 1}]', b"5"), (b'{"d": [{"id": 1}]}', b'[{"id": 1}]')],
)
def test_a_run_makes_no_table_of_what_was_none(before: bytes, after: bytes):
    with pytest.raises(SourceRuined):
        read(after, companion=before, is_after=True, parsed=Parsed("d"))
