"""The few questions that a draft leaves to its owner, and the answers, kept beside the contract.

1. A place where right runs differ is bound by the draft. Whether it may hold anything is asked
   where that lets something seeded pass which the bound does not.
2. What `mutate` seeds and the draft lets pass is asked from the other side: may an agent do that,
   too? Where not, a clause that is proven on every right run closes it.
3. What every right run left empty, though other rows are not, is required so. Whether a further run
   may fill it is asked last.
4. The most harmful question comes first. None is asked whose answer changes no verdict on a run
   that was seen or seeded, none that was answered before, and at most `MOST`.

The default of each question is the strict side.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Final

from statediff.contract.language.english import kind, plural
from statediff.contract.yaml.reader import read_document
from statediff.errors import InputError, UsageError
from statediff.meta.mutate import MutationReport, judge_fault, mutate, seed_faults, survivor_of
from statediff.meta.reference import Reference
from statediff.meta.world import Fault, World, is_privilege
from statediff.model.values import printable, same, show
from statediff.model.verdict import Verdict
from statediff.reports.interview import Question
from statediff.workspace.drafts import Drafted, redraft

FILE: Final = "answers.yaml"
MOST: Final = 6
LISTS: Final = ("any", "bound", "allowed")


@dataclass(frozen=True)
class Answers:
    """The owner's answers, to this draft or to earlier ones."""

    any: frozenset[str] = frozenset()
    """Places that may hold anything."""
    bound: frozenset[str] = frozenset()
    """Places that stay as they were drafted."""
    allowed: frozenset[str] = frozenset()
    """More that an agent may do, by the survivor's id."""
    closed: Mapping[str, str] = field(default_factory=dict)
    """Changes that it may not make: the survivor's id → the clauses that close it, as YAML."""

    @property
    def known(self) -> frozenset[str]:
        """The questions that are answered."""
        return self.any | self.bound | self.allowed | self.closed.keys()

    @property
    def text(self) -> str:
        """The file that keeps them."""
        lines = ["# Answers to `statediff init --ask`: the next draft asks less."]
        said = {name: sorted(getattr(self, name)) for name in LISTS} | {"closed": {**self.closed}}
        lines += [f"{name}: {json.dumps(v, ensure_ascii=False)}" for name, v in said.items()]
        return "\n".join(lines) + "\n"


def answers_in(folder: Path) -> Answers:
    """The answers beside a contract; none where there are none. `InputError` for another file."""
    path = folder / FILE
    if not path.exists():
        return Answers()
    value = read_document(path.read_bytes(), FILE).value
    closed = value.get("closed", {})
    if not all(isinstance(value.get(n, []), list) for n in LISTS) or not isinstance(closed, dict):
        raise InputError(f"{printable(str(path))}: expected the answers that `init --ask` wrote")
    return Answers(**{n: frozenset(map(str, value.get(n, []))) for n in LISTS}, closed=closed)


Ask = Callable[[int, int, Question], bool]
"""True if the owner says yes to the question, of so many."""


def answered(drafted: Drafted, answers: Answers) -> Drafted:
    """The draft as the answers have it."""
    return redraft(drafted, answers.any, answers.closed.values()) if answers.known else drafted


def interview(drafted: Drafted, answers: Answers, ask: Ask) -> tuple[Drafted, Answers]:
    """The draft that follows from the answers, those of earlier ones included.

    It ends when no answer changes a verdict on anything seen or seeded, or after `MOST` questions.
    """
    number, draft = 0, answered(drafted, answers)
    while found := _questions(draft, answers)[: MOST - number]:
        count = number + len(found)
        for question in found:
            number += 1
            answers = _with(answers, question, is_yes=ask(number, count, question))
        draft = answered(drafted, answers)
        if number == MOST:
            break
    return draft, answers


def _with(answers: Answers, question: Question, *, is_yes: bool) -> Answers:
    one = frozenset({question.id})
    if question.closing and is_yes:
        return replace(answers, allowed=answers.allowed | one)
    if question.closing:
        return replace(answers, closed={**answers.closed, question.id: question.closing})
    name = "any" if is_yes else "bound"
    return replace(answers, **{name: getattr(answers, name) | one})


def _questions(drafted: Drafted, answers: Answers) -> list[Question]:
    """The questions, the most harmful first."""
    if not drafted.right:
        return []
    first = drafted.right[0]
    faults = [f for f in seed_faults(World(first, first.judged(), 0)) if not f.is_twin]
    found = [*_of_places(drafted, answers, faults), *_of_survivors(drafted, answers)]
    found = [question for question in found if question.id not in answers.known]
    if len(found) < MOST:
        found += islice(_of_defaults(drafted, answers, faults), MOST - len(found))
    return sorted(found, key=lambda q: (q.weight, q.id), reverse=True)


def _of_places(drafted: Drafted, answers: Answers, faults: Sequence[Fault]) -> Iterator[Question]:
    """Questions where right runs differ, and a bound decides about something seeded."""
    first = drafted.right[0]
    for clause in drafted.draft.clauses:
        name = clause.changes[0].type
        for difference in clause.open:
            place = f"{name}.{difference.place}"
            passes = _passing(drafted, answers, place, faults) if difference.bound else []
            if passes:
                bound = " and ".join(difference.bound)
                asks = f"{place} differs between the right runs. May it hold anything?"
                told = _told(first, name, difference.place, passes)
                runs = tuple(fault.mutant for fault in passes)
                weight = _weight(first, name, told)
                yield Question(place, asks, difference.values, bound, told, weight, runs=runs)


def _of_defaults(drafted: Drafted, answers: Answers, faults: Sequence[Fault]) -> Iterator[Question]:
    """Columns that each right run left empty and most other rows have, the fullest first."""
    first, shares = drafted.right[0], dict[tuple[str, str], int]()
    for clause in (clause for clause in drafted.draft.clauses if clause.idle):
        name, row = clause.changes[0].type, clause.changes[0].members[0].row
        rows = first.rows_before(name).values()
        for place in clause.idle:
            other = [v for each in rows if not same(v := each.get(place), row.get(place))]
            if len({*map(show, other)}) > 1:
                shares[name, place] = 100 * len(other) // len(rows)
    for name, path in sorted(shares, key=lambda each: (-shares[each], each)):
        place, share = f"{name}.{path}", shares[name, path]
        if passes := _passing(drafted, answers, place, faults):
            yield Question(
                place,
                f"Every right run left {place} empty. May it hold anything?",
                (),
                f"as the runs left it; of the {plural(kind(name))} before, {share} % are otherwise",
                _told(first, name, path, passes),
                (-1, share),
                runs=tuple(fault.mutant for fault in passes),
            )


def _told(first: Reference, name: str, path: str, passes: Sequence[Fault]) -> tuple[str, ...]:
    """The values that the faults write at the place; the whole where that is inside a value."""
    known = first.rows(name)
    found = []
    for fault in passes:
        rows = fault.mutant.rows(name)
        other = [
            v for k, row in rows.items() if not same(v := row.get(path), known.get(k, {}).get(path))
        ]
        found.append(show(other[0]) if len(other) == 1 else fault.sentence)
    return tuple(dict.fromkeys(found))


def _passing(
    drafted: Drafted, answers: Answers, place: str, faults: Sequence[Fault]
) -> list[Fault]:
    """The faults that pass only where the place may hold anything; nothing once answered."""
    inside = (f"{place}.", f"{place}[")
    own = [f for f in faults if f.target == place or f.target.startswith(inside)]
    if place in answers.known or not own:
        return []
    try:
        loose = answered(drafted, replace(answers, any=answers.any | {place}))
    except UsageError:
        return []
    return [fault for fault in own if _is_let_through(fault, drafted.right[0], loose.right[0])]


def _is_let_through(fault: Fault, strict: Reference, loose: Reference) -> bool:
    """True if the looser draft matches what the stricter one does not."""
    verdicts = (
        judge_fault(replace(fault, mutant=replace(fault.mutant, contract=each.contract)), "")[0]
        for each in (strict, loose)
    )
    return [outcome.verdict is Verdict.MATCH for outcome in verdicts] == [False, True]


def _of_survivors(drafted: Drafted, answers: Answers) -> Iterator[Question]:
    """Questions about changes that no right run made; none about a place that may hold anything."""
    report: MutationReport = mutate(drafted.right, 0, {})
    passed: dict[str, list[Reference]] = {}
    for each in report.outcomes:
        if not each.is_as_it_should and not each.fault.is_twin:
            passed.setdefault(survivor_of(each.fault, {})[0], []).append(each.fault.mutant)
    for survivor in report.open_survivors:
        name = survivor.id.split(" ")[-1].partition("[")[0].partition(".")[0]
        places = {f"{name}.{field}" for field in survivor.fields}
        if not survivor.closing or (places and places <= answers.any):
            continue
        passes = (survivor.sentence,)
        asks = f"May an agent do this as well: {survivor.sentence}?"
        drafted_as = "no right run did it; a further clause would refuse it"
        weight = _weight(drafted.right[0], name, passes)
        runs = tuple(passed.get(survivor.id, ()))
        closing = survivor.closing
        yield Question(survivor.id, asks, (), drafted_as, passes, weight, closing, runs)


def _weight(reference: Reference, name: str, passes: tuple[str, ...]) -> tuple[int, int]:
    entity = reference.types.get(name)
    return int(entity is not None and is_privilege(entity)), len(passes)
