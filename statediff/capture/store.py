"""The chunk store on disk: content-addressed Arrow IPC files, written once, checked when read.

A chunk named `abcdef…` lives in `ab/cdef….arrow` under the store's folder. A file appears whole or
not at all (written beside its place, then renamed); two writers of one chunk write the same
content, so neither can harm the other. Nothing is synced to the platters: a chunk that a power cut
left torn is written anew by whoever puts it next; any other damage fails the digest when the chunk
is read and is reported, never used. Whoever puts holds a lease, so that `collect` may remove the
chunks that no one relies on at any time.
"""

from __future__ import annotations

import errno
import os
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Final

import pyarrow as pa

from statediff.atomic import write_atomically
from statediff.capture.leases import Lease
from statediff.errors import StorageError
from statediff.model.batches import batch_digest, is_fully_observed
from statediff.model.state import ChunkRef

CACHE_BYTES: Final = 64 * 1024 * 1024
"""Chunks kept in memory by one store, by the size of their buffers."""

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class DiskChunks:
    """A `ChunkStore` in a folder, which is made when the first chunk is put.

    `get` verifies each chunk's digest the first time this object reads it from disk; afterwards
    the memory-mapped file is used as it is. Raises `StorageError` naming the chunk and what to do.
    """

    def __init__(self, folder: Path | str, cache_bytes: int = CACHE_BYTES) -> None:
        self.folder = Path(folder)
        self._root = str(self.folder)
        self._cache_bytes = cache_bytes
        self._cached: OrderedDict[str, pa.RecordBatch] = OrderedDict()
        self._size = 0
        self._stored: set[str] = set()
        self._verified: set[str] = set()
        self._folders: set[str] = set()
        self._lease: Lease | None = None
        self._starting = threading.Lock()

    def path_of(self, digest: str) -> Path:
        """Where the chunk lives, whether or not it is there."""
        return Path(self._path(digest))

    def put(self, batch: pa.RecordBatch) -> ChunkRef:
        digest = batch_digest(batch)
        if digest not in self._stored:
            self._store(digest, batch)
            self._stored.add(digest)
            self._keep(digest, batch)
        return ChunkRef(digest, batch.num_rows, is_fully_observed(batch))

    def get(self, ref: ChunkRef) -> pa.RecordBatch:
        batch = self._cached.get(ref.digest)
        if batch is None:
            batch = self._read(ref.digest)
            self._keep(ref.digest, batch)
        else:
            self._cached.move_to_end(ref.digest)
        if batch.num_rows != ref.rows:
            raise StorageError(
                f"chunk {ref.digest[:16]}… holds {batch.num_rows} rows, expected {ref.rows}: "
                "the reference to it is wrong; capture again"
            )
        return batch

    def verify(self, digest: str) -> None:
        """The chunk is there, and is what its name says, or `StorageError` says what is wrong."""
        self._verified.discard(digest)
        self._read(digest)

    def _store(self, digest: str, batch: pa.RecordBatch) -> None:
        """The chunk is on disk, and counts as used now."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, batch.schema) as writer:
            writer.write_batch(batch)
        content = memoryview(sink.getvalue())
        path = self._path(digest)
        try:
            with self._used().gate():
                try:
                    if os.stat(path).st_size == len(content):  # noqa: PTH116 - the hot path of capture
                        os.utime(path)
                        return
                except FileNotFoundError:
                    pass
                self._write(path, content)
        except OSError as error:
            if error.errno in _FULL:
                raise StorageError(
                    f"no space left for chunk {digest[:16]}… in {self._root}: "
                    "free some space, or choose another folder, and run again"
                ) from error
            raise StorageError(
                f"chunk {digest[:16]}… could not be written to {self._root}: {error.strerror}; "
                "check that the folder exists and may be written"
            ) from error

    def _used(self) -> Lease:
        with self._starting:
            if self._lease is None:
                self._lease = Lease(self._root)
        return self._lease

    def _path(self, digest: str) -> str:
        if len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
            raise StorageError(
                f"{digest[:80]!r} is not the name of a chunk (64 hexadecimal digits): "
                "the file that refers to it is damaged"
            )
        return f"{self._root}/{digest[:2]}/{digest[2:]}.arrow"

    def _write(self, path: str, content: memoryview) -> None:
        parent = path.rpartition("/")[0]
        if parent not in self._folders:
            os.makedirs(parent, exist_ok=True)  # noqa: PTH103 - as above
            self._folders.add(parent)
        write_atomically(path, content)

    def _read(self, digest: str) -> pa.RecordBatch:
        path = self._path(digest)
        try:
            with pa.memory_map(path) as mapped, pa.ipc.open_file(mapped) as reader:
                if reader.num_record_batches != 1:
                    raise _damaged(digest, path, "it does not hold exactly one batch")
                batch = reader.get_batch(0)
            if digest not in self._verified:
                batch.validate(full=True)
                found = batch_digest(batch)
                if found != digest:
                    raise _damaged(digest, path, f"its content has the digest {found[:16]}…")
                self._verified.add(digest)
        except FileNotFoundError as error:
            raise StorageError(
                f"chunk {digest[:16]}… is missing from {self._root}: expected {path}; restore the "
                "file from a copy of the run folder, or run the trial again"
            ) from error
        except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
            # KeyError, TypeError, ValueError: a well-formed Arrow file that is no chunk of ours.
            raise _damaged(digest, path, str(error).partition("\n")[0]) from error
        return batch

    def _keep(self, digest: str, batch: pa.RecordBatch) -> None:
        size = batch.nbytes
        if size > self._cache_bytes // 8:
            return  # one large chunk would drive out all the small ones; its map is cheap to reopen
        if digest not in self._cached:
            self._size += size
        self._cached[digest] = batch
        while self._size > self._cache_bytes:
            _, dropped = self._cached.popitem(last=False)
            self._size -= dropped.nbytes


def _damaged(digest: str, path: str, reason: str) -> StorageError:
    return StorageError(
        f"chunk {digest[:16]}… is damaged: {reason} ({path}); delete the file and restore it from "
        "a copy of the run folder, or run the trial again"
    )
