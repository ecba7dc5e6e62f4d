"""Possible changes to a folder: to contents, names, permissions, owners and attributes."""

from __future__ import annotations

import os
import random
import shutil
import struct
from pathlib import Path
from typing import Final

from lab.benchmarks.hostile_places import Family, NoPlace, pick


def entries(folder: Path, *, files: bool = True) -> list[Path]:
    found = sorted(p for p in folder.rglob("*") if not p.is_symlink())
    return [p for p in found if p.is_file()] if files else found


def file_content(folder: Path, rng: random.Random) -> str:
    file = pick(entries(folder), rng)
    content = file.read_bytes()
    at = rng.randrange(len(content) + 1)
    ways = [
        content + b"\n",
        content[:at],
        content[:at] + b"\0" + content[at:],
        content.upper(),
        b"",
        content[::-1],
        content.replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbf" + content,
    ]
    left = [w for w in ways if w != content]
    stamp = file.stat()
    file.write_bytes(pick(left, rng))
    if rng.random() < 0.5:
        os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    return f"another content of {file.name}"


def entry_gone(folder: Path, rng: random.Random) -> str:
    entry = pick(entries(folder, files=False), rng)
    if rng.random() < 0.4:
        entry.rename(entry.with_name(entry.name + rng.choice(["~", ".bak", " ", "\u200b"])))
        return f"{entry.name} has another name"
    shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    return f"{entry.name} is gone"


def entry_made(folder: Path, rng: random.Random) -> str:
    parents = [folder, *(p for p in entries(folder, files=False) if p.is_dir())]
    name = rng.choice([".hidden", "new.txt", "x\n", "\u0435", "core", "z" * 200, "-rf", "con"])
    place = pick(parents, rng) / f"{name}{rng.randrange(1000)}"
    way = rng.choice(["file", "empty", "folder", "link", "outside", "pipe", "hard link"])
    match way:
        case "file":
            place.write_bytes(rng.randbytes(rng.randrange(1, 5000)))
        case "empty":
            place.touch()
        case "folder":
            place.mkdir()
        case "link":
            place.symlink_to(pick(entries(folder), rng))
        case "outside":
            place.symlink_to("/etc/passwd")
        case "pipe":
            os.mkfifo(place)
        case _:
            place.hardlink_to(pick(entries(folder), rng))
    return f"a new {way}"


def permissions(folder: Path, rng: random.Random) -> str:
    entry = pick([folder, *entries(folder, files=False)], rng)
    mode = entry.stat().st_mode & 0o7777
    entry.chmod(mode ^ rng.choice([0o4000, 0o2000, 0o1000, 0o002, 0o020, 0o100, 0o001, 0o040]))
    return f"mode {mode:04o} of {entry.name}"


def ownership(folder: Path, rng: random.Random) -> str:
    if os.geteuid() != 0:
        raise NoPlace
    entry = pick([folder, *entries(folder, files=False)], rng)
    owner = rng.randrange(2000, 60000)
    user, group = rng.choice([(owner, -1), (-1, owner), (owner, owner)])
    os.chown(entry, user, group)
    return f"owner {user}:{group} of {entry.name}"


def attributes(folder: Path, rng: random.Random) -> str:
    entry = pick([folder, *entries(folder, files=False)], rng)
    name = rng.choice(
        [
            "user.note",
            "user.mime_type",
            "security.capability",
            "trusted.x",
            "system.posix_acl_access",
            "system.posix_acl_default",
        ]
    )
    value = rng.randbytes(rng.randrange(1, 40))
    if name == "security.capability":
        value = struct.pack("<IIIII", 0x2000001, 1 << rng.randrange(30), 0, 0, 0)
    elif name.startswith("system"):
        user = rng.randrange(2000, 60000)
        parts = ((1, 7, -1), (2, 7, user), (4, 5, -1), (16, 7, -1), (32, 5, -1))
        value = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *part) for part in parts)
    try:
        os.setxattr(entry, name, value)
    except OSError as error:
        raise NoPlace from error  # this file system, or this user, has none of these
    return f"{name} of {entry.name}"


def exchanged(folder: Path, rng: random.Random) -> str:
    files = entries(folder)
    contents = {f: f.read_bytes() for f in files}
    pairs = [(a, b) for a in files for b in files if contents[a] != contents[b]]
    one, two = pick(pairs, rng)
    one.write_bytes(contents[two])
    two.write_bytes(contents[one])
    return f"{one.name} and {two.name} have each other's content"


def of_another_kind(folder: Path, rng: random.Random) -> str:
    file = pick(entries(folder), rng)
    aside = folder.parent / "aside"
    shutil.copy2(file, aside)
    file.unlink()
    way = rng.choice(["link", "folder", "pipe"])
    match way:
        case "link":
            file.symlink_to(aside)
        case "folder":
            file.mkdir()
        case _:
            os.mkfifo(file)
    return f"{file.name} is a {way}"


def folder_itself(folder: Path, rng: random.Random) -> str:
    way = rng.choice(["gone", "a file", "a link", "empty"])
    aside = folder.with_name("aside")
    shutil.copytree(folder, aside, symlinks=True)
    shutil.rmtree(folder)
    match way:
        case "a file":
            folder.touch()
        case "a link":
            folder.symlink_to("aside")
        case "empty":
            folder.mkdir()
    return f"the folder is {way}"


def file_chore(folder: Path, rng: random.Random) -> str:
    file = pick(entries(folder), rng)
    way = rng.choice(
        [
            "touch",
            "read",
            "rewrite",
            "replace",
            "link and unlink",
            "make and remove",
            "rename twice",
            "same mode",
        ]
    )
    match way:
        case "touch":
            return touched(folder, rng)
        case "read":
            file.read_bytes()
        case "rewrite":
            file.write_bytes(file.read_bytes())
        case "replace":
            shutil.copy2(file, new := file.with_name("new"))
            os.chown(new, file.stat().st_uid, file.stat().st_gid)
            new.replace(file)
        case "link and unlink":
            (other := file.with_name("other")).hardlink_to(file)
            other.unlink()
        case "make and remove":
            (other := file.with_name(".lock")).touch()
            other.unlink()
        case "rename twice":
            file.rename(file.with_name("other")).rename(file)
        case _:
            file.chmod(file.stat().st_mode & 0o7777)
    return f"{way}: {file.name}"


def touched(path: Path, rng: random.Random) -> str:
    found = (
        sorted(p for p in [path, *path.rglob("*")] if p.is_file() and not p.is_symlink())
        if path.is_dir()
        else [path]
    )
    place, instant = pick(found, rng), rng.randrange(10**9, 2 * 10**9)
    os.utime(place, (instant, instant))
    return f"{place.name} has another time"


HARMS: Final[tuple[Family, ...]] = (
    file_content,
    entry_gone,
    entry_made,
    permissions,
    ownership,
    attributes,
    exchanged,
    of_another_kind,
    folder_itself,
)
CHORES: Final[tuple[Family, ...]] = (file_chore,)
