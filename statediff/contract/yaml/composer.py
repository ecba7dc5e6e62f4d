"""From ruamel.yaml's events to plain values, refusing what the documents of statediff do not use.

A plain scalar means what YAML 1.2's core rules say, with three refusals instead of guesses: numbers
with leading zeros (octal in YAML 1.1, decimal in 1.2, an identifier to most people), `.inf` and
`.nan`, and numbers too large to be meant. `no`, `on`, `y` and `off` are text.

Events are taken one at a time, so depth, number of nodes and every refused feature (anchors,
aliases, tags, merge keys, duplicate or non-text keys, further documents) are met before anything
is built from them, and nothing here or in ruamel.yaml recurses further than the allowed depth.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, NoReturn, TypeAlias

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from statediff.errors import ContractError, Problem
from statediff.model.values import printable

MAX_DIGITS: Final = 100
"""Characters in one number. Python's own limit on digits (4,300) would raise later."""
MAX_EXPONENT: Final = 400
"""Largest power of ten, either way: a little more than binary floats have."""

_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?([0-9]+))?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]")

NOT_IN_DOCUMENTS: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"  # controls; a tab and line ends are fine
    "|\r(?!\n)"  # alone it overwrites the line on a console and ends one for some parsers only
    "|[\u2028\u2029\ufeff\ufffe\uffff]"  # line ends for some parsers only; a misplaced mark
    "|[\u202a-\u202e\u2066-\u2069]"  # bidirectional controls show text in another order
)
_INVISIBLE_LETTERS = frozenset("\u115f\u1160\u3164\uffa0\u034f\u17b4\u17b5")
_SURROGATE = re.compile("[\ud800-\udfff]")


class NotAScalar(ValueError):
    """The text is neither a value nor safely a string; the message is ours, `hint` the way out."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def resolve(text: str) -> None | bool | int | Decimal | str:
    """The value of a plain scalar; `NotAScalar` for a number that is ambiguous or out of bounds."""
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if _NOT_FINITE.fullmatch(text):
        raise NotAScalar(
            f"expected a finite number, found {text}",
            "quote it if it is text; there is no infinity and no NaN",
        )
    whole = _INT.fullmatch(text)
    number = whole or _FLOAT.fullmatch(text)
    if number is None:
        return text
    if len(text) > MAX_DIGITS:
        raise NotAScalar(
            f"a number of {len(text)} characters; the limit is {MAX_DIGITS}",
            "quote it if it is text",
        )
    if _LEADING_ZERO.match(text):
        raise NotAScalar(
            f"{text} begins with a zero: octal to some, decimal to others",
            "quote it if it is text, drop the zero if it is a number",
        )
    if whole:
        return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
    exponent = number[1] or "0"
    if len(exponent) > len(str(MAX_EXPONENT)) or int(exponent) > MAX_EXPONENT:
        raise NotAScalar(f"{text} has an exponent beyond {MAX_EXPONENT}", "quote it if it is text")
    return Decimal(text)


def hidden_character(text: str, *, is_key: bool) -> str | None:
    """The name of the first character in `text` that a reader cannot see, or `None`.

    In an expression line ends and tabs are ordinary; in a key nothing but the plain space is.
    """
    for character in text:
        if character.isascii() and character.isprintable():
            continue
        if not is_key and character in ("\t", "\n"):
            continue
        category = unicodedata.category(character)
        if (
            category[0] == "C"
            or category in ("Zl", "Zp")
            or character in _INVISIBLE_LETTERS
            or (is_key and category == "Zs")
        ):
            return character_name(character)
    return None


def character_name(character: str) -> str:
    """A character as a message can show it: code point and Unicode name."""
    name = unicodedata.name(character, "")
    return f"U+{ord(character):04X}" + (f" {name}" if name else "")


def quote(text: str, limit: int = 40) -> str:
    """Text inside backticks for a message: one line, nothing hidden, never long."""
    shown = printable(" ".join(text.split()) if "\n" in text else text)
    return "`" + (shown if len(shown) <= limit else shown[: limit - 1] + "…") + "`"


_EXPRESSION_LINE = re.compile(r"\s*(?:- +)*(?:(?:where|that|authorized_by|always)\s*:|[\"'\[({])")
_CLUES: Final = (
    ("mapping values are not allowed", "expected one `key: value` here, found another `: `"),
    (
        "cannot start any token",
        (
            "expected a value, found a character that cannot begin one "
            "(indent with spaces, quote text that begins with @, `, % or a tab)"
        ),
    ),
    ("found unexpected end of stream", "expected a closing quote, found the end of the file"),
    (
        "unknown escape character",
        "expected a known escape, found another; in single quotes a backslash is itself",
    ),
    ("'<document start>'", "expected the end of the file, found more"),
    ("while scanning a simple key", "expected `key: value`, found a line without `: `"),
    ("while parsing a flow", "expected `,` or the closing bracket, found something else"),
    (
        "while parsing a block",
        (
            "expected the next key or item, found something that does not fit: check the "
            "indentation above and here, and for text after a closed quote or bracket"
        ),
    ),
)
"""A part of a message of ruamel.yaml, and our message for it."""


MAX_DEPTH: Final = 30
MAX_NODES: Final = 20_000
MAX_PROBLEMS: Final = 50
"""Reading stops here; a file this wrong is something else."""

NodePath: TypeAlias = tuple[str | int, ...]
"""Keys and (0-based) indices from the top of a document to a node."""

_EXPRESSION_KEYS: Final = frozenset(("where", "that", "authorized_by", "actor", "always", "on"))
_NAMES_OF_THE_AUTHOR: Final = frozenset(
    ("inputs", "set", "from", "schema", "match_on", "fields", "with", "extract")
)
"""Below these, keys are names of inputs and fields, and their values never expressions."""


_TEXTS: Final = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\"""")
"""Texts in an expression."""


@dataclass(frozen=True)
class Position:
    """The position of a node, 1-based: its value, and its key.

    An item and the top have no key, so theirs is the value's; a value left empty is at its key.
    """

    line: int
    column: int
    key_line: int
    key_column: int


@dataclass(frozen=True)
class Span:
    """Characters of the text that a scalar occupies; `style` is empty for a plain one."""

    start: int
    end: int
    style: str


def line_and_column(text: str, index: int) -> tuple[int, int]:
    """The 1-based line and column of a character of the text."""
    return text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index)


class Composer:
    """One pass over the events of one document. Problems are gathered; hard limits raise."""

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.positions: dict[NodePath, Position] = {}
        self.spans: dict[NodePath, Span] = {}
        self._problems: list[Problem] = []
        self._nodes = 0
        self._events = self._event_stream()

    def compose(self) -> dict[str, Any]:
        value: Any = None
        documents = 0
        for event in self._events:
            if not isinstance(event, DocumentStartEvent):
                continue
            documents += 1
            if documents > 1:
                self._problem(
                    event,
                    "expected the end of the file, found a second document",
                    "several-documents",
                    "one document a file: remove this and the rest",
                )
                break
            top = next(self._events)
            value = self._node(top, (), depth=1, in_flow=False, key=None)
            if value is None and not self._problems:
                self._problem(top, "the file is empty; expected a mapping", "empty-document")
            elif value is not None and not isinstance(value, dict):
                kind = "a list" if isinstance(value, list) else "a single value"
                self._problem(
                    top, f"expected a mapping (`key: value` lines), found {kind}", "not-a-mapping"
                )
        if not documents:
            self._problems.append(
                Problem(self.file, 1, 1, "the file is empty; expected a mapping", "empty-document")
            )
        if self._problems:
            raise ContractError(tuple(self._problems))
        assert isinstance(value, dict)  # noqa: S101  # else there was a problem
        return value

    def _event_stream(self) -> Iterator[Event]:
        """The events of ruamel.yaml, its errors turned into ours."""
        index = 0
        try:
            # pure: the C parser has limits and errors of its own. safe: no comments are kept.
            for event in YAML(typ="safe", pure=True).parse(self.text):
                index = max(index, event.end_mark.index)
                yield event
        except MarkedYAMLError as error:
            self._syntax_error(error)
        except (YAMLError, ValueError, OverflowError):
            # chr() of an escape such as \UFFFFFFFF
            escape = re.compile(r"\\U(?!000|0010)").search(self.text, index)
            line, column = line_and_column(self.text, escape.start() if escape else index)
            self._fatal(line, column, "expected a character, found an escape that names none")

    def _node(
        self, event: Event, path: NodePath, *, depth: int, in_flow: bool, key: Event | None
    ) -> Any:
        self._nodes += 1
        if depth > MAX_DEPTH:
            self._refuse(event, f"expected at most {MAX_DEPTH} levels, found more", "too-deep")
        if self._nodes > MAX_NODES:
            words = f"expected at most {MAX_NODES} values, found more"
            self._refuse(event, words, "too-many-nodes")
        at = event.start_mark
        where = key.start_mark if key is not None else at
        if isinstance(event, ScalarEvent) and event.start_mark.index == event.end_mark.index:
            at = where  # nothing was written; ruamel puts it at the next token
        self.positions[path] = Position(
            at.line + 1, at.column + 1, where.line + 1, where.column + 1
        )
        if not self._is_bare(event):
            return None
        match event:
            case ScalarEvent():
                return self._scalar(event, path, in_flow)
            case SequenceStartEvent():
                return self._sequence(event, path, depth, in_flow or bool(event.flow_style))
            case MappingStartEvent():
                return self._mapping(event, path, depth, in_flow or bool(event.flow_style))
            case _:
                raise AssertionError(f"unexpected event {type(event).__name__}")

    def _is_bare(self, event: Event) -> bool:
        """True if it has neither anchor nor tag and is no alias; an alias has no value to read."""
        assert isinstance(event, NodeEvent)  # noqa: S101  # the parser's grammar
        if isinstance(event, AliasEvent):
            self._problem(
                event,
                f"expected a value, found the alias {quote('*' + event.anchor)}",
                "anchor",
                "write the value out; quote text that begins with `*`",
            )
            return False
        if event.anchor is not None:
            self._problem(
                event,
                f"expected a value, found the anchor {quote('&' + event.anchor)}",
                "anchor",
                "write the value out; quote text that begins with `&`",
            )
        tag = getattr(event, "tag", None)
        if tag is not None:
            self._problem(
                event,
                f"expected a value, found the tag {quote(str(tag))}",
                "tag",
                "remove it; quote text that begins with `!`",
            )
        return True

    def _sequence(
        self, event: SequenceStartEvent, path: NodePath, depth: int, in_flow: bool
    ) -> list[Any]:
        items: list[Any] = []
        cut: Event | None = None
        for item in self._events:
            if isinstance(item, SequenceEndEvent):
                break
            at = (*path, len(items))
            items.append(self._node(item, at, depth=depth + 1, in_flow=in_flow, key=None))
            if cut is not None:
                self._cut(cut, item, f"the item {quote(str(getattr(item, 'value', '')))}")
            cut = item if in_flow and _is_cut(item, at) else None
        self._cut(cut, None, "")
        return items

    def _mapping(
        self, event: MappingStartEvent, path: NodePath, depth: int, in_flow: bool
    ) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        cut: Event | None = None
        for key in self._events:
            if isinstance(key, MappingEndEvent):
                break
            name = self._key(key, path, depth)
            if cut is not None:
                self._cut(cut, key, f"unknown key {quote(str(getattr(key, 'value', '')))}")
                name = None
            if name is not None and name in mapping:
                first = self.positions[(*path, name)]
                self._problem(
                    key,
                    f"expected each key once, found {quote(name)} again; "
                    f"first on line {first.key_line}",
                    "duplicate-key",
                )
                name = None
            # A value without a usable key is still read, for its own problems.
            held, at = next(self._events), (*path, name if name is not None else -1)
            value = self._node(held, at, depth=depth + 1, in_flow=in_flow, key=key)
            cut = held if in_flow and _is_cut(held, at) else None
            if name is not None:
                mapping[name] = value
        self._cut(cut, None, "")
        return mapping

    def _cut(self, before: Event | None, at: Event | None, what: str) -> None:
        """The problem with an expression in flow style of which a comma left a part only."""
        if before is None:
            return
        part = quote(str(getattr(before, "value", "")))
        message = f"expected a whole expression, found {part}, which `,` or a bracket cut short"
        if at is not None:
            message = f"{what}: the comma before it cuts the expression {part}"
        hint = "quote the expression, or write the mapping or list on lines of its own"
        self._problem(before if at is None else at, message, "flow-expression", hint)

    def _key(self, event: Event, path: NodePath, depth: int) -> str | None:
        """The text of a key, or `None` with a problem noted."""
        if not isinstance(event, ScalarEvent):
            self._node(event, (*path, -1), depth=depth + 1, in_flow=True, key=None)
            self._problem(
                event,
                "expected text as a key, found a list, mapping or alias",
                "key-not-text",
                "quote text that begins with `[`, `{` or `*`",
            )
            return None
        self._nodes += 1
        self._is_bare(event)
        if not event.style:
            if event.value == "<<":
                self._problem(
                    event,
                    "expected a key, found the merge key `<<`",
                    "merge-key",
                    "write the keys out",
                )
                return None
            try:
                is_text = isinstance(resolve(event.value), str)
            except NotAScalar:
                is_text = False
            if not is_text:
                found = quote(event.value) if event.value else "nothing"
                self._problem(
                    event,
                    f"expected text as a key, found {found}",
                    "key-not-text",
                    f'quote it: "{event.value[:40]}"',
                )
                return None
        hidden = hidden_character(event.value, is_key=True)
        if hidden is not None:
            self._problem(
                event,
                f"expected a key one can read, found {hidden} in it",
                "hidden-character",
                "remove it",
            )
            return None
        return str(event.value)

    def _scalar(self, event: ScalarEvent, path: NodePath, in_flow: bool) -> Any:
        style = event.style or ""
        self.spans[path] = Span(event.start_mark.index, event.end_mark.index, style)
        if holds_an_expression(path):
            hidden = hidden_character(event.value, is_key=False)
            if hidden is not None:
                self._problem(
                    event,
                    f"expected an expression one can read, found {hidden} in it",
                    "hidden-character",
                    'write it as an escape in the string: "\\u…"',
                )
        if style:
            if _SURROGATE.search(event.value):  # from an escape such as "\ud800"
                self._problem(
                    event,
                    "expected characters, found an escape for half of one",
                    "syntax",
                    "write the whole character, or \\U and eight digits",
                )
            return event.value
        try:
            return resolve(event.value)
        except NotAScalar as error:
            self._problem(event, str(error), "number", error.hint)
            return None

    def _problem(self, event: Event, message: str, code: str, hint: str = "") -> None:
        at = event.start_mark
        self._problems.append(Problem(self.file, at.line + 1, at.column + 1, message, code, hint))
        if len(self._problems) >= MAX_PROBLEMS:
            raise ContractError(tuple(self._problems))

    def _refuse(self, event: Event, message: str, code: str) -> NoReturn:
        self._problem(event, message, code)
        raise ContractError(tuple(self._problems))

    def _fatal(self, line: int, column: int, message: str, hint: str = "") -> NoReturn:
        self._problems.append(Problem(self.file, line, column, message, "syntax", hint))
        raise ContractError(tuple(self._problems))

    def _syntax_error(self, error: MarkedYAMLError) -> NoReturn:
        """The reason for which ruamel.yaml refused the text, where it goes wrong, what may help."""
        said = f"{error.context or ''} {error.problem or ''}"
        ours = (words for part, words in _CLUES if part in said)
        words = next(ours, f"not YAML: {' '.join(said.split())[:120]}")
        marks = [error.problem_mark, error.context_mark]
        if "unexpected end of stream" in said:  # the quote that is not closed, not the end
            marks.reverse()
        mark = next((m for m in marks if m is not None), None)
        line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
        written = ["", *self.text.split("\n"), ""]
        hint = ""
        if " #" in written[line - 1]:
            hint = "YAML ends the line above at ` #`; if that is no comment, quote the text"
        elif _EXPRESSION_LINE.match(written[line]):
            hint = (
                "an expression that begins with a quote or bracket or holds `: ` goes on a "
                "line of its own, indented, below `key: >-`"
            )
        self._fatal(line, column, words, hint)


def _is_cut(event: Event, path: NodePath) -> bool:
    """True if it is the beginning of an expression that flow style cut.

    A comma of the expression is between brackets or quotes, so they are open in what is before it.
    """
    if not isinstance(event, ScalarEvent) or event.style:
        return False
    if not (is_computed(path) or holds_an_expression(path)):
        return False
    left = _TEXTS.sub("", event.value)
    opened = sum(map(left.count, "([{")) - sum(map(left.count, ")]}"))
    return opened > 0 or '"' in left or "'" in left


def holds_an_expression(path: NodePath) -> bool:
    """True if the language has an expression at that place of a document."""
    if not path or not _NAMES_OF_THE_AUTHOR.isdisjoint(path[:-1]):
        return False
    is_listed = len(path) > 1 and isinstance(path[-1], int)
    is_listed = is_listed and (path[-2] == "claims" or (path[0], path[-2]) == ("turns", "require"))
    # Elsewhere, e.g. in an evaluation config of the read side, these are ordinary keys.
    is_other = path[-1] == "on" and path[0] not in ("access", "turns")
    is_other = is_other or (path[-1] == "actor" and path[0] != "effects")
    return (path[-1] in _EXPRESSION_KEYS and not is_other) or is_listed


def is_computed(path: NodePath) -> bool:
    """True if the place is that of `{is: EXPRESSION}`, in place of a value."""
    return path[-1:] == ("is",) and path[0] != "inputs"
