"""The store of a Radicale, read below the server: collections, objects, and all that is odd.

`collection-root/OWNER/COLLECTION/` holds an object a file and `.Radicale.props`, what the
collection is and is called. Any other entry is a `calendar.file`: hidden folders, links, what is no
object, a file with an odd mode. What the account looked into comes from the server itself.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Final

import blake3

from statediff.capture.source import Clock, SourceUnavailable, scanned
from statediff.model.batches import Row
from statediff.model.readings import SourceCapture
from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.model.state import ChunkStore, State
from statediff.model.values import Map
from statediff.systems.base.images import StoredFile, write_image
from statediff.systems.base.kept import StateOf
from statediff.systems.base.rows import source_schema
from statediff.systems.hosted.folder import PROGRAM, entries, read_file
from statediff.systems.relational.schema import Refine
from statediff_office.calendars.contacts import ADDRESS_BOOK, CONTACT
from statediff_office.calendars.items import CALENDAR, FAULTS, ITEM
from statediff_office.calendars.lines import RESIDUE
from statediff_office.calendars.source import dav_state, object_rows, spoiled_since

ROOT: Final = "collection-root"
PROPS: Final = ".Radicale.props"
LOCK: Final = ".Radicale.lock"

FILE: Final = replace(PROGRAM, name="calendar.file")
"""An entry of the store that is no object of a collection."""
LOOK: Final = EntityType(
    "calendar.look",
    ("collection", "what"),
    (
        Field("collection", Kind.TEXT, is_nullable=False),
        Field("what", Kind.TEXT, is_nullable=False),
    ),
)
"""The agent's account was given something of a collection: `contents` of its objects, or
`free-busy`, when its owner has time."""


def _with_properties(entity: EntityType) -> EntityType:
    more = Field("properties", Kind.MAP, is_nullable=False)
    return replace(entity, fields=(*entity.fields, more))


STORED_CALENDAR: Final = _with_properties(CALENDAR)
STORED_BOOK: Final = _with_properties(ADDRESS_BOOK)
STORED_TYPES: Final = (STORED_BOOK, CONTACT, STORED_CALENDAR, FILE, ITEM, LOOK, RESIDUE)
_NAMED: Final = {
    "VCALENDAR": (CALENDAR.name, "C:calendar-description"),
    "VADDRESSBOOK": (ADDRESS_BOOK.name, "CR:addressbook-description"),
}
Looks = Callable[[], "list[tuple[str, str]] | None"]


class RadicaleStoreSource:
    """The store in a folder; `looks` says what the agent's account was given, or None."""

    not_observed: ClassVar[tuple[str, ...]] = (
        "what a client keeps to follow changes (sync tokens, ETags), and the server's caches",
        "listings of collections that show no object",
        "modes of collections and objects, but odd ones, and names elsewhere that lead to a file",
    )

    def __init__(self, name: str, folder: Path, looks: Looks, refine: Refine | None = None) -> None:
        self._name = name
        self._folder = folder
        self._looks = looks
        self._refine = refine

    @property
    def name(self) -> str:
        return self._name

    def schema(self) -> Schema:
        schema = source_schema(self._name, STORED_TYPES)
        return schema if self._refine is None else self._refine(schema)

    def read(self, store: ChunkStore, clock: Clock, like: State | None) -> SourceCapture:
        as_of = clock()
        looks = self._looks()
        if looks is None:
            raise SourceUnavailable("the calendars' server does not answer")
        state = self._state(self._folder, looks, store, like)
        return scanned(self._name, as_of, state, spoiled=spoiled_since(like, state))

    def kept_states(self, _answer: Mapping[str, Any]) -> StateOf:
        """A function that makes a state of each kept one: its files are written and read again."""

        def state(kept: Any, store: ChunkStore, last: State) -> State:
            image = {
                path: StoredFile(kind, mode, base64.b64decode(content))
                for path, (kind, mode, content) in kept["files"].items()
            }
            looks = [(path, what) for path, what in kept["looks"]]
            with TemporaryDirectory(prefix="statediff-calendars-") as place:
                write_image(image, Path(place, "store"))
                return self._state(Path(place, "store"), looks, store, last)

        return state

    def _state(
        self, folder: Path, looks: list[tuple[str, str]], store: ChunkStore, like: State | None
    ) -> State:
        rows, causes = store_rows(folder)
        rows[LOOK.name] = [{"collection": path, "what": what} for path, what in looks]
        return dav_state(self.schema(), rows, causes, store, like)


def store_rows(folder: Path) -> tuple[dict[str, list[Row]], dict[str, list[str]]]:
    """The rows by the name of their type, and why some of a type are not seen."""
    rows: dict[str, list[Row]] = {each.name: [] for each in STORED_TYPES}
    files: set[str] = {LOCK}
    folders: set[str] = {ROOT}
    root = folder / ROOT
    for owner in _folders(root):
        for name in _folders(root / owner):
            place = f"{ROOT}/{owner}/{name}"
            kind = _collection(folder, place, f"/{owner}/{name}/", rows)
            if kind is not None:
                folders |= {f"{ROOT}/{owner}", place}
                files |= {f"{place}/{PROPS}"}
                files |= _objects(folder, place, f"/{owner}/{name}/", kind, rows)

    usual = set(filter(partial(_is_usual, folder), folders))
    found = entries(
        folder,
        lambda path, is_folder: path in (usual if is_folder else files),
        lambda content: blake3.blake3(content).hexdigest(),
        is_own=True,
    )
    if isinstance(found, str):
        return rows, {FILE.name: [found]}
    rows[FILE.name] = found
    return rows, {}


def _folders(place: Path) -> list[str]:
    """Names of real folders; others are reported as files."""
    try:
        found = [e.name for e in os.scandir(place) if e.is_dir(follow_symlinks=False)]
    except OSError:
        return []  # the listing of the whole store says why
    return sorted(filter(_is_text, found))


def _is_usual(folder: Path, place: str) -> bool:
    """True if its owner may do all with a folder, and not everybody may write it."""
    try:
        mode = (folder / place).lstat().st_mode
    except OSError:
        return False
    return mode & 0o700 == 0o700 and not mode & 0o002


def _is_text(name: str) -> bool:
    """True if it is text; another name is reported as a file's."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _collection(folder: Path, place: str, path: str, rows: Mapping[str, list[Row]]) -> str | None:
    """The type of the collection, whose row is added; None where it is none."""
    content = read_file(folder, *place.split("/"), PROPS)
    try:
        text = content.decode() if isinstance(content, bytes) else ""
        # As strictly as the server: what it refuses is a collection to nobody.
        texts: dict[str, str] = json.loads(text, object_pairs_hook=_texts)
        kind, description = _NAMED[texts["tag"]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    rows[kind].append(
        {
            "path": path,
            "name": texts.pop("D:displayname", None),
            "description": texts.pop(description, None),
            "properties": Map.of({name: text for name, text in texts.items() if name != "tag"}),
        }
    )
    return kind


def _texts(pairs: list[tuple[str, Any]]) -> dict[str, str]:
    """The properties of a collection, each a text and there once. Raises `ValueError`."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a property is there twice")
    for text in (*found, *found.values()):
        if not isinstance(text, str) or not _is_text(text):
            raise ValueError("a property that is no text")
    return found


def _objects(
    folder: Path, place: str, path: str, kind: str, rows: Mapping[str, list[Row]]
) -> set[str]:
    """Paths of the files that hold an object, whose rows are added."""
    reported: set[str] = set()
    try:
        names = sorted(e.name for e in os.scandir(folder / place) if not e.name.startswith("."))
    except OSError:
        return reported  # the listing of the whole store says why
    for name in filter(_is_text, names):
        content = read_file(folder, *place.split("/"), name)
        if not isinstance(content, bytes):
            continue
        try:
            is_contact = kind == ADDRESS_BOOK.name
            made = object_rows(path, name, content.decode(), is_contact=is_contact)
        except FAULTS:
            continue  # reported as a file, by its digest
        for of, each in made.items():
            rows[of].extend(each)
        reported.add(f"{place}/{name}")
    return reported
