"""The changes of right runs, as clauses that ask for exactly these of every further run.

A value is pinned where the next right run has to write it again: it is the same in all runs, and no
application chose it. What an application chooses, and what differs, is described by a condition
(`describing`), and what the application keeps by a formula. Changes that say the same of several
entities are one clause with a count. What runs did beside the task is allowed, within the same
bounds and up to a number.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import Final

from statediff.contract.authoring.aligning import COME, GONE, Change, Member, is_own_key
from statediff.contract.authoring.describing import Cell, Difference, Saying
from statediff.contract.authoring.inferring import Formula, Place
from statediff.contract.authoring.literals import expression, path_key
from statediff.contract.language.written import name_text
from statediff.contract.lint.wording import ONE_EXAMPLE
from statediff.model.delta import Delta, Entity, Op
from statediff.model.paths import Steps
from statediff.model.schema import COUNTERS, EntityType, Kind, Schema
from statediff.model.values import ABSENT, Key, Observed

MAX_KEYS: Final = 200
MANY: Final = 10
"""How often what runs did beside the task may happen, at least."""
_RAISED: Final = "(it.value == null or new.value > it.value)"
_WORDS: Final = {Op.CREATE: "new", Op.UPDATE: "changed", Op.DELETE: "gone"}


@dataclass(frozen=True)
class Said:
    """The content of a clause about one entity, but for its key."""

    op: Op
    type: str
    pins: tuple[tuple[str, str], ...] = ()
    """(path, the value as YAML)."""
    conditions: tuple[str, ...] = ()
    free: tuple[str, ...] = ()
    """Places that changed and of which no value can be written."""


@dataclass(frozen=True)
class Clause:
    """One clause of a draft: its section, its id, and its lines below that."""

    section: str
    id: str
    lines: tuple[str, ...]
    changes: tuple[Change, ...] = ()
    open: tuple[Difference, ...] = ()
    """The differences between the runs."""
    idle: tuple[str, ...] = ()
    """Fields that every right run left empty, at zero or at a mark without a letter."""

    @property
    def text(self) -> str:
        return "\n".join((f"  - id: {self.id}", *self.lines))


def clauses(
    changes: Iterable[Change],
    schema: Schema,
    kept: Container[Place] = (),
    free: Container[str] = (),
) -> Iterator[Clause]:
    """The clauses, each change in one of them; `kept` fields have formulas, `free` no bound."""
    groups: dict[tuple[Said, object], list[tuple[Change, Saying | None]]] = {}
    for change in changes:
        said, saying = _said(change, schema.by_name[change.type], kept, free)
        own = None if change.is_common or change.type == COUNTERS else change.keys
        groups.setdefault((said, own), []).append((change, saying))
    ids: set[str] = set()
    for (said, _), held in groups.items():
        entity = schema.by_name[said.type]
        first = held[0][0]
        word = _WORDS.get(said.op, said.op.value + "ed")
        base = f"{'' if first.is_common else 'may-'}{word}-{_slug(said.type)}"
        names = chain([base], (f"{base}-{number}" for number in count(2)))
        made = next(name for name in names if name not in ids)
        ids.add(made)
        head = f"    {said.op.value}: {path_key(said.type)}"
        also = sum(len(other) for (one, _), other in groups.items() if _may_be(one, said))
        lines = (head, *_body(said, entity, [change for change, _ in held], also))
        open_ = tuple(d for _, saying in held[:1] if saying for d in saying.open)
        section = "require" if first.is_common else "allow"
        left = tuple(p for p, value in said.pins if said.op is Op.CREATE and _is_default(value))
        yield Clause(section, made, lines, tuple(change for change, _ in held), open_, left)


def derivations(formulas: Mapping[Place, Formula]) -> Iterator[str]:
    """The lines of the fields that the application keeps, each with its formula."""
    for (name, path), formula in sorted(formulas.items()):
        yield f"  - id: kept-{_slug(name)}-{_slug(path)}"
        yield f"    field: {path_key(f'{name}.{path}')}"
        yield "    is: >-"
        yield f"      {formula.expression}"
        yield "    because: it was so in every row, before and after the run"


def _said(
    change: Change, entity: EntityType, kept: Container[Place], free: Container[str]
) -> tuple[Said, Saying | None]:
    """The content of a clause about the change, and how that was found."""
    deltas = [delta for member in change.members for delta in member.deltas]
    if change.type == COUNTERS and all(map(_is_raise, deltas)):
        # Its numbers have gaps: what was rolled back, or was there already, took one too.
        is_text = any(type(delta.after) is str for delta in deltas)
        raised = "new.value != it.value" if is_text else _RAISED
        return Said(change.op, change.type, conditions=(raised,), free=("value",)), None
    saying = Saying(entity, change, free)
    places: dict[tuple[str, Steps], list[Cell]] = {}
    for member in change.members:
        for name, steps, value in _places(member, entity, kept):
            places.setdefault((name, steps), []).append(Cell(member, value))
    for (name, steps), cells in places.items():
        saying.add(name, steps, cells)
    known = {path for path, _ in saying.pins}
    free = () if change.op is not Op.UPDATE else tuple(p for p in saying.places if p not in known)
    guards = saying.texts if saying.inner and change.op in COME else []
    conditions = (*guards, *saying.conditions, *saying.inner)
    return Said(change.op, change.type, tuple(saying.pins), conditions, free), saying


def _is_default(value: str) -> bool:
    """True if YAML of the value has no letter in it but for those of null and false."""
    return value in ("null", "false") or not re.search(r"[^\W\d_]|[1-9]", value)


def _is_raise(delta: Delta) -> bool:
    """True if a counter counted on."""
    was, now = delta.before, delta.after
    if delta.op is not Op.UPDATE or delta.path != "value":
        return False
    if isinstance(was, str) and isinstance(now, str):  # some servers say their numbers as texts
        return was.isdecimal() and now.isdecimal() and int(was) < int(now)
    return type(now) is int and (was is None or (type(was) is int and was < now))


def _places(
    member: Member, entity: EntityType, kept: Container[Place]
) -> Iterator[tuple[str, Steps, Observed]]:
    """The places of which something is said, each with its value after.

    A whole value where a place in it is gone: absence cannot be written, nor a digest of bytes.
    """
    if member.op is not Op.UPDATE:
        yield from ((name, (), value) for name, value in _fields(entity, member, kept))
        return
    whole: set[str] = set()
    for delta in member.deltas:
        is_digest = bool(delta.steps) and entity.by_name[delta.path].kind is Kind.BYTES
        is_gone = delta.after is ABSENT and bool(delta.steps)
        if (is_gone or is_digest) and delta.path not in whole:
            whole.add(delta.path)
            row = member.of.run.after.tables[entity.name].row(member.key)
            yield delta.path, (), ABSENT if row is None else row.get(delta.path, ABSENT)
    for delta in member.deltas:
        if delta.path not in whole and not isinstance(delta.after, Entity):
            yield delta.path, delta.steps, delta.after


def _fields(
    entity: EntityType, member: Member, kept: Container[Place]
) -> Iterator[tuple[str, Observed]]:
    """The conditions on an entity that came or, where it has no key, went."""
    if member.op in GONE and not entity.is_keyless:
        return
    for name, value in member.row.items():
        if (entity.name, name) not in kept and not is_own_key(entity, name, value):
            yield name, value


def _reason(said: Said, changes: Sequence[Change]) -> str:
    """Why what runs did beside the task may happen."""
    if changes[0].is_idle:
        return "an idle run does it too"
    if said.type == COUNTERS:
        return "it counts rows that come"
    runs = {member.of.number for change in changes for member in change.members}
    return ONE_EXAMPLE if len(runs) == 1 else "some of the right runs did it, not all"


def _may_be(one: Said, other: Said) -> bool:
    """True if new rows of the one clause may match the other as well."""
    is_alike = one.type == other.type and one.op is other.op and one.op in COME
    of_one, of_other = map(_names, (one, other))
    is_told = any(of_one[place] != of_other[place] for place in of_one.keys() & of_other.keys())
    return is_alike and one is not other and not is_told and {*one.pins} >= {*other.pins}


def _names(said: Said) -> dict[str, str]:
    """The condition on the one new row that each reference is to, by all of it but the name."""
    told = (c for c in said.conditions if c.startswith("any(c") and " and c." in c)
    return {each.rpartition(" == ")[0]: each for each in told}


def _body(
    said: Said, entity: EntityType, changes: Sequence[Change], also: int = 0
) -> Iterator[str]:
    """The lines below the head; so many rows of other clauses may match it, too."""
    conditions = list(said.conditions)
    first = changes[0]
    keys = list(dict.fromkeys(key for change in changes for key in change.keys))
    is_any = not first.is_common and len(keys) > 1 and said.type != COUNTERS
    where = "" if said.op in COME or is_any else _where(entity, keys)
    pins, is_named = list(said.pins), bool(where)
    if said.op in COME or (said.op in GONE and entity.is_keyless):
        where, conditions = " and ".join(conditions), []
    if where:
        yield "    where: >-"
        yield f"      {where}"
    if said.free:
        places = [*(path for path, _ in pins), *said.free]
        yield f"    fields: [{', '.join(map(path_key, places))}]"
    if pins:
        yield "    from:" if said.op in GONE else "    set:"
        yield from (f"      {path_key(path)}: {value}" for path, value in pins)
    if conditions:
        yield "    that: >-"
        yield f"      {' and '.join(conditions)}"
    if not first.is_common:
        most = sum(change.most for change in changes)
        yield f"    count: {{max: {most if is_named else max(MANY, 3 * most)}}}"
        yield f"    because: {_reason(said, changes)}"
    elif also:
        yield f"    count: {{min: {len(changes)}, max: {len(changes) + also}}}"
    elif len(changes) > 1:
        yield f"    count: {len(changes)}"


def _where(entity: EntityType, keys: list[Key]) -> str:
    """Which entities are meant, by their keys; empty where these cannot be written."""
    if not entity.key or len(keys) > MAX_KEYS:
        return ""
    literals = [[expression(part) for part in key] for key in keys]
    if any(part is None for key in literals for part in key):
        return ""
    fields = [f"it.{name_text(name)}" for name in entity.key]
    if len(fields) == 1 and len(keys) > 1:
        return f"{fields[0]} in [{', '.join(str(key[0]) for key in literals)}]"
    whole = [
        " and ".join(f"{field} == {part}" for field, part in zip(fields, key, strict=True))
        for key in literals
    ]
    return whole[0] if len(whole) == 1 else " or ".join(f"({each})" for each in whole)


def _slug(name: str) -> str:
    """A name as a part of an id."""
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-") or "x"
