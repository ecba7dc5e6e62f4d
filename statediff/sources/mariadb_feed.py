"""Every committed state of a MariaDB database, told from the server's log of rows.

1. `attach` notes the last transaction in the log and the catalogue, and looks whether anybody but
   the evaluator may write past the log or change its settings; MariaDB allows that to
   accounts with global privileges only.
2. `establish` reads the log from there to its end and applies it to the state before
   (`mariadb_replay`). At the types that the log leaves in doubt, and at the schema objects, it
   looks, in a snapshot that shows the log's end. `finish` is the same for whoever wants the
   history only.
3. What the log does not show is guarded: a schema object that changed without a word in the log is
   a gap, and so is a log whose numbers are not one above the other.

What it cannot see: which session wrote; what was rolled back; temporary tables; rows of tables that
no snapshot covers (Aria, MyISAM, MEMORY), which no scan reads either; the numbers that tables give
out, in between; between two changes of definitions, what they may have changed. Times are the
server's, in whole seconds.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any, Final

from statediff.capture.feed import Seen
from statediff.capture.guard import Doubt, Established
from statediff.capture.source import Clock, SourceUnavailable
from statediff.model.readings import Reading, ReadingKind, SourceCapture, Transaction
from statediff.model.state import ChunkStore, State
from statediff.model.values import printable
from statediff.sources.mariadb import ATTEMPTS, MariaDbSource
from statediff.sources.mariadb_catalogue import OBJECT_NAMES
from statediff.sources.mariadb_log import (
    Logged,
    Place,
    check_kept,
    check_settings,
    end_of_log,
    read_log,
)
from statediff.sources.mariadb_replay import GIVES_RIGHTS, Cascade, Look, Replay
from statediff.sources.mariadb_session import Connection, fetched
from statediff.sources.relational import Refine

LOG_SECONDS: Final = 60.0
EVALUATORS: Final = frozenset(
    f"'{name}'@'localhost'" for name in ("root", "mysql", "mariadb.sys", "statediff_reader")
)
"""Accounts that no agent has, so that what they may do is no doubt."""
_CASCADES: Final = """
SELECT r.table_name, r.constraint_name, r.referenced_table_name, k.column_name,
  k.referenced_column_name, r.delete_rule, r.update_rule
FROM information_schema.referential_constraints r JOIN information_schema.key_column_usage k
  ON k.constraint_schema = r.constraint_schema AND k.constraint_name = r.constraint_name
  AND k.table_name = r.table_name
WHERE r.constraint_schema = {db} ORDER BY 1, 2, k.ordinal_position
"""
_PAST_THE_LOG: Final = """
SELECT grantee FROM information_schema.user_privileges WHERE privilege_type <> 'USAGE'
UNION SELECT grantee FROM information_schema.schema_privileges WHERE 'mysql' LIKE table_schema
UNION SELECT grantee FROM information_schema.table_privileges WHERE table_schema = 'mysql'
UNION SELECT grantee FROM information_schema.column_privileges WHERE table_schema = 'mysql'
UNION SELECT CONCAT('''', user, '''@''', host, '''') FROM mysql.proxies_priv
"""
_STAYING: Final = frozenset({"NO ACTION", "RESTRICT"})


@dataclass(frozen=True)
class _Start:
    """What `attach` found."""

    place: Place
    look: Look
    privileged: tuple[str, ...]


class MariaDbFeed:
    """A `DeltaFeed` of one database; `url` holds an account that may read it and its log."""

    def __init__(
        self,
        source: str,
        url: str,
        refine: Refine | None = None,
        own_databases: Container[str] = (),
    ) -> None:
        self._name = source
        self._url = url
        self._source = MariaDbSource(source, url, refine, own_databases)
        self._start: _Start | None = None

    @property
    def source(self) -> str:
        return self._name

    def attach(self) -> None:
        self.detach()
        with self._source.session() as (connection, database):
            check_settings(connection)
            place = end_of_log(connection)
            look = self._look(connection, database)
            self._start = _Start(place, look, _privileged(connection))

    def detach(self) -> None:
        self._start = None

    def finish(self, store: ChunkStore, clock: Clock, before: State) -> Seen:
        return self.establish(store, clock, before).seen

    def establish(self, store: ChunkStore, clock: Clock, before: State) -> Established:
        start = self._start
        if start is None:
            raise SourceUnavailable(f"no feed of {self._name} is attached")
        with self._source.session() as (connection, database):
            for _ in range(ATTEMPTS):
                as_of = clock()
                end = end_of_log(connection)
                check_kept(connection, start.place, end)
                logged = list(read_log(self._url, start.place, end, LOG_SECONDS))
                look = self._look(connection, database)
                replay = Replay(database, before, start.look, logged, store)
                replay.forwards(look)
                state, _ = self._source.look(
                    connection, database, look.catalogue, store, before,
                    replay.doubts.keys() | OBJECT_NAMES,
                )  # fmt: skip
                is_steady = end_of_log(connection) == end
                connection.rollback()
                if is_steady:
                    break
            else:
                raise SourceUnavailable("it kept changing while its log was read")
            privileged = {*start.privileged, *_privileged(connection)}
        gaps = [f"{printable(who)} may write past its log" for who in sorted(privileged)]
        for name in replay.unlogged(state):
            gaps.append(f"{name} changed without a word in its log")
            replay.distrust(name, "no history: it changed without a word in the log")
        replay.backwards(state, look)
        gaps += self._follow_accounts(start, replay, logged, state, store)
        seen = Seen(self._transactions(replay, logged, before, state), "; ".join(gaps) or None)
        last = seen.transactions[-1].state if seen.transactions else before
        failures = [
            f"{name}: {table.enumeration.cause}" for name, table in sorted(last.tables.items())
            if not table.enumeration.is_complete
        ]  # fmt: skip
        reading = Reading(
            self._name, self._name, ReadingKind.FEED, as_of, "trial", is_complete=not failures,
            digest=last.digest(), position=str(end), cause="; ".join(failures) or None,
        )  # fmt: skip
        doubts = tuple(Doubt(name, cause) for name, cause in sorted(replay.doubts.items()))
        return Established(SourceCapture(reading, last), seen, doubts)

    def _transactions(
        self, replay: Replay, logged: Sequence[Logged], before: State, end: State
    ) -> tuple[Transaction, ...]:
        told = [
            Transaction(
                f"{self._name}/{number}", self._name, str(entry.place), entry.committed_at,
                replay.state(number, end),
            )
            for number, entry in enumerate(logged, start=1)
        ]  # fmt: skip
        if not logged:
            last = replay.state(0, end)
            if last.digest() != before.digest():  # numbers were given out, and rolled back
                told.append(Transaction(f"{self._name}/0", self._name, "", None, last))
        return tuple(told)

    def _follow_accounts(
        self,
        start: _Start,
        replay: Replay,
        logged: Sequence[Logged],
        end: State,
        store: ChunkStore,
    ) -> list[str]:
        """Why somebody may have been able to write past the log for a while."""
        rights = [t for t in logged if any(map(GIVES_RIGHTS.match, t.statements))]
        if rights:
            return ["somebody was given rights, and may have written past its log meanwhile"]
        return []

    def _look(self, connection: Connection[Any], database: str) -> Look:
        cascades: dict[tuple[str, str], Cascade] = {}
        for table, name, parent, column, target, on_delete, on_update in fetched(
            connection, _CASCADES, database
        ):
            known = cascades.get((table, name))
            cascades[table, name] = Cascade(
                table, (*(known.child_columns if known else ()), column),
                parent, (*(known.parent_columns if known else ()), target),
                on_delete not in _STAYING, on_update not in _STAYING,
            )  # fmt: skip
        catalogue = self._source.catalogue(connection, database)
        return Look(catalogue, tuple(cascades.values()))


def _privileged(connection: Connection[Any]) -> tuple[str, ...]:
    """Who may change the log's settings, or the accounts, beside the evaluator."""
    found = {str(who) for (who,) in fetched(connection, _PAST_THE_LOG)}
    return tuple(sorted(found - EVALUATORS))
