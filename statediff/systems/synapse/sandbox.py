"""A chat on Synapse in a process of its own: put back by its files, proven by rows and files.

The base is built when the sandbox starts, by Synapse itself, from the pack's story. Its database
and media are the pristine image, kept in the evaluator's memory only, like all of the server's
secrets. A reset ends the server of the last trial, puts the image back with a token of the agent's
that nobody had before, and forks a server that has served nobody (`server`).

The proof compares names, kinds, modes and contents of all files with the image, the database by
its bytes; it uses nothing that captures state.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.parse import quote

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from statediff.capture.feed import Feed
from statediff.capture.source import Source
from statediff.errors import SandboxError
from statediff.packs import PackSource
from statediff.systems.base.folders import make_folder, remove
from statediff.systems.base.images import StoredFile, image_digest, image_of, write_image
from statediff.systems.base.protocol import Drift, SourceProof
from statediff.systems.base.served import ForkedServer
from statediff.systems.sqlite.source import strange_side_file
from statediff.systems.synapse.drift import (
    DATABASE,
    LOG,
    LOG_INDEX,
    MEDIA,
    compacted,
    described,
    with_token,
    without_readers,
)
from statediff.systems.synapse.feed import SynapseFeed
from statediff.systems.synapse.source import SynapseSource
from statediff.systems.synapse.story import signing_key

SERVER_NAME: Final = "harbour.example"
METHOD: Final = "sha256 of the database file and of every file of the media, with name and mode"
LOAD_SECONDS: Final = 300.0
"""Synapse takes 10 s of processor time until its base is built; a busy machine has little of it."""
FILE_MODE: Final = 0o600
_POLL_SECONDS: Final = 0.01


class SynapseChat:
    """A `System`: a Matrix homeserver whose client-server API an agent uses on loopback."""

    FILES: ClassVar[Mapping[str, bool]] = {"seed": True}
    LOOKS: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, source: PackSource, looks: tuple[PackSource, ...], folder: Path) -> None:
        self.source = source.name
        self.folder = folder
        self.home = folder / "home"
        self.process = ForkedServer("statediff.systems.synapse.server", "the chat")
        self._story = read_story(source.files["seed"])
        self._agent = str(self._story["agent"])
        self._token = ""
        self._port = 0
        self._image: dict[str, StoredFile] = {}
        self._digest = ""
        self._read = SynapseSource(
            self.source, self.home / DATABASE, self.home / MEDIA, source.refinement()
        )

    @property
    def url(self) -> str:
        """The user is the agent's account, the password its access token."""
        return f"matrix+http://{quote(self._agent)}:{self._token}@127.0.0.1:{self._port}/"

    def start(self) -> None:
        if not self.process.pid:
            self._build()

    def stop(self) -> None:
        self.process.stop()

    def sources(self) -> tuple[Source, ...]:
        return (self._read,)

    def feeds(self) -> tuple[Feed, ...]:
        return (SynapseFeed(self._read, self.home / DATABASE, self.home / MEDIA),)

    def unplug(self, source: str) -> None:
        """The server has ended and its database is removed."""
        self.process.withdraw()
        remove(self.home / DATABASE)
        self._read.database.is_unplugged = True

    def reset(self) -> None:
        """The files are the pristine image; a server that has served nobody answers."""
        self._read.database.is_unplugged = False
        if not self.process.is_running:
            self.process.kill()
            self._build()
        # The agent's token lives for one trial: what an earlier agent left running is locked out.
        self._token = secrets.token_urlsafe(24)
        database = with_token(self._image[DATABASE].content, self._user, self._token)
        self._image[DATABASE] = StoredFile("file", FILE_MODE, database)
        self._digest = image_digest(self._image)
        self.process.halt()
        self._put_back()
        self._port = int(self.process.serve({}, LOAD_SECONDS)["port"])

    def verify(self) -> tuple[SourceProof, tuple[Drift, ...]]:
        found: dict[str, StoredFile] = {}
        drift: list[Drift] = []
        try:
            found = without_readers(image_of(self.home))
            beside = sorted(e.name for e in os.scandir(self.folder) if e.name != self.home.name)
            drift += [self._drift(f"file {name}", "no such file", "there") for name in beside]
        except OSError as error:
            drift.append(self._drift("its home", "a readable folder", str(error.strerror)))
        if self.process.in_progress() is None:
            drift.append(self._drift("its server", "an answer", "none"))
        drift += [self._drift(*each) for each in described(self._image, found)]
        rooms, said = len(self._story["rooms"]), len(self._story["said"])
        entities = len(self._story["users"]) + rooms + said
        return SourceProof(self.source, METHOD, self._digest, image_digest(found), entities), (
            *drift,
        )

    def unsettled(self, deadline: float) -> str | None:
        """Waits until no request is in progress and nobody holds a write transaction."""
        while True:
            cause = self._busy()
            if cause is None or time.monotonic() >= deadline:
                return cause
            time.sleep(min(_POLL_SECONDS, max(0.0, deadline - time.monotonic())))

    @property
    def _user(self) -> str:
        return f"@{self._agent}:{SERVER_NAME}"

    def _busy(self) -> str | None:
        waiting = self.process.in_progress()
        if waiting is None:
            return "the chat's server does not answer"
        if waiting:
            return f"{waiting} requests are in progress"
        file = self.home / DATABASE
        try:
            if file.is_symlink() or not file.is_file():
                return "the chat's database is gone"
            strange = strange_side_file(file)
            if strange is not None:
                return strange
            uri = f"{file.absolute().as_uri()}?mode=rw"
            with contextlib.closing(
                sqlite3.connect(uri, uri=True, timeout=0, isolation_level=None)
            ) as probe:
                probe.execute("BEGIN IMMEDIATE")
                probe.execute("ROLLBACK")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                return "a write transaction is still open"
            return f"the database cannot be opened: {error}"
        except sqlite3.Error as error:
            return f"the database cannot be opened: {error}"
        return None

    def _build(self) -> None:
        """A chat made anew, in a folder that holds nothing else; its files are the image."""
        try:
            remove(self.folder)
            make_folder(self.home / MEDIA)
        except OSError as error:
            raise SandboxError(
                f"{self.source}: the chat could not be made at {self.home}: {error}"
            ) from error
        order: dict[str, Any] = {
            "server_name": SERVER_NAME,
            "signing_key": signing_key(secrets.token_bytes(32)),
            "macaroon_secret": secrets.token_hex(32),
            "form_secret": secrets.token_hex(32),
            "registration_secret": secrets.token_hex(32),
            "database": str(self.home / DATABASE),
            "media": str(self.home / MEDIA),
            "story": self._story,
            "passwords": {name: secrets.token_urlsafe(18) for name in self._story["users"]},
        }
        self.process.start(order, LOAD_SECONDS)
        try:
            image = image_of(self.home)
            database = compacted(self.home / DATABASE)
            image = {n: f for n, f in image.items() if n not in (DATABASE, LOG, LOG_INDEX)}
            self._image = {DATABASE: StoredFile("file", FILE_MODE, database), **image}
        except BaseException:
            self.process.kill()
            raise

    def _put_back(self) -> None:
        fresh, stale = self.folder / "fresh", self.folder / "stale"
        try:
            make_folder(self.folder)
            for entry in os.scandir(self.folder):
                if Path(entry.path) != self.home:
                    remove(Path(entry.path))
            write_image(self._image, fresh)
            if self.home.is_symlink() or self.home.exists():
                self.home.rename(stale)
            fresh.rename(self.home)
            remove(stale)
        except OSError as error:
            raise SandboxError(
                f"{self.source}: the chat could not be put back at {self.home}: {error}"
            ) from error

    def _drift(self, what: str, expected: str, found: str) -> Drift:
        return Drift(self.source, what, expected, found)


def read_story(path: Path) -> dict[str, Any]:
    """The story in a seed file. Raises `SandboxError`."""
    try:
        seed = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, YAMLError) as error:
        raise SandboxError(f"{path}: cannot be read as a seed: {error}") from error
    needed = {"agent", "begins", "ends", "rooms", "said", "users"}
    if not isinstance(seed, dict) or not needed <= seed.keys():
        raise SandboxError(f"{path}: expected {', '.join(sorted(needed))}, found not all of them")
    return seed
