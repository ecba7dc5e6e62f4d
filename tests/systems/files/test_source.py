import hashlib
import os
import socket
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff.capture.source import SourceUnavailable, clock
from statediff.capture.take import take
from statediff.contract.document.refinement import refine
from statediff.contract.document.schemafile import parse_schema_file
from statediff.evidence.documents import enumeration_document, enumeration_from
from statediff.kernel import replay
from statediff.kernel.diff import diff
from statediff.model.delta import Op
from statediff.model.readings import SourceCapture
from statediff.model.state import COMPLETE, Coverage, Enumeration, MemoryChunks, beginnings
from statediff.model.values import Map, Unobserved, show_key
from statediff.systems.files.sandbox import empty
from statediff.systems.files.source import FilesSource
from statediff.systems.files.tree import Limits
from tests.judging import DIVERGE, INCONCLUSIVE, MATCH, finding, judged, run


def read(root: Path, store: MemoryChunks | None = None, **more: Any) -> SourceCapture:
    return FilesSource("files", root, **more).read(store or MemoryChunks(), clock, None)


def rows(root: Path, **more: Any) -> dict[Any, dict[str, Any]]:
    return {key[0]: row for key, row in read(root, **more).state.tables["file"].rows()}


def coverage(part: SourceCapture) -> Coverage:
    return part.state.tables["file"].enumeration.coverage


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    (folder / "sub").mkdir()
    (folder / "sub" / "a.txt").write_text("hello\n")
    (folder / "sub" / "a.txt").chmod(0o640)
    (folder / "blob").write_bytes(b"\xff\x00")
    return folder


def test_every_entry_is_an_entity_and_the_folder_itself_is_one_too(root):
    root.chmod(0o750)
    found = rows(root)
    assert list(found) == [".", "blob", "sub", "sub/a.txt"]
    assert (found["."]["kind"], found["."]["mode"]) == ("directory", "0750")
    assert found["sub/a.txt"] == {
        "path": "sub/a.txt",
        "kind": "file",
        "mode": "0640",
        "size": 6,
        "digest": hashlib.sha256(b"hello\n").hexdigest(),
        "text": "hello\n",
        "target": None,
        "device": None,
        "owner": "own",
        "group": "own",
        "attributes": Map(()),
    }
    assert found["blob"]["text"] is None
    assert found["blob"]["digest"] == hashlib.sha256(b"\xff\x00").hexdigest()
    assert found["sub"]["size"] is None


def test_pipes_sockets_and_links_are_entries_that_nobody_waits_for(root, tmp_path):
    os.mkfifo(root / "pipe")
    listener = socket.socket(socket.AF_UNIX)
    here = Path.cwd()
    os.chdir(root)  # a socket's address is at most 107 bytes long
    try:
        listener.bind("door")
    finally:
        os.chdir(here)
    (root / "up").symlink_to("../../etc/passwd")
    (root / "loop").symlink_to("loop")
    secret = tmp_path / "outside"
    secret.mkdir()
    (secret / "key").write_text("secret")
    (root / "folder").symlink_to(secret)
    part = read(root)
    listener.close()
    found = {key[0]: row for key, row in part.state.tables["file"].rows()}
    assert part.reading.is_complete
    assert found["pipe"]["kind"] == "fifo"
    assert found["door"]["kind"] == "socket"
    assert (found["up"]["kind"], found["up"]["target"]) == ("link", "../../etc/passwd")
    assert found["loop"]["target"] == "loop"
    assert found["folder"]["target"] == str(secret)
    assert not [path for path in found if "key" in str(path)]


def test_a_device_is_an_entry_with_its_number(root):
    try:
        os.mknod(root / "null", 0o020666, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only a privileged user makes devices")
    found = rows(root)["null"]
    assert (found["kind"], found["device"], found["digest"]) == ("device", os.makedev(1, 3), None)


def test_a_changed_byte_a_mode_and_a_target_are_deltas_and_a_touched_time_is_none(root):
    (root / "link").symlink_to("a")
    store = MemoryChunks()
    source = FilesSource("files", root)
    before = take([source], store, clock, None, "before")
    os.utime(root / "blob", (0, 0))
    (root / "sub" / "a.txt").write_text("hellO\n")
    (root / "sub").chmod(0o777)
    (root / "link").unlink()
    (root / "link").symlink_to("b")
    after = take([source], store, clock, before, "after")
    found = diff(before.parts[0].state, after.parts[0].state)
    assert found.doubts == ()
    assert [(d.key[0], d.path) for d in found.deltas] == [
        ("link", "target"),
        ("sub", "mode"),
        ("sub/a.txt", "digest"),
        ("sub/a.txt", "text"),
    ]
    assert {d.op for d in found.deltas} == {Op.UPDATE}


def test_two_names_of_one_file_are_two_entities_and_both_change(root):
    os.link(root / "blob", root / "again")
    store = MemoryChunks()
    source = FilesSource("files", root)
    before = take([source], store, clock, None, "before")
    (root / "again").write_bytes(b"\xff\x01")
    after = take([source], store, clock, before, "after")
    deltas = diff(before.parts[0].state, after.parts[0].state).deltas
    assert [(d.key[0], d.path) for d in deltas] == [("again", "digest"), ("blob", "digest")]


def test_a_name_that_is_not_utf8_is_kept_as_its_bytes_and_can_be_judged(root):
    empty = read(root)
    name = b"caf\xe9.txt"
    Path(os.fsdecode(os.fsencode(root) + b"/" + name)).write_text("x")
    (root / "link").symlink_to(os.fsdecode(b"\xe9"))
    full = read(root)
    found = {key[0]: row for key, row in full.state.tables["file"].rows()}
    assert found[name]["text"] == "x"
    assert found["link"]["target"] == b"\xe9"
    body = (
        "forbid:\n  - {id: kept, delete: file}\nallow:\n  - {id: links, create: file, where: %s}\n"
    )
    for where, verdict in (('it.kind == "link"', DIVERGE), ('it.path != "x"', MATCH)):
        clauses = body % f"'{where}'"
        assert judged(clauses, empty.state, full.state).verdict is verdict


def test_a_name_with_a_bidi_override_is_spelled_out_wherever_it_is_shown(root):
    (root / "invoice\u202egpj.exe").touch()
    key = next(key for key, _ in read(root).state.tables["file"].rows() if "invoice" in str(key))
    assert key[0] == "invoice\u202egpj.exe"
    assert show_key(key) == "invoice\\u202egpj.exe"


def test_a_file_beyond_the_limit_is_unobserved_and_its_size_is_known(root):
    with (root / "huge").open("wb") as huge:
        huge.truncate(1 << 40)
    part = read(root)
    found = {key[0]: row for key, row in part.state.tables["file"].rows()}["huge"]
    assert found["size"] == 1 << 40
    assert isinstance(found["digest"], Unobserved)
    assert "larger than" in found["digest"].cause
    assert coverage(part) is Coverage.COMPLETE
    assert part.reading.is_complete
    assert judged("forbid:\n  - {update: file}\n", part.state, part.state).verdict is INCONCLUSIVE


def test_a_large_file_is_hashed_as_a_stream(root):
    size = 48 * 1024 * 1024
    with (root / "large").open("wb") as large:
        large.truncate(size)
    tracemalloc.start()
    found = rows(root)["large"]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found["digest"] == hashlib.sha256(bytes(size)).hexdigest()
    assert found["text"] is None
    assert peak < 16 * 1024 * 1024


def test_a_file_that_changes_while_it_is_read_is_unobserved(root):
    growing = root / "growing"
    growing.write_bytes(bytes(40 * 1024 * 1024))
    is_done = threading.Event()

    def grow() -> None:
        with growing.open("ab", buffering=0) as file:
            while not is_done.is_set():
                file.write(b"x")
                is_done.wait(0.001)

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        found = rows(root)["growing"]
    finally:
        is_done.set()
        writer.join()
    assert isinstance(found["digest"], Unobserved)
    assert "changed while it was read" in found["digest"].cause


@pytest.mark.parametrize(
    ("limits", "cause"),
    [(Limits(entries=2), "more than 2 entries"), (Limits(depth=0), "deeper than 0 folders")],
)
def test_what_lies_beyond_a_limit_leaves_the_enumeration_incomplete(root, limits, cause):
    part = read(root, limits=limits)
    assert coverage(part) is Coverage.INCOMPLETE
    assert not part.reading.is_complete
    assert cause in (part.reading.cause or "")
    verdict = judged("forbid:\n  - {delete: file}\n", part.state, part.state).verdict
    assert verdict is INCONCLUSIVE


def test_folders_nested_without_end_are_incomplete_and_cost_no_recursion_error(root):
    bottom = os.open(root, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=bottom)
        deeper = os.open("d", os.O_RDONLY, dir_fd=bottom)
        os.close(bottom)
        bottom = deeper
    os.close(bottom)
    part = read(root)
    empty(root)  # before whoever tidies up after the tests comes to it
    assert coverage(part) is Coverage.INCOMPLETE
    assert "deeper than" in (part.reading.cause or "")


def test_what_may_not_be_read_is_unobserved_and_the_others_stand(root, monkeypatch):
    (root / "locked.txt").write_text("x")
    (root / "locked.txt").chmod(0o000)
    (root / "closed").mkdir(mode=0o000)
    monkeypatch.chdir(root.parent)  # whoever we become need not reach the folders above
    is_root = os.geteuid() == 0
    if is_root:
        os.chmod(root.parent, 0o755)  # noqa: PTH101
        os.seteuid(65534)
    try:
        part = read(Path("root"))
    finally:
        if is_root:
            os.seteuid(0)
    found = {key[0]: row for key, row in part.state.tables["file"].rows()}
    assert isinstance(found["locked.txt"]["digest"], Unobserved)
    assert found["locked.txt"]["mode"] == "0000"
    assert found["blob"]["digest"] == hashlib.sha256(b"\xff\x00").hexdigest()
    assert coverage(part) is Coverage.INCOMPLETE
    assert "closed" in (part.reading.cause or "")
    if is_root:
        assert rows(root)["locked.txt"]["text"] == "x"


@pytest.mark.parametrize("instead", ["nothing", "a link", "a file"])
def test_without_the_folder_the_source_is_unavailable(root, instead):
    root.rename(root.with_name("moved"))
    if instead == "a link":
        root.symlink_to(root.with_name("moved"))
    elif instead == "a file":
        root.write_text("x")
    with pytest.raises(SourceUnavailable, match="root is not"):
        read(root)


def test_a_folder_exchanged_for_a_link_is_the_deletion_of_all_that_was_in_it(root):
    before = read(root)
    (root / "sub").rename(root.with_name("elsewhere"))
    (root / "sub").symlink_to(root.with_name("elsewhere"))
    after = read(root)
    judgement = judged("forbid:\n  - {id: kept, delete: file}\n", before.state, after.state)
    assert judgement.verdict is DIVERGE
    assert finding(judgement, "kept").deltas == ("file[sub]", "file[sub/a.txt]")
    assert rows(root)["sub"]["kind"] == "link"


def test_a_schema_file_gives_the_entries_a_name_of_their_own(root):
    text = (
        "schema: desk\nversion: 1.0.0\nentities:\n"
        "  report: {table: file, fields: {checksum: {column: digest}}}\n"
    )
    refined = refine(parse_schema_file(text.encode(), "schema.yaml"), "files")
    part = read(root, refine=refined)
    assert set(part.state.tables) == {"report"}
    row = part.state.tables["report"].row(("blob",))
    assert row is not None
    assert row["checksum"] == hashlib.sha256(b"\xff\x00").hexdigest()


def test_reading_changes_no_byte_and_no_time_of_change(root):
    def stamps() -> list[tuple[str, int, int]]:
        paths = [root, *sorted(root.rglob("*"))]
        return [(str(p), p.lstat().st_mtime_ns, p.lstat().st_ctime_ns) for p in paths]

    before = stamps()
    assert read(root).state.digest() == read(root).state.digest()
    assert stamps() == before


def test_what_may_be_missing_in_one_folder_leaves_all_others_known(tmp_path: Path) -> None:
    """A path beyond the limit may hide anything below it, as a folder that may not be read does."""
    root, store = tmp_path / "root", MemoryChunks()
    (root / "in").mkdir(parents=True)
    for name in ("kept", "in/gone", "long"):
        (root / name).write_text(name)
    source = FilesSource("files", root, limits=Limits(path_bytes=20))
    before = take([source], store, clock, None, "before")
    for name in ("in/gone", "long"):
        (root / name).unlink()
    (root / "in" / ("x" * 30)).mkdir()
    (root / "in" / ("y" * 30)).write_text("y")
    after = take([source], store, clock, before, "after")
    (part,) = after.parts
    seen = part.state.tables["file"].enumeration
    assert (seen.coverage, len(seen.below)) == (Coverage.INCOMPLETE, 2)
    found = diff(before.parts[0].state, part.state)
    assert {(d.op, d.key[0]) for d in found.deltas if d.op is Op.DELETE} == {
        (Op.DELETE, "in/gone"),
        (Op.DELETE, "long"),
    }
    assert {d.key for d in found.doubts} == {None}, "there may be more in the folder"
    evaluated = run("forbid:\n  - delete: file\nallow:\n  - any: file\n", before, after)
    assert evaluated.judgement.verdict is DIVERGE
    assert replay(evaluated.bundle).verdict is DIVERGE


@given(st.lists(st.text("ab/", max_size=3), max_size=5), st.text("ab/", max_size=4))
def test_an_entity_may_be_missing_where_its_key_begins_as_one_that_is(
    texts: list[str], key: str
) -> None:
    below = beginnings(texts)
    seen = Enumeration(Coverage.INCOMPLETE, "cut", below=below)
    assert seen.may_miss((key,)) is (not texts or any(key.startswith(each) for each in texts))
    assert seen.may_miss((b"a",))
    assert not COMPLETE.may_miss((key,))
    assert enumeration_from(enumeration_document(seen)) == seen


@pytest.mark.parametrize(
    ("key", "is_known"), [("[path]", True), ("[digest, path]", False), ("[kind, path]", False)]
)
def test_paths_say_what_may_be_missing_only_where_they_are_the_key(
    key: str, is_known: bool, root: Path
) -> None:
    (root / ("x" * 30)).write_text("x")
    text = f"schema: desk\nversion: 1.0.0\nentities:\n  report: {{table: file, key: {key}}}\n"
    refined = refine(parse_schema_file(text.encode(), "schema.yaml"), "files")
    part = read(root, refine=refined, limits=Limits(path_bytes=20))
    seen = part.state.tables["report"].enumeration
    assert (seen.coverage, bool(seen.below)) == (Coverage.INCOMPLETE, is_known)
