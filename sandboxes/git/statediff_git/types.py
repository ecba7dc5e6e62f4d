"""A repository's entity types, and the rows of commits, tags and trees.

A malformed part of an object costs only itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from statediff.model.batches import Row
from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.model.state import COMPLETE, Coverage, Enumeration
from statediff.model.values import Observed, Unobserved
from statediff.systems.base.rows import source_schema
from statediff.systems.files.tree import Entry, EntryKind, NotRead, shown, small_text, text_or_bytes

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
    """A commit and the ids of its parents. `NotRead` when those cannot be known."""
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
    """An annotated tag and the id it points at. `NotRead` when that cannot be known."""
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


TYPE_NAMES: Final = (
    "admin_file",
    "commit",
    "config",
    "file",
    "hook",
    "index_entry",
    "ref",
    "repository",
    "tag",
    "work_file",
)
"""The entity types of a repository, without the prefix, in their order."""


@dataclass
class Listing:
    """The entities found of one type, and why there may be others."""

    rows: list[Row] = field(default_factory=list)
    causes: list[str] = field(default_factory=list)
    derived: frozenset[str] = frozenset()
    """Files, by their path, that say only what git makes of the rest (`git.derived`)."""

    @property
    def enumeration(self) -> Enumeration:
        if not self.causes:
            return COMPLETE
        coverage = Coverage.INCOMPLETE if self.rows else Coverage.UNOBSERVED
        causes = list(dict.fromkeys(self.causes))
        more = f"; and {len(causes) - 5} more" if len(causes) > 5 else ""
        return Enumeration(coverage, "; ".join(causes[:5]) + more)


def unread(cause: str) -> Listing:
    """A type of which nothing is known."""
    return Listing([], [cause])


def entry_row(name: str, entry: Entry) -> Row:
    """An entry of a tree as an entity whose key field is `name`, like those of the files source."""
    doubt = None if entry.cause is None else Unobserved(entry.cause)
    is_file, is_link = entry.kind is EntryKind.FILE, entry.kind is EntryKind.LINK
    target: Observed = None if entry.target is None else text_or_bytes(entry.target)
    return {
        name: text_or_bytes(entry.path),
        "kind": entry.kind.value,
        "mode": f"{entry.mode & 0o7777:04o}",
        "size": entry.size if is_file else None,
        "digest": doubt if is_file and doubt else entry.digest,
        "text": doubt if is_file and doubt else small_text(entry.content),
        "target": doubt if is_link and doubt else target,
        "device": entry.device,
        "owner": entry.owner,
        "group": entry.group,
        "attributes": entry.attributes,
    }


def schema_of(source: str, prefix: str) -> Schema:
    """The types of a repository under `prefix`, delivered by `source`."""
    types = tuple(_types(prefix))
    return source_schema(source, types)


def _text(name: str, *, reference: str | None = None) -> Field:
    return Field(name, Kind.TEXT, is_nullable=False, reference=reference)


def _maybe(name: str, kind: Kind = Kind.TEXT, *, reference: str | None = None) -> Field:
    return Field(name, kind, reference=reference)


def _flag(name: str) -> Field:
    return Field(name, Kind.BOOL, is_nullable=False)


def _entry_type(name: str, key: str) -> EntityType:
    fields = (
        _text(key),
        _text("kind"),
        _text("mode"),
        _maybe("size", Kind.INT),
        _maybe("digest"),
        _maybe("text"),
        _maybe("target"),
        _maybe("device", Kind.INT),
        _text("owner"),
        _text("group"),
        Field("attributes", Kind.MAP, is_nullable=False),
    )
    return EntityType(name, (key,), fields)


def _types(p: str) -> list[EntityType]:
    return [
        _entry_type(f"{p}.admin_file", "path"),
        EntityType(f"{p}.commit", ("id",), _commit_fields()),
        EntityType(
            f"{p}.config",
            ("file", "name", "position"),
            (
                *_texts("file", "name"),
                *(_number("position"), _number("place")),
                _maybe("value"),
            ),
        ),
        EntityType(
            f"{p}.file",
            ("branch", "path"),
            (
                *_texts("branch", "path", "mode", "blob"),
                _maybe("size", Kind.INT),
                _maybe("digest"),
                _maybe("text"),
            ),
        ),
        _entry_type(f"{p}.hook", "name"),
        EntityType(
            f"{p}.index_entry",
            ("path", "stage"),
            (
                _text("path"),
                _number("stage"),
                *_texts("mode", "blob"),
                _flag("is_assumed_unchanged"),
                _flag("is_skipped_in_worktree"),
                _flag("is_intent_to_add"),
            ),
        ),
        EntityType(
            f"{p}.ref",
            ("name",),
            (
                *_texts("name", "kind"),
                _maybe("target"),
                _maybe("commit", reference=f"{p}.commit"),
                _maybe("symbolic_target"),
            ),
        ),
        EntityType(f"{p}.repository", ("name",), _repository_fields()),
        EntityType(
            f"{p}.tag",
            ("id",),
            (
                *_texts("id", "name", "target"),
                _maybe("tagger_name"),
                _maybe("tagger_email"),
                _maybe("tagged_at", Kind.TIMESTAMP),
                _text("message"),
            ),
        ),
        _entry_type(f"{p}.work_file", "path"),
    ]


def _commit_fields() -> tuple[Field, ...]:
    return (
        _text("id"),
        _maybe("author_name"),
        _maybe("author_email"),
        _maybe("authored_at", Kind.TIMESTAMP),
        _maybe("committer_name"),
        _maybe("committer_email"),
        _maybe("committed_at", Kind.TIMESTAMP),
        *_texts("message", "tree"),
        Field("parents", Kind.LIST, is_nullable=False),
        _flag("is_intact"),
    )


def _repository_fields() -> tuple[Field, ...]:
    return (
        _text("name"),
        _flag("is_bare"),
        _maybe("head"),
        _text("object_format"),
        _flag("is_shallow"),
        _flag("has_alternates"),
        _maybe("core_worktree"),
        Field("oddities", Kind.LIST, is_nullable=False),
    )


def _texts(*names: str) -> list[Field]:
    return [_text(name) for name in names]


def _number(name: str) -> Field:
    return Field(name, Kind.INT, is_nullable=False)
