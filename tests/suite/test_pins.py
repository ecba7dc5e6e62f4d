"""Pins of code and of repositories: by git, which runs nothing of what a repository names."""

import os
import subprocess
from pathlib import Path

import pytest

from statediff.errors import UsageError
from statediff.suite.pins import _digest_at, pin_code


def git(folder: Path, *words: str) -> str:
    known = (
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b.example",
        "-c",
        "protocol.file.allow=always",
    )
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.run(
        ["git", "-C", str(folder), *known, *words],
        check=True, capture_output=True, text=True, env=environment,
    ).stdout.strip()  # fmt: skip


def repository(folder: Path) -> Path:
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "code.py").write_text("one = 1\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "one")
    return folder


def test_code_is_pinned_by_commit_patch_and_what_is_new(tmp_path: Path) -> None:
    made = repository(tmp_path / "r")
    (made / ".git/info/exclude").write_text("ignored\n")
    for name in ("new é.py", "ignored", "folder/x"):
        (made / name).parent.mkdir(exist_ok=True)
        (made / name).write_text("")
    clean, patch = pin_code(made / "folder")
    found = clean["repository"]
    assert (found["commit"], found["patch"], patch) == (git(made, "rev-parse", "HEAD"), None, b"")
    assert set(found["untracked"]) == {"new é.py", "folder/"}
    assert found["untracked"]["folder/"] is None
    (made / "code.py").write_text("one = 2\n")
    changed, patch = pin_code(made)
    assert changed["repository"]["patch"]
    assert b"-one = 1\n+one = 2\n" in patch


def test_without_a_repository_or_a_commit_there_is_none(tmp_path: Path) -> None:
    assert pin_code(tmp_path)[0]["repository"] is None
    git(tmp_path, "init", "-q")
    empty = {"commit": None, "patch": None, "untracked": {}}
    assert pin_code(tmp_path)[0]["repository"] == empty
    assert pin_code(tmp_path / ".git")[0]["repository"] == empty


def test_neither_the_machine_nor_the_repository_says_how_git_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, other = repository(tmp_path / "r"), repository(tmp_path / "other")
    (made / "code.py").write_text("one = 3\n")
    before = pin_code(made)
    (tmp_path / ".gitconfig").write_text("[diff]\nnoprefix = true\n[core]\nexcludesFile = /x\n")
    for name, value in {
        "HOME": str(tmp_path), "GIT_DIR": str(other / ".git"), "GIT_EXTERNAL_DIFF": "/bin/false",
        "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "color.ui", "GIT_CONFIG_VALUE_0": "always",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    assert pin_code(made) == before


def test_nothing_that_a_repository_names_is_run(tmp_path: Path) -> None:
    inner = repository(tmp_path / "inner")
    made = repository(tmp_path / "r")
    git(made, "submodule", "add", "-q", str(inner), "inner")
    (made / ".gitattributes").write_text("*.py filter=evil diff=evil\n*.txt filter=long\n")
    (made / "a.txt").write_text("a\n")
    git(made, "add", ".")
    git(made, "commit", "-qm", "two")
    ran, script = tmp_path / "ran", tmp_path / "evil"
    script.write_text(f'#!/bin/sh\necho "$0 $*" >> {ran}\ncat\n')
    script.chmod(0o755)
    hooks = made / ".git" / "own-hooks"
    hooks.mkdir()
    for name in ("post-index-change", "fsmonitor-watchman"):
        (hooks / name).symlink_to(script)
    for folder in (made, made / "inner"):
        for name in (
            "core.fsmonitor", "filter.evil.clean", "filter.evil.smudge", "filter.long.process",
            "diff.evil.command", "diff.evil.textconv", "diff.external", "core.pager",
        ):  # fmt: skip
            git(folder, "config", name, str(script))
        git(folder, "config", "filter.evil.required", "true")
        git(folder, "config", "core.hooksPath", str(hooks))
        git(folder, "config", "diff.submodule", "diff")
    for name in ("code.py", "a.txt", "inner/code.py"):
        (made / name).write_text("changed\n")
    facts, patch = pin_code(made)
    assert b"+changed" in patch
    assert facts["repository"]["commit"]
    assert len(_digest_at(made, is_repository=True)) == 64
    assert not ran.exists(), ran.read_text()
    (made / "a.txt").touch()
    git(made, "status")
    assert ran.exists(), "the repository names nothing that git would run"


def test_the_digest_of_a_repository_is_of_its_references_and_changes(tmp_path: Path) -> None:
    made = repository(tmp_path / "r")
    bare = tmp_path / "bare.git"
    git(tmp_path, "clone", "-q", "--bare", str(made), str(bare))
    known = [_digest_at(made, is_repository=True)]
    assert known == [_digest_at(bare, is_repository=True)]
    for words in ("branch topic", "checkout -q topic", "checkout -q --detach"):
        git(made, *words.split())
        known.append(_digest_at(made, is_repository=True))
    (made / "code.py").write_text("")
    known.append(_digest_at(made, is_repository=True))
    assert len(set(known)) == 5
    git(bare, "symbolic-ref", "refs/heads/alias", "refs/heads/main")
    assert _digest_at(bare, is_repository=True) not in known
    (made / "below").mkdir()
    assert _digest_at(made / "below", is_repository=True).startswith("none: fatal: not a git")


def test_where_there_is_no_git_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = repository(tmp_path / "r")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "install git" in pin_code(made)[0]["repository"]["unknown"]
    with pytest.raises(UsageError, match="install git"):
        _digest_at(made, is_repository=True)
