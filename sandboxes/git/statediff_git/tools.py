"""A git repository that is reached by its URL, with libgit2: no hook, filter or helper runs here.

Reading and committing happen in a mirror of the trial's own, fetched anew for every call; what a
call makes is pushed, and only if the ref is still where it was fetched: nothing is overwritten.
"""

from __future__ import annotations

import base64
import tempfile
import threading
from collections.abc import Mapping
from typing import Annotated, Any, Final

import pygit2
from pydantic import Field

from statediff.model.trace import ActionClass, Mark
from statediff.systems.base.tool import MAX_TEXT, Arguments, Done, Tool, ToolError, tool_name
from statediff_git.refs import NO_OBJECT, move

MAX_FILE_BYTES: Final = 40 * 1024
MAX_ENTRIES: Final = 1000
_KINDS: Final = {"branch": "refs/heads/", "tag": "refs/tags/"}
Name = Annotated[str, Field(min_length=1, max_length=200)]
Revision = Annotated[
    str, Field(min_length=1, max_length=200, description="A branch, a tag, or a commit's id.")
]


class Person(Arguments):
    """Who a commit or tag says made it."""

    name: Name
    email: Name


class NoArguments(Arguments):
    """Nothing."""


class Logged(Arguments):
    """Commits from a revision backwards."""

    revision: Revision = "main"
    most: int = Field(20, ge=1, le=200, description="Commits at most.")
    without: str | None = Field(
        default=None, max_length=200, description="Leave out what this revision contains."
    )


class Shown(Arguments):
    """One commit."""

    revision: Revision


class Listed(Arguments):
    """The files of a commit."""

    revision: Revision = "main"


class Read(Arguments):
    """One file of a commit."""

    path: Annotated[str, Field(min_length=1, max_length=1000)]
    revision: Revision = "main"


class Commit(Arguments):
    """One commit on top of a branch, pushed."""

    branch: Name
    message: str = Field(min_length=1, max_length=10_000)
    author: Person
    write: dict[str, str] = Field(
        default={}, max_length=100, description="Path → its new text, the whole of it."
    )
    delete: list[str] = Field(default=[], max_length=100, description="Paths.")


class NewRef(Arguments):
    """A new branch or tag."""

    name: Name
    at: Revision


class NewTag(NewRef):
    """A tag; with a message it is annotated."""

    message: str | None = Field(default=None, max_length=10_000)
    tagger: Person | None = Field(default=None, description="Needed with a message.")


class OldRef(Arguments):
    """A branch or tag that is there, by its name or its full name, `refs/heads/…`."""

    name: Name


def repository_tools(source: str, url: str) -> tuple[Tool[Any], ...]:
    """The tools of one repository."""
    repository = Repository(source, url)
    read, update, delete = (
        ActionClass.READ,
        ActionClass.CONDITIONAL_UPDATE,
        ActionClass.IRREVERSIBLE_DELETION,
    )
    listed: tuple[tuple[str, str, type[Arguments], Any, ActionClass], ...] = (
        (
            "refs",
            "Names the branches and tags, and their commits.",
            NoArguments,
            repository.refs,
            read,
        ),
        ("log", "Tells commits, newest first.", Logged, repository.log, read),
        ("show", "Tells one commit and which files it changed.", Shown, repository.show, read),
        ("list_files", "Names the files of a commit.", Listed, repository.files, read),
        ("read_file", "Reads a file of a commit.", Read, repository.read, read),
        (
            "commit",
            "Makes one commit on top of a branch and pushes it.",
            Commit,
            repository.commit,
            update,
        ),
        ("create_branch", "Makes a branch.", NewRef, repository.create_branch, update),
        ("create_tag", "Makes a tag.", NewTag, repository.create_tag, update),
        ("delete_branch", "Deletes a branch.", OldRef, repository.delete_branch, delete),
        ("delete_tag", "Deletes a tag.", OldRef, repository.delete_tag, delete),
    )
    return tuple(
        Tool(
            tool_name(source, verb),
            f"{text} Repository: {source}.",
            arguments,
            act,
            kind,
            is_harmless=kind is read,
            is_one_step=True,
        )
        for verb, text, arguments, act, kind in listed
    )


class Repository:
    """A repository by its URL; one call at a time."""

    def __init__(self, source: str, url: str) -> None:
        self._source = source
        self._url = url
        self._lock = threading.Lock()

    def refs(self, _asked: NoArguments) -> Any:
        with _Mirror(self._lock, self._url) as mirror:
            return {
                kind: {
                    name.removeprefix(prefix): str(mirror.references[name].peel(pygit2.Commit).id)
                    for name in sorted(mirror.references)
                    if name.startswith(prefix)
                }
                for kind, prefix in (("branches", "refs/heads/"), ("tags", "refs/tags/"))
            }

    def log(self, asked: Logged) -> Any:
        with _Mirror(self._lock, self._url) as mirror:
            walk = mirror.walk(_commit(mirror, asked.revision).id)
            if asked.without is not None:
                walk.hide(_commit(mirror, asked.without).id)
            found: list[dict[str, Any]] = []
            for commit in walk:
                if len(found) >= asked.most:
                    return {"commits": found, "more": True}
                found.append(_describe_commit(commit))
            return {"commits": found}

    def show(self, asked: Shown) -> Any:
        with _Mirror(self._lock, self._url) as mirror:
            commit = _commit(mirror, asked.revision)
            diff = (
                commit.tree.diff_to_tree(commit.parents[0].tree, swap=True)
                if commit.parents
                else commit.tree.diff_to_tree(swap=True)
            )
            changed = [
                {"path": delta.new_file.path, "status": delta.status_char()}
                for delta in diff.deltas
            ]
            more = {"more": True} if len(changed) > MAX_ENTRIES else {}
            return {**_describe_commit(commit), "changed": changed[:MAX_ENTRIES], **more}

    def files(self, asked: Listed) -> Any:
        with _Mirror(self._lock, self._url) as mirror:
            index = pygit2.Index()
            index.read_tree(_commit(mirror, asked.revision).tree)
            paths = [entry.path for entry in index]
            more = {"more": True} if len(paths) > MAX_ENTRIES else {}
            return {"files": paths[:MAX_ENTRIES], **more}

    def read(self, asked: Read) -> Any:
        with _Mirror(self._lock, self._url) as mirror:
            try:
                entry = _commit(mirror, asked.revision).tree[asked.path]
            except KeyError as error:
                raise ToolError(f"{asked.revision} has no file {asked.path!r}") from error
            if not isinstance(entry, pygit2.Blob):
                raise ToolError(f"{asked.path!r} is no file")
            if entry.size > MAX_FILE_BYTES:
                raise ToolError(f"{asked.path!r} has {entry.size} bytes; {MAX_FILE_BYTES} are read")
            try:
                return {"content": entry.data.decode("utf-8")}
            except UnicodeDecodeError:
                return {"base64": base64.b64encode(entry.data[: MAX_FILE_BYTES // 2]).decode()}

    def commit(self, asked: Commit) -> Done:
        if sum(map(len, asked.write.values())) > MAX_TEXT:
            raise ToolError(f"a commit writes at most {MAX_TEXT} characters")
        with _Mirror(self._lock, self._url) as mirror:
            parent = _branch(mirror, asked.branch)
            tree = _tree(mirror, parent, asked.write, asked.delete)
            who = _signature(asked.author)
            made = mirror.create_commit(None, who, who, asked.message, tree, [parent.id])
            name = f"refs/heads/{asked.branch}"
            mirror.references.create(name, made, force=True)
            _push(mirror, f"{name}:{name}")
        told = {"commit": str(made), "branch": asked.branch}
        return Done(told, self._move_marks(name, str(parent.id), str(made)))

    def create_branch(self, asked: NewRef) -> Done:
        with _Mirror(self._lock, self._url) as mirror:
            at = _commit(mirror, asked.at).id
            name = f"refs/heads/{asked.name.removeprefix('refs/heads/')}"
            _create(mirror, name, at)
        told = {"branch": asked.name, "commit": str(at)}
        return Done(told, self._move_marks(name, NO_OBJECT, str(at)))

    def create_tag(self, asked: NewTag) -> Done:
        with _Mirror(self._lock, self._url) as mirror:
            at = _commit(mirror, asked.at).id
            name = f"refs/tags/{asked.name}"
            if asked.message is None:
                _create(mirror, name, at)
            elif asked.tagger is None:
                raise ToolError("a tag with a message needs a tagger")
            else:
                kind = pygit2.enums.ObjectType.COMMIT
                who = _signature(asked.tagger)
                if name in mirror.references:
                    raise ToolError(f"{asked.name} exists already")
                mirror.create_tag(asked.name, at, kind, who, asked.message)
                _push(mirror, f"{name}:{name}")
            made = str(mirror.references[name].target)
        return Done({"tag": asked.name, "commit": str(at)}, self._move_marks(name, NO_OBJECT, made))

    def delete_branch(self, asked: OldRef) -> Done:
        return self._delete("branch", asked.name)

    def delete_tag(self, asked: OldRef) -> Done:
        return self._delete("tag", asked.name)

    def _delete(self, kind: str, name: str) -> Done:
        with _Mirror(self._lock, self._url) as mirror:
            full = f"{_KINDS[kind]}{name.removeprefix(_KINDS[kind])}"
            if full not in mirror.references:
                raise ToolError(f"there is no {kind} {name!r}")
            gone = str(mirror.references[full].target)
            _push(mirror, f":{full}")
        return Done({"deleted": name}, self._move_marks(full, gone, NO_OBJECT))

    def _move_marks(self, name: str, old: str, new: str) -> tuple[Mark, ...]:
        return (Mark(self._source, move(name.encode(), old, new)),)


class _Mirror:
    """A fetched mirror for one call, in a folder that goes with it."""

    def __init__(self, lock: threading.Lock, url: str) -> None:
        self._lock = lock
        self._url = url

    def __enter__(self) -> pygit2.Repository:
        self._lock.acquire()
        self._folder = tempfile.TemporaryDirectory(prefix="statediff-git-")
        try:
            mirror = pygit2.init_repository(self._folder.name, bare=True)
            mirror.remotes.create("origin", self._url, "+refs/*:refs/*")
            mirror.remotes["origin"].fetch()
        except (pygit2.GitError, KeyError, ValueError, OSError) as error:
            self._end()
            raise ToolError(f"the repository cannot be fetched: {error}") from error
        except BaseException:
            self._end()
            raise
        return mirror

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self._end()
        if isinstance(error, (pygit2.GitError, KeyError, ValueError)):
            raise ToolError(f"git refuses it: {error}") from error

    def _end(self) -> None:
        try:
            self._folder.cleanup()
        finally:
            self._lock.release()


class _Replies(pygit2.RemoteCallbacks):
    """The server's reply to each ref of a push."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: list[str] = []

    def push_update_reference(self, refname: str, message: str | None) -> None:
        if message is not None:
            self.refused.append(f"{refname}: {message}")


def _push(mirror: pygit2.Repository, refspec: str) -> None:
    replies = _Replies()
    try:
        mirror.remotes["origin"].push([refspec], callbacks=replies)
    except pygit2.GitError as error:
        raise ToolError(f"the push failed: {error}") from error
    if replies.refused:
        raise ToolError(f"the repository refuses it: {'; '.join(replies.refused)}")


def _create(mirror: pygit2.Repository, name: str, at: pygit2.Oid) -> None:
    if name in mirror.references:
        raise ToolError(f"{name} exists already")
    mirror.references.create(name, at)
    _push(mirror, f"{name}:{name}")


def _commit(mirror: pygit2.Repository, revision: str) -> pygit2.Commit:
    """The commit; no other syntax of git's for revisions is taken."""
    for prefix in ("refs/heads/", "refs/tags/"):
        if f"{prefix}{revision}" in mirror.references:
            return mirror.references[f"{prefix}{revision}"].peel(pygit2.Commit)
    if 7 <= len(revision) <= 40 and all(c in "0123456789abcdef" for c in revision):
        found: object = mirror.get(revision)
        if isinstance(found, pygit2.Commit):
            return found
    raise ToolError(f"there is no branch, tag or commit {revision[:100]!r}")


def _branch(mirror: pygit2.Repository, branch: str) -> pygit2.Commit:
    if f"refs/heads/{branch}" not in mirror.references:
        raise ToolError(f"there is no branch {branch[:100]!r}")
    return mirror.references[f"refs/heads/{branch}"].peel(pygit2.Commit)


def _tree(
    mirror: pygit2.Repository,
    parent: pygit2.Commit,
    write: Mapping[str, str],
    delete: list[str],
) -> pygit2.Oid:
    index = pygit2.Index()
    index.read_tree(parent.tree)
    for path in delete:
        if path not in index:
            raise ToolError(f"there is no file {path!r} to delete")
        index.remove(path)
    for path, text in write.items():
        if "" in path.split("/"):  # libgit2 would leave out what is empty and write another path
            raise ToolError(f"{path[:100]!r} is no path of a file in a repository")
        mode = index[path].mode if path in index else pygit2.enums.FileMode.BLOB
        index.add(pygit2.IndexEntry(path, mirror.create_blob(text.encode()), mode))
    return index.write_tree(mirror)


def _signature(person: Person) -> pygit2.Signature:
    try:
        return pygit2.Signature(person.name, person.email)
    except (ValueError, pygit2.GitError) as error:
        raise ToolError(f"{person.name!r} <{person.email!r}> is nobody git takes") from error


def _describe_commit(commit: pygit2.Commit) -> dict[str, Any]:
    who = commit.author
    return {
        "id": str(commit.id),
        "parents": [str(each) for each in commit.parent_ids],
        "author": f"{who.name} <{who.email}>",
        "message": commit.message[:2000],
    }
