"""Chunks under a key of their source and trial: unreadable without it, and read as all others."""

from __future__ import annotations

from pathlib import Path

import pytest

from statediff.capture.held_chunks import chunks_of, settle
from statediff.capture.keyed_store import KeyedChunks, SourceChunks
from statediff.capture.store import KEYED, DiskChunks, check_store, collect
from statediff.errors import StorageError
from statediff.model.state import MemoryChunks, build_table
from tests.capture.test_store import THING

KEY = bytes(range(32))
ROWS = [{"id": 1, "v": "a value nobody may keep"}]


def keyed(folder: Path, key: bytes = KEY) -> KeyedChunks:
    return KeyedChunks(folder, "0" * 32, key, "30d")


def test_a_chunk_is_read_with_its_key_and_says_nothing_without_it(tmp_path: Path) -> None:
    table = build_table(THING, ROWS, keyed(tmp_path))
    [ref] = table.chunks
    plain = MemoryChunks()
    build_table(THING, ROWS, plain)
    assert keyed(tmp_path).get(ref).equals(plain.get(ref))
    [path] = tmp_path.glob("??/*")
    assert path.suffix == KEYED
    assert b"nobody may keep" not in path.read_bytes()
    assert ref.digest[2:10] not in path.name
    with pytest.raises(StorageError, match="is missing"):
        keyed(tmp_path, bytes(32)).get(ref)  # under another key it has another name
    assert keyed(tmp_path).has(ref.digest)
    assert not keyed(tmp_path, bytes(32)).has(ref.digest)


def test_a_chunk_that_was_changed_or_swapped_is_damaged(tmp_path: Path) -> None:
    store = keyed(tmp_path)
    refs = [build_table(THING, [{"id": n, "v": "x"}], store).chunks[0] for n in range(2)]
    one, two = (store.path_of(ref.digest) for ref in refs)
    whole = one.read_bytes()
    for data in (two.read_bytes(), whole[:-1], b"", whole[:5] + b"\x00" + whole[6:]):
        one.write_bytes(data)
        with pytest.raises(StorageError, match="is damaged"):
            keyed(tmp_path).get(refs[0])


def test_the_same_chunk_is_written_once_and_two_never_share_a_nonce(tmp_path: Path) -> None:
    for _ in range(2):
        build_table(THING, ROWS, keyed(tmp_path))
    assert len(list(tmp_path.glob("??/*"))) == 1
    store = keyed(tmp_path)
    sealed = {store.encrypt(data, about) for data in (b"one", b"two") for about in ("a", "b")}
    assert len({data[:12] for data in sealed}) == 4
    assert keyed(tmp_path).decrypt(store.encrypt(b"one", "a"), "a") == b"one"
    for other in (keyed(tmp_path, bytes(32)), keyed(tmp_path)):
        with pytest.raises(ValueError, match="not what was encrypted"):
            other.decrypt(store.encrypt(b"one", "a"), "b")


def test_what_is_of_no_named_source_stays_in_memory_until_it_is_put_in_its_place(
    tmp_path: Path,
) -> None:
    plain, own = DiskChunks(tmp_path), keyed(tmp_path)
    store = SourceChunks(plain, {"db": own})
    assert chunks_of(store, "db") is own
    assert chunks_of(store, "mail") is plain
    assert chunks_of(plain, "db") is plain
    table = build_table(THING, ROWS, store)
    assert not list(tmp_path.glob("??/*"))
    settle(own, table.store, table.chunks)
    [path] = tmp_path.glob("??/*")
    assert path.suffix == KEYED
    of_both = SourceChunks(plain, {"db": own})  # it finds what either has
    [open_chunk] = build_table(THING, [{"id": 2, "v": "y"}], plain).chunks
    for ref in (*table.chunks, open_chunk):
        assert of_both.get(ref).num_rows == 1


def test_a_store_counts_encrypted_chunks_and_collects_them_as_others(tmp_path: Path) -> None:
    build_table(THING, ROWS, keyed(tmp_path))
    build_table(THING, ROWS, DiskChunks(tmp_path))
    found = check_store(tmp_path)
    assert (found.chunks, found.encrypted, found.damaged) == (2, 1, ())
    for path in tmp_path.glob("??/*"):
        path.touch()
    assert collect(tmp_path, 2**62).removed == 2
