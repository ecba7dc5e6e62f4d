"""A Roundup tracker in a process of its own: put back by its files, proven by rows and files.

The tracker is made from the pack's home and seed when the sandbox starts; then its files are the
pristine image, kept in the evaluator's memory only, like the evaluator's account. The server opens
the database anew for each request, so that a reset need not stop it: the database folder is put
beside, filled, and swapped in. A server that hangs or is gone is replaced, and the image with it.

The proof compares names, kinds, modes and contents of all files of the home with the image; it
uses nothing that captures state.

The server is a child process (`TrackerProcess`): started, asked how busy it is, and ended.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

import httpx

from statediff.capture.feed import Feed
from statediff.capture.source import Source
from statediff.errors import SandboxError
from statediff.packs import PackSource
from statediff.systems.base.folders import make_folder, remove
from statediff.systems.base.images import (
    Difference,
    Image,
    StoredFile,
    image_digest,
    image_of,
    write_image,
)
from statediff.systems.base.served import ServerProcess
from statediff.systems.base.waiting import STALL_SECONDS
from statediff.systems.hosted.folder import load_seed
from statediff.systems.hosted.home import POLL_SECONDS, ServedHome
from statediff_trackers.roundup.api import ApiAccount, RoundupApiSource, api_types
from statediff_trackers.roundup.drift import (
    DATABASE,
    described,
    with_password,
    without_traces_of_readers,
)
from statediff_trackers.roundup.feed import RoundupFeed
from statediff_trackers.roundup.source import RoundupSource


class TrackerProcess(ServerProcess):
    """The server of one tracker: how busy it is, and how it stores a password."""

    def __init__(self) -> None:
        super().__init__("statediff_trackers.roundup.server", "the tracker")
        self.port = 0

    def start(self, order: dict[str, Any], stall_seconds: float = STALL_SECONDS) -> dict[str, Any]:
        """It has built its tracker and listens on `port`. `SandboxError` with its last word."""
        answer = super().start(order, stall_seconds)
        self.port = int(answer["port"])
        return answer

    def stored(self, password: str) -> str:
        """How the tracker stores a password. `SandboxError` if it does not say so."""
        answer = self.ask({"password": password})
        if answer is None:
            raise SandboxError("the tracker's server does not answer: reset the sandbox again")
        return str(answer["stored"])


AGENT: Final = "robin"
EVALUATOR: Final = "auditor"
ITEMS: Final = ("file", "issue", "msg", "user")
_CACHE: Final = "__pycache__"
_IDLE_SECONDS: Final = 0.5


class EmbeddedTracker(ServedHome):
    """A `System`: a Roundup tracker that serves its REST interface on loopback."""

    FILES: ClassVar[Mapping[str, bool]] = {"home": True, "seed": True}
    LOOKS: ClassVar[frozenset[str]] = frozenset({"roundup-api"})
    METHOD = "sha256 of every file of the tracker's home, with its name and mode"
    DATABASE = DATABASE

    def __init__(self, source: PackSource, looks: tuple[PackSource, ...], folder: Path) -> None:
        self.process = TrackerProcess()
        super().__init__(source.name, "the tracker", self.process, folder)
        self._pack = source
        self._looks = tuple(look.name for look in looks)
        self._seed = read_seed(source.files["seed"])
        self._passwords: dict[str, str] = {}
        self._sources: tuple[Source, ...] = ()

    @property
    def url(self) -> str:
        return f"http://{AGENT}:{self._passwords[AGENT]}@127.0.0.1:{self.process.port}/helpdesk/"

    @property
    def account(self) -> ApiAccount:
        """The evaluator's own, which no agent is given."""
        base = f"http://127.0.0.1:{self.process.port}/helpdesk/"
        return ApiAccount(base, EVALUATOR, self._passwords[EVALUATOR])

    def sources(self) -> tuple[Source, ...]:
        return self._sources

    def feeds(self) -> tuple[Feed, ...]:
        """The feed that sees every commit of the tracker's database."""
        read = self._sources[0]
        return (RoundupFeed(read, self.home),) if isinstance(read, RoundupSource) else ()

    def unplug(self, source: str) -> None:
        """The server is killed, and for the tracker itself its database is removed too.

        A server without its database answers, and what it answers would be read as a change.
        """
        self.process.kill()
        if source == self.source:
            remove(self.home / DATABASE)
            self._own.database.is_unplugged = True

    def reset(self) -> None:
        """The home is the pristine image; the server that serves it answers."""
        self._own.database.is_unplugged = False
        if not self._is_idle():
            # It is gone, it hangs, or a request that began before the reset would end after it.
            self.process.kill()
            self._build()
            return
        # The agent's account lives for one trial: what an earlier agent left running is locked out.
        self._passwords[AGENT] = secrets.token_urlsafe(18)
        stored = self.process.stored(self._passwords[AGENT])
        self._image = with_password(self._image, AGENT, stored)
        self._digest = image_digest(self._image)
        self._put_back()

    def _is_idle(self) -> bool:
        deadline = time.monotonic() + _IDLE_SECONDS
        while waiting := self.process.in_progress():
            if time.monotonic() >= deadline:
                return False
            time.sleep(POLL_SECONDS)
        return waiting == 0

    def _build(self) -> None:
        """A tracker made anew, in a folder that holds nothing else; its files are the image."""
        try:
            remove(self.folder)
            make_folder(self.folder)
            shipped = image_of(self._pack.files["home"])
            # What Python leaves beside a program that somebody looked at is no part of the pack.
            own = {name: file for name, file in shipped.items() if _CACHE not in name.split("/")}
            write_image(own, self.home)
        except OSError as error:
            raise SandboxError(
                f"{self.source}: the tracker could not be made at {self.home}: {error}"
            ) from error
        self._passwords = {login: secrets.token_urlsafe(18) for login in (AGENT, EVALUATOR)}
        order = {
            "home": str(self.home),
            "seed": self._seed,
            "passwords": self._passwords,
            "secret": secrets.token_hex(32),
        }
        self.process.start(order)
        try:
            self._ask_once()
            self._image = without_traces_of_readers(image_of(self.home))
            self._digest = image_digest(self._image)
            self._sources = self._read()
        except BaseException:
            self.process.kill()
            raise

    def _ask_once(self) -> None:
        """The files that the tracker makes for its first request are there."""
        try:
            with self.account.client() as client:
                client.get("status?@page_size=1").raise_for_status()
        except httpx.HTTPError as error:
            raise SandboxError(f"the tracker does not answer: {error}") from error
        self._is_idle()

    def _read(self) -> tuple[Source, ...]:
        own = frozenset({AGENT, "anonymous"})
        self._own = read = RoundupSource(self.source, self.home, self._pack.refinement(), own)
        types = api_types(read.schema(), ITEMS)
        looks = (RoundupApiSource(name, self.account, types) for name in self._looks)
        return (read, *looks)

    def _without_readers(self, found: Image) -> dict[str, StoredFile]:
        return without_traces_of_readers(found)

    def _differences(self, found: Image) -> Iterator[Difference]:
        return described(self._image, found)

    @property
    def _entities(self) -> int:
        return len(self._seed["users"]) + len(self._seed["issues"])


def read_seed(path: Path) -> dict[str, Any]:
    """The story in a seed file, with at least `users` and `issues`. Raises `SandboxError`."""
    seed = load_seed(path)
    if not isinstance(seed, dict) or not {"users", "issues"} <= seed.keys():
        raise SandboxError(f"{path}: expected `users` and `issues`, found neither or one of them")
    return seed
