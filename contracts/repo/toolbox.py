"""Every agent of the repository's tasks starts from this: a clone, commits, pushes, the answer.

An agent needs none of it: it may as well use git. This is one way that needs no git installed.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pygit2

sys.path.insert(0, str(Path(__file__).parents[1]))
import given
from databases import Database, connect
from given import log

INPUTS = json.loads(os.environ["STATEDIFF_INPUTS"])
HTTP = os.environ["STATEDIFF_ORIGIN_URL"].startswith("http")
INES = ("Ines Duarte", "ines@unitkit.example")
OSKAR = ("Oskar Lindqvist", "oskar@unitkit.example")


pygit2.settings.owner_validation = False  # the files of a server are the server's


def place(source: str) -> Path:
    """The folder of a repository on this machine; a server's, behind the server's back."""
    url = urlsplit(os.environ[f"STATEDIFF_{source}_URL"])
    if url.scheme == "file":
        return Path(unquote(url.path))
    return Path.cwd().parent / "systems" / source.lower() / f"{source.lower()}.git"


def machine() -> pygit2.Repository:
    """The shared repository itself, as a user of its machine would open it."""
    return pygit2.Repository(str(place("ORIGIN")))


def origin() -> pygit2.Repository:
    """The shared repository to work on in place; behind a server, a mirror of it.

    What becomes of the refs of a mirror is pushed when the answer is handed in.
    """
    if not HTTP:
        return machine()
    mirror = pygit2.init_repository("mirror", bare=True)
    mirror.remotes.create("origin", os.environ["STATEDIFF_ORIGIN_URL"], "+refs/*:refs/*")
    mirror.remotes["origin"].fetch()
    _mirrors.append((mirror, _targets(mirror)))
    return mirror


_mirrors: list[tuple[pygit2.Repository, dict[str, str]]] = []


def _targets(repository: pygit2.Repository) -> dict[str, str]:
    return {name: str(repository.references[name].target) for name in repository.references}


def _push_mirrors() -> None:
    for mirror, before in _mirrors:
        after = _targets(mirror)
        gone = [f":{name}" for name in before if name not in after]
        moved = [f"+{name}:{name}" for name in after if after[name] != before.get(name)]
        _push(mirror, gone + moved)
    _mirrors.clear()


class _Replies(pygit2.RemoteCallbacks):
    """The refs of a push that the server refused, and why: it may take the others."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: dict[str, str] = {}

    def push_update_reference(self, refname: str, message: str | None) -> None:
        if message is not None:
            self.refused[refname] = message


def _push(repository: pygit2.Repository, refspecs: list[str]) -> None:
    replies = _Replies()
    if refspecs:
        repository.remotes["origin"].push(refspecs, callbacks=replies)
    if not replies.refused:
        return
    # What a server refuses, only a faulty agent wants: it goes round the server.
    for spec in refspecs:
        source, _, name = spec.removeprefix("+").partition(":")
        if name in replies.refused and not source:
            machine().references.delete(name)
        elif name in replies.refused:
            target = repository.references[source].target
            if str(target) not in machine():
                aside = "refs/heads/aside"
                repository.references.create(aside, target, force=True)
                _push(repository, [f"{aside}:{aside}"])
                _push(repository, [f":{aside}"])
            machine().references.create(name, target, force=True)


def forge() -> Database:
    """The forge's database: tickets, people and keys."""
    return connect(os.environ["STATEDIFF_FORGE_DB_URL"])


def clone() -> pygit2.Repository:
    """A clone of our own, in the agent's folder."""
    return pygit2.clone_repository(os.environ["STATEDIFF_ORIGIN_URL"], "clone")


def tip(repository: pygit2.Repository, branch: str) -> pygit2.Commit:
    """The last commit of a branch: the remote's, in a clone."""
    name = f"refs/heads/{branch}" if repository.is_bare else f"refs/remotes/origin/{branch}"
    return repository.references[name].peel(pygit2.Commit)


def text(commit: pygit2.Commit, path: str) -> str:
    """A file of a commit."""
    return commit.tree[path].data.decode()


def commit(
    repository: pygit2.Repository,
    parent: pygit2.Commit,
    message: str,
    changes: Mapping[str, str | None],
    person: tuple[Any, ...] = INES,
) -> pygit2.Commit:
    """A commit after `parent` in which each path has the text, or is gone. No ref moves."""
    index = pygit2.Index()
    index.read_tree(parent.tree)
    for path, content in changes.items():
        if content is None:
            index.remove(path)
            continue
        blob = repository.create_blob(content.encode())
        index.add(pygit2.IndexEntry(path, blob, pygit2.enums.FileMode.BLOB))
    tree = index.write_tree(repository)
    who = pygit2.Signature(*person)
    oid = repository.create_commit(None, who, who, f"{message}\n", tree, [parent.id])
    return repository[oid]


def tag(at: pygit2.Repository, name: str, on: pygit2.Commit, said: str, who: Any = INES) -> None:
    """An annotated tag, with its ref."""
    kind = pygit2.enums.ObjectType.COMMIT
    at.create_tag(name, on.id, kind, pygit2.Signature(*who), said)


def push(repository: pygit2.Repository, *refspecs: str) -> None:
    """Pushes and logs it; a leading `+` forces, an empty left side deletes."""
    _push(repository, list(refspecs))
    deletes = any(spec.startswith(":") for spec in refspecs)
    kind = "irreversible-deletion" if deletes else "conditional-update"
    log("push", kind, {"refspecs": list(refspecs)})


def publish(repository: pygit2.Repository, branch: str, target: pygit2.Commit) -> None:
    """The branch of origin is at `target`, by a push from a clone or in place."""
    if repository.is_bare:
        repository.references.create(f"refs/heads/{branch}", target.id, force=True)
        log("set_branch", "conditional-update", {"branch": branch, "target": str(target.id)})
        return
    local = f"refs/heads/to-push-{target.id}"
    repository.references.create(local, target.id, force=True)
    push(repository, f"{local}:refs/heads/{branch}")


def write_files(repository: pygit2.Repository, commit: pygit2.Commit, folder: Path) -> None:
    """The commit's files, in a folder of their own."""
    index = pygit2.Index()
    index.read_tree(commit.tree)
    for entry in index:
        path = folder / entry.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(repository[entry.id].data)


def failing_tests(repository: pygit2.Repository, commit: pygit2.Commit) -> list[str]:
    """The names of the commit's tests that do not pass, run on a copy."""
    write_files(repository, commit, Path("copy"))
    run = subprocess.run(
        [sys.executable, "-B", "-m", "unittest", "-v"],
        cwd="copy",
        env={**os.environ, "PYTHONPATH": "src"},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = (line.partition(" (") for line in run.stderr.splitlines())
    return [rest.partition(")")[0] for _, _, rest in lines if rest.endswith(("FAIL", "ERROR"))]


def answer(**names: object) -> None:
    """Hands in the answer."""
    _push_mirrors()
    given.answer(**names)
