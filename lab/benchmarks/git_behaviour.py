"""Git's output and effects in a repository, to compare before and after: git as the oracle.

`behaviour` runs git in the repository itself, and changes it: hand it a copy that nobody needs, at
the same path each time. What depends on how objects are stored and on reflogs is not asked.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from lab.benchmarks.git_repository import Repository

READS = (
    "rev-parse HEAD main topic v1 v1^{} main^{tree} main:src",
    "for-each-ref --format=%(objectname)-%(objecttype)-%(refname)-%(*objectname)-%(symref)",
    "show-ref --head -d",
    "ls-remote .",
    "symbolic-ref HEAD",
    "branch --all --contains main~1",
    "log --all --topo-order --format=%H-%T-%P-%s-%an-%cd-%N",
    "log --all --date-order --format=%H",
    "log --all --format=%H -- README",
    "log --all --format=%H -- src/app.py",
    "log --all --format=%H -- src",
    "log --all --format=%H -- notes.txt",
    "rev-list --all --objects",
    "rev-list --all --objects --use-bitmap-index",
    "rev-list --count --left-right main...topic",
    "merge-base main topic",
    "describe --tags --always main",
    "diff --stat main topic",
    "cat-file -p main:README",
    "config --list --show-origin",
    "check-attr -a README src/app.py new.txt",
    "check-ignore -v draft.txt new.txt build/x src/new.py",
    "fsck --full --strict --no-dangling --no-progress",
    "count-objects",
    "stash list",
    "archive --format=tar main",
    "bundle create - --all",
    "clone --quiet --bare . ../oracle-clone",
)
OF_TREES = (
    "ls-files --stage -t -v --resolve-undo",
    "status --porcelain=v2 --branch --ignored",
    "diff",
    "diff --cached",
    "ls-files --others --exclude-standard",
    "write-tree",
    "commit --message=staged --allow-empty",
    "write: src/app.py",
    "add src/app.py",
    "commit --message=next",
    "write: new.txt",
    "add --all",
    "commit --message=all",
    "rev-parse HEAD^{tree}",
    "log -3 --stat --format=%T-%P-%an-%B",
    "checkout topic",
    "merge --no-edit main",
    "checkout -q main",
    "status --porcelain=v2",
)
LAST = (
    "branch another main",
    "tag --annotate --message=x another",
    "fetch --quiet ../oracle-clone +refs/heads/main:refs/heads/fetched",
    "pack-refs --all",
    "gc --quiet --prune=now",
    "packs:",
    "fsck --full --strict --no-progress",
    "rev-list --all --objects",
    "for-each-ref",
)


def behaviour(path: Path) -> dict[str, str]:
    """The output of git and how it ends, by command; then digests of the files it leaves."""
    repository = Repository(path)
    said: dict[str, str] = {}
    for number, command in enumerate((*READS, *(() if repository.is_bare else OF_TREES), *LAST)):
        said[f"{number} {command}"] = _asked(repository, command)
    for place in sorted(path.rglob("*")):
        name = str(place.relative_to(path))
        if place.is_file() and not name.startswith(".git/") and not repository.is_bare:
            said[f"file {name}"] = hashlib.sha256(place.read_bytes()).hexdigest()
    for place in ("config", "HEAD", "description"):
        if (repository.git / place).is_file():
            said[f"git file {place}"] = (repository.git / place).read_text(errors="replace")
    return said


def _asked(repository: Repository, command: str) -> str:
    if command.startswith("write: "):
        place = repository.path / command.removeprefix("write: ")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("written for the oracle\n")
        return ""
    if command == "packs:":
        return str(len(list((repository.git / "objects/pack").glob("*.pack"))))
    optional = "1" if command.startswith(("status", "diff")) else "0"
    done = repository.ask(*command.split(), GIT_OPTIONAL_LOCKS=optional)
    out = done.stdout
    if command.startswith("rev-list --all --objects --use"):
        out = b"\n".join(sorted({line[:40] for line in out.splitlines()}))
    if command.startswith(("bundle", "count-objects")):
        out = b""
    if len(out) > 4096:
        out = hashlib.sha256(out).hexdigest().encode()
    words = (out + b"\n--\n" + done.stderr).decode(errors="replace")
    return f"{done.returncode}\n{words.replace(os.fspath(repository.path), 'HERE')}"
