"""Undo what a run did beyond its contract, in the system where it did it.

1. The bundle is replayed: what it says is what its evidence gives.
2. The plan is the inverse of every change that no clause explains, and of every one that is
   forbidden; what the contract explains stays. Each inverse is on the condition that its values are
   those that the run left.
3. Each system has its own words for the plan (`Participant.rewriting`): statements, refs that move,
   a copy of a folder. What they would do is read at the gate's own point, and has to be the plan:
   a trigger that does something beside is refused, and so is a row that somebody wrote since.
4. What is left of the run is judged once more, where the contract is of this system alone.

A change that has no exact inverse refuses the whole, with its reason: a value that the bundle does
not show, a place inside a document, structure, a row without a key.
"""

from __future__ import annotations

import contextlib
import secrets
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from statediff.contract.file import ContractFile
from statediff.errors import UsageError
from statediff.evidence.package import Bundle
from statediff.kernel import binding_error, contract_in, replay
from statediff.model.batches import Row
from statediff.model.codes import FindingCode, Stage, Truth
from statediff.model.delta import Delta, Entity, Op
from statediff.model.readings import Capture
from statediff.model.schema import COUNTERS, EntityType, Schema
from statediff.model.values import Key, Unobserved, key_order, same
from statediff.model.verdict import Decision, Judgement
from statediff.packs import known_sandbox
from statediff.workspace.inputs import refinements
from statediff_gate.course import Course, Prepared, Sides, alike, key_of, net
from statediff_gate.deciding import Deciding
from statediff_gate.journal import Journal
from statediff_gate.participant import Participant, Refused
from statediff_gate.statements import RowEdit, named
from statediff_gate.systems import open_participants


@dataclass(frozen=True)
class Inverse:
    """A change that is taken back."""

    delta: Delta
    why: str
    """The clause that it violates."""


def to_undo(judgement: Judgement) -> tuple[Inverse, ...]:
    """The changes that are not the contract's."""
    explained = {delta for delta, clauses in judgement.explained_by if clauses}
    codes = (FindingCode.FORBIDDEN_CHANGE, FindingCode.UNEXPLAINED_CHANGE)
    fails = [f for f in judgement.findings if f.truth is Truth.FAILS and f.code in codes]
    against = {delta: finding.clause for finding in fails for delta in finding.deltas}
    return tuple(
        Inverse(delta, against.get(delta.id, "frame"))
        for delta in judgement.deltas
        if delta.type != COUNTERS  # what an engine counts by itself goes on
        and (delta.id in against or delta.id not in explained)
    )


def plan(inverses: Sequence[Inverse], schema: Schema) -> list[RowEdit]:
    """The edits that take the changes back. `UsageError` names one that has no exact inverse."""
    fields: dict[tuple[str, Any], list[Delta]] = {}
    whole: dict[tuple[str, Any], RowEdit] = {}
    for each in inverses:
        delta = each.delta
        entity = schema.by_name.get(delta.type)
        if entity is None or delta.type.startswith("db."):
            raise UsageError(f"{delta.id}: a change of structure is not undone row by row")
        if entity.is_keyless:
            raise UsageError(f"{delta.id}: its row has no key")
        if delta.is_of_mark or delta.steps:
            raise UsageError(
                f"{delta.id}: a mark, or a place inside a value, has no inverse of its own"
            )
        if delta.op is Op.UPDATE:
            fields.setdefault((delta.type, key_order(delta.key)), []).append(delta)
            continue
        before, after = (
            side.as_row() if isinstance(side, Entity) else None
            for side in (delta.raw_before, delta.raw_after)
        )
        other = whole.get((delta.type, key_order(delta.key)))
        if other is not None:  # one row is gone, and another one of its key has come
            before, after = before or other.after, after or other.before
        one, two = before or {}, after or {}
        differing = tuple(n for n in one if n in two and not same(one[n], two[n]))
        whole[delta.type, key_order(delta.key)] = RowEdit(entity, after, before, differing)
    found = list(whole.values())
    found += [_update(schema.by_name[deltas[0].type], deltas) for deltas in fields.values()]
    for edit in found:
        for row in (edit.before, edit.after):
            if any(isinstance(value, Unobserved) for value in (row or {}).values()):
                raise UsageError(f"{edit.entity.name}: a value of the row is not known whole")
    return found


def _update(entity: EntityType, deltas: Sequence[Delta]) -> RowEdit:
    key: Key = deltas[0].key
    same = dict(zip(entity.key, key, strict=True))
    left = {**same, **{d.path: d.raw_after for d in deltas}}
    was = {**same, **{d.path: d.raw_before for d in deltas}}
    return RowEdit(entity, left, was, tuple(d.path for d in deltas))  # type: ignore[arg-type]  # fields of rows


def undo(
    system: Participant, judgement: Judgement, contract: ContractFile, name: str, *, is_plan: bool
) -> None:
    """Take back what is against the contract. Raises `Refused`, and then nothing is."""
    schema = system.world("before").state.schema
    edits = plan(to_undo(judgement), schema)
    system.begin(name)
    try:
        for text, values in system.rewriting(edits, schema):
            answer = system.run(text, values)
            if answer.touched not in (1, None):
                raise Refused(f"not as the run left it: {text} ({answer.touched} rows)")
        prepared = system.prepare()
        _require(prepared, edits, _allowed(judgement, schema))
        _require_right(system, prepared, judgement, contract)
        if not is_plan:
            system.commit()
    finally:
        system.abort()


def _places(edits: Sequence[RowEdit]) -> dict[tuple[str, Any], RowEdit]:
    return {(e.entity.name, key_order(key_of(e.entity, e.before or e.after or {}))): e
            for e in edits}  # fmt: skip


def _allowed(judgement: Judgement, schema: Schema) -> Sequence[RowEdit]:
    """The inverses of what is only allowed, which may go with what is taken back."""
    asked = {each.clause for each in judgement.findings if each.stage is Stage.REQUIRE}
    mine = {d for d, clauses in judgement.explained_by if clauses and asked.isdisjoint(clauses)}
    return plan(_exact((d for d in judgement.deltas if d.id in mine), schema), schema)


def _exact(deltas: Iterable[Delta], schema: Schema) -> list[Inverse]:
    """Those of the changes that have an inverse."""
    found = []
    for each in (Inverse(delta, "") for delta in deltas):
        with contextlib.suppress(UsageError):
            plan([each], schema)
            found.append(each)
    return found


def _require(prepared: Prepared, edits: Sequence[RowEdit], allowed: Sequence[RowEdit]) -> None:
    """The transaction does what is planned, and nothing beside it. Raises `Refused`.

    What the contract allows and does not ask for may go with it, such as the commits of a branch.
    """
    if prepared.doubt is not None:
        raise Refused(prepared.doubt)
    wanted, beside = _places(edits), _places(allowed)
    for name, sides in prepared.changes.items():
        if name == COUNTERS:
            continue
        entity = prepared.after.state.schema.by_name[name]
        gone = {key_order(key_of(entity, row)): row for row in sides.gone}
        come = {key_order(key_of(entity, row)): row for row in sides.come}
        for order in {**gone, **come}:
            edit = wanted.pop((name, order), None) or beside.get((name, order))
            if edit is None or not _is_done(edit, gone.get(order), come.get(order)):
                row = gone.get(order) or come.get(order) or {}
                raise Refused(
                    f"{named(entity, row)}: not as the run left it, or more than planned is done, "
                    "e.g. by a trigger"
                )
    if wanted:
        raise Refused("the statements do less than the plan")


def _require_right(
    system: Participant, prepared: Prepared, judgement: Judgement, contract: ContractFile
) -> None:
    """Require that what is left of the run is within the contract. Raises `Refused`.

    It is judged in the world without the run, where the contract is one of this system alone.
    """
    present = system.world("before").state
    course, changes = Course(system.name, present), dict[str, list[Sides]]()
    for edit in plan(_exact(judgement.deltas, present.schema), present.schema):
        now = course.row(edit.entity, key_of(edit.entity, edit.before or edit.after or {}))
        then = edit.after
        if now is not None and then is not None:
            then = {**now, **{name: then[name] for name in edit.fields}}
        changes.setdefault(edit.entity.name, []).append((now, then))
    by_name = present.schema.by_name
    state, _ = course.with_changes({name: net(by_name[name], c) for name, c in changes.items()})
    before, after = Capture((course.capture("before", state),)), Capture((prepared.after,))
    if binding_error(contract, before) is None:
        left = Deciding(contract).standing(before, after)
        if left.decision is Decision.DENY:
            raise Refused(f"what would be left is against the contract: {left.why}")


def _is_done(edit: RowEdit, gone: Row | None, come: Row | None) -> bool:
    if edit.before is None or edit.after is None:
        return alike(gone, edit.before) and alike(come, edit.after)
    if gone is None or come is None:
        return False
    wanted = {n: (edit.before[n], edit.after[n]) for n in edit.fields}
    return all(
        same(gone[n], old) and same(come[n], new)
        for n, (old, new) in {**{n: (v, v) for n, v in gone.items()}, **wanted}.items()
    )


@dataclass(frozen=True)
class UndoneRun:
    """The outcome of an undo."""

    inverses: tuple[Inverse, ...]
    is_done: bool
    why: str = ""
    """Why nothing was changed."""


def undo_run(
    bundle: Bundle, systems: Mapping[str, str], accounts: Mapping[str, str], *, is_plan: bool
) -> UndoneRun:
    """Take back what the run did beyond its contract, or only say what that would be."""
    if len(systems) != 1:
        raise UsageError("name the one system that is to be put right")
    judgement, contract = replay(bundle), contract_in(bundle.files)
    inverses = to_undo(judgement)
    if not inverses:
        return UndoneRun((), is_done=False, why="nothing that the run did is against its contract")
    [name] = systems
    refined = refinements(None, known_sandbox(contract))
    with tempfile.TemporaryDirectory(prefix="statediff-undo-") as folder:
        journal = Journal(Path(folder))
        [system] = open_participants(systems, accounts, refined, journal).values()
        try:
            name_of_it = journal.name(secrets.token_hex(8))
            undo(system, judgement, contract, name_of_it, is_plan=is_plan)
        except (Refused, UsageError) as error:
            return UndoneRun(inverses, is_done=False, why=f"{name}: {error}")
        finally:
            system.close()
    return UndoneRun(inverses, is_done=not is_plan)
