"""Folders of a sandbox, made and removed without following a link that an agent left there."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path
from typing import Final

_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def make_folder(folder: Path) -> None:
    """The folder exists, is a real directory of ours, and nobody else's."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        folder.unlink()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)


def remove(path: Path) -> None:
    """Nothing is at `path` any more; links are removed, never followed."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    path.chmod(0o700)
    empty(path)
    path.rmdir()


def empty(folder: Path) -> None:
    """Nothing is in the folder any more; links are removed, never followed.

    A folder inside is dissolved: what it holds is moved up and looked at again. So no path grows
    and nothing recurses, however deep an agent has nested its folders.
    """
    top = os.open(folder, _FOLDER_FLAGS)
    try:
        while names := os.listdir(top):  # noqa: PTH208 - an open folder has no path
            for name in names:
                if _is_folder(name, top):
                    _dissolve(name, top)
                else:
                    os.unlink(name, dir_fd=top)
    finally:
        os.close(top)


def _dissolve(name: str, top: int) -> None:
    os.chmod(name, 0o700, dir_fd=top)
    inner = os.open(name, _FOLDER_FLAGS, dir_fd=top)
    try:
        for below in os.listdir(inner):  # noqa: PTH208 - as above
            if _is_folder(below, inner):
                os.chmod(below, 0o700, dir_fd=inner)  # to move it is to write its `..`
            os.rename(below, f".{secrets.token_hex(16)}", src_dir_fd=inner, dst_dir_fd=top)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=top)


def _is_folder(name: str, parent: int) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
