"""Items that moved, came or went in a list, if its many changed places are really that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff import api
from statediff.kernel import replay
from statediff.model.values import Map, Value, same
from statediff.reports.html import trial_html
from statediff.reports.lists import Edit, edits, list_notes
from tests.judging import contract

ITEMS = st.lists(
    st.one_of(
        st.integers(0, 5), st.booleans(), st.sampled_from(["1", "a"]), st.just(Map.of({"a": 1}))
    ),
    max_size=12,
).map(tuple)


def made(before: tuple[Value, ...], found: tuple[Edit, ...]) -> tuple[Value, ...]:
    """The list with each edit made: what goes or moves goes, then each comes at its index."""
    left = {edit.old for edit in found}
    rest = [item for index, item in enumerate(before) if index not in left]
    for edit in found:
        if edit.new is not None:
            rest.insert(edit.new, edit.item)
    return tuple(rest)


@given(ITEMS, ITEMS)
def test_the_edits_made_to_the_one_list_give_the_other(one: Any, other: Any) -> None:
    assert same(made(one, edits(one, other)), other)
    assert edits(one, one) == ()


@given(ITEMS, st.integers(0, 12), st.integers(0, 12))
def test_an_item_that_moved_is_one_edit_at_most(items: Any, old: int, new: int) -> None:
    if not items:
        return
    moved = list(items)
    moved.insert(new % len(items), moved.pop(old % len(items)))
    assert len(edits(items, tuple(moved))) <= 1


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        ((1, 2), (9, 1, 2), (Edit(None, 0, 9),)),
        ((1, 2, 3), (3, 1, 2), (Edit(2, 0, 3),)),
        ((1, 2, 3), (1, 3), (Edit(1, None, 2),)),
        ((1,), (True,), (Edit(0, None, 1), Edit(None, 0, True))),
        ((1, 1), (1, 1, 1), (Edit(None, 2, 1),)),
    ],
)
def test_equal_is_what_is_equal_to_the_judge(one: Any, other: Any, found: Any) -> None:
    assert edits(one, other) == found


def test_thousands_of_equal_items_are_no_longer_to_align_than_others() -> None:
    found = edits((0,) * 9000 + (1,), (1,) + (0,) * 9000)
    assert found == (Edit(9000, 0, 1),)


def judged(folder: Path, lines: list[Any]) -> api.Judged:
    file = folder / "contract.yaml"
    file.write_text(contract("forbid: [{delete: order}]\n"))
    before = [{"sku": f"s{i}", "qty": i} for i in range(6)]
    return api.judge(
        file,
        before={"order": [{"id": 7, "lines": before}]},
        after={"order": [{"id": 7, "lines": lines or before}]},
    )


def test_an_item_at_the_front_is_said_to_have_come_and_the_verdict_is_the_same(
    tmp_path: Path,
) -> None:
    lines = [{"sku": "<b>new</b>", "qty": 9}, *({"sku": f"s{i}", "qty": i} for i in range(6))]
    bundle = judged(tmp_path, lines).bundle
    fragments = bundle.document("fragments.json")[0]
    deltas = bundle.document("judgement.json")["deltas"]
    notes = list_notes(deltas, fragments)
    assert list(notes) == ["order[7].lines[0].qty"]
    [note] = notes.values()
    assert note.startswith('lines: {qty: 9, sku: "<b>new</b>"} came at [0]')
    page = trial_html(bundle)
    assert "came at [0]" in page
    assert "<b>new" not in page
    assert len(replay(bundle).deltas) == 13, "and each place that changed is judged"


def test_one_change_and_many_need_no_such_words(tmp_path: Path) -> None:
    one = [{"sku": f"s{i}", "qty": i + (i == 3)} for i in range(6)]
    all_ = [{"sku": f"t{i}", "qty": i} for i in range(6)]
    for lines in (one, all_):
        bundle = judged(tmp_path, lines).bundle
        fragments = bundle.document("fragments.json")[0]
        assert list_notes(bundle.document("judgement.json")["deltas"], fragments) == {}
