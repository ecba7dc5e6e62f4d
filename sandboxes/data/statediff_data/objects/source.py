"""Objects below a URL of fsspec as a source: each with its size, stamps, headers and content.

1. All objects are listed, and each is read once as a stream.
2. They are listed again. An object whose stamp (ETag or version; where a store has none, its
   content) is another one, and one that came or went, was written meanwhile: the reading begins
   again, and after `ATTEMPTS` what moved is unobserved and the enumeration incomplete.

The driver finds credentials in the URL or in the environment, as it always does (`AWS_…`,
`GOOGLE_APPLICATION_CREDENTIALS`). Parameters after `?` are the driver's, e.g. `?endpoint_url=…`.
Nothing is written, and no answer is taken from a cache.
"""

from __future__ import annotations

import contextlib
import hashlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final
from urllib.parse import parse_qsl, urlsplit

from statediff.capture.source import Clock, SourceUnavailable, scanned
from statediff.errors import UsageError
from statediff.model.batches import Row
from statediff.model.explanation import unread_because
from statediff.model.readings import SourceCapture
from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.model.state import COMPLETE, ChunkStore, Coverage, Enumeration, State, build_table
from statediff.model.values import Map, Observed, Unobserved, Value, printable
from statediff.systems.base.rows import source_schema
from statediff.systems.base.urls import account_of, without_passwords
from statediff.systems.files.tree import Limits, small_text
from statediff.systems.relational.schema import Refine
from statediff_data.objects.schemes import FOLDERS

ATTEMPTS: Final = 3
MAX_OBJECT_BYTES: Final = 1024 * 1024 * 1024
BLOCK_BYTES: Final = 1024 * 1024
MAX_CAUSE: Final = 300

OBJECT: Final = EntityType(
    "object",
    ("path",),
    (
        Field("path", Kind.TEXT, is_nullable=False),
        Field("kind", Kind.TEXT, is_nullable=False, is_immutable=True),
        Field("size", Kind.INT),
        Field("digest", Kind.TEXT),
        Field("text", Kind.TEXT),
        Field("etag", Kind.TEXT),
        Field("version", Kind.TEXT),
        Field("attributes", Kind.MAP, is_nullable=False),
    ),
    table="object",
)
"""One object. `path` is below the URL, parts joined by `/`; `kind` is file, directory (where the
place has folders), or what the driver says beside these, such as link. Of a file: `size` in bytes,
`digest` (SHA-256, hex), `text` where it is UTF-8 of at most `Limits.content_bytes`; `etag` and
`version` as the store gives them. `attributes` maps the headers and the owner's metadata that the
store keeps with it."""

_ETAG: Final = ("ETag", "etag", "e_tag")
_VERSION: Final = ("VersionId", "version_id", "generation", "version_aware_id")
_ATTRIBUTES: Final = {
    "ContentType": "content_type",
    "contentType": "content_type",
    "ContentEncoding": "content_encoding",
    "contentEncoding": "content_encoding",
    "ContentDisposition": "content_disposition",
    "contentDisposition": "content_disposition",
    "CacheControl": "cache_control",
    "cacheControl": "cache_control",
    "StorageClass": "storage_class",
    "storageClass": "storage_class",
    "mode": "mode",
    "uid": "uid",
    "gid": "gid",
}
"""What drivers call an attribute → its name here."""


@dataclass(frozen=True)
class _Listed:
    """An object as a listing shows it; `stamp` moves with every write, None where none does."""

    place: str
    """Its path as the driver takes it."""
    kind: str
    size: int | None
    stamp: tuple[str, ...] | None


class ObjectsSource:
    """All objects below a URL as a source.

    `UsageError` where the driver for the URL is not installed, or does not take its parameters.
    """

    not_observed: ClassVar[tuple[str, ...]] = (
        "times of objects; earlier versions, and deletions that a version marks",
        "tags, access lists, policies, and settings of a bucket",
        "folders of a store of objects, which are beginnings of names",
    )

    def __init__(self, name: str, url: str, refine: Refine | None = None) -> None:
        self._name = name
        self._url = url
        self._refine = refine
        self._limits = Limits()
        self._has_folders = urlsplit(url).scheme in FOLDERS

    @property
    def name(self) -> str:
        return self._name

    def schema(self) -> Schema:
        with self._opened():
            pass
        schema = source_schema(self._name, [OBJECT])
        return schema if self._refine is None else self._refine(schema)

    def read(self, store: ChunkStore, clock: Clock, like: State | None) -> SourceCapture:
        as_of = clock()
        rows: dict[str, Row] = {}
        cause: str | None = None
        moved: list[str] = []
        with self._opened(may_be_gone=like is not None) as (system, root):
            for _ in range(ATTEMPTS):
                listed, cause = self._listing(system, root)
                rows = {path: self._row(system, path, each) for path, each in listed.items()}
                again, _ = self._listing(system, root)
                moved = self._moved(system, rows, listed, again)
                if not moved:
                    break
        if moved:
            cause = unread_because(
                f"written while it was read: {printable(moved[0])}; read it when it is at rest"
            )
            for path in set(moved) & rows.keys():
                rows[path] = {
                    n: cell if n in ("path", "kind") else Unobserved(cause)
                    for n, cell in rows[path].items()
                }
        schema = source_schema(self._name, [OBJECT])
        schema = schema if self._refine is None else self._refine(schema)
        [entity_type] = schema.types
        named = (
            {f.name: row[f.source_column] for f in entity_type.fields} for row in rows.values()
        )
        table = build_table(
            entity_type,
            named,
            store,
            like=None if like is None else like.tables.get(entity_type.name),
            enumeration=COMPLETE if cause is None else Enumeration(Coverage.INCOMPLETE, cause),
        )
        state = State(schema, {entity_type.name: table})
        # What could not be read of one object is unobserved in its row: every other one is known.
        return scanned(self._name, as_of, state, gaps=[] if cause is None else [cause])

    @contextlib.contextmanager
    def _opened(self, *, may_be_gone: bool = False) -> Iterator[tuple[Any, str]]:
        """The driver and the path below which it looks. Raises `SourceUnavailable`."""
        system, root = self._driver
        try:
            if not _is_there(system, root if self._has_folders and not may_be_gone else _top(root)):
                raise SourceUnavailable("there is no such place, or this account may not see it")
            yield system, root
        except (SourceUnavailable, UsageError):
            raise
        except Exception as error:
            raise SourceUnavailable(self._said(error)) from error

    @cached_property
    def _driver(self) -> tuple[Any, str]:
        """The driver of the URL, made once: that of S3 takes seconds."""
        place, _, query = self._url.partition("?")
        options: dict[str, Any] = {
            name: {"true": True, "false": False}.get(value, value)
            for name, value in parse_qsl(query)
        }
        password = account_of(self._name, place)[1]
        if password is not None and "@" in place:
            options.setdefault("password", password)
        try:
            from fsspec.core import url_to_fs  # type: ignore[import-untyped]  # noqa: PLC0415 - slow

            system, root = url_to_fs(place, **options, skip_instance_cache=True)
            # As an option, that of SFTP would hand it to its library, which has none of the name.
            system.dircache.use_listings_cache = False
        except ImportError as error:
            raise UsageError(
                f"{self._name}: {self._said(error)}; pip install it where statediff runs, "
                f"{printable(sys.prefix)}"
            ) from error
        except (TypeError, ValueError) as error:
            raise UsageError(f"{self._name}: {self._said(error)}") from error
        except Exception as error:  # the driver of a third party may raise anything
            raise SourceUnavailable(self._said(error)) from error
        return system, root

    def _said(self, error: Exception) -> str:
        text, name = " ".join(str(error).split()), type(error).__name__
        if not isinstance(error, OSError | ImportError | ValueError | TypeError):
            # Its text alone may be one word, and its driver is no part of ours.
            text = f"the driver failed: {name}: {text}; install the version that fits fsspec's"
        text = text or name
        return printable(without_passwords(text, [self._url])[:MAX_CAUSE])

    def _listing(self, system: Any, root: str) -> tuple[dict[str, _Listed], str | None]:
        """The files and folders by their paths below the root, and why that may not be all."""
        system.invalidate_cache()
        if not _is_there(system, root):
            return {}, None
        shut: list[str] = []
        found: Mapping[str, Mapping[str, Any]]
        if self._has_folders:
            found = self._tree(system, root, shut)
        else:
            found = system.find(root, detail=True)
        base = root.rstrip("/")
        listed = {}
        for path, info in sorted(found.items()):
            below = path.rstrip("/").removeprefix(base).lstrip("/")
            if below or info["type"] == "file":
                kind = str(info["type"])
                size = info.get("size") if kind == "file" else None
                stamp = tuple(str(info[n]) for n in (*_ETAG, *_VERSION) if info.get(n) is not None)
                listed[below or path.rpartition("/")[2]] = _Listed(path, kind, size, stamp or None)
        most = self._limits.entries
        if len(listed) > most:
            kept = dict(list(listed.items())[:most])
            return kept, f"{len(listed)} objects, of which {most} are read"
        return listed, f"a folder cannot be listed: {shut[0]}" if shut else None

    def _tree(self, system: Any, root: str, shut: list[str]) -> dict[str, Mapping[str, Any]]:
        """All that is below the root; `shut` has why a folder was not listed.

        The driver's own `find` takes a folder that it cannot list for an empty one.
        """
        top = system.info(root)
        if top["type"] != "directory":
            return {root: top}
        found: dict[str, Mapping[str, Any]] = {}
        folders = [root]
        while folders and len(found) <= self._limits.entries:
            folder = folders.pop()
            try:
                entries = system.ls(folder, detail=True)
            except PermissionError as error:
                shut.append(f"{printable(folder)}: {self._said(error)}")
                continue
            except FileNotFoundError:
                continue  # the next listing of its parent shows that it went
            for entry in entries:
                path = entry["name"].rstrip("/")
                if path != folder.rstrip("/"):
                    found[path] = entry
                    if entry["type"] == "directory":
                        folders.append(path)
        return found

    def _row(self, system: Any, path: str, listed: _Listed) -> Row:
        row: Row = {
            "path": path,
            "kind": listed.kind,
            **dict.fromkeys(("size", "digest", "text", "etag", "version")),
            "attributes": Map(()),
        }
        if listed.kind == "directory":
            return row
        if listed.kind != "file":
            unseen = Unobserved(f"the driver does not show what a {printable(listed.kind)} holds")
            return row | dict.fromkeys(("digest", "text"), unseen)
        whole = listed.place
        try:
            info = system.info(whole)
            row |= {"size": info.get("size"), **_stamps(info)}
            row["attributes"] = _attributes(system, whole, info)
            row |= self._content(system, whole)
        except FileNotFoundError:
            unknown = Unobserved(
                unread_because("it was there when objects were listed, and then it was not")
            )
            row |= dict.fromkeys(
                ("size", "digest", "text", "etag", "version", "attributes"), unknown
            )
        except PermissionError as error:
            row |= dict.fromkeys(("digest", "text"), Unobserved(unread_because(self._said(error))))
        return row

    def _content(self, system: Any, path: str) -> dict[str, Observed]:
        hasher, kept, size = hashlib.sha256(), b"", 0
        with system.open(path, "rb") as stream:
            while block := stream.read(BLOCK_BYTES):
                hasher.update(block)
                size += len(block)
                if size <= self._limits.content_bytes:
                    kept += block
                if size > MAX_OBJECT_BYTES:
                    cause = Unobserved(f"more than {MAX_OBJECT_BYTES} bytes")
                    return {"digest": cause, "text": cause}
        text = small_text(kept if size <= self._limits.content_bytes else None)
        return {"digest": hasher.hexdigest(), "text": text, "size": size}

    def _moved(
        self,
        system: Any,
        rows: Mapping[str, Row],
        one: Mapping[str, _Listed],
        two: Mapping[str, _Listed],
    ) -> list[str]:
        """The objects that were written while they were read, as far as two looks show it."""
        moved = sorted(one.keys() ^ two.keys())
        for path in one.keys() & two.keys():
            is_other = one[path] != two[path] or rows[path]["size"] != one[path].size
            if not is_other and one[path].stamp is None and one[path].kind == "file":
                is_other = self._row(system, path, two[path]) != rows[path]
            if is_other:
                moved.append(path)
        return moved


def _is_there(system: Any, path: str) -> bool:
    """True if the path is there; the driver's own `exists` takes any failure for a no."""
    try:
        system.info(path)
    except FileNotFoundError:
        return False
    return True


def _top(root: str) -> str:
    """The bucket of a path, or the root of a place with folders."""
    return "/" if root.startswith("/") else root.partition("/")[0]


def _stamps(info: Mapping[str, Any]) -> dict[str, Observed]:
    def first(names: tuple[str, ...]) -> Value:
        found = next((info[n] for n in names if info.get(n) is not None), None)
        return None if found is None else str(found).strip('"')

    return {"etag": first(_ETAG), "version": first(_VERSION)}


def _attributes(system: Any, path: str, info: Mapping[str, Any]) -> Map:
    found: dict[str, Value] = {
        name: str(info[own]) for own, name in _ATTRIBUTES.items() if info.get(own) is not None
    }
    own = info.get("metadata")
    if own is None and hasattr(system, "metadata"):
        own = system.metadata(path)
    for name, value in dict(own or {}).items():
        found[f"metadata.{name}"] = str(value)
    return Map.of(found)
