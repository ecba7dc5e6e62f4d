"""A git repository as a source, read without running anything of it and obeying none of it.

1. The layout is looked at once: a git folder in the work tree, or a bare repository. A `.git` that
   points elsewhere is not followed.
2. Settings, hooks, index, administrative files and the work tree are files, read by us
   (`files.tree`): git's filters, attributes, hooks and file monitors have no say.
3. Refs are read, then everything they lead to (`git.history`), then the refs again: when they
   moved meanwhile, once more from the beginning, and then unobserved.
4. A file that says only what git makes of the rest (`git.derived`, `git.store`) is left out, or
   given with the content that it had in the state before. Settings keep the places they had there.

What an odd or hostile repository hides is unobserved with the cause, type by type; the others
stand. Nothing is written, locked or refreshed.
"""

from __future__ import annotations

import tempfile
from bisect import bisect_right
from collections.abc import Callable
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Final

from statediff.capture.source import Clock, SourceRuined, SourceUnavailable, scanned
from statediff.model.batches import Row
from statediff.model.explanation import unread_because
from statediff.model.readings import SourceCapture
from statediff.model.schema import EntityType, Schema
from statediff.model.state import ChunkStore, State, Table, build_table
from statediff.systems.base.folders import is_no_folder
from statediff.systems.base.rows import distinct_rows, named_rows
from statediff.systems.files.tree import EntryKind, Folder, NotRead
from statediff_git.clean import NotAsked
from statediff_git.derived import left_behind
from statediff_git.folder import (
    Known,
    is_promised,
    read_admin,
    read_config,
    read_hooks,
    read_index,
    read_reflogs,
    read_work_tree,
    repository_row,
)
from statediff_git.history import read_history
from statediff_git.objects import Objects
from statediff_git.refs import Refs, last, read_refs
from statediff_git.store import read_store
from statediff_git.types import TYPE_NAMES, Listing, schema_of, unread

GIT_FOLDER: Final = b".git"
_BY_REFS: Final = ("commit", "file", "ref", "tag")
_SHARED: Final = (*_BY_REFS, "config", "hook", "repository")
"""Types that a `commondir` file moves to another folder."""
_MOVED: Final = "the refs moved while they were read"

Refine = Callable[[Schema], Schema]


class GitSource:
    """One repository, bare or with a work tree, as a source.

    `path` is the bare repository or the top of the work tree. `refined` maps the schema to the
    logical one, as for any source; `prefix` begins the names of the types. Whether the repository
    is bare is `is_bare`, else what the reading before says, else what stands at `path` when it is
    first read: an agent cannot have another layout read than the one before. `incoming` names the
    folder below `objects` with what a push has brought that is not decided yet: it is no state.
    """

    settles_at_once: ClassVar[bool] = True
    not_observed: ClassVar[tuple[str, ...]] = (
        "what well-formed reflogs tell but that of the stash, and the message of the last commit",
        "`ORIG_HEAD` where a ref or the reflog of HEAD leads there too, `AUTO_MERGE` after a merge",
        "how objects are stored, which packs `info/packs` lists, and objects that nothing leads to",
        "whether a file that git derives was made anew where it says what git would write",
        "what the index notes for a file monitor (`FSMN`), and when its files were last changed",
        "what a `.git` file, `alternates` or an `include` leads to outside the repository",
        "owners of HEAD, config, index and folders with content, but of the repository itself",
        "owners and attributes of objects, and modes of these with which git works as before",
    )

    def __init__(
        self,
        name: str,
        path: Path,
        refined: Refine | None = None,
        *,
        prefix: str = "git",
        is_bare: bool | None = None,
        incoming: bytes = b"",
    ) -> None:
        self._name = name
        self._incoming = incoming
        self._path = path
        self._refined = refined
        self._prefix = prefix
        self._is_bare = is_bare
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
        schema = schema_of(self._name, self._prefix)
        return schema if self._refined is None else self._refined(schema)

    def read(self, store: ChunkStore, clock: Clock, like: State | None) -> SourceCapture:
        as_of = clock()
        try:
            with Folder.open(self._path) as root:
                found = self._listings(root, like)
                lost = _lost(root, is_bare=self._is_bare is True)
        except NotRead as error:
            is_ruined = is_no_folder(self._path) and not self.is_unplugged
            raise (SourceRuined if is_ruined else SourceUnavailable)(str(error)) from error
        except NotAsked as error:
            raise SourceUnavailable(str(error)) from error
        part = scanned(self._name, as_of, self._state(found, store, like))
        if like is None or lost is None or not _was_whole(like, f"{self._prefix}.ref"):
            return part
        return replace(part, spoiled=(f"git takes it for no repository: {lost}",))

    def at(self, refs: Refs, store: ChunkStore, like: State) -> State:
        """The bare repository as it would be if these were its refs. `SourceUnavailable`."""
        try:
            with Folder.open(self._path) as root:
                found = _under(root, refs, None, self._incoming)
        except (NotAsked, NotRead) as error:
            raise SourceUnavailable(str(error)) from error
        return self._state({**found, "work_file": Listing()}, store, like)

    def led_to(self, refs: Refs, store: ChunkStore, like: State) -> State:
        """The bare repository where these are its refs, all else as in `like`."""
        try:
            with (
                Folder.open(self._path) as root,
                tempfile.TemporaryDirectory(prefix="statediff-git-") as private,
                closing(Objects(root, Path(private), self._incoming)) as objects,
            ):
                history = read_history(refs, objects)
        except NotRead as error:
            raise SourceUnavailable(str(error)) from error
        found = {f"{self._prefix}.{name}": getattr(history, f"{name}s") for name in _BY_REFS}
        read = [each for each in like.schema.types if each.source_table in found]
        new = {t.name: _table(t, found[t.source_table], store, like.tables[t.name]) for t in read}
        return State(like.schema, {**like.tables, **new})

    def _state(self, found: dict[str, Listing], store: ChunkStore, like: State | None) -> State:
        schema = self.schema() if like is None or not like.schema.types else like.schema
        tables: dict[str, Table] = {}
        for entity_type in schema.types:
            listing = found.get(entity_type.source_table.removeprefix(f"{self._prefix}."))
            earlier = None if like is None else like.tables.get(entity_type.name)
            tables[entity_type.name] = _table(
                entity_type, listing or unread("the repository has no such type"), store, earlier
            )
        return State(schema, tables)

    def _listings(self, root: Folder, like: State | None) -> dict[str, Listing]:
        if self._is_bare is None:
            was_bare = None if like is None else _was_bare(like, f"{self._prefix}.repository")
            self._is_bare = _looks_bare(root) if was_bare is None else was_bare
        if self._is_bare:
            return {**_repository(root, None, self._incoming), "work_file": Listing()}
        found: dict[str, Listing]
        has_folder = root.kind(GIT_FOLDER) is EntryKind.DIRECTORY
        try:
            with root.folder(GIT_FOLDER) as git:
                found = _repository(git, root, b"")
        except NotRead as error:
            found = {name: unread(str(error)) for name in TYPE_NAMES}
        return {**found, "work_file": read_work_tree(root, has_folder)}


def _lost(root: Folder, *, is_bare: bool) -> str | None:
    """The part that git asks of every repository and that is missing; None where none is."""
    if not is_bare and root.kind(GIT_FOLDER) is not EntryKind.DIRECTORY:
        return ".git is no folder"
    try:
        with nullcontext(root) if is_bare else root.folder(GIT_FOLDER) as git:
            if git.kind(b"commondir") is not None:
                return None  # the rest is elsewhere
            for name, kind in _ASKED:
                if git.kind(name) not in (kind, EntryKind.LINK):
                    return f"{name.decode()} is not there, or is something else"
    except NotRead:
        return None
    return None


_ASKED: Final = ((b"HEAD", EntryKind.FILE), (b"objects", EntryKind.DIRECTORY),
                 (b"refs", EntryKind.DIRECTORY))  # fmt: skip


def _was_whole(like: State, table: str) -> bool:
    return any(
        entity_type.source_table == table and like.tables[entity_type.name].enumeration.is_complete
        for entity_type in like.schema.types
        if entity_type.name in like.tables
    )


def _was_bare(like: State, table: str) -> bool | None:
    for entity_type in like.schema.types:
        if entity_type.source_table == table and entity_type.name in like.tables:
            for _, row in like.tables[entity_type.name].rows():
                for field in entity_type.fields:
                    if field.source_column == "is_bare":
                        return row[field.name] is True
    return None


def _looks_bare(root: Folder) -> bool:
    if root.kind(GIT_FOLDER) is not None:
        return False
    return any(root.kind(name) is not None for name in (b"HEAD", b"objects", b"refs"))


def _repository(git: Folder, work: Folder | None, incoming: bytes) -> dict[str, Listing]:
    """The listings of a work tree's git folder; of a bare repository where there is none."""
    found, has_moved = _one_pass(git, work, incoming)
    if has_moved:
        found, has_moved = _one_pass(git, work, incoming)
    return found | dict.fromkeys(_BY_REFS, unread(unread_because(_MOVED))) if has_moved else found


def _one_pass(git: Folder, work: Folder | None, new: bytes) -> tuple[dict[str, Listing], bool]:
    """The listings of the git folder, and whether its refs moved meanwhile."""
    refs = read_refs(git)
    found = _under(git, refs, work, new)
    return found, read_refs(git) != refs


def _under(git: Folder, refs: Refs, work: Folder | None, incoming: bytes) -> dict[str, Listing]:
    """The listings of the git folder, and of what these refs lead to in it."""
    config, index = read_config(git), read_index(git, work)
    is_partial, is_cut = is_promised(config), git.kind(b"shallow") is not None
    with (
        tempfile.TemporaryDirectory(prefix="statediff-git-") as private,
        closing(Objects(git, Path(private))) as objects,
    ):
        history = read_history(refs, objects)
        is_whole = not is_partial and not is_cut
        missing = objects.missing() if is_whole else []
        store = read_store(git, objects, Path(private), incoming, is_partial=is_partial)
        reflogs = read_reflogs(git, refs, objects, is_whole=is_whole)
        left = left_behind(git, history.commits.rows, objects)
    known = Known(refs=refs, config=config, index=index.index, history=history, store=store,
                  reflogs=reflogs, left=left, missing=tuple(missing))  # fmt: skip
    found = {
        "admin_file": read_admin(git, known),
        "commit": history.commits,
        "config": config.listing,
        "file": history.files,
        "hook": read_hooks(git),
        "index_entry": index.listing,
        "ref": history.refs,
        "repository": Listing([repository_row(git, known, work)]),
        "tag": history.tags,
    }
    if git.kind(b"commondir") is not None:
        cause = "commondir leads to another folder, which is not followed"
        return found | dict.fromkeys(_SHARED, unread(cause))
    storage = last(config.settings or [], b"extensions.refstorage") or b"files"
    if storage.lower() != b"files":
        cause = "the refs are kept in another format than files, which is not read"
        return found | dict.fromkeys(_BY_REFS, unread(cause))
    return found


def _table(
    entity_type: EntityType, listing: Listing, store: ChunkStore, like: Table | None
) -> Table:
    """The rows under the names of the type; those that share a key are left out, with a cause."""
    rows = named_rows(entity_type, listing.rows)
    single = distinct_rows(entity_type, rows)
    if len(single) < len(rows):
        cause = f"{len(rows) - len(single)} entries share names with each other"
        listing = Listing(single, [*listing.causes, cause], listing.derived)
    if listing.derived and like is not None:
        single = _as_before(entity_type, single, listing.derived, like)
    if like is not None:
        single = _in_order(entity_type, single, like)
    return build_table(entity_type, single, store, like=like, enumeration=listing.enumeration)


def _as_before(
    entity_type: EntityType, rows: list[Row], derived: frozenset[str], like: Table
) -> list[Row]:
    """The rows, with those that say only what git derives having the content they had before.

    A derived file that was not there before is left out. Its mode, owner and attributes are its
    own: git does not derive them.
    """
    names = {field.source_column: field.name for field in entity_type.fields}
    path = names.get("path")
    if path is None or entity_type.key != (path,):
        return rows
    found: list[Row] = []
    for row in rows:
        earlier = like.row((str(row[path]),)) if row[path] in derived else row
        if earlier is None:
            continue
        kind = names.get("kind")
        is_alike = kind is None or earlier.get(kind) == row[kind]
        content = [names[c] for c in ("size", "digest", "text") if c in names and is_alike]
        found.append({**row, **{name: earlier[name] for name in content}})
    return found


def _in_order(entity_type: EntityType, rows: list[Row], like: Table) -> list[Row]:
    """The rows with the places they had before, as far as these are still in their order.

    A later setting counts more than an earlier one, and an include more than what comes before it;
    so the order is state, and a setting that moved has another place. One that is new has that of
    the setting before it, so that nothing else moves.
    """
    place = next((f.name for f in entity_type.fields if f.source_column == "place"), None)
    if place is None:
        return rows
    places: dict[object, object] = {key: row.get(place) for key, row in like.rows()}
    known = [places.get(tuple(row[name] for name in entity_type.key)) for row in rows]
    kept = longest_in_order([(n, value) for n, value in enumerate(known) if isinstance(value, int)])
    found: list[Row] = []
    last = -1
    for number, row in enumerate(rows):
        last = kept.get(number, last)
        found.append({**row, place: last})
    return found


def longest_in_order(numbered: list[tuple[int, int]]) -> dict[int, int]:
    """The most pairs, kept in their order, whose second parts never go down, as a mapping."""
    ends: list[int] = []
    at: list[int] = []
    before: list[int] = []
    for number, (_, value) in enumerate(numbered):
        length = bisect_right(ends, value)
        before.append(at[length - 1] if length else -1)
        ends[length : length + 1] = [value]
        at[length : length + 1] = [number]
    kept: dict[int, int] = {}
    number = at[-1] if at else -1
    while number >= 0:
        key, value = numbered[number]
        kept[key] = value
        number = before[number]
    return kept
