"""Checks of search indexes: their rows are the table's, however they are kept.

An index of FTS is kept in segments, which depend on when its rows came and went. What it says is
which term is at which places of which rows. One that says so soundly is shown as a digest of it;
any other as it is stored (decision 34).

FTS5 is asked itself. FTS3 and FTS4 cannot be: no table of theirs has places, and the nodes above
the leaves, which only searches read, could lead to leaves that no table shows. So their segments
are read here, and believed only where every search can find nothing else than is read:

1. Each block is of one segment, or a mark without content. The last of each segment is there.
2. The nodes above the leaves lead to each leaf once, in order, and every term is on the leaf to
   which they lead those who search for it. The terms of a segment ascend.
3. Numbers are written in one way, and rows ascend, or descend, in each list.
4. Of the lists of one term, what a newer segment says of a row holds; a row without places is out.
"""

from __future__ import annotations

import re
import sqlite3
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any, ClassVar, Final

import blake3

from statediff.model.batches import Row
from statediff.model.values import Map
from statediff.systems.relational.schema import quoted
from statediff.systems.sqlite.catalogue import Catalogue, kind_of
from statediff.systems.sqlite.definitions import Uncertain, arguments_of

MAX_INDEX_BYTES: Final = 1024 * 1024
"""A larger index is shown as it is stored: FTS5 takes about a second a MiB to say what is in it."""
_DEFINITION: Final = re.compile(
    r"""CREATE VIRTUAL TABLE\s+(?:\w+|"(?:[^"]|"")*"|'(?:[^']|'')*'|`[^`]*`|\[[^\]]*\])"""
    r"""\s+USING\s+(?P<module>fts[345])\s*(?P<arguments>\(.*)?""",
    re.IGNORECASE | re.DOTALL,
)
_OPTION: Final = re.compile(r"(\w+)\s*=\s*(.*)", re.DOTALL)


class _Unsound(Exception):
    """The stored index does not say one thing, or not in a way that is known here."""


class Stored:
    """The tables of one index, of which no more than `MAX_INDEX_BYTES` are read in all."""

    def __init__(self, connection: sqlite3.Connection, catalogue: Catalogue, name: str) -> None:
        self._connection, self._tables, self._name = connection, catalogue.tables, name
        self._left = MAX_INDEX_BYTES

    def rows(self, part: str, rest: str = "", /, **kinds: str) -> list[Any]:
        """Rows of a table, past every index: of each column, which kinds of values it may have.

        None of a table that is not there. Raises `_Unsound` and `sqlite3.Error`.
        """
        entry, found = self._tables.get(f"{self._name}_{part}"), list[Any]()
        if entry is None:
            return found
        columns = ", ".join([*kinds, *(f"typeof({column})" for column in kinds)])
        text = f"SELECT {columns} FROM main.{quoted(entry.name)} NOT INDEXED {rest}"  # noqa: S608 - quoted
        for values in self._connection.execute(text):
            row, types = values[: len(kinds)], values[len(kinds) :]
            self._left -= sum(len(each) if isinstance(each, bytes | str) else 8 for each in row)
            if self._left < 0:
                raise _Unsound("it is too large")
            if any(one not in may.split() for one, may in zip(types, kinds.values(), strict=True)):
                raise _Unsound("a value is of another kind")
            found.append(row)
        return found


@dataclass(frozen=True)
class SearchIndex(ABC):
    """A search index, as its definition says it is kept."""

    name: str
    """The folded name of its table; the tables it is kept in are called like it, and by what they
    hold."""
    tables: ClassVar[Mapping[str, tuple[str, ...]]]
    """Those tables, with their columns."""
    optional: ClassVar[frozenset[str]] = frozenset()
    shown: ClassVar[tuple[str, ...]]
    """Those that are shown together, as what the index says."""

    @property
    def parts(self) -> frozenset[str]:
        """The folded names of the tables that are shown together."""
        return frozenset(f"{self.name}_{each}" for each in self.shown)

    @abstractmethod
    def said(self, stored: Stored) -> Mapping[str, list[Row]]:
        """Rows, by column, for each table that is shown; none of one that is left out.

        Raises `_Unsound` and `sqlite3.Error` where it is to be shown as it is stored.
        """


def search_index(catalogue: Catalogue, table: str) -> SearchIndex | None:
    """The search index that is kept in a table of this folded name, among others.

    None also where it is defined or kept otherwise than is known here: then it is any table.
    """
    name, _, part = table.rpartition("_")
    lines = catalogue.lines.get(name, ()) if part in _TABLES else ()
    if len(lines) != 1:
        return None
    kind, _, _, root, sql = lines[0]
    is_known = not root and kind_of(kind) == "table" and isinstance(sql, str)
    found = _DEFINITION.fullmatch(sql) if is_known else None
    if found is None or "--" in sql or "/*" in sql:
        return None
    module = found["module"].lower()
    own = _Fts5 if module == "fts5" else _Fts4
    for each, columns in own.tables.items():
        entry = catalogue.tables.get(f"{name}_{each}")
        if entry is None and each in own.optional:
            continue
        if entry is None or tuple(column.name for column in entry.columns) != columns:
            return None
    try:
        arguments = arguments_of(sql) if found["arguments"] else []
    except Uncertain:
        return None
    if part not in own.tables:
        return None
    return _defined5(name, arguments) if module == "fts5" else _defined4(name, module, arguments)


def rows_said(
    index: SearchIndex, connection: sqlite3.Connection, catalogue: Catalogue
) -> dict[str, list[Row]] | None:
    """Rows for each table of `index.parts`, by its folded name; None where they are as stored."""
    try:
        said = index.said(Stored(connection, catalogue, index.name))
    except (_Unsound, sqlite3.Error, OverflowError):
        return None
    return {f"{index.name}_{part}": rows for part, rows in said.items()}


def _digest(content: Iterable[object]) -> Map:
    """The digest of all that an index says: no stored value is shown so."""
    digest = blake3.blake3()
    for each in content:
        digest.update(repr(each).encode())
    return Map.of({"blake3": digest.hexdigest()})


# FTS5

_VERSION: Final = 4
"""The version of the form in which an index is kept; a later one may hold more."""
_AVERAGES: Final = 1
_SEGMENTS: Final = 10
"""The records of the table with the segments that count terms, and that name the segments."""
_COLUMN: Final = re.compile(
    r"""(?:\w+|"(?:[^"]|"")*"|'(?:[^']|'')*'|`[^`]*`|\[[^\]]*\])(?:\s+UNINDEXED)?""",
    re.IGNORECASE,
)
_OPTIONS_5: Final = frozenset({"content", "content_rowid", "tokenize", "columnsize", "detail"})
"""Those that add nothing else to the index; `prefix` does."""
_DETAILS: Final = frozenset({"full", "column", "none"})


@dataclass(frozen=True)
class _Fts5(SearchIndex):
    columns: int
    detail: str
    tables: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "data": ("id", "block"),
        "idx": ("segid", "term", "pgno"),
        "config": ("k", "v"),
    }
    shown = ("data", "idx")

    def said(self, stored: Stored) -> Mapping[str, list[Row]]:
        """In the place of the record that names the segments is a digest of terms and places."""
        if stored.rows("config", "WHERE +k = 'version'", v="integer") != [(_VERSION,)]:
            raise _Unsound("it is kept in another form")
        data = stored.rows("data", "ORDER BY +id", id="integer", block="blob")
        idx = stored.rows("idx", segid="integer", term="blob", pgno="integer")
        counted: list[Row] = [{"id": at, "block": block} for at, block in data if at == _AVERAGES]
        content = _digest(self._places(data, idx))
        return {"data": [*counted, {"id": _SEGMENTS, "block": content}], "idx": []}

    def _places(self, data: Iterable[Any], idx: Iterable[Any]) -> Iterator[object]:
        """Every place of every term, as FTS5 itself tells it of these rows.

        It is asked in a database in memory, in which there is nothing else. Raises where it finds
        its index damaged, or finds a term otherwise when it is searched for.
        """
        names = ", ".join(f"c{at}" for at in range(self.columns))
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
            db.text_factory = bytes
            db.execute(
                f"CREATE VIRTUAL TABLE f USING fts5({names}, content='', detail={self.detail})"
            )
            db.execute("DELETE FROM f_data")
            db.execute("DELETE FROM f_idx")
            db.executemany("INSERT INTO f_data VALUES (?, ?)", data)
            db.executemany("INSERT INTO f_idx VALUES (?, ?, ?)", idx)
            db.execute("INSERT INTO f (f) VALUES ('integrity-check')")
            db.execute("CREATE VIRTUAL TABLE said USING fts5vocab(f, instance)")
            told = db.execute("SELECT * FROM said").fetchall()
            for term, places in groupby(told, itemgetter(0)):
                own = list(places)
                found = db.execute("SELECT * FROM said WHERE term = CAST(? AS TEXT)", (term,))
                if found.fetchall() != own:
                    raise _Unsound("a term is found elsewhere when it is searched for")
                yield own


def _defined5(name: str, arguments: Iterable[str]) -> SearchIndex | None:
    """The index that these arguments of FTS5 make; None where it may hold more than its terms.

    >>> _defined5("found", ["title", "body UNINDEXED", "content='note'"])
    _Fts5(name='found', columns=2, detail='full')
    >>> _defined5("found", ["title", "prefix='2 3'"])
    """
    columns, detail = 0, "full"
    for argument in arguments:
        option = _OPTION.fullmatch(argument)
        if option is None and _COLUMN.fullmatch(argument):
            columns += 1
        elif option is None or option[1].lower() not in _OPTIONS_5:
            return None
        elif option[1].lower() == "detail":
            detail = option[2].strip("'\"").lower()
    return _Fts5(name, columns, detail) if columns and detail in _DETAILS else None


# FTS3 and FTS4

_OPTIONS_4: Final = frozenset(
    {"matchinfo", "prefix", "compress", "uncompress", "order", "content", "languageid"}
    | {"notindexed"}
)
_TOKENIZER: Final = re.compile(r"tokenize\b.*", re.IGNORECASE | re.DOTALL)
_ORDER: Final = re.compile(r"""(["'`\[]?)(asc|desc)["'`\]]?""", re.IGNORECASE)
_LEVELS: Final = 1024
"""Levels of each index: of the terms, and of prefixes of each length, of each language."""
_MOST_LEVELS: Final = 64
_MOST_SEGMENTS: Final = 2**20
_MOST_BLOCKS: Final = 2**60
"""Far more than merging makes; where the next is counted from here, it comes after all others."""
_HEIGHTS: Final = 16
"""Heights of nodes for which a segment that may grow has blocks."""
_COUNTS: Final = 0
_HINT: Final = 1
"""The records that count terms, and that say which segments to merge next."""
_MOST_SHARED: Final = 64
"""How many times longer the terms of a node may be than the node, as they share what they begin
with."""
_V: Final = rb"[\x80-\xff]{0,9}+[\x01-\x7f]"
"""A number that is not zero, in the shortest form; no byte of it is zero."""
_P: Final = rb"(?:[\x02-\x7f]|[\x80-\xff]{1,9}+[\x01-\x7f])"
"""A place, as two more than the distance from the one before; 1 begins another column."""
_PLACES: Final = rb"%b*(?:\x01%b%b+)*" % (_P, _V, _P)
_NUMBER: Final = re.compile(rb"\x00|" + _V)
_ROW: Final = re.compile(rb"(\x00|%b)(%b)\x00" % (_V, _PLACES))
_OWN: Final = rb"(?!\x00)%b\x00" % _PLACES
_PLAIN: Final = re.compile(rb"(?:\x00|%b)%b(?:%b%b)*" % (_V, _OWN, _V, _OWN))
"""A list whose every row has places."""
_HINTS: Final = re.compile(rb"(?:(?:\x00|[\x80-\xff]{0,5}[\x01-\x7f])[\x80-\xff]{0,3}[\x01-\x7f])*")
_END: Final = re.compile(r"(0|[1-9][0-9]{0,17}) -?[1-9][0-9]{0,17}")
"""The last block of a segment, with how many bytes are on its leaves."""
_NUMBERS: Final = 2**64
_Blocks = Mapping[int, bytes | None]


@dataclass(frozen=True)
class _Segment:
    """A tree of nodes; the leaves are blocks `start` to `last`, other nodes up to `end`.

    One that has no blocks is one leaf, its root.
    """

    start: int
    last: int
    end: int
    root: bytes

    def terms(self, blocks: _Blocks) -> Iterator[tuple[bytes, bytes]]:
        """(term, list of its rows) in the order of terms. Raises `_Unsound`."""
        if not self.start:
            if self.last or self.end:
                raise _Unsound("a segment without blocks names some")
            yield from _terms(self.root, is_leaf=True)
            return
        above, following = b"", self.start
        for block, lower, upper in self._leaves(blocks, self.root, self.root[:1], b"", None):
            if block != following or block > self.last:
                raise _Unsound("a search is led past a leaf")
            for term, rows in _terms(blocks.get(block), is_leaf=True):
                if term <= above or term < lower or (upper is not None and term >= upper):
                    raise _Unsound("a term is not where a search looks for it")
                above = term
                yield term, rows
            following += 1
        if following <= self.last:
            raise _Unsound("no search is led to a leaf")

    def _leaves(
        self, blocks: _Blocks, node: bytes | None, height: bytes, lower: bytes, upper: bytes | None
    ) -> Iterator[tuple[int, bytes, bytes | None]]:
        """(block, lower bound, upper bound) of each leaf, from left to right."""
        if not node or node[:1] != height or not 0 < height[0] < _MOST_LEVELS:
            raise _Unsound("a node is not of the height that it should be")
        child, at = _number(node, 1)
        bounds = [lower, *(term for term, _ in _terms(node, at, is_leaf=False)), upper]
        for one, two in pairwise(bounds):
            if one is None or (two is not None and one >= two):
                raise _Unsound("a node is out of order")
            if height == b"\1":
                yield child, one, two
            elif child not in self._nodes(blocks, height[0] - 1):
                raise _Unsound("a node is not where nodes of its height are")
            else:
                below = bytes([height[0] - 1])
                yield from self._leaves(blocks, blocks.get(child), below, one, two)
            child += 1

    def _nodes(self, blocks: _Blocks, height: int) -> range:
        """The blocks of nodes so far above the leaves.

        One that ends with a mark may grow, where merging goes on: each height has its own blocks.
        """
        if blocks[self.end] is not None:
            return range(self.last + 1, self.end + 1)
        most = (self.end - self.start + 1) // _HEIGHTS
        return range(self.start + height * most, self.start + (height + 1) * most)


def _number(content: bytes, at: int) -> tuple[int, int]:
    r"""The number that begins at a place, and where it ends: seven bits a byte, low ones first.

    >>> _number(b"\x85\x01", 0)
    (133, 2)
    """
    found = _NUMBER.match(content, at)
    if found is None:
        raise _Unsound("a number is not written as it should be")
    written = found[0]
    if len(written) == 1:
        return written[0], at + 1
    number = sum((byte & 127) << (7 * place) for place, byte in enumerate(written))
    if number >= _NUMBERS:
        raise _Unsound("a number is too large")
    return number, at + len(written)


def _terms(node: bytes | None, at: int = 1, *, is_leaf: bool) -> Iterator[tuple[bytes, bytes]]:
    """(term, list of its rows) of a node, in ascending order; nodes above the leaves have none."""
    if not node or (is_leaf and (node[0] or len(node) == 1)):
        raise _Unsound("there is no leaf")
    term = rows = b""
    left = _MOST_SHARED * len(node)
    while at < len(node):
        shared, at = _number(node, at) if term else (0, at)
        added, at = _number(node, at)
        following = term[:shared] + node[at : at + added]
        at += added
        left -= len(following)
        if at > len(node) or shared > len(term) or following <= term or left < 0:
            raise _Unsound("terms are out of order")
        term = following
        if is_leaf:
            size, at = _number(node, at)
            rows = node[at : at + size]
            at += size
            if at > len(node) or not size:
                raise _Unsound("a list of rows is cut off")
        yield term, rows


@dataclass(frozen=True)
class _Fts4(SearchIndex):
    is_descending: bool
    """Rows with higher numbers come first."""
    tables: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "segdir": ("level", "idx", "start_block", "leaves_end_block", "end_block", "root"),
        "segments": ("blockid", "block"),
        "stat": ("id", "value"),
    }
    optional = frozenset({"stat"})
    shown = ("segdir", "segments", "stat")

    def said(self, stored: Stored) -> Mapping[str, list[Row]]:
        """One row for all segments, with a digest of terms and places in the place of a root.

        Of the counts, none are as good as zeros. Which segments to merge next is left out.
        """
        listed = stored.rows(
            "segdir", level="integer", idx="integer", start_block="integer",
            leaves_end_block="integer", end_block="integer text", root="blob",
        )  # fmt: skip
        blocks = dict(stored.rows("segments", blockid="integer", block="blob null"))
        counts = dict(stored.rows("stat", id="integer", value="blob integer"))
        hint = counts.pop(_HINT, b"")
        if not isinstance(hint, bytes) or not _HINTS.fullmatch(hint):
            raise _Unsound("it is to be merged in a way that cannot be")
        if isinstance(count := counts.get(_COUNTS), bytes) and not any(count):
            del counts[_COUNTS]
        content = _digest(self._lists(_in_order(listed), blocks))
        columns: Row = dict.fromkeys(self.tables["segdir"])
        return {
            "segdir": [columns | {"level": 0, "idx": 0, "root": content}],
            "segments": [],
            "stat": [{"id": at, "value": value} for at, value in counts.items()],
        }

    def _lists(
        self, segments: Mapping[int, list[_Segment]], blocks: _Blocks
    ) -> Iterator[tuple[int, bytes, bytes]]:
        """(index, term, list of its rows), as a merge of all segments would write it."""
        _check_blocks([each for own in segments.values() for each in own], blocks)
        for index, own in sorted(segments.items()):
            found: dict[bytes, list[bytes]] = {}
            for segment in own:
                for term, rows in segment.terms(blocks):
                    found.setdefault(term, []).append(rows)
            for term, lists in sorted(found.items()):
                is_plain = len(lists) == 1 and _PLAIN.fullmatch(lists[0])
                rows = lists[0] if is_plain else self._merged(lists)
                if rows:
                    yield index, term, rows

    def _merged(self, lists: Iterable[bytes]) -> bytes:
        """One list of lists, the newest first."""
        sign = -1 if self.is_descending else 1
        found: dict[int, bytes] = {}
        for rows in lists:
            for row, places in _rows(rows, sign):
                found.setdefault(row, places)
        merged, former = bytearray(), 0
        for row in sorted(found, reverse=self.is_descending):
            if found[row]:
                merged += _written((row - former) * (sign if merged else 1))
                merged += found[row] + b"\0"
                former = row
        return bytes(merged)


def _in_order(listed: Iterable[Any]) -> dict[int, list[_Segment]]:
    """The segments of each index, the newest first. Raises `_Unsound`."""
    found: dict[int, list[_Segment]] = {}
    for level, at, start, last, end, root in sorted(listed, key=lambda row: (row[0], -row[1])):
        index, height = divmod(level, _LEVELS)
        if index < 0 or height >= _MOST_LEVELS or not 0 <= at < _MOST_SEGMENTS:
            raise _Unsound("a segment is on a level that there is not")
        if not isinstance(end, int) and not (isinstance(end, str) and _END.fullmatch(end)):
            raise _Unsound("the end of a segment is not written as it should be")
        block = int(str(end).partition(" ")[0])
        found.setdefault(index, []).append(_Segment(start, last, block, root))
    return found


def _check_blocks(segments: Iterable[_Segment], blocks: _Blocks) -> None:
    """Each block is of one segment, and the last of each is there. Raises `_Unsound`.

    Else another segment gets its number later, and two share a block. Merging that comes to
    nothing leaves its mark.
    """
    spans = sorted((each.start, each.end) for each in segments if each.start)
    if any(one[1] >= two[0] for one, two in pairwise(spans)):
        raise _Unsound("two segments share a block")
    ends = {end for _, end in spans}
    if not all(0 < start <= end and end in blocks for start, end in spans):
        raise _Unsound("the end of a segment is not there")
    for block, content in blocks.items():
        span = bisect_right(spans, (block, _NUMBERS)) - 1
        is_own = span >= 0 and block <= spans[span][1]
        if not 0 < block < _MOST_BLOCKS or (content is not None and not is_own):
            raise _Unsound("a block is of no segment")
        if content is None and is_own and block not in ends:
            raise _Unsound("a block has no content")


def _rows(rows: bytes, sign: int) -> Iterator[tuple[int, bytes]]:
    """(row id, its places) of a list, each number less or greater than the one before."""
    at, row = 0, None
    while found := _ROW.match(rows, at):
        written, places = found.groups()
        number = written[0] if len(written) == 1 else _number(written, 0)[0]
        if row is None:
            row = number - _NUMBERS if number >= _NUMBERS // 2 else number
        else:
            row += sign * number
            if not number or not -_NUMBERS // 2 <= row < _NUMBERS // 2:
                raise _Unsound("rows are out of order")
        at = found.end()
        yield row, places
    if at != len(rows):
        raise _Unsound("a list of rows is not written as it should be")


def _written(number: int) -> bytes:
    """The number as the index has it; `_number` reads it."""
    left, written = number % _NUMBERS, bytearray()
    while left > 127:
        written.append(left & 127 | 128)
        left >>= 7
    return bytes([*written, left])


def _defined4(name: str, module: str, arguments: Iterable[str]) -> SearchIndex | None:
    """The index that these arguments of FTS3 or FTS4 make; None where they are not known.

    >>> _defined4("found", "fts4", ["title", "order=desc", "tokenize=porter", 'prefix="2,3"'])
    _Fts4(name='found', is_descending=True)
    >>> _defined4("found", "fts3", ["title", "order=desc"])
    """
    is_descending = False
    for argument in arguments:
        option = _OPTION.fullmatch(argument)
        if _TOKENIZER.fullmatch(argument) or "=" not in argument:
            continue
        if option is None or module == "fts3" or option[1].lower() not in _OPTIONS_4:
            return None
        if option[1].lower() == "order":
            order = _ORDER.fullmatch(option[2])
            if order is None:
                return None
            is_descending = order[2].lower() == "desc"
    return _Fts4(name, is_descending)


_TABLES: Final = frozenset({*_Fts5.tables, *_Fts4.tables})
