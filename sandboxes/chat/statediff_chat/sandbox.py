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
import secrets
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.parse import quote

from statediff.capture.feed import Feed
from statediff.capture.source import Source
from statediff.errors import SandboxError
from statediff.model.values import printable
from statediff.packs import PackSource
from statediff.systems.base.folders import make_folder, remove
from statediff.systems.base.images import (
    Difference,
    Image,
    StoredFile,
    file_text,
    image_digest,
    image_of,
)
from statediff.systems.base.served import ForkedServer
from statediff.systems.hosted.folder import load_seed
from statediff.systems.hosted.home import ServedHome, updated, with_its_log
from statediff.systems.sqlite.copy import with_log, without_log
from statediff.systems.sqlite.sandbox import differing_tables
from statediff_chat.feed import SynapseFeed
from statediff_chat.source import SynapseSource
from statediff_chat.story import signing_key

DATABASE: Final = "homeserver.db"
LOG: Final = f"{DATABASE}-wal"
LOG_INDEX: Final = f"{DATABASE}-shm"
MEDIA: Final = "media"
SERVER_NAME: Final = "harbour.example"
LOAD_SECONDS: Final = 300.0
"""Synapse takes 10 s of processor time until its base is built; a busy machine has little of it."""
FILE_MODE: Final = 0o600


class SynapseChat(ServedHome):
    """A `System`: a Matrix homeserver whose client-server API an agent uses on loopback."""

    FILES: ClassVar[Mapping[str, bool]] = {"seed": True}
    LOOKS: ClassVar[frozenset[str]] = frozenset()
    METHOD = "sha256 of the database file and of every file of the media, with name and mode"
    DATABASE = DATABASE

    def __init__(self, source: PackSource, looks: tuple[PackSource, ...], folder: Path) -> None:
        self.process = ForkedServer("statediff_chat.server", "the chat")
        super().__init__(source.name, "the chat", self.process, folder)
        self._story = read_story(source.files["seed"])
        self._agent = str(self._story["agent"])
        self._token = ""
        self._port = 0
        self._read = SynapseSource(
            self.source, self.home / DATABASE, self.home / MEDIA, source.refinement()
        )

    @property
    def url(self) -> str:
        """The user is the agent's account, the password its access token."""
        return f"matrix+http://{quote(self._agent)}:{self._token}@127.0.0.1:{self._port}/"

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

    @property
    def _user(self) -> str:
        return f"@{self._agent}:{SERVER_NAME}"

    @property
    def _entities(self) -> int:
        return sum(len(self._story[part]) for part in ("users", "rooms", "said"))

    def _without_readers(self, found: Image) -> dict[str, StoredFile]:
        """Without an empty log and its index: the first to open the database makes them anew."""
        kept = dict(found)
        log = kept.get(LOG)
        if log is not None and log.kind == "file" and not log.content:
            del kept[LOG]
        if LOG not in kept and LOG_INDEX in kept and kept[LOG_INDEX].kind == "file":
            del kept[LOG_INDEX]
        return kept

    def _differences(self, found: Image) -> Iterator[Difference]:
        """The differences from the base: tables of the database by name, and files."""
        base = self._image
        if DATABASE in found and (LOG in found or found[DATABASE] != base[DATABASE]):
            held = with_its_log(found, DATABASE)
            for name, before, after in differing_tables(base[DATABASE].content, held):
                yield f"table {printable(name)}", before, after
        for path in sorted(base.keys() | found.keys()):
            one, other = base.get(path), found.get(path)
            if one != other:
                yield f"file {printable(path)}", file_text(one), file_text(other)

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


def read_story(path: Path) -> dict[str, Any]:
    """The story in a seed file. Raises `SandboxError`."""
    seed = load_seed(path)
    needed = {"agent", "begins", "ends", "rooms", "said", "users"}
    if not isinstance(seed, dict) or not needed <= seed.keys():
        raise SandboxError(f"{path}: expected {', '.join(sorted(needed))}, found not all of them")
    return seed


def compacted(file: Path) -> bytes:
    """The database with all that is in its log, in as few pages as it needs."""
    try:
        with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.execute("DELETE FROM user_ips")  # the story's own requests
            connection.execute("VACUUM")
            return with_log(without_log(bytes(connection.serialize())))
    except sqlite3.Error as error:
        raise SandboxError(f"{file}: the chat's database cannot be read: {error}") from error


def with_token(database: bytes, user: str, token: str) -> bytes:
    """The database with another access token of the user's one session."""
    return updated(database, "UPDATE access_tokens SET token = ? WHERE user_id = ?", (token, user))
