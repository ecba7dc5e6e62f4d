"""Undo what a run did beyond its contract, in the system where it did it.

1. The bundle is replayed: what it says is what its evidence gives.
2. The plan is the inverse of every change that no clause explains, and of every one that is
   forbidden; what the contract explains stays. Each inverse is on the condition that its values are
   those that the run left.
3. The statements run in one transaction of the system. What it would do is read at the gate's own
   point, and has to be the plan, no row more or less: a trigger that does something beside is
   refused, and so is a row that somebody wrote since.

A change that has no exact inverse refuses the whole, with its reason: a value that the bundle does
not show, a place inside a document, structure, a row without a key.
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from statediff.errors import UsageError
from statediff.evidence.package import Bundle
from statediff.kernel import contract_in, replay
from statediff.model.batches import Row
from statediff.model.codes import FindingCode, Truth
from statediff.model.delta import Delta, Entity, Op
from statediff.model.schema import COUNTERS, EntityType, Schema
from statediff.model.values import Key, key_order, same
from statediff.model.verdict import Judgement
from statediff.packs import known_sandbox
from statediff.workspace.inputs import refinements
from statediff_gate.course import alike, key_of
from statediff_gate.journal import Journal
from statediff_gate.participant import Participant, Prepared, Refused
from statediff_gate.statements import RowEdit, bound, statements
from statediff_gate.systems import open_participants


@dataclass(frozen=True)
class Inverse:
    """A change that is taken back."""

    delta: Delta
    why: str
    """The clause that it violates."""


def to_undo(bundle: Bundle) -> tuple[Inverse, ...]:
    """The changes that are not the contract's, by the judgement that the bundle replays to."""
    judgement = replay(bundle)
    explained = {delta for delta, clauses in judgement.explained_by if clauses}
    against = _against(judgement)
    found = []
    for delta in judgement.deltas:
        if delta.type == COUNTERS:
            continue  # what an engine counts by itself goes on
        if delta.id in against or delta.id not in explained:
            found.append(Inverse(delta, against.get(delta.id, "frame")))
    return tuple(found)


def _against(judgement: Judgement) -> dict[str, str]:
    """Delta → the clause of `forbid` or the frame that it violates."""
    codes = (FindingCode.FORBIDDEN_CHANGE, FindingCode.UNEXPLAINED_CHANGE)
    fails = [f for f in judgement.findings if f.truth is Truth.FAILS and f.code in codes]
    return {delta: finding.clause for finding in fails for delta in finding.deltas}


def plan(inverses: Sequence[Inverse], schema: Schema) -> list[RowEdit]:
    """The edits that take the changes back. `UsageError` names one that has no exact inverse."""
    fields: dict[tuple[str, Any], list[Delta]] = {}
    found: list[RowEdit] = []
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
        before, after = (_row(side) for side in (delta.raw_before, delta.raw_after))
        found.append(RowEdit(entity, after, before))
    found += [_update(schema.by_name[deltas[0].type], deltas) for deltas in fields.values()]
    for edit in found:
        for row in (edit.before, edit.after):
            for value in () if row is None else row.values():
                bound(value, "sqlite")  # a value that is not known whole is refused here
    return found


def _update(entity: EntityType, deltas: Sequence[Delta]) -> RowEdit:
    key: Key = deltas[0].key
    same = dict(zip(entity.key, key, strict=True))
    left = {**same, **{d.path: d.raw_after for d in deltas}}
    was = {**same, **{d.path: d.raw_before for d in deltas}}
    return RowEdit(entity, left, was, tuple(d.path for d in deltas))  # type: ignore[arg-type]  # fields of rows


def _row(side: Any) -> Any:
    return side.as_row() if isinstance(side, Entity) else None


def undo(system: Participant, edits: Sequence[RowEdit], dialect: str, name: str) -> Prepared:
    """The plan holds in the system. Raises `Refused` with the reason, and then nothing does."""
    schema = system.world("before").state.schema
    system.begin(name)
    try:
        for text, values in statements(edits, schema, dialect):
            answer = system.run(text, values)
            if answer.touched != 1:
                raise Refused(f"not as the run left it: {text} ({answer.touched} rows)")
        prepared = system.prepare()
        _require(prepared, edits)
        system.commit()
    except BaseException:
        system.abort()
        raise
    return prepared


def _require(prepared: Prepared, edits: Sequence[RowEdit]) -> None:
    """The transaction does what is planned, and nothing beside it. Raises `Refused`."""
    if prepared.doubt is not None:
        raise Refused(prepared.doubt)
    wanted = {
        (e.entity.name, key_order(key_of(e.entity, e.before or e.after or {}))): e for e in edits
    }
    done = 0
    for name, sides in prepared.changes.items():
        if name == COUNTERS:
            continue
        entity = prepared.after.state.schema.by_name[name]
        gone = {key_order(key_of(entity, row)): row for row in sides.gone}
        come = {key_order(key_of(entity, row)): row for row in sides.come}
        for order in {**gone, **come}:
            edit = wanted.get((name, order))
            if edit is None or not _is_done(edit, gone.get(order), come.get(order)):
                raise Refused(f"{name}: the statements do more than the plan, e.g. by a trigger")
            done += 1
    if done != len(edits):
        raise Refused("the statements do less than the plan")


def _is_done(edit: RowEdit, gone: Row | None, come: Row | None) -> bool:
    if edit.before is None or edit.after is None:
        return alike(gone, edit.before) and alike(come, edit.after)
    if gone is None or come is None:
        return False
    others = gone.keys() - {*edit.fields}
    return all(same(come[n], edit.after[n]) for n in edit.fields) and all(
        same(come[n], gone[n]) for n in others
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
    inverses = to_undo(bundle)
    if not inverses:
        return UndoneRun((), is_done=False, why="nothing that the run did is against its contract")
    [name] = systems
    refined = refinements(None, known_sandbox(contract_in(bundle.files)))
    with tempfile.TemporaryDirectory(prefix="statediff-undo-") as folder:
        journal = Journal(Path(folder))
        [system] = open_participants(systems, accounts, refined, journal).values()
        try:
            edits = plan(inverses, system.world("before").state.schema)
            if is_plan:
                return UndoneRun(inverses, is_done=False)
            dialect = "" if system.product is None else system.product[1]
            undo(system, edits, dialect, journal.name(secrets.token_hex(8)))
        except (Refused, UsageError) as error:
            return UndoneRun(inverses, is_done=False, why=f"{name}: {error}")
        finally:
            system.close()
    return UndoneRun(inverses, is_done=True)
