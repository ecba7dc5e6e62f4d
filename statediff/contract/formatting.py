"""`fmt`: a contract in its one canonical form, comments kept, meaning untouched.

Keys stand in the order of the language; expressions in block style; two spaces a level; text is
quoted only where it must be. A short mapping or list that its author wrote on one line stays on one
line. What a comment stands above, or beside, it still stands above, or beside. The result is read
again and compared with the original, so a file is either formatted or left as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from statediff.contract.composer import EXPRESSION_KEYS
from statediff.contract.document import OPERATIONS, ContractDocument
from statediff.contract.load import parse_document
from statediff.contract.reader import Document, NodePath
from statediff.contract.scalars import NotAScalar, resolve
from statediff.errors import ContractError, Problem

WIDTH: Final = 100
_TOP: Final = tuple(f.alias or name for name, f in ContractDocument.model_fields.items())
_CLAUSE: Final = (
    "id", "actor", "as_of", "actors", "roles", "broadcast", "subsystems", "absence", "when", "in",
    "user", "then", "what", "type", "use", "on", "always", "after_every_call", "calls",
    "effect", "before", "field", "is", *OPERATIONS, "by", "where", "from", "set", "fields", "count",
    "that", "during", "distinct", "reversibility", "authorized_by", "compensation", "retry_safe",
    "match_on", "version", "resolution", "scale", "round", "min", "max", "schema", "claims",
    "reversible", "conditional", "irreversible", "max_age", "authority",
    "acknowledgement", "history", "at", "recorded_at", "timeless", "participation", "space", "cite",
)  # fmt: skip
_LAST: Final = ("because",)
_AUTHORS_ORDER: Final = frozenset({"inputs", "set", "from", "schema", "match_on", "evidence"})
"""Below these, keys are the author's names, and so is their order."""

_AUTHORS_PLACES: Final = tuple(("access", key) for key in ("actors", "roles", "subsystems"))

_OLD_BOOLEANS: Final = frozenset({"yes", "no", "on", "off", "y", "n"})
"""Text in YAML 1.2 and truth in 1.1: quoted, so that no reader wonders."""

_PLAIN_START: Final = re.compile(r"[^\s\-?:,\[\]{}#&*!|>'\"%@`]|[-?:][^\s,\[\]{}]")


@dataclass
class _Comments:
    above: dict[NodePath, list[str]] = field(default_factory=dict)
    beside: dict[NodePath, str] = field(default_factory=dict)
    at_head: list[str] = field(default_factory=list)
    at_end: list[str] = field(default_factory=list)
    blank_above: set[NodePath] = field(default_factory=set)


def formatted(data: bytes, file: str) -> bytes:
    """The contract in canonical form; `ContractError` for what is none, or cannot be kept."""
    source, content = parse_document(data, file)
    comments = _comments(source)
    written = _Writer(source, comments).document().encode()
    again, same = parse_document(written, file)
    kept = sorted(_comment_texts(again)) == sorted(_comment_texts(source))
    if same != content or again.value != source.value or not kept:
        raise ContractError(
            (
                Problem(
                    file, 1, 1, "this file cannot be formatted without changing it",
                    "unformattable", "move comments out of { } and [ ], and write text on one line",
                ),
            )
        )  # fmt: skip
    return written


# ---------------------------------------------------------------- comments


def _comment_spans(source: Document) -> Iterator[tuple[int, int]]:
    """Every comment: where it begins and ends. What stands in a scalar is none."""
    text = source.text
    taken = sorted((span.start, span.end) for span in source.spans.values())
    at, in_quotes = 0, ""
    spans = iter(taken)
    ahead = next(spans, None)
    while at < len(text):
        while ahead is not None and ahead[1] <= at:
            ahead = next(spans, None)
        if ahead is not None and ahead[0] <= at < ahead[1] and not in_quotes:
            body = text[ahead[0] : ahead[1]]
            header = re.match(r"[|>][^\n#]*", body)
            if header and (note := re.match(r"#[^\n]*", body[header.end() :])):
                yield ahead[0] + header.end(), ahead[0] + header.end() + note.end()
            # A block scalar ends with the comments and blank lines that follow it.
            at = ahead[0] + len(body.rstrip()) if header else ahead[1]
            at = max(at, ahead[0] + 1)
            ahead = next(spans, None)
            continue
        character = text[at]
        if in_quotes:
            in_quotes = "" if character == in_quotes else in_quotes
        elif character in "'\"":
            in_quotes = character  # a quoted key
        elif character == "#" and (at == 0 or text[at - 1] in " \t\n"):
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
            yield at, end
            at = end
            continue
        at += 1


def _comment_texts(source: Document) -> list[str]:
    return [source.text[start:end].rstrip() for start, end in _comment_spans(source)]


def _comments(source: Document) -> _Comments:
    """Which node each comment, and each blank line, stands above or beside."""
    lines = source.text.split("\n")
    first: dict[int, NodePath] = {}
    for path, position in source.positions.items():
        if path and position.key_line not in first:
            first[position.key_line] = path
    starts = sorted(first)
    found = _Comments()
    offsets = [0]
    for line in lines:
        offsets.append(offsets[-1] + len(line) + 1)

    for start, end in _comment_spans(source):
        at = source.text.count("\n", 0, start) + 1
        text = source.text[start:end].rstrip()
        below = next((first[number] for number in starts if number > at), None)
        if at < starts[0]:  # of the file, whichever key comes first
            if found.at_head and at > 1 and not lines[at - 2].strip():
                found.at_head.append("")
            found.at_head.append(text)
        elif source.text[offsets[at - 1] : start].strip():
            node = first[max(number for number in starts if number <= at)]
            known = found.beside.get(node)
            found.beside[node] = text if known is None else f"{known} {text}"
        elif below is None:
            found.at_end.append(text)
        else:
            found.above.setdefault(below, []).append(text)
    for number in starts:
        above = number - 2  # 0-based index of the line above
        while above > 0 and lines[above].lstrip().startswith("#"):
            above -= 1
        if number > starts[0] and not lines[above].strip():
            found.blank_above.add(first[number])
    if found.at_head and not lines[starts[0] - 2].strip():
        found.at_head.append("")
    return found


# ---------------------------------------------------------------- writing


class _Writer:
    def __init__(self, source: Document, comments: _Comments) -> None:
        self._source = source
        self._comments = comments
        self._lines: list[str] = []

    def document(self) -> str:
        self._lines += self._comments.at_head
        self._mapping(self._source.value, (), 0)
        self._lines += self._comments.at_end
        return "\n".join(self._lines).lstrip("\n") + "\n"

    def _mapping(self, value: dict[str, Any], path: NodePath, depth: int) -> None:
        for key in _ordered(value, path):
            self._entry(f"{_scalar(key, is_key=True)}:", value[key], (*path, key), depth)

    def _entry(self, head: str, value: Any, path: NodePath, depth: int) -> None:
        """`head` is `key:`; the value follows on the same line or below."""
        margin = "  " * depth
        self._above(path, margin)
        note = self._beside(path)
        flow = self._on_one_line(value, path)
        if flow is not None and len(margin) + len(head) + 1 + len(flow) <= WIDTH:
            self._lines.append(f"{margin}{head} {flow}{note}")
        elif isinstance(value, dict) and value:
            self._lines.append(f"{margin}{head}{note}")
            self._mapping(value, path, depth + 1)
        elif isinstance(value, list) and value:
            self._lines.append(f"{margin}{head}{note}")
            self._items(value, path, depth + 1)
        else:
            self._text(f"{margin}{head}", value, path, depth, note)

    def _items(self, items: list[Any], path: NodePath, depth: int) -> None:
        margin = "  " * depth
        for index, item in enumerate(items):
            at = (*path, index)
            self._above(at, margin)
            note = self._beside(at)
            flow = self._on_one_line(item, at)
            if flow is not None and len(margin) + 2 + len(flow) <= WIDTH:
                self._lines.append(f"{margin}- {flow}{note}")
            elif isinstance(item, (dict, list)) and item:
                start = len(self._lines)
                if isinstance(item, dict):
                    self._mapping(item, at, depth + 1)
                else:
                    self._items(item, at, depth + 1)
                self._begin_item(start, margin, note)
            else:
                self._text(f"{margin}-", item, at, depth, note)

    def _begin_item(self, start: int, margin: str, note: str) -> None:
        """The dash stands before the first line; comments above its first key go above the dash."""
        inner = f"{margin}  "
        at = start
        while self._lines[at].strip().startswith("#") or not self._lines[at].strip():
            if self._lines[at].strip():
                self._lines[at] = margin + self._lines[at].strip()
            at += 1
        self._lines[at] = f"{margin}- {self._lines[at].removeprefix(inner)}{note}"

    def _above(self, path: NodePath, margin: str) -> None:
        if path in self._comments.blank_above and self._lines and self._lines[-1]:
            self._lines.append("")
        self._lines += [margin + text for text in self._comments.above.get(path, ())]

    def _beside(self, path: NodePath) -> str:
        text = self._comments.beside.get(path)
        return f"  {text}" if text else ""

    def _on_one_line(self, value: Any, path: NodePath) -> str | None:
        """A collection that its author wrote in flow style, and that may stay so; else None."""
        if isinstance(value, (dict, list)) and not value:
            return "{}" if isinstance(value, dict) else "[]"
        if not isinstance(value, (dict, list)) or not self._is_flow(path):
            return None
        inner = [p for p in self._source.positions if p[: len(path)] == path and p != path]
        if any(p in self._comments.above or p in self._comments.beside for p in inner):
            return None
        if any(_is_expression(p) for p in inner):
            return None
        return self._flow(value, path)

    def _is_flow(self, path: NodePath) -> bool:
        position = self._source.positions[path]
        line = self._source.text.split("\n")[position.line - 1]
        return line[position.column - 1 : position.column] in ("{", "[")

    def _flow(self, value: Any, path: NodePath) -> str | None:
        if isinstance(value, dict):
            parts = []
            for key in _ordered(value, path):
                inner = self._flow(value[key], (*path, key))
                if inner is None:
                    return None
                parts.append(f"{_scalar(key, is_key=True, in_flow=True)}: {inner}")
            return "{" + ", ".join(parts) + "}"
        if isinstance(value, list):
            items = [self._flow(item, (*path, i)) for i, item in enumerate(value)]
            return None if None in items else "[" + ", ".join(str(item) for item in items) + "]"
        return self._short(value, path, in_flow=True)

    def _short(self, value: Any, path: NodePath, *, in_flow: bool = False) -> str | None:
        """A scalar on one line; None where it needs several."""
        if not isinstance(value, str):
            raw = self._source.source(path) or ""
            return "null" if value is None and not raw else raw
        if "\n" in value:
            return None
        return _scalar(value, in_flow=in_flow)

    def _text(self, head: str, value: Any, path: NodePath, depth: int, note: str) -> None:
        short = self._short(value, path)
        is_wide = short is None or len(head) + 1 + len(short) > WIDTH
        span = self._source.spans.get(path)
        block = span is not None and span.style in (">", "|")
        if block and (is_wide or "\n" in (self._source.source(path) or "").strip()):
            self._block(head, path, depth, note)
        elif is_wide and isinstance(value, str) and _may_fold(value):
            self._lines.append(f"{head} >-{note}")
            self._lines += [f"{'  ' * (depth + 1)}{line}" for line in _folded(value, depth)]
        elif short is None:
            self._lines.append(f"{head} {_double_quoted(value)}{note}")
        else:
            self._lines.append(f"{head} {short}{note}")

    def _block(self, head: str, path: NodePath, depth: int, note: str) -> None:
        """A block scalar with its author's lines, at our margin."""
        raw = (self._source.source(path) or "").split("\n")
        header = re.sub(r"\s*#.*", "", raw[0]).strip()
        body = [line.rstrip() if not line.strip() else line for line in raw[1:]]
        while body and not body[-1].strip():
            body.pop()
        # Less indented comments below a block scalar are no part of it.
        own = next((_indent(line) for line in body if line.strip()), 0)
        kept = []
        for line in body:
            if line.strip() and _indent(line) < own:
                break
            kept.append(line)
        header = re.sub(r"[1-9]", "", header)
        self._lines.append(f"{head} {header}{note}")
        margin = "  " * (depth + 1)
        self._lines += [(margin + line[own:]) if line.strip() else "" for line in kept]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _ordered(value: dict[str, Any], path: NodePath) -> list[str]:
    """The keys in the order of the language; names of the author in the author's."""
    if path and (path[-1] in _AUTHORS_ORDER or path in _AUTHORS_PLACES):
        return list(value)
    order = _TOP if not path else (*_CLAUSE, *_TOP)
    rank = {key: number for number, key in enumerate(dict.fromkeys(order))}
    last = len(rank) + 1

    def place(key: str) -> int:
        return last + 1 if key in _LAST else rank.get(key, last)

    return sorted(value, key=place)


def _is_expression(path: NodePath) -> bool:
    if any(step in _AUTHORS_ORDER - {"evidence"} for step in path[:-1]):
        return False  # `{is: input.n}` may stay: what flow style would cut is quoted
    is_claim = path[:2] == ("answer", "claims") and len(path) == 3
    return path[-1] in EXPRESSION_KEYS or is_claim


def _scalar(value: str, *, is_key: bool = False, in_flow: bool = False) -> str:
    """Text on one line: plain where that reads back as the same text, else quoted."""
    if _is_plain(value, is_key=is_key, in_flow=in_flow):
        return value
    if "\\" in value or '"' in value:
        if "'" not in value and value.isprintable():
            return f"'{value}'"
        return _double_quoted(value)
    return _double_quoted(value)


def _double_quoted(value: str) -> str:
    parts = []
    for character in value:
        if character in '"\\':
            parts.append("\\" + character)
        elif character == "\n":
            parts.append("\\n")
        elif character == "\t":
            parts.append("\\t")
        elif not character.isprintable():
            code = ord(character)
            parts.append(f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}")
        else:
            parts.append(character)
    return '"' + "".join(parts) + '"'


def _is_plain(value: str, *, is_key: bool, in_flow: bool) -> bool:
    if not value or value != value.strip() or not value.isprintable() or value == "<<":
        return False
    if not _PLAIN_START.match(value) or ": " in value or " #" in value or value.endswith(":"):
        return False
    if value.startswith(("---", "...")) or (not is_key and value.lower() in _OLD_BOOLEANS):
        return False
    if in_flow and any(c in value for c in ",[]{}"):
        return False
    if (is_key or in_flow) and (":" in value or '"' in value or "'" in value):
        return False
    try:
        return isinstance(resolve(value), str)
    except NotAScalar:
        return False


def _may_fold(value: str) -> bool:
    """Whether folding gives the same text back: single spaces only, nothing hidden."""
    return value == " ".join(value.split(" ")) and "  " not in value and value.isprintable() and (
        value == value.strip()
    )  # fmt: skip


def _folded(value: str, depth: int) -> list[str]:
    """Lines of an expression or text, cut before `and` and `or` at the top where there are such."""
    room = max(WIDTH - 2 * (depth + 1), 20)
    lines: list[str] = []
    line = ""
    for word in value.split(" "):
        breaks = word in ("and", "or") and len(line) > room // 2
        if line and (len(line) + 1 + len(word) > room or breaks):
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}".lstrip()
    return [*lines, line]
