"""A folder: what is in it is listed, read, written, moved and removed, and nothing beside it.

A path is walked one folder at a time and no link is followed, so that whatever lies in the folder
leads nowhere else.
"""

from __future__ import annotations

import base64
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field

from statediff.model.trace import ActionClass, Mark
from statediff.systems.base.tool import MAX_TEXT, Arguments, Done, Tool, ToolError, tool_name

MAX_READ_BYTES: Final = 40 * 1024
MAX_LISTED: Final = 1000
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
RelativePath = Annotated[
    str, Field(min_length=1, max_length=1000, description="Relative to the folder, with slashes.")
]


class Listed(Arguments):
    """A folder in it, or the whole."""

    path: str = Field(default="", max_length=1000, description="A folder in it; empty: the whole.")


class Named(Arguments):
    """One file."""

    path: RelativePath


class Written(Arguments):
    """One file with what it is to hold."""

    path: RelativePath
    content: str = Field(max_length=MAX_TEXT, description="UTF-8 text; takes the place of all.")


class Moved(Arguments):
    """One file or folder with another name."""

    path: RelativePath
    to: RelativePath


def file_tools(
    source: str, root: Path, hidden: frozenset[str] = frozenset()
) -> tuple[Tool[Any], ...]:
    """The five tools of a folder; `hidden` are names at its top that no path may go through."""
    folder = Folder(root, hidden)
    mark = (Mark(source),)

    def listed(asked: Listed) -> Any:
        return folder.entries(asked.path)

    def read(asked: Named) -> Any:
        return folder.read(asked.path)

    def write(asked: Written) -> Done:
        raw = asked.content.encode("utf-8", errors="strict")
        folder.write(asked.path, raw)
        return Done({"written": asked.path, "bytes": len(raw)}, mark)

    def move(asked: Moved) -> Done:
        folder.move(asked.path, asked.to)
        return Done({"moved": asked.path, "to": asked.to}, mark)

    def delete(asked: Named) -> Done:
        folder.delete(asked.path)
        return Done({"deleted": asked.path}, mark)

    def tool(
        verb: str,
        text: str,
        arguments: type[Arguments],
        act: Callable[[Any], Any],
        kind: ActionClass,
    ) -> Tool[Any]:
        is_read = kind is ActionClass.READ
        name = tool_name(source, verb)
        return Tool(name, text, arguments, act, kind, is_harmless=is_read, is_one_step=True)

    where = f"the folder {source}"
    overwrite = f"Writes a file of {where}; folders on the way are made, and what it held is lost."
    rename = f"Gives a file or folder of {where} another name, which is not taken yet."
    remove = f"Removes a file, or an empty folder, of {where}."
    update = ActionClass.CONDITIONAL_UPDATE
    return (
        tool("list", f"Names what is in {where}.", Listed, listed, ActionClass.READ),
        tool("read", f"Reads a file of {where}.", Named, read, ActionClass.READ),
        tool("write", overwrite, Written, write, update),
        tool("move", rename, Moved, move, update),
        tool("delete", remove, Named, delete, ActionClass.IRREVERSIBLE_DELETION),
    )


class Folder:
    """A folder that is entered without following links."""

    def __init__(self, root: Path, hidden: frozenset[str] = frozenset()) -> None:
        self._root = root
        self._hidden = hidden

    def entries(self, path: str) -> Any:
        """The entries of the folder, sorted."""
        with (
            _refuse_as_tool_error(path),
            self._inside(self._parts(path, may_be_empty=True)) as (folder, _),
        ):
            found = []
            for name in sorted(os.listdir(folder)):  # noqa: PTH208 - a Path cannot be an open folder
                if not path and name in self._hidden:
                    continue
                about = os.stat(name, dir_fd=folder, follow_symlinks=False)
                found.append(_entry(name, about))
        told: dict[str, Any] = {"entries": found[:MAX_LISTED]}
        return {**told, "more": True} if len(found) > MAX_LISTED else told

    def read(self, path: str) -> Any:
        """The file's text, or its bytes as base64 where it is no UTF-8; its beginning if long."""
        with _refuse_as_tool_error(path), self._parent(path) as (folder, name):
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with os.fdopen(os.open(name, flags, dir_fd=folder), "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise ToolError(f"{path} is no regular file")
                raw = file.read(MAX_READ_BYTES + 1)
        told: dict[str, Any] = {"truncated": True} if len(raw) > MAX_READ_BYTES else {}
        raw = raw[:MAX_READ_BYTES]
        try:
            return {**told, "content": raw.decode("utf-8")}
        except UnicodeDecodeError:
            return {**told, "base64": base64.b64encode(raw[: MAX_READ_BYTES // 2]).decode()}

    def write(self, path: str, raw: bytes) -> None:
        """The file holds exactly that."""
        with _refuse_as_tool_error(path), self._parent(path, make=True) as (folder, name):
            flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with os.fdopen(os.open(name, flags, 0o644, dir_fd=folder), "wb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise ToolError(f"{path} is no regular file")
                file.truncate(0)
                file.write(raw)

    def move(self, path: str, to: str) -> None:
        """It is where it was not before, and no longer where it was."""
        with (
            _refuse_as_tool_error(path),
            self._parent(path) as (folder, name),
            self._parent(to, make=True) as (other, new),
        ):
            with suppress(FileNotFoundError):
                os.stat(new, dir_fd=other, follow_symlinks=False)
                raise ToolError(f"{to} exists already")
            os.rename(name, new, src_dir_fd=folder, dst_dir_fd=other)

    def delete(self, path: str) -> None:
        """It is gone."""
        with _refuse_as_tool_error(path), self._parent(path) as (folder, name):
            about = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISDIR(about.st_mode):
                os.rmdir(name, dir_fd=folder)
            else:
                os.unlink(name, dir_fd=folder)

    def _parts(self, path: str, *, may_be_empty: bool = False) -> list[str]:
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if (
            path.startswith("/")
            or ".." in parts
            or "\0" in path
            or (parts[:1] and parts[0] in self._hidden)
        ):
            raise ToolError(f"{path!r} does not lie in the folder")
        if not parts and not may_be_empty:
            raise ToolError("expected the path of something in the folder")
        return parts

    @contextmanager
    def _parent(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        parts = self._parts(path)
        with self._inside(parts[:-1], make=make) as (folder, _):
            yield folder, parts[-1]

    @contextmanager
    def _inside(self, parts: list[str], *, make: bool = False) -> Iterator[tuple[int, str]]:
        """The opened folder, and its name."""
        current = os.open(self._root, _FOLDER)
        try:
            for part in parts:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(part, 0o755, dir_fd=current)
                inner = os.open(part, _FOLDER, dir_fd=current)
                os.close(current)
                current = inner
            yield current, parts[-1] if parts else ""
        finally:
            os.close(current)


@contextmanager
def _refuse_as_tool_error(path: str) -> Iterator[None]:
    """Turn refusals of the system into errors of the call."""
    try:
        yield
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ToolError(f"{path or 'the folder'}: {why}") from error


def _entry(name: str, about: os.stat_result) -> dict[str, Any]:
    shown = os.fsencode(name).decode("utf-8", errors="backslashreplace")
    if stat.S_ISDIR(about.st_mode):
        return {"name": shown, "kind": "folder"}
    if stat.S_ISREG(about.st_mode):
        return {"name": shown, "kind": "file", "bytes": about.st_size}
    return {"name": shown, "kind": "link" if stat.S_ISLNK(about.st_mode) else "other"}
