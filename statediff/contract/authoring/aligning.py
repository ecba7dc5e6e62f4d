"""Which changes of several right runs are one and the same, and which are beside the task.

1. A change of an entity that was there is the same in another run where the key is. An entity that
   came is paired by what it says: first those that say the same, then the most alike.
2. What every right run did is *common*. What some did, and what an idle run did (nobody acted, or
   somebody only looked), is *incidental*: a contract lets it happen, within bounds.
3. Where the runs made different numbers of a type's rows, only rows that say the same are common.

One right run is the case n = 1: all that it did, and no idle run did, is common.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from statediff.contract.authoring.inferring import Inferred, random_form
from statediff.model.delta import Delta, Entity, Op
from statediff.model.schema import COUNTERS, EntityType
from statediff.model.values import Key, Observed, key_order

COME: Final = (Op.CREATE, Op.LINK)
GONE: Final = (Op.DELETE, Op.UNLINK)
MOST_COMPARED: Final = 200
"""Rows of one type that are compared one by one; of more, what differs is paired in key order."""


@dataclass(frozen=True)
class Member:
    """The changes of one run to one entity."""

    of: Inferred
    op: Op
    type: str
    key: Key
    deltas: tuple[Delta, ...]

    @property
    def row(self) -> dict[str, Observed]:
        """The entity as it came or went; empty of one that changed."""
        side = self.deltas[0].before if self.op in GONE else self.deltas[0].after
        return side.as_row() if isinstance(side, Entity) else {}

    @property
    def fields(self) -> frozenset[str]:
        """The fields that an update changed."""
        return frozenset(delta.path for delta in self.deltas if delta.path)


@dataclass(frozen=True)
class Change:
    """A change that the runs share: in each its own member."""

    members: tuple[Member, ...]
    is_common: bool = True
    is_idle: bool = False
    """True if a run did so in which nobody did the task."""
    most: int = 1
    """How many there were in one run; of incidental changes."""

    @property
    def op(self) -> Op:
        return self.members[0].op

    @property
    def type(self) -> str:
        return self.members[0].type

    @property
    def keys(self) -> tuple[Key, ...]:
        return tuple(dict.fromkeys(member.key for member in self.members))


def align(
    right: Sequence[Inferred], idle: Sequence[Inferred] = (), kept: Iterable[tuple[str, str]] = ()
) -> Iterator[Change]:
    """Every change of the right runs, and of the idle ones; but those of `kept` fields.

    Counters follow the rows, and are incidental wherever something else is common.
    """
    found = list(_aligned(right, idle, frozenset(kept)))
    is_all = all(change.type == COUNTERS for change in found if change.is_common)
    for change in found:
        is_counter = change.type == COUNTERS and change.op is Op.UPDATE and not is_all
        yield replace(change, is_common=False) if is_counter else change


def _aligned(
    right: Sequence[Inferred], idle: Sequence[Inferred], aside: frozenset[tuple[str, str]]
) -> Iterator[Change]:
    runs, looks = ([_members(of, aside) for of in each] for each in (right, idle))
    looked = [member for run in looks for member in run]
    groups: dict[tuple[Op, str], list[list[Member]]] = {}
    bag: list[Member] = []
    for number, run in enumerate(runs):
        for member in run:
            for part in _parted(member, looked, bag):
                kind = groups.setdefault((part.op, part.type), [[] for _ in runs])
                kind[number].append(part)
    idled = {(member.op, member.type) for member in looked}
    for which, by_run in groups.items():
        yield from _paired(by_run, bag, is_idled=which in idled)
    yield from _incidental(bag, looked)


def _members(of: Inferred, kept: frozenset[tuple[str, str]]) -> list[Member]:
    changed: dict[tuple[Op, str, Key], list[Delta]] = {}
    for delta in of.run.deltas:
        if delta.op is not Op.UPDATE or (delta.type, delta.path) not in kept:
            changed.setdefault((delta.op, delta.type, delta.key), []).append(delta)
    return [Member(of, *which, tuple(deltas)) for which, deltas in changed.items()]


def _parted(member: Member, looked: Sequence[Member], bag: list[Member]) -> Iterator[Member]:
    """The rest of it without the changes of idle runs, which go into the bag."""
    alike = [one for one in looked if (one.op, one.type) == (member.op, member.type)]
    if member.op is Op.UPDATE:
        known = {f for one in alike if one.key == member.key for f in one.fields}
        idle = tuple(delta for delta in member.deltas if delta.path in known)
        rest = tuple(delta for delta in member.deltas if delta.path not in known)
        bag += [replace(member, deltas=idle)] if idle else []
        if rest:
            yield replace(member, deltas=rest)
    elif member.op in COME and any(signature(member) == signature(one) for one in alike):
        bag.append(member)
    else:
        yield member


def signature(member: Member) -> tuple[object, ...]:
    """The row's words, with a mark in the place of whatever an application chooses."""
    entity = member.of.run.schema.by_name[member.type]
    return tuple(
        _mark(member.of, entity, name, value)
        for name, value in sorted(member.row.items())
        if not is_own_key(entity, name, value)
    )


def is_own_key(entity: EntityType, name: str, value: Observed) -> bool:
    """True if the value is a key that the application gave the row."""
    spec = entity.by_name.get(name)
    refers = spec is not None and spec.reference is not None
    is_key = name in entity.key and len(entity.key) == 1 and not entity.is_association
    return is_key and not refers and not (isinstance(value, str) and random_form(value) is None)


def _mark(of: Inferred, entity: EntityType, name: str, value: Observed) -> object:
    chosen = of.chosen(entity, name, value)
    if chosen is not None:
        return name, chosen.kind, chosen.named
    return name, type(value).__name__, repr(value)


def _paired(by_run: list[list[Member]], bag: list[Member], *, is_idled: bool) -> Iterator[Change]:
    """The changes of one operation and type that all runs share; the others go into the bag.

    Where idle runs make such rows, too, those that say something else in each run are beside it.
    """
    if len(by_run) == 1:
        yield from (Change((member,)) for member in by_run[0])
        return
    tables = [_by(run) for run in by_run]
    left: list[list[Member]] = [[] for _ in by_run]
    for name in sorted({name for table in tables for name in table}, key=repr):
        held = [table.get(name, []) for table in tables]
        least = min(map(len, held))
        yield from (Change(tuple(each[n] for each in held)) for n in range(least))
        for number, each in enumerate(held):
            left[number] += each[least:]
    if len(set(map(len, by_run))) == 1 and not is_idled:
        yield from _most_alike(left)
    else:
        bag += [member for run in left for member in run]


def _by(run: Iterable[Member]) -> dict[object, list[Member]]:
    """The members by what makes two the same: what a new row says, else the key."""
    found: dict[object, list[Member]] = defaultdict(list)
    for member in run:
        says = member.op in COME or not member.key
        found[signature(member) if says else repr(member.key)].append(member)
    return found


def _most_alike(left: list[list[Member]]) -> Iterator[Change]:
    """Each row with those of the other runs that say most of what it says."""
    runs = [sorted(run, key=lambda m: key_order(m.key)) for run in left]
    said = {id(member): signature(member) for run in runs for member in run}
    for member in runs[0]:
        group = [member]
        for run in runs[1:]:
            near = run if len(run) <= MOST_COMPARED else run[:1]
            alike = [_shared(said[id(member)], said[id(one)]) for one in near]
            group.append(run.pop(alike.index(max(alike))))
        yield Change(tuple(group))


def _shared(one: tuple[object, ...], other: tuple[object, ...]) -> int:
    return sum(a == b for a, b in zip(one, other, strict=False))


def _incidental(bag: Sequence[Member], looked: Sequence[Member]) -> Iterator[Change]:
    """The changes that may happen beside the task: one for each kind that was seen."""
    idle = {id(member) for member in looked}
    said = {signature(member) for member in looked if member.op in COME}
    mixed = {(m.op, m.type) for m in bag if m.op in COME and signature(m) not in said}
    groups: dict[tuple[object, ...], list[Member]] = defaultdict(list)
    for member in (*bag, *looked):
        own: object = tuple(sorted(member.fields))
        if member.op in COME:
            own = () if (member.op, member.type) in mixed else signature(member)
        groups[member.op, member.type, own].append(member)
    for members in groups.values():
        most = max(Counter(id(member.of) for member in members).values())
        is_idle = any(id(member) in idle for member in members)
        yield Change(tuple(members), is_common=False, is_idle=is_idle, most=most)
