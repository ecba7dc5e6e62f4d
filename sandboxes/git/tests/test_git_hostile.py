"""Nothing of a repository is ever executed, and no trick in it blinds the capture."""

import os
import shutil
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from statediff_git import source as source_module
from statediff_git.source import GitSource

from sandboxes.git.tests.git_repositories import (
    EVERYTHING,
    capture,
    clock,
    committed,
    coverage,
    deltas,
    doubts,
    git,
    loose,
    program,
    repository,
    rows,
    state,
    unobserved,
    write,
)
from statediff.capture.source import SourceUnavailable
from statediff.capture.take import read_source
from statediff.model.delta import Op
from statediff.model.state import MemoryChunks, State
from statediff.model.values import Unobserved

pytestmark = pytest.mark.clients("git")
REFS_AND_BELOW = {"commit", "file", "ref", "tag"}
is_root = os.geteuid() == 0


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo")


def settings(root: Path, *pairs: str) -> None:
    for pair in pairs:
        name, _, value = pair.partition("=")
        git(root, "config", "--add", name, value)


# What git itself would run


def _fsmonitor(root: Path, canary: Path) -> None:
    settings(root, f"core.fsmonitor={program(root.parent / 'evil', canary)}")


def _hook(root: Path, canary: Path) -> None:
    program(root / ".git/hooks/pre-commit", canary)


def _hooks_path(root: Path, canary: Path) -> None:
    program(root / "tools/pre-commit", canary)
    settings(root, "core.hooksPath=tools")


def _submodule_fsmonitor(root: Path, canary: Path) -> None:
    repository(root / "lib")
    _fsmonitor(root / "lib", canary)
    git(root, "-c", "advice.addEmbeddedRepo=false", "-c", "core.fsmonitor=false", "add", "lib")
    canary.unlink(missing_ok=True)


def _filters(root: Path, canary: Path) -> None:
    evil = program(root.parent / "evil", canary, "cat")
    write(root, ".gitattributes", "* filter=evil\n")
    settings(root, f"filter.evil.clean={evil}", f"filter.evil.smudge={evil}")
    os.utime(root / "README", (1, 1))


def _textconv(root: Path, canary: Path) -> None:
    evil = program(root.parent / "evil", canary, 'cat "$1"')
    write(root, ".gitattributes", "* diff=evil\n")
    settings(root, f"diff.evil.textconv={evil}")


def _external_diff(root: Path, canary: Path) -> None:
    settings(root, f"diff.external={program(root.parent / 'evil', canary)}")


def _included(root: Path, canary: Path) -> None:
    evil = program(root.parent / "evil", canary)
    write(root, "config.inc", f"[core]\n\tfsmonitor = {evil}\n")
    settings(root, f"include.path={root / 'config.inc'}")


def _promisor(root: Path, canary: Path) -> None:
    evil = program(root.parent / "evil", canary)
    settings(
        root,
        f"remote.p.url=ext::{evil}",
        "remote.p.promisor=true",
        "remote.p.partialCloneFilter=blob:none",
        "protocol.ext.allow=always",
        "core.repositoryFormatVersion=1",
        "extensions.partialClone=p",
    )
    oid = git(root, "rev-parse", "main:README")
    (root / ".git/objects" / oid[:2] / oid[2:]).unlink()


@dataclass(frozen=True)
class Attack:
    """How a repository is armed, and the git command that would fire it."""

    arm: Callable[[Path, Path], None]
    fires: tuple[str, ...]


ATTACKS = {
    "fsmonitor": Attack(_fsmonitor, ("status",)),
    "hook": Attack(_hook, ("commit", "--allow-empty", "-mx")),
    "hooks path": Attack(_hooks_path, ("commit", "--allow-empty", "-mx")),
    "submodule": Attack(_submodule_fsmonitor, ("status",)),
    "filters": Attack(_filters, ("add", "README")),
    "textconv": Attack(_textconv, ("diff", "main~2", "main")),
    "external diff": Attack(_external_diff, ("diff", "main~2", "main")),
    "included settings": Attack(_included, ("status",)),
    "promisor": Attack(_promisor, ("cat-file", "-p", "main:README")),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_what_git_would_run_is_not_run_and_hides_nothing(repo, tmp_path, name):
    before = state(repo)
    canary = tmp_path / "canary"
    oid = committed(repo, "made during the run")
    ATTACKS[name].arm(repo, canary)
    assert not canary.exists()
    after = state(repo, before)
    assert not canary.exists()
    assert coverage(after) == {}
    assert rows(after, "ref")["refs/heads/main"]["target"] == oid
    changed = {(d.op, d.type, d.key) for d in deltas(before, after)}
    assert (Op.CREATE, "git.commit", (oid,)) in changed
    armed = {
        "hook": (Op.CREATE, "git.hook", ("pre-commit",)),
        "submodule": (Op.CREATE, "git.work_file", ("lib/.git/config",)),
    }
    assert armed.get(name) in {None, *changed}
    assert name in armed or any(type_ == "git.config" for _, type_, _ in changed)
    # The trap is a real one: git falls into it.
    git(repo, *ATTACKS[name].fires, check=False)
    assert canary.exists()


def test_a_promised_object_that_is_missing_is_unobserved_never_fetched(repo, tmp_path):
    before = state(repo)
    _promisor(repo, tmp_path / "canary")
    after = state(repo, before)
    row = rows(after, "file")["main", "README"]
    assert row["blob"] == rows(before, "file")["main", "README"]["blob"]
    assert isinstance(row["text"], Unobserved)
    assert "is missing" in row["text"].cause
    assert isinstance(row["digest"], Unobserved)
    assert doubts(before, after) == {"commit", "file"}
    assert "promisor remote" in rows(after, "repository")["."]["oddities"]
    assert "partial clone" in rows(after, "repository")["."]["oddities"]


# Settings that make libgit2 or git refuse the repository


ODD_SETTINGS = {
    "partial clone": ("core.repositoryFormatVersion=1", "extensions.partialClone=origin"),
    "unknown extension": ("core.repositoryFormatVersion=1", "extensions.fromTheFuture=true"),
    "format 99": ("core.repositoryFormatVersion=99",),
    "sha256 that is none": ("core.repositoryFormatVersion=1", "extensions.objectFormat=sha256"),
    "work tree elsewhere": ("core.worktree=/etc",),
    "bare that is none": ("core.bare=true",),
}


@pytest.mark.parametrize("name", ODD_SETTINGS)
def test_odd_settings_are_entries_and_blind_nothing(repo, name):
    before = state(repo)
    write(repo, "README", "changed\n")
    oid = committed(repo, "made during the run")
    settings(repo, *ODD_SETTINGS[name])
    after = state(repo, before)
    assert coverage(after) == {}
    assert rows(after, "ref")["refs/heads/main"]["target"] == oid
    assert rows(after, "work_file")["README"]["text"] == "changed\n"
    assert not any(path.startswith("/") or "passwd" in path for path in rows(after, "work_file"))
    last = ODD_SETTINGS[name][-1].partition("=")
    found = {row["name"]: row["value"] for row in rows(after, "config").values()}
    assert found[last[0].lower()] == last[2]
    assert deltas(before, after)


@pytest.mark.skipif(not is_root, reason="only root can give files away")
def test_a_foreign_owner_hides_nothing(repo):
    before = state(repo)
    for path in (repo, *repo.rglob("*")):
        os.chown(path, 12345, 12345)
    after = state(repo, before)
    assert coverage(after) == {}
    said = {str(delta.path).partition("[")[0] for delta in deltas(before, after)}
    assert said == {"owner", "group", "oddities"}


def test_settings_that_cannot_be_parsed_are_unobserved_and_their_digest_shows(repo):
    before = state(repo)
    oid = committed(repo, "made during the run")
    write(repo, ".git/config", "[core\nfsmonitor = x\n")
    after = state(repo, before)
    assert coverage(after) == {"config": "config: line 1 is not a setting"}
    assert rows(after, "admin_file")["config"]["text"] == "[core\nfsmonitor = x\n"
    assert isinstance(rows(after, "repository")["."]["object_format"], Unobserved)
    assert rows(after, "ref")["refs/heads/main"]["target"] == oid
    assert not capture(repo, before).reading.is_complete


@pytest.mark.parametrize(
    "stored",
    [
        b"key = value\n",
        b"[ core ]\n\tkey = value\n",
        b'[core "sub" ]\n',
        b"[core]\n\tkey # comment\n",
        b'[core]\n\tkey = "open\n',
        b"[core]\n\tkey = \\x\n",
        b"[core]\n\t1key = x\n",
        b"[core]\n\x0bkey = x\n",
        b"\0",
        b"[core]\n" + b"k" * 5_000 + b" = 1\n",
    ],
)
def test_what_is_no_setting_is_never_read_as_one(repo, stored):
    (repo / ".git/config").write_bytes(stored)
    assert unobserved(state(repo)) == {"config"}


def test_a_removed_settings_file_is_known_to_be_empty(repo):
    before = state(repo)
    (repo / ".git/config").unlink()
    after = state(repo, before)
    assert coverage(after) == {}
    assert {(d.op, d.type) for d in deltas(before, after)} == {(Op.DELETE, "git.config")}


def test_without_git_nobody_says_that_anything_changed(repo, monkeypatch):
    before = state(repo)
    committed(repo, "made during the run")
    git(repo, "gc", "--quiet")
    monkeypatch.setenv("PATH", str(repo))
    with pytest.raises(SourceUnavailable, match="install git"):
        GitSource("repo", repo).read(MemoryChunks(), clock, before)


def test_refs_in_a_table_format_are_unobserved(repo):
    before = state(repo)
    settings(repo, "core.repositoryFormatVersion=1", "extensions.refStorage=reftable")
    (repo / ".git/reftable").mkdir()
    after = state(repo, before)
    assert unobserved(after) == REFS_AND_BELOW
    assert "another format" in coverage(after)["ref"]
    assert doubts(before, after) >= REFS_AND_BELOW
    assert not [d for d in deltas(before, after) if d.type == "git.ref"]


def test_a_repository_of_sha256_objects_is_read(tmp_path):
    repo = repository(tmp_path / "repo", "--object-format=sha256")
    found = state(repo)
    assert coverage(found) == {}
    main = git(repo, "rev-parse", "main")
    assert len(main) == 64
    assert rows(found, "commit")[main]["message"].startswith("second")
    assert rows(found, "file")["main", "README"]["text"] == "read me\n"
    assert rows(found, "index_entry")["README", 0]["blob"] == git(repo, "rev-parse", "main:README")
    assert rows(found, "repository")["."]["object_format"] == "sha256"
    git(repo, "gc", "--quiet")
    packed = state(repo, found)
    assert unobserved(packed) == {"commit", "file", "tag"}
    assert "pack index" in coverage(packed)["commit"]


# Ways out of the repository


def elsewhere(tmp_path: Path) -> Path:
    """Another repository, with other commits: what a link out of the first would show instead."""
    other = repository(tmp_path / "other")
    write(other, "secret", "secret\n")
    committed(other, "a secret")
    return other


def shows(found: State, text: str) -> bool:
    return any(text in repr(list(table.rows())) for table in found.tables.values())


def test_alternates_are_recorded_and_never_followed(repo, tmp_path):
    before = state(repo)
    other = elsewhere(tmp_path)
    oid = git(other, "rev-parse", "main")
    write(repo, ".git/objects/info/alternates", f"{other}/.git/objects\n")
    git(repo, "update-ref", "refs/heads/main", oid)
    assert "secret" in git(repo, "log", "-1", "main")
    after = state(repo, before)
    assert not shows(after, "a secret")
    row = rows(after, "ref")["refs/heads/main"]
    assert row["target"] == oid
    assert isinstance(row["commit"], Unobserved)
    assert "alternates are not followed" in row["commit"].cause
    assert {"commit", "file"} <= coverage(after).keys()
    assert rows(after, "repository")["."]["has_alternates"] is True
    assert rows(after, "admin_file")["objects/info/alternates"]["text"] == f"{other}/.git/objects\n"


LINKED = {
    "git folder": (".git", EVERYTHING - {"work_file"}),
    "refs": (".git/refs", {"file"}),
    "refs/heads": (".git/refs/heads", set()),
    "objects": (".git/objects", {"commit", "file", "tag"}),
    "hooks": (".git/hooks", {"hook"}),
    "index": (".git/index", {"index_entry"}),
    "config": (".git/config", {"config"}),
    "packed-refs": (".git/packed-refs", set()),
}


@pytest.mark.parametrize("name", LINKED)
def test_a_link_in_place_of_a_part_of_the_repository_is_not_followed(repo, tmp_path, name):
    program(repo / ".git/hooks/post-commit", tmp_path / "unused")
    git(repo, "pack-refs")
    before = state(repo)
    assert coverage(before) == {}
    other = elsewhere(tmp_path)
    program(other / ".git/hooks/post-commit", tmp_path / "unused")
    git(other, "pack-refs", "--all")
    path, blind = LINKED[name]
    here, there = repo / path, other / path
    shutil.rmtree(here) if here.is_dir() else here.unlink()
    here.symlink_to(there)
    after = state(repo, before)
    assert not shows(after, "secret")
    assert unobserved(after) >= blind
    assert "work_file" not in coverage(after)
    if path.startswith(".git/refs") or name == "packed-refs":
        assert "ref" in coverage(after)
        assert not [d for d in deltas(before, after) if d.type == "git.ref" and d.op is Op.UPDATE]
        assert not [d for d in deltas(before, after) if d.op is Op.DELETE]
    if path.startswith(".git/") and "/" not in path[5:]:
        entry = rows(after, "admin_file")[path[5:]]
        assert (entry["kind"], entry["target"]) == ("link", str(there))


def test_a_packed_ref_that_a_linked_folder_may_override_is_unobserved(repo, tmp_path):
    git(repo, "pack-refs", "--all")
    before = state(repo)
    other = elsewhere(tmp_path)
    shutil.rmtree(repo / ".git/refs/heads")
    (repo / ".git/refs/heads").symlink_to(other / ".git/refs/heads")
    assert git(repo, "rev-parse", "main") == git(other, "rev-parse", "main")
    found = rows(state(repo, before), "ref")
    assert "may be overridden" in found["refs/heads/main"]["target"].cause
    assert found["refs/tags/light"] == rows(before, "ref")["refs/tags/light"]


def test_a_linked_object_is_not_followed(repo, tmp_path):
    oid = git(repo, "rev-parse", "main")
    path = repo / ".git/objects" / oid[:2] / oid[2:]
    path.rename(tmp_path / "moved")
    path.symlink_to(tmp_path / "moved")
    assert git(repo, "cat-file", "-t", oid) == "commit"
    after = state(repo)
    assert "is a link" in coverage(after)["commit"]
    assert isinstance(rows(after, "ref")["refs/heads/main"]["commit"], Unobserved)


def test_a_git_file_that_points_elsewhere_is_not_followed(repo, tmp_path):
    before = state(repo)
    other = elsewhere(tmp_path)
    shutil.rmtree(repo / ".git")
    write(repo, ".git", f"gitdir: {other}/.git\n")
    assert "a secret" in git(repo, "log", "-1")
    after = state(repo, before)
    assert unobserved(after) == EVERYTHING - {"work_file"}
    assert rows(after, "work_file")[".git"]["text"] == f"gitdir: {other}/.git\n"
    assert not shows(after, "a secret")


def test_a_removed_git_folder_is_unobserved_never_absent(repo):
    before = state(repo)
    shutil.rmtree(repo / ".git")
    after = state(repo, before)
    assert unobserved(after) == EVERYTHING - {"work_file"}
    assert deltas(before, after) == ()


@pytest.mark.parametrize("lost", [".git", ".git/HEAD", ".git/objects", ".git/refs"])
@pytest.mark.parametrize("is_replaced", [False, True], ids=["gone", "a pipe"])
def test_what_git_takes_for_no_repository_any_more_is_a_change(repo, lost, is_replaced):
    source, store = GitSource("code", repo), MemoryChunks()
    before = read_source(source, store, clock, None, "before")
    place = repo / lost
    shutil.rmtree(place) if place.is_dir() else place.unlink()
    if is_replaced:
        os.mkfifo(place)
    after = read_source(source, store, clock, before, "after")
    [(_, row)] = after.state.tables["source.code"].rows()
    assert lost.rpartition("/")[2] in row["problem"]
    anew = read_source(source, store, clock, None, "after")
    ruin = anew.state.tables.get("source.code")  # a first reading says that nothing was ruined
    assert ruin is None or ruin.row_count == 0


def test_a_common_folder_elsewhere_is_not_followed(repo, tmp_path):
    before = state(repo)
    other = elsewhere(tmp_path)
    write(repo, ".git/commondir", f"{other}/.git\n")
    assert "a secret" in git(repo, "log", "-1", "main")
    after = state(repo, before)
    assert unobserved(after) == {*REFS_AND_BELOW, "config", "hook", "repository"}
    assert rows(after, "admin_file")["commondir"]["kind"] == "file"


def test_another_layout_is_not_read_in_place_of_the_one_before(repo, tmp_path):
    git(tmp_path, "clone", "--quiet", "--bare", "--template=", str(repo), "bare.git")
    bare = tmp_path / "bare.git"
    before = state(bare)
    shutil.copytree(elsewhere(tmp_path) / ".git", bare / ".git")
    after = state(bare, before)
    assert rows(after, "ref") == rows(before, "ref")
    assert ".git/HEAD" in rows(after, "admin_file")
    work_tree = state(repo)
    shutil.rmtree(repo / ".git")
    shutil.copytree(bare, repo, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".git"))
    assert unobserved(state(repo, work_tree)) == EVERYTHING - {"work_file"}


# Things that are waited on for ever, or are no files


@pytest.mark.parametrize(
    ("path", "blind"),
    [
        (".git/HEAD", set()),
        (".git/config", {"config"}),
        (".git/index", {"index_entry"}),
        (".git/packed-refs", set()),
        (".git/refs/heads/main", set()),
        (".git/commondir", {*REFS_AND_BELOW, "config", "hook", "repository"}),
        (".git/hooks/pre-commit", set()),
        (".git/objects/info/alternates", set()),
        (".git", EVERYTHING - {"work_file"}),
        ("README", set()),
    ],
)
@pytest.mark.timeout(20)
def test_a_pipe_in_place_of_a_file_is_an_entry_and_never_waited_on(repo, path, blind):
    before = state(repo)
    place = repo / path
    if place.is_dir():
        shutil.rmtree(place)
    else:
        place.parent.mkdir(exist_ok=True, parents=True)
        place.unlink(missing_ok=True)
    os.mkfifo(place)
    after = state(repo, before)
    assert unobserved(after) == blind
    assert deltas(before, after) or doubts(before, after)
    found = repr([list(table.rows()) for table in after.tables.values()]) + repr(coverage(after))
    assert "fifo" in found or path == ".git/commondir"


@pytest.mark.timeout(20)
def test_a_pipe_in_place_of_an_object_or_a_pack_is_damage(repo):
    oid = git(repo, "rev-parse", "main")
    path = repo / ".git/objects" / oid[:2] / oid[2:]
    path.unlink()
    os.mkfifo(path)
    assert "fifo" in coverage(state(repo))["commit"]
    path.unlink()
    git(repo, "gc", "--quiet", check=False)
    (repo / ".git/objects/pack").mkdir(exist_ok=True)
    for end in (".idx", ".pack"):
        os.mkfifo(repo / f".git/objects/pack/pack-{'0' * 40}{end}")
    assert "fifo" in coverage(state(repo))["commit"]


def test_sockets_and_devices_in_the_work_tree_are_entries(repo, monkeypatch):
    monkeypatch.chdir(repo)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("socket")
        if is_root:
            os.mknod("device", 0o600 | 0o020000, os.makedev(1, 5))  # /dev/zero never ends
        after = state(repo)
    assert coverage(after) == {}
    assert rows(after, "work_file")["socket"]["kind"] == "socket"
    if is_root:
        assert rows(after, "work_file")["device"]["kind"] == "device"
        assert rows(after, "work_file")["device"]["device"] == os.makedev(1, 5)


# Refs


@pytest.mark.parametrize(
    "line",
    [
        b"garbage",
        b"0123 refs/heads/short",
        b"%(oid)s refs/heads/../../config",
        b"%(oid)s refs/heads/\x1b[31mred",
        b"%(oid)s refs/heads/cut",  # and no end of line: a list that was cut short
    ],
)
def test_garbage_among_the_packed_refs_makes_them_incomplete(repo, line):
    git(repo, "pack-refs", "--all")
    before = state(repo)
    oid = git(repo, "rev-parse", "main").encode()
    packed = repo / ".git/packed-refs"
    lines = packed.read_bytes().splitlines(keepends=True)
    end = b"" if line.endswith(b"cut") else b"\n"
    packed.write_bytes(b"".join(lines[:2]) + line.replace(b"%(oid)s", oid) + end)
    after = state(repo, before)
    assert coverage(after)["ref"] == "line 3 of packed-refs is not understood"
    assert "refs/heads/main" in rows(after, "ref")
    assert not [d for d in deltas(before, after) if d.op is Op.DELETE]


def test_refs_in_a_circle_and_odd_targets_have_a_cause(repo):
    before = state(repo)
    git(repo, "symbolic-ref", "refs/heads/a", "refs/heads/b")
    git(repo, "symbolic-ref", "refs/heads/b", "refs/heads/a")
    write(repo, ".git/refs/heads/out", "ref: ../../../etc/passwd\n")
    write(repo, ".git/refs/heads/junk", "no id\n")
    write(repo, ".git/refs/heads/gone", "1" * 40 + "\n")
    after = state(repo, before)
    found = rows(after, "ref")
    assert "without an end" in found["refs/heads/a"]["target"].cause
    assert "not a ref" in found["refs/heads/out"]["target"].cause
    assert "holds no object id" in found["refs/heads/junk"]["target"].cause
    assert found["refs/heads/gone"]["target"] == "1" * 40
    assert "is missing" in found["refs/heads/gone"]["commit"].cause
    assert coverage(after).keys() == {"commit", "file", "tag"}
    assert rows(after, "commit") == rows(before, "commit")


def test_a_head_in_a_circle_leaves_the_rest(repo):
    write(repo, ".git/HEAD", "ref: refs/heads/a\n")
    write(repo, ".git/refs/heads/a", "ref: refs/heads/a\n")
    after = state(repo)
    assert rows(after, "repository")["."]["head"] == "refs/heads/a"
    assert "without an end" in coverage(after)["commit"]


def test_odd_names_of_refs_are_told_apart_and_printed_harmlessly(repo):
    oid = git(repo, "rev-parse", "main")
    for name in ("m\u0430in", "ma\u200bin", "\u202eniam", "MAIN"):
        git(repo, "update-ref", f"refs/heads/{name}", oid)
    write(repo, ".git/refs/heads/main.lock", "")
    write(repo, ".git/refs/heads/with space", oid + "\n")
    write(repo, ".git/refs/heads/red\x1b[31m", "junk")
    after = state(repo)
    branches = [n for n in rows(after, "ref") if n.startswith("refs/heads/")]
    assert len(branches) == 6
    admin = rows(after, "admin_file")
    strays = {"main.lock", "with space", "red\x1b[31m"}
    assert {f"refs/heads/{stray}" for stray in strays} <= admin.keys()
    write(repo, ".git/refs/heads/\u202ebroken", "junk")
    cause = capture(repo).reading.cause
    assert cause is not None
    assert cause.isprintable()


@pytest.mark.parametrize("count", [1, 5])
def test_chains_of_symbolic_refs_end_where_git_ends_them(repo, count):
    for number in range(count):
        target = "main" if not number else f"s{number - 1}"
        git(repo, "symbolic-ref", f"refs/heads/s{number}", f"refs/heads/{target}")
    found = rows(state(repo), "ref")
    assert found[f"refs/heads/s{count - 1}"]["target"] == git(repo, "rev-parse", "main")


def test_thousands_of_refs_are_read(repo):
    oid = git(repo, "rev-parse", "main")
    lines = "".join(f"{oid} refs/heads/b{n:05}\n" for n in range(5_000))
    write(repo, ".git/packed-refs", f"# pack-refs with: peeled fully-peeled sorted \n{lines}")
    after = state(repo)
    assert coverage(after) == {}
    assert len(rows(after, "ref")) == 5_004
    assert len(rows(after, "file")) == 10_005


def test_more_refs_than_the_limit_are_incomplete(repo, monkeypatch):
    monkeypatch.setattr("statediff_git.refs.MAX_REFS", 2)
    after = state(repo)
    assert {"ref", "commit", "file", "tag"} <= coverage(after).keys()


def test_replacements_and_grafts_and_shallow_boundaries_are_shown_and_not_obeyed(repo):
    before = state(repo)
    main, first = git(repo, "rev-parse", "main", "main~1").split()
    git(repo, "replace", main, git(repo, "rev-parse", "topic"))
    write(repo, ".git/info/grafts", f"{main}\n")
    write(repo, ".git/shallow", f"{main}\n")
    assert "third" in git(repo, "log", "-1", "main")
    after = state(repo, before)
    assert coverage(after) == {}
    assert rows(after, "commit") == rows(before, "commit")
    assert rows(after, "commit")[main]["parents"] == (first,)
    assert rows(after, "file") == rows(before, "file")
    row = rows(after, "repository")["."]
    assert {"grafts", "replaced objects"} <= set(row["oddities"])
    assert row["is_shallow"] is True
    assert {"info/grafts", "shallow"} <= rows(after, "admin_file").keys()


def test_refs_that_move_while_they_are_read_are_read_again(repo, monkeypatch):
    oid = git(repo, "rev-parse", "main~1")
    read, moves = source_module.read_history, [oid]

    def moving(refs, objects):
        if moves:
            write(repo, ".git/refs/heads/topic", moves.pop() + "\n")
        return read(refs, objects)

    monkeypatch.setattr(source_module, "read_history", moving)
    after = state(repo)
    assert coverage(after) == {}
    assert rows(after, "ref")["refs/heads/topic"]["target"] == oid
    moves.extend([git(repo, "rev-parse", "main"), oid, git(repo, "rev-parse", "main")])
    found = coverage(state(repo))
    assert set(found) == REFS_AND_BELOW
    assert "the refs moved while they were read" in found["ref"]


# The index and the work tree


@pytest.mark.parametrize(
    "damage",
    [
        lambda stored: stored[:0],
        lambda stored: stored[: len(stored) // 2],
        lambda stored: b"XXXX" + stored[4:],
        lambda stored: stored[:-1] + bytes([stored[-1] ^ 1]),
        lambda stored: stored[:4] + b"\0\0\0\x09" + stored[8:-20] + bytes(20),
        lambda stored: stored[:8] + b"\xff\xff\xff\xff" + stored[12:-20] + bytes(20),
        lambda stored: stored[:-20] + b"link\0\0\0\x14" + b"x" * 20 + bytes(20),
    ],
)
def test_a_damaged_index_is_unobserved_and_a_change(repo, damage):
    before = state(repo)
    path = repo / ".git/index"
    path.write_bytes(damage(path.read_bytes()))
    after = state(repo, before)
    assert coverage(after).keys() == {"index_entry"}
    assert "index" in coverage(after)["index_entry"]
    assert [(d.type, d.key) for d in deltas(before, after)] == [("git.admin_file", ("index",))]
    assert doubts(before, after) == {"index_entry"}


def test_a_file_that_cannot_be_read_is_unobserved_and_others_stand(repo):
    before = state(repo)
    os.truncate(write(repo, "README", ""), 10**12)  # a terabyte of nothing
    after = state(repo, before)
    row = rows(after, "work_file")["README"]
    assert row["size"] == 10**12
    assert isinstance(row["digest"], Unobserved)
    assert isinstance(row["text"], Unobserved)
    assert rows(after, "work_file")["src/app.py"] == rows(before, "work_file")["src/app.py"]


@pytest.mark.skipif(is_root, reason="root may read everything")
def test_what_the_owner_forbids_is_unobserved(repo):
    before = state(repo)
    (repo / "README").chmod(0)
    (repo / "src").chmod(0)
    try:
        after = state(repo, before)
    finally:
        (repo / "src").chmod(0o755)
    assert "src cannot be opened" in coverage(after)["work_file"]
    assert isinstance(rows(after, "work_file")["README"]["digest"], Unobserved)


def test_a_folder_that_is_no_folder_any_more_is_unavailable(repo, tmp_path):
    (tmp_path / "linked").symlink_to(repo)
    with pytest.raises(SourceUnavailable, match="a link to one"):
        GitSource("repo", tmp_path / "linked").read(MemoryChunks(), clock, None)


@pytest.mark.timeout(60)
def test_a_work_tree_that_is_written_during_the_reading_never_crashes_it(repo):
    stop = threading.Event()

    def busy() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            write(repo, f"busy/{number % 7}/file", "x" * (number % 1000))
            shutil.rmtree(repo / f"busy/{(number + 3) % 7}", ignore_errors=True)

    writer = threading.Thread(target=busy)
    writer.start()
    try:
        found = [capture(repo) for _ in range(20)]
    finally:
        stop.set()
        writer.join()
    for one in found:
        assert set(coverage(one.state)) <= {"work_file"}
        assert {"README", "src/app.py"} <= rows(one.state, "work_file").keys()


def test_a_commit_made_by_hand_keeps_what_can_be_told(repo):
    tree = git(repo, "rev-parse", "main^{tree}")
    bad = loose(repo, "commit", f"tree {tree}\nauthor nobody\n\nodd\n".encode())
    people = "author A <a> 99999999999999 +0000\ncommitter B <b> 1 +0000"
    late = loose(repo, "commit", f"tree {tree}\n{people}\n\nlate\n".encode())
    write(repo, ".git/refs/heads/bad", bad + "\n")
    write(repo, ".git/refs/heads/late", late + "\n")
    after = state(repo)
    commits = rows(after, "commit")
    assert commits[bad]["message"] == "odd\n"
    assert "malformed author" in commits[bad]["author_name"].cause
    assert "malformed committer" in commits[bad]["committed_at"].cause
    assert commits[late]["author_name"] == "A"
    assert "outside the years" in commits[late]["authored_at"].cause
    assert coverage(after) == {}


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("commit", b"author A <a> 1 +0000\n\nno tree\n"),
        ("commit", b"tree 123\n\nshort\n"),
        ("commit", b""),
        ("commit", b"tree %(tree)s\nauthor A <a> 1 +0000\nparent %(tree)s\n\nlate parent\n"),
        ("tag", b"object 12\ntype commit\ntag x\n\n"),
        ("tag", b""),
    ],
)
def test_an_object_with_a_malformed_header_is_unobserved(repo, kind, content):
    tree = git(repo, "rev-parse", "main^{tree}").encode()
    oid = loose(repo, kind, content.replace(b"%(tree)s", tree))
    write(repo, ".git/refs/heads/bad", oid + "\n")
    after = state(repo)
    assert rows(after, "ref")["refs/heads/bad"]["target"] == oid
    assert "malformed header" in rows(after, "ref")["refs/heads/bad"]["commit"].cause
    assert "malformed header" in coverage(after)["commit"]
    assert "malformed header" in coverage(after)["file"]
