"""Runs from JSON lines, gzipped or not: one at a time, bounded, a bad line reported by number.

What a line says of its own verdict is parted from it here (`without_labels`), so that no judge can
see it. A gzip that breaks off yields what it held and one `BadLine` for the rest.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from json import JSONDecodeError
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from statediff.errors import InputError
from statediff.importers.recorded import BadLine, NotARun
from statediff.model.strictjson import Flaw, FlawKind, Limits, read_tree
from statediff.model.values import MAX_DEPTH, printable

MAX_LINE_BYTES: Final = 16 * 1024 * 1024
MAX_DIGITS: Final = 400
MAX_EXPONENT: Final = 308
LABELS: Final = frozenset({"passed", "score", "failures", "status", "official", "labels"})
"""Members of a line that tell its verdict. Of `labels` one thing is no verdict: which gold it is
compared with (`recorded_task.gold_key`)."""

# A longer line is never handed over whole, see `read_lines`.
_LIMITS: Final = Limits(MAX_LINE_BYTES, MAX_DEPTH, MAX_DIGITS, MAX_EXPONENT)
_GZIP: Final = b"\x1f\x8b"


@dataclass(frozen=True)
class Line:
    """One line that is not empty, not yet parsed."""

    file: str
    number: int
    data: bytes


def read_lines(path: Path) -> Iterator[Line | BadLine]:
    """Every line of the file that is not blank, in order; what cannot be read is a `BadLine`.

    `InputError` if there is no such file.
    """
    name = printable(path.name)
    number = 0
    try:
        with _opened(path) as stream:
            while line := stream.readline(MAX_LINE_BYTES + 1):
                number += 1
                if len(line) > MAX_LINE_BYTES:
                    _skip(stream, line)
                    yield BadLine(name, number, f"longer than {MAX_LINE_BYTES} bytes")
                elif stripped := line.strip():
                    yield Line(name, number, stripped)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        why = f"the gzip is damaged ({error}); no line from here on can be read"
        yield BadLine(name, number + 1, why)
    except OSError as error:
        if not number:
            raise InputError(f"{printable(str(path))}: cannot be read: {error.strerror}") from error
        yield BadLine(name, number + 1, f"cannot be read: {error.strerror}")


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    if not path.is_file():  # opening a pipe would wait for ever
        raise InputError(f"{printable(str(path))}: expected a file of runs, found none")
    with path.open("rb") as raw:
        if raw.peek(2)[:2] != _GZIP:
            yield raw
            return
        with gzip.GzipFile(fileobj=raw) as inside:
            yield cast("BinaryIO", inside)


def _skip(stream: BinaryIO, line: bytes) -> None:
    while line and not line.endswith(b"\n"):
        line = stream.readline(MAX_LINE_BYTES)


def parse(line: Line) -> Mapping[str, Any]:
    """The object in the line, numbers with a fraction as `Decimal`.

    `NotARun`, naming the reason, for all that is not one unambiguous JSON object.
    """
    try:
        tree = read_tree(line.data, _LIMITS)
    except Flaw as flaw:
        raise NotARun(_words(flaw)) from flaw
    if not isinstance(tree, dict):
        raise NotARun("expected a JSON object")
    return tree


def _words(flaw: Flaw) -> str:
    if flaw.kind is FlawKind.KEY_TWICE:
        return "a key stands twice in one object"
    if flaw.kind is FlawKind.TOO_DEEP:
        return f"nested deeper than {MAX_DEPTH} levels"
    if isinstance(flaw.__cause__, JSONDecodeError):
        return f"not JSON: {flaw.__cause__.msg} at column {flaw.__cause__.colno}"
    return str(flaw)


def without_labels(line: Mapping[str, Any]) -> dict[str, Any]:
    """The line as judges see it: no label but for the gold key."""
    kept = {name: value for name, value in line.items() if name not in LABELS}
    labels = line.get("labels")
    task = labels.get("recorded_task") if isinstance(labels, dict) else None
    if isinstance(task, dict) and isinstance(task.get("gold_key"), str):
        kept["labels"] = {"recorded_task": {"gold_key": task["gold_key"]}}
    return kept
