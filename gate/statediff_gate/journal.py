"""The journal of decided transactions, which a gate that starts again has to know.

A prepared transaction survives its gate. Its name says which gate made it: a number under which
that gate holds an advisory lock of the server as long as it lives. Another that gets the lock knows
that it is gone, and ends its transactions: those that the journal names as decided are committed,
all others are rolled back. Of a single system nothing is decided before: its own commit is the
decision, and what is still prepared was not committed.

Where a SQLite file is one of several systems, its commit is the decision, and no crash tells
whether it came to that. So the rows that it would write are noted before: when a gate starts again
they are there, or they are not. Where somebody changed them since, a person decides.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from statediff.atomic import sync_folder, write_atomically
from statediff.errors import StorageError
from statediff.evidence import documents as doc
from statediff.evidence.canonical import read, write
from statediff.model.batches import Row
from statediff.model.schema import Schema
from statediff.model.state import row_digest
from statediff.model.values import Key
from statediff_gate.course import Changes, Edits, key_of

PREFIX: Final = "statediff-gate"
_PENDING: Final = ".pending"
_THERE, _NOT_THERE = "after", "before"


class Look(Protocol):
    """The present content of a system."""

    def row(self, name: str, key: Key) -> Row | None:
        """The row, of a type with a key."""

    def count(self, name: str, digest: str) -> int:
        """How many rows of this content a type without a key has."""


class Journal:
    """The decisions of the gates of one folder that are not yet carried out."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "decided"
        self.number = secrets.randbits(62)
        self._held: dict[str, int] = {}
        self.systems: tuple[str, ...] = ()
        """The names of those that are committed together."""
        self._ended: set[str] = set()

    def beside(self, name: str) -> Path:
        """The place of a file of this name in the folder of the records."""
        return self._folder.parent / name

    def name(self, transaction: str) -> str:
        """The name of a transaction of this gate."""
        return f"{PREFIX}:{self.number}:{transaction}"

    def propose(
        self, transaction: str, source: str, changes: Changes, schema: Schema, look: Look
    ) -> None:
        """Note what the commit of this system will write: it decides over the others. Durable."""
        rows: list[Any] = []
        for name, edits in changes.items():
            entity = schema.by_name[name]
            if entity.is_keyless:
                rows += _counts(name, edits, look)
                continue
            sides: dict[str, list[Any]] = {}
            for at, listed in ((0, edits.gone), (1, edits.come)):
                for row in listed:
                    sides.setdefault(str(key_of(entity, row)), [None, None, row])[at] = row
            rows += [
                [name, doc.key_document(key_of(entity, each)), _digest(old), _digest(new)]
                for old, new, each in sides.values()
            ]
        said = {"source": source, "rows": rows, "systems": [*self.systems]}
        self._put(transaction, write(said), _PENDING)
        self._held[transaction] = os.open(self._path(transaction, _PENDING), os.O_RDONLY)
        fcntl.flock(self._held[transaction], fcntl.LOCK_EX)

    def decide(self, transaction: str) -> None:
        """The transaction is to be committed in every system, whatever happens. Durable."""
        self._put(transaction, write([*self.systems]), "")
        self._release(transaction)

    def is_decided(self, transaction: str) -> bool:
        """True where the transaction is to be committed."""
        return self._path(transaction).exists()

    def forget(self, transaction: str) -> None:
        """It holds in every system, or in none."""
        self._release(transaction)
        with contextlib.suppress(FileNotFoundError):
            self._path(transaction).unlink()

    def reap(
        self,
        prepared: Iterable[str],
        lock: Callable[[int], bool],
        end: Callable[[str, str], object],
        unlock: Callable[[int], object],
    ) -> None:
        """The transactions of gates that are gone are ended in one system, as they were decided.

        Others may still have to: each is forgotten once all systems are open (`forget_ended`).
        """
        for name in prepared:
            number = number_of(name)
            if number is None or number == self.number or not lock(number):
                continue  # nobody's, or its gate is at work
            try:
                end("COMMIT" if self.is_decided(name) else "ROLLBACK", name)
                self._ended.add(name)
            finally:
                unlock(number)

    def forget_ended(self) -> None:
        """Every system is open: what was ended in all that it lay in holds there, or nowhere."""
        for each in self._ended:
            path = self._path(each)
            if path.exists() and {*read(path.read_bytes(), str(path))} <= {*self.systems}:
                self.forget(each)

    def settle(self, source: str, look: Look) -> None:
        """Decide what gates that are gone had proposed. `StorageError` where nobody can know."""
        for path in sorted(self._folder.glob(f"*{_PENDING}")):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue  # its gate is at work
            finally:
                os.close(descriptor)
            document = read(path.read_bytes(), str(path))
            if document["source"] == source:
                self._settle(path, document, look)

    def _settle(self, path: Path, document: Any, look: Look) -> None:
        found = set[str]()
        for name, key, old, new in document["rows"]:
            there: Any = (
                look.count(name, key) if isinstance(key, str)
                else _digest(look.row(name, doc.key_from(key)))
            )  # fmt: skip
            found.add(_THERE if there == new else _NOT_THERE if there == old else "other")
        if len(found) > 1 or "other" in found:
            raise StorageError(
                f"{path}: nobody knows whether this transaction was committed in the SQLite file: "
                "somebody wrote the same rows since. Look at both systems, then remove the file, "
                f"or rename it to {path.stem} to have the others committed"
            )
        if found == {_THERE}:
            decided = write(document["systems"])
            write_atomically(path.with_suffix(""), decided, durable=True)
        path.unlink()
        sync_folder(self._folder)

    def _release(self, transaction: str) -> None:
        descriptor = self._held.pop(transaction, None)
        if descriptor is not None:
            os.close(descriptor)
            self._path(transaction, _PENDING).unlink()

    def _put(self, transaction: str, content: bytes, suffix: str) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            write_atomically(self._path(transaction, suffix), content, durable=True)
        except OSError as error:
            raise StorageError(f"{self._folder}: cannot be written: {error.strerror}") from error

    def _path(self, transaction: str, suffix: str = "") -> Path:
        return self._folder / f"{transaction.replace(':', '-')}{suffix}"


def _counts(name: str, edits: Edits, look: Look) -> Iterator[list[Any]]:
    """Each content with its number of rows before and after."""
    moved = Counter(row_digest(row) for row in edits.come)
    moved.subtract(row_digest(row) for row in edits.gone)
    for digest, change in moved.items():
        if change:
            before = look.count(name, digest)
            yield [name, digest, before, before + change]


def _digest(row: Mapping[str, Any] | None) -> str | None:
    if row is None:
        return None
    content = write(doc.fields_document(tuple(sorted(row.items()))))
    return hashlib.sha256(content).hexdigest()


def number_of(transaction: str) -> int | None:
    """The number of the gate that made the transaction; None of one that no gate made."""
    prefix, _, rest = transaction.partition(":")
    number = rest.partition(":")[0]
    return int(number) if prefix == PREFIX and number.isascii() and number.isdigit() else None
