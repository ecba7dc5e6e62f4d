"""Calendars and contacts on a Radicale of this machine: put back by its files, proven by them.

The pack's seed is made into the files of a store once; they are the pristine image, in the
evaluator's memory only. A reset swaps a fresh store in, empties the server's caches and forks
another server, so that no memory of an earlier trial is left. The proof compares names, kinds,
modes and contents of all files with the image, and uses nothing that captures state.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

from statediff.capture.feed import Feed
from statediff.capture.source import Source
from statediff.errors import SandboxError
from statediff.model.values import printable
from statediff.packs import PackSource
from statediff.systems.base.folders import empty, remove
from statediff.systems.base.images import (
    FOLDER,
    StoredFile,
    file_text,
    image_digest,
    image_of,
    swap_image,
)
from statediff.systems.base.kept import KeptStatesFeed
from statediff.systems.base.protocol import Drift, SourceProof
from statediff.systems.base.served import ForkedServer
from statediff.systems.hosted.folder import load_seed
from statediff_office.calendars.store import LOCK, PROPS, ROOT, RadicaleStoreSource

METHOD: Final = "sha256 of every file of the store, with its name and mode"
LOOK_SECONDS: Final = 10.0
"""For an answer from memory; a machine may be busy."""
_LONGEST_REQUEST: Final = 15.0
"""Seconds in which one gets what it may take of the processor, on a busy machine."""
_FILE_MODE: Final = 0o600
_FOLDER_MODE: Final = 0o700
_TAGS: Final = {"calendar": "VCALENDAR", "contacts": "VADDRESSBOOK"}


class EmbeddedCalendars:
    """A `System`: a Radicale that serves CalDAV and CardDAV on loopback."""

    FILES: ClassVar[Mapping[str, bool]] = {"seed": True, "rights": True}
    LOOKS: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, source: PackSource, looks: tuple[PackSource, ...], folder: Path) -> None:
        self.source = source.name
        self.folder = folder
        self.store = folder / "store"
        self.server = ForkedServer("statediff_office.calendars.server", "the calendars' server")
        self.account, self._image = read_calendar_seed(source.files["seed"])
        try:
            self._rights = source.files["rights"].read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SandboxError(f"{source.files['rights']}: cannot be read: {error}") from error
        self._digest = image_digest(self._image)
        self._password = ""
        self._port = 0
        self._cache = tempfile.mkdtemp(prefix="statediff-calendars-")
        weakref.finalize(self, shutil.rmtree, self._cache, ignore_errors=True)
        self._read = RadicaleStoreSource(source.name, self.store, self._looks, source.refinement())
        self._feed = KeptStatesFeed(source.name, self._asked, self._read.kept_states)

    @property
    def url(self) -> str:
        return f"caldav://{self.account}:{self._password}@127.0.0.1:{self._port}/{self.account}/"

    def start(self) -> None:
        if not self.server.pid:
            self.server.start(
                {
                    "account": self.account,
                    "rights": self._rights,
                    "store": str(self.store),
                    "cache": self._cache,
                }
            )

    def stop(self) -> None:
        self.server.stop()

    def reset(self) -> None:
        """The store is the pristine image, and another server of it answers."""
        try:
            swap_image(self._image, self.store)
            empty(Path(self._cache))
        except OSError as error:
            raise SandboxError(
                f"{self.source}: the store could not be put back at {self.store}: {error}"
            ) from error
        # The agent's account lives for one trial: what an earlier agent left running is locked out.
        self._password = secrets.token_urlsafe(18)
        self._port = int(self.server.serve_anew({"password": self._password})["port"])

    def verify(self) -> tuple[SourceProof, tuple[Drift, ...]]:
        found: dict[str, StoredFile] = {}
        drift: list[Drift] = []
        try:
            found = image_of(self.store, with_folders=True)
            found.pop(LOCK, None)  # the server's; what is in it is nothing
            beside = sorted(e.name for e in os.scandir(self.folder) if e.name != self.store.name)
            drift += [self._drift(f"file {name}", "no such file", "there") for name in beside]
        except OSError as error:
            drift.append(self._drift("its store", "a readable folder", str(error.strerror)))
        answer = self._asked({})
        if answer is None:
            drift.append(self._drift("its server", "an answer", "none"))
        elif answer["looks"]:
            drift.append(self._drift("looks", "none", f"{len(answer['looks'])}"))
        for path in sorted(self._image.keys() | found.keys()):
            before, after = self._image.get(path), found.get(path)
            if before != after:
                drift.append(self._drift(_named(path), file_text(before), file_text(after)))
        proof = SourceProof(
            self.source, METHOD, self._digest, image_digest(found), len(self._image)
        )
        return proof, tuple(drift)

    def sources(self) -> tuple[Source, ...]:
        return (self._read,)

    def feeds(self) -> tuple[Feed, ...]:
        """The feed that sees the store after every request."""
        return (self._feed,)

    def unsettled(self, deadline: float) -> str | None:
        """Waits until no request is in progress; the server ends those that take too long."""
        return self.server.unsettled(deadline + _LONGEST_REQUEST, LOOK_SECONDS)

    def unplug(self, source: str) -> None:
        """Its server has ended, and its store is removed."""
        self.server.withdraw()
        with contextlib.suppress(OSError):
            remove(self.store)

    def _asked(self, question: dict[str, Any]) -> dict[str, Any] | None:
        return self.server.question(question, LOOK_SECONDS)

    def _looks(self) -> list[tuple[str, str]] | None:
        answer = self._asked({})
        return None if answer is None else [(path, what) for path, what in answer["looks"]]

    def _drift(self, what: str, expected: str, found: str) -> Drift:
        return Drift(self.source, what, expected, found)


def _named(path: str) -> str:
    """The name of a store's entry, for people."""
    place = path.removeprefix(f"{ROOT}/")
    if place.endswith(f"/{PROPS}"):
        return f"settings of {printable(place.removesuffix(PROPS))}"
    return f"object {printable(place)}" if place.count("/") == 2 else f"file {printable(path)}"


def read_calendar_seed(path: Path) -> tuple[str, dict[str, StoredFile]]:
    """The account, and the files of a store that holds the seed. Raises `SandboxError`."""
    try:
        seed = load_seed(path, "calendars")
        image = {ROOT: StoredFile(FOLDER, _FOLDER_MODE)}
        for owner in sorted({place.split("/")[0] for place in seed["collections"]}):
            image[f"{ROOT}/{owner}"] = StoredFile(FOLDER, _FOLDER_MODE)
        for place, collection in sorted(seed["collections"].items()):
            image |= _collection(f"{ROOT}/{place}", collection, seed)
        return str(seed["account"]), image
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SandboxError(f"{path}: cannot be read as calendars: {error}") from error


def _collection(
    place: str, collection: Mapping[str, Any], seed: Mapping[str, Any]
) -> dict[str, StoredFile]:
    tag = _TAGS[collection["kind"]]
    props = {"tag": tag, "D:displayname": collection["name"], **collection.get("properties", {})}
    found = {
        place: StoredFile(FOLDER, _FOLDER_MODE),
        f"{place}/{PROPS}": _file(json.dumps(props, sort_keys=True)),
    }
    suffix = "ics" if tag == "VCALENDAR" else "vcf"
    for name, text in collection.get("objects", {}).items():
        zones = [zone for tzid, zone in seed["zones"].items() if f"TZID={tzid}" in text]
        body = f"{text.strip()}\n"
        if tag == "VCALENDAR":
            head = "BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:-//Brightwater//Calendar//EN\n"
            body = f"{head}{''.join(zones)}{body}END:VCALENDAR\n"
        found[f"{place}/{name}.{suffix}"] = _file(body.replace("\n", "\r\n"))
    return found


def _file(text: str) -> StoredFile:
    return StoredFile("file", _FILE_MODE, text.encode())
