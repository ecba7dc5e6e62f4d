"""The chunk store on disk: content-addressed Arrow IPC files, written once, checked when read.

A chunk named `abcdef…` lives in `ab/cdef….arrow` under the store's folder. A file appears whole or
not at all (written beside its place, then renamed); two writers of one chunk write the same
content, so neither can harm the other. Nothing is synced to the platters: a chunk that a power cut
left torn is written anew by the next process that puts it; any other damage fails the digest when
the chunk is read and is reported, never used.

A user of the store that puts chunks holds a lease: a file in `.leases/` that its owner keeps
locked. The lock ends with the owner, however it ends. The owner relies only on what it put since
its lease began, and putting a chunk that is there already renews the chunk's time. So nobody relies
on a chunk older than every live lease. The gate is a lock on the folder: shared while chunks are
put, exclusive while they are removed.

`collect` removes the chunks that nobody relies on, and `check_store` names those that are damaged.
Both may run while others write to the store.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import os
import re
import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from statediff.atomic import PART, write_atomically
from statediff.errors import StorageError, UsageError
from statediff.model.batches import batch_digest, facts_of
from statediff.model.state import ChunkRef
from statediff.model.values import printable

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
        """The path of the chunk, whether or not it is there."""
        return Path(self._path(digest))

    def put(self, batch: pa.RecordBatch) -> ChunkRef:
        facts = facts_of(batch)
        digest = facts.digest
        if digest not in self._stored:
            self._store(digest, batch)
            self._stored.add(digest)
            self._keep(digest, batch)
        return ChunkRef(digest, batch.num_rows, facts.is_fully_observed)

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
        content = self._encoded(digest, batch)
        path = self._path(digest)
        try:
            with self._own_lease().gate():
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

    def _encoded(self, _digest: str, batch: pa.RecordBatch) -> memoryview:
        """The bytes of the chunk's file."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, batch.schema) as writer:
            writer.write_batch(batch)
        return memoryview(sink.getvalue())

    def _own_lease(self) -> Lease:
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
            batch = self._opened(digest, path)
            if digest not in self._verified:
                batch.validate(full=True)
                found = batch_digest(batch)
                if found != digest:
                    raise _damage(digest, path, f"its content has the digest {found[:16]}…")
                self._verified.add(digest)
        except FileNotFoundError as error:
            raise StorageError(
                f"chunk {digest[:16]}… is missing from {self._root}: expected {path}; restore the "
                "file from a copy of the run folder, or run the trial again"
            ) from error
        except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
            # KeyError, TypeError, ValueError: a well-formed Arrow file that is no chunk of ours.
            raise _damage(digest, path, str(error).partition("\n")[0]) from error
        return batch

    def _opened(self, digest: str, path: str) -> pa.RecordBatch:
        with pa.memory_map(path) as mapped:
            return self._only_batch(digest, path, mapped)

    def _only_batch(self, digest: str, path: str, file: pa.NativeFile) -> pa.RecordBatch:
        with pa.ipc.open_file(file) as reader:
            if reader.num_record_batches != 1:
                raise _damage(digest, path, "it does not hold exactly one batch")
            return reader.get_batch(0)

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


def _damage(digest: str, path: str, reason: str) -> StorageError:
    return StorageError(
        f"chunk {digest[:16]}… is damaged: {reason} ({path}); delete the file and restore it from "
        "a copy of the run folder, or run the trial again"
    )


LEASES: Final = ".leases"
_serial = itertools.count()


class Lease:
    """This process's use of a store, from now until it ends or the object is gone."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._own = threading.local()
        place = Path(folder) / LEASES
        place.mkdir(parents=True, exist_ok=True)
        path = place / f"{os.getpid()}-{next(_serial)}"
        while True:
            descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o644)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # A collector may have taken the new file, not locked yet, for a dead one's.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), path.stat()):
                    break
            os.close(descriptor)
        self._end = weakref.finalize(self, _end_lease, descriptor, str(path), os.getpid())

    @contextlib.contextmanager
    def gate(self) -> Iterator[None]:
        """Nothing is removed while it is held."""
        # A lock belongs to an open file: threads that shared one would end each other's.
        gate = getattr(self._own, "gate", None)
        if gate is None:
            gate = self._own.gate = _GateLock(self._folder)
        with gate.locked(fcntl.LOCK_SH):
            yield


class _GateLock:
    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        weakref.finalize(self, os.close, self._descriptor)

    @contextlib.contextmanager
    def locked(self, how: int) -> Iterator[None]:
        fcntl.flock(self._descriptor, how)
        try:
            yield
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)


def _end_lease(descriptor: int, path: str, owner: int) -> None:
    if os.getpid() == owner:  # a forked child ends nobody else's lease
        Path(path).unlink(missing_ok=True)
    os.close(descriptor)


@contextlib.contextmanager
def closed_gate(folder: Path) -> Iterator[None]:
    """Nothing is put while it is held."""
    with _GateLock(str(folder)).locked(fcntl.LOCK_EX):
        yield


def oldest_use(folder: Path) -> int | None:
    """When the oldest live lease began, in nanoseconds of the file system's clock; None: no lease.

    Leases of owners that are gone are removed. The gate is closed.
    """
    began: list[int] = []
    for path in sorted((folder / LEASES).glob("*")):
        try:
            descriptor = os.open(path, os.O_WRONLY)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            began.append(os.fstat(descriptor).st_mtime_ns)
        else:
            path.unlink(missing_ok=True)
        finally:
            os.close(descriptor)
    return min(began, default=None)


_FOLDER: Final = re.compile(r"[0-9a-f]{2}")
KEYED: Final = ".sealed"
"""The ending of a chunk that is encrypted; its name is no digest of what is in it."""
_CHUNK: Final = re.compile(rf"([0-9a-f]{{62}})(\.arrow|{re.escape(KEYED)})")
_PART: Final = re.compile(rf"{PART.pattern}|\.[0-9]+-[0-9]+\.part")
"""Names of an interrupted writer's files; the second form is in stores that exist already."""
_BATCH: Final = 256
"""Files that are looked at behind the closed gate at a time: writers wait no longer than that."""


@dataclass(frozen=True)
class Collection:
    """The result of a collection."""

    removed: int
    removed_bytes: int
    kept: int
    is_in_use: bool
    """True if someone holds a lease; then what it may rely on was kept."""


@dataclass(frozen=True)
class StoreCheck:
    """The findings of a check."""

    chunks: int
    bytes: int
    encrypted: int
    """Chunks that were not read, for their keys are elsewhere; they count among the chunks."""
    damaged: tuple[str, ...]
    """The damage of each damaged chunk, and its place."""
    left_over: int
    """Files of writers that were interrupted; a collection removes them."""


def collect(folder: Path, unused_since_ns: int) -> Collection:
    """The store without chunks last put before `unused_since_ns` that no one relies on.

    Raises `UsageError` where the folder is not a chunk store, `StorageError` where a file cannot
    be removed.
    """
    files = sorted(_own_files(folder))
    removed = removed_bytes = kept = 0
    is_in_use = False
    for start in range(0, len(files) + 1, _BATCH):
        with closed_gate(folder):
            in_use = oldest_use(folder)
            is_in_use = is_in_use or in_use is not None
            for path, is_part in files[start : start + _BATCH]:
                with contextlib.suppress(FileNotFoundError):
                    found = path.stat()
                    # What a writer was interrupted in is nobody's, however new it is.
                    until = None if is_part else unused_since_ns
                    limits = [limit for limit in (until, in_use) if limit is not None]
                    if limits and found.st_mtime_ns >= min(limits):
                        kept += not is_part
                        continue
                    _remove(path)
                    removed += 1
                    removed_bytes += found.st_size
    return Collection(removed, removed_bytes, kept, is_in_use)


def check_store(folder: Path) -> StoreCheck:
    """Every chunk of the store read once and compared with its name. Changes nothing."""
    store = DiskChunks(folder, cache_bytes=0)
    damaged: list[str] = []
    chunks = size = encrypted = left_over = 0
    for path, is_part in sorted(_own_files(folder)):
        if is_part:
            left_over += 1
            continue
        digest = f"{path.parent.name}{path.stem}"
        try:
            size += path.stat().st_size
            if path.suffix == KEYED:
                encrypted += 1
            else:
                store.verify(digest)
        except FileNotFoundError:
            continue  # collected meanwhile
        except StorageError as error:
            if not path.exists():
                continue
            damaged.append(str(error))
        chunks += 1
    return StoreCheck(chunks, size, encrypted, tuple(damaged), left_over)


def _own_files(folder: Path) -> Iterator[tuple[Path, bool]]:
    """(file, whether it is one that a writer was interrupted in) of all that is the store's own."""
    if not folder.is_dir() or not _is_store(folder):
        raise UsageError(
            f"{printable(str(folder))} is not a chunk store; expected a folder `chunks` of a run"
        )
    for parent in folder.iterdir():
        if _FOLDER.fullmatch(parent.name) and parent.is_dir() and not parent.is_symlink():
            for path in parent.iterdir():
                is_part = _PART.fullmatch(path.name) is not None
                if is_part or _CHUNK.fullmatch(path.name):
                    yield path, is_part


def _is_store(folder: Path) -> bool:
    names = {entry.name for entry in folder.iterdir()}
    return all(name == LEASES or _FOLDER.fullmatch(name) for name in names)


def _remove(path: Path) -> None:
    try:
        os.unlink(path)  # noqa: PTH108 - a directory of that name is not to be removed
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StorageError(
            f"{printable(str(path))} cannot be removed: {error.strerror}; check who owns the store"
        ) from error
