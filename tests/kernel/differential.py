"""Holds the judge against its executable specification: every condition, clause and verdict.

    python -m tests.kernel.differential corpus [EACH]
    python -m tests.kernel.differential random [NUMBER] [SEED]
    python -m tests.kernel.differential tests PATH...

`corpus` judges the stored corpora again (EACH cases of a class, all of them without), `random`
makes expressions, states and completions, and `tests` runs any other tests with each of their
judgements held against the specification, too: `lab/tests/importers` has the recorded runs,
`tests/test_tasks.py` every shipped contract whose servers are installed, live.
"""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from statediff.contract.language.context import (
    EntityRef,
    EntitySet,
    EvalContext,
    Undefined,
    Unknown,
)
from statediff.kernel.policy.history import with_states_after_calls
from statediff.kernel.spec import values as spec
from statediff.kernel.spec.changes import all_of, changes_of, operations, verdict
from statediff.kernel.spec.clauses import Case
from statediff.kernel.spec.expressions import Eval
from statediff.kernel.spec.judgement import judge as spec_judge
from statediff.kernel.spec.run import Changed, Run, state_at
from statediff.meta.corpus import corpus_files, replay_corpus
from statediff.model.codes import FindingCode
from statediff.model.state import Coverage
from statediff.model.values import Excluded, Unobserved, key_order
from statediff.model.verdict import Judgement, Truth, is_own
from statediff.model.view import RecordingView, StateView, View

CORPUS = Path(__file__).parents[2] / "fixtures" / "corpus"
JUDGE: Any = importlib.import_module("statediff.kernel.policy.judge")
FULL: Any = importlib.import_module("statediff.contract.evaluation.evaluate")
OUTCOMES: Callable[..., int] = FULL.outcomes
JUDGED: Callable[..., Judgement] = JUDGE.judge


# ---------------------------------------------------------------- what the judge reads, by rows


def _inner(view: View) -> View:
    return view._view if isinstance(view, RecordingView) else view


class Rows(Mapping[str, spec.Table]):
    """A view as a state of the specification; each type is read when it is first asked for."""

    def __init__(self, view: View) -> None:
        self._view = _inner(view)
        self._made: dict[str, spec.Table] = {}

    def __getitem__(self, name: str) -> spec.Table:
        if name not in self._made:
            enumeration = self._view.enumeration(name)
            known = enumeration.coverage is not Coverage.UNOBSERVED
            entity = self._view.schema.by_name.get(name)
            rows = self._view.rows(name, tuple(entity.by_name)) if known and entity else ()
            self._made[name] = spec.Table(
                {key_order(key): (key, row) for key, row in rows}, enumeration
            )
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._view.schema.by_name)

    def __len__(self) -> int:
        return len(self._view.schema.by_name)

    def __contains__(self, name: object) -> bool:
        return True


@dataclass
class Views:
    """Views as rows, made once; a view is kept, so that its place in memory stays its own."""

    made: dict[int, tuple[View, Rows]] = field(default_factory=dict)

    def of(self, view: View) -> Rows:
        inner = _inner(view)
        if id(inner) not in self.made:
            self.made[id(inner)] = inner, Rows(inner)
        return self.made[id(inner)][1]


class _States(Mapping[str, Any]):
    """States by their sides, each made when it is asked for."""

    def __init__(self, views: Mapping[str, View], of: Callable[[View], Any], **more: Any) -> None:
        self._views, self._of, self._more = views, of, more

    def __getitem__(self, side: str) -> Any:
        return self._more[side] if side in self._more else self._of(self._views[side])

    def __iter__(self) -> Iterator[str]:
        return iter({**dict.fromkeys(self._views), **self._more})

    def __len__(self) -> int:
        return len({**dict.fromkeys(self._views), **self._more})


def as_spec(result: Any) -> Any:
    """A result of the evaluator as one of the specification."""
    match result:
        case EntityRef():
            return spec.Thing(result.side, result.type, result.key, result.row)
        case Unknown():
            return spec.Some(result.maybe_null, result.maybe_undefined, result.digest)
        case Undefined():
            return spec.NO_VALUE
        case EntitySet():
            return spec.Crowd(tuple(map(as_spec, result)), bool(result.incomplete))
        case _:
            return result


class _Sets(Mapping[tuple[str, str], spec.Crowd]):
    def __init__(self, sets: Mapping[tuple[str, str], EntitySet]) -> None:
        self._sets = sets

    def __getitem__(self, place: tuple[str, str]) -> spec.Crowd:
        return as_spec(self._sets[place])

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._sets)

    def __len__(self) -> int:
        return len(self._sets)


def world_of(context: EvalContext, views: Views) -> spec.World:
    """The world that an evaluation reads."""
    ends = {"before": views.of(context.before), "after": views.of(context.after)}
    states = _States(context.moments, views.of, **ends)
    sets = _Sets(context.entity_sets)
    of_run = context.ending, context.timeline
    return spec.World(states, context.answer, sets, context.now, *of_run)


def run_of(contract: Any, evidence: Any) -> Run:
    """The judge's evidence as the specification reads it."""
    diff, who = JUDGE._attributed(contract, evidence)
    moments = with_states_after_calls(evidence.moments, evidence.rest.trace, who.claims)
    views = Views()
    sides = _States(moments.views, views.of)
    timelines = moments.course
    places = {
        line.side(n): {line.source: n}
        for line in timelines.lines
        for n in range(1, len(line.steps) + 1)
        if line.side(n) != "after"
    }
    before, after = evidence.ends
    ends, rest = {"before": views.of(before), "after": views.of(after)}, evidence.rest
    states = {side: state_at(timelines, sides, at) for side, at in places.items()} | ends
    unseen = tuple(h.delta for h in diff.hidden if not h.by_boundary)
    net = changes_of(diff.deltas)
    case = Case(
        world=spec.World(states, rest.answer, ending=rest.ending, timeline=rest.timeline),
        schema=after.schema,
        changes=net,
        everything=changes_of((*diff.deltas, *unseen)),
        doubts=diff.doubts,
        made_by=lambda delta, principal: who.by(delta, principal)[0],
    )
    case = replace(case, world=replace(case.world, changed=case.crowds()))
    missing = [r for r in rest.refusals if r.cause.partition(": ")[0] == "missing"]
    return Run(
        contract=contract,
        case=case,
        hidden=tuple(h.delta for h in diff.hidden),
        missing=len(missing),
        trace=evidence.rest.trace,
        timelines=timelines,
        sides=sides,
        commits={
            source: tuple(Changed(c.own, c.so_far) for c in commits)
            for source, commits in moments.commits.items()
        },
        left=_States(moments.after, views.of),
        precedes=moments.order.precedes,
        maker=who.maker,
    )


# ---------------------------------------------------------------- one beside the other


@dataclass
class Tally:
    """Counts what was compared, and keeps each difference."""

    counts: Counter[str] = field(default_factory=Counter)
    conditions: list[Any] = field(default_factory=list)
    clauses: list[Any] = field(default_factory=list)
    reads: Views = field(default_factory=Views)
    last: Mapping[str, Truth] = field(default_factory=dict)
    """The specification's truths of the last judgement, by clause."""

    def __str__(self) -> str:
        n = self.counts
        return (
            f"{n['conditions']} conditions, {n['clauses']} clause truths of {n['judgements']} "
            f"judgements, {n['reasons']} reasons: {len(self.conditions) + len(self.clauses)} differ"
        )


def compare_condition(tally: Tally, node: Any, context: EvalContext, env: Any) -> int:
    """The judge's outcomes, with the specification's beside them."""
    mask = OUTCOMES(node, context, env)
    if not all(isinstance(_inner(view), StateView) for view in (context.before, context.after)):
        return mask
    given = {name: as_spec(held) for name, held in env.items()}
    mine = Eval(world_of(context, tally.reads), given).truths(node)
    tally.counts["conditions"] += 1
    tally.counts[f"condition {mask}"] += 1
    if mine != mask:
        tally.conditions.append((mask, mine, node, env))
    return mask


def compare_judgement(tally: Tally, contract: Any, evidence: Any) -> Judgement:
    """The judge's judgement, each clause held against the specification's.

    Of a run that is not over it has no answer and no verdict, and what no end makes good has a law
    of its own (`test_so_far_laws`).
    """
    theirs = JUDGED(contract, evidence)
    if not all(isinstance(_inner(view), StateView) for view in evidence.ends):
        tally.counts["from bundles, which hold what the judge read alone"] += 1
        return theirs
    if evidence.ledger is not None:
        compare_brief(tally, contract, evidence, theirs)
    run = run_of(contract, evidence)
    compare_operations(tally, contract, run.case)
    mine = spec_judge(run)
    tally.counts["judgements"] += 1
    tally.last = {clause: all_of(found) for clause, found in mine.items()}
    lasts = {e.clause for e in theirs.clauses if not is_own(e.clause)}
    is_over = contract.at_end is None
    tally.counts["of a run that is not over"] += not is_over
    if is_over and verdict(tally.last.values()) is not theirs.verdict:
        tally.clauses.append((contract.name, "the verdict", theirs.verdict, tally.last))
    truths = {e.clause: e.truth for e in theirs.clauses if e.clause not in lasts}
    codes: dict[str, set[FindingCode]] = {}
    for finding in theirs.findings:
        is_part = "/" in finding.clause or finding.clause in lasts
        if finding.truth is Truth.FAILS and not is_part:
            codes.setdefault(finding.clause, set()).add(finding.code)
    for clause in {**truths, **mine} if is_over else truths:
        found = mine.get(clause, [])
        one, two = truths.get(clause), tally.last.get(clause)
        tally.counts["clauses"] += 1
        tally.counts[f"clause {one}"] += 1
        own = {each.code for each in found if each.truth is Truth.FAILS}
        tally.counts["reasons"] += one is Truth.FAILS
        if one is not two or own != codes.get(clause, set()):
            tally.clauses.append((contract.name, clause, one, two, codes.get(clause), own))
    return theirs


def compare_operations(tally: Tally, contract: Any, case: Case) -> None:
    """The changes of each entity that was seen whole are the operations that its rows show."""
    doubted = {(doubt.type, doubt.key) for doubt in case.doubts}
    changed: dict[Any, set[tuple[Any, str]]] = {}
    for change in case.changes:
        place = change.type, key_order(change.key)
        changed.setdefault(place, set()).update((d.op, d.path) for d in change.deltas)
    for entity in case.schema.types:
        before, after = (case.world.table(side, entity.name) for side in case.ends)
        if entity.is_keyless or not (before.is_complete and after.is_complete):
            continue
        for order in before.rows.keys() | after.rows.keys():
            sides = [side.rows.get(order) for side in (before, after)]
            found = [side for side in sides if side is not None]
            cells = [cell for _, row in found for cell in row.values()]
            is_open = any(isinstance(cell, Unobserved | Excluded) for cell in cells)
            if is_open or (entity.name, found[0][0]) in doubted:
                continue
            old, new = (None if side is None else side[1] for side in sides)
            mine = set(operations(entity, old, new))
            theirs = changed.get((entity.name, order), set())
            tally.counts["entities"] += 1
            tally.counts["entities with several operations"] += len({op for op, _ in mine}) > 1
            if mine != theirs:
                tally.clauses.append((contract.name, entity.name, order, theirs, mine))


def compare_brief(tally: Tally, contract: Any, evidence: Any, whole: Judgement) -> None:
    """The judgement whose truths come first is the one that was explained at once."""
    moments = evidence.moments
    views = {side: _inner(view) for side, view in moments.views.items()}
    brief = JUDGED(
        contract,
        replace(
            evidence,
            moments=replace(moments, views=views),
            ledger=None,
            explains=False,
        ),
    )
    for name in ("clauses", "verdict", "tool", "task", "outcome", "open", "findings", "metrics"):
        one, two = getattr(brief, name), getattr(whole, name)
        if one != two and repr(one) != repr(two):  # no number equals one that is none
            tally.clauses.append((contract.name, name, one, two))
    if brief != whole and repr(brief) != repr(whole):
        tally.clauses.append((contract.name, "explained later", brief, whole))


_READERS = ("statediff.kernel.policy", "statediff.reads")
"""Where conditions are asked for; elsewhere one is a part of another."""


@contextmanager
def beside(tally: Tally, *, conditions: bool = True) -> Iterator[Tally]:
    """While it lasts, whatever is judged in this process is held against the specification."""

    def outcomes(node: Any, context: Any, env: Any) -> int:
        return compare_condition(tally, node, context, env)

    def judge(contract: Any, evidence: Any) -> Judgement:
        found = compare_judgement(tally, contract, evidence)
        tally.reads.made.clear()
        return found

    changed_ = []
    swaps = [("judge", JUDGED, judge), *([("outcomes", OUTCOMES, outcomes)] if conditions else [])]
    for name, module in list(sys.modules.items()):
        for attribute, old, new in swaps:
            is_inside = attribute == "outcomes" and not name.startswith(_READERS)
            if vars(module).get(attribute) is old and not is_inside:
                setattr(module, attribute, new)
                changed_.append((module, attribute, old))
    try:
        yield tally
    finally:
        for module, attribute, old in changed_:
            setattr(module, attribute, old)


class Shadow:
    """A pytest plug-in: each judgement that a test makes is held against the specification."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        known = len(self.tally.clauses), len(self.tally.conditions)
        with beside(self.tally):
            yield
        for found, start in zip((self.tally.clauses, self.tally.conditions), known, strict=True):
            found[start:] = [(item.nodeid, *difference) for difference in found[start:]]


def over_corpus(tally: Tally, paths: Iterable[Path], each: int = 0) -> int:
    """Judges stored cases again, beside the specification; how many there were."""
    with beside(tally):
        return sum(1 for path in paths for _ in replay_corpus(path, each, 1))


def main(what: str = "", *rest: str) -> int:
    """The command; 1 where anything differs or is unsound."""
    tally = Tally()
    match what:
        case "corpus":
            over_corpus(tally, corpus_files(CORPUS), int(rest[0]) if rest else 0)
        case "random":
            from tests.kernel.random_expressions import tried  # noqa: PLC0415 - it imports this

            figures = tried(int(rest[0]) if rest else 5_000, int(rest[1]) if rest[1:] else 1)
            _tell(str(figures), *figures.differ, *figures.unsound)
            return bool(figures.differ or figures.unsound)
        case "tests":
            quiet = [
                "-q",
                "-p",
                "no:cacheprovider",
                "-W",
                "ignore::pytest.PytestAssertRewriteWarning",
            ]
            pytest.main([*quiet, "-o", "timeout=0", *rest], plugins=[Shadow(tally)])
        case _:
            _tell(str(__doc__))
            return 2
    _tell(str(tally), str(dict(tally.counts)), *tally.clauses, *tally.conditions)
    return bool(tally.clauses or tally.conditions)


def _tell(first: str, *more: Any) -> None:
    sys.stdout.write("\n".join([first, *(str(each)[:2_000] for each in more[:20])]) + "\n")


if __name__ == "__main__":
    # As the module that tests import: what is patched is compared by identity.
    sys.exit(importlib.import_module("tests.kernel.differential").main(*sys.argv[1:]))
