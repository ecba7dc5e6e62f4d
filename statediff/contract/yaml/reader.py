"""Documents read safely: bytes become plain values, each with its line and column.

1. Bound the size, decode strictly, refuse what a person reading the file could not see.
2. Refuse directives, which would bring other YAML versions back.
3. Compose from ruamel.yaml's event stream, so that depth, number of nodes and every refused
   feature (anchors, aliases, tags, merge keys, duplicate or non-text keys, further documents)
   are met before anything is built from them.
4. Refuse what a comma or bracket leaves of an unquoted expression in flow style.

Only syntax is judged here; what the keys mean is decided in `shape.py` and beyond. Nothing in a
document becomes anything but a `dict`, `list`, `str`, `int`, `Decimal`, `bool` or `None`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Final

from statediff.contract.yaml.composer import (
    NOT_IN_DOCUMENTS,
    Composer,
    NodePath,
    Position,
    Span,
    character_name,
    line_and_column,
    quote,
)
from statediff.errors import ContractError, Problem

__all__ = [
    "MAX_BYTES",
    "Document",
    "NodePath",
    "Position",
    "read_document",
    "too_large",
]

MAX_BYTES: Final = 256 * 1024


@dataclass(frozen=True)
class Document:
    """A document that was read completely: plain values, and where each of them stands."""

    value: dict[str, Any]
    file: str
    data: bytes
    """The bytes as they were given; a digest of the document is a digest of these."""
    text: str
    positions: Mapping[NodePath, Position]
    spans: Mapping[NodePath, Span]

    def position(self, path: NodePath) -> Position:
        """The place of the node; for a path that is not in the document, its nearest ancestor's."""
        while path not in self.positions:
            path = path[:-1]
        return self.positions[path]

    def problem(
        self,
        path: NodePath,
        message: str,
        *,
        code: str = "invalid",
        hint: str = "",
        at_key: bool = False,
        offset: int = 0,
    ) -> Problem:
        """A problem with the node at `path`, or `offset` characters into its text."""
        found = self.position(path)
        line, column = (
            (found.key_line, found.key_column)
            if at_key
            else (self.place(path, offset) if offset else (found.line, found.column))
        )
        return Problem(self.file, line, column, message, code, hint)

    def locate(self, path: NodePath, offset: int = 0) -> tuple[str, int, int]:
        """File, line and column of a character of the text at `path` or its nearest ancestor."""
        while path not in self.positions:
            path = path[:-1]
        return self.file, *self.place(path, offset)

    def source(self, path: NodePath) -> str | None:
        """A scalar as it is written in the file, quotes and all; `None` for anything else."""
        span = self.spans.get(path)
        return self.text[span.start : span.end] if span else None

    def place(self, path: NodePath, offset: int) -> tuple[int, int]:
        """Line and column of a character of the text at `path`.

        Where escapes or blank lines hide which character of the file that is, the start of the
        value.
        """
        start = self.position(path)
        written, value = self.source(path), self._text_at(path)
        if written is None or value is None or not 0 <= offset <= len(value):
            return start.line, start.column
        lines = written.split("\n")
        style = self.spans[path].style
        if style in ("'", '"'):
            lines = [line[1:] if i == 0 else line for i, line in enumerate(lines)]
            lines[-1] = lines[-1].rstrip()[:-1]
        bodies = [(i, line) for i, line in enumerate(lines) if line.strip()][style in ("|", ">") :]
        joined = (" " if style != "|" else "\n").join(line.strip() for _, line in bodies)
        if joined != value.rstrip("\n"):
            return start.line, start.column
        for i, line in bodies:
            content = line.strip()
            if offset <= len(content):
                margin = len(line) - len(line.lstrip())
                before = start.column + (style in ("'", '"')) if i == 0 else margin + 1
                return start.line + i, before + offset
            offset -= len(content) + 1
        return start.line, start.column

    def _text_at(self, path: NodePath) -> str | None:
        value: Any = self.value
        for step in path:
            value = value[step]
        return value if isinstance(value, str) else None


def read_document(data: bytes, file: str) -> Document:
    """The document in `data`, whose top is a mapping; `ContractError` for anything else.

    `file` is the name used in messages. Bounded: 256 KiB, 30 levels, 20,000 nodes.
    """
    text = _decode(data, file)
    problems = chain(
        islice(_unreadable_characters(text, file), 10), islice(_directives(text, file), 10)
    )
    if refused := tuple(problems):
        raise ContractError(refused)
    composer = Composer(text, file)
    value = composer.compose()
    return Document(value, file, data, text, composer.positions, composer.spans)


_BINARY_WITHIN: Final = 4096
"""Two zero bytes within so many are in no text, whatever its encoding."""


def _decode(data: bytes, file: str) -> str:
    if len(data) > MAX_BYTES:
        raise ContractError((too_large(file, len(data)),))
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8").removeprefix("\ufeff")
        found = f"byte 0x{data[error.start]:02x}"
        if b"\0\0" in data[:_BINARY_WITHIN]:
            found += ", as in a file that is no text, such as a database"
        line, column = line_and_column(before, len(before))
        raise ContractError(
            (
                Problem(
                    file,
                    line,
                    column,
                    f"expected UTF-8 text, found {found}",
                    "not-utf-8",
                    "name the YAML file, and save it as UTF-8",
                ),
            )
        ) from error


def too_large(file: str, size: int) -> Problem:
    """The problem with a file of `size` bytes."""
    return Problem(
        file,
        1,
        1,
        f"expected at most {MAX_BYTES} bytes, found {size}",
        "too-large",
        "a contract or schema this long is not for people; move data to a fixture",
    )


def _unreadable_characters(text: str, file: str) -> Iterator[Problem]:
    for found in NOT_IN_DOCUMENTS.finditer(text):
        line, column = line_and_column(text, found.start())
        yield Problem(
            file,
            line,
            column,
            f"expected text, found {character_name(found[0])}",
            "control-character",
            "remove it; where it is meant, write an escape inside double quotes",
        )


def _directives(text: str, file: str) -> Iterator[Problem]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("%"):
            yield Problem(
                file,
                number,
                1,
                f"expected a mapping, found the directive {quote(line.rstrip())}",
                "directive",
                "remove it; documents are YAML 1.2 without directives",
            )
        elif line.strip() and not line.lstrip().startswith("#"):
            return
