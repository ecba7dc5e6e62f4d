"""The state of a seeded run in a database that runs: copies of it, changed by its own statements.

The plug-in of the system makes the copies, as for a sandbox at a URL, and its tools write them, as
an agent would. The database that was named is read, and never written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from statediff.errors import StatediffError, UsageError
from statediff.model.values import printable
from statediff.packs import PackSource
from statediff.systems.base.registry import system_of, tools_of
from statediff.systems.base.tool import Done, ToolError
from statediff.workspace.inputs import StateFile
from statediff_lab.audit.folders import Refused, Unwritable
from statediff_lab.audit.statements import statement_of
from statediff_lab.importers.recorded import SeededChange

_PART: Final = re.compile(r'"((?:[^"]|"")*)"|([^."]+)')
"""One part of a table's name, as a reader writes it."""
_MOST: Final = 100
"""Statements that one call takes."""
_BACKTICKS: Final = frozenset({"mysql", "mariadb"})


class Served:
    """Copies of one database, one at a time; `close` leaves nothing of them on the server."""

    def __init__(self, state: StateFile) -> None:
        if state.url is None or state.reader.sandbox is None:
            raise UsageError(f"{printable(state.label)}: no copies can be made of it")
        kind, key = state.reader.sandbox(state.path)
        source = PackSource(state.source, kind, texts={key: state.url}, folder=Path.cwd())
        self._system = system_of(source, (), Path.cwd())
        self._source = state.source
        self._quote = "`" if urlsplit(state.url).scheme in _BACKTICKS else '"'
        self._is_fresh = False

    def fresh(self) -> str:
        """The URL of a copy that holds what was copied, and nothing else; the last one is gone."""
        if not self._is_fresh:
            self._system.start()
            self._is_fresh = True
        else:
            self._system.reset()
        return self._system.url

    def close(self) -> None:
        """Nothing of ours is left on the server."""
        self._system.stop()

    def write(self, changes: Sequence[SeededChange], keys: Mapping[str, tuple[str, ...]]) -> None:
        """The copy holds the changes. Raises `Unwritable`, and the copy is then anything."""
        made = [self._statement(change, keys[change.type]) for change in changes]
        ended: list[dict[str, Any]] = []
        for at in range(0, len(made), _MOST):
            ended += self._execute(made[at : at + _MOST])
        for each, done in zip(changes, ended, strict=True):
            if (found := done.get("rows_touched")) not in (None, 1):
                raise Unwritable(f"the database finds {found} rows for one of {each.type}")

    def remove_table(self, table: str) -> None:
        """The copy holds the table no more. Raises `Unwritable`."""
        self._execute([(f"DROP TABLE {self._table(table)} CASCADE", [])])

    def remove(self) -> None:
        """There is no copy until the next one."""
        self._system.unplug(self._source)

    def _execute(self, made: Sequence[tuple[str, list[Any]]]) -> list[dict[str, Any]]:
        tools = tools_of(self._source, self._system.url)
        tool = next(each for each in tools if each.name.endswith("_execute"))
        try:
            asked = tool.arguments.model_validate(
                {"statements": [text for text, _ in made], "values": [v for _, v in made]}
            )
            done = tool.act(asked)
            return list((done.result if isinstance(done, Done) else done)["results"])
        except (ToolError, StatediffError, ValueError) as error:
            raise Refused(printable(str(error).partition("\n")[0])[:200]) from error

    def _statement(self, change: SeededChange, key: Sequence[str]) -> tuple[str, list[Any]]:
        made = statement_of(change, self._table(change.type), key, self._quote)
        if any(isinstance(value, bytes) for value in made[1]):
            raise Unwritable("bytes have no form in a call of its tools")
        return made

    def _table(self, name: str) -> str:
        parts = [(quoted or "").replace('""', '"') or bare for quoted, bare in _PART.findall(name)]
        return ".".join(map(self._name, parts))

    def _name(self, name: str) -> str:
        mark = self._quote
        return f"{mark}{name.replace(mark, mark * 2)}{mark}"
