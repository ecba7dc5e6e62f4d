"""Ties in PostgreSQL's catalogue: generated columns, counters, keys."""

# ruff: noqa: S608 - every query is built of text in this package
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from statediff.model.schema import LOST_NUMBERS, Counted, Effect, EntityType, ForeignKey, Rules
from statediff_postgres.naming import CLASS, FIRST_OWN, OWN_REL, REL

GENERATED: Final = f"""
SELECT d.adrelid, a.attname::text, array_agg(b.attname::text ORDER BY b.attnum)
FROM pg_attrdef d JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
JOIN pg_depend e ON e.classid = 'pg_attrdef'::regclass AND e.objid = d.oid
  AND e.refclassid = 'pg_class'::regclass AND e.refobjid = d.adrelid AND e.refobjsubid > 0
JOIN pg_attribute b ON b.attrelid = d.adrelid AND b.attnum = e.refobjsubid AND b.attnum <> a.attnum
WHERE a.attgenerated <> '' AND d.adrelid >= {FIRST_OWN} GROUP BY 1, 2
"""
"""Generated columns with those that they are computed from."""
COUNTED: Final = f"""
SELECT DISTINCT coalesce(pg_partition_root(u.relid), u.relid)::oid, a.attname::text, {REL},
  s.seqincrement, s.seqstart, s.seqcache
FROM (
  SELECT d.refobjid AS relid, d.refobjsubid AS num, d.objid AS seq FROM pg_depend d
  WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
    AND d.deptype IN ('a', 'i') AND d.refobjsubid > 0
  UNION
  SELECT f.adrelid, f.adnum, d.refobjid FROM pg_depend d JOIN pg_attrdef f ON f.oid = d.objid
  WHERE d.classid = 'pg_attrdef'::regclass AND d.refclassid = 'pg_class'::regclass
) u JOIN pg_attribute a ON a.attrelid = u.relid AND a.attnum = u.num
JOIN pg_sequence s ON s.seqrelid = u.seq JOIN {CLASS} ON c.oid = s.seqrelid
WHERE {OWN_REL}
"""
"""Columns whose numbers come from a sequence that they own, or by their default."""
FOREIGN: Final = f"""
SELECT r.conrelid, r.confrelid, r.confdeltype::text, r.confupdtype::text,
  ARRAY(SELECT a.attname::text FROM unnest(r.conkey) WITH ORDINALITY k(n, i)
    JOIN pg_attribute a ON a.attrelid = r.conrelid AND a.attnum = k.n ORDER BY k.i),
  ARRAY(SELECT a.attname::text FROM unnest(r.confkey) WITH ORDINALITY k(n, i)
    JOIN pg_attribute a ON a.attrelid = r.confrelid AND a.attnum = k.n ORDER BY k.i)
FROM pg_constraint r
WHERE r.contype = 'f' AND r.conrelid >= {FIRST_OWN} AND r.conparentid = 0
ORDER BY r.conrelid, r.conname
"""
UNIQUE: Final = f"""
SELECT i.indrelid, array_agg(a.attname::text ORDER BY a.attnum) FROM pg_index i
JOIN pg_attribute a ON a.attrelid = i.indexrelid AND a.attnum <= i.indnkeyatts
WHERE i.indisunique AND i.indpred IS NULL AND i.indexprs IS NULL AND i.indrelid >= {FIRST_OWN}
GROUP BY i.indexrelid, i.indrelid ORDER BY i.indrelid, i.indexrelid
"""
TIES: Final = (GENERATED, COUNTED, FOREIGN, UNIQUE)
_EFFECTS: Final = {"c": Effect.CASCADE, "n": Effect.SET_NULL}
_LARGEST: Final = 2**53
"""Beyond it, numbers are not kept in a schema's document."""


@dataclass(frozen=True)
class Ties:
    """The four listings by the number of the table that they are about."""

    generated: Mapping[tuple[int, str], tuple[str, ...]]
    counted: Mapping[int, tuple[Counted, ...]]
    foreign: Mapping[int, tuple[tuple[int, ForeignKey], ...]]
    """The number of the table that is referred to, and the key with columns for fields."""
    unique: Mapping[int, tuple[tuple[str, ...], ...]]

    def of(
        self, oid: int, entity: EntityType, name_of: Callable[[int], EntityType | None]
    ) -> EntityType:
        """The type with its ties by the names of fields."""
        own = _fields(entity)
        foreign = []
        for target_oid, key in self.foreign.get(oid, ()):
            target = name_of(target_oid)
            named = {} if target is None else _fields(target)
            if target is not None and {*key.fields} <= {*own} and {*key.targets} <= {*named}:
                columns = tuple(own[c] for c in key.fields), tuple(named[c] for c in key.targets)
                does = key.on_delete, key.on_update
                foreign.append(ForeignKey(columns[0], target.name, columns[1], *does))
        unique = [u for u in self.unique.get(oid, ()) if {*u} <= {*own}]
        counted = (c for c in self.counted.get(oid, ()) if c.field in own)
        return entity.with_ties(
            {
                own[column]: tuple(own[each] for each in read if each in own)
                for (table, column), read in self.generated.items()
                if table == oid and column in own
            },
            sorted((c.of_field(own[c.field]) for c in counted), key=lambda c: (c.counter, c.field)),
            foreign,
            rules=Rules(tuple(foreign), tuple(tuple(own[c] for c in u) for u in unique)),
        )


def _fields(entity: EntityType) -> dict[str, str]:
    return {f.source_column: f.name for f in entity.fields}


def ties(answers: Iterable[list[tuple[Any, ...]]]) -> Ties:
    """The ties that the queries of `TIES` answered."""
    generated, counted, foreign, unique = answers
    numbers: dict[int, list[Counted]] = {}
    for oid, column, sequence, step, start, cache in counted:
        if max(abs(step), abs(start), cache) < _LARGEST:
            # A session keeps as many numbers for itself, and loses them when it ends.
            lost = LOST_NUMBERS * max(1, cache)
            numbers.setdefault(oid, []).append(Counted(sequence, column, step, start, lost))
    keys: dict[int, list[tuple[int, ForeignKey]]] = {}
    for oid, target, on_delete, on_update, columns, targets in foreign:
        does = [_EFFECTS.get(each, Effect.NOTHING) for each in (on_delete, on_update)]
        key = ForeignKey(tuple(columns), "", tuple(targets), *does)
        keys.setdefault(oid, []).append((target, key))
    return Ties(
        {(oid, column): tuple(read) for oid, column, read in generated},
        {oid: tuple(found) for oid, found in numbers.items()},
        {oid: tuple(found) for oid, found in keys.items()},
        {oid: tuple(tuple(u) for o, u in unique if o == oid) for oid, _ in unique},
    )


NO_TIES: Final = Ties({}, {}, {}, {})
