"""The clause that would close a hole: from what a surviving fault changed, as YAML to read."""

from __future__ import annotations

from statediff.model.delta import Delta, Op
from statediff.model.values import is_value, show
from statediff.model.verdict import Judgement


def closing_clause(old: Judgement, new: Judgement | None) -> str:
    """A proposal in words of the contract; empty where the difference is in no delta."""
    if new is None:
        return ""
    known = {delta.id: delta for delta in old.deltas}
    fresh = [d for d in new.deltas if known.get(d.id) != d]
    gone = [d for d in old.deltas if d.id not in {e.id for e in new.deltas}]
    explained = {**dict(old.explained_by), **dict(new.explained_by)}
    for delta in fresh:
        if delta.id not in known and delta.op in (Op.CREATE, Op.DELETE, Op.LINK, Op.UNLINK):
            return _bounded(delta, explained.get(delta.id, ()))
        if delta.op is Op.UPDATE:
            return _pinned(delta, known.get(delta.id, delta), explained.get(delta.id, ()))
        if delta.op is Op.CREATE:
            return _filled(delta, known[delta.id], explained.get(delta.id, ()))
    return _needed(gone[0]) if gone else ""


def _bounded(delta: Delta, by: tuple[str, ...]) -> str:
    clause = f"{by[0]} explains it: bound its `where`, or give it a `count:`" if by else "forbid it"
    return f"# {clause}\n- {{id: no-other-{_name(delta)}, {delta.op.value}: {delta.type}}}"


def _pinned(delta: Delta, right: Delta, by: tuple[str, ...]) -> str:
    named = by[0] if by else f"{_name(delta)}-{delta.path}"
    wanted = _literal(right.after)
    return (
        f"# in {named}: say which value is right\n"
        f"- id: {named}\n  update: {delta.type}\n  set: {{{delta.path}: {wanted}}}"
    )


def _filled(delta: Delta, right: Delta, by: tuple[str, ...]) -> str:
    one = dict(getattr(delta.after, "fields", ()))
    two = dict(getattr(right.after, "fields", ()))
    names = [name for name in one if one[name] != two.get(name)]
    named = by[0] if by else f"new-{_name(delta)}"
    sets = ", ".join(f"{name}: {_literal(two.get(name))}" for name in names)
    return (
        f"# in {named}: say which value is right\n"
        f"- id: {named}\n  create: {delta.type}\n  set: {{{sets}}}"
    )


def _needed(delta: Delta) -> str:
    path = f"\n  fields: [{delta.path}]" if delta.path else ""
    return (
        f"# require what may now be missing\n- id: needs-{_name(delta)}\n"
        f"  {delta.op.value}: {delta.type}{path}"
    )


def _name(delta: Delta) -> str:
    return delta.type.replace(".", "-").replace("_", "-")


def _literal(value: object) -> str:
    return show(value, limit=80) if is_value(value) else "…"  # type: ignore[arg-type]  # a value, just asked
