"""How findings are made: their fields, their order of risk, and one out of many over a run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from statediff.contract.clauses.patterns import Pattern
from statediff.contract.language.context import FALSE, TRUE, UNDEFINED
from statediff.kernel.policy.clauses import further
from statediff.kernel.policy.findings import WHOLE, at, evidence_of, last, risk, truth_of_mask
from statediff.kernel.policy.matching import Change, Match
from statediff.model.codes import FindingCode
from statediff.model.delta import Delta, Doubt, Entity, Label, Op
from statediff.model.explanation import Reason
from statediff.model.sentences import sentence
from statediff.model.verdict import Finding, Stage, Truth
from tests.explaining import in_words
from tests.judging import FAILS, HIDDEN, HOLDS, UNKNOWN, finding, item, judged, run

GONE = Delta(
    Op.DELETE, "item", (1,), "", before=Entity.of({"id": 1}), after=None, raw_before=None,
    raw_after=None, evidence=("b", "a"), label=Label.IRREVERSIBLE,
)  # fmt: skip
MOVED = Delta(
    Op.UPDATE, "item", (2,), "n", before=1, after=2, raw_before=1, raw_after=2,
    evidence=("c", "a"), label=Label.REVERSIBLE,
)  # fmt: skip
STAGE = Stage.FORBID
SO_IT_IS = Reason.WRITTEN(text="so it is")


@pytest.mark.parametrize("mask", range(1, 8))
def test_only_one_outcome_is_decided(mask: int) -> None:
    decided = {TRUE: HOLDS, FALSE: FAILS}
    assert truth_of_mask(mask) is decided.get(mask, UNKNOWN)
    assert truth_of_mask(UNDEFINED) is UNKNOWN


def test_the_riskiest_delta_orders_a_finding_and_its_evidence_is_told_once_in_order() -> None:
    plain = replace(MOVED, label=Label.CONDITIONAL)
    assert [risk(d) for d in ([GONE, MOVED], [plain, MOVED], [MOVED], [])] == [0, 1, 2, 1]
    assert evidence_of([GONE, MOVED]) == ("a", "b", "c")


def test_a_finding_names_its_deltas_its_evidence_and_its_witness() -> None:
    found = WHOLE.fails("c", FindingCode.FORBIDDEN_CHANGE, STAGE, SO_IT_IS, (GONE, MOVED))
    assert (found.truth, found.component, found.missing, found.rank) == (FAILS, "policy", (), 0)
    assert (found.deltas, found.evidence) == (("item[1]", "item[2].n"), ("a", "b", "c"))
    assert [(r.side, r.key) for r in found.witness.rows] == [
        ("before", (1,)), ("before", (2,)), ("after", (2,)),
    ]  # fmt: skip
    held = WHOLE.holds("c", STAGE, SO_IT_IS, (MOVED,))
    assert (held.code, held.truth, held.deltas, held.evidence, held.rank) == (
        "holds", HOLDS, ("item[2].n",), ("a", "c"), 0,
    )  # fmt: skip
    assert (held.component, held.missing) == ("policy", ())


def test_what_is_not_known_says_what_it_waits_for_and_whose_the_gap_is() -> None:
    found = WHOLE.unknown("c", STAGE, ["stale: it is old", "b: hidden", "b: hidden"], (), (MOVED,))
    assert (found.truth, found.code, found.component) == (UNKNOWN, "evidence-stale", "policy")
    assert found.missing == ("b: hidden", "stale: it is old")
    assert found.sentence == "b: hidden; needed by c"
    assert (found.deltas, found.evidence, found.rank) == (("item[2].n",), ("a", "c"), 2)
    assert WHOLE.unknown("c", STAGE, ()).missing == ("a value the clause needs",)
    open_ = WHOLE.undecided("c", STAGE, "division by zero", (), (GONE,))
    assert (open_.truth, open_.code, open_.component) == (UNKNOWN, "undefined", "policy")
    assert (open_.sentence, open_.missing) == ("division by zero", ("division by zero",))
    assert (open_.deltas, open_.rank) == (("item[1]",), 0)


def test_a_place_and_the_last_reason_are_told() -> None:
    assert (
        at(WHOLE.holds("c", STAGE, SO_IT_IS), Reason.SIDE(side="moment 2")).sentence
        == "moment 2: so it is"
    )
    assert in_words([last(["a", "b"])]) == ["b"]
    assert sentence(last([])) == "a condition of the clause is undefined"


def said(truth: Truth, *missing: str) -> Finding:
    if truth is UNKNOWN:
        return WHOLE.unknown("c", STAGE, missing)
    if truth is FAILS:
        return WHOLE.fails(
            "c", FindingCode.FORBIDDEN_CONDITION, STAGE, Reason.WRITTEN(text=missing[0])
        )
    return WHOLE.holds("c", STAGE, Reason.WRITTEN(text=missing[0]))


@pytest.mark.parametrize(
    ("ends", "within", "gaps", "truth", "told"),
    [
        (said(HOLDS, "end"), [], [], HOLDS, "end"),
        (said(HOLDS, "end"), [said(HOLDS, "in")], [], HOLDS, "end"),
        (said(FAILS, "end"), [said(FAILS, "in")], ["gap"], FAILS, "end"),
        (said(HOLDS, "end"), [said(UNKNOWN, "b"), said(FAILS, "in")], ["gap"], FAILS, "in"),
        (said(UNKNOWN, "a"), [said(FAILS, "in"), said(FAILS, "later")], [], FAILS, "in"),
        (said(HOLDS, "end"), [], ["gap"], UNKNOWN, ("gap",)),
        (said(HOLDS, "end"), [said(HOLDS, "in"), said(UNKNOWN, "b")], [], UNKNOWN, ("b",)),
        (said(UNKNOWN, "a"), [said(HOLDS, "in")], [], UNKNOWN, ("a",)),
        (said(UNKNOWN, "a"), [said(UNKNOWN, "b"), said(UNKNOWN, "a")], [], UNKNOWN, ("a", "b")),
        (said(UNKNOWN, "b"), [said(UNKNOWN, "a")], [], UNKNOWN, ("a", "b")),
        (said(UNKNOWN, "b", "a"), [], [], UNKNOWN, ("a", "b")),
        (said(UNKNOWN, "b"), [said(UNKNOWN, "a")], ["gap"], UNKNOWN, ("a", "b", "gap")),
    ],
)  # fmt: skip
def test_over_a_run_a_violation_anywhere_is_one_and_only_all_that_holds_without_a_gap_holds(
    ends: Finding, within: list[Finding], gaps: list[str], truth: Truth, told: object
) -> None:
    found = WHOLE.over_the_run(ends, iter(within), gaps)
    assert found.truth is truth
    assert (found.missing if truth is UNKNOWN else found.sentence) == told
    assert (found.clause, found.stage) == ("c", STAGE)
    if truth is UNKNOWN and gaps:
        assert found.sentence == f"{found.missing[0]}; needed by c"
    elif truth is UNKNOWN:  # told in the words of the first that is open, with all it waits for
        first = next(each for each in (ends, *within) if each.truth is UNKNOWN)
        assert found.sentence == first.sentence


# ---------------------------------------------------------------- how many more there may be

PATTERNS = {
    p.id: p
    for p in run(
        "forbid: [{id: update, update: [item, user]}, {id: delete, delete: item},"
        " {id: any, any: item}]\n", {}, {},
    ).contract.forbid
    if isinstance(p, Pattern)
}  # fmt: skip


def doubt(key: int | bool | None, path: str | None = None, name: str = "item") -> Doubt:
    return Doubt(name, None if key is None else (key,), path, "hidden", "capture")


def matched(*keys: int) -> list[Match]:
    """Entities that the pattern is known to match."""
    return [Match(Change("item", (key,), Op.UPDATE, ()), TRUE, (), frozenset()) for key in keys]


@pytest.mark.parametrize(
    ("operation", "known", "doubts", "most"),
    [
        ("update", (), [], 0),
        ("update", (), [doubt(1, "n"), doubt(2, "n")], 2),
        ("update", (), [doubt(1, "n"), doubt(1, "t")], 1),  # two fields of one entity
        ("update", (), [doubt(1, "n"), doubt(1, "name", "user")], 2),
        ("update", (), [doubt(1, "n"), doubt(True, "n")], 2),  # to Python these keys are one
        ("update", (1,), [doubt(1, "t"), doubt(2, "t")], 1),  # 1 is counted already
        ("update", (), [doubt(1, "n"), doubt(None)], None),
        ("delete", (), [doubt(1)], 1),
        # Where nothing is known of it, it may have gone and come again.
        ("any", (), [doubt(1)], 2),
        ("any", (1,), [doubt(1)], 2),
        ("any", (), [doubt(1, "n")], 1),
        ("any", (), [doubt(1), doubt(1, "n")], 2),
        ("any", (), [doubt(1, "n"), doubt(1), doubt(2)], 4),
    ],
)  # fmt: skip
def test_doubts_can_add_so_many_entities_at_most(
    operation: str, known: tuple[int, ...], doubts: list[Doubt], most: int | None
) -> None:
    assert further(PATTERNS[operation], matched(*known), doubts) == most


@pytest.mark.parametrize(
    ("clause", "truth", "told"),
    [
        # What may not match is not one of those: that it would do decides nothing.
        (
            "where: 'it.n == 3 or it.id == 1', that: 'any(i.t == \"c\" for i in them)'",
            UNKNOWN,
            ("item.n after: hidden",),
        ),
        # An open value is told of; what is open and cannot be `them` is not.
        ("that: 'sum(i.n for i in them) == 3'", UNKNOWN, ("item.n after: hidden",)),
        ("where: 'it.id < 3', that: 'sum(i.n for i in them) == 3'", HOLDS, ()),
        # `that` may hold each entity against all that match.
        ("where: 'it.id < 3', that: 'it.n < count(i for i in them) + 1'", HOLDS, ()),
        ("where: 'it.id < 3', that: 'it.n < count(i for i in them)'", FAILS, ()),
    ],
)
def test_that_speaks_of_all_that_match_and_of_nothing_else(
    clause: str, truth: Truth, told: tuple[str, ...]
) -> None:
    body = f"require:\n  - {{id: c, create: item, count: {{min: 1}}, {clause}}}\n"
    rows = {"item": [item(1, 1), item(2, 2), item(3, HIDDEN, "c")]}
    found = finding(judged(body, {}, rows), "c")
    assert (found.truth, found.missing) == (truth, told)
