"""The base of a system that is where it is: kept before the first trial, for every later command.

A sandbox of files is made of its seed, and made anew from it. A system that commands put back, or
a database that is copied from a server, is what it is when somebody looks: so what it was at the
first look is kept by digest, and every later start is compared with that, in a retry, in another
process and in another command. A database whose trials have copies is looked at once more when a
command ends: where it was untouched then and is another one at the next start, its owner changed
it. Else only a person's word (`--rebase`, `sandbox pin`), or another description of the source in
the sandbox file, makes another base of it.

Records are in a folder of the user's (`XDG_STATE_HOME`, else `~/.local/state`): an isolated agent
may write the folder of a system that is a file, which is often that of the project, and never this
one. Without isolation it may; so a command that ends writes its record once more, from memory.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from statediff._version import __version__
from statediff.atomic import write_atomically
from statediff.errors import SandboxError, UnprovenBase
from statediff.packs import PackSource, SandboxPack
from statediff.systems.base.captured import Amount

FORM: Final = "statediff.known-base/1"
_SHOWN: Final = 5
_OTHERWISE: Final = (
    "No trial begins on it. Put the system back, or make `reset` do it; if it was changed on "
    "purpose, say --rebase (`run`, `mutate`, `sandbox up`)"
)


@dataclass(frozen=True)
class _Record:
    """The record of a system's base."""

    described: str
    """The digest of its description, and of the files that it names."""
    is_in_use: bool
    """A command began to use it and did not end well, or found another sandbox file at its end."""
    amounts: Mapping[str, Amount]
    is_untouched: bool = False
    """The last command looked at its end, and found what it had found at its begin."""


class KnownBase:
    """The base that was kept of the system of one source of a sandbox file.

    `require` raises where the system is another one now. A source without a file has none.
    """

    def __init__(self, source: PackSource, looks: Iterable[PackSource] = ()) -> None:
        self._source = source.name
        self._all = (source, *looks)
        self._file = None if source.place is None else Path(source.place[0].file).absolute()
        self._record: _Record | None = None
        self._content = ""

    def require(self, amounts: Mapping[str, Amount]) -> None:
        """The system is as it was kept, or is kept now. `UnprovenBase` names what is not."""
        if self._file is None:
            return
        described, known = self._description(), self._read()
        if known is not None and known.described != described and known.is_in_use:
            raise UnprovenBase(
                f"{self._source}: its description in {self._file} has changed while a command used "
                f"the system, or since one was ended. {_OTHERWISE}"
            )
        # What no command changed, its owner changed since: trials have copies of it.
        is_the_owners = known is not None and known.is_untouched and not known.is_in_use
        if known is not None and known.described == described and not is_the_owners:
            self._compare(known.amounts, amounts)
        self._record = _Record(described, True, amounts)
        self._write(self._record)
        self._content = _digest(self._file)

    def release(self, amounts: Mapping[str, Amount] | None = None) -> None:
        """Nobody uses the system any more; a sandbox file that changed meanwhile stays in doubt.

        `amounts` is what it is now, where its trials had copies: changed meanwhile, it is in doubt.

        The record is written anew from memory: without isolation, an agent may have changed it.
        """
        if self._record is None or self._file is None:
            return
        is_changed = _digest(self._file) != self._content
        with contextlib.suppress(SandboxError):
            is_untouched = amounts == self._record.amounts
            is_in_use = is_changed or (amounts is not None and not is_untouched)
            self._write(replace(self._record, is_in_use=is_in_use, is_untouched=is_untouched))
        self._record = None

    def _compare(self, known: Mapping[str, Amount], found: Mapping[str, Amount]) -> None:
        unlike = [n for n in sorted(known.keys() | found.keys()) if known.get(n) != found.get(n)]
        if unlike:
            first = unlike[0]
            there = [_words_of(amounts.get(first)) for amounts in (known, found)]
            if there[0] == there[1]:
                there[1] += " that are not all the same"
            more = f"; also {', '.join(unlike[1:_SHOWN])}" if unlike[1:] else ""
            raise UnprovenBase(
                f"{self._source}: is not in the base that was kept before its first trial: "
                f"{first}: expected {there[0]}, found {there[1]}{more}. {_OTHERWISE}"
            )

    def _description(self) -> str:
        """The digest of all that the sandbox file says of how the base is made."""
        parts: list[Any] = [__version__]
        for source in self._all:
            files = {k: _digest(path) for k, path in sorted(source.files.items())}
            parts.append([source.name, source.kind, source.types, dict(source.texts), files])
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def _read(self) -> _Record | None:
        path = place_of_base(self._file or Path(), self._source)
        try:
            document = json.loads(path.read_bytes())
            if document["form"] != FORM:
                raise ValueError("another form")
            amounts = {
                str(name): Amount(str(digest), int(rows))
                for name, (digest, rows) in document["types"].items()
            }
            return _Record(
                str(document["described"]),
                document["is_in_use"] is not False,
                amounts,
                document.get("is_untouched") is True,
            )
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UnprovenBase(
                f"{self._source}: the base that was kept cannot be read ({path}: {error}). "
                f"{_OTHERWISE}"
            ) from error

    def _write(self, record: _Record) -> None:
        path = place_of_base(self._file or Path(), self._source)
        document = {
            "form": FORM,
            "sandbox": str(self._file).encode("utf-8", "backslashreplace").decode(),
            "source": self._source,
            "described": record.described,
            "is_in_use": record.is_in_use,
            "is_untouched": record.is_untouched,
            "types": {name: list(each) for name, each in sorted(record.amounts.items())},
        }
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if path.parent.lstat().st_uid != os.geteuid():
                raise PermissionError(0, "its folder is another user's")
            write_atomically(path, (json.dumps(document, indent=1) + "\n").encode())
        except OSError as error:
            raise SandboxError(
                f"{self._source}: its base cannot be kept in {path}: {error.strerror}; name a "
                "folder that can be written with XDG_STATE_HOME"
            ) from error


def forget_bases(pack: SandboxPack) -> None:
    """The next command that uses the sandbox takes its systems as they then are."""
    for source in pack.sources:
        if source.place is not None:
            file = Path(source.place[0].file).absolute()
            place_of_base(file, source.name).unlink(missing_ok=True)


def place_of_base(file: Path, source: str) -> Path:
    """The file that keeps the base of a source of the sandbox file."""
    home = os.environ.get("XDG_STATE_HOME", "")
    folder = Path(home) if Path(home).is_absolute() else Path("~/.local/state").expanduser()
    name = hashlib.sha256(os.fsencode(f"{file.resolve()}\0{source}")).hexdigest()[:32]
    return folder / "statediff" / "bases" / f"{name}.json"


def _digest(path: Path) -> str:
    """The digest of a file's content, or the words that it is no file."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        return f"none: {type(error).__name__}"


def _words_of(amount: Amount | None) -> str:
    if amount is None:
        return "no such type"
    return "1 row" if amount.rows == 1 else f"{amount.rows} rows"
