"""A PostgreSQL database at one moment, told from another moment and the pages touched between.

For each table the rows that lie on touched pages are read at both moments; what is on one side only
is its delta. That holds while the table is in the same files and has the same columns, and while
nothing that decides how a value is written has changed: `Delta.doubt` says where it does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import psycopg

from statediff.model.patch import patched
from statediff.model.schema import EntityType
from statediff.model.state import Table
from statediff.systems.postgres.catalogue import RUNS_FUNCTIONS, Catalogue
from statediff.systems.postgres.past import Definition, Look, lines
from statediff.systems.postgres.rows import TableQuery
from statediff.systems.postgres.session import cause_of
from statediff.systems.postgres.wal import Commit, File

NAMED_OIDS: Final = frozenset({24, 1033, 2202, 2203, 2204, 2205, 2206, 3734, 3769, 4089, 4096})
"""Types whose values are written with names of the catalogue, e.g. `regclass` and `aclitem`."""
VALUES_CHANGED: Final = "the catalogue by which its values are written was changed"
SILENT: Final = frozenset({
    "pg_statistic", "pg_statistic_ext_data", "pg_largeobject", "pg_largeobject_metadata",
    "pg_database", "pg_depend", "pg_shdepend", "pg_description", "pg_init_privs",
})  # fmt: skip
"""Tables of the catalogue by which no value of a row is written."""


class Delta:
    """What may be told of each table between the first and the last moment of a run.

    `commits` are all there were; `catalogues` names the files of the catalogue's own tables.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        first: Look,
        last: Look,
        commits: tuple[Commit, ...],
        catalogues: Mapping[File, str],
    ) -> None:
        self.catalogue = catalogue
        self.first = first
        self.last = last
        self.commits = commits
        self.catalogues = catalogues
        self._queries: dict[str, TableQuery] = {}

    def touched(self, commit: Commit) -> frozenset[str]:
        """The tables of the catalogue that the commit wrote."""
        return frozenset(self.catalogues[f] for f in commit.touched if f in self.catalogues)

    def query(self, entity_type: EntityType) -> TableQuery:
        """How its rows are read; the type is as it is after the run."""
        name = entity_type.name
        if name not in self._queries:
            entry = self.catalogue.tables[entity_type.source_table]
            self._queries[name] = TableQuery(entity_type, entry)
        return self._queries[name]

    def doubt(self, entity_type: EntityType, like: Table | None) -> str | None:
        """Why no delta establishes the table; None if one does."""
        name = entity_type.source_table
        now, then = self.last.definitions.get(name), self.first.definitions.get(name)
        if like is None:
            return "the table is new"
        if not like.enumeration.is_complete:
            return "it was not read whole before the run"
        if now is None or then is None or name not in self.catalogue.tables:
            return "the table was made or dropped in the run"
        if now.is_unlogged or then.is_unlogged:
            return "it is unlogged: no log tells of its rows"
        if now.kind == "f":
            return "it is a foreign table"
        if now.oid != then.oid:
            return "another table has its name now"
        if now.files != then.files:
            return "it was rewritten, truncated or cut into other partitions"
        if now != then or like.type.fields != entity_type.fields:
            return "its columns or its key are others now"
        if self.query(entity_type).relation.runs_functions:
            return RUNS_FUNCTIONS
        changed = frozenset().union(*map(self.touched, self.commits)) - SILENT
        types = self.query(entity_type).types
        if changed and any(t.is_own or t.oid in NAMED_OIDS for t in types):
            return VALUES_CHANGED
        return None

    def pages(self, definition: Definition, commits: Iterable[Commit]) -> set[tuple[int, int]]:
        """(table or partition, page) of every page of the table that the commits touched."""
        return {
            (oid, page)
            for commit in commits
            for oid, file in definition.files
            for page in commit.touched.get((False, file), ())
        }

    def table(
        self, entity_type: EntityType, base: Table, start: Look, end: Look,
        commits: Iterable[Commit],
    ) -> Table | str:  # fmt: skip
        """The table at `end`, if it was `base` at `start`; or why that cannot be told."""
        pages = self.pages(self.last.definitions[entity_type.source_table], commits)
        if not pages:
            return base
        query = self.query(base.type)
        try:
            then, now = lines((start, end), query, pages)
            # Most rows of a touched page are as they were: only the others are taken apart.
            return patched(base, then.rows_beside(now, query), now.rows_beside(then, query))
        except ValueError as error:
            return f"its delta does not fit the state before: {error}"
        except UnicodeDecodeError:
            return "a value is not UTF-8"
        except psycopg.Error as error:
            if start.connection.broken or end.connection.broken:
                raise
            return cause_of(error)
