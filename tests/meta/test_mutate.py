from dataclasses import replace

import pytest

from statediff.contract.file import parse_contract
from statediff.errors import UsageError
from statediff.meta.mutate import AT_ONCE, FAULTS, TWINS, Argued, MutationReport, mutate
from statediff.meta.reference import Reference
from statediff.meta.world import World
from statediff.model.schema import COUNT, COUNTERS, EntityType, Field, Kind
from statediff.model.trace import Trace
from statediff.model.values import Map
from tests.histories import seen, told
from tests.judging import (
    FACTS,
    ITEM,
    SILENT,
    TIMELINE,
    TYPES,
    capture,
    contract,
    item,
    part,
    state,
    user,
)

BEFORE = {
    "user": [user(1), user(2, name="Bo"), user(3, role="admin", name="Cy")],
    "item": [item(1, n=5, owner=1), item(2, n=7, t="b", owner=2), item(3, n=9, owner=1)],
    "doc": [{"id": 1, "title": "x", "kind": "memo", "deleted_at": None}],
    "log": [{"what": "made", "n": 1}],
}
AFTER = {
    **BEFORE,
    "item": [
        item(1, n=6, owner=1), item(2, n=7, t="b", owner=2), item(3, n=9, owner=1),
        item(4, n=1, t="new", owner=2),
    ],
}  # fmt: skip
TIGHT = """\
require:
  - id: raised
    update: item
    where: it.id == 1
    set: {n: 6}
  - {id: made, create: item, set: {n: 1, t: new, owner: 2}}
answer:
  schema: {made: int}
  claims:
    - answer.made == count(i for i in created.item)
"""
LOOSE = """\
frame: {open: only the item matters to this test}
require:
  - id: raised
    update: item
    where: it.id == 1
  - {id: made, create: item}
"""


def reference(body: str, after=AFTER, name: str = "right", types=TYPES, before=None) -> Reference:
    file = parse_contract(contract(body, noop=False).encode(), "c.yaml")
    said = Map.of({"made": 1}) if "answer:" in body else SILENT
    states = (
        ("before", state(BEFORE if before is None else before, types=types)),
        ("after", state(after, types=types)),
    )
    sides = [capture(moment, part(moment, of)) for moment, of in states]
    return Reference(
        name,
        file,
        before=sides[0],
        after=sides[1],
        trace=Trace(),
        answer=said,
        timeline=TIMELINE,
        facts=FACTS,
    )


def report(body: str, seed: int = 0, argued=None) -> MutationReport:
    return mutate([reference(body)], seed, argued or {})


def test_a_tight_contract_catches_every_fault_and_lets_every_twin_pass():
    found = report(TIGHT)
    assert found.survivors == ()
    assert found.diverged == ()
    assert found.caught == found.faults > 30
    assert {o.fault.operator for o in found.outcomes} >= {
        "drop-required", "partial", "off-by-one", "wrong-sign", "wrong-value", "look-alike",
        "wrong-principal", "wrong-entity", "duplicate", "extra-create", "extra-update",
        "extra-delete", "privilege", "swap", "soft-delete", "unsettled", "stale", "missing",
        "truncated", "false-claim", "other-id", "other-day",
    }  # fmt: skip


def test_a_contract_that_asks_when_the_run_was_has_no_twin_of_another_day() -> None:
    day = '  - {id: that-day, that: run.start < timestamp("2026-03-18T00:00:00Z")}\n'
    found = report(TIGHT.partition("answer:")[0] + day)
    assert found.diverged == ()
    assert "other-day" not in {each.fault.operator for each in found.outcomes}


def test_something_else_is_created_also_where_the_run_touched_every_row() -> None:
    title = [{**BEFORE["doc"][0], "title": "y"}]
    body = TIGHT.partition("answer:")[0] + "  - {id: named, update: doc, fields: [title]}\n"
    of_docs = [
        each
        for each in mutate([reference(body, {**AFTER, "doc": title})], 0, {}).outcomes
        if (each.fault.operator, each.fault.target) == ("extra-create", "doc")
    ]
    assert [len(each.fault.mutant.rows("doc")) for each in of_docs] == [2]
    assert [each.verdict.value for each in of_docs] == ["DIVERGE"]


def test_a_loose_contract_is_told_what_passes_and_what_would_close_it():
    found = report(LOOSE)
    names = {s.id: s for s in found.survivors}
    assert {"extra-delete user", "extra-create doc", "swap item.n", "soft-delete doc"} <= set(names)
    assert names["unsaid item"].fields == ("n", "t")
    assert '    "n": 6' in names["unsaid item"].closing
    assert "delete: user" in names["extra-delete user"].closing
    assert found.caught < found.faults


def test_the_closing_clause_closes_the_hole():
    body = LOOSE + "forbid:\n  - {id: no-other-user, delete: user}\n"
    assert "extra-delete user" in {s.id for s in report(LOOSE).survivors}
    assert "extra-delete user" not in {s.id for s in report(body).survivors}


def test_an_argued_survivor_is_closed_only_for_the_fields_it_names():
    one = {"unsaid item": Argued("any number will do", ("n",))}
    both = {"unsaid item": Argued("any words and numbers will do", ("n", "t"))}
    for argued, is_open in ((one, True), (both, False)):
        found = report(LOOSE, argued=argued)
        assert ("unsaid item" in {s.id for s in found.open_survivors}) is is_open


def test_the_same_seed_gives_the_same_report_and_another_picks_otherwise():
    def lines(seed: int) -> list[str]:
        return [f"{o.fault.id}: {o.fault.sentence}" for o in report(TIGHT, seed).outcomes]

    assert lines(3) == lines(3)
    assert len({tuple(lines(seed)) for seed in range(4)}) > 1


@pytest.mark.parametrize("operator", [*FAULTS, *TWINS], ids=lambda each: each.__name__)
def test_seeding_never_alters_the_reference(operator):
    whole = reference(TIGHT)
    digests = [p.state.digest() for p in (*whole.before.parts, *whole.after.parts)]
    for fault in operator(World(whole, whole.judged(), 0)):
        assert fault.mutant is not whole
    assert [p.state.digest() for p in (*whole.before.parts, *whole.after.parts)] == digests


def test_a_reference_that_does_not_match_has_nothing_to_measure():
    with pytest.raises(UsageError, match=r"gets DIVERGE, not MATCH \(\w[\w-]*: .*\); correct"):
        mutate([reference(TIGHT, after=BEFORE)], 0, {})
    with pytest.raises(UsageError, match="at least one reference"):
        mutate([], 0, {})


def test_two_sources_that_contradict_each_other_are_caught():
    whole = reference(TIGHT)

    def doubled(side):
        again = replace(side.parts[0].reading, source="copy", id=side.parts[0].reading.id + "2")
        return replace(side, parts=(replace(side.parts[0], reading=again), *side.parts))

    twice = replace(whole, before=doubled(whole.before), after=doubled(whole.after))
    outcomes = mutate([twice], 0, {}).outcomes
    seen = [o for o in outcomes if o.fault.operator == "contradiction"]
    assert seen
    assert all(o.is_as_it_should for o in seen)


def test_a_log_of_many_types_follows_an_entity_that_got_another_number():
    body = TIGHT.replace(
        "answer:",
        "  - id: logged\n    create: log\n"
        '    where: it.what == "item" and any(i.id == it.n for i in created.item)\nanswer:',
    )
    logged = {**AFTER, "log": [*BEFORE["log"], {"what": "item", "n": 4}]}
    found = mutate([reference(body, after=logged)], 0, {})
    renumbered = [o for o in found.outcomes if o.fault.operator == "other-id"]
    assert [o.clause for o in renumbered] == [""]
    assert renumbered[0].is_as_it_should
    assert found.survivors == ()


# ---------------------------------------------------------------- transient writes

COUNTER = (Field("name", Kind.TEXT), Field("value", Kind.INT))
STILL = "\nforbid:\n  - {id: still, any: [user, doc], during: run}\n"


def watched(body: str) -> Reference:
    """The reference with a history: its two changes came one after the other."""
    plain = reference(body)
    half = {**BEFORE, "item": [item(1, n=6, owner=1), *BEFORE["item"][1:]]}
    after = told(plain.after, ("db", seen("db", [state(half), state(AFTER)])))
    return replace(plain, after=after)


def transients(found: MutationReport):
    return [o for o in found.outcomes if o.fault.operator.startswith("transient-")]


def test_a_transient_write_is_seeded_where_a_clause_forbids_it_and_caught():
    found = mutate([watched(TIGHT + STILL)], 0, {})
    assert found.transient == ("doc", "user")
    kinds = {(o.fault.operator, o.fault.target.partition(".")[0]) for o in transients(found)}
    assert {("transient-extra-create", "user"), ("transient-extra-delete", "doc")} <= kinds
    assert {name for _, name in kinds} == {"doc", "user"}
    assert all(o.is_as_it_should and o.clause == "still" for o in transients(found))
    assert (found.faults, found.diverged) == (found.caught, ())


def test_the_frame_over_a_required_history_catches_transient_writes_of_every_type():
    found = mutate([watched(TIGHT + "evidence: {db: {history: required}}\n")], 0, {})
    assert {o.fault.target.partition(".")[0] for o in transients(found)} >= {"doc", "item", "log"}
    assert all(o.is_as_it_should for o in transients(found))
    assert found.diverged == ()


def test_a_counter_that_follows_the_rows_gives_no_fault_away():
    counters = EntityType(COUNTERS, ("name",), (Field("name", Kind.TEXT), Field(COUNT, Kind.INT)))
    types = (*TYPES[:2], replace(ITEM, counter="item"), *TYPES[3:], counters)
    before = {**BEFORE, COUNTERS: [{"name": "item", COUNT: 3}]}
    after = {**AFTER, COUNTERS: [{"name": "item", COUNT: 4}]}
    loose = "require:\n  - {id: made, create: item, count: {min: 1}}\n"
    right = reference(loose, {**after, "item": [*BEFORE["item"], item(4)]}, "", types, before)
    found = mutate([right], 7, {})
    names = {s.id: s for s in found.survivors}
    assert {"duplicate item", "extra-create item"} <= set(names)
    assert "count(e for e in created.item) == 1" in names["duplicate item"].closing
    assert COUNTERS not in names["duplicate item"].closing
    alone = [o for o in found.outcomes if COUNTERS in o.fault.target]
    assert alone
    assert all(o.is_as_it_should for o in alone)
    assert found.diverged == ()


def test_a_clause_about_the_run_that_is_too_narrow_leaves_survivors():
    narrow = "\nforbid:\n  - {id: still, create: user, where: 'it.id == 1', during: run}\n"
    found = mutate([watched(TIGHT + narrow)], 0, {})
    assert [s.id for s in found.survivors] == ["transient-extra-create user"]


def test_a_contract_of_the_net_state_permits_transient_writes_by_design():
    found = mutate([watched(TIGHT)], 0, {})
    assert (found.transient, transients(found)) == ((), [])
    assert (found.faults, found.diverged) == (found.caught, ())


def test_of_a_reference_that_needs_its_history_nothing_is_said_to_be_tried():
    # A document came and went in between, and only its counter shows it.
    counters = EntityType("db.sequence", ("name",), COUNTER)
    types = (*(replace(t, counter="doc") if t.name == "doc" else t for t in TYPES), counters)
    before = {**BEFORE, "db.sequence": [{"name": "doc", "value": 1}]}
    after = {**AFTER, "db.sequence": [{"name": "doc", "value": 2}]}
    half = {**after, "doc": [*BEFORE["doc"], {**BEFORE["doc"][0], "id": 2}]}
    sides = [
        capture(at, part(at, state(of, types=types)))
        for at, of in (("before", before), ("after", after))
    ]
    commits = [state(each, types=types) for each in (half, after)]
    body = f"{TIGHT}allow:\n  - {{create: doc}}\n  - {{delete: doc}}\n"
    plain = reference(f"{body}evidence: {{db: {{history: required}}}}\n")
    seen_all = told(sides[1], ("db", seen("db", commits)))
    counted = replace(plain, before=sides[0], after=seen_all)
    found = mutate([counted], 0, {})
    assert AT_ONCE in {(each.what, each.why) for each in found.untried}
    settled = mutate([watched(TIGHT)], 0, {})
    assert AT_ONCE not in {(each.what, each.why) for each in settled.untried}


# ---------------------------------------------------------------- twins that agree with themselves


@pytest.mark.parametrize(
    ("log", "is_made"),
    [
        ({"what": "item", "n": 4}, True),
        ({"what": "Items", "n": 4}, True),
        ({"what": "made", "n": 4}, False),
        ({"what": "item 4 was made", "n": 1}, False),
        ({"what": "item 40 was made", "n": 1}, True),
    ],
)
def test_a_twin_renames_every_mention_of_an_entity_or_is_not_made(log, is_made):
    wanted = (
        "  - id: logged\n    create: log\n    where: >-\n"
        "      it.n == 1 or any(i.id == it.n for i in created.item)\nanswer:"
    )
    named = replace(ITEM, table="items")
    types = [named if each is ITEM else each for each in TYPES]
    after = {**AFTER, "log": [*BEFORE["log"], log]}
    whole = reference(TIGHT.replace("answer:", wanted), after=after, types=types)
    found = mutate([whole], 0, {})
    assert found.diverged == ()
    assert any(o.fault.operator == "other-id" for o in found.outcomes) is is_made


def test_no_twin_renumbers_a_place_in_the_structure(monkeypatch):
    """The fourth column of `items` is not item 4, though its row names the type."""
    kinds = {"table": Kind.TEXT, "name": Kind.TEXT, "position": Kind.INT}
    fields = tuple(Field(name, kind) for name, kind in kinds.items())
    column = EntityType("db.column", ("table", "name"), fields)
    types = [replace(ITEM, table="items") if each is ITEM else each for each in TYPES]
    columns = [{"table": "items", "name": "owner", "position": 4}]
    monkeypatch.setitem(BEFORE, "db.column", columns)
    body = "forbid: [{id: schema-stays, any: db.column}]\n" + TIGHT
    whole = reference(body, after={**AFTER, "db.column": columns}, types=[*types, column])
    found = mutate([whole], 0, {})
    assert found.diverged == ()
    assert any(o.fault.operator == "other-id" for o in found.outcomes)
