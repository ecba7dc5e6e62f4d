"""Faults are counted from what was seeded, never from what the evaluator says."""

from dataclasses import replace

import pytest

from statediff.meta.fault_classes import alters_nothing, names
from statediff.meta.metatest import fault_case, metatest
from statediff.meta.mutate import Argued
from statediff.meta.reference import Rows
from statediff.meta.world import Fault, World, drop, put
from statediff.model.values import Map
from statediff.model.verdict import Truth
from tests.meta.test_mutate import LOOSE, TIGHT, reference

OUTSIDE = """\
exclude:
  - {what: log, because: a log}
  - {what: item.t, because: free words}
canonicalize:
  - {use: casefold@1, on: [user.name], because: in any letters}
"""


@pytest.fixture(scope="module")
def world() -> World:
    run = reference(OUTSIDE + LOOSE)
    return World(run, run.judged(), 3)


def other(world: World, type_name: str, **values: object) -> Fault:
    row = {**world.reference.rows(type_name)[(1,)], **values}
    return world.faulty("wrong-value", type_name, "another", {type_name: put((1,), row)})


@pytest.mark.parametrize(
    ("type_name", "values", "is_nothing"),
    [
        ("user", {}, True),
        ("user", {"name": "ADA"}, True),
        ("user", {"name": "Bo"}, False),
        ("item", {"t": "other words"}, True),
        ("item", {"t": "other words", "n": 8}, False),
        ("doc", {"title": "y"}, False),
    ],
)
def test_a_seed_alters_nothing_where_it_means_the_same_or_lies_outside_the_boundary(
    world: World, type_name: str, values: dict[str, object], is_nothing: bool
):
    fault = other(world, type_name, **values)
    assert alters_nothing(fault, world) is is_nothing
    assert (fault_case(fault, world, {}) is None) is is_nothing


def test_an_entity_less_is_something_within_the_boundary_only(world: World):
    def emptied(rows: Rows) -> None:
        rows.clear()

    gone = world.faulty("extra-delete", "doc", "gone", {"doc": drop((1,))})
    assert not alters_nothing(gone, world)
    assert alters_nothing(world.faulty("extra-delete", "log", "gone", {"log": emptied}), world)


def test_other_words_of_the_agent_are_something():
    run = reference(TIGHT)
    world = World(run, run.judged(), 3)
    said = replace(run, answer=Map.of({"made": 2}))
    assert not alters_nothing(Fault("false-claim", "made", "false", said), world)
    assert alters_nothing(Fault("false-claim", "made", "true", run), world)


def test_a_kind_of_fault_that_the_owner_lets_pass_is_none_whatever_the_evaluator_says():
    kind = ("irreversible-change", "user")
    assert kind in {(case.kind, case.entity) for case in metatest([reference(TIGHT)], 3, {})}
    for body in (TIGHT, LOOSE):
        cases = metatest([reference(body)], 3, {"extra-delete user": Argued("users may go")})
        assert kind not in {(case.kind, case.entity) for case in cases}


def test_what_the_judge_overlooks_is_a_fault_that_was_not_caught(world: World):
    case = fault_case(other(world, "doc", title="y"), world, {})
    assert case is not None
    assert not case.is_right, "the frame is open: the judge lets it pass, and it counts"


OWNED = """\
frame: {open: only the owner matters to this test}
require:
  - id: owned
    create: item
    that: any(u.id == it.owner and u.name == "Bo" for u in after.user)
"""


def test_what_is_missing_is_named_by_what_refers_to_it():
    run = reference(OWNED)
    world = World(run, run.judged(), 3)
    missing = world.faulty("drop-required", "user", "gone", {"user": drop((2,))})
    judged = missing.mutant.judged()
    assert [f.clause for f in judged.findings if f.truth is Truth.FAILS] == ["owned"]
    shown = {(row.type, row.key) for finding in judged.findings for row in finding.witness.rows}
    assert ("user", (2,)) not in shown
    assert names(missing, "missing-change", world, judged)
    elsewhere = world.faulty("drop-required", "doc", "gone", {"doc": drop((1,))})
    assert not names(elsewhere, "missing-change", world, judged)
