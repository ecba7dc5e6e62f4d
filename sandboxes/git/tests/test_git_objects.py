"""Objects are what their ids say or unobserved, in bounded time and memory."""

import hashlib
import re
import time
import zlib
from pathlib import Path

import pytest
from statediff_git.objects import MAX_OBJECT_BYTES, Objects

from sandboxes.git.tests.git_repositories import (
    coverage,
    deltas,
    doubts,
    git,
    loose,
    pack_entry,
    repository,
    rows,
    size_bytes,
    state,
    write,
    write_pack,
)
from statediff.model.state import State
from statediff.model.values import Unobserved
from statediff.systems.files.tree import Folder, NotRead

pytestmark = pytest.mark.clients("git")
BLOB, OFFSET_DELTA, ID_DELTA = 3, 6, 7


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo")


def place_of(root: Path, oid: str) -> Path:
    return root / ".git/objects" / oid[:2] / oid[2:]


def with_file(root: Path, blob: str, mode: bytes = b"100644") -> None:
    """A branch `odd` whose only file is the given blob, whether that exists or not."""
    tree = loose(root, "tree", mode + b" odd\0" + bytes.fromhex(blob))
    commit = f"tree {tree}\nauthor A <a> 1 +0000\ncommitter A <a> 1 +0000\n\nodd\n"
    write(root, ".git/refs/heads/odd", loose(root, "commit", commit.encode()) + "\n")


def blob_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def zeros(header: bytes, count: int) -> bytes:
    """A zlib stream of a header and very many zero bytes."""
    deflater = zlib.compressobj(9)
    parts = [deflater.compress(header)]
    parts += [deflater.compress(bytes(1_000_000)) for _ in range(count // 1_000_000)]
    return b"".join([*parts, deflater.flush()])


def memory_of_reading(root: Path) -> tuple[int, dict]:
    """By how much a reading raises the process's memory, and the file of the branch `odd`."""
    state(root)
    Path("/proc/self/clear_refs").write_text("5")  # the peak is now what is in use
    before = peak_bytes()
    found = state(root)
    return peak_bytes() - before, rows(found, "file")["odd", "odd"]


def peak_bytes() -> int:
    """The most memory the process had, libraries in C included."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024


def files_that_differ(before: State, after: State) -> set[str]:
    """The files below `objects` that are a change by their bytes; else only objects are gone."""
    found = deltas(before, after)
    gone = [delta for delta in found if delta.type == "git.repository"]
    assert all(str(delta.after).endswith("is missing") for delta in gone)
    assert {delta.type for delta in found} <= {"git.admin_file", "git.repository"}
    return {str(delta.key[0]) for delta in found} - {"."}


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_replaced_object_is_damage_never_its_new_content(repo, is_packed):
    before = state(repo)
    oid = git(repo, "rev-parse", "main:README")
    forged = b"forged\n"
    place_of(repo, oid).unlink()
    if is_packed:
        write_pack(repo, [(oid, pack_entry(BLOB, len(forged), forged))])
    else:
        loose(repo, "blob", forged, name=oid)
    after = state(repo, before)
    row = rows(after, "file")["main", "README"]
    assert row["blob"] == oid
    assert isinstance(row["text"], Unobserved)
    assert "damaged" in row["text"].cause
    assert doubts(before, after) == {"commit", "file"}
    assert files_that_differ(before, after)


def test_a_replaced_commit_is_damage_and_so_is_what_only_it_leads_to(repo):
    before = state(repo)
    main, first = git(repo, "rev-parse", "main", "main~1").split()
    forged = git(repo, "cat-file", "commit", first) + "\nforged\n"
    loose(repo, "commit", forged.encode(), name=main)
    after = state(repo, before)
    assert "damaged" in rows(after, "ref")["refs/heads/main"]["commit"].cause
    assert main not in rows(after, "commit")
    assert "damaged" in coverage(after)["commit"]
    assert not [d for d in deltas(before, after) if d.type == "git.commit"]


@pytest.mark.parametrize("is_indexed", [True, False])
def test_an_object_that_a_pack_holds_otherwise_is_damage_whatever_lies_beside_it(repo, is_indexed):
    before = state(repo)
    oid, forged = git(repo, "rev-parse", "main:README"), b"forged\n"
    path = write_pack(repo, [(oid, pack_entry(BLOB, len(forged), forged))])
    assert git(repo, "show", "main:README") == "forged", "git asks its packs first"
    if not is_indexed:  # in a form that is not read here
        index = path.with_suffix(".idx")
        index.write_bytes(b"\xfftOc\x00\x00\x00\x03" + index.read_bytes()[8:])
    after = state(repo, before)
    assert "file" in doubts(before, after)
    assert files_that_differ(before, after) == {
        f"objects/pack/{path.name}",
        f"objects/pack/{path.stem}.idx",
    }


def chunk(stored: bytes, name: bytes) -> int:
    """The offset of a chunk in a file of chunks."""
    return int.from_bytes(stored[stored.index(name) + 4 :][:8], "big")


def test_an_index_of_all_packs_that_leads_elsewhere_is_a_change(repo):
    git(repo, "repack", "-adq")
    git(repo, "multi-pack-index", "write")
    before = state(repo)
    assert coverage(before) == {}
    path = repo / ".git/objects/pack/multi-pack-index"
    path.chmod(0o644)
    stored = bytearray(path.read_bytes())
    ids, places = chunk(stored, b"OIDL"), chunk(stored, b"OOFF")
    blobs = git(repo, "ls-tree", "-r", "main").splitlines()
    one, other = (line.split()[2] for line in blobs[:2])
    here, there = (
        places + 8 * ((stored.index(bytes.fromhex(oid), ids) - ids) // 20) for oid in (one, other)
    )
    stored[here : here + 8] = stored[there : there + 8]
    path.write_bytes(stored)
    assert git(repo, "cat-file", "-p", one) == git(repo, "cat-file", "-p", other)
    after = state(repo, before)
    assert files_that_differ(before, after) == {"objects/pack/multi-pack-index"}


def test_a_commit_graph_is_no_change_unless_it_tells_another_history(repo):
    before = state(repo)
    git(repo, "commit-graph", "write", "--reachable")
    assert state(repo, before).digest() == before.digest()
    path = repo / ".git/objects/info/commit-graph"
    path.chmod(0o644)
    stored = bytearray(path.read_bytes())
    main, first = git(repo, "rev-parse", "main", "main~1").split()
    ids = chunk(stored, b"OIDL")
    number = (stored.index(bytes.fromhex(main), ids) - ids) // 20
    at = chunk(stored, b"CDAT") + 36 * number + 20
    stored[at : at + 4] = b"\x70\0\0\0"  # no parent
    path.write_bytes(stored)
    assert first not in git(repo, "log", "--format=%H", "main")
    assert files_that_differ(before, state(repo, before)) == {"objects/info/commit-graph"}
    path.write_bytes(stored[:100])
    assert files_that_differ(before, state(repo, before)) == {"objects/info/commit-graph"}


def test_a_good_copy_beside_a_bad_one_is_read(repo):
    oid = git(repo, "rev-parse", "main:README")
    loose(repo, "blob", b"forged\n", name=oid)
    write_pack(repo, [(oid, pack_entry(BLOB, 8, b"read me\n"))])
    assert rows(state(repo), "file")["main", "README"]["text"] == "read me\n"


@pytest.mark.parametrize(
    "stored",
    [
        b"",
        b"no zlib",
        zlib.compress(b"blob 8\0read"),
        zlib.compress(b"blob 4\0read me\n"),
        zlib.compress(b"blob x\0read me\n"),
        zlib.compress(b"blub 8\0read me\n"),
        zlib.compress(b"blob -8\0read me\n"),
        zlib.compress(b"blob 8\0read me\n")[:-6],
        zlib.compress(b"x" * 200),
    ],
)
def test_a_damaged_loose_object_has_a_cause(repo, stored):
    oid = git(repo, "rev-parse", "main:README")
    place_of(repo, oid).chmod(0o644)
    place_of(repo, oid).write_bytes(stored)
    row = rows(state(repo), "file")["main", "README"]
    assert "damaged" in row["digest"].cause or "capture limit" in row["digest"].cause


def test_objects_of_another_type_than_expected_have_a_cause(repo):
    blob, tree = git(repo, "rev-parse", "main:README", "main^{tree}").split()
    with_file(repo, tree)
    write(repo, ".git/refs/heads/blob", blob + "\n")
    commit = f"tree {blob}\nparent {blob}\nauthor A <a> 1 +0000\ncommitter A <a> 1 +0000\n\n"
    write(repo, ".git/refs/heads/mixed", loose(repo, "commit", commit.encode()) + "\n")
    after = state(repo)
    assert "a tree, not a blob" in rows(after, "file")["odd", "odd"]["text"].cause
    assert rows(after, "ref")["refs/heads/blob"]["commit"] is None
    assert "it leads to no commit" in coverage(after)["file"]
    assert "a blob, not a tree" in coverage(after)["file"]
    assert "a blob, not a commit" in coverage(after)["commit"]


# Bombs


def test_a_bomb_is_recorded_by_its_id_and_never_inflated(repo):
    size = 300_000_000
    oid = "b0" * 20
    path = place_of(repo, oid)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(zeros(b"blob %d\0" % size, size))
    assert path.stat().st_size < 400_000
    with_file(repo, oid)
    peak, row = memory_of_reading(repo)
    assert peak < 30_000_000
    assert row["blob"] == oid
    assert "states a size of 300000000 bytes, beyond the capture limit" in row["size"].cause


def test_a_bomb_that_states_a_small_size_is_inflated_no_further(repo):
    oid = "b1" * 20
    path = place_of(repo, oid)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(zeros(b"blob 10\0", 300_000_000))
    with_file(repo, oid)
    peak, row = memory_of_reading(repo)
    assert peak < 30_000_000
    assert "damaged" in row["size"].cause


def packed_bomb(size: int, count: int) -> bytes:
    plain = pack_entry(BLOB, size, b"")
    return plain[: -len(zlib.compress(b"", 1))] + zeros(b"", count)


@pytest.mark.parametrize("states", [300_000_000, 10])
def test_a_packed_bomb_is_not_inflated(repo, states):
    oid = "b2" * 20
    write_pack(repo, [(oid, packed_bomb(states, 300_000_000))])
    with_file(repo, oid)
    peak, row = memory_of_reading(repo)
    assert peak < 30_000_000
    assert isinstance(row["size"], Unobserved)


def test_a_small_delta_on_a_bomb_is_not_put_together(repo):
    base, oid = "b3" * 20, "b4" * 20
    size = 300_000_000
    delta = size_bytes(size) + size_bytes(4) + b"\x04abcd"
    entry = pack_entry(ID_DELTA, len(delta), delta, bytes.fromhex(base))
    write_pack(repo, [(base, packed_bomb(size, size)), (oid, entry)])
    with_file(repo, oid)
    peak, row = memory_of_reading(repo)
    assert peak < 30_000_000
    assert "states a size of 300000000 bytes" in row["size"].cause


def test_a_delta_that_grows_beyond_the_limit_is_not_put_together(repo):
    content = bytes(60_000)
    base, oid = blob_id(content), "b5" * 20
    copies = (b"\xb0\x60\xea" * 10_000)[:30_000]  # 60,000 bytes of the base, again and again
    delta = size_bytes(len(content)) + size_bytes(60_000 * 10_000) + copies
    entry = pack_entry(ID_DELTA, len(delta), delta, bytes.fromhex(base))
    write_pack(repo, [(base, pack_entry(BLOB, len(content), content)), (oid, entry)])
    with_file(repo, oid)
    peak, row = memory_of_reading(repo)
    assert peak < 30_000_000
    assert "beyond the capture limit" in row["size"].cause


def test_a_chain_of_deltas_that_is_too_large_in_all_is_not_put_together(repo):
    content = bytes(MAX_OBJECT_BYTES - 100)
    entries = [(blob_id(content), pack_entry(BLOB, len(content), content))]
    for number in range(20):
        delta = size_bytes(len(content)) * 2 + b"\x01x"
        entry = pack_entry(ID_DELTA, len(delta), delta, bytes.fromhex(entries[-1][0]))
        entries.append((f"{number:040x}", entry))
    write_pack(repo, entries)
    with_file(repo, entries[-1][0])
    peak, row = memory_of_reading(repo)
    assert peak < 200_000_000  # the one at the limit is read, as all in packs are
    assert "more than the capture limit to be put together" in row["size"].cause


@pytest.mark.timeout(60)
def test_very_many_objects_on_a_chain_that_is_too_long_take_no_longer(repo):
    delta = size_bytes(4) * 2 + b"\x90\x04"
    entries = [(blob_id(b"abcd"), pack_entry(BLOB, 4, b"abcd"))]
    for number in range(9_000):
        entry = pack_entry(ID_DELTA, len(delta), delta, bytes.fromhex(entries[-1][0]))
        entries.append((f"{number:040x}", entry))
    write_pack(repo, entries)
    content = b"".join(
        b"100644 %05d\0" % n + bytes.fromhex(entries[-n][0]) for n in range(1, 3_000)
    )
    tree = loose(repo, "tree", content)
    commit = f"tree {tree}\nauthor A <a> 1 +0000\ncommitter A <a> 1 +0000\n\n"
    write(repo, ".git/refs/heads/odd", loose(repo, "commit", commit.encode()) + "\n")
    started = time.monotonic()
    found = rows(state(repo), "file")
    assert time.monotonic() - started < 20
    assert "its delta chain has no end" in found["odd", "00001"]["size"].cause


@pytest.mark.timeout(20)
def test_deltas_in_a_circle_have_no_end(repo):
    one, two = "c1" * 20, "c2" * 20
    delta = size_bytes(4) * 2 + b"\x04abcd"
    write_pack(
        repo,
        [
            (one, pack_entry(ID_DELTA, len(delta), delta, bytes.fromhex(two))),
            (two, pack_entry(ID_DELTA, len(delta), delta, bytes.fromhex(one))),
        ],
    )
    with_file(repo, one)
    row = rows(state(repo), "file")["odd", "odd"]
    assert "its delta chain has no end" in row["size"].cause


def test_deltas_of_both_kinds_are_put_together(repo):
    base = b"0123456789" * 10
    by_id, by_offset = base + b"by id", base + b"by id, by offset"
    copy_base = b"\x90" + bytes([len(base)])
    first = size_bytes(len(base)) + size_bytes(len(by_id)) + copy_base + b"\x05by id"
    added = b", by offset"
    second = size_bytes(len(by_id)) + size_bytes(len(by_offset)) + b"\x90" + bytes([len(by_id)])
    second += bytes([len(added)]) + added
    entries = [
        pack_entry(BLOB, len(base), base),
        pack_entry(ID_DELTA, len(first), first, bytes.fromhex(blob_id(base))),
    ]
    entries.append(pack_entry(OFFSET_DELTA, len(second), second, bytes([len(entries[1])])))
    ids = [blob_id(content) for content in (base, by_id, by_offset)]
    write_pack(repo, list(zip(ids, entries, strict=True)))
    assert git(repo, "cat-file", "blob", ids[2]) == by_offset.decode()
    with_file(repo, ids[2])
    assert rows(state(repo), "file")["odd", "odd"]["text"] == by_offset.decode()


def test_one_large_file_under_very_many_paths_is_limited_in_all(repo, monkeypatch):
    monkeypatch.setattr("statediff_git.history.MAX_ALL_TEXT_BYTES", 100_000)
    blob = bytes.fromhex(loose(repo, "blob", b"x" * 60_000))
    tree = loose(repo, "tree", b"".join(b"100644 f%03d\0" % n + blob for n in range(100)))
    commit = f"tree {tree}\nauthor A <a> 1 +0000\ncommitter A <a> 1 +0000\n\n"
    write(repo, ".git/refs/heads/many", loose(repo, "commit", commit.encode()) + "\n")
    texts = [r["text"] for (b, _), r in rows(state(repo), "file").items() if b == "many"]
    assert len(texts) == 100
    assert sum(isinstance(text, str) for text in texts) == 1
    assert sum(isinstance(text, Unobserved) for text in texts) == 99


@pytest.mark.timeout(60)
def test_a_tree_that_holds_itself_many_times_is_incomplete(repo, monkeypatch):
    monkeypatch.setattr("statediff_git.history.MAX_ENTRIES", 20_000)
    oid = bytes.fromhex(git(repo, "rev-parse", "main:README"))
    mode = b"100644"
    for _ in range(12):
        content = b"".join(b"%s d%d\0" % (mode, n) + oid for n in range(10))
        oid, mode = bytes.fromhex(loose(repo, "tree", content)), b"40000"
    commit = f"tree {oid.hex()}\nauthor A <a> 1 +0000\ncommitter A <a> 1 +0000\n\n"
    write(repo, ".git/refs/heads/bomb", loose(repo, "commit", commit.encode()) + "\n")
    assert coverage(state(repo)) == {"file": "the branches hold more than 20000 entries"}


@pytest.mark.timeout(60)
def test_trees_of_nothing_but_trees_end_too(repo, monkeypatch):
    monkeypatch.setattr("statediff_git.history.MAX_ENTRIES", 20_000)
    oid = bytes.fromhex(loose(repo, "tree", b""))
    for _ in range(5):
        oid = bytes.fromhex(
            loose(repo, "tree", b"".join(b"40000 %d\0" % n + oid for n in range(1_000)))
        )
    commit = f"tree {oid.hex()}\nauthor A <a> 1 +0000\ncommitter A <a> 1 +0000\n\n"
    write(repo, ".git/refs/heads/bomb", loose(repo, "commit", commit.encode()) + "\n")
    assert coverage(state(repo)) == {"file": "the branches hold more than 20000 entries"}


def test_damage_to_what_only_old_commits_hold_is_seen(repo):
    before = state(repo)
    first = git(repo, "rev-parse", "main~1")
    oid = git(repo, "rev-parse", "main~1:src/app.py")
    assert {row["is_intact"] for row in rows(before, "commit").values()} == {True}
    place_of(repo, oid).unlink()
    after = state(repo, before)
    found = {key: row["is_intact"] for key, row in rows(after, "commit").items()}
    assert found.pop(first) == Unobserved(f"object {oid} is missing")
    assert set(found.values()) == {True}
    assert doubts(before, after) == {"commit"}
    loose(repo, "blob", b"forged", name=oid)
    assert "damaged" in rows(state(repo), "commit")[first]["is_intact"].cause


def test_more_history_than_the_limit_is_not_called_intact(repo, monkeypatch):
    monkeypatch.setattr("statediff_git.history.MAX_PAST_ENTRIES", 2)
    found = [row["is_intact"] for row in rows(state(repo), "commit").values()]
    assert any(isinstance(one, Unobserved) for one in found)


def test_commits_that_are_too_large_in_all_are_unobserved(repo, monkeypatch):
    monkeypatch.setattr("statediff_git.history.MAX_ALL_RECORD_BYTES", 300)
    after = state(repo)
    assert "beyond the capture limit" in coverage(after)["commit"]
    assert len(rows(after, "commit")) < 3


def test_a_commit_that_is_too_large_is_unobserved(repo):
    tree = git(repo, "rev-parse", "main^{tree}")
    people = "author A <a> 1 +0000\ncommitter A <a> 1 +0000"
    content = f"tree {tree}\n{people}\n\n{'x' * 2_000_000}".encode()
    write(repo, ".git/refs/heads/large", loose(repo, "commit", content) + "\n")
    after = state(repo)
    assert "beyond the capture limit" in coverage(after)["commit"]
    assert "beyond the capture limit" in rows(after, "ref")["refs/heads/large"]["commit"].cause


@pytest.mark.timeout(60)
def test_very_deep_trees_are_incomplete(repo):
    oid, mode = bytes.fromhex(git(repo, "rev-parse", "main:README")), b"100644"
    for _ in range(3_000):
        oid, mode = bytes.fromhex(loose(repo, "tree", mode + b" d\0" + oid)), b"40000"
    commit = f"tree {oid.hex()}\nauthor A <a> 1 +0000\ncommitter A <a> 1 +0000\n\n"
    write(repo, ".git/refs/heads/deep", loose(repo, "commit", commit.encode()) + "\n")
    found = coverage(state(repo))
    assert found.keys() == {"file"}
    assert "too long or too deep" in found["file"]


@pytest.mark.parametrize(
    "content",
    [b"100644 cut", b"100644 short\0abc", b"x y\0" + bytes(20), b"100644 a/b\0" + bytes(20),
     b"100644 \0" + bytes(20)],
)  # fmt: skip
def test_a_malformed_tree_makes_the_files_incomplete(repo, content):
    before = state(repo)
    tree = loose(repo, "tree", content)
    commit = f"tree {tree}\nauthor A <a> 1 +0000\ncommitter A <a> 1 +0000\n\n"
    write(repo, ".git/refs/heads/odd", loose(repo, "commit", commit.encode()) + "\n")
    found = state(repo, before)
    assert coverage(found).keys() == {"file"}
    assert tree in coverage(found)["file"]


def test_two_files_of_one_name_are_neither_of_them(repo):
    one = bytes.fromhex(loose(repo, "blob", b"one"))
    two = bytes.fromhex(loose(repo, "blob", b"two"))
    tree = loose(repo, "tree", b"100644 same\0" + one + b"100644 same\0" + two)
    commit = f"tree {tree}\nauthor A <a> 1 +0000\ncommitter A <a> 1 +0000\n\n"
    write(repo, ".git/refs/heads/odd", loose(repo, "commit", commit.encode()) + "\n")
    found = state(repo)
    assert coverage(found) == {"file": "2 entries share names with each other"}
    assert ("odd", "same") not in rows(found, "file")


# Damaged packs


@pytest.mark.parametrize("end", [".pack", ".idx"])
@pytest.mark.parametrize("keep", [0.0, 0.5, 0.98])
def test_a_truncated_pack_never_reads_as_another_history(repo, end, keep):
    git(repo, "gc", "--quiet")
    before = state(repo)
    assert coverage(before) == {}
    (path,) = (repo / ".git/objects/pack").glob(f"*{end}")
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * keep)])
    after = state(repo, before)
    assert f"objects/pack/{path.name}" in files_that_differ(before, after)
    assert doubts(before, after) or keep > 0.9
    assert rows(after, "ref").keys() == rows(before, "ref").keys()


@pytest.mark.slow
def test_any_damaged_byte_of_a_pack_or_its_index_is_a_change_of_it_and_of_nothing_else(repo):
    git(repo, "gc", "--quiet")
    before = state(repo)
    for path in (repo / ".git/objects/pack").iterdir():
        path.chmod(0o644)
        whole = path.read_bytes()
        for at in range(0, len(whole), max(1, len(whole) // 60)):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
            assert f"objects/pack/{path.name}" in files_that_differ(before, state(repo, before))
        path.write_bytes(whole)
    assert coverage(state(repo, before)) == {}


def test_packs_beyond_the_limit_are_unread_and_said_so(repo, monkeypatch):
    git(repo, "gc", "--quiet")
    monkeypatch.setattr("statediff_git.objects.MAX_PACK_BYTES", 100)
    found = coverage(state(repo))
    assert "is larger than 100 bytes" in found["commit"]


def test_more_packs_than_the_limit_are_unread_and_said_so(repo):
    oid = git(repo, "rev-parse", "main:README")
    for number in range(205):
        path = write_pack(repo, [(oid, pack_entry(BLOB, 8, b"read me\n"))])
        for end in (".pack", ".idx"):
            path.with_suffix(end).rename(path.with_name(f"pack-{number:040x}{end}"))
    found = state(repo)
    assert "there are more than 200 packs" in coverage(found)["commit"]
    assert "there are more than 200 packs" in coverage(found)["file"]


def test_indexes_of_packs_are_limited_in_all(repo, monkeypatch):
    git(repo, "gc", "--quiet")
    monkeypatch.setattr("statediff_git.objects.MAX_INDEX_BYTES", 1_000)
    assert "is larger than 1000 bytes" in coverage(state(repo))["commit"]


def test_the_limit_of_one_reading_ends_it(repo, monkeypatch, tmp_path):
    monkeypatch.setattr("statediff_git.objects.MAX_WORK_BYTES", 40)
    with Folder.open(repo / ".git") as folder:
        objects = Objects(folder, tmp_path)
        blob = git(repo, "rev-parse", "main:README")
        assert objects.read(blob).content == b"read me\n"
        with pytest.raises(NotRead, match="the limit of this reading is reached"):
            objects.read(blob)
        objects.close()
