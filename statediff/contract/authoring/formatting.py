"""`fmt`: a contract in its one canonical form, comments kept, meaning untouched.

Keys stand in the order of the language; expressions in block style; two spaces a level; text is
quoted only where it must be. A short mapping or list that its author wrote on one line stays on one
line. A comment stays above or beside the node that it was above or beside. The result is read again
and compared with the original, so a file is either formatted or left as it is.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.tokens import ScalarToken

from statediff.contract.document.contract import KINDS, ContractDocument
from statediff.contract.document.load import checked
from statediff.contract.yaml.composer import NotAScalar, holds_an_expression, resolve
from statediff.contract.yaml.reader import Document, NodePath, read_document
from statediff.errors import ContractError, Problem

WIDTH: Final = 100
_TOP: Final = tuple(f.alias or name for name, f in ContractDocument.model_fields.items())
_KEYS: Final = {section: kind.keys for kind in KINDS for section in kind.sections}
_OTHER_KEYS: Final = (
    *("what", "type", "use", "on", "match_on", "version", "resolution", "scale", "round"),
    *("reversible", "conditional", "irreversible"),
    *("max_age", "authority", "over", "history"),
)
"""The keys of what is no clause."""

_ANY_KEYS: Final = (*(key for kind in KINDS for key in kind.keys), *_OTHER_KEYS, *_TOP)

_LAST: Final = ("because",)
_AUTHORS_ORDER: Final = frozenset({"inputs", "set", "from", "schema", "match_on", "evidence"})
"""Below these, keys are the author's names, and so is their order."""

_AUTHORS_PLACES: Final = frozenset(path for kind in KINDS for path in kind.named_by_author)

_OLD_BOOLEANS: Final = frozenset({"yes", "no", "on", "off", "y", "n"})
"""Text in YAML 1.2 and truth in 1.1: quoted, so that no reader wonders."""

_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}
_COMMENT: Final = re.compile(r"#[^\n]*")
_PLAIN_START: Final = re.compile(r"[^\s\-?:,\[\]{}#&*!|>'\"%@`]|[-?:][^\s,\[\]{}]")


@dataclass
class _Comments:
    above: dict[NodePath, list[str]] = field(default_factory=dict)
    beside: dict[NodePath, str] = field(default_factory=dict)
    at_head: list[str] = field(default_factory=list)
    at_end: list[str] = field(default_factory=list)
    blank_above: set[NodePath] = field(default_factory=set)


def format_contract(data: bytes, file: str) -> bytes:
    """The contract in canonical form; `ContractError` for what is none, or cannot be kept."""
    source = read_document(data, file)
    content = checked(source)
    found = list(_found_comments(source.text))
    written = _Writer(source, _comments(source, found)).document().encode()
    again = read_document(written, file)
    same = checked(again)
    has_all = _texts(_found_comments(again.text)) == _texts(found)
    if same == content and again.value == source.value and has_all:
        return written
    message = "this file cannot be formatted without changing it"
    hint = "move comments out of { } and [ ], and write text on one line"
    raise ContractError((Problem(file, 1, 1, message, "unformattable", hint),))


# ---------------------------------------------------------------- comments


@dataclass(frozen=True)
class _Comment:
    line: int
    text: str
    is_beside: bool
    """True if something else stands before it on its line."""


def _found_comments(text: str) -> Iterator[_Comment]:
    """Every comment of a text that was read, in order.

    Between ruamel.yaml's tokens there is nothing but spaces, line ends and comments; of the tokens
    only a block scalar holds one, behind its header.
    """
    gaps: list[tuple[int, int]] = []
    at = 0
    for token in YAML(typ="safe", pure=True).scan(text):
        start, end = token.start_mark.index, token.end_mark.index
        gaps.append((at, start))
        if isinstance(token, ScalarToken) and token.style in ("|", ">"):
            gaps.append((start, start + len(text[start:end].partition("\n")[0])))
        at = max(at, end)
    line, last = 1, 0
    for start, end in (*gaps, (at, len(text))):
        for found in _COMMENT.finditer(text, start, end):
            line += text.count("\n", last, found.start())
            last = found.start()
            before = text[text.rfind("\n", 0, last) + 1 : last]
            yield _Comment(line, found[0].rstrip(), bool(before.strip()))


def _texts(comments: Iterable[_Comment]) -> list[str]:
    return sorted(comment.text for comment in comments)


def _comments(source: Document, comments: Iterable[_Comment]) -> _Comments:
    """Which node each comment, and each blank line, stands above or beside."""
    lines = source.text.split("\n")
    first: dict[int, NodePath] = {}
    for path, position in source.positions.items():
        if path:
            first.setdefault(position.key_line, path)
    starts = sorted(first)
    found = _Comments()
    for comment in comments:
        below = bisect_right(starts, comment.line)
        if not below:  # of the file, whichever key comes first
            if found.at_head and not lines[comment.line - 2].strip():
                found.at_head.append("")
            found.at_head.append(comment.text)
        elif comment.is_beside:
            node = first[starts[below - 1]]
            known = found.beside.get(node)
            found.beside[node] = comment.text if known is None else f"{known} {comment.text}"
        elif below == len(starts):
            found.at_end.append(comment.text)
        else:
            found.above.setdefault(first[starts[below]], []).append(comment.text)
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
        self._source_lines = source.text.split("\n")
        self._lines: list[str] = []

    def document(self) -> str:
        self._lines += self._comments.at_head
        self._mapping(self._source.value, (), 0)
        self._lines += self._comments.at_end
        return "\n".join(self._lines).lstrip("\n") + "\n"

    def _mapping(self, value: dict[str, Any], path: NodePath, depth: int) -> None:
        for key in _sort_keys(value, path):
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
        body = self._lines[start:]
        head = next(i for i, line in enumerate(body) if line and not line.lstrip().startswith("#"))
        # A blank line above a key that now comes first would part the item from its comments.
        self._lines[start:] = [
            *(margin + line.lstrip() for line in body[:head] if line),
            f"{margin}- {body[head].removeprefix(f'{margin}  ')}{note}",
            *body[head + 1 :],
        ]

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
        position = self._source.positions[path]
        line = self._source_lines[position.line - 1]
        if not isinstance(value, (dict, list)) or line[position.column - 1 :][:1] not in ("{", "["):
            return None
        return self._flow(value, path)

    def _flow(self, value: Any, path: NodePath) -> str | None:
        """The value on one line; None where a comment, expression or line end in it forbids it."""
        if not isinstance(value, (dict, list)):
            return self._short(value, path, in_flow=True)
        is_mapping = isinstance(value, dict)
        members: Mapping[Any, Any] = value if isinstance(value, dict) else dict(enumerate(value))
        parts: list[str] = []
        for step in _sort_keys(value, path) if isinstance(value, dict) else members:
            at = (*path, step)
            if at in self._comments.above or at in self._comments.beside or holds_an_expression(at):
                return None
            inner = self._flow(members[step], at)
            if inner is None:
                return None
            key = f"{_scalar(step, is_key=True, in_flow=True)}: " if is_mapping else ""
            parts.append(key + inner)
        return f"{{{', '.join(parts)}}}" if is_mapping else f"[{', '.join(parts)}]"

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
            self._lines += [f"{'  ' * (depth + 1)}{line}" for line in _fold(value, depth)]
        elif short is None:
            self._lines.append(f"{head} {double_quote(value)}{note}")
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


def _sort_keys(value: dict[str, Any], path: NodePath) -> list[str]:
    """The keys in the order of the language; names of the author in the author's."""
    if path and (path[-1] in _AUTHORS_ORDER or path in _AUTHORS_PLACES):
        return list(value)
    order = (*_KEYS.get(str(path[0]), _OTHER_KEYS), *_ANY_KEYS) if path else _TOP
    rank = {key: number for number, key in enumerate(dict.fromkeys(order))}
    last = len(rank) + 1

    def place(key: str) -> int:
        return last + 1 if key in _LAST else rank.get(key, last)

    return sorted(value, key=place)


def _scalar(value: str, *, is_key: bool = False, in_flow: bool = False) -> str:
    """Text on one line: plain where that reads back as the same text, else quoted."""
    if _is_plain(value, is_key=is_key, in_flow=in_flow):
        return value
    if ("\\" in value or '"' in value) and "'" not in value and value.isprintable():
        return f"'{value}'"
    return double_quote(value)


def double_quote(value: str) -> str:
    """Text in double quotes, on one line, as YAML reads it back."""

    def escaped(character: str) -> str:
        if character in _ESCAPES or character.isprintable():
            return _ESCAPES.get(character, character)
        code = ord(character)
        return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"

    return '"' + "".join(map(escaped, value)) + '"'


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
    """True if folding gives the same text back: single spaces only, nothing hidden."""
    return "  " not in value and value.isprintable() and value == value.strip()


def _fold(value: str, depth: int) -> list[str]:
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
