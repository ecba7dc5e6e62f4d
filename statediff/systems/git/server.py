"""A git repository behind a server in a container: agents reach it over smart HTTP only.

The bare repository is a folder of this machine that the server alone gets to see and write. So it
is put back, proven and read as the embedded one is (`sandbox.repository`), by the same code, and
never through the server: what the server or git's own programs in it say is no evidence.

Its pushes go one after the other, and each leaves what the refs were in a folder beside the
repository, out of the reach of requests: that is the feed (`sources.git_feed`).

An agent's account lives for one trial. The file of users is mounted read-only and read at every
request, so that a new password locks out whatever an earlier agent left running. A push that began
before the reset would end after it: then the server is started anew.
"""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from typing import Final

from statediff.capture.feed import Feed
from statediff.packs import PackSource
from statediff.systems.base.folders import make_folder, remove
from statediff.systems.base.receipt import Drift, SourceProof
from statediff.systems.containers.engine import MEBIBYTE, Shared
from statediff.systems.containers.images import image_tag
from statediff.systems.containers.served import FolderServer
from statediff.systems.files.filetree import Files, Leaf, digest_of
from statediff.systems.git.feed import GitServerFeed
from statediff.systems.git.sandbox import EmbeddedRepository

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
        """What tells every push of a run."""
        return (GitServerFeed(self._read, self.place, self.folder / _COURSE),)

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

    def _scan(self) -> Files:
        """What the server keeps of pushes is no part of the repository; a reset empties it."""
        return {p: f for p, f in super()._scan().items() if not p.startswith(f"{_COURSE}/")}

    def _admit(self, password: str) -> None:
        """Nobody but the agent with this password is let in, once the image is restored."""
        self._password = password
        users = Leaf.of(f"{AGENT}:{password}\n".encode())
        self.image = {
            **self.image, _ACCESS: Leaf.folder(), _USERS: users, _COURSE: Leaf.folder(),
        }  # fmt: skip
        self.expected = {path: leaf.summary() for path, leaf in self.image.items()}
        self.digest = digest_of(self.expected)

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
