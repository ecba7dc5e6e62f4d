"""Every committed state of a MariaDB database, read from the server's log of rows.

1. `attach` notes the last transaction in the log and the catalogue, and looks whether anybody but
   the evaluator may write past the log or change its settings; MariaDB allows that to
   accounts with global privileges only.
2. `establish` reads the log from there to its end and applies it to the state before
   (`mariadb.replay`). At the types that the log leaves in doubt, and at the schema objects, it
   looks, in a snapshot that shows the log's end. `finish` is the same for a caller that wants the
   history only.
3. What the log does not show is guarded: a schema object that changed without a word in the log is
   a gap, and so is a log whose numbers are not one above the other.

What it cannot see: which session wrote; what was rolled back; temporary tables; rows of tables that
no snapshot covers (Aria, MyISAM, MEMORY), which no scan reads either; the numbers that tables give
out, in between; between two changes of definitions, what they may have changed. Times are the
server's, in whole seconds.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

from statediff.capture.feed import Seen
from statediff.capture.guard import Doubt, Established
from statediff.capture.source import Clock, SourceUnavailable, SourceUnfollowed, replayed
from statediff.model.readings import Transaction
from statediff.model.schema import COUNTERS
from statediff.model.state import ChunkStore, State, Table
from statediff.model.values import printable
from statediff.systems.relational.schema import Refine, Shelf, moved_rows
from statediff_mariadb.catalogue import OBJECT_NAMES
from statediff_mariadb.changes import Cascade
from statediff_mariadb.log import (
    Kind,
    Logged,
    LogReader,
    Place,
    check_kept,
    check_settings,
    end_of_log,
    last_in_log,
)
from statediff_mariadb.replay import (
    ACCOUNTS,
    GIVES_RIGHTS,
    Accounts,
    Look,
    Replay,
    SecondServer,
    Stored,
    follow,
    privileged,
    stored_accounts,
)
from statediff_mariadb.session import Connection, fetched
from statediff_mariadb.source import ATTEMPTS, MariaDbSource

LOG_SECONDS: Final = 60.0
_CASCADES: Final = """
SELECT r.table_name, r.constraint_name, r.referenced_table_name, k.column_name,
  k.referenced_column_name, r.delete_rule, r.update_rule
FROM information_schema.referential_constraints r JOIN information_schema.key_column_usage k
  ON k.constraint_schema = r.constraint_schema AND k.constraint_name = r.constraint_name
  AND k.table_name = r.table_name
WHERE r.constraint_schema = {db} ORDER BY 1, 2, k.ordinal_position
"""
_STAYING: Final = frozenset({"NO ACTION", "RESTRICT"})


@dataclass(frozen=True)
class _Start:
    """The state that `attach` found."""

    place: Place
    look: Look
    privileged: tuple[str, ...]
    accounts: Stored


class MariaDbFeed:
    """A `DeltaFeed` of one database; `url` holds an account that may read it and its log.

    Nobody else needs the server: see `MariaDbSource`.
    """

    def __init__(
        self,
        source: str,
        url: str,
        refine: Refine | None = None,
        own_databases: Container[str] = (),
        second: SecondServer | None = None,
    ) -> None:
        self._name = source
        self._url = url
        self._source = MariaDbSource(source, url, refine, own_databases, may_mark=True)
        self._second = second
        self._start: _Start | None = None

    @property
    def source(self) -> str:
        return self._name

    def attach(self) -> None:
        self.detach()
        with self._source.session() as (connection, database):
            check_settings(connection)
            place = end_of_log(connection)
            look = look_of(self._source, connection, database)
            self._start = _Start(place, look, privileged(connection), stored_accounts(connection))

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
                end = last_in_log(connection)
                check_kept(connection, start.place, end)
                with closing(LogReader(self._url, start.place, LOG_SECONDS)) as reader:
                    logged = list(reader.until(end))
                look = look_of(self._source, connection, database)
                replay = Replay(database, before, start.look, logged, store)
                replay.forwards(look)
                # Anyone who may write past the log makes a whole look necessary.
                who_may = {*start.privileged, *privileged(connection)}
                is_loose = bool(who_may) or any(
                    GIVES_RIGHTS.search(text) for entry in logged for text in entry.statements
                )
                wanted = None if is_loose else replay.doubts.keys() | OBJECT_NAMES
                state, _ = self._source.look(
                    connection, database, look.catalogue, store, before, wanted
                )
                is_steady = last_in_log(connection) == end
                connection.rollback()
                if is_steady:
                    break
            else:
                raise SourceUnavailable("it kept changing while its log was read")
        told = self._accounts(start, replay, logged, database)
        if told is not None and not self._tell_accounts(replay, told, before, state, store):
            told = None
        who_may.update(who for accounts in (told or {}).values() for who in accounts.privileged)
        gaps = [f"{printable(who)} may have written past its log" for who in sorted(who_may)]
        if is_loose and told is None and not who_may:
            gaps.append("somebody was given rights, and may have written past its log meanwhile")
        unlogged = replay.unlogged(state)
        if unlogged and not is_loose:  # then rows may be others, too
            raise SourceUnfollowed(f"{', '.join(unlogged)} changed without a word in its log")
        for name in unlogged:
            gaps.append(f"{name} changed without a word in its log")
            replay.distrust(name, "no history: it changed without a word in the log")
        replay.backwards(state, look)
        seen = Seen(self._transactions(replay, logged, before, state), "; ".join(gaps) or None)
        last = seen.transactions[-1].state if seen.transactions else before
        part = replayed(self._name, as_of, last, position=str(end))
        doubts = tuple(Doubt(name, cause) for name, cause in sorted(replay.doubts.items()))
        return Established(part, seen, doubts)

    def _transactions(
        self, replay: Replay, logged: Sequence[Logged], before: State, end: State
    ) -> tuple[Transaction, ...]:
        # Numbers are also given out to what is rolled back, which no log tells. Of several
        # transactions the states in between do not know them at all.
        is_all_its_own = len(logged) > 1 or all(_gave_numbers(e, before, end) for e in logged)
        told = [
            Transaction(
                f"{self._name}/{number}",
                self._name,
                str(entry.place),
                entry.committed_at,
                replay.state(number, end),
                (f"gtid {entry.place}",) if is_all_its_own else (),
            )
            for number, entry in enumerate(logged, start=1)
        ]
        if not logged:
            last = replay.state(0, end)
            if last.digest() != before.digest():  # numbers were given out, and rolled back
                told.append(Transaction(f"{self._name}/0", self._name, "", None, last))
        return tuple(told)

    def _accounts(
        self, start: _Start, replay: Replay, logged: Sequence[Logged], database: str
    ) -> dict[int, Accounts] | None:
        """The accounts after each statement about them; None if that is not known."""
        if self._second is None or not replay.accounts or not replay.accounts_are_told:
            return None
        statements = [(number, logged[number - 1]) for number in replay.accounts]
        return follow(self._second, database, start.accounts, statements)

    def _tell_accounts(
        self,
        replay: Replay,
        told: Mapping[int, Accounts],
        before: State,
        end: State,
        store: ChunkStore,
    ) -> bool:
        """The replay knows the accounts in between, if they begin and end as they were read."""
        shelf = Shelf(store)
        found: dict[str, dict[int, Table]] = {}
        for name in ACCOUNTS:
            like = before.tables[name]
            found[name] = {
                number: shelf.distinct(like.type, list(accounts.rows[name]), like)
                for number, accounts in told.items()
            }
            first, last = found[name][0], found[name][max(told)]
            if (first.chunks, last.chunks) != (like.chunks, end.tables[name].chunks):
                return False
        for name, tables in found.items():
            replay.tell(name, tables)
        return True


def look_of(source: MariaDbSource, connection: Connection[Any], database: str) -> Look:
    """The catalogue's present listing. Raises `SourceUnavailable`, `pymysql.Error`."""
    cascades: dict[tuple[str, str], Cascade] = {}
    for table, name, parent, column, target, on_delete, on_update in fetched(
        connection, _CASCADES, database
    ):
        known = cascades.get((table, name))
        cascades[table, name] = Cascade(
            table,
            (*(known.child_columns if known else ()), column),
            parent,
            (*(known.parent_columns if known else ()), target),
            on_delete not in _STAYING,
            on_update not in _STAYING,
        )
    catalogue = source.catalogue(connection, database)
    return Look(catalogue, tuple(cascades.values()))


def _gave_numbers(entry: Logged, before: State, end: State) -> bool:
    """True if the log shows rows of the transaction wherever numbers were given out."""
    earlier, later = before.tables.get(COUNTERS), end.tables.get(COUNTERS)
    if earlier is None or later is None:
        return False
    written = {rows.table for rows in entry.rows if rows.kind is Kind.WRITE}
    return all(str(key[0]) in written for key in moved_rows(earlier, later))
