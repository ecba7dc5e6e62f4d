import errno
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff.capture.store import LEASES, DiskChunks, check_store, collect
from statediff.cli.main import run
from statediff.errors import StorageError, UsageError
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


WRITER = """
    import sys
    from statediff.capture.store import DiskChunks
    from statediff.model.schema import EntityType, Field, Kind
    from statediff.model.state import build_table
    thing = EntityType("thing", ("id",), (Field("id", Kind.INT), Field("v", Kind.TEXT)))
    store, refs = DiskChunks(sys.argv[1], cache_bytes=0), []
    for number in range(int(sys.argv[2])):
        rows = [{"id": number % int(sys.argv[3]), "v": "x" * 5000}]
        refs += build_table(thing, rows, store).chunks
        if number == 0:
            print("begun", flush=True)
    for ref in refs:
        store.get(ref)
    print("done", flush=True)
    sys.stdin.read()
"""


def put(store: DiskChunks, number: int) -> ChunkRef:
    (ref,) = build_table(THING, [{"id": number, "v": "x"}], store).chunks
    return ref


def writer(folder: Path, puts: int, distinct: int) -> subprocess.Popen[str]:
    started = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WRITER), str(folder), str(puts), str(distinct)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )  # fmt: skip
    assert started.stdout is not None
    assert started.stdout.readline() == "begun\n"
    return started


def ended(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def test_what_a_live_user_has_put_is_kept_and_goes_when_it_is_gone(tmp_path: Path) -> None:
    store = DiskChunks(tmp_path)
    refs = [put(store, n) for n in range(5)]
    assert collect(tmp_path, time.time_ns()).kept == 5
    assert all(store.get(ref).num_rows == 1 for ref in refs)
    del store
    assert not list((tmp_path / LEASES).iterdir())
    found = collect(tmp_path, time.time_ns())
    assert (found.removed, found.kept, found.is_in_use) == (5, 0, False)
    assert not list(tmp_path.glob("??/*"))


def test_a_chunk_that_was_there_before_is_kept_for_whoever_put_it_again(tmp_path: Path) -> None:
    old = DiskChunks(tmp_path)
    for n in range(4):
        path = old.path_of(put(old, n).digest)
        os.utime(path, (1, 1))
    del old
    user = DiskChunks(tmp_path, cache_bytes=0)
    relied_on = put(user, 2)
    assert collect(tmp_path, time.time_ns()).removed == 3
    assert user.get(relied_on).num_rows == 1


def test_what_was_put_lately_is_kept_without_a_user(tmp_path: Path) -> None:
    put(DiskChunks(tmp_path), 1)
    assert collect(tmp_path, time.time_ns() - 10**12).kept == 1


def test_a_killed_user_leaves_sound_chunks_and_no_lease(tmp_path: Path) -> None:
    for delay in (0.0, 0.003, 0.02):
        process = writer(tmp_path, 10**6, 10**6)
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    found = check_store(tmp_path)
    assert found.chunks >= 3
    assert not found.damaged
    collected = collect(tmp_path, 0)
    assert collected.removed == found.left_over
    assert not collected.is_in_use
    assert not list((tmp_path / LEASES).iterdir())
    assert check_store(tmp_path).left_over == 0


def test_collecting_beside_writers_never_takes_what_they_rely_on(tmp_path: Path) -> None:
    base = DiskChunks(tmp_path)
    for number in range(60):  # of another day; the writers put 40 of them again
        rows = [{"id": number, "v": "x" * 5000}]
        os.utime(base.path_of(build_table(THING, rows, base).chunks[0].digest), (1, 1))
    del base
    writers = [writer(tmp_path, 600, 40) for _ in range(2)]
    try:
        for process in writers:
            assert process.stdout is not None
            os.set_blocking(process.stdout.fileno(), False)
        said = ["", ""]
        while not all(said):
            assert collect(tmp_path, time.time_ns()).is_in_use
            said = [
                s or (p.stdout.readline() if p.stdout else "")
                for s, p in zip(said, writers, strict=True)
            ]
            assert all(p.poll() is None for p in writers)
        assert len(list(tmp_path.glob("??/*.arrow"))) == 40
        assert said == ["done\n", "done\n"]
    finally:
        for process in writers:
            ended(process)


def test_a_torn_chunk_is_written_anew_by_whoever_puts_it(tmp_path: Path) -> None:
    ref = put(DiskChunks(tmp_path), 1)
    path = DiskChunks(tmp_path).path_of(ref.digest)
    whole = path.read_bytes()
    for torn in (b"", whole[: len(whole) // 2]):
        path.write_bytes(torn)
        assert len(check_store(tmp_path).damaged) == 1
        put(DiskChunks(tmp_path), 1)
        assert path.read_bytes() == whole


def test_a_check_names_what_is_damaged_or_swapped(tmp_path: Path) -> None:
    store = DiskChunks(tmp_path)
    one, two, three = (store.path_of(put(store, n).digest) for n in range(3))
    one.write_bytes(two.read_bytes())
    content = bytearray(three.read_bytes())
    content[len(content) // 2] ^= 0xFF
    three.write_bytes(content)
    found = check_store(tmp_path)
    assert found.chunks == 3
    assert one.parent.name + one.stem[:14] in " ".join(found.damaged)
    assert 1 <= len(found.damaged) <= 2  # a byte of padding carries nothing
    with pytest.raises(StorageError, match="is damaged"):
        DiskChunks(tmp_path).verify(one.parent.name + one.stem)


def test_a_folder_that_is_no_store_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "ab").mkdir()
    (tmp_path / "precious.txt").write_text("mine")
    for act in (lambda: check_store(tmp_path), lambda: collect(tmp_path, time.time_ns())):
        with pytest.raises(UsageError, match="is not a chunk store"):
            act()
    assert run(["store", "gc", str(tmp_path / "nowhere")]) == 2


@pytest.mark.parametrize("name", [".0123456789abcdef.part", ".4711-3.part"])
def test_what_an_interrupted_writer_left_is_counted_and_removed(tmp_path: Path, name: str) -> None:
    put(DiskChunks(tmp_path), 1)
    left = next(path for path in tmp_path.glob("??") if path.is_dir()) / name
    left.write_bytes(b"half of a chunk")
    assert check_store(tmp_path).left_over == 1
    assert collect(tmp_path, 0).removed == 1
    assert not left.exists()


def test_files_that_are_not_the_stores_own_are_never_removed(tmp_path: Path) -> None:
    put(DiskChunks(tmp_path), 1)
    (tmp_path / "ab").mkdir(exist_ok=True)
    (tmp_path / "ab" / "notes.txt").write_text("mine")
    (tmp_path / "cd").symlink_to("/")
    collect(tmp_path, time.time_ns() + 10**12)
    assert [p.name for p in tmp_path.glob("??/*") if p.parent.name != "cd"] == ["notes.txt"]


def test_the_commands_say_what_they_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = DiskChunks(tmp_path)
    path = store.path_of(put(store, 1).digest)
    assert run(["store", "check", str(tmp_path)]) == 0
    assert "1 chunks" in capsys.readouterr().out
    path.write_bytes(b"torn")
    assert run(["store", "check", str(tmp_path), "--json"]) == 4
    assert '"ok":false' in capsys.readouterr().out.replace(" ", "")
    del store
    assert run(["store", "gc", str(tmp_path), "--unused-hours", "0"]) == 0
    assert "1 files removed" in capsys.readouterr().out
