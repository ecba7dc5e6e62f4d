"""Git's own maintenance writes no change; a forged copy of it is one."""

import hashlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sandboxes.git.tests.git_repositories import (
    committed,
    coverage,
    deltas,
    doubts,
    git,
    repository,
    rows,
    state,
    write,
)
from statediff.model.delta import Op
from tests.systems.files.test_owners import LIST, OF_FILES, TOLD, as_root, attach

pytestmark = pytest.mark.clients("git")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """Packed and loose objects and refs, an unreachable commit, and a remote that lags behind."""
    root = repository(tmp_path / "repo")
    git(root, "gc", "--quiet")
    write(root, "later.txt", "later\n")
    committed(root, "fourth")
    git(root, "tag", "--annotate", "--message=release two", "v2")
    git(root, "branch", "deep/er")
    write(root, "lost.txt", "lost\n")
    committed(root, "nobody leads here")
    git(root, "reset", "--quiet", "--hard", "HEAD~1")
    git(root, "reflog", "expire", "--expire=all", "--all")
    git(root, "clone", "--quiet", "--bare", ".", str(tmp_path / "origin"))
    git(root, "remote", "add", "origin", str(tmp_path / "origin"))
    git(root, "fetch", "--quiet", "origin")
    (root / ".git/FETCH_HEAD").unlink()
    git(root, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
    git(root, "symbolic-ref", "refs/heads/unborn", "refs/heads/nowhere")
    git(root, "tag", "--annotate", "--message=a tag of a tag", "nested", "v2")
    git(root, "tag", "--annotate", "--message=a file", "file", "main:README")
    git(root, "tag", "blob", "main:README")
    return root


MAINTENANCE = {
    "gc": ["gc --quiet"],
    "gc with a bitmap": ["-c repack.writeBitmaps=true gc --quiet --aggressive"],
    "gc with cruft": ["gc --quiet --cruft"],
    "gc and prune": ["gc --quiet --prune=now"],
    "repack": ["repack -adq"],
    "repack without a bitmap": ["repack -dq"],
    "repack with reverse index": ["-c pack.writeReverseIndex=true repack -adq"],
    "pack-refs": ["pack-refs --all"],
    "pack-refs twice": ["pack-refs", "pack-refs --all --no-prune"],
    "update-server-info": ["update-server-info"],
    "gc and update-server-info": ["gc --quiet", "update-server-info"],
    "fetch": ["fetch --quiet origin"],
    "fetch one": ["fetch --quiet origin main"],
    "maintenance": ["maintenance run --quiet"],
    "maintenance tasks": [
        f"maintenance run --quiet --task={task}"
        for task in ("loose-objects", "incremental-repack", "commit-graph", "pack-refs", "gc")
    ],
    "commit-graph": ["commit-graph write --reachable"],
    "commit-graph with paths": ["commit-graph write --reachable --changed-paths"],
    "commit-graph split": ["commit-graph write --reachable --split"],
    "multi-pack-index": ["multi-pack-index write"],
    "multi-pack-index with a bitmap": ["repack -dq", "multi-pack-index write --bitmap"],
    "prune": ["prune --expire=now"],
    "prune-packed": ["repack -q", "prune-packed"],
    "status": ["status"],
    "reflog": ["reflog expire --expire=all --all"],
    "worktree prune": ["worktree prune"],
    "split index": ["update-index --split-index", "update-index --chmod=-x README"],
    "untracked cache": ["update-index --untracked-cache", "status", "status"],
    "blocks of entries": ["-c index.threads=2 update-index --index-version 4 --force-write-index"],
    "cache of trees": ["read-tree HEAD", "status"],
}


@pytest.mark.parametrize("name", MAINTENANCE)
def test_what_maintenance_writes_is_no_change(repo, name):
    before = state(repo)
    for command in MAINTENANCE[name]:
        git(repo, *command.split())
    after = state(repo, before)
    assert coverage(after) == {}
    assert deltas(before, after) == ()
    assert doubts(before, after) == set()


def test_maintenance_of_a_bare_repository_is_no_change(repo, tmp_path):
    bare = tmp_path / "bare"
    git(repo, "clone", "--quiet", "--bare", ".", str(bare))
    before = state(bare)
    git(bare, "gc", "--quiet", "--prune=now")
    git(bare, "fetch", "--quiet", "origin")
    after = state(bare, before)
    assert coverage(after) == {}
    assert [d.key for d in deltas(before, after)] == [("FETCH_HEAD",)]  # no ref follows origin
    (bare / "FETCH_HEAD").unlink()
    assert deltas(before, state(bare, before)) == ()


def test_a_copy_that_is_out_of_date_made_anew_or_both_is_no_change(repo):
    git(repo, "update-server-info")
    git(repo, "fetch", "--quiet", "origin")
    before = state(repo)
    git(repo, "branch", "--quiet", "--force", "deep/er", "main~1")
    moved = state(repo, before)
    assert {d.type for d in deltas(before, moved)} == {"git.ref", "git.file"}
    git(repo, "update-server-info")
    again = state(repo, before)
    assert deltas(moved, again) == ()


def test_a_derived_file_that_was_never_there_is_no_change(repo):
    (repo / ".git/info/refs").unlink()
    (repo / ".git/info").rmdir()
    before = state(repo)
    git(repo, "update-server-info")
    assert deltas(before, state(repo, before)) == ()


def test_a_derived_file_that_is_removed_or_may_be_run_is_a_change(repo):
    before = state(repo)
    (repo / ".git/info/refs").chmod(0o755)
    found = deltas(before, state(repo, before))
    assert [(d.key, d.path) for d in found] == [(("info/refs",), "mode")]
    (repo / ".git/info/refs").unlink()
    removed = {(d.op, d.key) for d in deltas(before, state(repo, before))}
    assert (Op.DELETE, ("info/refs",)) in removed


def _another(root: Path, name: str) -> None:
    """Names the commit before the tip of `main`, where git would name the tip."""
    tip, older = git(root, "rev-parse", "main", "main~1").split()
    path = root / ".git" / name
    path.write_text(path.read_text().replace(tip, older))


def _info_refs(root: Path) -> None:
    git(root, "update-server-info")
    _another(root, "info/refs")


def _one_more_in_info_refs(root: Path) -> None:
    git(root, "update-server-info")
    with (root / ".git/info/refs").open("a") as file:
        file.write(f"{git(root, 'rev-parse', 'main')}\trefs/heads/stable\n")


def _false_peel_in_info_refs(root: Path) -> None:
    git(root, "update-server-info")
    path = root / ".git/info/refs"
    peel = f"{git(root, 'rev-parse', 'v2^{}')}\trefs/tags/v2^{{}}"
    path.write_text(path.read_text().replace(peel, git(root, "rev-parse", "main~1") + peel[40:]))


def _fetch_head(root: Path) -> None:
    git(root, "fetch", "--quiet", "origin")
    _another(root, "FETCH_HEAD")


def _fetch_head_of_a_stranger(root: Path) -> None:
    git(root, "fetch", "--quiet", "origin", "main")
    path = root / ".git/FETCH_HEAD"
    path.write_text(path.read_text().replace("origin", "stranger"))


def _fetch_head_without_words(root: Path) -> None:
    write(root, ".git/FETCH_HEAD", git(root, "rev-parse", "main") + "\n")


def _packed_refs(root: Path) -> None:
    git(root, "pack-refs", "--all")
    _another(root, "packed-refs")


def _commit_graph(root: Path) -> None:
    git(root, "commit-graph", "write", "--reachable")
    path = root / ".git/objects/info/commit-graph"
    tip, older = (bytes.fromhex(git(root, "rev-parse", f"main{n}^{{tree}}")) for n in ("", "~1"))
    path.chmod(0o644)
    forged = path.read_bytes()[:-20].replace(tip, older)
    path.write_bytes(forged + hashlib.sha1(forged).digest())


FORGERIES: dict[str, Callable[[Path], None]] = {
    "info/refs": _info_refs,
    "info/refs with one more": _one_more_in_info_refs,
    "info/refs with a false peel": _false_peel_in_info_refs,
    "FETCH_HEAD": _fetch_head,
    "FETCH_HEAD of a stranger": _fetch_head_of_a_stranger,
    "FETCH_HEAD without words": _fetch_head_without_words,
    "packed-refs": _packed_refs,
    "commit-graph": _commit_graph,
}


@pytest.mark.parametrize("name", FORGERIES)
@pytest.mark.parametrize("is_first", [True, False])
def test_a_file_that_says_otherwise_is_a_change(repo, name, is_first):
    if is_first:  # nothing of the kind stood there
        for path in (".git/info/refs", ".git/objects/info/commit-graph"):
            (repo / path).unlink()
    before = state(repo)
    FORGERIES[name](repo)
    after = state(repo, before)
    changed = {d.key[0] for d in deltas(before, after)}
    shows = {"commit-graph": "objects/info/commit-graph", "packed-refs": "refs/heads/main"}
    where = name.partition(" ")[0]
    assert shows.get(where, where) in changed


WORK = {
    "merge": ["merge --quiet --no-edit deep/er"],
    "merge of another line": ["merge --quiet --no-edit topic"],
    "merge that was given up": ["merge --quiet --no-commit --no-ff topic", "merge --abort"],
    "pull": ["reset --quiet --hard HEAD~1", "pull --quiet --ff-only origin main"],
    "a commit undone": ["commit --quiet --allow-empty -m oops", "reset --quiet --hard HEAD~1"],
    "a commit redone": ["commit --quiet --amend --reset-author -m better"],
    "rebase": [
        "checkout --quiet topic",
        "-c user.name=Ada rebase --quiet main",
        "checkout --quiet main",
    ],
    "stash and pop": ["write", "stash --quiet", "stash pop --quiet"],
    "stash, merge and pop": ["write", "stash --quiet", "merge -q topic", "stash pop --quiet"],
    "cherry-pick": ["-c user.name=Ada cherry-pick topic"],
    "revert": ["-c user.name=Ada revert --no-edit HEAD"],
    "checkout and back": ["checkout --quiet topic", "checkout --quiet main"],
    "bisect": ["bisect start HEAD HEAD~2", "bisect reset"],
    "another work tree": ["worktree add --quiet ../other topic", "worktree remove ../other"],
}


@pytest.mark.parametrize("name", WORK)
def test_what_ordinary_work_leaves_in_the_git_folder_is_no_change(repo, name):
    """The refs, commits and files are another matter: the contract says what may change there."""
    before = state(repo)
    for command in WORK[name]:
        if command == "write":
            write(repo, "README", "changed\n")
        else:
            git(repo, *command.split())
    after = state(repo, before)
    assert coverage(after) == {}
    assert [d.key for d in deltas(before, after) if d.type == "git.admin_file"] == []
    assert doubts(before, after) == set()


def _stranger(repo: Path) -> str:
    """A commit that neither a ref nor the reflog of HEAD leads to."""
    return git(repo, "commit-tree", "-m", "stranger", "HEAD^{tree}")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ORIG_HEAD", _stranger),
        ("ORIG_HEAD", lambda repo: git(repo, "rev-parse", "HEAD^{tree}")),
        ("ORIG_HEAD", lambda repo: git(repo, "rev-parse", "HEAD") + " x"),
        ("ORIG_HEAD", lambda _: "1" * 40),
        ("ORIG_HEAD", lambda _: "ref: refs/heads/main"),
        ("AUTO_MERGE", lambda repo: git(repo, "rev-parse", "HEAD")),
        ("AUTO_MERGE", lambda _: "1" * 40),
    ],
)
def test_a_note_that_no_command_left_is_a_change(repo, name, said):
    before = state(repo)
    write(repo, f".git/{name}", said(repo).rstrip("\n") + "\n")
    assert (name,) in {d.key for d in deltas(before, state(repo, before))}


def test_the_tree_of_a_merge_under_way_is_state(repo):
    git(repo, "checkout", "--quiet", "-B", "other", "main~1")
    write(repo, "later.txt", "otherwise\n")
    committed(repo, "otherwise")
    before = state(repo)
    git(repo, "merge", "--quiet", "main", check=False)
    assert {("AUTO_MERGE",), ("MERGE_HEAD",)} <= {
        d.key for d in deltas(before, state(repo, before))
    }


def _odd(repo: Path) -> set[str]:
    return set(rows(state(repo), "repository")["."]["oddities"])


def test_a_repository_in_which_git_works_for_nobody_else_says_whose_it_is(repo):
    as_root()
    assert _odd(repo) == set()
    os.chown(repo / ".git", 1234, -1)
    assert _odd(repo) == {"its folder belongs to 1234"}
    os.chown(repo, 1234, -1)
    assert _odd(repo) == {"its folder belongs to 1234", "its work tree belongs to 1234"}


@pytest.mark.parametrize(
    ("place", "mode"), [(".", 0o775), ("hooks", 0o2775), ("refs/heads", 0o770), ("config", 0o664)]
)
def test_what_a_group_was_let_write_is_listed(repo, place, mode):
    for each in (".", "hooks", "refs/heads"):
        (repo / ".git" / each).mkdir(exist_ok=True)
        (repo / ".git" / each).chmod(0o755)
    (repo / ".git" / "config").chmod(0o644)
    assert _odd(repo) == set()
    (repo / ".git" / place).chmod(mode)
    assert _odd(repo) == {f"{place} has mode {mode:04o}"}


@pytest.mark.parametrize(
    ("place", "mode"), [(".", 0o700), ("refs/heads", 0o750), ("config", 0o600)]
)
def test_what_other_accounts_may_not_read_is_listed_where_it_is_made_once(repo, place, mode):
    before = _odd(repo)
    (repo / ".git" / place).chmod(mode)
    assert _odd(repo) - before == {f"{place} has mode {mode:04o}"}
    (repo / ".git").chmod(0o700)
    (repo / ".git" / "objects").chmod(0o700)
    assert not any(each.startswith("objects") for each in _odd(repo)), "as the umask was"


@pytest.mark.parametrize("place", [".", "config", "HEAD", "refs/heads", "objects"])
def test_an_access_list_of_what_git_reads_is_listed(repo, place):
    attach(repo / ".git" / place, "system.posix_acl_access", LIST)
    assert f"{place} has system.posix_acl_access: {TOLD}" in _odd(repo)


def test_what_refuses_changes_is_listed(repo):
    as_root()
    place = repo / ".git" / "refs"
    if subprocess.run(["chattr", "+i", str(place)], check=False).returncode:
        pytest.skip("this file system has no such flag")
    try:
        assert _odd(repo) == {"refs has flags: immutable"}
    finally:
        subprocess.run(["chattr", "-i", str(place)], check=True)


def test_what_a_repository_hands_down_to_what_git_makes_in_it_is_no_oddity(repo):
    for each in (repo / ".git", *(p for p in (repo / ".git").rglob("*") if p.is_dir())):
        attach(each, "system.posix_acl_default", OF_FILES)
    for name in ("config", "HEAD", "index"):
        attach(repo / ".git" / name, "system.posix_acl_access", OF_FILES)
    before = state(repo)
    git(repo, "config", "alias.x", "status")
    git(repo, "pack-refs", "--all")
    assert {d.type for d in deltas(before, state(repo))} == {"git.config"}
