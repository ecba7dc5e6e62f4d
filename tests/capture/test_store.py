import errno
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff.capture.store import DiskChunks
from statediff.errors import StorageError
from statediff.model.schema import EntityType, Field, Kind
from statediff.model.state import ChunkRef, MemoryChunks, build_table
from statediff.model.values import ABSENT, Unobserved, same

THING = EntityType("thing", ("id",), (Field("id", Kind.INT), Field("v", Kind.TEXT)))
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.binary(),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.just(ABSENT),
    st.just(Unobserved("why")),
)


def only_file(folder: Path) -> Path:
    (found,) = folder.rglob("*.arrow")
    return found


@given(st.lists(VALUES, max_size=12))
def test_what_is_put_comes_back_the_same_from_another_store_object(tmp_path_factory, values):
    folder = tmp_path_factory.mktemp("chunks")
    rows = [{"id": n, "v": value} for n, value in enumerate(values)]
    table = build_table(THING, rows, DiskChunks(folder))
    (ref,) = table.chunks
    again = DiskChunks(folder)
    assert again.put(again.get(ref)) == ref == MemoryChunks().put(again.get(ref))
    table = build_table(THING, rows, again)
    assert [n for n, _ in table.rows()] == [(n,) for n in range(len(rows))]
    for (_, read), row in zip(table.rows(), rows, strict=True):
        assert same(read["v"], row["v"])


def test_equal_chunks_are_stored_once_and_no_partial_file_stays(tmp_path):
    store = DiskChunks(tmp_path)
    for _ in range(3):
        build_table(THING, [{"id": 1, "v": "x"}], store)
        build_table(THING, [{"id": 1, "v": "x"}], DiskChunks(tmp_path))
    assert list(tmp_path.glob("??/*")) == [only_file(tmp_path)]


def test_a_chunk_lies_where_its_digest_says(tmp_path):
    store = DiskChunks(tmp_path)
    (ref,) = build_table(THING, [{"id": 1, "v": "x"}], store).chunks
    assert only_file(tmp_path) == tmp_path / ref.digest[:2] / f"{ref.digest[2:]}.arrow"
    assert store.path_of(ref.digest) == only_file(tmp_path)


def test_every_changed_byte_of_the_content_is_noticed_or_harmless(tmp_path):
    (ref,) = build_table(THING, [{"id": 7, "v": "secret"}], DiskChunks(tmp_path)).chunks
    file = only_file(tmp_path)
    content = file.read_bytes()
    good = DiskChunks(tmp_path).get(ref)
    noticed = 0
    for at in range(0, len(content), 3):
        file.write_bytes(content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :])
        try:
            found = DiskChunks(tmp_path).get(ref)
        except StorageError as error:
            noticed += f"{ref.digest[:16]}… is damaged" in str(error)
        else:
            assert found.equals(good)
    assert noticed


@pytest.mark.parametrize("damage", [b"", b"ARROW1", b"not arrow at all" * 100])
def test_a_damaged_chunk_is_named_with_what_to_do(tmp_path, damage):
    (ref,) = build_table(THING, [{"id": 7, "v": "secret"}], DiskChunks(tmp_path)).chunks
    only_file(tmp_path).write_bytes(damage)
    with pytest.raises(StorageError, match=f"{ref.digest[:16]}… is damaged.*run the trial again"):
        DiskChunks(tmp_path).get(ref)


def test_another_chunk_in_its_place_is_refused(tmp_path):
    store = DiskChunks(tmp_path)
    (one,) = build_table(THING, [{"id": 1, "v": "one"}], store).chunks
    (two,) = build_table(THING, [{"id": 2, "v": "two"}], store).chunks
    store.path_of(one.digest).write_bytes(store.path_of(two.digest).read_bytes())
    with pytest.raises(StorageError, match="is damaged: its content has the digest"):
        DiskChunks(tmp_path).get(one)


def test_a_missing_chunk_is_named_with_what_to_do(tmp_path):
    with pytest.raises(StorageError, match=r"abababababababab… is missing.*run the trial again"):
        DiskChunks(tmp_path).get(ChunkRef("ab" * 32, 1))


def test_a_reference_with_a_wrong_row_count_or_name_is_refused(tmp_path):
    store = DiskChunks(tmp_path)
    (ref,) = build_table(THING, [{"id": 1, "v": "x"}], store).chunks
    with pytest.raises(StorageError, match="holds 1 rows, expected 2"):
        store.get(ChunkRef(ref.digest, 2))
    with pytest.raises(StorageError, match="is not the name of a chunk"):
        store.get(ChunkRef("../../etc/passwd", 1))


def test_a_full_disk_is_a_clear_error_and_leaves_no_partial_file(tmp_path):
    script = textwrap.dedent("""
        import resource, signal, sys
        from statediff.capture.store import DiskChunks
        from statediff.errors import StorageError
        from statediff.model.schema import EntityType, Field, Kind
        from statediff.model.state import build_table
        thing = EntityType("thing", ("id",), (Field("id", Kind.INT),))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        try:
            build_table(thing, [{"id": 1}], DiskChunks(sys.argv[1]))
        except StorageError as error:
            print(error)
    """)
    ended = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert ended.stdout.startswith("no space left for chunk")
    assert not list(tmp_path.glob("??/*"))


def test_no_space_and_an_unwritable_folder_are_told_apart(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"could not be written.*check that the folder"):
        build_table(THING, [], DiskChunks(tmp_path / "file"))

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("statediff.capture.store.os.makedirs", full)
    with pytest.raises(StorageError, match=r"no space left.*free some space"):
        build_table(THING, [], DiskChunks(tmp_path / "other"))


def test_the_cache_stays_within_its_bound(tmp_path):
    store = DiskChunks(tmp_path, cache_bytes=2000)
    refs = [build_table(THING, [{"id": n, "v": "x" * 100}], store).chunks[0] for n in range(60)]
    assert store._size == sum(b.nbytes for b in store._cached.values()) <= 2000
    assert all(store.get(ref).num_rows == 1 for ref in refs)
