"""One domain of a folder of τ² cases, opened: what its runs and its tasks share is made once."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from statediff.contract.file import ContractFile
from statediff.errors import InputError
from statediff.model.values import printable
from statediff.systems.tables.shape import Document, Record
from statediff_lab.importers.pack import DomainPack
from statediff_lab.importers.recorded import BadLine, NotARun, parse, read_lines, without_labels
from statediff_lab.importers.states import Base, Edit, record_of
from statediff_lab.importers.tau2.contract import Asked, Reading, contract_of
from statediff_lab.importers.tau2.format import (
    Criteria,
    Gold,
    Operation,
    TaskVersion,
    Tau2Cases,
    Tree,
    apply,
    delta_of,
    expectations,
)


@dataclass(frozen=True)
class Known:
    """Facts about a task beside its texts: its reference, and how its state begins."""

    gold_key: str
    criteria: Criteria
    init: tuple[Operation, ...] = ()
    purpose: str = ""


@dataclass
class Domain:
    """One domain, opened: what its runs share is made once."""

    cases: Tau2Cases
    runs: Path
    pack: DomainPack
    contracts: dict[str, ContractFile] = field(default_factory=dict)
    _heard: set[str] = field(default_factory=set)
    """Tools that the user called in some run; complete once `known` is."""

    @cached_property
    def layout(self) -> Layout:
        return infer_layout(self.cases.initial, self.pack.settings.get("rows", ()))

    @cached_property
    def base(self) -> Base:
        """The initial state; what references leave behind tells fields that are empty before."""
        document = self.layout.document(self.cases.initial)
        schema = self.pack.schema
        return Base(self.cases.domain, document, schema, hints=self._hints())

    def _hints(self) -> Document:
        found: Document = {}
        for name, known in self.known.items():
            start = self.start(known)
            edits = self.layout.edits(self.cases.initial, start)
            corrected = [c.gold_after for c in self.cases.corrections.get(name, ())]
            for key in dict.fromkeys((known.gold_key, *corrected)):
                edits += self.changes(known, key)
            for edit in edits:
                for record in (edit.before, edit.after):
                    if record is not None:
                        found.setdefault(edit.type, []).append(record)
        return found

    @cached_property
    def known(self) -> dict[str, Known]:
        """Every task by name, from the runs, the tasks and the references."""
        found: dict[str, Known] = {}
        for line in read_lines(self.runs):
            if isinstance(line, BadLine):
                continue
            try:
                raw = without_labels(parse(line))
                if (name := task_name(raw)) not in found:
                    known = self._known_task(raw)
                    self.changes(known, known.gold_key)  # a run without a reference tells nothing
                    found[name] = known
                self._heard |= {
                    str(call.get("name"))
                    for call in objects(raw, "trace")
                    if call.get("requestor") == "user"
                }
            except InputError:
                continue  # judging the runs reports the line
        for version in self.cases.tasks.values():
            if version.name not in found and (key := self._unrun(version.name)) is not None:
                found[version.name] = Known(key, version.criteria, (), version.purpose)
        return dict(sorted(found.items()))

    def _known_task(self, raw: Tree) -> Known:
        before = raw.get("before")
        init = before.get("init_delta") if isinstance(before, dict) else None
        version = self.version(raw)
        return Known(
            gold_key(raw),
            criteria_of_run(raw, version),
            delta_of(init or [], "init_delta"),
            version.purpose if version else str(raw.get("instruction") or ""),
        )

    def _unrun(self, name: str) -> str | None:
        """The reference of a task that no run is of: the one before any correction."""
        corrected = [c.gold_before for c in self.cases.corrections.get(name, ())]
        own = [gold.key for gold in self.cases.gold.values() if gold.task == name]
        return next(iter((*corrected, *own)), None)

    @cached_property
    def user_tools(self) -> frozenset[str]:
        """Tools that are the simulated user's own, as some task or run shows.

        In a run without a user the agent holds them too, and acts in the user's place with them.
        """
        named = {
            action.name
            for known in self.known.values()
            for action in known.criteria.actions or ()
            if action.requestor == "user"
        }
        return frozenset(named | self._heard)

    def version(self, raw: Tree) -> TaskVersion | None:
        """The version of the task that the run was made with."""
        return self.cases.tasks.get(str(raw.get("task_key")))

    def start(self, known: Known) -> Tree:
        return apply(self.cases.initial, known.init)

    def contract(self, name: str) -> ContractFile:
        """The contract of a task, made once."""
        if name not in self.contracts:
            known = self.known[name]
            self.contracts[name] = contract_of(
                Asked(
                    self.cases.domain,
                    name,
                    known.criteria,
                    self.readings(name),
                    tuple(t.name for t in self.base.schema.types),
                    known.purpose,
                ),
                self.pack,
            )
        return self.contracts[name]

    def readings(self, name: str) -> tuple[Reading, ...]:
        """The readings of the task: one, or two where its corrections disagree."""
        known = self.known[name]
        told = known.criteria.communicate
        recorded = Reading("recorded", self.changes(known, known.gold_key), told)
        by_version = {c.version: c for c in self.cases.corrections.get(name, ())}
        versions = sorted({c.version for cs in self.cases.corrections.values() for c in cs})
        readings = [
            recorded
            if (correction := by_version.get(version)) is None
            else Reading(
                version,
                self.changes(known, correction.gold_after),
                correction.communicate,
                correction.why,
            )
            for version in versions
        ] or [recorded]
        first = readings[0]
        if all(_same(first, other) for other in readings):
            return (Reading("reference", first.changes, first.communicate, first.because),)
        return tuple(
            Reading(version, r.changes, r.communicate, r.because)
            for version, r in zip(versions, readings, strict=True)
        )

    def changes(self, known: Known, key: str) -> tuple[Edit, ...]:
        """The changes of the reference of that key, record by record."""
        start = self.start(known)
        return tuple(self.layout.edits(start, apply(start, self.gold(key).delta)))

    def gold(self, key: str) -> Gold:
        if key not in self.cases.gold:
            raise InputError(f"no reference with the gold_key {printable(key[:60])}")
        return self.cases.gold[key]


def _same(a: Reading, b: Reading) -> bool:
    """True if two readings ask for the same changes and the same words."""

    def asked(reading: Reading) -> tuple[set[tuple[str, str, str]], set[str]]:
        changes = {(e.type, repr(e.before), repr(e.after)) for e in reading.changes}
        return changes, set(reading.communicate)

    return asked(a) == asked(b)


# ---------------------------------------------------------------- what a line says of its task


def task_name(raw: Tree) -> str:
    """The task of a run; `NotARun` where it has none."""
    name = raw.get("task_id")
    if not isinstance(name, str) or not name:
        raise NotARun("expected a run with a task_id")
    return name


def gold_key(raw: Tree) -> str:
    """Which reference the run is compared with; `NotARun` where it has none."""
    try:
        key = raw["labels"]["recorded_task"]["gold_key"]
    except (KeyError, TypeError):
        key = None
    if not isinstance(key, str):
        raise NotARun("expected labels.recorded_task.gold_key")
    return key


def criteria_of_run(raw: Tree, version: TaskVersion | None) -> Criteria:
    """The criteria of the task; older runs carry their reference actions and texts themselves."""
    if version is not None:
        return version.criteria
    outputs = raw.get("outputs")
    told = tuple(o for o in outputs if isinstance(o, str)) if isinstance(outputs, list) else ()
    actions = expectations(raw.get("gold_actions") or [], "gold_actions")
    return Criteria(("DB", "COMMUNICATE"), actions, told)


def objects(raw: Tree, name: str) -> list[Mapping[str, Any]]:
    """The objects of a list of the run; whatever else stands there is nothing."""
    listed = raw.get(name)
    listed = listed if isinstance(listed, list) else []
    return [entry for entry in listed if isinstance(entry, dict)]


ID: Final = "id"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


@dataclass(frozen=True)
class Shape:
    """How the entities of one type are laid out."""

    type: str
    spread: frozenset[tuple[str, ...]] = frozenset()
    """Paths of the objects whose members are fields."""
    inner: Mapping[str, Shape] = field(default_factory=dict)
    """Fields that hold a collection of their own."""
    rows: Mapping[str, Shape] = field(default_factory=dict)
    """Fields whose list holds entities, distinguished by their place."""


@dataclass(frozen=True)
class Gathered:
    """One collection of the state: where it is, how its entities are distinguished."""

    path: tuple[str, ...]
    shape: Shape
    id_field: str | None = None
    """For a list: the field that holds the id."""
    is_single: bool = False

    def held(self, state: Tree) -> Any:
        """The value at the collection's place; None where there is none."""
        found: Any = state
        for step in self.path:
            found = found.get(step) if isinstance(found, Mapping) else None
        return found

    def entities(self, state: Tree) -> dict[str, Any]:
        """The entities by id, as the state holds them."""
        found = self.held(state)
        if found is None:
            return {}
        where = "/".join(self.path)
        if self.is_single:
            return {self.path[-1]: found}
        if self.id_field is None:
            if not isinstance(found, Mapping):
                raise InputError(f"{printable(where)}: expected an object of entities")
            return dict(found)
        if not isinstance(found, list):
            raise InputError(f"{printable(where)}: expected a list of entities")
        by_id = {}
        for entity in found:
            key = entity.get(self.id_field) if isinstance(entity, Mapping) else None
            if not isinstance(key, str) or key in by_id:
                raise InputError(
                    f"{printable(where)}: an entity without {self.id_field} of its own"
                )
            by_id[key] = entity
        return by_id


@dataclass(frozen=True)
class Layout:
    """The collections of a domain."""

    collections: tuple[Gathered, ...]
    list_names: frozenset[str]
    """Names that a field may not have, because a type has them."""

    def document(self, state: Tree) -> Document:
        """Every record of the state, by type."""
        found: Document = {}
        for collection in self.collections:
            for key, entity in collection.entities(state).items():
                for name, _, record in self._records(collection.shape, key, entity, None):
                    found.setdefault(name, []).append(record)
        return found

    def edits(self, before: Tree, after: Tree) -> list[Edit]:
        """The differences between two states, record by record."""
        _require_known(before, after, {c.path for c in self.collections})
        edits: list[Edit] = []
        for collection in self.collections:
            if collection.held(before) is collection.held(after):
                continue
            old, new = collection.entities(before), collection.entities(after)
            moved = [k for k in old if k not in new or old[k] is not new[k]]
            for key in sorted({*moved, *(k for k in new if k not in old)}):
                was = self._by_place(collection.shape, key, old)
                now = self._by_place(collection.shape, key, new)
                edits += [
                    Edit(place[0], was.get(place), now.get(place))
                    for place in sorted({*was, *now})
                    if was.get(place) != now.get(place)
                ]
        return edits

    def _by_place(
        self, shape: Shape, key: str, entities: Mapping[str, Any]
    ) -> dict[tuple[str, str], Record]:
        if key not in entities:
            return {}
        records: dict[tuple[str, str], Record] = {}
        for name, identity, record in self._records(shape, key, entities[key], None):
            if (name, identity) in records:
                raise InputError(f"{printable(name)} {printable(identity)} is there twice")
            records[name, identity] = record
        return records

    def _records(
        self, shape: Shape, key: str, entity: Any, parent: tuple[str, str] | None
    ) -> Iterator[tuple[str, str, Record]]:
        if not isinstance(entity, Mapping):
            raise InputError(f"{printable(shape.type)} {printable(key)}: expected an object")
        identity = key if parent is None else f"{parent[1]}/{key}"
        fields: dict[str, Any] = {}
        for path, value in _spread(entity, shape, ()):
            name = "_".join(path)
            if name in self.list_names:
                name += "_list"
            if name == ID and value == key:
                continue
            name = f"{ID}_" if name == ID else name
            if name in fields:
                raise InputError(
                    f"{printable(shape.type)} {printable(key)}: two fields are called "
                    f"{printable(name[:60])}"
                )
            fields[name] = value
        record = record_of(fields)
        record[ID] = identity
        if parent is not None:
            record[parent[0]] = parent[1]
        yield shape.type, identity, record
        for name, inner in shape.inner.items():
            held = entity.get(name)
            if isinstance(held, Mapping):
                for part, item in held.items():
                    yield from self._records(inner, part, item, (shape.type, identity))
        for name, inner in shape.rows.items():
            if _are_rows(entity.get(name)):
                for place, item in enumerate(entity[name], start=1):
                    yield from self._records(inner, str(place), item, (shape.type, identity))


def _spread(
    entity: Mapping[str, Any], shape: Shape, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in entity.items():
        here = (*path, name)
        if not path and (
            (name in shape.inner and isinstance(value, Mapping))
            or (name in shape.rows and _are_rows(value))
        ):
            continue
        if here in shape.spread and isinstance(value, Mapping) and value:
            yield from _spread(value, shape, here)
        else:
            yield here, value
    if not path:
        # No entities and no place for any are two states.
        for name in (*shape.inner, *shape.rows):
            if name not in entity:
                yield (name, "is", "missing"), True


def _are_rows(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, Mapping) for item in value)


def _require_known(before: Tree, after: Tree, known: set[tuple[str, ...]]) -> None:
    """Nothing changes outside the collections: such a change would be overlooked."""
    level: list[tuple[tuple[str, ...], Any, Any]] = [((), before, after)]
    while level:
        path, old, new = level.pop()
        if old is new or path in known:
            continue
        inside = any(place[: len(path)] == path for place in known)
        old, new = ({} if side is None else side for side in (old, new))
        if not (inside and isinstance(old, Mapping) and isinstance(new, Mapping)):
            raise InputError(f"{printable('/'.join(path)[:200])} changed, but is no collection")
        level += [((*path, name), old.get(name), new.get(name)) for name in {*old, *new}]


# ---------------------------------------------------------------- inference


def infer_layout(state: Tree, rows: Collection[str] = ()) -> Layout:
    """The layout that the state before shows; `rows` are lists of entities, TYPE.FIELD each."""
    if not state:
        raise InputError("the state before holds no collection")
    roots: list[tuple[tuple[str, ...], Tree]] = [((), state)]
    parts = state.values()
    if all(_is_side(part) for part in parts) and any(
        not _is_single(content) for part in parts for content in part.values()
    ):
        roots = [((side,), part) for side, part in state.items()]
    found: list[Gathered] = []
    taken: set[str] = set()
    for root, collections in roots:
        for name, content in collections.items():
            type_name = name if name not in taken else f"{'_'.join(root)}_{name}"
            if not _NAME.fullmatch(type_name) or type_name in taken:
                raise InputError(f"{printable(name[:60])}: not the name of a collection")
            found.append(_collection((*root, name), type_name, content, rows))
            taken |= set(_types(found[-1].shape))
    return Layout(tuple(found), frozenset(taken))


def _is_side(part: Any) -> bool:
    """True if this is a database of its own: its members are collections, not entities."""
    if not isinstance(part, Mapping) or not part:
        return False
    return all(_is_single(content) or _are_entities(content) for content in part.values())


def _is_single(content: Any) -> bool:
    return isinstance(content, Mapping) and _is_flat(content)


def _is_flat(content: Mapping[str, Any]) -> bool:
    return any(not isinstance(item, Mapping) for item in content.values())


def _are_entities(content: Any) -> bool:
    items = content.values() if isinstance(content, Mapping) else content
    return isinstance(content, (Mapping, list)) and all(
        isinstance(item, Mapping) and _is_flat(item) for item in items
    )


def _types(shape: Shape) -> Iterator[str]:
    yield shape.type
    for inner in (*shape.inner.values(), *shape.rows.values()):
        yield from _types(inner)


def _collection(
    path: tuple[str, ...], type_name: str, content: Any, rows: Collection[str]
) -> Gathered:
    if isinstance(content, list):
        entities = [entity for entity in content if isinstance(entity, Mapping)]
        id_field = _id_field(entities, path[-1])
        if id_field is None or len(entities) < len(content):
            where = printable("/".join(path))
            raise InputError(f"{where}: a list of entities needs a field that tells them apart")
        return Gathered(path, _shape(type_name, entities, rows), id_field)
    if not isinstance(content, Mapping):
        raise InputError(f"{printable('/'.join(path))}: expected a collection of entities")
    if content and _is_flat(content):
        return Gathered(path, _shape(type_name, [content], rows), is_single=True)
    return Gathered(path, _shape(type_name, list(content.values()), rows))


def _id_field(entities: list[Mapping[str, Any]], collection: str) -> str | None:
    """The field that holds a text of its own in each entity; one called like the collection."""
    names = [
        name
        for name in (entities[0] if entities else {})
        if (name == ID or name.endswith("_id"))
        and len({e.get(name) for e in entities if isinstance(e.get(name), str)}) == len(entities)
    ]
    like = [n for n in names if n == ID or collection.startswith(n.removesuffix("_id"))]
    return next(iter((*like, *names)), None)


def _shape(type_name: str, entities: list[Mapping[str, Any]], rows: Collection[str]) -> Shape:
    spread: set[tuple[str, ...]] = set()
    inner: dict[str, Shape] = {}
    listed = {
        name: Shape(f"{type_name}_{name}")
        for kind, _, name in (what.partition(".") for what in rows)
        if kind == type_name
    }
    for name in sorted({name for entity in entities for name in entity}):
        values = [entity.get(name) for entity in entities]
        if not all(isinstance(value, Mapping) for value in values):
            continue
        if _is_collection(values):
            maps = (value for value in values if isinstance(value, Mapping))
            items = [item for value in maps for item in value.values()]
            inner[name] = _shape(f"{type_name}_{name}", items, rows)
        else:
            spread |= _spreading((name,), values)
    flat = ["_".join(path) for path, _ in _leaves(entities, spread)]
    if len(set(flat)) < len(flat):  # a name would be there twice: leave the objects whole
        spread = set()
    return Shape(type_name, frozenset(spread), inner, listed)


def _leaves(
    entities: Iterable[Mapping[str, Any]], spread: set[tuple[str, ...]]
) -> list[tuple[tuple[str, ...], None]]:
    shape = Shape("", frozenset(spread))
    return [
        (path, None)
        for path in sorted({p for entity in entities for p, _ in _spread(entity, shape, ())})
    ]


def _is_collection(values: list[Any]) -> bool:
    """True if the objects hold entities: objects, each of which names its own key."""
    items = [pair for value in values for pair in value.items()]
    return bool(items) and all(
        isinstance(item, Mapping) and any(part == key for part in item.values())
        for key, item in items
    )


def _spreading(path: tuple[str, ...], values: list[Any]) -> set[tuple[str, ...]]:
    """The paths of the objects to spread: this one if all have the same names, and those within."""
    names = {tuple(sorted(value)) for value in values}
    if len(names) != 1 or not all(_NAME.fullmatch(f"_{name}") for name in next(iter(names))):
        return set()
    found = {path}
    for name in next(iter(names)):
        below = [value[name] for value in values]
        if all(isinstance(part, Mapping) for part in below):
            found |= _spreading((*path, name), below)
    return found
