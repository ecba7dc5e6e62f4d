"""The home of a tracker: what it keeps in files beside its database.

Every entry below the home is reported, with its kind and mode, except what is described in other
terms: `NOT_LISTED` names each, with the reason.
"""

from __future__ import annotations

import configparser
import io
import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Final

from statediff.model.batches import Row
from statediff.model.values import ABSENT, Absent, Unobserved, printable
from statediff.systems.hosted.folder import content_digest, entries, read_file
from statediff_trackers.roundup.stores import FILES, Store, read_store
from statediff_trackers.roundup.values import DATABASE

CONFIG: Final = "config.ini"
_NO_SETTINGS: Final = f"{CONFIG} cannot be read:"
_SIDES: Final = ("", "-wal", "-shm", "-journal")
NOT_LISTED: Final = {
    CONFIG: "each of its settings is a `setting`",
    **{f"{DATABASE}/db{side}": "the database, read as such" for side in _SIDES},
    **{
        f"{DATABASE}/{file}{side}": f"the store of the type `{name}`"
        for name, file in FILES.items()
        for side in _SIDES
    },
}
"""Path of a regular file → why it is no row of `program`. The content of an item is none either."""
_CONTENT: Final = re.compile(rf"{DATABASE}/files/([^/]+)/([0-9]+)/([^/]+?)([0-9]+)(\.tmp)?")
_CONTENT_FOLDER: Final = re.compile(rf"{DATABASE}(/files(/[^/]+(/[0-9]+)?)?)?")
Items = Mapping[str, AbstractSet[int]]
"""Class that keeps its content in files → the numbers of its items."""
_SECRETS: Final = ("secret", "password", "key", "token")


class Home:
    """The tracker's files, as they are when this is asked."""

    def __init__(self, folder: Path, own: frozenset[str] = frozenset()) -> None:
        self.folder = folder
        self.own = own
        """Logins whose sessions are not state: the agent has their password."""

    def content(self, kind: str, number: int) -> bytes | Unobserved | Absent:
        """The content of one message or file, found where the tracker itself looks for it."""
        parts = content_path(kind, number)
        found = read_file(self.folder, *parts)
        # A tracker cut off between its commit and the renaming takes the temporary file.
        return read_file(self.folder, *parts[:-1], f"{parts[-1]}.tmp") if found is ABSENT else found

    def settings(self) -> list[Row] | str:
        """Every setting of `config.ini`, or why it cannot be read. Of a secret, the digest."""
        return _settings(self.folder)

    def programs(self, items: Items) -> list[Row] | str:
        """Every entry that no other type describes: what the tracker runs, and what is odd."""

        def is_told(path: str, is_folder: bool) -> bool:
            if is_folder:
                return _CONTENT_FOLDER.fullmatch(path) is not None
            return path in NOT_LISTED or _is_content(path, items)

        found = entries(self.folder, is_told, content_digest, is_own=True)
        if isinstance(found, str):
            return found
        odd = {f"{DATABASE}/{FILES[name]}": self.store(name).oddity for name in FILES}
        told = self.settings()
        if isinstance(told, str) and told.startswith(_NO_SETTINGS):
            odd[CONFIG] = told  # nor does the tracker read it: what was written there is a change
        found += [{"path": path, "mode": None, "content": is_} for path, is_ in odd.items() if is_]
        return found

    def store(self, name: str) -> Store:
        """Who is signed in, or which keys are good once; see `stores`."""
        return read_store(self.folder, name, self.own)


def content_path(kind: str, number: int) -> tuple[str, ...]:
    """The place, below the home, of the content of a message or file."""
    return (DATABASE, "files", kind, str(number // 1000), f"{kind}{number}")


def _settings(home: Path) -> list[Row] | str:
    content = read_file(home, CONFIG)
    if content is ABSENT:
        return []
    if not isinstance(content, bytes):
        return f"{CONFIG}: {content.cause}" if isinstance(content, Unobserved) else CONFIG
    try:
        parser = parsed_settings(content)
    except (UnicodeDecodeError, configparser.Error) as error:
        return f"{_NO_SETTINGS} {printable(str(error)[:120])}"
    return [
        {"name": f"{section}.{name}", "value": _safe_value(name, value)}
        for section in parser.sections()
        for name, value in parser.items(section)
    ]


def parsed_settings(content: bytes) -> configparser.RawConfigParser:
    """The settings as the tracker reads them: a carriage return ends a line for it, too."""
    parser = configparser.RawConfigParser()
    parser.read_file(io.TextIOWrapper(io.BytesIO(content), "utf-8"), CONFIG)
    return parser


def _safe_value(name: str, value: str) -> str:
    is_secret = any(word in name for word in _SECRETS) and not value.isdigit()
    return content_digest(value.encode()) if is_secret else value


def _is_content(path: str, items: Items) -> bool:
    """True if it is where the tracker looks for the content of an item that it has."""
    found = _CONTENT.fullmatch(path)
    if found is None or not found[4].isascii() or len(found[4]) > 18:
        return False
    number = int(found[4])
    place = "/".join(content_path(found[1], number)) + (found[5] or "")
    return place == path and number in items.get(found[1], frozenset())
