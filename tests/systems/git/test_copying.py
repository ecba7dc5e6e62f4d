"""Somebody's own repository in a sandbox: what is copied, and what stays behind."""

from __future__ import annotations

from pathlib import Path

import pygit2
import pytest

from statediff.errors import SandboxError
from statediff.packs import PackSource
from statediff.systems.git.sandbox import EmbeddedCheckout, EmbeddedRepository

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
