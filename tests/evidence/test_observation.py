"""An observer's statement binds what is judged: each lie replays by itself, and not under it."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import pytest

from statediff.cli.evidence.sealing import DemandOptions
from statediff.errors import BundleError
from statediff.evidence import verify as v
from statediff.evidence.canonical import write
from statediff.evidence.demands import Demands
from statediff.evidence.keys import trust_entry
from statediff.evidence.leaf_partition import Owners, pieces
from statediff.evidence.observation import with_observation
from statediff.evidence.package import Bundle
from statediff.evidence.seal import SEED_BYTES, Sealed, at_tier, opened, redact, seal
from statediff.kernel import TrialFacts, replay
from statediff.model.trace import ActionClass, RunEnding
from statediff.model.values import Map
from statediff.observing import Observer
from statediff.workspace.rechecking import is_ending_open, unbound
from tests.evidence.test_roots import remade
from tests.evidence.test_vectors import theirs
from tests.growing_logs import ADA, EVE, NOON
from tests.judging import DIVERGE, DOC, MATCH, TIMELINE, TYPES, at, capture, doc, part, run, state
from tests.traces import call, log

ENTRIES = [trust_entry("Ada", ADA.public, ["evaluator"]),
           trust_entry("Rita", EVE.public, ["observer"])]  # fmt: skip
TRUST = write({"format": v.TRUST, "keys": ENTRIES})
KEYS = v.read_trust(TRUST)
RITA = Observer(key=EVE, clock=lambda: NOON, known={"model": "m-1"})
GRANTED = call("grant", ActionClass.PERMISSION_CHANGE, pin="hunter2-hunter2")
BODY = """\
forbid: [{id: kept, delete: doc}]
allow: [{id: any, update: doc}]
actions: {forbid: {classes: [permission-change]}}
answer: {schema: {n: int}, claims: [{id: said, that: answer.n == 3}]}
"""
TRUE: dict[str, Any] = {
    "trace": log(GRANTED),
    "answer": {"n": 4},
    "timeline": TIMELINE,
    "facts": TrialFacts("trial", isolation="none", ending=RunEnding("killed", None)),
}


def trial(types: Any = TYPES, body: str = BODY, **given: Any) -> tuple[Bundle, Any]:
    """A judged trial, and what its observer signed of it."""
    told = {**TRUE, **given}
    rows = [doc(1)], [doc(1, deleted_at="2026-01-01")]
    sides = [
        capture(side, part(side, state({"doc": own}, types=types)))
        for side, own in zip(v.SIDES, rows, strict=True)
    ]
    bundle, answer = run(body, *sides, **told).bundle, Map.of(told["answer"])
    ends = (sides[0], sides[1])
    return bundle, RITA.observe([ends], told["facts"], told["trace"], answer, told["timeline"])


def sealed(bundle: Bundle) -> dict[str, bytes]:
    return dict(seal(bundle, bytes(SEED_BYTES), NOON, ADA.public, ADA.sign).files)


PLAIN = tuple(replace(each, deleted_when=None) if each == DOC else each for each in TYPES)
LIES: dict[str, dict[str, Any]] = {
    "trace": {"trace": log(call("look", ActionClass.READ, pin="hunter2-hunter2"))},
    "answer": {"answer": {"n": 3}},
    "times": {"timeline": replace(TIMELINE, settled_at=at(25))},
    "schema": {"types": PLAIN},
    "trial": {"facts": replace(TRUE["facts"], isolation="container")},
}


@pytest.mark.node
def test_what_was_observed_is_in_the_bundle_and_shown_at_each_tier_to_whom_it_may_be() -> None:
    bundle, signed = trial()
    found = v.verify(sealed(with_observation(bundle, signed)), KEYS)
    assert found.observed is not None
    assert (found.status, found.observed.signer, found.observed.at) == ("VALID", "Rita", NOON)
    assert found.observed.withheld == ("ending", v.UNSHOWN)
    agent = {"model": "m-1", "name": "none"}
    assert found.observed.agent == {**dict.fromkeys(("configuration", "version")), **agent}
    assert list(Demands(observed=True).unmet(found)) == []
    whole, shown = Sealed(sealed(with_observation(bundle, signed))), []
    for tier in ("reviewer", "public"):
        copy = redact(whole, found, at_tier(tier))
        shown.append(v.verify(copy.files, KEYS))
        assert len(list(Demands(observed=True).unmet(shown[-1]))) == 1
        assert theirs([(copy.files, TRUST)]) == ["NOT_REPLAYABLE_AT_TIER"]
    said = [each.observed and (each.observed.shown, each.observed.agent) for each in shown]
    assert said == [(("schema", "times"), None), None]
    assert b"hunter2" not in b"".join(whole.files.values())


@pytest.mark.node
@pytest.mark.parametrize("lie", LIES)
def test_who_seals_cannot_state_another_trial_than_was_observed(lie: str) -> None:
    signed = trial()[1]
    other, own = trial(**LIES[lie])
    assert replay(other) == replay(with_observation(other, own))
    with pytest.raises(BundleError, match=rf"{lie}: not what was observed"):
        with_observation(other, signed)
    files = sealed(remade(other, observation=signed))
    with pytest.raises(v.Rejected, match=rf"^observation\.json: .*{lie}: not what was observed"):
        v.verify(files, KEYS)
    assert theirs([(files, TRUST)]) == ["INVALID"]


def test_a_call_that_is_left_out_would_turn_the_verdict() -> None:
    body = BODY.replace("n == 3", "n == 4")
    made = [trial(body=body, types=PLAIN, **lie) for lie in ({}, LIES["trace"])]
    assert [each.manifest["verdict"] for each, _ in made] == [DIVERGE.value, MATCH.value]
    with pytest.raises(BundleError, match="trace"):
        with_observation(made[1][0], made[0][1])


@pytest.mark.parametrize(("judged", "unmet"), [(0, ["states: 1 of the 2"]), (1, [])])
def test_of_two_readings_that_were_observed_the_open_one_is_demanded(
    judged: int, unmet: list[str]
) -> None:
    rows: tuple[Any, ...] = ([doc(1)], [doc(1, deleted_at="2026-01-01")], [])
    one, *others = (
        capture(side, part(side, state({"doc": own}, types=TYPES)))
        for side, own in zip(("before", "after", "after"), rows, strict=True)
    )
    bodies = [run(BODY, one, other, **TRUE).bundle for other in others]
    ends = [(one, other) for other in others]
    told = TRUE["facts"], TRUE["trace"], Map.of(TRUE["answer"]), TIMELINE
    signed = with_observation(bodies[judged], RITA.observe(ends, *told))
    found = v.verify(sealed(signed), KEYS)
    assert found.status == "VALID"
    said = list(Demands(observed=True).unmet(found))
    assert [each[: len("states: 1 of the 2")] for each in said] == unmet


def test_what_is_under_no_root_is_not_observed_either() -> None:
    sides = [
        capture(side, *(part(side, state({"doc": [doc(1)]}, source=n), n) for n in ("db", "copy")))
        for side in v.SIDES
    ]
    bundle, told = run(BODY, *sides, **TRUE).bundle, (TRUE["facts"], TRUE["trace"])
    ends = [(sides[0], sides[1])]
    signed = RITA.observe(ends, *told, Map.of(TRUE["answer"]), TIMELINE)
    found = v.verify(sealed(with_observation(bundle, signed)), KEYS)
    unmet = DemandOptions(observed=True).unmet(found, unbound(found))
    assert "under no state root: doc, which several sources have" in unmet


def test_what_no_copy_shows_is_as_it_was_observed_or_nobody_replays() -> None:
    bundle, signed = trial()
    whole = with_observation(bundle, signed)
    assert replay(whole).verdict is DIVERGE
    other, _ = trial(trace=log(replace(GRANTED, arguments=Map.of({"pin": "hunter3-hunter3"}))))
    assert {n: other.data(n) for n in v.PARTS[1:3]} == {n: whole.data(n) for n in v.PARTS[1:3]}
    with pytest.raises(BundleError, match="it is not what was observed"):
        replay(replace(whole, undisclosed=other.undisclosed))


def test_an_ending_that_the_contract_asks_for_is_not_left_out() -> None:
    asked = BODY.replace(
        "answer:", "require: [{id: ended, that: run.ended == 'by-itself'}]\nanswer:"
    )
    facts = replace(TRUE["facts"], ending=None)
    bundle, signed = trial(body=asked)
    lie, _ = trial(body=asked, facts=facts)
    true, left_out, unasked = (
        v.verify(sealed(with_observation(each, signed)), KEYS) for each in (bundle, lie, trial()[0])
    )
    assert [is_ending_open(each) for each in (true, left_out, unasked)] == [False, True, False]


def test_without_its_opening_nobody_tries_values_and_that_is_kept_no_longer_than_they() -> None:
    bundle, signed = trial(body=f"{BODY}evidence: {{db: {{retain: 1d}}}}\n")
    whole = opened(v.verify(sealed(with_observation(bundle, signed)), KEYS))
    payload = base64.b64decode(signed["envelope"]["payload"])
    assert all(salt.encode() not in payload for _, salt, *_ in signed["opened"])
    owners = Owners(whole.document("schema.json"), whole.manifest["keeping"])
    kept = {each.path: owners.retain(each.path, each.value) for each in pieces(whole)}
    of_it = {path: seconds for path, seconds in kept.items() if path.startswith(v.OBSERVATION)}
    assert of_it.pop("observation.json#") is None
    assert set(of_it.values()) == {24 * 60 * 60}
