"""Somebody's own repository in a sandbox: what is copied, and what stays behind."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pygit2
import pytest
from statediff_git.sandbox import EmbeddedCheckout, EmbeddedRepository

from statediff.errors import ContractError, SandboxError
from statediff.packs import PackSource
from statediff.workspace.contracts import States, check
from statediff.workspace.trials import open_sandbox

WHO = pygit2.Signature("Ada", "ada@example.org", 0, 0)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    place = tmp_path / "own"
    repository = pygit2.init_repository(str(place), initial_head="dev")
    (place / ".gitignore").write_text("secret\n")
    (place / "a.txt").write_text("one")
    (place / "run").mkdir()
    (place / "run" / "x.sh").write_text("#!/bin/sh\n")
    (place / "run" / "x.sh").chmod(0o755)
    (place / "link").symlink_to("a.txt")
    repository.index.add_all()
    repository.index.write()
    tree = repository.index.write_tree()
    tip = repository.create_commit("refs/heads/dev", WHO, WHO, "One", tree, [])
    repository.create_tag("v1", tip, pygit2.enums.ObjectType.COMMIT, WHO, "First")
    repository.remotes.create("origin", "https://ada:secret@example.org/own.git")
    (place / ".git" / "hooks" / "post-commit").write_text("#!/bin/sh\n")
    (place / "a.txt").write_text("uncommitted")
    (place / "new.txt").write_text("untracked")
    (place / "secret").write_text("ignored")
    (place / "runs" / "run-1").mkdir(parents=True)
    (place / "runs" / "run-1" / "run.json").write_text("{}")
    return place


def test_a_checkout_is_copied_with_its_uncommitted_work(own: Path, tmp_path: Path) -> None:
    pack = PackSource("repo", "git-checkout", files={"repository": own})
    system = EmbeddedCheckout(pack, (), tmp_path / "system")
    system.reset()
    proof, drift = system.verify()
    assert (proof.found, drift) == (proof.expected, ())
    copied = pygit2.Repository(str(system.place))
    assert copied.head.name == "refs/heads/dev"
    assert sorted(copied.references) == ["refs/heads/dev", "refs/tags/v1"]
    changed = pygit2.enums.FileStatus.WT_MODIFIED, pygit2.enums.FileStatus.WT_NEW
    assert copied.status() == {"a.txt": changed[0], "new.txt": changed[1]}
    assert (system.place / "link").readlink() == Path("a.txt")
    assert (system.place / "run" / "x.sh").stat().st_mode & 0o100
    assert not list(copied.remotes)
    assert not (system.place / ".git" / "hooks" / "post-commit").exists()
    assert not (system.place / "secret").exists()
    assert not (system.place / "runs").exists()


def test_a_bare_copy_has_its_branches_and_head(own: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare.git"
    pygit2.clone_repository(str(own), str(bare), bare=True)
    pack = PackSource("repo", "git", files={"repository": bare})
    system = EmbeddedRepository(pack, (), tmp_path / "system")
    system.reset()
    assert not system.verify()[1]
    copied = pygit2.Repository(str(system.place))
    assert (copied.is_bare, copied.head.name) == (True, "refs/heads/dev")


def test_what_is_no_repository_is_named(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    pack = PackSource("repo", "git", files={"repository": tmp_path / "plain"})
    with pytest.raises(SandboxError, match=r"repo: .*plain cannot be copied"):
        EmbeddedRepository(pack, (), tmp_path / "system")


@pytest.fixture
def later(own: Path) -> Path:
    """The same with work after its base, one of each kind, and a file that is only staged."""
    repository = pygit2.Repository(str(own))
    base = repository.head.peel(pygit2.Commit)
    for name in ("refs/heads/fix", "refs/remotes/origin/dev", "refs/stash", "refs/notes/x", ""):
        blob = repository.create_blob(f"SECRETFIX {name}".encode())
        tree = repository.TreeBuilder()
        tree.insert("fix.py", blob, pygit2.enums.FileMode.BLOB)
        commit = repository.create_commit(None, WHO, WHO, name, tree.write(), [base.id])
        if name:
            repository.references.create(name, commit)
    fixed = repository.references["refs/heads/fix"].target
    repository.create_tag("v2", fixed, pygit2.enums.ObjectType.COMMIT, WHO, "Second")
    repository.references.create("refs/heads/same", base.id)
    repository.pack()  # objects lie in a pack, as after a clone
    (own / "staged.txt").write_text("staged")
    repository.index.add("staged.txt")
    repository.index.write()
    return own


def _copy(own: Path, tmp_path: Path, **more: object) -> tuple[EmbeddedCheckout, set[bytes]]:
    pack = PackSource("repo", "git-checkout", files={"repository": own}, **more)  # type: ignore[arg-type]
    system = EmbeddedCheckout(pack, (), tmp_path / "system")
    system.reset()
    copied = pygit2.Repository(str(system.place))
    objects = (copied[oid] for oid in copied)
    return system, {each.data for each in objects if isinstance(each, pygit2.Blob)}


def test_later_work_stays_behind_and_what_leads_to_the_base_is_copied(
    later: Path, tmp_path: Path
) -> None:
    system, blobs = _copy(later, tmp_path)
    copied = pygit2.Repository(str(system.place))
    assert sorted(copied.references) == ["refs/heads/dev", "refs/heads/same", "refs/tags/v1"]
    assert not [each for each in blobs if each.startswith(b"SECRETFIX")]
    assert b"staged" in blobs, "what is staged alone is of the base"
    assert {path.name for path in system.administration.iterdir()}.isdisjoint(
        {"logs", "packed-refs", "FETCH_HEAD", "ORIG_HEAD"}
    )
    assert system.remarks == ()


def test_what_is_kept_by_name_is_copied_and_said(later: Path, tmp_path: Path) -> None:
    system, blobs = _copy(later, tmp_path, keep=("fix",))
    copied = pygit2.Repository(str(system.place))
    assert "refs/heads/fix" in copied.references
    assert "refs/tags/v2" in copied.references, "it leads to what is kept"
    assert [each for each in blobs if each.startswith(b"SECRETFIX")] == [
        b"SECRETFIX refs/heads/fix"
    ]
    assert system.remarks == (
        "later work can be read: refs/heads/fix leads to 1 commits that HEAD lacks",
    )


def test_all_is_kept_where_the_file_says_so(later: Path, tmp_path: Path) -> None:
    system, blobs = _copy(later, tmp_path, keep="all")
    assert len([each for each in blobs if each.startswith(b"SECRETFIX")]) == 4
    assert "refs/stash" in system.remarks[0]


def test_a_name_that_is_no_reference_is_refused(later: Path, tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="`keep` names 'relaese', which is no branch"):
        _copy(later, tmp_path, keep=("relaese",))


def test_a_detached_head_is_the_base(later: Path, tmp_path: Path) -> None:
    repository = pygit2.Repository(str(later))
    repository.set_head(repository.head.target)
    system, blobs = _copy(later, tmp_path)
    assert pygit2.Repository(str(system.place)).head_is_detached
    assert not [each for each in blobs if each.startswith(b"SECRETFIX")]


def test_a_head_without_a_commit_names_what_to_keep(later: Path, tmp_path: Path) -> None:
    (later / ".git" / "HEAD").write_text("ref: refs/heads/none\n")
    with pytest.raises(SandboxError, match="HEAD is on a branch without a commit: name under"):
        _copy(later, tmp_path)


def _lint(folder: Path, source: str) -> list[tuple[str, str]]:
    (folder / "s.sandbox.yaml").write_text(f"sources:\n  repo: {source}\n")
    contract = folder / "c.yaml"
    contract.write_text(
        "contract: t/case\nversion: 1.0.0\nowner: desk\nintent: Change nothing at all.\n"
        "sandbox: ./s.sandbox.yaml\nnoop: true\n"
    )
    found = check(contract, States(None, [])).problems
    return [(each.code, each.message) for each in found if each.code != "end-unasked"]


@pytest.mark.usefixtures("later")
def test_lint_and_verify_name_the_later_work(tmp_path: Path) -> None:
    told = "later work can be read: refs/heads/fix leads to 1 commits that HEAD lacks"
    kept = _lint(tmp_path, "{kind: git-checkout, repository: ./own, keep: [fix]}")
    assert kept == [("later-work", f"in repo, {told}")]
    with open_sandbox(str(tmp_path / "s.sandbox.yaml")) as running:
        running.reset()
        receipt = running.verify(lambda: datetime.now(UTC))
    assert receipt.ok
    assert receipt.as_json()["remarks"] == [["repo", told]]
    assert _lint(tmp_path, "{kind: git-checkout, repository: ./own}") == []


def test_keep_goes_with_a_repository(tmp_path: Path) -> None:
    (tmp_path / "s.sandbox.yaml").write_text("sources:\n  m: {kind: smtp, keep: all}\n")
    with pytest.raises(ContractError, match="copies no repository"):  # noqa: SIM117
        with open_sandbox(str(tmp_path / "s.sandbox.yaml")):
            pass
