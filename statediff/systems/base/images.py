"""The files of a folder as an image in memory: taken, digested, compared by path, and written."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from statediff.systems.base.folders import make_folder, remove

MAX_FILE_BYTES: Final = 64 * 1024 * 1024
FOLDER: Final = "folder"


@dataclass(frozen=True)
class StoredFile:
    """One entry of a folder: its kind and mode, and its bytes where it is a regular file."""

    kind: str
    mode: int
    content: bytes = b""

    def __str__(self) -> str:
        return f"{self.kind}, mode {self.mode:04o}, {len(self.content)} bytes"


def file_text(file: StoredFile | None) -> str:
    """The kind of file, for people."""
    return "no such file" if file is None else str(file)


Image = Mapping[str, StoredFile]
Difference = tuple[str, str, str]
"""(what, expected, found)."""


def image_of(home: Path, *, with_folders: bool = False) -> dict[str, StoredFile]:
    """Every file below `home` by its path. No link is followed. Raises `OSError`."""
    found: dict[str, StoredFile] = {}
    _gather(home, "", found, with_folders)
    return found


def _gather(folder: Path, prefix: str, found: dict[str, StoredFile], with_folders: bool) -> None:
    for entry in sorted(os.scandir(folder), key=lambda each: each.name):
        mode = entry.stat(follow_symlinks=False).st_mode
        path = prefix + entry.name
        if stat.S_ISDIR(mode):
            if with_folders:
                found[path] = StoredFile(FOLDER, stat.S_IMODE(mode))
            _gather(Path(entry.path), f"{path}/", found, with_folders)
        elif stat.S_ISREG(mode) and entry.stat().st_size > MAX_FILE_BYTES:
            found[path] = StoredFile(f"file of {entry.stat().st_size} bytes", stat.S_IMODE(mode))
        elif stat.S_ISREG(mode):
            content = Path(entry.path).read_bytes()
            found[path] = StoredFile("file", stat.S_IMODE(mode), content)
        else:
            kind = "link" if stat.S_ISLNK(mode) else "neither file nor folder"
            found[path] = StoredFile(kind, stat.S_IMODE(mode))


def image_digest(image: Image) -> str:
    """SHA-256 over paths, kinds, modes and contents."""
    hasher = hashlib.sha256()
    for path, file in sorted(image.items()):
        content = hashlib.sha256(file.content).hexdigest()
        line = [os.fsencode(path).hex(), file.kind, f"{file.mode:o}", content]
        hasher.update(" ".join(line).encode() + b"\n")
    return hasher.hexdigest()


def write_image(image: Image, home: Path) -> None:
    """The folder, which was not there or is empty, holds the files of the image and their modes."""
    make_folder(home)
    made = {home}
    for name, file in image.items():
        path = home / name
        if file.kind == FOLDER:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.chmod(file.mode)
            continue
        if path.parent not in made:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            made.add(path.parent)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, file.mode)
        with os.fdopen(descriptor, "wb") as written:
            os.fchmod(descriptor, file.mode)
            written.write(file.content)


def swap_image(image: Image, home: Path) -> None:
    """The home holds the files of the image, and nothing else is in the folder around it.

    The files are put beside the home and swapped in. Raises `OSError`.
    """
    fresh, stale = home.with_name("fresh"), home.with_name("stale")
    make_folder(home.parent)
    for entry in os.scandir(home.parent):
        if Path(entry.path) != home:
            remove(Path(entry.path))
    write_image(image, fresh)
    if home.is_symlink() or home.exists():
        home.rename(stale)
    fresh.rename(home)
    remove(stale)
