"""Runs from JSON lines, gzipped or not: one at a time, bounded, a bad line reported by number.

What a line says of its own verdict is parted from it here (`without_labels`), so that no judge can
see it. A gzip that breaks off yields what it held and one `BadLine` for the rest.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO, Final, NoReturn, cast

from statediff.errors import InputError
from statediff.importers.recorded import BadLine, NotARun
from statediff.model.values import MAX_DEPTH, printable

MAX_LINE_BYTES: Final = 16 * 1024 * 1024
MAX_DIGITS: Final = 400
MAX_EXPONENT: Final = 308
LABELS: Final = frozenset({"passed", "score", "failures", "status", "official", "labels"})
"""Members of a line that tell its verdict. Of `labels` one thing is no verdict: which gold it is
compared with (`recorded_task.gold_key`)."""

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
        tree = json.loads(
            line.data.decode("utf-8"),
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_float=_decimal,
            parse_constant=_constant,
        )
    except UnicodeDecodeError as error:
        raise NotARun(f"not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise NotARun(f"not JSON: {error.msg} at column {error.colno}") from error
    except RecursionError as error:
        raise NotARun(f"nested deeper than {MAX_DEPTH} levels") from error
    if not isinstance(tree, dict):
        raise NotARun("expected a JSON object")
    _require_sound(tree, MAX_DEPTH)
    return tree


def without_labels(line: Mapping[str, Any]) -> dict[str, Any]:
    """The line as judges see it: no label but for the gold key."""
    kept = {name: value for name, value in line.items() if name not in LABELS}
    labels = line.get("labels")
    task = labels.get("recorded_task") if isinstance(labels, dict) else None
    if isinstance(task, dict) and isinstance(task.get("gold_key"), str):
        kept["labels"] = {"recorded_task": {"gold_key": task["gold_key"]}}
    return kept


def _require_sound(tree: Any, left: int) -> None:
    """No text holds half of a surrogate pair, nothing is nested too deeply."""
    if isinstance(tree, str):
        if not tree.isascii():
            try:
                tree.encode()
            except UnicodeEncodeError as error:
                raise NotARun("a text holds half of a surrogate pair") from error
    elif isinstance(tree, dict | list):
        if not left:
            raise NotARun(f"nested deeper than {MAX_DEPTH} levels")
        if isinstance(tree, dict):
            for name in tree:
                _require_sound(name, left)
        for item in tree.values() if isinstance(tree, dict) else tree:
            _require_sound(item, left - 1)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise NotARun("a key stands twice in one object")
    return found


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise NotARun(f"a number has more than {MAX_DIGITS} digits")
    return int(digits)


def _decimal(digits: str) -> Decimal:
    if len(digits) > MAX_DIGITS:
        raise NotARun(f"a number has more than {MAX_DIGITS} digits")
    number = Decimal(digits)
    if not number.is_finite() or abs(number.adjusted()) > MAX_EXPONENT:
        raise NotARun(f"the number {digits[:40]} is out of range")
    return number


def _constant(name: str) -> NoReturn:
    raise NotARun(f"{name} is not a JSON number")
