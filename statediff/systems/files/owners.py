"""Who owns an entry, and what it has beside its content: access lists, capabilities, attributes.

An owner is `own` where it is the evaluator's user or one that the harness hands folders to, and a
number otherwise: the same folder reads the same for every evaluator that made it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import struct
from pathlib import Path
from typing import Final

from statediff.model.explanation import unread_because
from statediff.model.values import Map, Unobserved, Value
from statediff.systems.base.folders import AGENT_USER, SERVICE_USER, attribute_bits, is_of_the_path

OWN: Final = "own"
NOTHING: Final = Map(())
LEFT_OUT: Final = {"security.selinux": "the machine's policy labels every file"}
"""Attribute → why it is not known."""
MAX_VALUE_BYTES: Final = 256
"""A longer value is kept as its digest."""
_HARNESS: Final = frozenset({AGENT_USER, SERVICE_USER})
_ACCESS_LISTS: Final = ("system.posix_acl_access", "system.posix_acl_default")
_TAGS: Final = {1: "user:", 2: "user:{}", 4: "group:", 8: "group:{}", 16: "mask", 32: "other"}
_RIGHTS: Final = ((4, "r"), (2, "w"), (1, "x"))
_FLAGS: Final = ((0x10, "immutable"), (0x20, "append-only"))
_FROM_HERE: Final = -100
_NOT_FOLLOWED: Final = 0x100


def owner_of(status: os.stat_result) -> tuple[str, str]:
    """Owner and group, each `own` or its number."""
    user = OWN if status.st_uid in _HARNESS | {os.geteuid()} else str(status.st_uid)
    group = OWN if status.st_gid in _HARNESS | {os.getegid()} else str(status.st_gid)
    return user, group


def attributes(path: bytes) -> Map | Unobserved:
    """Name → value of each extended attribute of what is at `path`; a link is not followed.

    Beside them `flags`: whether the file system refuses changes of it.
    """
    if not hasattr(os, "listxattr"):
        return NOTHING  # no such thing on this system
    found: dict[str, Value] = {}
    if said := _flags(path):
        found["flags"] = said
    try:
        names = sorted(set(os.listxattr(path, follow_symlinks=False)) - LEFT_OUT.keys())
        found |= {_text(os.fsencode(name)): _value(path, name) for name in names}
    except OSError as error:
        if error.errno != errno.ENOTSUP:
            cause = f"its attributes cannot be read: {error.strerror}"
            return Unobserved(cause if is_of_the_path(error) else unread_because(cause))
    return Map.of(found) if found else NOTHING


def _flags(path: bytes) -> str:
    """Which of `chattr +i` and `+a` it has, as statx says; empty where nothing says so."""
    bits = attribute_bits(_FROM_HERE, path, _NOT_FOLLOWED)
    return ", ".join(name for bit, name in _FLAGS if bits & bit)


def beside(user: str, group: str, found: Map | Unobserved) -> str:
    """All of it in words, for a proof; empty of an entry as the harness makes it."""
    words = [f"{what} {name}" for what, name in (("owner", user), ("group", group)) if name != OWN]
    if isinstance(found, Unobserved):
        words.append(found.cause)
    else:
        words += [f"{name} {value}" for name, value in found.items if isinstance(value, str)]
    return ", ".join(words)


def beside_of(path: bytes, status: os.stat_result) -> str:
    """The same, of what is at `path`."""
    return beside(*owner_of(status), attributes(path))


def entry_path(folder: int, name: bytes) -> bytes:
    """A path to an entry of an open folder, for calls that take no folder."""
    return b"/proc/self/fd/%d/%s" % (folder, name)


def make_plain(folder: Path) -> None:
    """The folder, no link, is ours and has nothing beside its content. Raises `OSError`."""
    status = folder.lstat()
    if owner_of(status) != (OWN, OWN):
        os.chown(folder, os.geteuid(), os.getegid(), follow_symlinks=False)
    if hasattr(os, "listxattr"):
        for name in set(os.listxattr(folder, follow_symlinks=False)) - LEFT_OUT.keys():
            os.removexattr(folder, name, follow_symlinks=False)


def _value(path: bytes, name: str) -> str:
    stored = os.getxattr(path, name, follow_symlinks=False)
    told = _access_list(stored) if name in _ACCESS_LISTS else None
    if told is not None:
        return told
    if len(stored) > MAX_VALUE_BYTES:
        return f"sha256:{hashlib.sha256(stored).hexdigest()}"
    return _text(stored)


def _text(stored: bytes) -> str:
    """The text, if it is printable, else the bytes in hexadecimal."""
    try:
        text = stored.decode()
    except UnicodeDecodeError:
        return f"0x{stored.hex()}"
    return text if text.isprintable() and not text.startswith("0x") else f"0x{stored.hex()}"


def _access_list(stored: bytes) -> str | None:
    """E.g. `user:rw-,user:33:r--,group:r--,mask:r--,other:---`; None for what is no such list."""
    head, size = struct.calcsize("<I"), struct.calcsize("<HHI")
    if len(stored) < head or (len(stored) - head) % size or len(stored) > 64 * 1024:
        return None
    if struct.unpack_from("<I", stored)[0] != 2:
        return None
    entries = []
    for tag, bits, number in struct.iter_unpack("<HHI", stored[head:]):
        if tag not in _TAGS or bits > 7:
            return None
        rights = "".join(right if bits & bit else "-" for bit, right in _RIGHTS)
        entries.append(f"{_TAGS[tag].format(number).removesuffix(':')}:{rights}")
    return ",".join(entries)
