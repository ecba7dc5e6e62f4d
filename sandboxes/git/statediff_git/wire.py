"""The meaning of git's requests over HTTP: fetches read, a push names the references it moves."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from statediff.model.trace import ActionClass, Mark
from statediff.systems.base.wire import Described, Request, Wire
from statediff_git.refs import move

MAX_REFS: Final = 200
_NONE: Final = "0" * 40
_FLUSH: Final = b"0000"
"""With it a client of git asks whether it may push."""
_ID: Final = rb"([0-9a-f]{40}(?:[0-9a-f]{24})?)"
_COMMAND: Final = re.compile(_ID + b" " + _ID + rb" ([^\x00\n]{1,300})")


def _described(source: str, request: Request) -> Described | None:
    if request.path.endswith("/git-upload-pack"):
        return Described(action_class=ActionClass.READ)
    if not request.path.endswith("/git-receive-pack") or request.method != "POST":
        return None
    refs = [*islice(_commands(request.body), MAX_REFS)]
    arguments: dict[str, Any] = {
        "refs": [
            {"ref": ref.decode("utf-8", "replace"), "old": old.decode(), "new": new.decode()}
            for old, new, ref in refs
        ]
    }
    gone = any(new.startswith(_NONE.encode()) for _, new, _ in refs)
    marks = tuple(Mark(source, move(ref, old.decode(), new.decode())) for old, new, ref in refs)
    if len(refs) == MAX_REFS or (not refs and request.body != _FLUSH):
        marks = (*marks, Mark(source))  # more than is read here, or in another form
    return Described(
        action_class=ActionClass.IRREVERSIBLE_DELETION if gone else ActionClass.CONDITIONAL_UPDATE,
        arguments=arguments,
        marks=marks,
        done=_reported_moves,
    )


def _commands(body: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
    """(old, new, ref) of each line of a push, up to the flush that ends them, before its pack."""
    at = 0
    with contextlib.suppress(ValueError):
        while (length := int(body[at : at + 4], 16)) > 4:
            found = _COMMAND.match(body[at + 4 : at + length])
            if found is not None:
                old, new, ref = found.groups()
                yield old, new, ref
            at += length


def _reported_moves(marks: tuple[Mark, ...], answer: bytes | None) -> tuple[Mark, ...]:
    """The moves that a push asked for and that the server reports as done.

    Where it may have done them and does not say so, the push wrote there, and nobody knows what.
    """
    if answer is None or b"unpack " not in answer:
        return (Mark(marks[0].source),)
    done = [m for m in marks if m.name is None or _ok(m.name) in answer]
    return tuple(done)


def _ok(move: str) -> bytes:
    return f"ok {move.rpartition(' ')[0]}\n".encode()


WIRE: Final = Wire(describe=_described)
