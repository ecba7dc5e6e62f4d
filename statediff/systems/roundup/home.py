"""What a tracker keeps in files: texts and attachments, its settings, the programs it runs.

Everything below the home can be an agent's work. No link is followed, only regular files are read,
and none beyond a size; what is not read is unobserved, with the cause.
"""

from __future__ import annotations

import configparser
import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from statediff.model.batches import Row
from statediff.model.values import ABSENT, Absent, Unobserved, printable

MAX_FILE_BYTES: Final = 16 * 1024 * 1024
MAX_FILES: Final = 5000
CONFIG: Final = "config.ini"
DATABASE: Final = "db"
_SECRETS: Final = ("secret", "password", "key", "token")


def digest_of(content: bytes) -> str:
    """The digest by which a secret or a file's content is told apart, e.g. `sha256:9f86…`."""
    return "sha256:" + hashlib.sha256(content).hexdigest()


def read_file(home: Path, *parts: str) -> bytes | Unobserved | Absent:
    """The content of one regular file below the home; absent if nothing is there."""
    descriptors: list[int] = []
    try:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
        descriptors.append(os.open(home, flags))
        for part in parts[:-1]:
            descriptors.append(os.open(part, flags, dir_fd=descriptors[-1]))
        last = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptors.append(os.open(parts[-1], last, dir_fd=descriptors[-1]))
        size = os.fstat(descriptors[-1])
        if not stat.S_ISREG(size.st_mode):
            return Unobserved(f"{printable(parts[-1])} is not a file")
        if size.st_size > MAX_FILE_BYTES:
            return Unobserved(f"file of {size.st_size} bytes exceeds the capture limit")
        with os.fdopen(descriptors.pop(), "rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            return Unobserved("the file grew beyond the capture limit while it was read")
        return content
    except FileNotFoundError:
        return ABSENT
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in (errno.ELOOP, errno.ENOTDIR):
            return Unobserved(f"{printable(parts[-1])} is reached through a link")
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return Unobserved(f"{printable(parts[-1])} cannot be read: {reason}")
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


class Home:
    """What the tracker keeps in files, as it is when it is asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def content(self, kind: str, number: int) -> bytes | Unobserved | Absent:
        """The content of one message or file, found where the tracker itself looks for it."""
        parts = content_path(kind, number)
        found = read_file(self.folder, *parts)
        # A tracker cut off between its commit and the renaming takes the temporary file.
        return read_file(self.folder, *parts[:-1], f"{parts[-1]}.tmp") if found is ABSENT else found

    def settings(self) -> list[Row] | str:
        """Every setting of `config.ini`, or why it cannot be read. Of a secret, the digest."""
        return _settings(self.folder)

    def programs(self) -> list[Row] | str:
        """Every file beside the database and the settings: what the tracker runs."""
        return _programs(self.folder)


def content_path(kind: str, number: int) -> tuple[str, ...]:
    """Where below the home the content of a message or file lies."""
    return (DATABASE, "files", kind, str(number // 1000), f"{kind}{number}")


def _settings(home: Path) -> list[Row] | str:
    content = read_file(home, CONFIG)
    if content is ABSENT:
        return []
    if not isinstance(content, bytes):
        return f"{CONFIG}: {content.cause}" if isinstance(content, Unobserved) else CONFIG
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(content.decode())
    except (UnicodeDecodeError, configparser.Error) as error:
        return f"{CONFIG} cannot be read: {printable(str(error)[:120])}"
    return [
        {"name": f"{section}.{name}", "value": _shown(name, value)}
        for section in parser.sections()
        for name, value in parser.items(section)
    ]


def _shown(name: str, value: str) -> str:
    is_secret = any(word in name for word in _SECRETS) and not value.isdigit()
    return digest_of(value.encode()) if is_secret else value


def _programs(home: Path) -> list[Row] | str:
    rows: list[Row] = []
    try:
        with _opened(home) as top:
            for path, target in _walk(top, ""):
                if len(rows) >= MAX_FILES:
                    return f"the home holds more than {MAX_FILES} files"
                rows.append({"path": path, "content": target})
    except (OSError, RecursionError) as error:
        return f"the home cannot be listed: {error}"
    return [
        {**row, "content": _program(home, str(row["path"]))} if row["content"] is None else row
        for row in rows
    ]


@contextmanager
def _opened(name: Path | str, inside: int | None = None) -> Iterator[int]:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    descriptor = os.open(name, flags, dir_fd=inside)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _walk(folder: int, prefix: str) -> Iterator[tuple[str, str | None]]:
    """Paths below the folder, each with its target where it is a link."""
    for name in sorted(os.listdir(folder)):
        path = os.fsencode(prefix + name).decode("utf-8", "backslashreplace")
        if path in (DATABASE, CONFIG) or name == "__pycache__":
            continue
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            with _opened(name, folder) as inner:
                yield from _walk(inner, f"{path}/")
        elif stat.S_ISLNK(mode):
            yield path, f"link to {printable(os.readlink(name, dir_fd=folder))}"
        else:
            yield path, None


def _program(home: Path, path: str) -> str | Unobserved | Absent:
    content = read_file(home, *path.split("/"))
    return digest_of(content) if isinstance(content, bytes) else content
