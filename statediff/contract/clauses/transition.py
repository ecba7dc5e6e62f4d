"""`transition`: exactly the deltas of a recorded reference, bound literal by literal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated, Any, Final

from pydantic import Field as Described
from pydantic import model_validator

from statediff.contract.clauses.kind import Binder, ClauseKind, JudgedAs, Path, plain_value
from statediff.contract.language.kinds import comparable, describe, suggest, type_of, type_of_field
from statediff.contract.language.syntax import Read
from statediff.contract.parts import BESIDE, Part, Reason, TypeName
from statediff.model.delta import Op
from statediff.model.schema import EntityType, Field, Kind
from statediff.model.values import Observed, Value

# ---------------------------------------------------------------- as written


class RecordedChange(Part):
    """One change of a recorded reference. `{new: NAME}` stands for the key of a created entity."""

    create: TypeName | None = None
    update: TypeName | None = None
    delete: TypeName | None = None
    key: Annotated[Any, Described(description="a key, or a list of its parts")]
    set: Annotated[
        dict[str, Any] | None, Described(description="a mapping of fields to their values after")
    ] = None
    from_: Annotated[
        dict[str, Any] | None,
        Described(alias="from", description="a mapping of fields to their values before"),
    ] = None

    @property
    def operation(self) -> str:
        return next(op for op in ("create", "update", "delete") if getattr(self, op) is not None)

    @model_validator(mode="after")
    def _one_operation(self) -> RecordedChange:
        if sum(op is not None for op in (self.create, self.update, self.delete)) != 1:
            raise ValueError("needs one of create, update, delete")
        return self


class RecordedChanges(Part):
    """What a file beside the contract holds for `transition`."""

    changes: Annotated[tuple[RecordedChange, ...], Described(description="a list of changes")]


class Transition(Part):
    """Exactly the deltas of a recorded reference, written here or in a file beside the contract."""

    changes: Annotated[
        tuple[RecordedChange, ...] | None, Described(description="a list of changes")
    ] = None
    file: Annotated[
        str | None,
        Described(
            pattern=BESIDE,
            max_length=200,
            description="the name of a file in the contract's folder or below it",
        ),
    ] = None
    sha256: Annotated[
        str | None,
        Described(pattern=r"^[0-9a-f]{64}$", description="the SHA-256 of the file, 64 digits"),
    ] = None
    because: Reason | None = None

    @model_validator(mode="after")
    def _one_source(self) -> Transition:
        if (self.changes is None) == (self.file is None):
            raise ValueError("needs either `changes` or `file`")
        if (self.file is None) != (self.sha256 is None):
            raise ValueError("`file` and `sha256` stand together: the digest pins what is expected")
        return self


# ---------------------------------------------------------------- as bound


@dataclass(frozen=True)
class New:
    """The key of an entity created in the run, whatever it is: the same name, the same key."""

    name: str


@dataclass(frozen=True)
class Expected:
    """One expected change of one entity. `values` of a creation are all it has that is not null.

    For an update each of `values` is one delta; `olds` says what was there, where that is stated.
    """

    op: Op
    type: str
    key: tuple[Value | New, ...]
    values: Mapping[str, Observed | New]
    olds: Mapping[str, Observed]
    key_fields: tuple[str, ...]


@dataclass(frozen=True)
class BoundTransition:
    """Every change that is expected, and nothing else is."""

    changes: tuple[Expected, ...]
    sentence: str
    reads: frozenset[Read]

    @property
    def count(self) -> int:
        """How many deltas that makes."""
        return sum(len(c.values) if c.op is Op.UPDATE else 1 for c in self.changes)


# ---------------------------------------------------------------- binding

MAX_NAMED: Final = 100
"""Created entities whose key may be named instead of written."""

_VERBS = {"create": Op.CREATE, "update": Op.UPDATE, "delete": Op.DELETE}
_ASSOCIATED = {Op.CREATE: Op.LINK, Op.DELETE: Op.UNLINK, Op.UPDATE: Op.UPDATE}


def _bind(binder: Binder, raw: Transition | None) -> Iterator[BoundTransition]:
    if raw is None or raw.changes is None:
        return
    changes: list[Expected] = []
    seen: set[tuple[Op, str, tuple[object, ...]]] = set()
    named = {name for change in raw.changes for name in _names(change) if change.create}
    if len(named) > MAX_NAMED:
        binder.problem(("transition",), f"more than {MAX_NAMED} named keys; write keys instead")
        return
    for index, change in enumerate(raw.changes):
        path: Path = ("transition", "changes", index)
        expected = _Reader(binder, path, named).expected(change)
        if expected is None:
            continue
        place = (expected.op, expected.type, expected.key)
        if place in seen:
            binder.problem(path, "the same entity has changed the same way above", "join the two")
        seen.add(place)
        changes.append(expected)
    shown = [f"{c.op.value} {c.type}" for c in changes]
    more = f" and {len(shown) - 6} more" if len(shown) > 6 else ""
    sentence = f"Exactly the recorded changes happen: {', '.join(shown[:6]) or 'none'}{more}."
    reads = {Read("delta", c.type, name) for c in changes for name in (*c.values, "")}
    yield BoundTransition(tuple(changes), sentence, frozenset(reads))


def _names(change: RecordedChange) -> Iterator[str]:
    parts = change.key if isinstance(change.key, tuple) else (change.key,)
    return (part["new"] for part in parts if _is_new(part))


def _is_new(raw: Any) -> bool:
    return isinstance(raw, dict) and set(raw) == {"new"} and isinstance(raw["new"], str)


@dataclass
class _Reader:
    """Reads one change; `named` are the names of the keys that the transition creates."""

    binder: Binder
    path: Path
    named: set[str]

    def expected(self, change: RecordedChange) -> Expected | None:
        verb = change.operation
        name = getattr(change, verb)
        entity = self.binder.schema.by_name.get(name)
        before = len(self.binder.problems)
        if entity is None:
            known = suggest(name, self.binder.schema.by_name)
            self._wrong(verb, f"unknown entity type `{name}`", known)
            return None
        self._check(entity, change)
        if len(self.binder.problems) > before:
            return None
        op = _VERBS[verb]
        key = self._key(entity, change, op)
        values = dict(self._values(entity, "set", change.set or {}, new=True))
        olds = dict(self._values(entity, "from", change.from_ or {}, new=False))
        if len(self.binder.problems) > before:
            return None
        known_olds = {n: v for n, v in olds.items() if not isinstance(v, New)}
        if entity.is_association:
            op = _ASSOCIATED[op]
        return Expected(op, name, key, values, known_olds, entity.key)

    def _check(self, entity: EntityType, change: RecordedChange) -> None:
        """The parts of the change go together."""
        verb = change.operation
        if entity.is_keyless:
            self._wrong(verb, f"{entity.name} has no key", "write a pattern for its rows")
        if (rule := self.binder.policy.excluded(entity.name, "")) is not None:
            self._wrong(verb, f"{entity.name} lies outside the boundary ({rule})")
        if change.set is not None and verb == "delete":
            self._wrong("set", "a deleted entity has no new values")
        if change.from_ is not None and verb == "create":
            self._wrong("from", "a created entity has no old values")
        if verb == "update" and not change.set:
            self._wrong(verb, "an update without `set` changes nothing")

    def _wrong(self, key: str, message: str, hint: str = "") -> None:
        self.binder.problem((*self.path, key), message, hint)

    def _key(self, entity: EntityType, change: RecordedChange, op: Op) -> tuple[Value | New, ...]:
        parts = change.key if isinstance(change.key, tuple) else (change.key,)
        if len(parts) != len(entity.key):
            self._wrong("key", f"the key of {entity.name} is ({', '.join(entity.key)})")
            return ()
        found: list[Value | New] = []
        for name, part in zip(entity.key, parts, strict=True):
            spec = entity.by_name[name]
            if _is_new(part):
                if op is not Op.CREATE and part["new"] not in self.named:
                    self._wrong("key", f"`new: {part['new']}`: no created entity has that name")
                found.append(New(part["new"]))
            else:
                found.append(self._literal("key", spec, spec.kind, plain_value(part)))
        return tuple(found)

    def _values(
        self, entity: EntityType, section: str, raw: Mapping[str, Any], *, new: bool
    ) -> Iterator[tuple[str, Observed | New]]:
        for name, value in raw.items():
            spec = entity.by_name.get(name)
            rule = self.binder.policy.excluded(entity.name, name)
            wrong = self.binder.policy.misread(entity.name, name, (), True)
            if spec is None:
                hint = suggest(name, entity.by_name)
                self.binder.problem(
                    (*self.path, section, name), f"{entity.name} has no field `{name}`", hint
                )
            elif name in entity.key:
                self._wrong(section, f"{name} is the key of {entity.name}; it stands in `key`")
            elif rule is not None:
                self._wrong(section, f"{entity.name}.{name} lies outside the boundary ({rule})")
            elif wrong is not None:
                self._wrong(section, wrong)
            elif new and _is_new(value) and spec.reference is not None:
                if value["new"] not in self.named:
                    self._wrong(section, f"`new: {value['new']}`: no created entity has that name")
                yield name, New(value["new"])
            elif _is_new(value) and spec.kind not in (Kind.MAP, Kind.ANY):
                self._wrong(section, f"{name} is no reference, so it holds no new key")
            else:
                kind = self.binder.policy.kind_of(entity.name, name) or spec.kind
                apply = self.binder.policy.literal(entity.name, name, ())
                plain = self._literal(
                    section, spec, spec.kind if apply else kind, plain_value(value)
                )
                yield name, plain if apply is None else apply(plain)

    def _literal(self, section: str, spec: Field, kind: Kind, value: Value) -> Value:
        """The literal as a value of the field's kind; texts stand for instants and days."""
        if isinstance(value, str) and kind in (Kind.TIMESTAMP, Kind.LOCAL_TIMESTAMP, Kind.DATE):
            try:
                if kind is Kind.DATE:
                    return date.fromisoformat(value)
                moment = datetime.fromisoformat(value)
            except ValueError:
                self._wrong(section, f"{spec.name}: not an ISO 8601 {kind.value}: {value[:40]!r}")
                return value
            if (moment.tzinfo is None) == (kind is Kind.TIMESTAMP):
                self._wrong(section, f"{spec.name} is {describe(type_of_field(kind, None))}")
            return moment
        held = type_of_field(kind, spec.reference)
        if not comparable(held, type_of(value)):
            self._wrong(
                section, f"{spec.name} is {describe(held)}, this is {describe(type_of(value))}"
            )
        return value


TRANSITION: Final = ClauseKind(
    name="transition",
    sections=("transition",),
    judged=JudgedAs.TRANSITION,
    bind=_bind,
    keys=("create", "update", "delete", "from", "set"),
    reserved=("transition",),
)
