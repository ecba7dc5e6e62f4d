"""What a repository delivers: its entity types, and the shape in which its parts are gathered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from statediff.model.batches import Row
from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.model.state import COMPLETE, Coverage, Enumeration
from statediff.model.values import Observed, Unobserved
from statediff.systems.files.tree import Entry, EntryKind, small_text, text_or_bytes

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
    }


def schema_of(source: str, prefix: str) -> Schema:
    """The types of a repository under `prefix`, delivered by `source`."""
    types = tuple(_types(prefix))
    return Schema(source, "0", types, ((source, tuple(t.name for t in types)),))


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
    )
    return EntityType(name, (key,), fields)


def _types(p: str) -> list[EntityType]:
    commit = (
        _text("id"),
        _maybe("author_name"),
        _maybe("author_email"),
        _maybe("authored_at", Kind.TIMESTAMP),
        _maybe("committer_name"),
        _maybe("committer_email"),
        _maybe("committed_at", Kind.TIMESTAMP),
        _text("message"),
        _text("tree"),
        Field("parents", Kind.LIST, is_nullable=False),
        _flag("is_intact"),
    )
    tag = (
        _text("id"),
        _text("name"),
        _text("target"),
        _maybe("tagger_name"),
        _maybe("tagger_email"),
        _maybe("tagged_at", Kind.TIMESTAMP),
        _text("message"),
    )
    return [
        _entry_type(f"{p}.admin_file", "path"),
        EntityType(f"{p}.commit", ("id",), commit),
        EntityType(
            f"{p}.config",
            ("file", "name", "position"),
            (
                _text("file"),
                _text("name"),
                Field("position", Kind.INT, is_nullable=False),
                _maybe("value"),
            ),
        ),
        EntityType(
            f"{p}.file",
            ("branch", "path"),
            (
                _text("branch"),
                _text("path"),
                _text("mode"),
                _text("blob"),
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
                Field("stage", Kind.INT, is_nullable=False),
                _text("mode"),
                _text("blob"),
                _flag("is_assumed_unchanged"),
                _flag("is_skipped_in_worktree"),
                _flag("is_intent_to_add"),
            ),
        ),
        EntityType(
            f"{p}.ref",
            ("name",),
            (
                _text("name"),
                _text("kind"),
                _maybe("target"),
                _maybe("commit", reference=f"{p}.commit"),
                _maybe("symbolic_target"),
            ),
        ),
        EntityType(
            f"{p}.repository",
            ("name",),
            (
                _text("name"),
                _flag("is_bare"),
                _maybe("head"),
                _text("object_format"),
                _flag("is_shallow"),
                _flag("has_alternates"),
                _maybe("core_worktree"),
                Field("oddities", Kind.LIST, is_nullable=False),
            ),
        ),
        EntityType(f"{p}.tag", ("id",), tag),
        _entry_type(f"{p}.work_file", "path"),
    ]
