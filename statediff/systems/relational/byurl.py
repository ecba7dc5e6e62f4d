"""A database of a server that runs already: its trials have copies, and it is never written.

1. `start`: the database at the URL is copied within its server, once to a pristine copy and once to
   the one that trials use. Both are read by our own capture: where the copy is not what it was
   copied from, no trial begins.
2. `reset`: sessions in the trials' database are ended; it is dropped and copied anew.
3. `verify`: our own capture, row by row, against the base (`base.captured`).

The account of the URL makes and drops databases. An agent gets `agent_url`, else that account; the
name of the trials' database takes the place of the one in the URL. Copies of processes that are
gone are dropped by the next start.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from statediff.capture.feed import Feed
from statediff.capture.source import Source
from statediff.errors import SandboxError
from statediff.model.values import Key, printable
from statediff.packs import PackSource
from statediff.systems.base.captured import Amount, CapturedBase, digest_of
from statediff.systems.base.known_bases import KnownBase
from statediff.systems.base.protocol import Drift, SourceProof

STEP_SECONDS: Final = 600.0
_POLL_SECONDS: Final = 0.05
_HOST: Final = hashlib.sha256(platform.node().encode()).hexdigest()[:6]
OURS: Final = "statediff_"
_COPY: Final = re.compile(rf"{OURS}([0-9a-f]{{6}})_([0-9]+)_[0-9a-f]{{6}}(?:_base)?")
OF_THE_SERVER: Final = frozenset(
    {"db.database", "db.role", "db.membership", "db.setting", "db.grant"}
)
"""Types that a copy of one database within its server does not carry."""


class DatabaseByUrl(ABC):
    """A `System`: copies of one database of a server that runs already."""

    FILES: ClassVar[Mapping[str, bool]] = {}
    TEXTS: ClassVar[Mapping[str, bool]] = {"url": True, "agent_url": False}
    LOOKS: ClassVar[frozenset[str]] = frozenset()
    FAILURES: ClassVar[tuple[type[Exception], ...]]
    """All that a statement or a connection may raise."""
    ACCOUNT_VARIABLE: ClassVar[str]
    """The variable of the environment that holds the password of an account."""

    def __init__(self, source: PackSource, looks: tuple[PackSource, ...], folder: Path) -> None:
        self.source = source.name
        self._pack = source
        self._url = source.texts["url"]
        self.original = unquote(urlsplit(self._url).path.removeprefix("/"))
        if "://" not in self._url or not self.original:
            raise source.problem("url", "expected the URL of a database, with its name")
        self._refined = source.refinement()
        name = name_of_copy()
        self.trials, self.pristine = name, f"{name}_base"
        self._base, self._known = CapturedBase(source.name, _is_not_of_ours), KnownBase(source)
        self._base_digest, self._is_started = "", False
        self._kept = ""
        """A copy of another sandbox's trial, to begin with; else the original is copied."""

    # ---------------------------------------------------------------- what a server does

    @abstractmethod
    def admin(self) -> AbstractContextManager[Any]:
        """A connection with the account of the URL, to the database that is copied."""

    @abstractmethod
    def copy(self, admin: Any, name: str, to: str) -> None:
        """The database `to` is made as a copy of the one called `name`."""

    @abstractmethod
    def drop(self, admin: Any, name: str) -> None:
        """There is no such database, and nobody is in it."""

    @abstractmethod
    def databases(self, admin: Any) -> list[str]:
        """The names of all databases that the account sees."""

    @abstractmethod
    def busy(self, admin: Any) -> str | None:
        """Why the trials' database is not at rest; None where it is."""

    @abstractmethod
    def reader(self, url: str) -> Source:
        """The source that reads the database at the URL."""

    @abstractmethod
    def cause_of(self, error: Any) -> str:
        """The words of the server, fit for a message."""

    # ---------------------------------------------------------------- a system

    @property
    def url(self) -> str:
        """The agent's URL, with the password that the environment holds for the account.

        An agent's own environment has no password of ours.
        """
        if (given := self._pack.texts.get("agent_url")) is not None:
            return self._at(given)
        parts, secret = urlsplit(self._url), os.environ.get(self.ACCOUNT_VARIABLE, "")
        if parts.username and parts.password is None and secret:
            host = parts.netloc.rpartition("@")[2]
            account = f"{parts.username}:{quote(secret, safe='')}@{host}"
            return self._at(urlunsplit(parts._replace(netloc=account)))
        return self._at(self._url)

    def start(self) -> None:
        if self._is_started:
            return
        with self._explained("copied") as admin:
            self._is_started = True
            for name in filter(_is_left_over, self.databases(admin)):
                self.drop(admin, name)
            self.copy(admin, self._kept or self.original, self.pristine)
            if self._kept:
                self.drop(admin, self._kept)
            self.copy(admin, self.pristine, self.trials)
        copied = self._base.look(self.sources())
        original = copied if self._kept else self._base.look([self.reader(self._url)])
        unlike = list(self._base.differences(original, copied, OF_THE_SERVER))
        if unlike:
            raise SandboxError(
                f"{self.source}: the copy of {self.original} is not what it was copied from; it "
                f"was changed meanwhile, or cannot be copied: {unlike[0]}"
            )
        self._base.keep(copied)
        amounts = self._base.amounts(original, OF_THE_SERVER)
        self._base_digest = digest_of(amounts)
        if not self._kept:
            self._known.require(amounts)

    @property
    def base_digest(self) -> str:
        return self._base_digest

    def reset(self) -> None:
        with self._explained("put back") as admin:
            self.drop(admin, self.trials)
            self.copy(admin, self.pristine, self.trials)

    def verify(self) -> tuple[SourceProof, tuple[Drift, ...]]:
        return self._base.verify(self.sources())

    def sources(self) -> tuple[Source, ...]:
        return (self.reader(self._at(self._url)),)

    def feeds(self) -> tuple[Feed, ...]:
        return ()

    def unsettled(self, deadline: float) -> str | None:
        """Waits until no statement runs and no transaction is open; why one is."""
        try:
            with self.admin() as admin:
                while (cause := self.busy(admin)) is not None:
                    if time.monotonic() >= deadline:
                        return cause
                    time.sleep(_POLL_SECONDS)
        except self.FAILURES as error:
            return self.cause_of(error)
        return None

    def keep(self, to: Path) -> None:
        """A copy of the trials' database is there, and the place says how it is called."""
        name = f"{self.trials.rpartition('_')[0]}_{secrets.token_hex(3)}"
        with self._explained("copied") as admin:
            self.copy(admin, self.trials, name)
        to.write_text(name)

    def begin_at(self, kept: Path) -> None:
        """The base is the copy of which the place says the name."""
        name = kept.read_text("utf-8", "replace")
        if not _parts_of_ours(name):
            raise SandboxError(
                f"{self.source}: expected the name of a kept copy, found {printable(name[:100])}"
            )
        self._kept = name

    def unplug(self, source: str) -> None:
        """The trials' database is gone until the next reset."""
        with self._explained("dropped") as admin:
            self.drop(admin, self.trials)

    def stop(self) -> None:
        """Nothing of ours is left on the server."""
        if not self._is_started:
            return
        self._is_started = False
        self._known.release(self._amounts_now())
        with self._explained("dropped") as admin:
            self.drop(admin, self.trials)
            self.drop(admin, self.pristine)

    def _amounts_now(self) -> Mapping[str, Amount] | None:
        """The amounts that the database itself holds; None where that cannot be seen."""
        try:
            found = self._base.look([self.reader(self._url)])
        except SandboxError:
            return None
        return self._base.amounts(found, OF_THE_SERVER)

    def _at(self, url: str) -> str:
        return urlunsplit(urlsplit(url)._replace(path=f"/{quote(self.trials, safe='')}"))

    @contextmanager
    def _explained(self, what: str) -> Iterator[Any]:
        try:
            with self.admin() as admin:
                yield admin
        except self.FAILURES as error:
            raise SandboxError(
                f"{self.source}: {self.original} cannot be {what}: {self.cause_of(error)}"
            ) from error


def name_of_copy() -> str:
    """A name that no database has; once this process is gone, the next start drops it."""
    return f"{OURS}{_HOST}_{os.getpid()}_{secrets.token_hex(3)}"


def _is_not_of_ours(type_name: str, key: Key) -> bool:
    """Rows that name copies come and go with the sandboxes of others."""
    return not (
        type_name in OF_THE_SERVER and any(isinstance(part, str) and OURS in part for part in key)
    )


def _parts_of_ours(name: str) -> re.Match[str] | None:
    """The parts of the name, if a process of this machine made the copy."""
    found = _COPY.fullmatch(name)
    return found if found is not None and found[1] == _HOST else None


def _is_left_over(name: str) -> bool:
    """True if it is a copy of a process of this machine that is gone."""
    found = _parts_of_ours(name)
    if found is None:
        return False
    try:
        os.kill(int(found[2]), 0)
    except (OSError, OverflowError) as error:
        return isinstance(error, ProcessLookupError)
    return False
