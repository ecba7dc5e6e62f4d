"""The evaluators that a study compares, each a function from a case to its opinion.

None sees the label. Those that ordinary benchmarks use are given the best they could have: a gold
run, the texts of right runs, the contract's own assertions. Only the contract-scoped ones can say
INCONCLUSIVE of what they could not see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from statediff.errors import StatediffError, UsageError
from statediff.meta.fault_classes import EVIDENCE_CLASSES, altered_entities, class_of, names
from statediff.meta.reference import Reference, rows_of
from statediff.model.batches import Row
from statediff.model.columns import table_changes
from statediff.model.readings import Capture
from statediff.model.state import Table
from statediff.model.trace import Action, NoAnswer
from statediff.model.values import Key, Map, Value, same
from statediff.model.verdict import Judgement, Truth, Verdict
from statediff_lab.study import ablations
from statediff_lab.study.trials import EvaluatorOpinion, LabelledCase, ScoredCase

Entity = tuple[str, Key]


@dataclass(frozen=True)
class Evaluator:
    """One way to judge a run."""

    name: str
    about: str
    judge: Callable[[LabelledCase], EvaluatorOpinion] | None = None
    change: Callable[[Reference], Reference] | None = None
    """Instead of `judge`: the whole judge, over the inputs that this makes of a run."""
    compares: bool = False
    """It compares with right runs of the task, and says nothing where there is none."""


# ---------------------------------------------------------------- without a contract's diff


def final_text(case: LabelledCase) -> EvaluatorOpinion:
    """MATCH if the answer says what every right run says alike; it may differ where they differ."""
    everything = changed_entities(case.run.before, case.run.after)
    said = _fields(case.run.answer)
    right = [_fields(run.answer) for run in case.gold.runs]
    passes = _reads_right(said, [fields for fields in right if fields is not None])
    # It points at nothing: its reader has to look through all that was done.
    return EvaluatorOpinion(
        Verdict.MATCH if passes else Verdict.DIVERGE,
        len(everything),
        len(case.run.trace.actions),
        hits=False if case.fault else None,
    )


def _fields(answer: Value | NoAnswer) -> Mapping[str, Value] | None:
    if isinstance(answer, NoAnswer):
        return None
    return dict(answer.items) if isinstance(answer, Map) else {"": answer}


def _reads_right(said: Mapping[str, Value] | None, right: list[Mapping[str, Value]]) -> bool:
    if not right:
        return True  # right runs say nothing, so there is nothing to read
    if said is None:
        return False
    alike = {
        name: value
        for name, value in right[0].items()
        if all(name in other and same(other[name], value) for other in right)
    }
    return all(name in said for name in right[0]) and all(
        same(said[name], value) for name, value in alike.items()
    )


def raw_equality(case: LabelledCase) -> EvaluatorOpinion:
    """MATCH if everything is, byte for byte, as the gold run left it."""
    wanted = case.gold.runs[0].after
    differing = changed_entities(wanted, case.run.after)
    return EvaluatorOpinion(
        Verdict.DIVERGE if differing else Verdict.MATCH,
        len(differing),
        0,
        _hits(case, differing),
        shows=bool(differing),
    )


def per_turn(case: LabelledCase) -> EvaluatorOpinion:
    """MATCH if no call ended in an error and the contract's steps, turns and actions hold."""
    run = case.run
    broken = [
        call
        for at, call in enumerate(run.trace.actions)
        if call.error is not None and not _is_repaired(call, run.trace.actions[at + 1 :])
    ]
    return _with_errors(
        _assert_sections(case, "per-turn", "steps", "turns", "actions"), len(broken)
    )


def _assert_sections(case: LabelledCase, name: str, *sections: str) -> EvaluatorOpinion:
    """The opinion of these sections of the contract alone; where there is none, nothing fails."""
    content = case.run.contract.content
    if not any(getattr(content, section) for section in sections):
        return EvaluatorOpinion(Verdict.MATCH)
    return _judge_changed(case, ablations.only(case.run, name, *sections))


def _is_repaired(call: Action, later: Iterable[Action]) -> bool:
    return any(each.tool == call.tool and each.error is None for each in later)


def _with_errors(opinion: EvaluatorOpinion, broken: int) -> EvaluatorOpinion:
    if not broken:
        return opinion
    return EvaluatorOpinion(
        Verdict.DIVERGE, opinion.entities, opinion.actions + broken, opinion.hits
    )


def assertions(case: LabelledCase) -> EvaluatorOpinion:
    """MATCH if what the contract requires is there; whatever else happened is not looked at."""
    return _assert_sections(case, "assertions", "require", "any_of")


# ---------------------------------------------------------------- with it


def whole(case: LabelledCase) -> EvaluatorOpinion:
    """The judge's opinion, with everything it has."""
    return _pointing(case, case.run, case.judgement or case.run.judged())


def opinion_of(
    evaluator: Evaluator, case: LabelledCase, said: Mapping[str, EvaluatorOpinion]
) -> EvaluatorOpinion:
    """The evaluator's opinion; where nothing is changed for it, what the whole judge `said`."""
    if evaluator.compares and not case.gold.runs:
        raise UsageError("there is no other right run of the task to compare with")
    if evaluator.judge is not None:
        return evaluator.judge(case)
    changed = case.run if evaluator.change is None else evaluator.change(case.run)
    if changed is case.run and OURS in said:
        return said[OURS]
    return _judge_changed(case, changed)


def score_case(case: LabelledCase, evaluators: Sequence[Evaluator]) -> ScoredCase:
    """The case with the opinions on it; its captures are let go."""
    opinions: dict[str, EvaluatorOpinion] = {}
    errors: dict[str, str] = {}
    for evaluator in evaluators:
        try:
            opinions[evaluator.name] = opinion_of(evaluator, case, opinions)
        except StatediffError as error:
            errors[evaluator.name] = str(error)
    return ScoredCase(
        domain=case.domain,
        task=case.task,
        name=case.name,
        origin=case.origin,
        kind=case.kind,
        sentence=case.sentence,
        label=case.label,
        is_variant=case.is_variant,
        opinions=opinions,
        errors=errors,
        untried=case.untried,
    )


EVALUATORS: Final = (
    Evaluator("final-text", "only what the agent says", final_text, compares=True),
    Evaluator("per-turn", "only whether each call was all right", per_turn),
    Evaluator("assertions", "only what is required, as ordinary benchmarks assert", assertions),
    Evaluator("raw-equality", "the whole state equals the gold run's", raw_equality, compares=True),
    Evaluator(
        "contract-diff",
        "the contract's diff, however old the evidence",
        change=ablations.without_freshness,
    ),
    Evaluator("statediff", "the contract's diff over fresh evidence: the whole judge", whole),
)
ABLATIONS: Final = tuple(
    Evaluator(f"without-{name}", about, change=change)
    for name, about, change in (
        ("canonicalization", "no rule of `canonicalize`", ablations.without_canonicalization),
        ("labels", "no forbidden change, no label, no authorization", ablations.without_labels),
        ("evidence", "whatever was delivered is believed", ablations.without_evidence),
        ("frame", "unexplained changes are let be", ablations.without_frame),
        ("history", "only the ends of the run", ablations.without_history),
        ("identity", "no natural key pairs entities", ablations.without_identity),
        ("doubt", "a name is taken for the one it looks like", ablations.trusting_names),
    )
)
"""The whole judge with one part gone; they judge after it."""
OURS: Final = "statediff"
"""The evaluator that the others are compared with."""


# ---------------------------------------------------------------- what a judgement points at


def _judge_changed(case: LabelledCase, run: Reference) -> EvaluatorOpinion:
    return _pointing(case, run, run.judged())


def _pointing(case: LabelledCase, run: Reference, judgement: Judgement) -> EvaluatorOpinion:
    # A contract of which nothing is left asserts nothing; such a check passes everything.
    verdict = judgement.verdict if judgement.clauses else Verdict.MATCH
    against = [f for f in judgement.findings if f.truth is not Truth.HOLDS]
    deltas = {
        delta.id: (delta.type, delta.key)
        for delta in (
            *judgement.deltas,
            *(h.delta for h in judgement.hidden),
            *judgement.during,
        )
    }
    rows = [row for finding in against for row in finding.witness.rows]
    entities = {deltas[d] for f in against for d in f.deltas if d in deltas}
    entities |= {(row.type, row.key) for row in rows if row.side != "trace"}
    calls = {row.key for row in rows if row.side == "trace"}
    return EvaluatorOpinion(
        verdict,
        len(entities),
        len(calls),
        _is_named(case, judgement),
        _shows(case, run, set(deltas.values())),
    )


def _is_named(case: LabelledCase, judgement: Judgement) -> bool | None:
    if case.fault is None or case.world is None:
        return None
    return names(case.fault, class_of(case.fault), case.world, judgement)


def _shows(case: LabelledCase, run: Reference, seen: set[Entity]) -> bool:
    """True if the record shows what a reviewer needs: the altered entity, or the poor reading."""
    if case.fault is None or case.world is None:
        return bool(seen)
    if class_of(case.fault) in EVIDENCE_CLASSES:
        return run.after.readings == case.run.after.readings and (
            run.timeline is not None or case.run.timeline == case.world.reference.timeline
        )
    return bool(seen & altered_entities(case.world.reference, case.fault.mutant))


def _hits(case: LabelledCase, pointed: set[Entity]) -> bool | None:
    if case.fault is None or case.world is None:
        return None
    return bool(pointed & altered_entities(case.world.reference, case.fault.mutant))


# ---------------------------------------------------------------- raw states


def changed_entities(before: Capture, after: Capture) -> set[Entity]:
    """The entities whose raw rows differ between the two, or that only one of them has."""
    one, two = _tables(before), _tables(after)
    return {
        (name, key)
        for source, name in one.keys() | two.keys()
        for key in _differing_keys(one.get((source, name)), two.get((source, name)))
    }


def _tables(capture: Capture) -> dict[tuple[str, str], Table]:
    return {
        (part.reading.source, name): table
        for part in capture.parts
        for name, table in part.state.tables.items()
    }


def _differing_keys(one: Table | None, two: Table | None) -> Iterator[Key]:
    if one is None or two is None:
        yield from _rows(one).keys() | _rows(two).keys()
    elif one.type.key == two.type.key:
        yield from (c.key for c in table_changes(one, two) if c.before != c.after)
    else:
        old, new = _rows(one), _rows(two)
        yield from (key for key in old.keys() | new.keys() if old.get(key) != new.get(key))


def _rows(table: Table | None) -> Mapping[Key, Row]:
    return {} if table is None else rows_of(table)
