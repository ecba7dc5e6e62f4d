"""Deltas: the atomic typed differences between two states [SSD §III], net, one per (entity, path).

The creation or deletion of an entity is one delta with an empty path whose value is the whole
entity; an update is one delta per changed field.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from enum import Enum
from functools import cache, cached_property, lru_cache
from typing import Final

from statediff.model.paths import Steps, render
from statediff.model.schema import Purpose
from statediff.model.values import Key, Observed, Value, encode, printable

MAX_NAME: Final = 60
"""Characters of a key's part in an id; a longer one is cut and ends in a digest."""

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_@.+/-]*|[0-9a-f]{32}")


class Op(Enum):
    """The operation on an entity or relation."""

    __hash__ = object.__hash__  # enumerations hash their names, which takes longer

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    LINK = "link"
    UNLINK = "unlink"


class Label(Enum):
    """Reversibility ℓ of a delta, in rising order of risk."""

    __hash__ = object.__hash__  # enumerations hash their names, which takes longer

    REVERSIBLE = "reversible"
    CONDITIONAL = "conditional"
    IRREVERSIBLE = "irreversible"


@dataclass(frozen=True, slots=True)
class Entity:
    """A whole entity as the value of a create or delete: its fields in schema order."""

    names: tuple[str, ...]
    cells: tuple[Observed, ...]

    @staticmethod
    def of(row: Mapping[str, Observed]) -> Entity:
        """The entity with the cells of a row."""
        return Entity(_names(tuple(row)), tuple(row.values()))

    @property
    def fields(self) -> tuple[tuple[str, Observed], ...]:
        """(name, cell) of each field."""
        return tuple(zip(self.names, self.cells, strict=True))

    def as_row(self) -> dict[str, Observed]:
        return dict(zip(self.names, self.cells, strict=True))


@lru_cache(4096)  # one object for all entities of a type
def _names(names: tuple[str, ...]) -> tuple[str, ...]:
    return names


@dataclass(frozen=True)
class Delta:
    """(op, id, path, v0, v1, ℓ, e): `before` is v0, `after` is v1, both in canonical form.

    `raw_before` and `raw_after` keep the values as captured. `evidence` holds the ids of the
    readings on both sides. `transaction` and `action` attribute the delta where a history allows
    it; None is "unattributed", never a guess.
    """

    op: Op
    type: str
    key: Key
    path: str
    """The field; empty for the whole entity."""
    _: KW_ONLY
    steps: Steps = ()
    """The way from the field to the place inside its value; none for all of it."""
    before: Observed | Entity
    after: Observed | Entity
    raw_before: Observed | Entity
    raw_after: Observed | Entity
    evidence: tuple[str, ...]
    label: Label = Label.CONDITIONAL
    transaction: str | None = None
    action: str | None = None

    @property
    def place(self) -> str:
        """The field and the place inside it, as a path is written."""
        return render(self.path, self.steps) if self.steps else self.path

    @property
    def is_of_mark(self) -> bool:
        """A field marks the entity as deleted or no longer so (`deleted_when`); its row stays."""
        is_both = isinstance(self.raw_before, Entity) and isinstance(self.raw_after, Entity)
        return is_both and self.op is not Op.UPDATE

    @cached_property
    def id(self) -> str:
        """How findings and bundles refer to it: `type[key].path`, and its transaction if any."""
        name = delta_id(self.type, self.key, self.place)
        return name if self.transaction is None else f"{name} @ {self.transaction}"


@cache
def default_label(op: Op, purpose: Purpose | None) -> Label:
    """ℓ of rows for that purpose where no contract says otherwise (docs/design.md §3, Numbers).

    Deletion, permission change, outgoing message and rewritten history are irreversible, all else
    conditional: an `unlink` too, for the row of an association is its key and can be linked again.
    """
    is_final = op in _FINAL.get(purpose, (Op.DELETE,))
    return Label.IRREVERSIBLE if is_final else Label.CONDITIONAL


_FINAL: Final[Mapping[Purpose | None, tuple[Op, ...]]] = {
    Purpose.PERMISSIONS: tuple(Op),
    Purpose.MESSAGES: (Op.CREATE, Op.LINK, Op.DELETE),
    Purpose.HISTORY: (Op.UPDATE, Op.UNLINK, Op.DELETE),
}


def delta_id(type_name: str, key: Key, path: str) -> str:
    """`type[key]` or `type[key].path`; two keys never have one id."""
    return f"{type_name}[{key_name(key)}]" + (f".{path}" if path else "")


def key_name(key: Key) -> str:
    """The key as ids write it: short where it can be, and different for every different key."""
    return _part_name(key[0]) if len(key) == 1 else f"({', '.join(map(_part_name, key))})"


def _part_name(part: Value) -> str:
    if isinstance(part, int) and not isinstance(part, bool):
        name = str(part)
    elif isinstance(part, str):
        name = part if _is_plain(part) else printable(json.dumps(part, ensure_ascii=False))
    else:
        name = printable(json.dumps(encode(part), ensure_ascii=False))
    if len(name) <= MAX_NAME:
        return name
    digest = hashlib.sha256(json.dumps(encode(part)).encode()).hexdigest()
    return f"{name[: MAX_NAME - 24]}…{digest[:16]}"


def _is_plain(text: str) -> bool:
    """True if the text can be mistaken for no other value, and needs no quotes."""
    return _PLAIN.fullmatch(text) is not None and text not in ("null", "true", "false")


@dataclass(frozen=True)
class HiddenDelta:
    """A raw difference that is not a delta because Ω or ν says so: shown, and read by Γ only."""

    delta: Delta
    rule: str
    """`exclude: …` or the name of the canonicalization rule, with its reason."""
    by_boundary: bool
    """True when Ω excludes it; False when ν makes both sides equal."""


@dataclass(frozen=True)
class Doubt:
    """A place where a delta may or may not exist. `key`/`path` None means any entity / any path."""

    type: str
    key: Key | None
    path: str | None
    cause: str
    stage: str
    """The pipeline stage that could not establish it: capture, resolve, canonicalize or policy."""
    source: str = ""

    @property
    def where(self) -> str:
        if self.key is None:
            return self.type if self.path is None else f"{self.type}.{self.path}"
        return delta_id(self.type, self.key, self.path or "")


@dataclass(frozen=True)
class Diff:
    """Δ(ν(S₀), ν(S₁)) restricted to Ω [SSD eq. 3]: deltas sorted by (type, key, path)."""

    deltas: tuple[Delta, ...]
    hidden: tuple[HiddenDelta, ...] = ()
    doubts: tuple[Doubt, ...] = ()
