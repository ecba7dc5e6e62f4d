import hashlib
import os
import threading
from pathlib import Path

import pytest

from statediff.systems.files import tree as tree_module
from statediff.systems.files.tree import EntryKind, Folder, Limits, NotRead, Tree, shown

is_root = os.geteuid() == 0


def walked(path: Path, limits: Limits | None = None, *leave_out: bytes) -> Tree:
    with Folder.open(path) as folder:
        return folder.tree(limits, frozenset(leave_out))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "a/b").mkdir(parents=True)
    (root / "a/file").write_bytes(b"content")
    (root / "a-file").write_bytes(b"")
    (root / "link").symlink_to("a/file")
    (root / "up").symlink_to("..")
    os.mkfifo(root / "pipe")
    return root


@pytest.mark.timeout(10)
def test_every_entry_has_its_kind_mode_size_digest_and_target(root):
    (root / "a/file").chmod(0o4755)
    found = walked(root)
    assert found.causes == ()
    entries = {entry.path: entry for entry in found.entries}
    assert list(entries) == [b"a", b"a-file", b"a/b", b"a/file", b"link", b"pipe", b"up"]
    file = entries[b"a/file"]
    assert (file.kind, file.size, file.content) == (EntryKind.FILE, 7, b"content")
    assert file.digest == hashlib.sha256(b"content").hexdigest()
    assert file.mode & 0o7777 == 0o4755
    assert entries[b"link"].target == b"a/file"
    assert entries[b"up"].kind is EntryKind.LINK
    assert entries[b"pipe"].kind is EntryKind.FIFO
    assert entries[b"a/b"].is_empty
    assert not entries[b"a"].is_empty


def test_names_are_bytes_and_printed_harmlessly(tmp_path):
    odd = b"\xff\x1b[31m\n"
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + odd)).touch()
    ((entry),) = walked(tmp_path).entries
    assert entry.path == odd
    assert shown(odd).isprintable()
    assert shown(b"x" * 1000).endswith("…")


def test_paths_left_out_are_neither_listed_nor_entered(root):
    assert [e.path for e in walked(root, None, b"a", b"pipe").entries] == [
        b"a-file",
        b"link",
        b"up",
    ]


@pytest.mark.parametrize(
    ("limits", "cause"),
    [
        (Limits(entries=3), "more than 3 entries"),
        (Limits(depth=1), "a/b lies deeper than 1 folders"),
        (Limits(path_bytes=5), "longer than 5 bytes"),
    ],
)
def test_a_limit_makes_the_tree_incomplete_never_shorter(root, limits, cause):
    assert cause in walked(root, limits).causes[0]


def test_exactly_as_many_entries_as_allowed_are_complete(root):
    assert walked(root, Limits(entries=7)).causes == ()
    assert walked(root, Limits(entries=6)).causes != ()


@pytest.mark.parametrize(
    ("limits", "cause"),
    [
        (Limits(file_bytes=6), "larger than 6 bytes"),
        (Limits(total_bytes=6), "holds more than 6 bytes"),
    ],
)
def test_a_file_beyond_a_limit_is_an_entry_whose_content_is_unknown(root, limits, cause):
    found = walked(root, limits)
    assert found.causes == ()
    (entry,) = [entry for entry in found.entries if entry.path == b"a/file"]
    assert (entry.size, entry.digest, entry.content) == (7, None, None)
    assert cause in entry.cause


def test_a_large_file_has_a_digest_and_no_content(root):
    (root / "a/file").write_bytes(b"x" * 3_000_000)
    (entry,) = [e for e in walked(root, Limits(content_bytes=10)).entries if e.path == b"a/file"]
    assert entry.digest == hashlib.sha256(b"x" * 3_000_000).hexdigest()
    assert entry.content is None
    assert entry.cause is None


def test_a_file_that_changes_while_it_is_read_has_a_cause(root, monkeypatch):
    read = os.read

    def growing(descriptor: int, count: int) -> bytes:
        with (root / "a/file").open("ab") as file:
            file.write(b"more")
        return read(descriptor, count)

    monkeypatch.setattr(tree_module.os, "read", growing)
    (entry,) = [e for e in walked(root).entries if e.path == b"a/file"]
    assert "changed while it was read" in entry.cause
    assert entry.digest is None


def test_a_file_rewritten_with_its_old_times_is_noticed(root, monkeypatch):
    read = os.read
    path = root / "a/file"

    def rewriting(descriptor: int, count: int) -> bytes:
        status = path.stat()
        path.write_bytes(b"CONTENT")
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        return read(descriptor, count)

    monkeypatch.setattr(tree_module.os, "read", rewriting)
    (entry,) = [e for e in walked(root).entries if e.path == b"a/file"]
    assert "changed while it was read" in entry.cause


def test_a_folder_that_changes_while_it_is_read_makes_the_tree_incomplete(root, monkeypatch):
    read = os.read

    def adding(descriptor: int, count: int) -> bytes:
        (root / "a/new").touch()
        return read(descriptor, count)

    monkeypatch.setattr(tree_module.os, "read", adding)
    assert "unread: a changed while it was read" in walked(root).causes


@pytest.mark.timeout(60)
def test_a_folder_swapped_for_a_link_never_leads_out(root, tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_bytes(b"secret")
    (root / "swap").mkdir()
    stop = threading.Event()

    def swapping() -> None:
        while not stop.is_set():
            (root / "swap").rename(root / "kept")
            (root / "swap").symlink_to(tmp_path / "outside")
            (root / "swap").unlink()
            (root / "kept").rename(root / "swap")

    swapper = threading.Thread(target=swapping)
    swapper.start()
    try:
        found = [entry.path for _ in range(300) for entry in walked(root).entries]
    finally:
        stop.set()
        swapper.join()
    assert not [path for path in found if path.endswith(b"secret")]


def test_very_deep_folders_are_incomplete_and_use_few_descriptors(tmp_path):
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(600):
        os.mkdir("d", dir_fd=here)
        deeper = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)
    found = walked(tmp_path)
    assert len(found.entries) == 201
    assert "deeper than 200 folders" in found.causes[0]


@pytest.mark.skipif(is_root, reason="root may read everything")
def test_what_may_not_be_read_has_a_cause(root):
    (root / "a-file").chmod(0)
    (root / "a").chmod(0)
    try:
        found = walked(root)
    finally:
        (root / "a").chmod(0o755)
    assert found.causes == ("a cannot be opened: Permission denied",)
    (entry,) = [e for e in found.entries if e.path == b"a-file"]
    assert "Permission denied" in entry.cause


# Single files


@pytest.mark.timeout(10)
def test_a_file_is_read_through_folders_and_never_through_links(root, tmp_path):
    with Folder.open(root) as folder:
        assert folder.read(b"a/file", 100) == b"content"
        assert folder.read(b"a/none", 100) is None
        assert folder.read(b"none/none", 100) is None
        assert folder.kind(b"a/none") is None
        assert folder.kind(b"a/b") is EntryKind.DIRECTORY
        for path, cause in (
            (b"link", "is a link, not a file"),
            (b"pipe", "is a fifo, not a file"),
            (b"a", "is a directory, not a file"),
            (b"up/tree/a/file", "not a folder, or a link to one"),
            (b"a/file/x", "not a folder, or a link to one"),
        ):
            with pytest.raises(NotRead, match=cause):
                folder.read(path, 100)
        with pytest.raises(NotRead, match="larger than 6 bytes"):
            folder.read(b"a/file", 6)
        with folder.folder(b"a") as below:
            assert below.names() == [b"b", b"file"]
        with pytest.raises(NotRead, match="not a folder, or a link to one"):
            folder.folder(b"up")
        with pytest.raises(NotRead, match="nowhere is not there"):
            folder.folder(b"nowhere")
        assert folder.copy(b"a/file", tmp_path / "copy", 100) == 7
        assert (tmp_path / "copy").read_bytes() == b"content"
        assert folder.target(b"link") == b"a/file"


@pytest.mark.parametrize("name", ["nowhere", "a-file", "link", "pipe", "up"])
@pytest.mark.timeout(10)
def test_only_a_folder_is_opened(root, name):
    with pytest.raises(NotRead, match=name):
        Folder.open(root / name)


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_no_descriptor_stays_open(root):
    before = open_descriptors()
    for _ in range(3):
        walked(root)
        with Folder.open(root) as folder:
            folder.read(b"a/file", 100)
            folder.read(b"a/none/x", 100)
            with pytest.raises(NotRead):
                folder.read(b"a/file/x/y", 100)
    assert open_descriptors() == before
