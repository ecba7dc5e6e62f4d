"""The judge beside its executable specification: no truth and no reason of a failure differs.

`python -m tests.kernel.differential` does more of each: see there. Nothing is left out, but what is
judged from a bundle, which holds no more than the judge read. Tests of the bounds on cost
(`test_costs.py`, `test_many_changes.py`) differ by what they test: the specification knows no cost.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statediff.contract.document.contract import KINDS
from statediff.contract.evaluation import joins
from statediff.contract.evaluation.evaluate import outcomes
from statediff.contract.language.names import FUNCTIONS
from statediff.contract.language.parser import parse
from statediff.kernel.spec.expressions import Eval
from statediff.meta.corpus import corpus_files
from statediff.model.trace import Trace
from statediff.model.values import Unobserved
from statediff.model.verdict import Truth
from tests.contract.test_clauses import tried as tried_vector
from tests.contract.test_clauses import vector
from tests.histories import course
from tests.judging import run
from tests.kernel.differential import CORPUS, Tally, beside, over_corpus
from tests.kernel.random_expressions import SCOPE, UNCLEAR, Sides, tried
from tests.policy import test_during_laws as during_laws
from tests.policy import test_laws as laws
from tests.policy import test_run_laws as run_laws
from tests.traces import judged

few = settings(max_examples=settings.default.max_examples // 6)
"""Each example judges several runs."""
PACKS = (
    "accounts/rotate-role",
    "helpdesk/close-case",
    "repo/open-branch",
    "shop/exchange-or-refund",
)


def nothing_differs(tally: Tally, least: int = 1) -> None:
    assert not tally.clauses, tally.clauses[:3]
    assert not tally.conditions, tally.conditions[:3]
    assert tally.counts["clauses"] >= least, str(tally)


@pytest.mark.parametrize("name", PACKS)
def test_stored_cases_have_the_truths_and_reasons_of_the_specification(name: str) -> None:
    tally = Tally()
    over_corpus(tally, [CORPUS / f"{name}.corpus.gz"], 1)
    nothing_differs(tally, 10)


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("path", corpus_files(CORPUS), ids=lambda path: path.name.split(".")[0])
def test_every_stored_case_has_them(path: Path) -> None:
    tally = Tally()
    over_corpus(tally, [path])
    nothing_differs(tally, 50)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_each_kind_of_clause_holds_and_fails_as_specified(kind: Any) -> None:
    asked, tally = vector(kind), Tally()
    with beside(tally):
        for each in (asked["holds"], *asked["fails"]):
            tried_vector(asked, each)
    nothing_differs(tally)


@pytest.fixture(params=[0, joins.INDEXED_AFTER], ids=["indexed", "few"])
def _joined(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every loop by its index, however seldom it is asked, or as it is."""
    monkeypatch.setattr(joins, "INDEXED_AFTER", request.param)


@pytest.mark.usefixtures("_joined")
def test_random_expressions_have_the_truths_of_the_specification_in_every_completion() -> None:
    figures = tried(100, seed=1)
    assert not figures.differ, figures.differ[:1]
    assert not figures.unsound, figures.unsound[:1]
    assert figures.decided > 25
    assert figures.undefined > 5
    assert figures.completions > 100


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("seed", range(2, 6))
def test_many_random_expressions_have_them(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joins, "INDEXED_AFTER", 0)
    figures = tried(2_500, seed)
    assert not figures.differ, figures.differ[:1]
    assert not figures.unsound, figures.unsound[:1]
    # Of the two readers of instants, which have one rule, `date` is tried.
    assert FUNCTIONS.keys() - figures.functions == {"timestamp"}


@pytest.mark.usefixtures("_joined")
@pytest.mark.parametrize("far", [math.inf, -math.inf, math.nan, 2.5, None, "b"])
@pytest.mark.parametrize("op", ["<", ">="])
def test_an_index_orders_infinite_numbers_with_others(far: Any, op: str) -> None:
    """Several infinite values: only the first was looked at, as if they had no order."""
    rows = {
        "order": [
            {
                "id": n,
                "user": 1,
                "agent": 1,
                "total": 1,
                "status": status,
                "data": far,
                "tags": (),
                "at": None,
            }
            for n, status in enumerate(["closed", "open"])
        ],
        "user": [],
    }
    paid = f'x.user == o.user and x.data {op} o.total and x.status == "open"'
    node = parse(f"any(any({paid} for x in before.order) for o in after.order)", SCOPE)
    sides = Sides.of((rows, rows), [], UNCLEAR)
    expected = Eval(sides.world()).truths(node)
    assert outcomes(node, sides.context(node, lambda view: view), {}) == expected


def test_an_unseen_item_that_may_be_undefined_leaves_a_multiset_undefined() -> None:
    """Found by random completions: it was false whatever else there may be."""
    node = parse("same_items((after.user[v.id].org for v in after.order), [1, 2, 3])", SCOPE)
    rows = {"order": [], "user": [{"id": 0, "org": 1, "name": "a", "ok": True, "boss": None}]}
    sides = Sides.of((rows, rows), ["order"], UNCLEAR)
    assert Eval(sides.world()).truths(node) & 4


@pytest.mark.parametrize("op", ["==", "!=", "<", ">="])
def test_what_is_undefined_and_has_bounds_is_open_beside_what_nobody_knows(op: str) -> None:
    """Found by random completions: a total of 5 is not the number of 0 or 1 users, whatever org."""
    node = parse(
        f"before.order[0].total {op} count(u for u in after.user if u.org == u.boss.org)", SCOPE
    )
    unseen = Unobserved("not seen")
    user = {"id": 0, "org": 1, "name": "a", "ok": True, "boss": 2}
    order = dict.fromkeys(("user", "agent", "status", "data", "at")) | {"id": 0, "tags": ()}
    rows = {"order": [{**order, "total": unseen}], "user": [user]}
    known = {**rows, "order": [{**order, "total": 5}]}
    partly, whole = (Sides.of((each, each), [], UNCLEAR) for each in (rows, known))
    mask = Eval(partly.world()).truths(node)
    assert mask & 4
    assert mask & Eval(whole.world()).truths(node) in (1, 2)
    assert outcomes(node, partly.context(node, lambda view: view), {}) == mask


# ---------------------------------------------------------------- random clauses


@few
@given(laws.bodies(), laws.pairs(), st.data())
def test_random_clauses_have_the_truths_of_the_specification_over_partial_states(
    body: str, pair: tuple[Any, Any], data: st.DataObject
) -> None:
    tally, decided = Tally(), []
    with beside(tally, conditions=False):
        laws.attempt(body, *pair)
        whole = tally.last
        for _ in range(2):
            sides = (data.draw(laws.degraded(side)) for side in pair)
            run(body, *sides)
            decided.append(tally.last)
    nothing_differs(tally)
    for partly in decided:
        for clause, truth in partly.items():
            assert truth in (Truth.UNKNOWN, whole[clause]), (clause, truth, whole[clause])


@few
@given(during_laws.ANY, during_laws.RUNS, st.sampled_from([None, "the feed was cut"]))
def test_random_clauses_over_a_run_have_them(body: str, states: Any, gap: str | None) -> None:
    tally = Tally()
    with beside(tally):
        course(body, states[0], states[1:-1], states[-1], gap=gap)
    nothing_differs(tally)


@few
@given(run_laws.bodies(), run_laws.logs(), st.tuples(run_laws.SIDES, run_laws.SIDES), st.data())
def test_random_steps_turns_and_actions_have_them(
    body: str, trace: Trace, pair: tuple[Any, Any], data: st.DataObject
) -> None:
    tally = Tally()
    with beside(tally):
        judged(body, trace, *pair)
        judged(body, run_laws.some_of(data.draw, trace), *pair)
    nothing_differs(tally)
