"""The clause that would close a hole: from what surviving faults changed, as YAML to read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from statediff.model.delta import Delta, Op
from statediff.model.values import is_value, show
from statediff.model.verdict import Judgement


@dataclass(frozen=True)
class Closing:
    """A proposal: what to do, in words, and the clause; `sets` are fields with their values."""

    advice: str
    id: str
    head: str
    """Operation and type, e.g. `create: refund`."""
    sets: tuple[tuple[str, str], ...] = ()
    fields: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"# {self.advice}", f"- id: {self.id}", f"  {self.head}"]
        if self.fields:
            lines.append(f"  fields: [{', '.join(self.fields)}]")
        if self.sets:
            lines.append("  set:")
            lines += [f"    {name}: {value}" for name, value in self.sets]
        return "\n".join(lines)


def merged(closings: Iterable[Closing | None]) -> str:
    """The proposals as YAML, those for one clause together; empty where there are none."""
    found: dict[tuple[str, str], Closing] = {}
    for one in closings:
        if one is not None:
            known = found.get((one.id, one.head))
            sets = dict(one.sets) | dict(known.sets if known else ())
            found[one.id, one.head] = replace(one, sets=tuple(sorted(sets.items())))
    return "\n".join(str(one) for one in found.values())


def closing_clause(old: Judgement, new: Judgement | None) -> Closing | None:
    """A proposal in words of the contract; None where the difference is in no delta."""
    if new is None:
        return None
    known = {delta.id: delta for delta in old.deltas}
    explained = {**dict(old.explained_by), **dict(new.explained_by)}
    for delta in new.deltas:
        right = known.get(delta.id)
        if right == delta:
            continue
        by = explained.get(delta.id, ())
        if right is not None and delta.op is Op.CREATE:
            return _pinned(delta, _filled(delta, right), by)
        if delta.op is Op.UPDATE:
            wanted = delta.before if right is None else right.after
            return _pinned(delta, ((delta.path, _literal(wanted)),), by)
        return _bounded(delta, by)
    kept = {delta.id for delta in new.deltas}
    gone = next((delta for delta in old.deltas if delta.id not in kept), None)
    return None if gone is None else _needed(gone)


def _bounded(delta: Delta, by: tuple[str, ...]) -> Closing:
    advice = f"{by[0]} explains it: bound its `where`, or give it a `count`" if by else "forbid it"
    return Closing(advice, f"no-other-{_name(delta)}", f"{delta.op.value}: {delta.type}")


def _pinned(delta: Delta, sets: tuple[tuple[str, str], ...], by: tuple[str, ...]) -> Closing:
    named = by[0] if by else f"right-{_name(delta)}"
    head = f"{delta.op.value}: {delta.type}"
    return Closing(f"in {named}: say which value is right", named, head, sets)


def _filled(delta: Delta, right: Delta) -> tuple[tuple[str, str], ...]:
    one, two = (dict(getattr(d.after, "fields", ())) for d in (delta, right))
    return tuple((name, _literal(two.get(name))) for name in one if one[name] != two.get(name))


def _needed(delta: Delta) -> Closing:
    fields = (delta.path,) if delta.path else ()
    head = f"{delta.op.value}: {delta.type}"
    return Closing("require what may now be missing", f"needs-{_name(delta)}", head, fields=fields)


def _name(delta: Delta) -> str:
    return delta.type.replace(".", "-").replace("_", "-")


def _literal(value: object) -> str:
    return show(value, limit=80) if is_value(value) else "…"  # type: ignore[arg-type]  # a value, just asked
