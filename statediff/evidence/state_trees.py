"""The rows of one captured type as a keyed tree, and another state's tree by what changed.

The form of the tree is in `verify`. It keeps 64 bytes a row, sorted by path, and the nodes of its
upper levels, so that what a change costs follows the change. Paths and salts are pseudo-random
functions of a secret: who does not know it learns nothing from a root or from a node.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from statediff.evidence.canonical import write
from statediff.evidence.documents import fields_document, key_document
from statediff.evidence.verify import row_node, row_path
from statediff.model.batches import KEYLESS_KEY, TAGGED, Row, batch_digest, decode_column, form_of
from statediff.model.schema import EntityType, Kind
from statediff.model.state import RowChange, Table
from statediff.model.values import Key, encode
from statediff.uncollected import uncollected

EMPTY: Final = bytes(32)
SALT_BYTES: Final = 16
_NULL: Final = '["null"]'
_PLAIN: Final = {
    Kind.INT.value: ('["int","', '"]'),
    Kind.TEXT.value: ('["text","', '"]'),
    Kind.JSON.value: ('["text","', '"]'),
    Kind.BOOL.value: ('["bool",', "]"),
}
"""Forms whose cells are written as they are stored, and what stands around them."""
_ABSENT: Final = b'["absent"]'
_ESCAPED: Final = r'["\\\x00-\x1f]'
_BUCKET_BITS: Final = 4
"""Levels at the bottom of a tree that are made anew when they are asked for."""
_WORD: Final = 64


@dataclass(frozen=True, repr=False)
class Secret:
    """The secret of paths and salts. `paths` is for readers of a proof, `salts` for nobody."""

    paths: bytes
    salts: bytes

    @staticmethod
    def of(secret: bytes) -> Secret:
        """The two, of one secret of a run; the same for all its captures."""
        parts = (hashlib.sha256(b"statediff/%b\x00%b" % (use, secret)) for use in _USES)
        return Secret(*(part.digest() for part in parts))

    def path(self, source: str, name: str, key: Key) -> bytes:
        """The path of the row in the tree of its type."""
        return row_path(self.paths, write([source, name, key_document(key)]))

    def salt(self, path: bytes) -> bytes:
        """The salt of the row at a path."""
        return hashlib.sha256(self.salts + path).digest()[:SALT_BYTES]

    def salt_of(self, *names: str) -> bytes:
        """The salt of what is named otherwise than by a path."""
        return self.salt(hashlib.sha256(write(list(names))).digest())


_USES: Final = (b"row-paths", b"row-salts")


def row_digest(salt: bytes, row: Row) -> bytes:
    """The salted digest of a row's fields, in their order."""
    return hashlib.sha256(salt + write(fields_document(tuple(row.items())))).digest()


# --- what is written of the rows of a batch ----------------------------------------------------


def row_texts(entity: EntityType, batch: pa.RecordBatch) -> list[bytes]:
    """The canonical JSON of the fields of each row, as `fields_document` has them."""
    parts = [
        _joined(f"[{write(spec.name).decode()},", _cells(batch, spec.name), "]")
        for spec in entity.fields
    ]
    return _listed(parts, batch.num_rows)


def key_texts(entity: EntityType, batch: pa.RecordBatch) -> list[bytes]:
    """The canonical JSON of the key of each row."""
    if entity.is_keyless:
        keys = decode_column(*_column(batch, KEYLESS_KEY))
        return [write(key_document(key)) for key in keys]
    return _listed([_cells(batch, name) for name in entity.key], batch.num_rows)


def _listed(parts: Sequence[Any], rows: int) -> list[bytes]:
    if not parts:
        return [b"[]"] * rows
    whole = _joined("[", pc.binary_join_element_wise(*parts, ","), "]")
    return whole.cast(pa.binary()).to_pylist() if rows else []


def _joined(before: str, cells: Any, after: str) -> Any:
    return pc.binary_join_element_wise(before, cells, after, "")


def _column(batch: pa.RecordBatch, name: str) -> tuple[pa.Array, str]:
    index = batch.schema.get_field_index(name)
    return batch.column(index), form_of(batch, index)


def _cells(batch: pa.RecordBatch, name: str) -> pa.Array:
    """The canonical JSON of each cell of a column."""
    if batch.schema.get_field_index(name) < 0:
        return pa.array([_ABSENT.decode()] * batch.num_rows, pa.string())
    column, form = _column(batch, name)
    around = _PLAIN.get(form)
    if around is not None:
        texts = column if pa.types.is_string(column.type) else column.cast(pa.string())
        if not pc.any(pc.match_substring_regex(texts, _ESCAPED)).as_py():
            return pc.fill_null(_joined(around[0], texts, around[1]), _NULL)
    elif form == TAGGED and not pc.any(pc.match_substring(column, b"\\")).as_py():
        return column.cast(pa.string())
    written = [write(encode(value)).decode() for value in decode_column(column, form)]
    return pa.array(written, pa.string())


# --- trees -------------------------------------------------------------------------------------


class Leaf(NamedTuple):
    """A row by its path and its salted digest."""

    path: bytes
    digest: bytes


class _Node(NamedTuple):
    leaves: int
    digest: bytes


_NOTHING: Final = _Node(0, EMPTY)


@dataclass(frozen=True, repr=False)
class Tree:
    """Leaves sorted by path, each `paths[32 * n :]` with `digests[32 * n :]`."""

    paths: bytes
    digests: bytes

    def __len__(self) -> int:
        return len(self.paths) // 32

    @staticmethod
    def of(leaves: Iterable[tuple[bytes, bytes]]) -> Tree:
        """The tree of leaves, (path, digest), in any order."""
        found = sorted(leaves)
        return Tree(b"".join([path for path, _ in found]), b"".join([own for _, own in found]))

    @cached_property
    def _heads(self) -> Any:
        return np.frombuffer(self.paths, ">u8")[::4].astype(np.uint64)

    @cached_property
    def _depth(self) -> int:
        return max(len(self).bit_length() - _BUCKET_BITS, 0)

    @cached_property
    def levels(self) -> list[list[_Node]]:
        """The nodes of each level, from the root to the buckets, in the order of their paths."""
        depth = self._depth
        starts = np.arange(1, 1 << depth, dtype=np.uint64) << np.uint64(
            _WORD - depth if depth else 0
        )
        cuts = [0, *self._heads.searchsorted(starts).tolist(), len(self)]
        level = [_made(self._leaves(low, high), depth) for low, high in pairwise(cuts)]
        levels = [level]
        while len(level) > 1:
            level = [_joint(one, two) for one, two in zip(level[::2], level[1::2], strict=True)]
            levels.append(level)
        return levels[::-1]

    @property
    def root(self) -> bytes:
        """The root; zeros of a tree without leaves."""
        return self.levels[0][0].digest

    def _leaves(self, low: int, high: int) -> list[tuple[bytes, bytes]]:
        paths, digests = self.paths, self.digests
        places = range(32 * low, 32 * high, 32)
        return [(paths[at : at + 32], digests[at : at + 32]) for at in places]

    def find(self, path: bytes) -> bytes | None:
        """The digest of the row at a path; None where none is."""
        low, high = self._range(path, 256)
        return self.digests[32 * low : 32 * low + 32] if low < high else None

    def _range(self, path: bytes, depth: int) -> tuple[int, int]:
        """The places of the leaves whose paths begin with the first bits of this one."""
        number = int.from_bytes(path)
        first = number >> (256 - depth) << (256 - depth)
        last = first + (1 << (256 - depth)) - 1
        heads = self._heads
        low = int(heads.searchsorted(np.uint64(first >> 192), "left"))
        high = int(heads.searchsorted(np.uint64(last >> 192), "right"))
        if depth > _WORD:
            inside = [path for path, _ in self._leaves(low, high)]
            low, high = (
                low + bisect_left(inside, first.to_bytes(32)),
                low + bisect_left(inside, (last + 1).to_bytes(33), key=lambda p: b"\0" + p),
            )
        return low, high

    def changed(self, changes: Mapping[bytes, bytes | None]) -> bytes:
        """The root with these digests at these paths instead; None where no row is any more."""
        depth = self._depth
        places: dict[int, dict[bytes, bytes | None]] = {}
        for path, digest in changes.items():
            places.setdefault(int.from_bytes(path) >> (256 - depth), {})[path] = digest
        level: dict[int, _Node] = {}
        for place, own in places.items():
            start = (place << (256 - depth)).to_bytes(32)
            leaves = dict(self._leaves(*self._range(start, depth)))
            for path, digest in own.items():
                if digest is None:
                    leaves.pop(path, None)
                else:
                    leaves[path] = digest
            level[place] = _made(sorted(leaves.items()), depth)
        for known in reversed(self.levels[1:]):
            above: dict[int, _Node] = {}
            for place in {place >> 1 for place in level}:
                one, two = 2 * place, 2 * place + 1
                above[place] = _joint(level.get(one) or known[one], level.get(two) or known[two])
            level = above
        return level[0].digest if level else self.root

    def beside(self, paths: Iterable[bytes]) -> tuple[list[tuple[int, bytes, bytes]], list[Leaf]]:
        """The rest of the tree beside these paths: nodes of others, and leaves alone.

        A node is (depth, a path below it, digest).
        """
        nodes: list[tuple[int, bytes, bytes]] = []
        alone: list[Leaf] = []
        work: list[tuple[int, bytes, list[bytes]]] = [(0, EMPTY, sorted(set(paths)))]
        while work:
            depth, start, listed = work.pop()
            low, high = self._range(start, depth)
            if low == high:
                continue
            if high - low == 1:
                [leaf] = self._leaves(low, high)
                if leaf[0] not in listed:
                    alone.append(Leaf(*leaf))
            elif not listed:
                nodes.append((depth, start, self._node(depth, start, low, high)))
            else:
                bit = 1 << (255 - depth)
                right = (int.from_bytes(start) | bit).to_bytes(32)
                cut = bisect_left(listed, right)
                work += [(depth + 1, start, listed[:cut]), (depth + 1, right, listed[cut:])]
        return sorted(nodes), sorted(alone)

    def _node(self, depth: int, start: bytes, low: int, high: int) -> bytes:
        if depth <= self._depth:
            return self.levels[depth][int.from_bytes(start) >> (256 - depth)].digest
        return _made(self._leaves(low, high), depth).digest


def _joint(one: _Node, two: _Node) -> _Node:
    """The node over two: a leaf alone is as near to the top as it can be."""
    count = one.leaves + two.leaves
    if count > 1:
        return _Node(count, row_node(one.digest, two.digest))
    return one if one.leaves else two


def _made(leaves: Sequence[tuple[bytes, bytes]], depth: int) -> _Node:
    """The node at a depth over sorted leaves."""
    if not leaves:
        return _NOTHING
    sha256 = hashlib.sha256
    hashes = [sha256(b"\x00" + path + digest).digest() for path, digest in leaves]
    numbers = [int.from_bytes(path) for path, _ in leaves]
    return _Node(len(leaves), _over(numbers, hashes, 0, len(leaves), 255 - depth))


def _over(
    numbers: Sequence[int], hashes: Sequence[bytes], low: int, high: int, shift: int
) -> bytes:
    """The hash over some of the leaves, which are alike in all bits above that one."""
    if high - low <= 1:
        return hashes[low] if low < high else EMPTY
    middle = bisect_left(numbers, (numbers[low] >> shift | 1) << shift, low, high)
    one = _over(numbers, hashes, low, middle, shift - 1)
    two = _over(numbers, hashes, middle, high, shift - 1)
    return hashlib.sha256(b"\x01" + one + two).digest()


# --- the tree of a table -----------------------------------------------------------------------


_Parts = tuple[Mapping[str, bytes], ...]
"""Column → the digest of its part, for each chunk."""


@dataclass(frozen=True, repr=False)
class TableTree:
    """A table's rows as a tree, and its columns by digest, chunk by chunk."""

    tree: Tree
    parts: _Parts


def table_tree(secret: Secret, source: str, table: Table) -> TableTree:
    """The tree of all rows of a table."""
    sha256, salts = hashlib.sha256, secret.salts
    lead = secret.paths + write([source, table.type.name])[:-1] + b","
    found: list[tuple[bytes, bytes]] = []
    with uncollected():
        for batch in table.batches():
            paths = [sha256(lead + key + b"]").digest() for key in key_texts(table.type, batch)]
            own = [sha256(salts + path).digest()[:SALT_BYTES] for path in paths]
            rows = row_texts(table.type, batch)
            digests = [sha256(salt + row).digest() for salt, row in zip(own, rows, strict=True)]
            found += zip(paths, digests, strict=True)
        return TableTree(Tree.of(found), column_parts(table))


def column_parts(table: Table, base: Table | None = None, known: _Parts = ()) -> _Parts:
    """The digests of the columns, chunk by chunk; what is as in `base` is taken from its own."""
    found = []
    for at, ref in enumerate(table.chunks):
        old = None
        if base is not None and at < len(base.chunks):
            if base.chunks[at].digest == ref.digest:
                found.append(known[at])
                continue
            old = base.store.get(base.chunks[at]), known[at]
        found.append(_column_digests(table.store.get(ref), old))
    return tuple(found)


def _column_digests(
    batch: pa.RecordBatch, old: tuple[pa.RecordBatch, Mapping[str, bytes]] | None
) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for index, name in enumerate(batch.schema.names if batch.num_rows else ()):
        if (
            form_of(batch, index) == TAGGED
            and pc.all(pc.equal(batch.column(index), _ABSENT)).as_py()
        ):
            continue  # as if the chunk had no such column
        if old is not None and name in old[1] and batch.column(index).type != pa.float64():
            at = old[0].schema.get_field_index(name)
            is_same = batch.schema.field(index).equals(old[0].schema.field(at), check_metadata=True)
            if is_same and batch.column(index).equals(old[0].column(at)):
                found[name] = old[1][name]
                continue
        found[name] = bytes.fromhex(batch_digest(batch.select([index])))
    return found


def changed_rows(
    secret: Secret, source: str, name: str, changes: Iterable[RowChange]
) -> Iterator[tuple[Key, bytes, bytes | None, bytes | None]]:
    """(key, path, digest before, digest after) of each row that may differ."""
    for change in changes:
        path = secret.path(source, name, change.key)
        salt = secret.salt(path)
        sides = (change.before, change.after)
        one, two = (None if row is None else row_digest(salt, row) for row in sides)
        yield change.key, path, one, two
