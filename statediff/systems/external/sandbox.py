"""A system of somebody's own: commands start, reset and end it; our capture proves the reset.

1. `start`: the system is locked, so that no other run uses it; `up` and `reset` have ended, and
   every source can be read. What the sources then show is the base. It must be the one that an
   earlier command kept (`base.known_bases`), and the one of the `base:` file, where there is one.
2. `reset`: the command `reset` has ended.
3. `verify`: the sources are read and compared with the base, row by row (`base.captured`). What a
   reset did not put back is drift with a name, and no trial begins.

There is one such system: it is where its URLs say. Nothing shows what is in flight in it, so that
anyone who waits for it to come to rest waits for a fixed time.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Final

from statediff.capture.feed import Feed
from statediff.capture.source import Clock, Source, SourceUnavailable
from statediff.contract.parts import seconds
from statediff.errors import InputError, SandboxError, UnprovenBase
from statediff.model.readings import SourceCapture
from statediff.model.schema import Schema
from statediff.model.state import ChunkStore, State
from statediff.packs import PackSource
from statediff.systems.base.captured import CapturedBase, digest_of
from statediff.systems.base.known_bases import KnownBase
from statediff.systems.base.live import LiveSource
from statediff.systems.base.plugin import StateInput, StateReader
from statediff.systems.base.protocol import Drift, SourceProof
from statediff.systems.base.reaper import Reaper
from statediff.systems.base.registry import state_reader, state_url_reader
from statediff.systems.base.waiting import Patience, pids_with
from statediff.systems.external.commands import clean_up, lock, run_command

SETTLE_SECONDS: Final = 0.3
BASE_FORM: Final = "statediff.base/1"
_POLL_SECONDS: Final = 0.2
_STARTED_BY: Final = "STATEDIFF_STARTED_BY"
"""The variable by which what `up` leaves in the background is known again."""


class ExternalSystem:
    """A `System`: one or several sources, put back together by the commands of the first."""

    FILES: ClassVar[Mapping[str, bool]] = {"base": False}
    TEXTS: ClassVar[Mapping[str, bool]] = {
        "url": True,
        "agent_url": False,
        "up": False,
        "reset": True,
        "down": False,
        "timeout": False,
    }
    LOOKS: ClassVar[frozenset[str]] = frozenset({"external"})

    def __init__(self, source: PackSource, looks: tuple[PackSource, ...], folder: Path) -> None:
        self.source = source.name
        self._pack = source
        self._looks = looks
        for look in looks:
            if set(look.texts) - {"url", "agent_url"} or "url" not in look.texts:
                raise look.problem("kind", f"{look.name!r} is `of` a system: it takes a `url` only")
        limit = source.texts.get("timeout")
        self._seconds = None if limit is None else float(seconds(limit))
        """The limit of each command, and of the wait for what `up` began; None: as long as they
        work.
        """
        self._word = secrets.token_hex(8)
        self._sources = tuple(_ExternalSource(each) for each in (source, *looks))
        self._base = CapturedBase(source.name)
        self._known = KnownBase(source, looks)
        self._lock: int | None = None
        self._reaper: Reaper | None = None
        self._is_down = False
        self._base_digest = ""

    @property
    def base_digest(self) -> str:
        return self._base_digest

    @property
    def url(self) -> str:
        return agent_url(self._pack)

    @property
    def look_urls(self) -> Mapping[str, str]:
        """The URLs at which an agent reaches the further sources."""
        return {look.name: agent_url(look) for look in self._looks}

    @property
    def digests(self) -> Mapping[str, str]:
        """`SOURCE.TYPE` → the digest of what it is in the base."""
        return self._base.digests

    def start(self) -> None:
        if self._lock is not None:
            return
        self._lock = lock(self.source, f"{self._pack.folder.resolve()} {self.source}")
        if "down" in self._pack.texts:
            told = self._pack.texts["down"], str(self._pack.folder), str(self._seconds or "")
            self._reaper = Reaper(clean_up, self.source, *told)
        self._run("up")
        self._await()
        shown = self._base.look(self._sources)
        self._base.keep(shown)
        self._require_pinned()
        amounts = self._base.amounts(shown)
        self._base_digest = digest_of(amounts)
        self._known.require(amounts)

    def reset(self) -> None:
        if self._is_down:
            self._run("up")
            self._is_down = False
        for source in self._sources:
            source.is_unplugged = False
        self._run("reset")

    def verify(self) -> tuple[SourceProof, tuple[Drift, ...]]:
        return self._base.verify(self._sources)

    def sources(self) -> tuple[Source, ...]:
        return self._sources

    def feeds(self) -> tuple[Feed, ...]:
        return ()

    def unsettled(self, deadline: float) -> str | None:
        """Nothing shows what is in flight: it gets its time."""
        time.sleep(max(0.0, min(SETTLE_SECONDS, deadline - time.monotonic())))
        return None

    def unplug(self, source: str) -> None:
        """The source cannot be read, and the system is down where a command ends it."""
        for each in self._sources:
            each.is_unplugged = each.is_unplugged or each.name == source
        if "down" in self._pack.texts:
            self._run("down")
            self._is_down = True

    def stop(self) -> None:
        handle, self._lock = self._lock, None
        if handle is None:
            return
        try:
            self._run("down")
        finally:
            self._known.release()
            os.close(handle)
            if self._reaper is not None:
                self._reaper.release()
                self._reaper = None

    def _run(self, key: str) -> None:
        if (command := self._pack.texts.get(key)) is not None:
            known = {**os.environ, _STARTED_BY: self._word}
            run_command(f"{self.source}: {key}", command, self._pack.folder, self._seconds, known)

    def _await(self) -> None:
        """It was reset and can be read; what was just started may take a while to answer."""
        said = ""
        began, patience = time.monotonic(), Patience(self._pids, lambda: said)
        while True:
            try:
                self._run("reset")
                for source in self._sources:
                    if (cause := source.trouble()) is not None:
                        raise SandboxError(f"{source.name}: cannot be read: {cause}")
                return
            except SandboxError as error:
                said = str(error)
                is_late = self._seconds is not None and time.monotonic() - began >= self._seconds
                if "up" not in self._pack.texts or is_late or patience.is_over() is not None:
                    raise
                time.sleep(_POLL_SECONDS)

    def _pids(self) -> list[int]:
        return pids_with(_STARTED_BY, self._word)

    def _require_pinned(self) -> None:
        """The base is the one that was written down, where one was."""
        path = self._pack.file("base")
        if path is None or not path.exists():
            return
        pinned = read_base(path)
        found = self._base.digests
        unlike = [n for n in sorted(pinned.keys() | found.keys()) if pinned.get(n) != found.get(n)]
        if unlike:
            raise UnprovenBase(
                f"{self.source}: `reset` does not bring back the base of {path}: "
                f"{', '.join(unlike[:5])}: not as pinned. If the base was "
                "meant to change, write it anew with `statediff sandbox pin`"
            )


class _ExternalSource:
    """One source, read where it is."""

    def __init__(self, source: PackSource) -> None:
        self.name = source.name
        self.is_unplugged = False
        self._pack = source
        self._refined = source.refinement()
        self._opened: LiveSource | None = None

    def schema(self) -> Schema:
        return self._live().schema()

    def read(self, store: ChunkStore, clock: Clock, like: State | None) -> SourceCapture:
        if self.is_unplugged:
            raise SourceUnavailable("the system is down")
        return self._live().read(store, clock, like)

    def trouble(self) -> str | None:
        """Why it cannot be read now; None where it can."""
        try:
            self._live().schema()
        except (SourceUnavailable, InputError) as error:
            self._opened = None
            return str(error)
        return None

    def _live(self) -> LiveSource:
        if self._opened is None:
            reader, place = state_at(self._pack, "url")
            self._opened = LiveSource(self.name, reader, lambda: place, self._refined)
        return self._opened


def state_at(source: PackSource, key: str) -> tuple[StateReader, StateInput]:
    """The reader of the state under the key, and its place. `SourceUnavailable` without one."""
    url = source.texts[key]
    if "://" in url:
        reader = state_url_reader(url)
        if reader.path_of is None:
            shown = f"{url.partition('://')[0]}://{url.rpartition('@')[2].partition('?')[0]}"
            return reader, StateInput(Path(), shown, url=url)
        path = _normal(source.folder / reader.path_of(url))
    else:
        path, reader = _normal(source.folder / url), None
    if not path.exists():
        raise SourceUnavailable(f"nothing is at {path}")
    return reader or state_reader(path), StateInput(path, str(path))


def _normal(path: Path) -> Path:
    return Path(os.path.normpath(path.absolute()))


def agent_url(source: PackSource) -> str:
    """An agent's URL of the source: `agent_url`, else `url`; a path as the URL of its kind."""
    key = "agent_url" if "agent_url" in source.texts else "url"
    try:
        reader, place = state_at(source, key)
    except SourceUnavailable as error:
        raise SandboxError(f"{source.name}: cannot be reached: {error}") from error
    if place.url is not None:
        return place.url
    return reader.url_of(place.path)


def read_base(path: Path) -> Mapping[str, str]:
    """The digests that `sandbox pin` wrote; `InputError` where the file is something else."""
    try:
        document = json.loads(path.read_bytes())
        digests = document["digests"]
        if document["form"] != BASE_FORM or not all(isinstance(d, str) for d in digests.values()):
            raise ValueError("another form")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: expected the digests of a base: {error}") from error
    return dict(digests)


def base_document(digests: Mapping[str, str]) -> bytes:
    """The file that `read_base` reads."""
    document = {"form": BASE_FORM, "digests": dict(sorted(digests.items()))}
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()
