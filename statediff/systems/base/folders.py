"""Folders of a sandbox, made and removed without following a link that an agent left there."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import secrets
import shutil
import signal
import stat
import struct
from pathlib import Path
from typing import Final

from statediff.systems.base.reaper import attempts

SERVICE_USER: Final = 65532
AGENT_USER: Final = 65533
"""Users in containers, whom a folder of the evaluator's is handed to where that one is root."""
_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_STATX: Final = getattr(ctypes.CDLL(None), "statx", None)
_OF_THE_OPEN: Final = 0x1000
_MOUNTED: Final = 0x2000


_OF_THE_PATH: Final = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP)


def is_of_the_path(error: Exception) -> bool:
    """True if what is at a path is why it cannot be opened, rather than the machine."""
    return isinstance(error, OSError) and error.errno in _OF_THE_PATH


def is_no_folder(path: Path) -> bool:
    """True if no folder is at the path that could be read: a link, a file, nothing."""
    try:
        is_folder = stat.S_ISDIR(path.lstat().st_mode)
    except (OSError, ValueError) as error:
        return is_of_the_path(error)
    return not is_folder or not os.access(path, os.R_OK | os.X_OK)


def make_folder(folder: Path) -> None:
    """The folder exists, is a real directory of ours, and nobody else's."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        folder.unlink()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)


def give(place: Path, user: int) -> None:
    """All below the place is the program's own, where the evaluator is somebody else."""
    if os.geteuid() == user:
        return
    os.chown(place, user, -1, follow_symlinks=False)
    for parent, folders, files in os.walk(place):
        for name in (*folders, *files):
            os.chown(Path(parent, name), user, -1, follow_symlinks=False)


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

    A folder inside is dissolved: folders in it are moved up and looked at again. So no path grows
    and nothing recurses, however deep an agent has nested its folders.
    """
    top = os.open(folder, _FOLDER_FLAGS)
    try:
        while names := os.listdir(top):  # noqa: PTH208 - an open folder has no path
            for name in names:
                discard(name, top)
    finally:
        os.close(top)


def discard(name: str, top: int) -> None:
    """Nothing is at the name in an open folder any more, as `empty` does it.

    `OSError` where something else is mounted there: nothing of that is moved or removed.
    """
    waiting = [name]
    while waiting:
        at = waiting.pop()
        if _is_folder(at, top):
            waiting += _dissolved(at, top)
        else:
            os.unlink(at, dir_fd=top)


def _dissolved(name: str, top: int) -> list[str]:
    inner = inner_folder(name, top)
    moved: list[str] = []
    try:
        for below in os.listdir(inner):  # noqa: PTH208 - as above
            if not _is_folder(below, inner):
                os.unlink(below, dir_fd=inner)
                continue
            os.close(inner_folder(below, inner))  # to move it is to write its `..`
            moved.append(f".{secrets.token_hex(16)}")
            os.rename(below, moved[-1], src_dir_fd=inner, dst_dir_fd=top)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=top)
    return moved


def inner_folder(name: str, parent: int) -> int:
    """The open folder of the name in another one, no link and nothing mounted; `OSError` else.

    It may be listed and written to then.
    """
    try:
        inner = os.open(name, _FOLDER_FLAGS, dir_fd=parent)
    except PermissionError:
        if not hasattr(os, "O_PATH"):
            raise
        place = os.open(name, _FOLDER_FLAGS | os.O_PATH, dir_fd=parent)
        try:
            _require_not_mounted(place, parent)
            os.chmod(f"/proc/self/fd/{place}", 0o700)  # noqa: PTH101 - as above
            inner = os.open(".", _FOLDER_FLAGS, dir_fd=place)
        finally:
            os.close(place)
    try:
        _require_not_mounted(inner, parent)
        if stat.S_IMODE(os.fstat(inner).st_mode) & 0o700 != 0o700:
            os.fchmod(inner, 0o700)
    except BaseException:
        os.close(inner)
        raise
    return inner


def _require_not_mounted(folder: int, parent: int) -> None:
    is_elsewhere = os.fstat(folder).st_dev != os.fstat(parent).st_dev
    if is_elsewhere or is_mounted(folder):
        raise OSError(errno.EXDEV, "something else is mounted there")


def is_mounted(folder: int) -> bool:
    """True if the open folder is where something is mounted, as far as statx says so."""
    return bool(attribute_bits(folder, b"", _OF_THE_OPEN) & _MOUNTED)


def attribute_bits(folder: int, path: bytes, flags: int) -> int:
    """The attributes of what is at the path, as statx says; 0 where nothing says so."""
    if _STATX is None:
        return 0
    told = ctypes.create_string_buffer(256)
    if _STATX(folder, path, flags, 0, told) != 0:
        return 0
    return int(struct.unpack_from("=Q", told, 8)[0])


def _is_folder(name: str, parent: int) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)


def clear(folder: str) -> None:
    """Nothing is left of the folder, nor of what ran in it, as far as the kernel shows that."""
    for _ in attempts():
        for pid in inhabitants(folder):
            _kill(pid, folder)
        try:
            remove(Path(folder))
        except OSError:  # somebody writes there still, or owns a part of it: the rest can go
            shutil.rmtree(folder, ignore_errors=True)
        if not os.path.lexists(folder) and not inhabitants(folder):
            return


def inhabitants(folder: str) -> list[int]:
    """The processes whose working folder, home or temporary files are below the folder.

    Ours is not among them. A system without /proc shows none.
    """
    pids = (int(entry.name) for entry in Path("/proc").glob("[0-9]*"))
    return [pid for pid in pids if pid != os.getpid() and _lives_below(pid, folder)]


def _lives_below(pid: int, folder: str) -> bool:
    below = os.fsencode(folder) + b"/"
    try:
        place = os.fsencode(Path(f"/proc/{pid}/cwd").readlink())
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False  # it has ended, or is not ours to see
    homes = tuple(name + below for name in (b"HOME=", b"TMPDIR="))
    return (place + b"/").startswith(below) or any(each.startswith(homes) for each in variables)


def _kill(pid: int, folder: str) -> None:
    """The process was killed if it lives there: not another that has its number since."""
    with contextlib.suppress(AttributeError, OSError):  # it has ended, or there are no handles
        handle = os.pidfd_open(pid)
        try:
            if _lives_below(pid, folder):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)
