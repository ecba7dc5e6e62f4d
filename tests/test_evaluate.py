"""The pipeline as a whole: what it needs, what it yields, and what it never depends on."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff.capture.take import take
from statediff.cli.faults import exit_code
from statediff.contract.file import load_contract, parse_contract
from statediff.errors import BundleError, ContractError
from statediff.evidence.package import Bundle
from statediff.kernel import TrialFacts, evaluate, replay
from statediff.model.schema import EntityType, Field, Kind
from statediff.model.state import MemoryChunks
from statediff.model.verdict import Verdict
from statediff.systems.tables.source import TablesSource
from tests.judging import (
    DIVERGE,
    HEAD,
    INCONCLUSIVE,
    MATCH,
    UNKNOWN,
    capture,
    contract,
    item,
    judged,
    part,
    run,
    state,
    truths,
    user,
)

BODY = "forbid: [{id: f, delete: user}]\nrequire: [{id: r, create: item}]\n"


def tables(body: str, before: dict[str, Any], after: dict[str, Any]) -> Any:
    """The judged trial over two JSON files, as `statediff judge` reads them."""
    store, texts = MemoryChunks(), [json.dumps(side).encode() for side in (before, after)]
    first = take([TablesSource("tables", texts[0], companion=texts[1])], store, now, None, "before")
    second = take(
        [TablesSource("tables", texts[1], companion=texts[0])], store, now, first, "after"
    )
    return evaluate(parse_contract(contract(body).encode(), "c.yaml"), first, second)


def now() -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC)


def test_a_trial_over_plain_tables() -> None:
    done = tables(
        BODY, {"user": [{"id": 1}], "item": []}, {"user": [{"id": 1}], "item": [{"id": 5}]}
    )
    assert done.judgement.verdict is MATCH
    assert done.judgement.failed == ()
    worse = tables(BODY, {"user": [{"id": 1}], "item": []}, {"user": [], "item": []})
    assert worse.judgement.failed == ("f", "frame", "r")


RECORDS = st.lists(
    st.fixed_dictionaries(
        {"id": st.integers(1, 6)},
        optional={"n": st.integers(0, 2) | st.none(), "t": st.sampled_from(["a", "b"])},
    ),
    max_size=4,
    unique_by=lambda record: record["id"],
)
SIDES = st.fixed_dictionaries({"user": RECORDS, "item": RECORDS})


@given(SIDES, SIDES, st.randoms(use_true_random=False))
def test_shuffled_records_give_the_same_bundle_byte_for_byte(
    before: dict[str, Any], after: dict[str, Any], random: Any
) -> None:
    def mixed(side: dict[str, Any]) -> dict[str, Any]:
        names = random.sample(sorted(side), len(side))
        records = {n: random.sample(side[n], len(side[n])) for n in names}
        return {
            n: [dict(random.sample(list(r.items()), len(r))) for r in rows]
            for n, rows in records.items()
        }

    first = tables(BODY, before, after).bundle
    second = tables(BODY, mixed(before), mixed(after)).bundle
    assert dict(first.files) == dict(second.files)
    assert replay(second).verdict.value == first.manifest["verdict"]


def test_ids_and_seeds_are_arguments_and_nothing_else_moves_the_bundle() -> None:
    sides = {"user": [user(1)]}, {"user": [user(1)], "item": [item(1)]}
    assert run(BODY, *sides).bundle.digest == run(BODY, *sides).bundle.digest
    other = run(BODY, *sides, facts=TrialFacts("trial", seed=2**63)).bundle
    assert other.digest != run(BODY, *sides).bundle.digest
    assert other.document("trial.json")["seed"] == str(2**63)
    assert replay(other).verdict is MATCH


def test_a_migrated_field_is_absent_on_the_side_that_lacks_it() -> None:
    old = EntityType("thing", ("id",), (Field("id", Kind.INT), Field("zone", Kind.TEXT)))
    new = EntityType(
        "thing",
        ("id",),
        (Field("id", Kind.INT), Field("note", Kind.TEXT), Field("zone", Kind.TEXT)),
    )
    before = state({"thing": [{"id": 1, "zone": "x"}]}, types=(old,))
    after = state({"thing": [{"id": 1, "note": "x", "zone": "x"}]}, types=(new,))
    body = (
        "require:\n  - {id: all, that: 'all(t.note == null for t in before.thing)'}\n"
        "  - {id: one, that: 'before.thing[1].note == null'}\n"
        "  - {id: none, that: 'not any(t.note == \"x\" for t in before.thing)'}\n"
        "  - {id: new, that: 'all(t.note == \"x\" for t in after.thing)'}\n"
    )
    found = judged(body, before, after)
    assert [truths(found)[c].value for c in ("all", "one", "none", "new")] == [
        "FAILS", "FAILS", "HOLDS", "HOLDS"
    ]  # fmt: skip


def test_a_type_that_nobody_delivers_on_one_side_is_unobserved_there() -> None:
    one = EntityType("thing", ("id",), (Field("id", Kind.INT),))
    found = judged(
        "forbid: [{id: f, delete: thing}]\n",
        state({"thing": [{"id": 1}]}, types=(one,), source="db"),
        state({}, types=(), source="db"),
    )
    assert found.verdict in (INCONCLUSIVE, DIVERGE)


def test_a_contract_is_read_from_a_file_and_its_errors_name_it(tmp_path: Any) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(contract(BODY))
    assert load_contract(path).content.contract == "tests/world"
    path.write_text(HEAD + "forbid: [{delete: usr}]\n")
    with pytest.raises(ContractError, match=r"c\.yaml:5:19: unknown entity type `usr`"):
        evaluate(load_contract(path), *_captures())


def _captures() -> Any:
    known = state({})
    return capture("before", part("before", known)), capture("after", part("after", known))


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [((), 0), ((MATCH, MATCH), 0), ((MATCH, INCONCLUSIVE), 3), ((DIVERGE, INCONCLUSIVE), 1)],
)
def test_the_exit_code_is_that_of_the_worst_trial(verdicts: tuple[Verdict, ...], code: int) -> None:
    assert exit_code(verdicts) == code


def test_a_contract_with_nothing_but_a_frame_is_refused() -> None:
    with pytest.raises(ContractError, match="would match anything"):
        judged("frame: {open: other agents work here}\nallow: [{create: item}]\n", {}, {})


def test_change_nothing_is_a_contract_of_its_own() -> None:
    before, after = {"user": [user(1)]}, {"user": [user(1, "admin")]}
    assert judged("", before, before).verdict is MATCH
    assert judged("", before, after).verdict is DIVERGE
    assert judged("allow: [{update: user}]\n", before, after).verdict is MATCH


def test_an_undecided_null_run_is_no_match() -> None:
    dark = state({"user": []}, {})
    found = judged("require: [{id: r, update: user, by: agent, count: {min: 0}}]\n", dark, dark)
    assert found.verdict is MATCH
    moved = judged("require: [{id: r, update: user, by: agent}]\n", {"user": [user(1)]},
                   {"user": [user(1, "x")]})  # fmt: skip
    assert truths(moved)["r"] is UNKNOWN


FOLDED = (
    "canonicalize:\n  - {use: casefold@1, on: [item.t], because: people write it both ways}\n"
    "forbid:\n  - {id: none-goes, delete: item}\n"
)


def test_a_manifest_fixes_what_each_rule_was_given_and_what_it_made_of_it() -> None:
    def applied(before: str, after: str) -> tuple[str, str]:
        evaluated = run(
            FOLDED, {"item": [{"id": 1, "n": 1, "t": before}]},
            {"item": [{"id": 1, "n": 1, "t": after}]},
        )  # fmt: skip
        replay(evaluated.bundle)
        [entry] = evaluated.bundle.manifest["applied"]
        assert (entry["rule"], entry["fields"]) == ("casefold@1", ["t"])
        return entry["inputs"], entry["outputs"]

    first, twin, other = applied("a", "B"), applied("A", "b"), applied("a", "C")
    assert first[0] != twin[0]
    assert first[1] == twin[1]
    assert first[1] != other[1]
    # What a rule hides is among what it was given.
    assert applied("a", "A")[0] != applied("b", "B")[0]


def test_a_bundle_that_names_another_resolver_or_other_digests_does_not_replay() -> None:
    made = run(FOLDED, {"item": []}, {"item": [{"id": 1, "n": 1, "t": "A"}]}).bundle
    for changed in ({"resolver": "resolve@0"}, {"applied": []}):
        with pytest.raises(BundleError):
            replay(Bundle({**made.manifest, **changed}, made.files))
