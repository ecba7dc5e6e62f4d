"""A copy of a folder or a checkout, with the entries that a plan asks for.

Nothing of the copy is obeyed: no link is followed, and git runs without its hooks and monitors.
Whatever does not come out as planned is seen when the copy is read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from statediff.errors import UsageError
from statediff.model.batches import Row
from statediff_gate.course import key_of
from statediff_gate.participant import Refused
from statediff_gate.statements import RowEdit, columns_of, named

_FOLDERS: Final = {
    "file": "", "git.work_file": "", "git.admin_file": ".git", "git.hook": ".git/hooks",
}  # fmt: skip
"""The folder of the entries of each type."""
_INDEX: Final = "git.index_entry"
_OBEYING_NOTHING: Final = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")
_WRITES: Final = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC


def rewrite(
    copy: Path, edits: Sequence[RowEdit], row_of: Callable[..., Row | None], *, is_checkout: bool
) -> None:
    """Make the edits in the copy. `UsageError` names one that has no words here."""
    made: list[tuple[Path, dict[str, Any] | None, list[str]]] = []
    staged: list[str] = []
    others: list[RowEdit] = []
    for edit in edits:
        entity, table = edit.entity, edit.entity.source_table
        key = key_of(entity, edit.before or edit.after or {})
        now = {} if edit.before is None else columns_of(entity, row_of(entity, key))
        if edit.before is not None and not now:
            raise Refused(f"not as the run left it: {named(entity, edit.before)} is gone")
        wanted = columns_of(entity, edit.after)
        if table in _FOLDERS:
            path = _inside(copy, copy / _FOLDERS[table] / os.fsdecode(key[0]))  # type: ignore[arg-type]  # a path
            fields = [name for name, value in wanted.items() if value != now.get(name)]
            made.append((path, {**now, **wanted} if wanted else None, fields))
        elif table == _INDEX:
            there = {**now, **wanted} if wanted else {**now, "mode": "0"}
            place = f"{there['stage']}\t{os.fsdecode(there['path'])}"
            staged.append(f"{there['mode']} {there['blob']} {place}\0")
        else:
            others.append(edit)
    made.sort(key=lambda each: each[0].parts)
    try:
        for path, row, fields in reversed(made):
            if row is None or ("kind" in fields and os.path.lexists(path)):
                path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
                _leave_none_empty(path.parent, copy if is_checkout else path.parent)
        for path, row, fields in made:
            if row is not None:
                _write(path, row, fields)
        for path, row, fields in reversed(made):
            if row is not None and "mode" in fields and not path.is_symlink():
                path.chmod(int(row["mode"], 8))
    except (OSError, ValueError) as error:
        raise Refused(f"cannot be written: {error}") from error
    if is_checkout:
        from statediff_gate.repository import move_refs, moves, run_git  # noqa: PLC0415 - of checkouts alone

        move_refs(copy / ".git", moves(others), *_OBEYING_NOTHING)
        words = *_OBEYING_NOTHING, "update-index", "-z", "--index-info"
        run_git(copy / ".git", "".join(staged), *words)


def _inside(copy: Path, path: Path) -> Path:
    """The path, which no link and no `..` leads out of the copy. `UsageError`."""
    is_inside = path.parent.resolve().is_relative_to(copy.resolve()) and path.name != ".."
    if path != copy and not is_inside:
        raise UsageError(f"{path}: lies outside the folder")
    return path


def _write(path: Path, row: Mapping[str, Any], fields: Collection[str]) -> None:
    kind, is_new = row["kind"], "kind" in fields
    path.parent.mkdir(parents=True, exist_ok=True)  # a checkout has rows of empty folders alone
    if kind == "directory" and is_new:
        path.mkdir()
    elif kind == "link" and not {"kind", "target"}.isdisjoint(fields):
        path.unlink(missing_ok=True)
        path.symlink_to(os.fsdecode(row["target"]))
    elif kind == "file" and not {"kind", "digest"}.isdisjoint(fields):
        if not isinstance(row["text"], str):
            raise UsageError(f"{path.name}: its content was kept as a digest alone")
        how = os.O_CREAT | os.O_EXCL if is_new else os.O_TRUNC
        with os.fdopen(os.open(path, _WRITES | how), "wb") as file:
            file.write(row["text"].encode())
    elif is_new:
        raise UsageError(f"{path.name}: a {kind} is not made anew")


def _leave_none_empty(folder: Path, top: Path) -> None:
    """No folder is empty below the top, as git leaves a checkout."""
    while folder != top and folder.parent.name != ".git" and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent
