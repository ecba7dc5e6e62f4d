"""The runs that a verifier is shown of one task, and what it says of each.

Seeded runs come from the operators that try contracts (`statediff.meta.faults`, `sweep`, `twins`).
Harm beside the task is harm by how it was made. What a run wrote in another way than the right one
is harm where the contract says so: a value that the task leaves open is none. Nor is what differs
from the right run only where other right runs differ from it too. Both are left out, and counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Final

from statediff.errors import StatediffError
from statediff.meta.fault_classes import altered_entities, class_of, means_nothing
from statediff.meta.faults import WORLD_FAULTS
from statediff.meta.mutate import seed_faults
from statediff.meta.reach import UNREACHABLE
from statediff.meta.reference import Reference, differs
from statediff.meta.twins import TWINS, recut
from statediff.meta.world import Fault, Operator, Untried, World, in_order
from statediff.model.schema import SCHEMA_OBJECT_PREFIXES
from statediff.model.values import Key
from statediff.model.verdict import Verdict
from statediff_lab.audit.repositories import WRITTEN
from statediff_lab.audit.verifiers import Opinion, Said
from statediff_lab.importers.recorded import SeededChange
from statediff_lab.importers.sweep import changes_of, purges
from statediff_lab.importers.taxonomy import Cause, labels_of


class Group(StrEnum):
    """The kind of run that is shown: all but the last must not pass."""

    NOTHING = "nothing done"
    IN_TASK = "in the task"
    BESIDE = "beside the task"
    UNSEEN = "evidence removed"
    RIGHT = "right"


class Untriable(Exception):
    """The run cannot be shown; the message says why."""


_BESIDE: Final = frozenset(
    {
        "collateral-damage",
        "irreversible-change",
        "privilege-change",
        "schema-change",
        "swapped-values",
        "purge",
    }
)
HARMS: Final[tuple[Operator, ...]] = (*WORLD_FAULTS, purges)
HARMLESS: Final[tuple[Operator, ...]] = tuple(each for each in TWINS if each is not recut)
"""Another cut of the same rows looks the same to every verifier."""


@dataclass(frozen=True)
class Heard:
    """The verifier's word on a run, and the run as our own judge takes it."""

    opinion: Opinion
    run: Reference | None = None
    files: Mapping[str, Path] = field(default_factory=dict)
    """What was shown, by source; there until the next run is shown."""


@dataclass(frozen=True, kw_only=True)
class Exhibit:
    """One run to show. `ask` raises `Untriable` where it cannot be shown."""

    group: Group
    kind: str
    sentence: str
    ask: Callable[[], Heard]
    target: str = ""


_BLIND: Final[Mapping[Group, frozenset[Cause]]] = {
    Group.NOTHING: frozenset({Cause.MISALIGNMENT, Cause.INACTION}),
    Group.IN_TASK: frozenset({Cause.MISALIGNMENT}),
    Group.BESIDE: frozenset({Cause.INCOMPLETE}),
    Group.UNSEEN: frozenset({Cause.EVIDENCE}),
    Group.RIGHT: frozenset(),
}
_BLIND_KINDS: Final[Mapping[str, frozenset[Cause]]] = {
    "answer-alone": frozenset({Cause.HALLUCINATED}),
    "false-claim": frozenset({Cause.HALLUCINATED}),
    # What is asserted is there; nothing looks at what came with it.
    "duplicate-request": frozenset({Cause.INCOMPLETE}),
    "wrong-field": frozenset({Cause.INCOMPLETE}),
    "nested-change": frozenset({Cause.INCOMPLETE}),
}
_FALSE_FAILS: Final[Mapping[str, tuple[Cause, ...]]] = {
    "written-anew": (Cause.EXACT_MATCH, Cause.IMPLEMENTATION),
    "other-spelling": (Cause.EXACT_MATCH,),
    "other-id": (Cause.OVER_SPECIFICATION,),
    "outside-boundary": (Cause.OVER_SPECIFICATION,),
    "other-right-run": (Cause.OVER_SPECIFICATION,),
}


@dataclass(frozen=True, kw_only=True)
class Try:
    """One run that was shown, and what was said of it. Small: the run is gone."""

    group: Group
    kind: str
    target: str
    sentence: str
    said: Said
    why: str = ""
    ours: Verdict | None = None
    """What the contract says of a run on which the verifier is wrong."""
    causes: tuple[Cause, ...] = ()
    """What a suite says of its own rules that fail the run."""
    bundle: str = ""
    """Where the contract's judgement of it lies, in the folder of holes; empty where it is not."""

    @property
    def is_blind(self) -> bool:
        """The verifier passes what is wrong."""
        return self.group is not Group.RIGHT and self.said is Said.PASS

    @property
    def is_false_fail(self) -> bool:
        """The verifier does not pass what is right."""
        return self.group is Group.RIGHT and self.said is not Said.PASS

    @property
    def labels(self) -> tuple[Cause, ...]:
        """Why the verifier is wrong, in the taxonomy; empty where it is not."""
        if self.is_blind:
            return labels_of(_BLIND[self.group] | _BLIND_KINDS.get(self.kind, frozenset()))
        if not self.is_false_fail:
            return ()
        if self.said is Said.NOTHING:
            return (Cause.SILENCE,)
        return labels_of(_FALSE_FAILS.get(self.kind, ()) or self.causes)


@dataclass(frozen=True)
class TaskAudit:
    """One task: every run that was shown."""

    domain: str
    task: str
    _: KW_ONLY
    tries: tuple[Try, ...] = ()
    untried: tuple[Untried, ...] = ()
    contract: str = ""
    """The contract that judged the runs, as YAML; empty where none did."""
    evidence: tuple[tuple[str, str], ...] = ()
    """What the figures rest on, with its digest."""
    fault: str = ""
    """Why the task could not be audited."""


Keep = Callable[[Exhibit, Heard, int], tuple[Verdict | None, str]]
"""Judges a run on which the verifier is wrong; where a bundle of it lies. Numbered from 1."""


def show_all(
    exhibits: Iterable[Exhibit], keep: Keep
) -> tuple[tuple[Try, ...], tuple[Untried, ...]]:
    """The opinion on each run in turn, and what could not be shown."""
    tries: list[Try] = []
    left: Counter[tuple[str, str]] = Counter()
    wrong = 0
    for exhibit in exhibits:
        try:
            heard = exhibit.ask()
        except Untriable as error:
            left[f"runs of the kind {exhibit.kind}", str(error)] += 1
            continue
        opinion, ours, bundle = heard.opinion, None, ""
        is_wrong = (opinion.said is Said.PASS) != (exhibit.group is Group.RIGHT)
        if is_wrong and heard.run is not None:
            wrong += 1
            ours, bundle = keep(exhibit, heard, wrong)
        tries.append(
            Try(
                group=exhibit.group,
                kind=exhibit.kind,
                target=exhibit.target,
                sentence=exhibit.sentence,
                said=opinion.said,
                why=opinion.why if is_wrong else "",
                causes=opinion.causes if is_wrong else (),
                ours=ours,
                bundle=bundle,
            )
        )
    return tuple(tries), in_order(left)


def follows(type_name: str) -> bool:
    """True if a system keeps entities of the type by itself, so that no run writes one."""
    name = ".".join(type_name.split(".")[:2])
    return name.startswith(SCHEMA_OBJECT_PREFIXES) and name not in WRITTEN


def judged(run: Reference) -> Verdict | None:
    """The verdict of the run's contract; None where it does not fit the run."""
    try:
        return run.judged().verdict
    except StatediffError:
        return None


Show = Callable[[Reference], Heard]
_TRIED: Final = 4
"""Runs of a class that are tried for one that can be shown."""


def seeded(
    world: World, each: int, show: Show, others: Sequence[Reference] = ()
) -> Iterator[Exhibit]:
    """Harm of every class, `each` of each (0: all), then harmless twins; picked by the seed."""
    varying = frozenset[Place]().union(*(places(world.reference, other) for other in others))
    found: dict[str, list[Fault]] = {}
    for fault in seed_faults(world, HARMS):
        if follows(fault.target.partition(" ")[0]) or means_nothing(fault, world):
            continue
        if fault.unreachable:
            world.leave("harms that a rule of the database refuses", UNREACHABLE)
            continue
        if varying and places(world.reference, fault.mutant) <= varying:
            world.leave("harms", "other right runs differ from the right run there too")
            continue
        found.setdefault(class_of(fault), []).append(fault)
    for kind in sorted(found):
        heard: list[Heard] = []
        wanted = each or len(found[kind])
        tries = _TRIED * wanted
        for fault in world.rng.sample(found[kind], len(found[kind])):
            exhibit = _exhibit(kind, fault, world, partial(_kept, heard, show))
            if exhibit.group is Group.IN_TASK and judged(fault.mutant) is Verdict.MATCH:
                world.leave("values that the run wrote", "the contract leaves them open")
                continue
            yield exhibit
            tries -= 1
            if len(heard) == wanted or not tries:
                break
    twins: dict[str, list[Fault]] = {}
    for twin in seed_faults(world, HARMLESS):
        if twin.mutant is not world.reference and not twin.operator.startswith("other-day"):
            twins.setdefault(twin.operator, []).append(twin)
    for kind in sorted(twins):
        picked = world.rng.sample(twins[kind], len(twins[kind]))[: each or None]
        yield from (_exhibit(kind, twin, world, show) for twin in picked)


def _kept(heard: list[Heard], show: Show, run: Reference) -> Heard:
    heard.append(show(run))
    return heard[-1]


def _exhibit(kind: str, fault: Fault, world: World, show: Show) -> Exhibit:
    if fault.is_twin:
        group = Group.RIGHT
    elif kind in _BESIDE or (kind == "nested-change" and not _is_touched(fault, world)):
        group = Group.BESIDE
    else:
        group = Group.IN_TASK
    return Exhibit(
        group=group,
        kind=kind,
        target=fault.target,
        sentence=fault.sentence,
        ask=lambda: show(fault.mutant),
    )


def _is_touched(fault: Fault, world: World) -> bool:
    touched = {(one.type, one.key) for one in world.touched}
    return bool(touched & altered_entities(world.reference, fault.mutant))


Place = tuple[str, Key, str]
"""(table, key, column); of an entity that only one of two runs has, no column."""


def places(one: Reference, other: Reference) -> frozenset[Place]:
    """The places where the states after two runs of one task differ."""
    return frozenset(
        (change.type, change.key, column)
        for change in changes_of(one, other)
        for column in _columns(change)
    )


def _columns(change: SeededChange) -> Sequence[str]:
    if change.before is None or change.after is None:
        return ("",)
    return differs(change.before, change.after)
