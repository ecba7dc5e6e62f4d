"""The few questions that a draft leaves to its owner, and the answers, kept beside the contract.

1. A place where right runs differ is bound by the draft. Whether it may hold anything is asked
   where that lets something seeded pass which the bound does not.
2. What `mutate` seeds and the draft lets pass is asked from the other side: may an agent do that,
   too? Where not, a clause that is proven on every right run closes it.
3. The most harmful question comes first. None is asked whose answer changes no verdict on a run
   that was seen or seeded, none that was answered before, and at most `MOST`.

The default of each question is the strict side.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from statediff.contract.yaml.reader import read_document
from statediff.errors import InputError, UsageError
from statediff.meta.mutate import MutationReport, judge_fault, mutate, seed_faults
from statediff.meta.reference import Reference
from statediff.meta.world import Fault, World, is_privilege
from statediff.model.values import printable
from statediff.model.verdict import Verdict
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


@dataclass(frozen=True)
class Question:
    """One question: what was seen, what the draft does, and what *yes* would let pass."""

    id: str
    seen: tuple[str, ...]
    asks: str
    passes: tuple[str, ...]
    weight: tuple[int, int]
    """How harmful a wrong *yes* is: by the kind of change, then by how much it lets pass."""
    closing: str = ""
    """The clauses that *no* adds."""


Ask = Callable[[int, int, Question], bool]
"""True if the owner says yes to the question, of so many."""


def answered(drafted: Drafted, answers: Answers) -> Drafted:
    """The draft as the answers have it."""
    return redraft(drafted, answers.any, answers.closed.values()) if answers.known else drafted


def interview(drafted: Drafted, answers: Answers, ask: Ask) -> tuple[Drafted, Answers]:
    """The draft that follows from the answers, those of earlier ones included."""
    found = _questions(answered(drafted, answers), answers)[:MOST]
    for number, question in enumerate(found, 1):
        is_yes = ask(number, len(found), question)
        answers = _with(answers, question, is_yes=is_yes)
    return answered(drafted, answers), answers


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
    found = [*_of_places(drafted, answers), *_of_survivors(drafted)]
    left = (question for question in found if question.id not in answers.known)
    return sorted(left, key=lambda q: (q.weight, q.id), reverse=True)


def _of_places(drafted: Drafted, answers: Answers) -> Iterator[Question]:
    """Questions about values in which right runs differ, where a bound decides a seeded fault."""
    first = drafted.right[0]
    faults = [f for f in seed_faults(World(first, first.judged(), 0)) if not f.is_twin]
    for clause in drafted.draft.clauses:
        name = clause.changes[0].type
        for difference in clause.open:
            place = f"{name}.{difference.place}"
            if place in answers.known or not difference.bound:
                continue
            try:
                loose = answered(drafted, replace(answers, any=answers.any | {place}))
            except UsageError:
                continue
            own = [fault for fault in faults if fault.target.startswith(place)]
            passes = tuple(f.sentence for f in own if _is_let_through(f, first, loose.right[0]))
            if passes:
                values = (f"run {n}: {each}" for n, each in enumerate(difference.values, 1))
                bound = f"drafted: {' and '.join(difference.bound)}"
                asks = f"{place} differs between the right runs. May it hold anything?"
                weight = _weight(first, name, passes)
                yield Question(place, (*values, bound), asks, passes, weight)


def _is_let_through(fault: Fault, strict: Reference, loose: Reference) -> bool:
    """True if the looser draft matches what the stricter one does not."""
    verdicts = (
        judge_fault(replace(fault, mutant=replace(fault.mutant, contract=each.contract)), "")[0]
        for each in (strict, loose)
    )
    return [outcome.verdict is Verdict.MATCH for outcome in verdicts] == [False, True]


def _of_survivors(drafted: Drafted) -> Iterator[Question]:
    """Questions about changes that no right run made."""
    report: MutationReport = mutate(drafted.right, 0, {})
    for survivor in report.open_survivors:
        if not survivor.closing:
            continue
        passes = (f"{survivor.sentence}; the draft would let it pass",)
        name = survivor.id.split(" ")[-1].partition("[")[0].partition(".")[0]
        asks = f"May an agent do this as well: {survivor.sentence}?"
        weight = _weight(drafted.right[0], name, passes)
        yield Question(survivor.id, (), asks, passes, weight, survivor.closing)


def _weight(reference: Reference, name: str, passes: tuple[str, ...]) -> tuple[int, int]:
    entity = reference.types.get(name)
    return int(entity is not None and is_privilege(entity)), len(passes)
