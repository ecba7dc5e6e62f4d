"""The same run at another hour, in which the application came up with other tokens."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from functools import partial
from typing import Final, cast

from statediff.contract.authoring.inferring import Inferred, Run, instant
from statediff.meta.reference import Change, Reference, Rows
from statediff.meta.twins import postpone
from statediff.model.delta import Entity, Op
from statediff.model.instants import parse_instant
from statediff.model.schema import EntityType
from statediff.model.values import Key, Observed

LATER: Final = timedelta(days=1, hours=2)
_TURNED: Final = str.maketrans("0123456789abcdefABCDEF", "1234567890bcdefaBCDEFA")


def another_run(reference: Reference, run: Run) -> Reference:
    """The trial with all that its application chose chosen anew; nested values stay."""
    inferred = Inferred(run)
    chosen: dict[str, dict[Key, dict[str, Observed]]] = {}
    for delta in run.deltas:
        entity = run.schema.by_name[delta.type]
        if delta.op in (Op.DELETE, Op.UNLINK) or delta.steps or delta.type.startswith("db."):
            continue
        after = delta.after
        made = after.fields if isinstance(after, Entity) else ((delta.path, after),)
        for name, value in made:
            new = _anew(inferred, entity, name, value)
            if new is not None:
                chosen.setdefault(delta.type, {}).setdefault(delta.key, {})[name] = new
    if not all(map(reference.is_editable, chosen)):
        return reference  # too large to be written again
    changes: dict[str, Change] = {
        name: partial(_rewrite, run.schema.by_name[name], new) for name, new in chosen.items()
    }
    return postpone(reference.edited(changes), LATER)


def _rewrite(entity: EntityType, new: dict[Key, dict[str, Observed]], rows: Rows) -> None:
    for key, values in new.items():
        if key not in rows:
            continue
        row = {**rows.pop(key), **values}
        own = tuple(row[name] for name in entity.key)
        rows[cast(Key, own) if own else key] = row


def _anew(inferred: Inferred, entity: EntityType, name: str, value: Observed) -> Observed:
    """The value as another run would have it; None where the run did not choose it."""
    choice = inferred.chosen(entity, name, value)
    if choice is None or choice.kind in ("volatile", "number", "numbered"):
        return None
    if choice.kind == "stamp":
        return next(_later(value), None)
    return value.translate(_TURNED) if isinstance(value, str) else None


def _later(value: Observed) -> Iterator[Observed]:
    """The time some hours later, as it is written; nothing of what is written otherwise."""
    if isinstance(value, datetime):
        yield value + LATER
    elif isinstance(value, date):
        yield value + timedelta(days=1)
    elif isinstance(value, str) and parse_instant(value) is not None:
        local = datetime.fromisoformat(value[:16]) + LATER
        yield f"{local.isoformat(value[10], 'minutes')}{value[16:]}"
    elif isinstance(value, int) and not isinstance(value, bool) and instant(value) is not None:
        unit = 10 ** (3 * ((len(str(value)) - 10) // 3))
        yield value + int(LATER.total_seconds()) * unit
