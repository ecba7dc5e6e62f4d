"""Tables of a MariaDB database whose rows alone were changed, filled again from copies of them.

The copies lie in the server's own database `mysql`, which no agent may read or write. What is put
back is compared at once; where that fails, or more than rows was changed, the whole database is
made again, and either way the proof of the reset decides.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pymysql import Connection

from statediff.systems.mariadb.proof import definition_of, rows_of
from statediff.systems.mariadb.session import fetched, quoted

_NEXT_NUMBER: Final = re.compile(r" AUTO_INCREMENT=(\d+)")
_TRIGGERS: Final = """
SELECT event_object_table, trigger_name, sql_mode FROM information_schema.triggers
WHERE trigger_schema = {db} ORDER BY event_object_table, action_timing, event_manipulation,
  action_order
"""
_COLUMNS: Final = """
SELECT table_name, column_name FROM information_schema.columns
WHERE table_schema = {db} AND COALESCE(generation_expression, '') = ''
ORDER BY table_name, ordinal_position
"""


class Copies:
    """The rows of every table as they are now, and what it takes to bring them back."""

    def __init__(self, admin: Connection[Any], database: str, base: Mapping[str, str]) -> None:
        self._database = database
        self._base = base
        self._columns: dict[str, list[str]] = {}
        for table, column in fetched(admin, _COLUMNS, database):
            self._columns.setdefault(_text(table), []).append(quoted(_text(column)))
        tables = sorted(label[6:] for label in base if label.startswith("table "))
        self._copies = {name: f"mysql.statediff_base_{n}" for n, name in enumerate(tables)}
        for name, copy in self._copies.items():
            admin.query(f"DROP TABLE IF EXISTS {copy}")
            admin.query(
                f"CREATE TABLE {copy} ENGINE=InnoDB SELECT {', '.join(self._columns[name])}"  # noqa: S608 - quoted
                f" FROM {self._place(name)}"
            )
        self._triggers = [
            (_text(table), _text(name), _text(mode), self._written(admin, _text(name)))
            for table, name, mode in fetched(admin, _TRIGGERS, database)
        ]

    def restore(self, admin: Connection[Any], found: Mapping[str, str]) -> bool:
        """Every table is as in the base; False where rows are not all that was changed."""
        changed = {
            label
            for label in self._base.keys() | found.keys()
            if self._base.get(label) != found.get(label) and not label.startswith("account ")
        }
        tables = set()
        for label in changed:
            kind, _, name = label.rpartition(" ")
            if kind not in ("table", "rows of", "definition of") or name not in self._copies:
                return False
            base, now = self._base.get(label, ""), found.get(label, "")
            if kind == "definition of" and _numberless(base) != _numberless(now):
                return False
            tables.add(name)
        if not tables:
            return True
        admin.query("SET foreign_key_checks = 0, unique_checks = 0")
        try:
            with self._no_triggers(admin, tables):
                for name in sorted(tables):
                    self._fill(admin, name)
        finally:
            admin.query("SET foreign_key_checks = 1, unique_checks = 1")
        return all(self._is_base(admin, name) for name in tables)

    def _fill(self, admin: Connection[Any], name: str) -> None:
        place, columns = self._place(name), ", ".join(self._columns[name])
        admin.query("BEGIN")
        admin.query(f"DELETE FROM {place}")  # noqa: S608 - quoted
        admin.query(f"INSERT INTO {place} ({columns}) SELECT {columns} FROM {self._copies[name]}")  # noqa: S608 - quoted
        admin.query("COMMIT")
        number = _NEXT_NUMBER.search(self._base[f"definition of {name}"])
        if (
            number is not None
            and definition_of(admin, self._database, name) != (self._base[f"definition of {name}"])
        ):
            admin.query(f"ALTER TABLE {place} AUTO_INCREMENT = {number[1]}")

    @contextlib.contextmanager
    def _no_triggers(self, admin: Connection[Any], tables: set[str]) -> Iterator[None]:
        """What is written meanwhile sets off nothing; then every trigger is there again."""
        triggers = [entry for entry in self._triggers if entry[0] in tables]
        for _, name, _, _ in triggers:
            admin.query(f"DROP TRIGGER {self._place(name)}")
        yield
        admin.query(f"USE {quoted(self._database)}")
        ((usual,),) = fetched(admin, "SELECT @@sql_mode")
        for _, _, mode, statement in triggers:
            admin.query(f"SET sql_mode = '{mode}'")
            admin.query(statement)
        admin.query(f"SET sql_mode = '{_text(usual)}'")

    def _written(self, admin: Connection[Any], trigger: str) -> str:
        shown = fetched(admin, f"SHOW CREATE TRIGGER {self._place(trigger)}")
        return _text(shown[0][2])

    def _is_base(self, admin: Connection[Any], name: str) -> bool:
        return (
            rows_of(admin, self._database, name) == self._base[f"table {name}"]
            and definition_of(admin, self._database, name) == self._base[f"definition of {name}"]
        )

    def _place(self, name: str) -> str:
        return f"{quoted(self._database)}.{quoted(name)}"


def _numberless(definition: str) -> str:
    return _NEXT_NUMBER.sub("", definition)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
