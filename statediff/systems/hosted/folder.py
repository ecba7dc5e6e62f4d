"""The folder of a tracker: its entries, each shown by its path, and the content of one.

No link is followed, only regular files are read, and none beyond a size; what is not read is
unobserved, with the cause.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from statediff.errors import SandboxError
from statediff.model.batches import Row
from statediff.model.explanation import unread_because
from statediff.model.schema import EntityType, Field, Kind
from statediff.model.values import ABSENT, Absent, Unobserved, printable
from statediff.systems.base.folders import is_of_the_path
from statediff.systems.files.owners import beside_of, entry_path

MAX_FILE_BYTES: Final = 16 * 1024 * 1024
MAX_FILES: Final = 5000

PROGRAM: Final = EntityType(
    "program",
    ("path",),
    (
        Field("path", Kind.TEXT, is_nullable=False),
        Field("mode", Kind.TEXT),
        Field("content", Kind.TEXT),
    ),
)
"""A program or setting of the tracker, or a thing that nobody expects there. `content` is a digest,
or the kind of an entry that is no regular file; `mode` its permissions as four octal digits.
"""
_ODD_MODE: Final = 0o7113
"""No tracker makes a file of its data that anybody may write or run."""
_FOR_ITS_OWNER_TO_READ: Final = 0o400
"""Without it no program reads the file, but one that may read all."""
_ODD_MODE_OF_FOLDERS: Final = 0o002
_FOR_ALL_TO_ENTER: Final = 0o055
"""Without it no account but the owner's serves the tracker."""
IsTold = Callable[[str, bool], bool]
"""(path, whether it is a folder) → whether it is described in other terms."""


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
            return Unobserved(
                unread_because("the file grew beyond the capture limit while it was read")
            )
        return content
    except FileNotFoundError:
        return ABSENT
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in (errno.ELOOP, errno.ENOTDIR):
            return Unobserved(f"{printable(parts[-1])} is reached through a link")
        reason = error.strerror if isinstance(error, OSError) else str(error)
        cause = f"{printable(parts[-1])} cannot be read: {reason}"
        return Unobserved(cause if is_of_the_path(error) else unread_because(cause))
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def entries(
    home: Path, is_told: IsTold, digest: Callable[[bytes], str], *, is_own: bool
) -> list[Row] | str:
    """A `PROGRAM` for every entry below `home` that is not described in other terms; else a cause.

    Only regular files and folders can be described otherwise: a link in the place of one is an
    entry, and so is a file that everybody may write, or that may be run. Where the home is the
    evaluator's own, what an entry has beside its content, such as another owner or an access list,
    is one more, with `#beside` at its path; `.` is the home itself.
    """
    rows: list[Row] = []
    try:
        with _open_folder(home) as top:
            own = _itself(top) if is_own else iter(())
            for path, mode, told in chain(own, _walk(top, "", is_told, is_own)):
                if len(rows) >= MAX_FILES:
                    return f"the home holds more than {MAX_FILES} files"
                rows.append({"path": path, "mode": f"{mode:04o}", "content": told})
    except (OSError, RecursionError) as error:
        return f"the home cannot be listed: {error}"
    for row in rows:
        if row["content"] is None:
            content = read_file(home, *str(row["path"]).split("/"))
            row["content"] = digest(content) if isinstance(content, bytes) else content
    return rows


@contextmanager
def _open_folder(name: Path | str, inside: int | None = None) -> Iterator[int]:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    descriptor = os.open(name, flags, dir_fd=inside)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _itself(home: int) -> Iterator[tuple[str, int, str | None]]:
    """The home's own entry: its mode where others may write, or not enter it.

    A home that was private before the run, and stays so, says the same of both sides.
    """
    status = os.fstat(home)
    mode = stat.S_IMODE(status.st_mode)
    said = beside_of(entry_path(home, b"."), status)
    if said:
        yield ".#beside", mode, printable(said)
    if mode & _ODD_MODE_OF_FOLDERS or ~mode & _FOR_ALL_TO_ENTER:
        yield ".", mode, "a folder with an odd mode"


def _walk(
    folder: int, prefix: str, is_told: IsTold, is_own: bool
) -> Iterator[tuple[str, int, str | None]]:
    """Path and mode of what is below the folder, with what it is where it is no regular file."""
    for name in sorted(os.listdir(folder)):
        path = os.fsencode(prefix + name).decode("utf-8", "backslashreplace")
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        whole, mode = status.st_mode, stat.S_IMODE(status.st_mode)
        said = beside_of(entry_path(folder, os.fsencode(name)), status) if is_own else ""
        if said:
            yield f"{path}#beside", mode, printable(said)
        if stat.S_ISDIR(whole):
            if not is_told(path, True):
                yield path, mode, "folder"
            elif mode & _ODD_MODE_OF_FOLDERS:
                yield path, mode, "a folder that is reported elsewhere, with an odd mode"
            with _open_folder(name, folder) as inner:
                yield from _walk(inner, f"{path}/", is_told, is_own)
        elif stat.S_ISLNK(whole):
            yield path, mode, f"link to {printable(os.readlink(name, dir_fd=folder))}"
        elif not stat.S_ISREG(whole):
            yield path, mode, "neither file, folder nor link"
        elif not is_told(path, False):
            yield path, mode, None
        elif mode & _ODD_MODE or not mode & _FOR_ITS_OWNER_TO_READ:
            yield path, mode, "a file that is reported elsewhere, with an odd mode"


def content_digest(content: bytes) -> str:
    """The digest by which a secret or a file's content is distinguished, e.g. `sha256:9f86…`."""
    return "sha256:" + hashlib.sha256(content).hexdigest()


def load_seed(path: Path, what: str = "a seed") -> Any:
    """The document of the YAML file with which a server begins. Raises `SandboxError`."""
    try:
        return YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, YAMLError) as error:
        raise SandboxError(f"{path}: cannot be read as {what}: {error}") from error
