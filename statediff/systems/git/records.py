"""Commits, annotated tags and trees as the records they are; a malformed part costs only itself."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from statediff.model.batches import Row
from statediff.model.values import Observed, Unobserved
from statediff.systems.files.tree import NotRead, shown, text_or_bytes

_ID: Final = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_PERSON: Final = re.compile(rb"([^<>\n]*)<([^<>\n]*)> (-?[0-9]{1,18}) [+-][0-9]{2,6}")
_TREE_ENTRY: Final = re.compile(rb"([0-7]{1,7}) ([^\0]*)\0", re.DOTALL)
_EPOCH: Final = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True)
class TreeEntry:
    """One line of a tree."""

    mode: int
    name: bytes
    oid: str

    @property
    def is_tree(self) -> bool:
        return self.mode & 0o170000 == 0o040000

    @property
    def is_submodule(self) -> bool:
        return self.mode & 0o170000 == 0o160000


def commit_row(oid: str, content: bytes) -> tuple[Row, tuple[str, ...]]:
    """A commit and the ids of its parents. `NotRead` when those cannot be told."""
    headers, message = _split(content)
    tree = headers[0][1] if headers and headers[0][0] == b"tree" else b""
    parents = tuple(value for name, value in headers if name == b"parent")
    # Git reads parents only directly below the tree: elsewhere they would be ours alone.
    is_ordered = all(name == b"parent" for name, _ in headers[1 : 1 + len(parents)])
    if not is_ordered or not all(_ID.fullmatch(value) for value in (tree, *parents)):
        raise NotRead(f"commit {oid} has a malformed header")
    texts = tuple(value.decode() for value in parents)
    row: Row = {
        "id": oid,
        **_person(f"commit {oid}", headers, b"author", ("author_name", "author_email"), "authored"),
        **_person(
            f"commit {oid}",
            headers,
            b"committer",
            ("committer_name", "committer_email"),
            "committed",
        ),
        "message": text_or_bytes(message),
        "tree": tree.decode(),
        "parents": texts,
    }
    return row, texts


def tag_row(oid: str, content: bytes) -> tuple[Row, str]:
    """An annotated tag and the id it points at. `NotRead` when that cannot be told."""
    headers, message = _split(content)
    target = headers[0][1] if headers and headers[0][0] == b"object" else b""
    if not _ID.fullmatch(target):
        raise NotRead(f"tag {oid} has a malformed header")
    names = [value for name, value in headers if name == b"tag"]
    row: Row = {
        "id": oid,
        "name": text_or_bytes(names[0])
        if len(names) == 1
        else Unobserved(f"tag {oid} has a malformed header"),
        "target": target.decode(),
        **_person(f"tag {oid}", headers, b"tagger", ("tagger_name", "tagger_email"), "tagged"),
        "message": text_or_bytes(message),
    }
    return row, target.decode()


def tree_entries(oid: str, content: bytes) -> list[TreeEntry]:
    """The lines of a tree, in their order. `NotRead` when it is malformed."""
    width = len(oid) // 2
    entries: list[TreeEntry] = []
    at = 0
    while at < len(content):
        match = _TREE_ENTRY.match(content, at)
        if match is None or match.end() + width > len(content):
            raise NotRead(f"tree {oid} is malformed")
        at = match.end() + width
        if not match[2] or b"/" in match[2]:
            raise NotRead(f"tree {oid} has an entry named {shown(match[2]) or 'nothing'}")
        entries.append(TreeEntry(int(match[1], 8), match[2], content[match.end() : at].hex()))
    return entries


def _split(content: bytes) -> tuple[list[tuple[bytes, bytes]], bytes]:
    head, _, message = content.partition(b"\n\n")
    headers: list[tuple[bytes, bytes]] = []
    for line in head.rstrip(b"\n").split(b"\n"):
        if line.startswith(b" ") and headers:  # a continued header, such as a signature
            headers[-1] = (headers[-1][0], headers[-1][1] + b"\n" + line[1:])
        else:
            name, _, value = line.partition(b" ")
            headers.append((name, value))
    return headers, message


def _person(
    what: str,
    headers: list[tuple[bytes, bytes]],
    header: bytes,
    fields: tuple[str, str],
    verb: str,
) -> Row:
    values = [value for name, value in headers if name == header]
    names = (*fields, f"{verb}_at")
    if not values and header == b"tagger":  # old tags have none
        return dict.fromkeys(names)
    match = _PERSON.fullmatch(values[0]) if len(values) == 1 else None
    if match is None:
        doubt: Observed = Unobserved(f"{what} has a malformed {header.decode()} line")
        return dict.fromkeys(names, doubt)
    try:
        at: Observed = _EPOCH + timedelta(seconds=int(match[3]))
    except OverflowError:
        at = Unobserved(f"{what} has a time outside the years 1 to 9999")
    values_found = (text_or_bytes(match[1].strip()), text_or_bytes(match[2].strip()), at)
    return dict(zip(names, values_found, strict=True))
