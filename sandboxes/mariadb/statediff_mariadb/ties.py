"""Ties in MariaDB's catalogue: counters, generated columns, stamps, foreign keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from statediff.model.schema import LOST_NUMBERS, Counted, EntityType, ForeignKey, Rules
from statediff.systems.relational.ties import action, closed
from statediff_mariadb.session import Connection, fetched

_COLUMNS: Final = """
SELECT table_name, column_name, generation_expression, extra, column_default
FROM information_schema.columns WHERE table_schema = {db}
  AND (generation_expression IS NOT NULL OR extra <> '' OR column_default LIKE 'nextval(%')
"""
_FOREIGN: Final = """
SELECT k.table_name, k.constraint_name, k.column_name, k.referenced_table_name,
  k.referenced_column_name, r.delete_rule, r.update_rule
FROM information_schema.key_column_usage k JOIN information_schema.referential_constraints r
  ON r.constraint_schema = k.constraint_schema AND r.constraint_name = k.constraint_name
  AND r.table_name = k.table_name
WHERE k.table_schema = {db} AND k.referenced_table_schema = {db}
ORDER BY k.table_name, k.constraint_name, k.ordinal_position
"""
_UNIQUE: Final = """
SELECT table_name, index_name, column_name FROM information_schema.statistics
WHERE table_schema = {db} AND non_unique = 0 AND column_name IS NOT NULL
ORDER BY table_name, index_name, seq_in_index
"""
_CHECKS: Final = """
SELECT table_name, check_clause FROM information_schema.check_constraints
WHERE constraint_schema = {db} ORDER BY table_name, constraint_name
"""
_STEP: Final = "SELECT @@GLOBAL.auto_increment_increment"
_NAME: Final = re.compile(r"""'(?:[^'\\]|\\.|'')*'|`(?:[^`]|``)+`|"(?:[^"]|"")+"|[\w$]+""")
_NEXT: Final = re.compile(r"nextval\((?:`(?:[^`]|``)+`\.)?`((?:[^`]|``)+)`\)", re.IGNORECASE)
_CACHED: Final = 1000
"""Numbers of a sequence that a server keeps in memory; more where its definition says so."""


@dataclass(frozen=True)
class Ties:
    """By table: what its columns are computed from or stamped by, and its keys, all by columns."""

    reads: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    stamps: Mapping[str, frozenset[str]] = field(default_factory=dict)
    counted: Mapping[str, tuple[Counted, ...]] = field(default_factory=dict)
    rules: Mapping[str, Rules] = field(default_factory=dict)

    def of(
        self, table: str, entity: EntityType, named: Callable[[str], EntityType | None]
    ) -> EntityType:
        """The type with its ties by the names of fields."""
        own = _fields(entity)
        rules = self.rules.get(table, Rules())
        foreign = []
        for key in rules.foreign:
            target = named(key.type)
            others = {} if target is None else _fields(target)
            if target is not None and {*key.fields} <= {*own} and {*key.targets} <= {*others}:
                columns = tuple(own[c] for c in key.fields), tuple(others[c] for c in key.targets)
                does = key.on_delete, key.on_update
                foreign.append(ForeignKey(columns[0], target.name, columns[1], *does))
        unique = tuple(tuple(own[c] for c in u) for u in rules.unique if {*u} <= {*own})
        return entity.with_ties(
            {
                own[column]: tuple(own[each] for each in read if each in own)
                for column, read in self.reads.get(table, {}).items()
                if column in own
            },
            [c.of_field(own[c.field]) for c in self.counted.get(table, ()) if c.field in own],
            foreign,
            {own[column] for column in self.stamps.get(table, ()) if column in own},
            Rules(tuple(foreign), unique, rules.checks),
        )


def _fields(entity: EntityType) -> dict[str, str]:
    return {f.source_column: f.name for f in entity.fields}


def read_ties(connection: Connection[Any], database: str, columns: Mapping[str, Any]) -> Ties:
    """The catalogue's ties of the tables; `columns` has the names of each. `pymysql.Error`."""
    reads: dict[str, dict[str, tuple[str, ...]]] = {}
    stamps: dict[str, set[str]] = {}
    counted: dict[str, list[Counted]] = {}
    ((step,),) = fetched(connection, _STEP)
    for table, name, expression, extra, default in fetched(connection, _COLUMNS, database):
        said = str(extra).casefold()
        if expression is not None:
            words = {_plain(word) for word in _NAME.findall(str(expression))}
            reads.setdefault(table, {})[name] = tuple(sorted(words & {*columns.get(table, ())}))
        if "on update" in said:
            stamps.setdefault(table, set()).add(name)
        if "auto_increment" in said:
            counter = Counted(table, name, int(step), rises=True)
            counted.setdefault(table, []).append(counter)
        if (found := _NEXT.fullmatch(str(default))) is not None:
            sequence = found[1].replace("``", "`")
            lost = LOST_NUMBERS * _CACHED
            counted.setdefault(table, []).append(Counted(sequence, name, lost=lost))
    return Ties(
        {table: closed(own) for table, own in reads.items()},
        {table: frozenset(own) for table, own in stamps.items()},
        {table: tuple(own) for table, own in counted.items()},
        _rules(connection, database),
    )


def _rules(connection: Connection[Any], database: str) -> dict[str, Rules]:
    keys: dict[tuple[str, str], list[tuple[Any, ...]]] = {}
    for table, name, *rest in fetched(connection, _FOREIGN, database):
        keys.setdefault((table, name), []).append(tuple(rest))
    unique: dict[tuple[str, str], list[str]] = {}
    for table, name, column in fetched(connection, _UNIQUE, database):
        unique.setdefault((table, name), []).append(column)
    checks: dict[str, list[str]] = {}
    for table, check in fetched(connection, _CHECKS, database):
        checks.setdefault(table, []).append(str(check))
    foreign: dict[str, list[ForeignKey]] = {}
    for (table, _), parts in keys.items():
        does = action(str(parts[0][3])), action(str(parts[0][4]))
        own, targets = tuple(p[0] for p in parts), tuple(p[2] for p in parts)
        foreign.setdefault(table, []).append(ForeignKey(own, str(parts[0][1]), targets, *does))
    names = {*foreign, *checks, *(table for table, _ in unique)}
    return {
        name: Rules(
            tuple(foreign.get(name, ())),
            tuple(tuple(columns) for (table, _), columns in unique.items() if table == name),
            tuple(checks.get(name, ())),
        )
        for name in names
    }


def _plain(word: str) -> str:
    if word[0] in '`"':
        return word[1:-1].replace(word[0] * 2, word[0])
    return word
