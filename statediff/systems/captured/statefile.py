"""A captured state in one file, without loss: schema, keys, kinds, gaps and every value.

The file is a zip archive that compresses nothing: `state.json` (canonical; the reading, and the
state as `evidence.states` writes it) and `chunks/DIGEST`, each an Arrow file. The same capture
gives the same bytes. Nothing of a file is trusted: every chunk is checked against its digest when
it is read, and the state against the digest that it says.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from statediff.capture.source import Clock, SourceUnavailable
from statediff.errors import InputError, StatediffError, UsageError
from statediff.evidence import canonical
from statediff.evidence import documents as doc
from statediff.evidence.states import states_document, states_from
from statediff.model.batches import Row, batch_digest
from statediff.model.readings import Capture, Reading, SourceCapture
from statediff.model.schema import EntityType, Kind, Schema
from statediff.model.state import ChunkRef, ChunkStore, MemoryChunks, State, Table, build_table
from statediff.model.values import ABSENT, is_value, printable
from statediff.systems.base.rows import converter, source_schema
from statediff.systems.relational.schema import Refine

FORM: Final = "statediff.state/1"
SUFFIX: Final = ".state"
HEAD: Final = "state.json"
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
MAX_HEAD_BYTES: Final = 256 * 1024 * 1024
MAX_CHUNK_BYTES: Final = 256 * 1024 * 1024
_FAULTS: Final = (
    *(ValueError, TypeError, LookupError, AttributeError, RecursionError),
    *(OSError, EOFError, NotImplementedError, RuntimeError, zipfile.BadZipFile),
    *(zlib.error, struct.error),
)
"""Errors to which a damaged or hostile file leads."""


def write_state(capture: Capture, path: Path, *, is_refined: bool) -> None:
    """The one source of the capture as a file. `UsageError` where there are several.

    `is_refined` says that a state schema was applied, which is then never applied again.
    """
    if len(capture.parts) != 1:
        raise UsageError(f"a {SUFFIX} file holds one source; capture each into a file of its own")
    [part] = capture.parts
    head = {
        "form": FORM,
        "is_refined": is_refined,
        "reading": doc.reading_document(part.reading),
        "states": states_document([capture]),
    }
    partial = path.with_name(path.name + ".part")
    try:
        with zipfile.ZipFile(partial, "w") as archive:
            _put(archive, HEAD, canonical.write(head))
            written: set[str] = set()
            for table in part.state.tables.values():
                for ref in table.chunks:
                    if ref.digest not in written:
                        written.add(ref.digest)
                        _put(archive, f"chunks/{ref.digest}", _arrow(table.store.get(ref)))
        partial.replace(path)
    except OSError as error:
        raise UsageError(f"{printable(str(path))}: cannot be written: {error.strerror}") from error
    finally:
        partial.unlink(missing_ok=True)


def _put(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    archive.writestr(zipfile.ZipInfo(name, _EPOCH), content)


def _arrow(batch: pa.RecordBatch) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


class _FileChunks:
    """The chunks of a file, each read when it is asked for."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._archive = zipfile.ZipFile(path)
        self._known: tuple[str, pa.RecordBatch] | None = None

    def put(self, _batch: pa.RecordBatch) -> ChunkRef:
        raise NotImplementedError("a captured state is only read")

    def get(self, ref: ChunkRef) -> pa.RecordBatch:
        if self._known is not None and self._known[0] == ref.digest:
            return self._known[1]
        batch = self._read(ref)
        self._known = (ref.digest, batch)
        return batch

    def _read(self, ref: ChunkRef) -> pa.RecordBatch:
        name = f"{printable(str(self._path))}: chunk {printable(ref.digest[:16])}…"
        try:
            with pa.ipc.open_file(self.member(f"chunks/{ref.digest}", MAX_CHUNK_BYTES)) as reader:
                if reader.num_record_batches != 1:
                    raise ValueError("not exactly one batch")
                batch = reader.get_batch(0)
            batch.validate(full=True)
            if batch_digest(batch) != ref.digest or batch.num_rows != ref.rows:
                raise ValueError("another digest")
        except (pa.ArrowException, *_FAULTS) as error:
            raise InputError(f"{name} is damaged ({error}); capture the state again") from error
        return batch

    def member(self, name: str, most: int) -> bytes:
        """The content of one part; `ValueError` where it is not stored plainly or too large."""
        found = self._archive.getinfo(name)
        if found.compress_type != zipfile.ZIP_STORED or found.file_size > most:
            raise ValueError(f"{name} is compressed, or has more than {most} bytes")
        return self._archive.read(found)


class CapturedSource:
    """The state in a file as a source; `InputError` where the file is none, or was changed."""

    def __init__(self, name: str, path: Path, refine: Refine | None = None) -> None:
        self._name = name
        self._path = path
        self._refine = refine
        self._loaded: tuple[Reading, State] | None = None

    @property
    def name(self) -> str:
        return self._name

    def schema(self) -> Schema:
        return self._load()[1].schema

    def read(self, store: ChunkStore, _clock: Clock, like: State | None) -> SourceCapture:
        reading, state = self._load()
        if reading.digest is None:
            raise SourceUnavailable(reading.cause or "the captured source could not be read")
        if like is not None:
            state = _with_missing(state, like, store)
        return SourceCapture(replace(reading, digest=state.digest()), state)

    def _load(self) -> tuple[Reading, State]:
        if self._loaded is None:
            self._loaded = self._opened()
        return self._loaded

    def _opened(self) -> tuple[Reading, State]:
        try:
            chunks = _FileChunks(self._path)
            head = canonical.read(chunks.member(HEAD, MAX_HEAD_BYTES), HEAD)
            if not isinstance(head, dict) or head.get("form") != FORM:
                raise ValueError(f"expected {FORM}")
            reading = doc.reading_from(head["reading"])
            [state] = states_from(head["states"], chunks).values()
            is_refined = head["is_refined"] is True
        except (StatediffError, *_FAULTS) as error:
            raise self._wrong(str(error)) from error
        for table in state.tables.values():
            for ref in table.chunks:
                chunks.get(ref)  # a damaged file is found before anything is decided
        reading = replace(reading, id=self._name, source=self._name)
        if self._refine is not None and not is_refined:
            state = refined(state, self._refine, MemoryChunks())
        return reading, State(source_schema(self._name, state.schema.types), state.tables)

    def _wrong(self, why: str) -> InputError:
        return InputError(
            f"{printable(str(self._path))}: not a captured state, or a damaged one: "
            f"{printable(why[:200])}; capture it again with `capture --out FILE{SUFFIX}`"
        )


def _with_missing(state: State, like: State, store: ChunkStore) -> State:
    """With each type of the other state that this one does not know, of which nothing is known."""
    missing = [t for t in like.schema.types if t.name not in state.tables]
    if not missing:
        return state
    types = tuple(sorted((*state.schema.types, *missing), key=lambda t: t.name))
    cause = "the captured state has no such type"
    more = {t.name: build_table(t, (), store).unobserved(cause) for t in missing}
    sources = tuple((name, tuple(t.name for t in types)) for name, _ in state.schema.sources)
    schema = Schema(state.schema.name, state.schema.version, types, sources)
    return State(schema, {**state.tables, **more})


def refined(state: State, refine: Refine, store: ChunkStore) -> State:
    """The state under the names and kinds of a state schema; what differs is in the store."""
    schema = refine(state.schema)
    stored = {table.type.source_table: table for table in state.tables.values()}
    return State(
        schema,
        {
            t.name: _as(t, stored[t.source_table], store)
            if t.source_table in stored
            else build_table(t, (), store)
            for t in schema.types
        },
    )


def _as(entity_type: EntityType, table: Table, store: ChunkStore) -> Table:
    if entity_type == table.type:
        return table
    columns = {f.source_column: f for f in table.type.fields}
    readers: list[tuple[str, str | None, Any]] = []
    for field in entity_type.fields:
        is_identity = field.name in entity_type.key or field.reference is not None
        stored = columns.get(field.source_column)
        is_read = (
            stored is not None
            and stored.kind is field.kind
            and field.kind in (Kind.BOOL, Kind.DECIMAL)
        )
        convert = None if is_identity or is_read else converter(field)
        readers.append((field.name, None if stored is None else stored.name, convert))

    def renamed(row: Row) -> Row:
        found: Row = {}
        for name, column, convert in readers:
            cell = ABSENT if column is None else row[column]
            found[name] = convert(cell) if convert is not None and is_value(cell) else cell
        return found

    try:
        rows = (renamed(row) for _, row in table.rows())
        own, known = (
            [t.by_name[n].source_column for n in t.key] for t in (entity_type, table.type)
        )
        # Under the key that it had, a table comes in its order, and is never held as a whole.
        is_sorted = own == known and bool(own)
        return build_table(
            entity_type, rows, store, enumeration=table.enumeration, is_sorted=is_sorted
        )
    except ValueError as error:
        raise InputError(
            f"{entity_type.name}: the key in the state schema does not identify rows: {error}"
        ) from error
