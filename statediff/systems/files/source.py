"""A folder as a source: every entry below it, with its kind, mode, size, digest and link target.

What is in the folder is read by `files.tree`: no link is followed, nothing but regular files is
opened, and content is hashed as a stream. The folder itself is the entity `.`; every other one has
its path below it, parts joined by `/`, as its key. A path or link target that is not UTF-8 is kept
as its bytes. Two names of one file (hard links) are two entities, of which the later names the
earlier one: what is written to the one is written to the other.

A file that could not be read leaves its digest and text unobserved with the cause; entries that
could not be listed, or lie beyond a limit, leave the enumeration incomplete.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Final

from statediff.capture.source import Clock, SourceRuined, SourceUnavailable, scanned
from statediff.model.batches import Row
from statediff.model.readings import SourceCapture
from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.model.state import (
    COMPLETE,
    ChunkStore,
    Coverage,
    Enumeration,
    State,
    beginnings,
    build_table,
)
from statediff.model.values import Map, Observed, Unobserved
from statediff.systems.base.folders import AGENT_USER, SERVICE_USER, is_no_folder
from statediff.systems.base.rows import source_schema
from statediff.systems.files.owners import LEFT_OUT
from statediff.systems.files.tree import (
    Entry,
    EntryKind,
    Folder,
    Limits,
    NotRead,
    Tree,
    small_text,
    text_or_bytes,
)

Refine = Callable[[Schema], Schema]

NOT_OBSERVED: Final = (
    "times of files and folders",
    "which names outside the folder lead to one of its files, and where a file has holes",
    "flags of the file system but `chattr +i` and `+a`, quotas and project numbers",
    f"changes of owner among the evaluator's user, {SERVICE_USER} and {AGENT_USER} (containers)",
    *(f"the attribute `{name}`: {why}" for name, why in LEFT_OUT.items()),
)
"""The facts of a tree of files that nobody looks at."""
ROOT: Final = "."
"""The path of the folder itself."""

FILE: Final = EntityType(
    "file",
    ("path",),
    (
        Field("path", Kind.TEXT, is_nullable=False),
        Field("kind", Kind.TEXT, is_nullable=False, is_immutable=True),
        Field("mode", Kind.TEXT, is_nullable=False),
        Field("size", Kind.INT),
        Field("digest", Kind.TEXT),
        Field("text", Kind.TEXT),
        Field("target", Kind.TEXT),
        Field("device", Kind.INT),
        Field("owner", Kind.TEXT, is_nullable=False),
        Field("group", Kind.TEXT, is_nullable=False),
        Field("attributes", Kind.MAP, is_nullable=False),
    ),
    table="file",
)
"""One entry. `kind` is file, directory, link, fifo, socket or device; `mode` its permission bits as
four octal digits. Of a file: `size` in bytes, `digest` (SHA-256, hex), and `text` where it is UTF-8
of at most `Limits.content_bytes`. Of a link: `target`, as it is written. What a kind does not have
is null. `owner` and `group` are `own` or a number; `attributes` is a map of extended attributes,
access lists (`system.posix_acl_…`) and capabilities (`security.capability`) by name, with `flags`
(`chattr +i` and `+a`) and, where an earlier path leads to the same file, that as `hard link`.
`kind` is immutable: a link in the place of a file is a deletion and a creation."""


class FilesSource:
    """The folder at `path`, which may not be a link, as a source.

    `refine` maps the one type `file` to its logical name, as a state schema file says.
    """

    not_observed: ClassVar[tuple[str, ...]] = NOT_OBSERVED
    settles_at_once: ClassVar[bool] = True

    def __init__(
        self, name: str, path: Path, refine: Refine | None = None, limits: Limits | None = None
    ) -> None:
        self._name = name
        self._path = path
        self._refine = refine
        self._limits = limits
        self.is_unplugged = False
        """The environment took the folder away: that it is not there says nothing of the run."""

    @property
    def name(self) -> str:
        return self._name

    @property
    def places(self) -> tuple[Path, ...]:
        """The folder."""
        return () if self.is_unplugged else (self._path,)

    def schema(self) -> Schema:
        schema = source_schema(self._name, [FILE])
        return schema if self._refine is None else self._refine(schema)

    def read(self, store: ChunkStore, clock: Clock, like: State | None) -> SourceCapture:
        as_of = clock()  # before the first look: the state shown is never older than this
        try:
            with Folder.open(self._path) as folder:
                top = folder.itself()
                tree = folder.tree(self._limits)
        except (NotRead, OSError) as error:
            is_ruined = is_no_folder(self._path) and not self.is_unplugged
            raise (SourceRuined if is_ruined else SourceUnavailable)(str(error)) from error
        schema = self.schema()
        (entity_type,) = schema.types
        table = build_table(
            entity_type,
            _rows(entity_type, top, tree),
            store,
            like=None if like is None else like.tables.get(entity_type.name),
            enumeration=_enumeration(entity_type, tree),
        )
        state = State(schema, {entity_type.name: table})
        # What could not be read of one file is unobserved in its row: every other one is known.
        return scanned(self._name, as_of, state, gaps=tree.causes[:3])


def _enumeration(entity_type: EntityType, tree: Tree) -> Enumeration:
    """Which entries may be missing, by their paths.

    Any may, where a path is no text, or a schema file says that another field is the key.
    """
    if not tree.gaps:
        return COMPLETE
    first = entity_type.key[0] if entity_type.key else ""
    is_by_path = bool(first) and entity_type.by_name[first].source_column == "path"
    paths = [text_or_bytes(path) for path, _ in tree.gaps]
    below = beginnings(path for path in paths if isinstance(path, str))
    is_known = is_by_path and all(isinstance(path, str) and path for path in paths)
    cause = "; ".join(tree.causes)
    return Enumeration(Coverage.INCOMPLETE, cause, below=below if is_known else ())


def _rows(entity_type: EntityType, top: Entry, tree: Tree) -> Iterator[Row]:
    for entry in (replace(top, path=os.fsencode(ROOT)), *tree.entries):
        columns = _columns(entry)
        first, beside = tree.linked.get(entry.path), entry.attributes
        if first is not None and isinstance(beside, Map):
            shared = {"hard link": text_or_bytes(first)}
            columns["attributes"] = Map.of({**dict(beside.items), **shared})
        yield {field.name: columns[field.source_column] for field in entity_type.fields}


def _columns(entry: Entry) -> dict[str, Observed]:
    unread = None if entry.cause is None else Unobserved(entry.cause)
    columns: dict[str, Observed] = {
        "path": text_or_bytes(entry.path),
        "kind": entry.kind.value,
        "mode": f"{stat.S_IMODE(entry.mode):04o}",
        "size": None,
        "digest": None,
        "text": None,
        "target": None,
        "device": entry.device,
        "owner": entry.owner,
        "group": entry.group,
        "attributes": entry.attributes,
    }
    if entry.kind is EntryKind.FILE:
        columns["size"] = entry.size
        columns["digest"] = unread or entry.digest
        columns["text"] = unread or small_text(entry.content)
    elif entry.kind is EntryKind.LINK:
        columns["target"] = unread or text_or_bytes(entry.target or b"")
    return columns
