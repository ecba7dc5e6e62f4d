"""A repository's refs and settings, read from their files: git's own settings decide nothing here.

Refs are loose, packed or symbolic, HEAD included. A ref that cannot be understood is a ref with a
cause; a place that may hide refs (a link, a table format, a damaged list) makes the enumeration
incomplete. Settings are parsed and never obeyed: includes are entries like any other.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from statediff.systems.files.tree import Entry, EntryKind, Folder, Limits, NotRead, shown
from statediff_git.packed import (
    MAX_REF_BYTES,
    PackedRefs,
    is_ref_name,
    read_packed,
)

MAX_CONFIG_BYTES: Final = 1024 * 1024
MAX_NAME_BYTES: Final = 4096
_SECTION: Final = re.compile(rb'\[([A-Za-z0-9.-]+)(?:[ \t]+"((?:[^"\\\n]|\\[^\n])*)")?\]')
_NAME: Final = re.compile(rb"([A-Za-z][A-Za-z0-9-]*)[ \t]*")
_BLANK: Final = b" \t\r\n"
_ESCAPES: Final = {ord("n"): 10, ord("t"): 9, ord("b"): 8, ord('"'): 34, ord("\\"): 92}


@dataclass(frozen=True)
class Setting:
    """One entry: `name` with section and key in lower case, `value` None where `=` is missing."""

    name: bytes
    value: bytes | None


def parse_config(stored: bytes) -> list[Setting]:
    """The entries of a config file in their order. `NotRead` names the line that is not one."""
    settings: list[Setting] = []
    section = b""
    at = 3 if stored.startswith(b"\xef\xbb\xbf") else 0
    while at < len(stored):
        if stored[at] in _BLANK:
            at += 1
        elif stored[at] in b"#;":
            at = _line_end(stored, at)
        elif match := _SECTION.match(stored, at):
            section = match[1].lower()
            if match[2] is not None:
                section += b"." + re.sub(rb"\\(.)", rb"\1", match[2])
            at = match.end()
        elif section and (match := _NAME.match(stored, at)):
            name = section + b"." + match[1].lower()
            if len(name) > MAX_NAME_BYTES:
                raise NotRead(f"a name is longer than {MAX_NAME_BYTES} bytes")
            value, at = _value(stored, match.end())
            settings.append(Setting(name, value))
        else:
            raise _malformed_line(stored, at)
    return settings


def last(settings: list[Setting], name: bytes) -> bytes | None:
    """The value that counts for a setting with one value; None where it is not set."""
    values = [setting.value for setting in settings if setting.name == name]
    return (b"true" if values[-1] is None else values[-1]) if values else None


def _malformed_line(stored: bytes, at: int) -> NotRead:
    return NotRead(f"line {stored.count(10, 0, at) + 1} is not a setting")


def _line_end(stored: bytes, at: int) -> int:
    end = stored.find(b"\n", at)
    return len(stored) if end < 0 else end


def _value(stored: bytes, at: int) -> tuple[bytes | None, int]:
    if at >= len(stored) or stored[at] == 10 or _is_line_end(stored, at):
        return None, at
    if stored[at : at + 1] != b"=":
        raise _malformed_line(stored, at)
    start, value, kept, is_quoted = at, bytearray(), 0, False
    at += 1
    while at < len(stored):
        byte = stored[at]
        if byte == 10 or _is_line_end(stored, at):
            break
        if byte in b"#;" and not is_quoted:
            at = _line_end(stored, at)
            break
        if byte == ord('"'):
            is_quoted = not is_quoted
            kept = len(value)
        elif byte == ord("\\"):
            at += 1
            if _is_line_end(stored, at):
                at += 1  # CR LF
            following = stored[at] if at < len(stored) else 10
            if following != 10:
                if following not in _ESCAPES:
                    raise _malformed_line(stored, at)
                value.append(_ESCAPES[following])
                kept = len(value)
        elif byte not in b" \t\r" or is_quoted:
            value.append(byte)
            kept = len(value)
        elif value:
            value.append(byte)  # kept only if something follows it
        at += 1
    if is_quoted:
        raise _malformed_line(stored, start)
    return bytes(value[:kept]), at


def _is_line_end(stored: bytes, at: int) -> bool:
    return stored[at : at + 2] == b"\r\n"


NO_OBJECT: Final = "0" * 40
"""In place of the id of a ref that is not there."""
MAX_REFS: Final = 100_000
MAX_STEPS: Final = 5
"""Symbolic refs followed one after the other, as git does."""
_ID: Final = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?")


@dataclass(frozen=True)
class Ref:
    """The content of one ref's own file: an id, another ref, or `cause` why neither is known."""

    name: bytes
    oid: str | None = None
    symbolic: bytes | None = None
    cause: str | None = None


@dataclass(frozen=True)
class Refs:
    """All refs by name, HEAD apart. Two readings of unchanged refs are equal."""

    head: Ref
    by_name: dict[bytes, Ref]
    strays: tuple[Entry, ...]
    """Entries below `refs/` that no ref can be called, such as lock files, or that git would write
    otherwise."""
    is_head_odd: bool
    """Git would write HEAD otherwise, or refuse to read it."""
    packed: PackedRefs
    """The list of packed refs."""
    loose: frozenset[bytes]
    """Refs with a file of their own: what the list says of them counts for nothing."""
    causes: tuple[str, ...]
    """Why there may be other refs."""

    def resolved(self, ref: Ref) -> str | None:
        """The id at the end of `ref`; None where it leads to a ref not yet born."""
        steps = 0
        while ref.symbolic is not None:
            steps += 1
            if steps > MAX_STEPS:
                raise NotRead(f"{shown(ref.name)} leads from ref to ref without an end")
            found = self.by_name.get(ref.symbolic)
            if found is None:
                if self.causes or not ref.symbolic.startswith(b"refs/"):
                    raise NotRead(f"{shown(ref.name)} leads to {shown(ref.symbolic)}, not a ref")
                return None
            ref = found
        if ref.cause is not None:
            raise NotRead(ref.cause)
        return ref.oid


def read_refs(git: Folder) -> Refs:
    """Every ref of the git folder."""
    causes: list[str] = []
    listed = read_packed(git, causes, MAX_REFS)
    by_name = {name: Ref(name, packed.oid) for name, packed in listed.refs.items()}
    strays: list[Entry] = []
    loose: set[bytes] = set()
    hidden: list[bytes] = []  # where loose refs may stand that override packed ones
    try:
        with git.folder(b"refs") as folder:
            tree = folder.tree(Limits(entries=MAX_REFS, file_bytes=MAX_REF_BYTES))
        causes.extend(tree.causes)
        for entry in tree.entries:
            name = b"refs/" + entry.path
            if entry.kind is EntryKind.DIRECTORY:
                continue
            if not is_ref_name(name):
                strays.append(entry)
                continue
            by_name[name] = _loose(name, entry)
            loose.add(name)
            if entry.kind is not EntryKind.FILE or entry.content != _as_written(by_name[name]):
                strays.append(entry)
            if entry.kind is EntryKind.LINK and by_name[name].symbolic is None:
                hidden.append(name + b"/")
                causes.append(f"{shown(name)} is a link, which is not followed")
        if tree.causes:
            hidden.append(b"refs/")
    except NotRead as error:
        hidden.append(b"refs/")
        causes.append(str(error))
    for name in by_name.keys() - loose:
        if name.startswith(tuple(hidden)):
            by_name[name] = Ref(name, cause=f"{shown(name)} is packed, and may be overridden")
    ordered = {name: by_name[name] for name in sorted(by_name)}
    head, is_odd = _head(git)
    return Refs(
        head=head,
        by_name=ordered,
        strays=tuple(strays),
        is_head_odd=is_odd,
        packed=listed,
        loose=frozenset(loose),
        causes=tuple(dict.fromkeys(causes)),
    )


def move(name: bytes, old: str, new: str) -> str | None:
    """The name of one ref's move, for feeds and for calls alike; None where it is no text.

    The id of no object is `NO_OBJECT`.
    """
    try:
        return f"{name.decode()} {old}..{new}"
    except UnicodeDecodeError:
        return None


def moves(before: Refs, after: Refs) -> tuple[str, ...]:
    """The names of all moves between two readings of plain refs, sorted."""
    found: list[str] = []
    for name in sorted({*before.by_name, *after.by_name}):
        old, new = (refs.by_name.get(name, Ref(name, NO_OBJECT)).oid for refs in (before, after))
        named = move(name, old, new) if old and new and old != new else None
        if named is not None:
            found.append(named)
    return tuple(found)


def _loose(name: bytes, entry: Entry) -> Ref:
    if entry.kind is EntryKind.LINK:
        return _ref_of_link(name, entry.target)
    if entry.kind is not EntryKind.FILE:
        return Ref(name, cause=f"{shown(name)} is a {entry.kind.value}, not a file")
    if entry.content is None:
        return Ref(name, cause=entry.cause or f"{shown(name)} is too large for a ref")
    return _parse_ref(name, entry.content)


def _ref_of_link(name: bytes, target: bytes | None) -> Ref:
    # Git once kept symbolic refs as links, and still reads those that point below refs/.
    if target is not None and target.startswith(b"refs/") and is_ref_name(target):
        return Ref(name, symbolic=target)
    return Ref(name, cause=f"{shown(name)} is a link, which is not followed")


def _as_written(ref: Ref) -> bytes | None:
    """The bytes that git writes for a ref; None where it would not."""
    if ref.symbolic is not None:
        return b"ref: " + ref.symbolic + b"\n"
    return None if ref.oid is None else ref.oid.encode() + b"\n"


def _parse_ref(name: bytes, stored: bytes) -> Ref:
    if stored.startswith(b"ref:"):
        target = stored[4:].strip()
        if is_ref_name(target):
            return Ref(name, symbolic=target)
        return Ref(name, cause=f"{shown(name)} points at {shown(target)}, not a ref")
    text = stored.rstrip()
    if _ID.fullmatch(text):
        return Ref(name, text.decode())
    return Ref(name, cause=f"{shown(name)} holds no object id")


def _head(git: Folder) -> tuple[Ref, bool]:
    """HEAD, and whether git would write it otherwise."""
    try:
        if git.kind(b"HEAD") is EntryKind.LINK:
            return _ref_of_link(b"HEAD", git.target(b"HEAD")), True
        stored = git.read(b"HEAD", MAX_REF_BYTES)
    except NotRead as error:
        return Ref(b"HEAD", cause=str(error)), True
    if stored is None:
        return Ref(b"HEAD", cause="HEAD is not there"), False
    ref = _parse_ref(b"HEAD", stored)
    return ref, stored != _as_written(ref)
