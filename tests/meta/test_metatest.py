"""The evaluator's own trial: what is right passes it, and what is wrong does not."""

from dataclasses import replace

import pytest

from statediff.errors import UsageError
from statediff.meta.cases import Cases, Drift, WrongAgent
from statediff.meta.fault_classes import EVIDENCE_CLASSES
from statediff.meta.metatest import SEEDED, Part, faulty_agent_cases, metatest, tally
from statediff.meta.mutate import seed_faults
from statediff.meta.stage_cases import altered_in_other_chunks
from statediff.meta.twins import twin_of
from statediff.meta.world import World
from statediff.model.verdict import Verdict
from tests.judging import ITEM, capture, item, part, state
from tests.meta.test_mutate import AFTER, LOOSE, TIGHT, reference
from tests.test_resolve import IDENTIFY, PERSON

PEOPLE = [{"email": "a", "role": "user"}, {"email": "b", "role": "admin"}]


def test_every_fault_is_caught_and_named_every_twin_matches_and_every_stage_is_named():
    found = tally(metatest([reference(TIGHT)], 3, {}))
    assert found.wrong == ()
    assert found.is_good
    assert found.caught == found.named == found.faults > 20
    assert found.inconclusive == found.evidence_faults > 5
    assert found.twins >= found.faults
    assert {line.name for line in found.by_class} >= {
        "missing-change", "wrong-field", "wrong-principal", "wrong-entity", "duplicate-request",
        "collateral-damage", "irreversible-change", "privilege-change", "look-alike",
        "swapped-values", "false-claim", *EVIDENCE_CLASSES - {"contradictory-sources"},
    }  # fmt: skip


def test_what_a_contract_lets_through_is_a_fault_that_was_not_caught():
    found = tally(metatest([reference(LOOSE)], 3, {}))
    assert not found.is_good
    assert found.caught < found.faults
    missed = [case for case in found.wrong if case.part is Part.FAULT]
    assert {case.verdict for case in missed} == {Verdict.MATCH}
    assert ("irreversible-change", "user") in {(case.kind, case.entity) for case in missed}


def test_cases_that_agree_in_class_type_clause_and_stage_count_once_and_only_if_all_are_right():
    [case, *_] = metatest([reference(TIGHT)], 3, {})
    missed = replace(case, verdict=Verdict.MATCH)
    assert tally([case, case]).faults == 1
    both = tally([case, missed, case])
    assert (both.faults, both.caught, both.wrong) == (1, 0, (missed,))


def test_one_seed_gives_one_trial_and_another_seed_other_cases_at_the_same_rates():
    one, again, other = (metatest([reference(TIGHT)], seed, {}) for seed in (5, 5, 6))
    assert one == again
    assert {case.sentence for case in one} != {case.sentence for case in other}
    assert tally(other).is_good


def test_a_sample_is_a_part_of_each_kind_of_case():
    cases = metatest([reference(TIGHT)], 3, {}, sample=4)
    counts = {part: sum(case.part is part for case in cases) for part in Part}
    assert counts[Part.FAULT] == counts[Part.STAGE] == 4
    assert 4 <= counts[Part.TWIN] <= 8


def test_beside_every_fault_stands_a_twin_of_the_same_place_that_is_another_trial():
    whole = reference(TIGHT)
    world = World(whole, whole.judged(), 3)
    known = {(p.state.digest(), p.reading.as_of) for p in whole.after.parts}
    faults = list(seed_faults(world, SEEDED))
    for fault in faults:
        twin = twin_of(fault, world)
        assert twin.is_twin
        assert {(p.state.digest(), p.reading.as_of) for p in twin.mutant.after.parts} != known
    cases = metatest([whole], 3, {})
    beside = {case.beside for case in cases if case.beside}
    assert beside == {
        (c.kind, c.entity, c.clause, c.stage) for c in cases if c.part is Part.FAULT
    }  # fmt: skip


def test_a_bundle_without_a_reading_is_refused_by_the_evidence_stage():
    cases = metatest([reference(TIGHT)], 3, {})
    removed = [case for case in cases if case.part is Part.STAGE and case.kind == "evidence"]
    assert {"captures.json#/before/0", "captures.json#/after/0"} <= {c.entity for c in removed}
    assert all(case.error for case in removed)


def test_no_reference_or_a_wrong_one_is_an_error_and_never_a_pass():
    with pytest.raises(UsageError, match="at least one reference"):
        metatest([], 0, {})
    more = {**AFTER, "user": AFTER["user"][:2]}
    with pytest.raises(UsageError, match="DIVERGE, not MATCH"):
        metatest([reference(TIGHT, after=more)], 0, {})


def test_a_faulty_agent_is_named_only_by_the_clause_and_code_that_its_case_tells():
    more = {**AFTER, "user": AFTER["user"][:2]}
    ran = reference(TIGHT, after=more, name="hasty")
    told = WrongAgent("hasty", "frame", "frame", "unexplained-change", "a user is gone")
    drift = {"hasty": Drift.CORRUPTION}
    [case] = faulty_agent_cases([ran], Cases(faulty=(told,), drift=drift))
    assert (case.is_right, case.is_named, case.kind) == (True, True, "agent:state-corruption")
    assert (case.clause, case.stage, case.entity) == ("frame", "frame", "hasty")
    for wrong in (replace(told, clause="made"), replace(told, code="missing-change")):
        [other] = faulty_agent_cases([ran], Cases(faulty=(wrong,)))
        assert (other.is_right, other.is_named, other.kind) == (True, False, "agent:faulty")
    [right] = faulty_agent_cases([reference(TIGHT, name="hasty")], Cases(faulty=(told,)))
    assert (right.is_right, right.is_named) == (False, False)


def test_entities_of_one_natural_key_are_a_case_of_the_resolve_stage():
    ran = reference(IDENTIFY + "require: [{id: made, create: item}]\n")
    sides = [
        capture(
            moment, part(moment, state({"person": PEOPLE, "item": items}, types=(PERSON, ITEM)))
        )
        for moment, items in (("before", [item(1)]), ("after", [item(1), item(2)]))
    ]
    cases = metatest([replace(ran, before=sides[0], after=sides[1])], 3, {})
    [case] = [case for case in cases if case.kind == "resolve"]
    assert (case.entity, case.verdict) == ("person", Verdict.INCONCLUSIVE)
    assert case.is_named


def test_where_nothing_lacks_a_key_a_listing_without_keys_is_the_case_of_the_resolve_stage():
    cases = metatest([reference(TIGHT)], 3, {})
    staged = {(c.entity, c.verdict, c.is_named) for c in cases if c.kind == "resolve"}
    listed = {"doc_listing", "item_listing", "log_listing", "user_listing"}
    assert staged == {(name, Verdict.INCONCLUSIVE, True) for name in listed}
    whole = reference(TIGHT)
    altered = altered_in_other_chunks(World(whole, whole.judged(), 3))
    assert {fault.target for fault in altered} == {"item", "user"}
