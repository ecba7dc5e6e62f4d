"""JSON tables left by a run are judged, however they are written, and whatever is missing."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import statediff
from statediff import api
from statediff.capture.take import take
from statediff.contract.file import parse_contract
from statediff.errors import InputError
from statediff.kernel import comparison, judgement_of
from statediff.model.state import MemoryChunks
from statediff.model.verdict import Verdict
from statediff.systems.base.live import LiveSource
from statediff.systems.base.plugin import StateInput
from statediff.systems.base.registry import state_reader
from statediff.systems.tables.shape import parse_tables, tables_after
from statediff.systems.tables.source import TablesSource
from statediff.workspace.inputs import offline_clock
from tests.judged_files import judged, sentences, tables
from tests.judging import contract

NOOP = "contract: t/none\nversion: 1.0.0\nowner: t\nintent: Change nothing here.\nnoop: true\n"
KEPT = "forbid:\n  - {id: kept, delete: user}\n"
RENAMED = """
forbid:
  - {id: kept, delete: user}
require:
  - id: renamed
    update: user
    where: it.id == 1
    set: {name: Eve}
"""
BEFORE = {"user": [{"id": 1, "name": "Ada", "n": 1}, {"id": 2, "name": "Bob", "n": 2}], "log": []}
HARMS = {
    "a lone surrogate": '{"id": 2, "name": "\\ud800", "n": 2}',
    "NaN": '{"id": 2, "name": "Bob", "n": NaN}',
    "an infinity": '{"id": 2, "name": "Bob", "n": -Infinity}',
    "a number nobody holds": '{"id": 2, "name": "Bob", "n": 1e999999}',
    "a key twice inside": '{"id": 2, "name": "Bob", "n": {"a": 1, "a": 2}}',
    "another kind": '{"id": 2, "name": 5, "n": 2}',
    "an object": '{"id": 2, "name": {"a": 1}, "n": 2}',
    "a list": '{"id": 2, "name": [], "n": 2}',
    "a deep list": '{"id": 2, "name": ' + "[" * 200 + "]" * 200 + ', "n": 2}',
    "a field without a name": '{"id": 2, "name": "Bob", "n": 2, "": 1}',
    "a reserved field": '{"id": 2, "name": "Bob", "n": 2, "#": 1}',
    "a field of half a pair": '{"id": 2, "name": "Bob", "n": 2, "\\udc00": 1}',
}
OTHER_KINDS = (
    (1.5, "1.5", "decimal"), (1.5, "1.50", "decimal"), (10, "10", "decimal"), (10, "10", "int"),
    (True, 1, "bool"), (False, 0, "bool"), (True, "true", "bool"), (None, "null", "any"),
)  # fmt: skip
"""A value, another kind of value that reads alike, and the kind that a state schema may state."""
UNKNOWN = {
    "an id twice": '{"id": 2, "name": "Bob", "n": 2}, {"id": 2, "name": "Bob", "n": 2}',
    "a record that is none": '{"id": 2, "name": "Bob", "n": 2}, 7',
    "a key twice": '{"id": 2, "name": "Bob", "n": 2}, {"id": 3, "id": 4}',
}


def sides(folder: Path, records: str) -> tuple[Path, Path]:
    renamed = '{"id": 1, "name": "Eve", "n": 1}'
    after = '{"user": [%s, %s], "log": []}' % (renamed, records)  # noqa: UP031 - braces
    return tables(folder / "a.json", BEFORE), tables(folder / "b.json", after)


@pytest.mark.parametrize("harm", HARMS)
def test_what_a_run_writes_in_a_row_that_nobody_touched_is_a_change(
    harm: str, tmp_path: Path
) -> None:
    done = judged(tmp_path, RENAMED, *sides(tmp_path, HARMS[harm]), noop=False)
    assert done.verdict.value == "DIVERGE"
    assert any(sentence.startswith("user 2 ") for sentence in sentences(done))


@pytest.mark.parametrize("harm", UNKNOWN)
def test_what_can_be_read_no_more_is_a_change(harm: str, tmp_path: Path) -> None:
    done = judged(tmp_path, RENAMED, *sides(tmp_path, UNKNOWN[harm]), noop=False)
    assert done.verdict.value == "DIVERGE"
    assert any(sentence.startswith("source.tables ") for sentence in sentences(done))


def test_an_id_twice_does_not_hide_a_deletion(tmp_path: Path) -> None:
    twice = '{"id": 1, "name": "Eve", "n": 1}'
    done = judged(tmp_path, RENAMED, *sides(tmp_path, twice), noop=False)
    assert done.verdict.value == "DIVERGE"
    assert any(sentence.startswith("user 2 deleted") for sentence in sentences(done))


def test_a_file_that_is_no_state_any_more_is_a_change(tmp_path: Path) -> None:
    before = tables(tmp_path / "a.json", BEFORE)
    for text in ("", "[]", '{"user": [', '{"user": 7, "log": []}', '{"user": [], "user": []}'):
        done = judged(tmp_path, KEPT, before, tables(tmp_path / "b.json", text))
        assert done.verdict.value == "DIVERGE", text


@pytest.mark.parametrize("found", ['"text"', "{}", '{"id": 1}', "null", "7"])
def test_what_a_run_writes_under_a_new_name_and_is_no_records_is_a_change(
    found: str, tmp_path: Path
) -> None:
    before = tables(tmp_path / "a.json", BEFORE)
    after = json.dumps(BEFORE)[:-1] + f', "settings": {found}}}'
    done = judged(tmp_path, KEPT, before, tables(tmp_path / "b.json", after))
    assert done.verdict.value == "DIVERGE"
    assert any(sentence.startswith("source.tables ") for sentence in sentences(done))
    empty = json.dumps(BEFORE)[:-1] + ', "settings": []}'
    done = judged(tmp_path, KEPT, before, tables(tmp_path / "b.json", empty))
    assert done.verdict.value == "MATCH"  # there is no such record


@pytest.mark.parametrize("records", [BEFORE["user"], []])
def test_a_type_that_an_export_does_not_name_was_emptied_by_the_run(
    records: list[Any], tmp_path: Path
) -> None:
    before = tables(tmp_path / "a.json", {"user": records, "log": []})
    named = tables(tmp_path / "b.json", {"user": records, "log": []})
    unnamed = tables(tmp_path / "c.json", {"log": []})
    assert judged(tmp_path, KEPT, before, named).verdict.value == "MATCH"
    assert judged(tmp_path, KEPT, before, unnamed).verdict.value == (
        "DIVERGE" if records else "MATCH"
    )
    empty = tables(tmp_path / "d.json", {"user": [], "log": []})
    assert judged(tmp_path, KEPT, before, empty).verdict.value == (
        "DIVERGE" if records else "MATCH"
    )


def test_a_type_that_may_be_missing_is_empty_where_it_is_missing(tmp_path: Path) -> None:
    before = tables(tmp_path / "a.json", {"user": BEFORE["user"], "log": [{"text": "x"}]})
    after = tables(tmp_path / "b.json", {"user": BEFORE["user"]})
    schema = "schema: s\nversion: 1.0.0\nentities:\n  log: {optional: %s}\n"
    emptied = "require:\n  - {id: emptied, delete: log, count: {min: 1}}\n"
    done = judged(tmp_path, emptied, before, after, schema % "true")
    assert done.verdict.value == "MATCH"
    done = judged(tmp_path, emptied, before, after, schema % "false")
    assert done.verdict.value == "DIVERGE"  # the type is gone, which nobody asked for
    assert any(sentence.startswith("source.tables ") for sentence in sentences(done))
    gone = tables(tmp_path / "c.json", {"log": []})
    optional = "schema: s\nversion: 1.0.0\nentities:\n  user: {optional: true}\n"
    assert judged(tmp_path, KEPT, before, gone, optional).verdict.value == "DIVERGE"


def test_numbers_are_spelled_in_many_ways_under_a_schema_too(tmp_path: Path) -> None:
    before = tables(tmp_path / "a.json", '{"item": [{"id": 1, "price": 1.50, "all": 1.0}]}')
    after = tables(tmp_path / "b.json", '{"item": [{"id": 1, "price": 1.5, "all": 1}]}')
    body = "forbid:\n  - {id: kept, delete: item}\n"
    assert judged(tmp_path, body, before, after).verdict.value == "MATCH"
    schema = "schema: s\nversion: 1.0.0\nentities:\n  item: {made_by: user}\n"
    assert judged(tmp_path, body, before, after, schema).verdict.value == "MATCH"


def test_the_python_api_takes_such_a_state_after(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(contract(KEPT))
    for value in (float("nan"), "\ud800"):
        after = {**BEFORE, "user": [{"id": 1, "name": value, "n": 1}, BEFORE["user"][1]]}
        assert api.judge(file, before=BEFORE, after=after).verdict.value == "DIVERGE"
        with pytest.raises(InputError):
            api.judge(file, before=after, after=BEFORE)


GONE = json.dumps({"user": [BEFORE["user"][0]], "log": []})
"""User 2, whom nobody may delete, is not there any more."""
RECORDS = st.lists(
    st.sampled_from(
        ["7", "null", "[]", "{}", '{"id": 1}', '{"id": 1, "n": NaN}', '{"id": [1]}', '{"id": "1"}']
    ),
    max_size=4,
).map(lambda each: "[" + ", ".join(each) + "]")
WRITTEN = st.one_of(
    st.binary(max_size=40),
    st.tuples(st.integers(0, len(GONE)), st.sampled_from(["", ",", "]", "\0", "}", '"'])).map(
        lambda cut: (GONE[: cut[0]] + cut[1] + GONE[cut[0] :]).encode()
    ),
    st.integers(0, len(GONE) - 1).map(lambda at: GONE[:at].encode()),
    RECORDS.map(lambda rows: f'{{"user": [{{"id": 1}}], "log": {rows}}}'.encode()),
    RECORDS.map(lambda rows: f'{{"user": {rows}, "log": []}}'.encode()),
    st.sampled_from(["7", "null", '"x"', "{}", "[[]]"]).map(
        lambda whole: f'{{"user": {whole}, "log": []}}'.encode()
    ),
)


@given(WRITTEN)
def test_nothing_that_an_agent_writes_makes_its_violation_an_open_question(raw: bytes) -> None:
    before, store = json.dumps(BEFORE).encode(), MemoryChunks()
    first = take([TablesSource("t", before, None, raw)], store, offline_clock, None, "before")
    last = TablesSource("t", raw, None, before, is_after=True)
    after = take([last], store, offline_clock, first, "after")
    file = parse_contract(contract(KEPT).encode(), "contract.yaml")
    assert judgement_of(file, first, after).verdict is Verdict.DIVERGE


names = st.sampled_from(["id", "a", "b"])
values = st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.lists(st.integers())
records = st.lists(st.dictionaries(names, values, max_size=3), max_size=3)


@given(st.dictionaries(st.sampled_from(["t", "u"]), records, max_size=2))
def test_a_sound_state_is_read_alike_on_both_sides(content: dict[str, Any]) -> None:
    raw = json.dumps(content).encode()
    read = tables_after(raw, "f")
    assert read.document == parse_tables(raw, "f")
    assert not read.gaps


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda t: t.encode("utf-8", "replace")))
def test_no_bytes_are_more_than_an_error(raw: bytes) -> None:
    with contextlib.suppress(InputError):
        tables_after(raw, "f")


@pytest.mark.parametrize(
    ("after", "created", "cause"),
    [
        ('[{"name": "a"}]', ["source.app"], "write `key: none` for it in a state schema"),
        ('[{"id": 1}, {"name": "a"}]', ["note", "source.app"], "record 1 of note has no id"),
    ],
)
def test_what_names_the_rows_of_a_type_that_was_empty_is_no_fault_after_a_run(
    tmp_path: Path, after: str, created: list[str], cause: str
) -> None:
    path = tmp_path / "state.json"
    path.write_text('{"note": [], "user": [{"id": 1}]}')
    reader = state_reader(path)
    source = LiveSource("app", reader, lambda: StateInput(path, "state.json"))
    before = take([source], MemoryChunks(), offline_clock, None, "before")
    path.write_text(f'{{"note": {after}, "user": [{{"id": 1}}]}}')
    last = take([source], MemoryChunks(), offline_clock, before, "after")
    found = comparison(before, last).diff
    assert [delta.type for delta in found.deltas] == created
    [doubt] = found.doubts
    assert doubt.type == "note"
    assert cause in doubt.cause


STORED = """\
schema: data
version: 1.0.0
entities:
  user:
    fields:
      active: {type: bool}
      cents: {type: decimal}
"""


@pytest.mark.parametrize("stated", [None, STORED], ids=["inferred", "stated"])
@pytest.mark.parametrize(
    ("field", "before", "after"),
    [
        ("active", True, 1), ("active", False, 0), ("active", 1, True), ("cents", 1.5, "1.5"),
        ("cents", 2, "2"), ("cents", "1.5", 1.5),
    ],
)  # fmt: skip
def test_what_is_stored_as_another_kind_is_another_value(
    stated: str | None, field: str, before: Any, after: Any, tmp_path: Path
) -> None:
    schema = None if stated is None else tmp_path / "schema.yaml"
    if schema is not None:
        schema.write_text(stated or "", encoding="utf-8")
    usual = {"id": 1, "active": True, "cents": 1.5}

    def verdict(value: Any) -> Verdict:
        states = [{"user": [{**usual, field: each}]} for each in (before, value)]
        return statediff.judge(NOOP, *states, schema=schema).verdict

    assert verdict(before) is Verdict.MATCH
    assert verdict(after) is Verdict.DIVERGE


@pytest.mark.parametrize(("value", "other", "kind"), OTHER_KINDS)
def test_what_reads_alike_and_is_of_another_kind_is_another_value(
    tmp_path: Path, value: Any, other: Any, kind: str
) -> None:
    """`1.5` and `"1.5"`, `true` and `1`: programs that read JSON tell them apart."""
    fields = f"{{n: {{type: {kind}}}}}"
    stated = f"schema: s\nversion: 1.0.0\nentities:\n  user: {{table: user, fields: {fields}}}\n"
    raised = (
        "require:\n  - id: r\n    update: user\n    where: it.id == 1\n"
        f"    set: {{n: {json.dumps(value)}}}\n"
    )
    for schema in ("", stated):
        before = tables(tmp_path / "a.json", {"user": [{"id": 1, "n": value}]})
        after = tables(tmp_path / "b.json", {"user": [{"id": 1, "n": other}]})
        assert judged(tmp_path, KEPT, before, after, schema).verdict is Verdict.DIVERGE
        if value is not None:
            tables(before, {"user": [{"id": 1, "n": type(value)(not value)}]})
            assert judged(tmp_path, raised, before, after, schema).verdict is Verdict.DIVERGE
            tables(after, {"user": [{"id": 1, "n": value}]})
            assert judged(tmp_path, raised, before, after, schema).verdict is Verdict.MATCH


@pytest.mark.parametrize(("after", "verdict"), [("5.0", "MATCH"), ("5.5", "DIVERGE")])
def test_a_whole_number_may_be_written_with_a_fraction_under_a_schema_too(
    tmp_path: Path, after: str, verdict: str
) -> None:
    schema = (
        "schema: s\nversion: 1.0.0\nentities:\n  user: {table: user, fields: {n: {type: int}}}\n"
    )
    one = tables(tmp_path / "a.json", '{"user": [{"id": 1, "n": 5}]}')
    two = tables(tmp_path / "b.json", f'{{"user": [{{"id": 1, "n": {after}}}]}}')
    for stated in ("", schema):
        assert judged(tmp_path, KEPT, one, two, stated).verdict.value == verdict
