"""`access:` bound to a state schema: what the judging stage and the gate evaluate."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from urllib.parse import quote, unquote

from statediff.contract.clauses.conduct import Asserted
from statediff.contract.language.syntax import Node, Read
from statediff.model.schema import Kind
from statediff.model.values import Key, Value

ACCESS: Final = "access"
"""The clause that what was read lies within the visibility cone."""
CITATIONS: Final = "citations"
KEY_KINDS: Final = (Kind.INT, Kind.TEXT)
_MAX_DIGITS: Final = 30


@dataclass(frozen=True, kw_only=True)
class Holding:
    """One subsystem: which entities of a type lie in it, and when each came to be.

    `key_kinds` are those of the type's key; an artifact's id is the subsystem's name and its key.
    """

    name: str
    type: str
    key_kinds: tuple[Kind, ...]
    where: Node | None
    times: tuple[Node, ...]
    """The instants that must have come: when it came to be first."""
    authorized_by: Node | None
    footprint: frozenset[Read]

    def id_of(self, key: Key) -> str:
        """The id of the artifact with this key, e.g. `wiki:7`; distinct keys have distinct ids."""
        parts = (quote(str(part), safe="@:+ ,;=", errors="surrogatepass") for part in key)
        return f"{self.name}:{'/'.join(parts)}"

    def key_of(self, name: str) -> Key | None:
        """The key in an artifact's id; None where it is the id of none of this subsystem."""
        prefix, _, rest = name.partition(":")
        parts = rest.split("/")
        if prefix != self.name or len(parts) != len(self.key_kinds):
            return None
        key = tuple(
            key_part(unquote(part), kind) for part, kind in zip(parts, self.key_kinds, strict=True)
        )
        # Each artifact has one id: another spelling of it is the id of nothing.
        if any(part is None for part in key) or self.id_of(key) != name:
            return None
        return key


def key_part(written: Value, kind: Kind) -> Value:
    """A part of a key from how a call or an id writes it; None where it can be none."""
    if isinstance(written, bool) or not isinstance(written, int | str):
        return None
    if kind is Kind.TEXT:
        return str(written)
    text = str(written)
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= _MAX_DIGITS):
        return None
    return int(text)


@dataclass(frozen=True)
class Shelf:
    """Artifacts of a subsystem: all, or those that satisfy `where`."""

    subsystem: str
    where: Node | None
    footprint: frozenset[Read]


@dataclass(frozen=True)
class Search(Asserted):
    """The space that must have been looked at before something may be said not to be."""

    when: Node | None
    space: tuple[Shelf, ...]


@dataclass(frozen=True)
class Needed(Asserted):
    """Evidence to be fetched; `low` None: all of it."""

    when: Node | None
    shelf: Shelf
    low: int | None
    cite: bool


@dataclass(frozen=True)
class Citing(Asserted):
    """A clause: everything that the answer cites under `name` was fetched, and may be read."""

    name: str


@dataclass(frozen=True)
class ReadBy:
    """Another tool that reads: the artifacts stand at `path` in a call of it."""

    tool: str
    subsystem: str
    is_search: bool
    path: tuple[str, ...]
    """`[]` stands for each element of a list."""


@dataclass(frozen=True, kw_only=True)
class BoundAccess(Asserted):
    """The visibility cone of one contract, and what must be read within it [GE Fig. 2]."""

    actor: str
    as_of: datetime | None
    """The last instant that counts; None: whatever was there when the run began."""
    allowed: tuple[str, ...]
    holdings: tuple[Holding, ...]
    searches: tuple[Search, ...]
    needed: tuple[Needed, ...]
    citing: Citing | None
    readers: tuple[ReadBy, ...]
    aside: frozenset[str]

    def holding(self, subsystem: str) -> Holding | None:
        """The subsystem of that name; None where there is none."""
        return next((each for each in self.holdings if each.name == subsystem), None)

    @property
    def sees(self) -> frozenset[str]:
        """The subsystems that the actor may read; what nobody knows is none."""
        return frozenset(self.allowed) & {each.name for each in self.holdings}

    @property
    def clauses(self) -> tuple[Search | Needed | Citing, ...]:
        """The clauses on what must have been read, in the order of the report."""
        return (*self.searches, *self.needed, *(() if self.citing is None else (self.citing,)))
