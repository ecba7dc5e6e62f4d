"""State roots: what was captured, committed to before anything is judged, and shown by a bundle.

Each type that a source delivered is a keyed tree over its rows and a digest of each of its columns
(`state_trees`); a root is over all types of a capture. `verify` has the form and checks the rows
that a bundle shows. What is left to a replay is here: whole types that a clause ranged over, by
their columns; how completely each type was enumerated; rows that a rule of identity gave a key.

Not bound, and `docs/trust.md` says so: types that several sources deliver, and the states
between the two ends of a run.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, Final

from statediff.errors import BundleError
from statediff.evidence import verify as v
from statediff.evidence.canonical import write
from statediff.evidence.documents import key_document, key_from
from statediff.evidence.fragments import ENDS, Collected, Fragments
from statediff.evidence.state_trees import (
    EMPTY,
    Secret,
    TableTree,
    Tree,
    changed_rows,
    column_parts,
    row_digest,
    table_tree,
)
from statediff.model.batches import KEYLESS_KEY, batch_digest, batch_of, encode_column, encode_rows
from statediff.model.columns import table_changes
from statediff.model.readings import Capture
from statediff.model.schema import EntityType, Schema
from statediff.model.state import RowChange, Table
from statediff.model.timelines import FRESH, Matching
from statediff.model.values import ABSENT, Key, Observed, key_order

Json = Any
SECRET_BYTES: Final = 32
NO_SECRET: Final = b""
"""The secret of a trial that was given none: its roots hide nothing from who can guess a state."""
SIDES: Final = v.SIDES
_MAX_ROWS: Final = 4_000_000
"""Rows of states before whose trees are kept in this process."""

Place = tuple[str, Key]
"""(type, key)"""


@dataclass(frozen=True, kw_only=True, repr=False)
class _Type:
    """One type of one source, on both sides."""

    secret: Secret
    source: str
    name: str
    tables: tuple[Table | None, Table | None]
    base: TableTree
    changed: Mapping[bytes, tuple[Key, bytes | None, bytes | None]]
    """Path → key, and the digest of the row on each side; of rows that differ."""
    parts: tuple[Any, Any]
    """The digests of the columns of each side, chunk by chunk."""

    @cached_property
    def heads(self) -> tuple[Json, Json]:
        """[coverage, root of the rows, digest of the columns] of each side that has the table."""
        after = {path: row[2] for path, row in self.changed.items()}
        roots = (self.base.tree.root, self.base.tree.changed(after) if after else None)
        return self._head(0, roots[0]), self._head(1, roots[1] or roots[0])

    def _head(self, side: int, rows: bytes) -> Json:
        table = self.tables[side]
        if table is None:
            return None
        salt, counts, columns = self.columns(side)
        listed = [salt, counts, [[name, root] for name, root, _ in columns]]
        return [table.enumeration.coverage.value, rows.hex(), _digest(listed)]

    def columns(self, side: int) -> tuple[str, list[int], list[tuple[str, str, str]]]:
        """A salt, the rows of each chunk, and (name, digest, salt) of each column."""
        table = self.tables[side]
        chunks = () if table is None else table.chunks
        parts = self.parts[side]
        found = []
        for name in sorted({name for part in parts for name in part}):
            salt = self.secret.salt_of("column", self.source, self.name, name)
            content = b"".join(part.get(name, EMPTY) for part in parts if part)
            found.append((name, hashlib.sha256(salt + content).hexdigest(), salt.hex()))
        salt = self.secret.salt_of("columns", self.source, self.name)
        return salt.hex(), [ref.rows for ref in chunks], found

    def opened(self, wanted: Iterable[Key]) -> Json:
        """The rows that are wanted or differ, and what both trees are made of beside them."""
        rows = dict(self.changed)
        for key in wanted:
            path = self.secret.path(self.source, self.name, key)
            if path not in rows:
                digest = self.base.tree.find(path)
                rows[path] = key, digest, digest
        nodes, alone = self.base.tree.beside(rows)
        return {
            "source": self.source,
            "type": self.name,
            "nodes": b"".join(
                bytes((depth,)) + path[: (depth + 7) // 8] + digest for depth, path, digest in nodes
            ).hex(),
            "others": [[leaf.path.hex(), leaf.digest.hex()] for leaf in alone],
            "rows": [
                [key_document(key), self.secret.salt(path).hex(), _hex(one), _hex(two)]
                for path, (key, one, two) in sorted(rows.items())
            ],
        }


@dataclass(frozen=True, repr=False)
class Roots:
    """The roots of a trial's two states, and all that proves what a bundle shows of them."""

    secret: Secret
    types: tuple[_Type, ...]

    @staticmethod
    def of(before: Capture, after: Capture, secret: bytes = NO_SECRET) -> Roots:
        """The roots of two captures under one secret; what the second costs follows the change."""
        made = Secret.of(secret)
        sides = [
            {
                (part.reading.source, name): table
                for part in capture.parts
                for name, table in part.state.tables.items()
            }
            for capture in (before, after)
        ]
        places = sorted({*sides[0], *sides[1]})
        return Roots(
            made, tuple(_type(made, at, *(side.get(at) for side in sides)) for at in places)
        )

    @cached_property
    def by_side(self) -> Mapping[str, str]:
        """Side → its root, in hex."""
        return {
            side: v.state_root(
                self.secret.paths,
                [
                    [each.source, each.name, *each.heads[at]]
                    for each in self.types
                    if each.heads[at]
                ],
            )
            for at, side in enumerate(SIDES)
        }

    @cached_property
    def _sole(self) -> dict[str, _Type]:
        """Types that one source delivers."""
        found: dict[str, list[_Type]] = {}
        for each in self.types:
            found.setdefault(each.name, []).append(each)
        return {name: each[0] for name, each in found.items() if len(each) == 1}

    def differing(self, keys: CapturedKeys, shown: Iterable[str]) -> Iterator[Place]:
        """Every row of these types that differs, by the key that the matching has it under."""
        for name in shown:
            each = self._sole.get(name)
            for key, one, two in () if each is None else each.changed.values():
                if one is not None:
                    yield name, key
                if two is not None:
                    yield name, keys.of_state(name, key)

    def document(self, cases: Sequence[tuple[Collected, CapturedKeys, Iterable[str]]]) -> Json:
        """The proof of each matching's fragments, which compares the types it names."""
        wanted: dict[str, dict[Any, Key]] = {}
        scans: set[tuple[str, str, tuple[str, ...]]] = set()
        compared: set[str] = set()
        for fragments, keys, names in cases:
            compared.update(name for name in names if name in self._sole)
            for look, presence in fragments.places:
                if look.side in SIDES and look.type in self._sole and presence != "UNOBSERVED":
                    key = keys.captured(look.side, look.type, look.key)
                    wanted.setdefault(look.type, {})[key_order(key)] = key
            for scan in fragments.scans:
                if scan["side"] in SIDES and scan["type"] in self._sole:
                    names_of = {name for _, fields in scan["members"] for name, _ in fields}
                    scans.add((scan["side"], scan["type"], tuple(sorted(names_of))))
        opened = [
            each.opened(wanted.get(each.name, {}).values())
            for each in self._sole.values()
            if each.name in wanted or (each.name in compared and each.changed)
        ]
        return {
            "form": v.ROOTS,
            "paths": self.secret.paths.hex(),
            "types": [
                [each.source, each.name, each.heads[0], _same(*each.heads)] for each in self.types
            ],
            "opened": opened,
            "scanned": [entry for scan in _merged(scans) for entry in self._scanned(*scan)],
        }

    def _scanned(self, side: str, name: str, fields: set[str]) -> Iterator[Json]:
        each = self._sole[name]
        at = SIDES.index(side)
        table = each.tables[at]
        if table is None:
            return
        keys = table.type.key or (KEYLESS_KEY,)
        salt, counts, columns = each.columns(at)
        yield {
            "source": each.source,
            "type": name,
            "side": side,
            "salt": salt,
            "counts": counts,
            "columns": [
                [column, digest, own if column in fields or column in keys else None]
                for column, digest, own in columns
            ],
        }


def _merged(scans: Iterable[tuple[str, str, tuple[str, ...]]]) -> list[tuple[str, str, set[str]]]:
    found: dict[tuple[str, str], set[str]] = {}
    for side, name, fields in scans:
        found.setdefault((side, name), set()).update(fields)
    return [(*place, found[place]) for place in sorted(found)]


def _type(
    secret: Secret, place: tuple[str, str], before: Table | None, after: Table | None
) -> _Type:
    source, name = place
    base = TableTree(Tree(b"", b""), ()) if before is None else _kept(secret, source, before)
    if before is not None and before == after:
        changes: Iterable[RowChange] = ()
    elif before is not None and after is not None and before.type.fields == after.type.fields:
        changes = table_changes(before, after)
    else:
        changes = _every_row(before, after)
    changed = {
        path: (key, one, two)
        for key, path, one, two in changed_rows(secret, source, name, changes)
        if one != two
    }
    parts = base.parts if after is None else column_parts(after, before, base.parts)
    return _Type(
        secret=secret,
        source=source,
        name=name,
        tables=(before, after),
        base=base,
        changed=changed,
        parts=(base.parts, parts),
    )


def _every_row(before: Table | None, after: Table | None) -> Iterator[RowChange]:
    sides: list[dict[Any, tuple[Key, dict[str, Observed]]]] = [
        {} if table is None else {key_order(key): (key, row) for key, row in table.rows()}
        for table in (before, after)
    ]
    for order in sorted({*sides[0], *sides[1]}):
        found = [side.get(order) for side in sides]
        [key, *_] = [entry[0] for entry in found if entry is not None]
        one, two = (None if entry is None else entry[1] for entry in found)
        yield RowChange(key, one, two)


_known: OrderedDict[Any, TableTree] = OrderedDict()
"""Trees of tables before, the last used at the end: the trials of a task begin alike."""


def _kept(secret: Secret, source: str, table: Table) -> TableTree:
    place = (secret.paths, source, table.type, table.chunks)
    found = _known.pop(place, None)
    if found is None:
        found = table_tree(secret, source, table)
        rows = sum(len(each.tree) for each in list(_known.values()))
        while _known and rows + len(found.tree) > _MAX_ROWS:
            rows -= len(_known.popitem(last=False)[1].tree)
    _known[place] = found
    return found


def _same(before: Json, after: Json) -> Json:
    return True if before is not None and before == after else after


def _hex(digest: bytes | None) -> str | None:
    return None if digest is None else digest.hex()


def _digest(document: Json) -> str:
    return hashlib.sha256(write(document)).hexdigest()


@dataclass(frozen=True)
class CapturedKeys:
    """The keys that a matching has entities under, and those that they were captured by.

    By the pairs of entities that a rule of identity found, of types without a key of their own.
    """

    pairs: tuple[tuple[str, Key, Key], ...] = ()
    """(type, key before, key after)"""
    _after: dict[Any, Key] = field(default_factory=dict)
    _before: dict[Any, Key] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, before, after in self.pairs:
            self._after[name, key_order(before)] = after
            self._before[name, key_order(after)] = before

    @staticmethod
    def of(matching: Matching) -> CapturedKeys:
        """The keys of a matching."""
        return CapturedKeys(tuple((pair.type, pair.before, pair.after) for pair in matching.pairs))

    @staticmethod
    def of_document(mappings: Json, schema: Schema) -> CapturedKeys:
        """The same, of a bundle. `BundleError` where a type with keys of its own has others."""
        for entry in mappings:
            entity = schema.by_name.get(entry["type"])
            if entity is None or not entity.is_keyless:
                raise BundleError(f"resolution.json: {entry['type']} has keys of its own")
        return CapturedKeys(
            tuple((m["type"], key_from(m["before"]), key_from(m["after"])) for m in mappings)
        )

    @cached_property
    def types(self) -> frozenset[str]:
        """The types that have such pairs."""
        return frozenset(name for name, _, _ in self.pairs)

    def captured(self, side: str, name: str, key: Key) -> Key:
        """The key that an entity of the matching was captured by."""
        if side != "after" or name not in self.types:
            return key
        found = self._after.get((name, key_order(key)))
        if found is not None:
            return found
        number = int(str(key[1]))
        return (key[0], number - FRESH) if number > FRESH else key

    def of_state(self, name: str, key: Key) -> Key:
        """The key that an entity captured after has in the matching."""
        if name not in self.types:
            return key
        found = self._before.get((name, key_order(key)))
        if found is not None:
            return found
        is_taken = (name, key_order(key)) in self._after
        return (key[0], int(str(key[1])) + FRESH) if is_taken else key


# --- what a replay checks ----------------------------------------------------------------------


def check_states(
    document: Json, cases: Sequence[tuple[Fragments, CapturedKeys, Json]]
) -> list[list[Place]]:
    """The entities of each matching whose rows differ by the roots. `BundleError`.

    The rows themselves are checked already; a case is its fragments, keys and enumerations.
    """
    heads: dict[str, list[Json]] = {}
    for source, name, before, after in document["types"]:
        heads.setdefault(name, []).append((source, before, before if after is True else after))
    opened = {(each["source"], each["type"]): each["rows"] for each in document["opened"]}
    scanned = {(each["type"], each["side"]): each for each in document["scanned"]}
    found = []
    for fragments, keys, enumerations in cases:
        _check_coverage(enumerations, heads)
        differing: dict[Any, Place] = {}
        for name, sources in heads.items():
            if len(sources) > 1:
                continue
            rows = opened.get((sources[0][0], name), [])
            if name in keys.types:
                _check_rekeyed(fragments, keys, name, rows)
            for key, _salt, one, two in rows:
                if one == two:
                    continue
                own = key_from(key)
                sides = [own] * (one is not None) + [keys.of_state(name, own)] * (two is not None)
                differing |= {(name, key_order(each)): (name, each) for each in sides}
        for (side, name, fields), members in fragments.scans.items():
            if side not in ENDS or len(heads.get(name, [])) > 1:
                continue
            enumeration = fragments.enumeration(side, name)
            if enumeration is not None and enumeration.coverage.value != "unobserved":
                place = f"{name} {side} with {', '.join(fields)}"
                entity = fragments.schema.by_name[name]
                captured = [(keys.captured(side, name, key), row) for key, row in members]
                _check_scan(place, entity, captured, scanned.get((name, side)))
        dark = {
            name
            for side, name, (coverage, *_) in enumerations
            if side in ENDS and coverage == "unobserved"
        }
        found.append([place for place in differing.values() if place[0] not in dark])
    return found


def _check_coverage(enumerations: Json, heads: Mapping[str, list[Json]]) -> None:
    for side, name, (coverage, *_) in enumerations:
        if side not in ENDS or coverage != "complete":
            continue
        for source, *sides in heads.get(name, ()):
            head = sides[SIDES.index(side)]
            if head is not None and head[0] != "complete":
                raise BundleError(
                    f"captures.json: {name} {side} is complete, but {source} had it {head[0]}"
                )


def _check_rekeyed(fragments: Fragments, keys: CapturedKeys, name: str, rows: Json) -> None:
    """The rows after of a type whose entities were paired are those that were captured."""
    leaves = {write(key): (salt, two) for key, salt, _, two in rows}
    for look, row in fragments.rows.items():
        enumeration = fragments.enumeration(look.side, look.type)
        if (look.side, look.type) != ("after", name) or enumeration is None:
            continue
        if row is None and not enumeration.is_complete:
            continue
        salt, two = leaves.get(
            write(key_document(keys.captured("after", name, look.key))), ("", "")
        )
        digest = None if row is None else _row_digest(salt, row)
        if digest != two:
            raise BundleError(f"fragments.json: a row of {name} is not the one that was captured")


def _row_digest(salt: str, row: Mapping[str, Observed]) -> str:
    return row_digest(bytes.fromhex(salt), dict(row)).hex()


def _check_scan(
    place: str,
    entity: EntityType,
    members: Sequence[tuple[Key, Mapping[str, Observed]]],
    shown: Json,
) -> None:
    """The members, as many as there were, have the values that were captured. `BundleError`."""
    if shown is None:  # the type is not there on this side
        return
    counts, columns = shown["counts"], shown["columns"]
    if any(len(key) != (len(entity.key) or 1) for key, _ in members):
        raise BundleError(f"fragments.json: {place}: a key that is none of {entity.name}")
    ordered = sorted(members, key=lambda member: key_order(member[0]))
    ends = [0]
    for count in counts:
        ends.append(ends[-1] + count)
    known = {name: (digest, own) for name, digest, own in columns}
    names = [] if not ordered else list(ordered[0][1])
    values = {name: [row.get(name, ABSENT) for _, row in ordered] for name in names}
    for at, name in enumerate(entity.key):
        values.setdefault(name, [key[at] for key, _ in ordered])
    made = {name: _parts(entity, name, column, ends) for name, column in values.items()}
    if entity.is_keyless:
        keys: list[tuple[Key, Mapping[str, Observed]]] = [(key, {}) for key, _ in ordered]
        bare = EntityType(entity.name, (), ())
        made[KEYLESS_KEY] = b"".join(
            bytes.fromhex(batch_digest(encode_rows(bare, keys[low:high])))
            for low, high in pairwise(ends)
            if low < high
        )
    for name, content in made.items():
        digest, own = known.get(name, (None, None))
        if digest is None and all(value is ABSENT for value in values.get(name, (None,))):
            continue
        if own is None or _column_digest(own, content) != digest:
            raise BundleError(f"fragments.json: {place}: {name} is not as it was captured")


def _column_digest(salt: str, content: bytes) -> str:
    return hashlib.sha256(bytes.fromhex(salt) + content).hexdigest()


def _parts(entity: EntityType, name: str, column: Sequence[Observed], ends: Sequence[int]) -> bytes:
    """The digests of a column's parts, in the chunks that end there."""
    kind = entity.by_name[name].kind
    found = []
    for low, high in pairwise(ends):
        part = column[low:high]
        if all(value is ABSENT for value in part):  # an empty chunk, or one without the column
            found.append(EMPTY if part else b"")
            continue
        batch = batch_of([(name, *encode_column(kind, part))])
        found.append(bytes.fromhex(batch_digest(batch)))
    return b"".join(found)
