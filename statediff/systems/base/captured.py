"""A base that our own capture shows: how a reset is proven where no bytes can be compared.

What the sources show in the base state is kept out of an agent's reach: digests in this process's
memory, rows in a folder of ours. Later looks are compared type by type and row by row. What the
sources cannot see is part of neither; the method of the proof names it, and no verdict rests on it.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Final, NamedTuple

from statediff.capture.source import Source, SourceUnavailable
from statediff.capture.store import DiskChunks
from statediff.errors import SandboxError, StatediffError
from statediff.model.state import Coverage, State, Table, row_digest
from statediff.model.values import Key, key_order, show_key
from statediff.systems.base.protocol import Drift, SourceProof

_NAMED: Final = 3
"""Rows that one drift names."""

Looked = Mapping[str, State]
"""Source → what it showed."""


class Amount(NamedTuple):
    """All rows of a type: their digest, and how many they are."""

    digest: str
    rows: int


def _every_row(_type: str, _key: Key) -> bool:
    return True


class CapturedBase:
    """The base state of sources; `counts` says which rows are part of it."""

    def __init__(self, name: str, counts: Callable[[str, Key], bool] = _every_row) -> None:
        self._name = name
        self._counts = counts
        folder = tempfile.mkdtemp(prefix="statediff-base-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._store = DiskChunks(folder)
        self._base: Looked = {}
        self.digests: Mapping[str, str] = {}
        """`SOURCE.TYPE` → the digest of all its rows."""

    def look(self, sources: Sequence[Source]) -> Looked:
        """The sources' states now. `SandboxError` names one that cannot be read, and why.

        A source that can tell what differs from the base reads no more than that.
        """
        found = {}
        for source in sources:
            like = self._base.get(source.name)
            try:
                found[source.name] = source.read(self._store, lambda: datetime.now(UTC), like).state
            except SourceUnavailable as error:
                raise SandboxError(f"{source.name}: cannot be read: {error}") from error
        return found

    def keep(self, shown: Looked) -> None:
        """This is the base from now on. `SandboxError` where rows of a table cannot be seen."""
        for source, state in shown.items():
            for name, table in state.tables.items():
                known = table.enumeration
                if not known.is_complete and not name.startswith(("db.", "git.")):
                    raise SandboxError(
                        f"{source}: {name} cannot be seen whole: {known.cause}; no reset of it "
                        "could be proven. Grant the right to read it, or leave it out by `?tables=`"
                    )
        self._base = shown
        self.digests = {name: amount.digest for name, amount in self.amounts(shown).items()}

    def amounts(
        self, shown: Looked, leave_out: frozenset[str] = frozenset()
    ) -> Mapping[str, Amount]:
        """`SOURCE.TYPE` → what there is of it, but for the types left out."""
        return {
            f"{source}.{name}": Amount(self._digest(name, table), table.row_count)
            for (source, name), table in _labelled(shown)
            if name not in leave_out
        }

    def verify(self, sources: Sequence[Source]) -> tuple[SourceProof, tuple[Drift, ...]]:
        """The sources as they are now, and all that differs from the base."""
        try:
            shown = self.look(sources)
        except StatediffError as error:
            drift: tuple[Drift, ...] = (Drift(self._name, "state", "a readable one", str(error)),)
            return self._proof("unreadable"), drift
        drift = tuple(self.differences(self._base, shown))
        if not drift:
            return self._proof(None), ()
        now = {name: amount.digest for name, amount in self.amounts(shown).items()}
        return self._proof(_whole(now)), drift

    def differences(
        self,
        base: Looked,
        now: Looked,
        leave_out: frozenset[str] = frozenset(),
    ) -> Iterator[Drift]:
        """All that differs between two looks, but for the types left out."""
        ones, others = dict(_labelled(base)), dict(_labelled(now))
        for source, name in sorted(ones.keys() | others.keys()):
            one, other = ones.get((source, name)), others.get((source, name))
            if name in leave_out:
                continue
            if one is None or other is None:
                there = ("no such type", "a type")
                yield Drift(source, name, there[one is not None], there[other is not None])
            elif (said := self._compare(name, one, other)) is not None:
                yield Drift(source, name, *said)

    def _compare(self, name: str, base: Table, now: Table) -> tuple[str, str] | None:
        """The difference of two tables of one name in words; None where they are equal."""
        if _seen(base) != _seen(now):
            return _seen(base), _seen(now)
        if [c.digest for c in base.chunks] == [c.digest for c in now.chunks]:
            return None
        rows = ((key, what) for key, what in _unlike_rows(base, now) if self._counts(name, key))
        if not (first := list(islice(rows, _NAMED))):
            return None
        shown = ", ".join(f"{show_key(key)} {what}" for key, what in first)
        more = "" if next(rows, None) is None else ", …"
        return f"{base.row_count} rows", f"{now.row_count} rows; {shown}{more}"

    def _digest(self, name: str, table: Table) -> str:
        if not table.enumeration.is_complete:
            return _seen(table)
        hasher = hashlib.sha256()
        if name.startswith("db."):
            for key, row in table.rows():
                if self._counts(name, key):
                    hasher.update(f"{key!r} {row_digest(row)}\n".encode())
        else:
            for chunk in table.chunks:
                hasher.update(f"{chunk.digest}\n".encode())
        return hasher.hexdigest()

    def _proof(self, found: str | None) -> SourceProof:
        expected = _whole(self.digests)
        unseen = [".".join(at) for at, t in _labelled(self._base) if not t.enumeration.is_complete]
        method = "our own capture of every table, compared with that of the base"
        if unseen:
            method += f"; not seen: {', '.join(unseen)}"
        entities = sum(t.row_count for (_, n), t in _labelled(self._base) if n[:3] != "db.")
        return SourceProof(self._name, method, expected, found or expected, entities)


def _labelled(shown: Looked) -> Iterator[tuple[tuple[str, str], Table]]:
    for source, state in sorted(shown.items()):
        for name, table in sorted(state.tables.items()):
            yield (source, name), table


def _seen(table: Table) -> str:
    known = table.enumeration
    return "" if known.coverage is Coverage.COMPLETE else f"not seen: {known.cause}"


def digest_of(amounts: Mapping[str, Amount]) -> str:
    """The digest of all amounts together."""
    return _whole({name: amount.digest for name, amount in amounts.items()})


def _whole(digests: Mapping[str, str]) -> str:
    lines = (f"{len(label)} {label} {digests[label]}\n" for label in sorted(digests))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _unlike_rows(base: Table, now: Table) -> Iterator[tuple[Key, str]]:
    """The keys of rows that are new, gone or changed, in their order."""
    ones, others = iter(base.rows()), iter(now.rows())
    one, other = next(ones, None), next(others, None)
    while one is not None or other is not None:
        # A row that is not there comes after every one that is.
        order = 1 if one is None else -1 if other is None else _order(one[0], other[0])
        found = other if order > 0 else one
        what = "is new" if order > 0 else "is gone" if order < 0 else "changed"
        if order == 0 and one is not None and other is not None:
            what = "changed" if one[1] != other[1] else ""
        key = () if found is None else found[0]
        one = next(ones, None) if order <= 0 else one
        other = next(others, None) if order >= 0 else other
        if what:
            yield key, what


def _order(one: Key, other: Key) -> int:
    first, second = key_order(one), key_order(other)
    return (first > second) - (first < second)
