"""A git repository behind a server in a container: agents reach it over smart HTTP only.

The bare repository is a folder of this machine that the server alone gets to see and write. So it
is put back, proven and read as the embedded one is (`git.sandbox`), by the same code, and
never through the server: what the server or git's own programs in it say is no evidence.

An agent's account lives for one trial. The file of users is mounted read-only and read at every
request, so that a new password locks out whatever an earlier agent left running. A push that began
before the reset would end after it: then the server is started anew.

The feed (`GitServerFeed`) shows every state that pushes left. The server lets pushes in one after
the other and keeps, in a folder beside the repository where no request reaches, what the files of
the refs were before and after each (`recipes/git/serve.sh` of
containers). Objects stay, whatever refs
lead to them, for nothing collects garbage; so the state after a push is what its refs lead to, read
with the code that scans. A push is known by the moves of its refs, which anyone who pushed knows
too.

What the feed cannot see: who pushed; in which order one push moved several refs; pushes that were
refused, which leave nothing. Refs that moved otherwise than by a push, a push that was cut off, and
a reset meanwhile are gaps. A repository that the agent holds as a folder has no such feed: its
reflogs are the agent's to write, and deleting a branch deletes its reflog.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from statediff_containers.engine import MEBIBYTE, Shared
from statediff_containers.images import image_tag
from statediff_containers.served import FolderServer

from statediff.capture.feed import Feed, Seen
from statediff.capture.source import Clock, SourceUnavailable
from statediff.model.explanation import by_run
from statediff.model.readings import Transaction
from statediff.model.state import ChunkStore, State
from statediff.packs import PackSource
from statediff.systems.base.folders import make_folder, remove
from statediff.systems.base.protocol import Drift, SourceProof
from statediff.systems.files.leaves import Files, Leaf
from statediff.systems.files.tree import Folder, NotRead
from statediff_git.refs import Refs, moves, read_refs
from statediff_git.sandbox import EmbeddedRepository
from statediff_git.source import GitSource

MAX_PUSHES: Final = 1_000
MAX_NAMES: Final = 200
"""Refs of one push by whose move it is known."""
_LOCK: Final = "lock"
_CUT_OFF: Final = "a push was cut off, or is still going on"
_MOVED: Final = by_run("its refs moved otherwise than by a push")


@dataclass(frozen=True)
class _Start:
    """The state that `attach` found."""

    refs: Refs
    pushes: int
    resets: int


class GitServerFeed:
    """A `Feed` of the bare repository at `place`, whose server keeps its pushes in `course`.

    `resets` counts how often the repository was put back, which forgets all pushes.
    """

    def __init__(
        self, read: GitSource, place: Path, course: Path, resets: Callable[[], int]
    ) -> None:
        self._read = read
        self._place = place
        self._course = course
        self._resets = resets
        self._start: _Start | None = None

    @property
    def source(self) -> str:
        return self._read.name

    def attach(self) -> None:
        self.detach()
        resets = self._resets()
        pushes, is_cut_off = divmod(len(self._pushes()), 2)
        if is_cut_off:
            raise SourceUnavailable(_CUT_OFF)
        self._start = _Start(_refs(self._place), pushes, resets)

    def finish(self, store: ChunkStore, clock: Clock, before: State) -> Seen:
        if self._start is None:
            raise SourceUnavailable(f"no feed of {self.source} is attached")
        transactions: list[Transaction] = []
        if self._resets() != self._start.resets:
            return Seen((), "the repository was put back meanwhile")
        earlier = self._start.refs
        pushes = self._pushes()
        for number in range(self._start.pushes, (len(pushes) + 1) // 2):
            halves = [f"{number:06d}.{moment}" for moment in ("before", "after")]
            if not set(halves) <= pushes:
                return Seen(tuple(transactions), by_run(_CUT_OFF))
            if number - self._start.pushes == MAX_PUSHES:
                return Seen(tuple(transactions), by_run(f"there are more than {MAX_PUSHES} pushes"))
            start, end = (_refs(self._course / name) for name in halves)
            if start != earlier:
                return Seen(tuple(transactions), _MOVED)
            if end != earlier:
                name = f"{self.source}/{len(transactions) + 1}"
                state = self._read.at(end, store, before)
                position, names = f"push {number + 1}", moves(earlier, end)[:MAX_NAMES]
                transactions.append(Transaction(name, self.source, position, None, state, names))
            earlier = end
        return Seen(tuple(transactions), None if _refs(self._place) == earlier else _MOVED)

    def detach(self) -> None:
        self._start = None

    def _pushes(self) -> frozenset[str]:
        """The names of the pushes that the server kept. Raises `SourceUnavailable`."""
        try:
            return frozenset(entry.name for entry in self._course.iterdir()) - {_LOCK}
        except OSError as error:
            raise SourceUnavailable(
                f"what the server kept of pushes cannot be read: {error.strerror}"
            ) from error


def _refs(place: Path) -> Refs:
    try:
        with Folder.open(place) as folder:
            return read_refs(folder)
    except NotRead as error:
        raise SourceUnavailable(str(error)) from error


AGENT: Final = "agent"
IMAGE: Final = "git"
SERVER: Final = "lighttpd"
_ACCESS: Final = "access"
_USERS: Final = f"{_ACCESS}/users"
_COURSE: Final = "course"
_IDLE_SECONDS: Final = 0.5


class GitHttpServer(EmbeddedRepository):
    """A `System` of kind `git-http`: the repository of `git`, served from a container."""

    def __init__(self, source: PackSource, looks: tuple[PackSource, ...], folder: Path) -> None:
        super().__init__(source, looks, folder)
        self._server = FolderServer(image_tag(IMAGE), source.name, SERVER, 256 * MEBIBYTE)
        self._resets = 0
        self._admit(secrets.token_urlsafe(18))

    @property
    def url(self) -> str:
        """With the agent's account of this trial in it."""
        host = f"127.0.0.1:{self._server.port}"
        return f"http://{AGENT}:{self._password}@{host}/git/repository.git"

    def start(self) -> None:
        if self._server.is_started:
            return
        make_folder(self.folder)
        super().reset()
        self._serve()

    def stop(self) -> None:
        self._server.stop()

    def reset(self) -> None:
        """The repository is as in the base, under a new password, and the server serves it."""
        self._resets += 1
        self._admit(secrets.token_urlsafe(18))
        if self._server.at_work(time.monotonic() + _IDLE_SECONDS) is not None:
            self._server.stop()
        super().reset()
        self._server.give(self.folder)
        given = (self.place, self.folder / _ACCESS, self.folder / _COURSE)
        if not self._server.sees(*given):
            self._serve()

    def verify(self) -> tuple[SourceProof, tuple[Drift, ...]]:
        proof, drift = super().verify()
        cause = self._server.at_work(time.monotonic() + _IDLE_SECONDS)
        if cause is not None:
            drift = (*drift, Drift(self.source, "its server", "idle", cause))
        return proof, drift

    def feeds(self) -> tuple[Feed, ...]:
        """The feed that tells every push of a run."""
        course = self.folder / _COURSE
        return (GitServerFeed(self._read, self.place, course, lambda: self._resets),)

    def unsettled(self, deadline: float) -> str | None:
        """Waits until the server works on no request and no git command holds a lock.

        A server that has ended works on nothing, and writes no more.
        """
        busy = None if self._server.has_ended else self._server.at_work(deadline)
        return busy or super().unsettled(deadline)

    def failure(self) -> str | None:
        return self._server.failure()

    def unplug(self, source: str) -> None:
        """The server is killed, and the repository gone, until the next reset."""
        self._server.stop()
        remove(self.folder)
        self._read.is_unplugged = True

    def begin_at(self, kept: Path) -> None:
        super().begin_at(kept)
        self._hold({p: f for p, f in self.image.items() if not p.startswith(f"{_COURSE}/")})

    def _scan(self) -> Files:
        """Scan without the server's record of pushes, no part of the state; a reset empties it."""
        return {p: f for p, f in super()._scan().items() if not p.startswith(f"{_COURSE}/")}

    def _admit(self, password: str) -> None:
        """Nobody but the agent with this password is let in, once the image is restored."""
        self._password = password
        users = Leaf.of(f"{AGENT}:{password}\n".encode())
        folders = {_ACCESS: Leaf.folder(), _COURSE: Leaf.folder()}
        self._hold({**self.image, **folders, _USERS: users})

    def _serve(self) -> None:
        self._server.give(self.folder)
        self._server.start(
            (
                Shared(self.place, "/srv/repository.git", is_read_only=False),
                Shared(self.folder / _ACCESS, "/srv/access"),
                Shared(self.folder / _COURSE, "/srv/course", is_read_only=False),
            ),
            {},
        )
