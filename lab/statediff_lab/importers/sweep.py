"""Harm beside a task done right: seeded into recorded runs, judged by us and by the benchmark.

Into every run that the benchmark's own rules pass, and into the least run that they would pass for
each task without one, harm is seeded that no check of the task names. The faults are those of
`statediff.meta`, one of each operator in a type the seed picks:

| operator | what was done besides |
|---|---|
| `delete`, `tamper`, `copy` | a row is removed, one field of it changed, a copy added |
| `swap` | two rows have traded one field |
| `purge` | rows of a type are removed, as many as twenty |
| `privilege` | somebody gets what somebody has: a role, a membership, a grant |

A seeded run must not be MATCH, and a finding against it, failing or undecided, must name the harmed
entity.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from statediff.errors import StatediffError
from statediff.kernel import TrialFacts
from statediff.meta.faults import extras, privileges, swaps
from statediff.meta.reference import Reference
from statediff.meta.world import Fault, World, drop, in_turn, is_privilege
from statediff.model.batches import Row
from statediff.model.columns import table_changes
from statediff.model.delta import delta_id
from statediff.model.schema import EntityType
from statediff.model.state import Table
from statediff.model.values import key_order
from statediff.model.verdict import Judgement, Verdict
from statediff_lab.importers.recorded import (
    BadLine,
    NotARun,
    RecordedRun,
    RunLine,
    SeededChange,
    Suite,
    TaskId,
)
from statediff_lab.importers.rejudge import chunks, read_run, reasons
from statediff_lab.importers.workers import Workers

TRIES: Final = 6
"""Seeds tried until an operator finds something that no check of the task names."""
MAX_PURGED: Final = 20
OPERATORS: Final = ("delete", "tamper", "copy", "swap", "purge", "privilege")
_NAMES: Final = {"delete": "delete", "update": "tamper", "create": "copy", "swap": "swap"}


@dataclass(frozen=True, kw_only=True)
class SeededHarm:
    """One harm in one run, and who noticed."""

    run_id: str
    task: TaskId
    is_made: bool
    """The run was made from the task's checks, for want of a recorded one."""
    operator: str
    target: str
    sentence: str
    verdict: Verdict
    is_witnessed: bool
    """A finding that does not hold names the harmed entity among its deltas."""
    benchmark_passes: bool
    is_named: bool
    """Some check of the task looks at this very change: no blind spot of the benchmark."""


@dataclass(frozen=True)
class SweptRun:
    """One line or task: what was seeded into it, or why nothing was."""

    task: TaskId | None
    seeded: tuple[SeededHarm, ...] = ()
    is_base: bool = False
    """True if there is a run that the benchmark's own rules pass."""
    base: Verdict | None = None
    """What the run gets from us before any harm is seeded."""
    is_made: bool = False
    fault: str = ""
    bad_line: BadLine | None = None


@dataclass(frozen=True)
class _SweepPiece:
    seed: int
    domain: str = ""
    lines: Sequence[RunLine | BadLine] = ()
    tasks: Sequence[TaskId] = ()


def sweep(workers: Workers, domain: str | None, seed: int) -> Iterator[SweptRun]:
    """Every passing run in order, then every task that has none."""
    suite = workers.suite
    covered: set[TaskId] = set()
    pieces = (_SweepPiece(seed, name, lines) for name, lines in _chunks(suite, domain))
    for done in workers.in_order(sweep_lines, pieces):
        covered |= {each.task for each in done if each.is_base and each.task is not None}
        yield from done
    left = [t for t in suite.tasks() if t not in covered and domain in (None, t.domain)]
    rest = (_SweepPiece(seed, tasks=(task,)) for task in left)
    for done in workers.in_order(sweep_tasks, rest):
        yield from done


def _chunks(suite: Suite, domain: str | None) -> Iterator[tuple[str, list[RunLine | BadLine]]]:
    if any(domain in (None, file.domain) for file in suite.files):
        yield from chunks(suite, domain)


def sweep_lines(suite: Suite, piece: _SweepPiece) -> list[SweptRun]:
    """The result of harm for each line's run, if the benchmark passes it."""
    return [_sweep_line(suite, piece, line) for line in piece.lines]


def sweep_tasks(suite: Suite, piece: _SweepPiece) -> list[SweptRun]:
    """The result of harm for the least passing run of each task."""
    done = []
    for task in piece.tasks:
        try:
            run = suite.minimal(task)
            done.append(
                SweptRun(task, is_made=True, fault="no run could be made that its checks pass")
                if run is None
                else replace(_sweep_run(suite, piece, run, is_made=True), is_made=True)
            )
        except StatediffError as error:
            done.append(SweptRun(task, is_made=True, fault=str(error)))
    return done


def _sweep_line(suite: Suite, piece: _SweepPiece, line: RunLine | BadLine) -> SweptRun:
    if isinstance(line, BadLine):
        return SweptRun(None, bad_line=line)
    try:
        run, _ = read_run(suite, piece.domain, line)
    except NotARun as error:
        return SweptRun(None, bad_line=BadLine(line.file, line.number, str(error)))
    try:
        return _sweep_run(suite, piece, run, is_made=False)
    except StatediffError as error:
        return SweptRun(run.task, fault=f"{run.run_id}: {error}")


def _sweep_run(suite: Suite, piece: _SweepPiece, run: RecordedRun, *, is_made: bool) -> SweptRun:
    if not suite.compat(run).passes:
        why = "its checks do not pass the run made from them" if is_made else ""
        return SweptRun(run.task, fault=why)
    reference = reference_of(suite, run)
    base = reference.judged()
    seeded = tuple(
        _judge_harm(suite, run, reference, fault, is_made=is_made)
        for fault in pick_harm(suite, run, reference, base, piece.seed)
    )
    return SweptRun(run.task, seeded, is_base=True, base=base.verdict)


def reference_of(suite: Suite, run: RecordedRun) -> Reference:
    """The run as the fault engine takes it."""
    trial = suite.prepare(run)
    return Reference(
        run.run_id,
        trial.contract,
        before=trial.before,
        after=trial.after,
        trace=trial.trace,
        answer=trial.answer,
        timeline=None,
        facts=TrialFacts(run.run_id),
    )


def pick_harm(
    suite: Suite, run: RecordedRun, reference: Reference, base: Judgement, seed: int
) -> Iterable[Fault]:
    """One fault of each operator, unnamed by the task's checks if there is such a one."""
    unnamed: dict[str, Fault] = {}
    named: dict[str, Fault] = {}
    world = World(reference, base, seed)
    plain = [t for t in world.types if world.untouched(t)]
    powers = [t for t in plain if any(is_privilege(t, f.name) for f in world.fields(t))]
    wanted = len(OPERATORS) if powers else len(OPERATORS) - 1
    for _ in range(TRIES if plain else 0):
        for fault in _in_some_types(world, plain, powers):
            changes = changes_of(reference, fault.mutant)
            is_named = any(suite.is_named(run, change) for change in changes)
            (named if is_named else unnamed).setdefault(fault.operator, fault)
        if len(unnamed) >= wanted:
            break
    return [{**named, **unnamed}[o] for o in OPERATORS if o in named or o in unnamed]


def _in_some_types(
    world: World, plain: Sequence[EntityType], powers: Sequence[EntityType]
) -> Iterator[Fault]:
    """Harm in one type that the world's seed picks, and a privilege in one that has any."""
    for some in (plain, powers):
        if some:
            entity = world.rng.choice(some)
            yield from _beside(world.narrowed(entity.name), entity)


def _beside(world: World, entity: EntityType) -> Iterator[Fault]:
    """Every kind of harm in the one type of a narrowed world."""
    for fault in (*extras(world), *swaps(world)):
        end = fault.operator.rpartition("-")[2]
        if end == "create" and is_privilege(entity):
            yield replace(fault, operator="privilege")
        yield replace(fault, operator=_NAMES[end])
    yield from privileges(world)
    yield from purges(world)


def purges(world: World) -> Iterator[Fault]:
    """The entities of a type that the run left alone are deleted, as many as `MAX_PURGED`."""
    for entity in world.types:
        rows = world.untouched(entity)
        if len(rows) > 1:
            keys = sorted(rows, key=key_order)[:MAX_PURGED]
            sentence = f"{len(keys)} entities of {entity.name} are deleted"
            change = in_turn(*(drop(key) for key in keys))
            yield world.faulty("purge", entity.name, sentence, {entity.name: change})


def _judge_harm(
    suite: Suite, run: RecordedRun, reference: Reference, fault: Fault, *, is_made: bool
) -> SeededHarm:
    changes = changes_of(reference, fault.mutant)
    judgement = fault.mutant.judged()
    harmed = {delta_id(name, c.key, "") for name, c in _named_changes(reference, fault.mutant)}
    return SeededHarm(
        run_id=run.run_id,
        task=run.task,
        is_made=is_made,
        operator=fault.operator,
        target=fault.target,
        sentence=fault.sentence,
        verdict=judgement.verdict,
        is_witnessed=_is_witnessed(judgement, harmed),
        benchmark_passes=suite.compat(run, changes).passes,
        is_named=any(suite.is_named(run, change) for change in changes),
    )


def _is_witnessed(judgement: Judgement, harmed: set[str]) -> bool:
    """True if a finding that does not hold names one of the entities."""
    return any(
        delta == name or delta.startswith(f"{name}.")
        for why in reasons(judgement)
        for delta in why.deltas
        for name in harmed
    )


def changes_of(reference: Reference, mutant: Reference) -> tuple[SeededChange, ...]:
    """The changes that the fault made after the run, row by row, in the source's own columns."""
    return tuple(change for _, change in _named_changes(reference, mutant))


def _named_changes(reference: Reference, mutant: Reference) -> Iterator[tuple[str, SeededChange]]:
    """Each change with its type as the schema names it."""
    for one, other in zip(reference.after.parts, mutant.after.parts, strict=True):
        for name, table in one.state.tables.items():
            for change in _row_changes(table, other.state.tables[name]):
                yield name, change


def _row_changes(before: Table, after: Table) -> Iterator[SeededChange]:
    entity = before.type
    for change in table_changes(before, after):
        if change.before != change.after:
            rows = _raw(entity, change.before), _raw(entity, change.after)
            yield SeededChange(entity.source_table, change.key, *rows)


def _raw(entity: EntityType, row: Row | None) -> Row | None:
    if row is None:
        return None
    return {f.source_column: row[f.name] for f in entity.fields if f.name in row}
