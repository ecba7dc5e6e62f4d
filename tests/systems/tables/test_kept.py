"""Tables kept as plain objects are captured as their JSON text is, whatever a run makes of them."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import statediff
from statediff.errors import InputError, UsageError
from statediff.kernel import comparison
from statediff.model import state as model_state
from statediff.model.values import Map
from statediff.reports.plain import dumps, plain_diff
from statediff.systems.tables import columns, kept
from statediff.systems.tables.columns import Odd
from statediff.systems.tables.kept import KeptTables, Recent
from statediff.workspace.inputs import offline_clock
from statediff.workspace.warm import Refined, _Tables, as_json, tables_pair

REFINED = Refined(None, None)
NUMBERS = st.sampled_from([0, 1, -1, 2**63, 10**400, 1.0, 0.1, -0.0, 1e16, 1e-5])
CELLS = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.sampled_from(["", "a", "1", "é", "2024-01-01"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=3,
)
ODD = st.sampled_from([float("nan"), 1e-320, "\ud800", (1,), {"a": "\udc00"}, {1: 2}, 10**2000])
IDS = st.integers(0, 9) | st.sampled_from([*"abc", True, 1.0, 1])


def records(cells: st.SearchStrategy[Any], ids: st.SearchStrategy[Any] = IDS):
    row = st.dictionaries(st.sampled_from(["n", "t", "item"]), cells, max_size=3)
    keyed = st.builds(lambda of, rest: {"id": of, **rest}, ids, row)
    return st.lists(keyed, max_size=8) | st.lists(row, max_size=5)


DISTINCT = st.lists(
    st.dictionaries(st.sampled_from(["n", "t"]), CELLS, max_size=2), max_size=8
).map(lambda rows: [{"id": at, **row} for at, row in enumerate(rows)])
BEFORE = st.fixed_dictionaries({"item": DISTINCT | records(CELLS), "note": records(CELLS)})


@st.composite
def runs(draw: st.DrawFn) -> tuple[Any, Any]:
    before = draw(BEFORE)
    after = copy.deepcopy(before)
    for _ in range(draw(st.integers(0, 3))):
        rows = after.get(draw(st.sampled_from(["item", "note"])), [])
        how = draw(st.sampled_from(["set", "odd", "drop", "add", "again", "move", "all", "lose"]))
        at = draw(st.integers(0, 20)) % (len(rows) or 1)
        if how == "all":
            rows[:] = draw(records(CELLS))
        elif how == "lose":
            after.pop(draw(st.sampled_from(["item", "note"])), None)
        elif how == "add":
            rows.insert(at, *draw(records(CELLS).filter(bool))[:1])
        elif rows and how == "drop":
            del rows[at]
        elif rows and how == "again":
            rows.append(copy.deepcopy(rows[at]))
        elif rows and how == "move":
            rows.append(rows.pop(at))
        elif rows and isinstance(rows[at], dict):
            rows[at][draw(st.sampled_from(["n", "t", "x"]))] = draw(ODD if how == "odd" else CELLS)
    return before, after


def outcome(capture: Any) -> Any:
    try:
        return capture()
    except InputError as error:
        return str(error)


@given(runs())
@example(({"item": [{"id": 1, "n": 1}]}, {"item": [{"id": 1, "n": True}]}))
@example(({"item": [{"id": 1, "n": [1]}]}, {"item": [{"id": 1, "n": [1.0]}]}))
@example(({"item": [{"n": True, "t": 1}]}, {"item": [{"t": True, "n": 1}]}))
@example(({"item": [{"id": 1, "n": 0.0}]}, {"item": [{"n": -0.0, "id": 1}]}))
def test_any_run_is_captured_as_its_text_is(run: tuple[Any, Any]):
    before, after = run
    whole = outcome(
        lambda: tables_pair(as_json(before, "before"), as_json(after, "after"), REFINED)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept, "_BLOCK", 2)
        patch.setattr(kept, "_FEW", 3)
        found = outcome(lambda: _Tables(copy.deepcopy(before), REFINED).captures(after))
    assert found == whole


def test_what_is_plain_needs_no_text(monkeypatch: pytest.MonkeyPatch):
    """Columns of several chunks, under the schema of the state before and under a wider one."""
    monkeypatch.setattr(columns, "CHUNK_KEYS", 3)
    monkeypatch.setattr(model_state, "CHUNK_KEYS", 3)
    before = {
        "item": [{"id": at, "n": at / 4, "t": None, "of": [at]} for at in (5, 1, 9, 2, 8, 0, 4)],
        "note": [{"t": "a"}, {"t": "a"}, {"t": "b"}],
    }
    tables = KeptTables("tables", before, None, offline_clock)
    for at, value in [(0, 1.5), (3, None), (3, 2), (6, "x")]:
        after = copy.deepcopy(before)
        after["item"][at]["n"] = value
        after["item"][2]["t"] = "paid"
        after["item"].append({"id": 7, "n": 0.5, "t": None, "of": []})
        del after["item"][1], after["note"][0]
        found = tables.captures(tables.changes(after))
        assert found == tables_pair(as_json(before, "before"), as_json(after, "after"), REFINED)
        assert len(found[1].parts[0].state.tables["item"].chunks) == 3


@pytest.mark.parametrize("value", [(1,), {1: 2}, float("nan"), b"", object(), {3}, "\ud800"])
def test_what_is_odd_is_left_to_the_text(value: Any):
    tables = KeptTables("tables", {"item": [{"id": 1, "n": 1}]}, None, offline_clock)
    with pytest.raises(Odd):
        tables.captures(tables.changes({"item": [{"id": 1, "n": value}]}))
    with pytest.raises(Odd):
        KeptTables("tables", {"item": [{"id": 1, "n": value}]}, None, offline_clock)


@given(runs())
def test_deltas_mean_the_state_that_they_came_from(run: tuple[Any, Any]):
    """As JSON, too; what they do not say exactly is refused."""
    before, after = run
    try:
        deltas = statediff.changes(before, after)
        tables = _Tables(before, REFINED)
    except InputError:
        return
    for given_ in (list(deltas), json.loads(dumps(deltas))):
        try:
            found = tables.captures(given_)
        except InputError:
            continue
        assert tuple(plain_diff(comparison(*found).diff)["deltas"]) == deltas


BASE = {"item": [{"id": 1, "n": 1, "of": {"a": [1, 2]}}], "note": [{"t": "a"}, {"t": "a"}]}
RIGHT = {"op": "update", "type": "item", "key": 1, "path": "n", "before": 1, "after": 2}


@pytest.mark.parametrize(
    "delta",
    [
        7, {}, {**RIGHT, "type": "other"}, {**RIGHT, "type": ["item"]}, {**RIGHT, "key": 2},
        {**RIGHT, "key": True}, {**RIGHT, "before": 2}, {**RIGHT, "before": True},
        {**RIGHT, "after": {"unobserved": "x"}}, {**RIGHT, "after": float("nan")},
        {**RIGHT, "after": object()}, {**RIGHT, "after": "9007199254740993"},
        {**RIGHT, "path": "n.a"}, {**RIGHT, "path": "of.a[7]"}, {**RIGHT, "path": "of.a[-1]"},
        {**RIGHT, "path": "of.a[0]", "before": 2}, {**RIGHT, "path": ""}, {**RIGHT, "op": "delete"},
        {**RIGHT, "op": "create", "path": "", "after": {"id": 1}},
        {**RIGHT, "op": "create", "path": "", "after": {"n": 1}},
        {**RIGHT, "op": "delete", "path": "", "before": {"id": 1}},
        {"op": "delete", "type": "note", "key": 1, "path": "", "before": {"t": "b"}, "after": None},
    ],
)  # fmt: skip
def test_a_delta_that_does_not_fit_is_refused(delta: Any):
    tables = _Tables(BASE, REFINED)
    with pytest.raises(UsageError):
        tables.captures([delta])
    tables.captures([RIGHT])


def test_deltas_that_contradict_each_other_are_refused():
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    gone = {**RIGHT, "path": "of.a[1]", "before": 2, "after": {"absent": True}}
    member = {**RIGHT, "path": "of.a", "before": [1, 2], "after": {"absent": True}}
    for deltas in (
        [RIGHT, RIGHT], [gone, gone], [member, member], [{**RIGHT, "after": deep}],
        [{**RIGHT, "after": "1e99999999999999999999"}], [{**RIGHT, "path": deep}],
    ):  # fmt: skip
        with pytest.raises(InputError):
            _Tables(BASE, REFINED).captures(deltas)
    [(_, row)] = _Tables(BASE, REFINED).captures([gone])[1].parts[0].state.tables["item"].rows()
    assert row["of"] == Map((("a", (1,)),))


@pytest.mark.parametrize("kept", [1, 2])
def test_what_was_asked_for_last_stays(kept: int) -> None:
    recent = Recent[int](kept)
    for number in range(3):
        recent.keep(number, number)
        recent.get(0)
    assert recent.get(0) == (0 if kept == 2 else None)
    assert recent.get(2) == 2
