"""The finding to read first: a near miss of what is required, else the frame."""

from __future__ import annotations

import pytest

from statediff.api import Judged
from statediff.evidence.package import Bundle
from statediff.model.trace import Trace
from statediff.reports.html.clauses import Witnesses
from statediff.reports.line import trial_line
from tests.judging import item, user
from tests.traces import judged

BODY = 'require:\n  - id: named\n    create: item\n    where: it.t == "US12"\n'


def line(after: object) -> str:
    return trial_line(judged(BODY, Trace(), {}, after).bundle)


def test_the_near_miss_of_what_is_required_is_the_headline() -> None:
    said = line({"item": [item(1, 1, "Apple")]})
    assert said.startswith("named: ")
    assert said.endswith('"Apple" \u2260 "US12"')


def test_without_a_near_miss_the_frame_is_the_headline() -> None:
    assert line({"user": [user(1)]}).startswith("frame: user 1 created")


def failing(body: str, before: object, after: object) -> Bundle:
    bundle: Bundle = judged(body + "allow: [{any: item}]\n", Trace(), before, after).bundle
    return bundle


@pytest.mark.parametrize(
    ("clause", "said"),
    [
        ("forbid: [{id: c, that: 'any(i.t == \"b\" for i in after.item)'}]", 'item 2: "b" = "b"'),
        (
            "forbid: [{id: c, that: 'not unique(i.t for i in after.item)'}]",
            "item 2 and item 3: not unique(i.t for i in after.item)",
        ),
        (
            "require: [{id: c, that: 'not any(i.t == \"b\" for i in after.item)'}]",
            'item 2: not any(i.t == "b" for i in after.item)',
        ),
        ("require: [{id: c, update: item, that: new.n - it.n == 1}]", "item 2: 4 \u2260 1"),
    ],
)
def test_a_condition_names_the_entities_of_which_it_failed(clause: str, said: str) -> None:
    same = {"item": [item(1, 1, "a"), item(2, 1, "b"), item(3, 1, "b")]}
    moved = {"item": [item(1, 1, "a"), item(2, 5, "b"), item(3, 1, "b")]}
    body = f"{clause}\n"
    assert trial_line(failing(body, same, moved)).removeprefix("c: ") == said


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("after.item[3].n < 5", "item 3: after.item[3].n < 5: null, absent or "),
        ("sum(i.n for i in after.item) == 5", "sum(i.n for i in after.item) == 5: sum over null"),
        ("after.item[3].n - 1 == 5", "item 3's n after the run is null, which is not a number"),
    ],
)
def test_what_is_undefined_names_its_field_and_its_row(condition: str, said: str) -> None:
    rows = {"item": [item(1, 1, "a"), item(3, None, "b")]}
    bundle = failing(f"require: [{{id: c, that: '{condition}'}}]\n", rows, rows)
    assert trial_line(bundle).removeprefix("c: ").startswith(said)


def test_a_value_that_the_witness_does_not_hold_is_not_called_absent() -> None:
    body = "require: [{id: c, update: item, that: new.n - 3 == 1}]\n"
    bundle = failing(body, {"item": [item(2, 1, "b")]}, {"item": [item(2, 2, "c")]})
    [found] = [f for f in bundle.document("judgement.json")["findings"] if f["clause"] == "c"]
    witness = found["witness"]["rows"]
    shown = Judged(bundle).text()
    assert "before" in shown.partition("Changes")[0]
    assert "absent" not in shown
    sides = Witnesses(
        bundle.document("fragments.json")[0], lambda *_: "", lambda _type, row: dict(row)
    )
    [page] = sides.entities(witness)
    assert page["sides"] == ["before", "after"]
    assert "absent" not in {cell.text for field in page["fields"] for cell in field["cells"]}


CHANGED = "require: [{id: c, update: item, where: it.id == 7, set: {t: done}}]\n"


def changed(wrong: int, gone: int, *, right: bool = True) -> str:
    """The line of a run that changes item 7, `wrong` others, and deletes `gone` users."""
    before = {"item": [item(n, 1, "a") for n in range(9)], "user": [user(n) for n in range(5)]}
    items = [item(n, 2, "done") if n < wrong else row for n, row in enumerate(before["item"])]
    if right:
        items[7] = item(7, 1, "done")
    after = {"item": items, "user": before["user"][gone:]}
    return trial_line(judged(CHANGED, Trace(), before, after).bundle)


@pytest.mark.parametrize(
    ("wrong", "gone", "said"),
    [
        (0, 1, "frame: user 0 deleted"),
        (0, 2, "frame: user 0 and user 1 deleted"),
        (1, 0, "frame: item 0 n 1 → 2 and 1 more field"),
        (4, 3, "frame: 3 rows of user deleted, 4 rows of item changed: 11 changes"),
    ],
)
def test_the_headline_names_all_the_damage(wrong: int, gone: int, said: str) -> None:
    assert changed(wrong, gone) == said


def test_beside_a_near_miss_the_headline_names_the_damage() -> None:
    body = 'require: [{id: named, create: item, where: it.t == "US12"}]\n'
    before = {"item": [item(2, 1, "a"), item(3, 1, "b")]}
    after = {"item": [item(1, 1, "Apple")]}
    said = trial_line(judged(body, Trace(), before, after).bundle)
    assert said.startswith("named: no item matches")
    assert said.endswith("; also item 2 and item 3 deleted")


def test_of_sides_that_a_rule_makes_equal_the_headline_has_what_was_captured() -> None:
    body = (
        "canonicalize: [{use: opaque@1, on: [item.t], because: noise}]\n"
        "forbid: [{id: kept, update: item}]\n"
    )
    before, after = {"item": [item(1, 1, "ada")]}, {"item": [item(1, 1, "bob")]}
    bundle = judged(body, Trace(), before, after).bundle
    assert trial_line(bundle) == 'kept: item 1 t "ada" → "bob"'
    assert 'item 1 t  "ada" → "bob"  opaque@1 (noise)' in Judged(bundle).text()
