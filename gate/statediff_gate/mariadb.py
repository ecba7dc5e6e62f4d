"""A MariaDB database behind the gate: an XA transaction, read from the server's log of rows.

1. The whole is read once at a place of the log: everything later comes from the log.
2. The agent's statements run in an XA transaction of a connection of its own, with the agent's
   account: no setting and no temporary table of one transaction is there in the next. Only
   statements that can neither end it nor run a text as a statement are taken (`_require_plain`).
3. `XA PREPARE` writes the transaction's rows to the log, under its name. What others committed
   before it moves the world on. Rows that follow others by a foreign key are in no log: of tables
   with such, what the prepared transaction left is read as not committed yet.
4. `XA COMMIT` or `XA ROLLBACK`. A gate that was killed leaves a prepared transaction at most, which
   the next gate on the server ends (`Journal.reap`).
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Final

import pymysql
from pymysql.constants import ER
from statediff_mariadb.changes import Change, Inexact, gone_of, may_follow, read_changes
from statediff_mariadb.feed import LOG_SECONDS, look_of
from statediff_mariadb.log import Logged, LogReader, check_settings, last_in_log
from statediff_mariadb.session import Connection, cause_of, connected, fetched, literal
from statediff_mariadb.source import ATTEMPTS, READ_SECONDS, MariaDbSource, Scan

from statediff.capture.source import SourceUnavailable
from statediff.errors import InputError, UsageError
from statediff.model.columns import table_changes
from statediff.model.schema import EntityType, Schema
from statediff.model.state import MemoryChunks, State
from statediff.model.values import printable
from statediff.systems.base.plugin import Refinement
from statediff.systems.base.tool import MAX_SECONDS
from statediff.systems.relational.schema import Shelf
from statediff.systems.relational.structure import SOUND
from statediff.systems.relational.tools import Scalar, with_percent_marks
from statediff_gate.course import Changes, Course, Prepared, key_of, net
from statediff_gate.journal import Journal, number_of
from statediff_gate.participant import MOST_ROWS, Answer, Participant, Refused
from statediff_gate.statements import MARIADB, Rewrite, RowEdit

_WAIT: Final = "SET SESSION wait_timeout = 31536000, innodb_lock_wait_timeout = 5"
_WRITING: Final = (
    "SET SESSION time_zone = '+00:00',"
    " sql_mode = 'ANSI_QUOTES,STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO'"
)
_UNCOMMITTED: Final = "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED"
_ENGINES: Final = """
SELECT table_name, engine FROM information_schema.tables WHERE table_schema = {db}
AND table_type NOT IN ('VIEW', 'SYSTEM VIEW', 'SEQUENCE') AND coalesce(engine, '') <> 'InnoDB'
"""
_CHECKS: Final = "SELECT @@foreign_key_checks AND @@check_constraint_checks AND @@unique_checks"
_BLANK: Final = re.compile(
    r"[\s(]+|--(?=\s)[^\n\0]*|#[^\n\0]*|/\*(?!M?!).*?\*/", re.DOTALL | re.ASCII
)
"""White space or a comment before the first word; a comment that the server executes is none."""
_WORD: Final = re.compile(r"\w*", re.ASCII)
_TAKEN: Final = re.compile(
    r"select|with|values|insert|replace|update|delete|call|do|set|show|desc|describe|explain|use",
    re.IGNORECASE,
)
_NEVER_SET: Final = re.compile(
    r"\b(?:statement|password|role)\b|(?:foreign_key|check_constraint|unique)_checks", re.IGNORECASE
)
_GRANT: Final = re.compile(r"GRANT (?P<rights>.+?) ON (?P<place>\S+) TO ", re.DOTALL)
_ENDED: Final = re.compile(r"XA (COMMIT|ROLLBACK) X'([0-9a-f]*)',X'([0-9a-f]*)',1", re.IGNORECASE)
_PASSING: Final = re.compile(r"XA|XA END .*|(RELEASE )?SAVEPOINT .*|COMMIT", re.DOTALL)
"""What the log names beside rows, and that changes nothing."""
_TRIES: Final = 20


class MariaDbGate(Participant):
    """One database behind the gate."""

    is_durable: ClassVar[bool] = True
    is_single: ClassVar[bool] = False
    product: ClassVar[tuple[str, str] | None] = ("MariaDB", MARIADB)

    def __init__(
        self, name: str, url: str, account: str, refine: Refinement | None, journal: Journal
    ) -> None:
        self.name = name
        self._journal, self._url, self._account = journal, url, account
        self._source = MariaDbSource(name, url, refine)
        self._waiting: dict[str, Logged] = {}
        """Transactions that others prepared and have not committed."""
        self._own: Connection[Any] | None = None
        self._agent: Connection[Any] | None = None
        self._log: LogReader | None = None
        self._stage = self._name = ""
        try:
            self._own, self._database = connected(url, READ_SECONDS)
            for statement in (_WAIT, _UNCOMMITTED, "SET SESSION sql_mode = 'ANSI_QUOTES'"):
                self._own.query(statement)
            check_settings(self._own)
            _of_lock(self._own, journal.number, "GET_LOCK({}, 0)")
            _reap(self._own, journal, self._database)
            state = self._begin_world()
            self._connect()  # as every transaction does, and for `require_account`
        except (pymysql.Error, OSError, SourceUnavailable) as error:
            self.close()
            why = str(error) if isinstance(error, SourceUnavailable) else cause_of(error)
            raise InputError(f"{name}: no gate can stand before it: {why}") from error
        self._course = Course(name, state)

    def _connect(self) -> None:
        self._leave()
        self._agent, database = connected(self._account, MAX_SECONDS)
        self._agent.decoders = {**pymysql.converters.decoders}
        self._agent.encoders = {**pymysql.converters.encoders}
        self._agent.query(_WAIT)
        self._agent.select_db(database)

    def _begin_world(self) -> State:
        """Everything, as it is where the log has its end."""
        with self._source.session() as (connection, database):
            for _ in range(ATTEMPTS):
                place = last_in_log(connection)
                self._look = look_of(self._source, connection, database)
                store = MemoryChunks()
                catalogue = self._look.catalogue
                state, _ = self._source.look(connection, database, catalogue, store, None)
                is_steady = last_in_log(connection) == place
                connection.rollback()
                if is_steady:
                    self._log = LogReader(self._url, place, LOG_SECONDS, waits=True)
                    return state
        raise SourceUnavailable("its tables kept changing while they were read")

    def require_account(self) -> None:
        for (line,) in fetched(self._there(self._agent), "SHOW GRANTS"):
            found = _GRANT.match(str(line))
            if found is None:
                if str(line).startswith("GRANT "):
                    raise UsageError(f"{self.name}: the agent's account has a role: {line}")
                continue
            schema = found["place"].partition(".")[0].strip("`").replace("\\", "")
            if found["rights"] != "USAGE" and schema != self._database:
                raise UsageError(
                    f"{self.name}: the agent's account may do more than in this database, where "
                    f"nobody sees it: {found['rights'][:60]} on {found['place']}"
                )
        if (why := self._other_engine()) is not None:
            raise UsageError(f"{self.name}: {why}")

    def _other_engine(self) -> str | None:
        """Why what is written to a table is there whether it is committed or not."""
        for table, engine in fetched(self._there(self._own), _ENGINES, self._database):
            return f"{table} is of {engine}, which takes nothing back"
        return None

    # ------------------------------------------------------------ the transaction

    def _there(self, connection: Connection[Any] | None) -> Connection[Any]:
        if connection is None:
            raise Refused(f"{self.name}: there is no connection to the server")
        return connection

    def _xid(self, transaction: str) -> str:
        return f"{literal(transaction)}, {literal(self._database)}"

    def begin(self, transaction: str) -> None:
        self._name = transaction
        try:
            self._connect()
            self._there(self._agent).query(f"XA START {self._xid(transaction)}")
        except (pymysql.Error, OSError) as error:
            self._leave()
            raise Refused(f"{self.name}: no transaction can begin: {cause_of(error)}") from error
        self._stage = "active"

    def run(self, statement: str, values: Sequence[Scalar] = ()) -> Answer:
        _require_plain(statement)
        text = with_percent_marks(statement) if values else statement
        try:
            with self._there(self._agent).cursor() as cursor:
                touched = cursor.execute(text, tuple(values) or None)
                names = tuple(column[0] for column in cursor.description or ())
                rows = tuple(cursor.fetchmany(MOST_ROWS + 1)) if names else ()
        except (pymysql.Error, OSError, UnicodeError, TypeError, ValueError) as error:
            raise Refused(f"{self.name}: the database refuses it: {error}") from error
        return Answer(names, rows[:MOST_ROWS], touched, len(rows) > MOST_ROWS)

    def rewriting(self, edits: Sequence[RowEdit], schema: Schema) -> Iterable[Rewrite]:
        self._there(self._agent).query(_WRITING)
        return super().rewriting(edits, schema)

    def prepare(self) -> Prepared:
        try:
            ((is_checked,),) = fetched(self._there(self._agent), _CHECKS)
            for step in ("END", "PREPARE"):
                self._there(self._agent).query(f"XA {step} {self._xid(self._name)}")
                self._stage = "idle"
            self._stage = "prepared"
            mine, _ = self._follow()
            found = ({}, None) if mine is None else self._edits(mine, is_own=True)
            self._changes: Changes = found[0]
            checks = None if str(is_checked) == "1" else "checks of the server were turned off"
            self._doubt = found[1] or checks or self._other_engine()
        except (pymysql.Error, OSError, SourceUnavailable) as error:
            raise Refused(f"{self.name}: it cannot be prepared: {error}") from error
        return self._shown()

    def _shown(self) -> Prepared:
        course = self._course
        self._proposed = course.with_changes(self._changes)
        return course.prepared(self._proposed[0], self._changes, self._doubt)

    def look_again(self) -> Prepared | None:
        try:
            _, has_others = self._follow()
        except (pymysql.Error, OSError, SourceUnavailable) as error:
            raise Refused(f"{self.name}: its log cannot be followed: {error}") from error
        return self._shown() if has_others else None

    def commit(self) -> None:
        try:
            self._there(self._agent).query(f"XA COMMIT {self._xid(self._name)}")
        except (pymysql.Error, OSError) as error:
            self._leave()
            try:
                _end(self._there(self._own), "COMMIT", self._name, self._database)
            except (pymysql.Error, OSError):
                raise Refused(f"{self.name}: nothing was committed: {cause_of(error)}") from error
        self._stage = ""
        self._course.accept(*self._proposed)

    def abort(self) -> None:
        stage, self._stage = self._stage, ""
        if not stage:
            return
        try:
            if stage == "active":
                self._there(self._agent).query(f"XA END {self._xid(self._name)}")
            self._there(self._agent).query(f"XA ROLLBACK {self._xid(self._name)}")
        except (pymysql.Error, OSError, Refused):
            self._leave()  # what is not prepared ends with it
            if stage == "prepared":
                with contextlib.suppress(pymysql.Error, OSError):
                    _end(self._there(self._own), "ROLLBACK", self._name, self._database)

    def _leave(self) -> None:
        """The agent's connection is no more."""
        if self._agent is not None:
            with contextlib.suppress(pymysql.Error, OSError):
                self._agent.close()
            self._agent = None

    def close(self) -> None:
        self.abort()
        self._leave()
        if self._log is not None:
            self._log.close()
        if self._own is not None:
            with contextlib.suppress(pymysql.Error, OSError):
                self._own.close()

    # ------------------------------------------------------------ what was done

    def _follow(self) -> tuple[Logged | None, bool]:
        """Our transaction in the log; whether others committed something."""
        log, self._log = self._log, None
        if log is None:
            raise SourceUnavailable("it could not be read to its end: open the gate again")
        try:
            end = last_in_log(self._there(self._own))
            told = [self._told(each) for each in log.until(end)]
        except BaseException:
            log.close()
            raise
        self._log = log
        return next((mine for mine, _ in told if mine), None), any(others for _, others in told)

    def _told(self, found: Logged) -> tuple[Logged | None, bool]:
        """Our transaction, if it is that; whether it is others' who committed something."""
        ended = next(filter(None, map(_ENDED.fullmatch, found.statements)), None)
        name = found.prepared
        if ended is not None:
            name = bytes.fromhex(ended[2] + ended[3]).decode("utf-8", "replace")
        if name is None:
            return None, self._add_others(found)
        if name == self._name + self._database:
            return (found if ended is None else None), False
        if number_of(name) == self._journal.number:
            return None, False  # it has ended, and what it did is known
        if ended is None:
            self._waiting[name] = found
        elif (theirs := self._waiting.pop(name, None)) is None:
            self._course.conflict = "others ended what they had prepared before the gate stood"
        elif ended[1].upper() == "COMMIT":
            return None, self._add_others(theirs)
        return None, False

    def _add_others(self, logged: Logged) -> bool:
        changes, doubt = self._edits(logged, is_own=False)
        self._course.others(changes, doubt)
        return doubt is not None or bool(changes)

    def _edits(self, logged: Logged, *, is_own: bool) -> tuple[Changes, str | None]:
        """The rows of one transaction, net by key, and why they may not be all."""
        course, doubt = self._course, None
        types = {each.source_table: each for each in course.base.schema.types}
        found: dict[str, list[Change]] = {}
        for text in logged.statements:
            if not _PASSING.fullmatch(text):
                doubt = f"its log has a statement: {printable(text[:80])}"
        for rows in logged.rows:
            entity = types.get(rows.table)
            if rows.database != self._database:
                doubt = f"it wrote to the database {printable(rows.database)}" if is_own else doubt
            elif entity is None:
                doubt = f"{printable(rows.table)}: a table that was made since the gate was opened"
            else:
                entity = course.base.tables[entity.name].type
                try:
                    found.setdefault(rows.table, []).extend(
                        read_changes(self._database, rows, entity, self._look.catalogue)
                    )
                except Inexact as error:
                    doubt = f"{entity.name}: {error}"
        doubt = self._add_following(found, types, is_own=is_own) or doubt
        made = {types[table].name: net(types[table], each) for table, each in found.items()}
        return {name: edits for name, edits in made.items() if edits.gone or edits.come}, doubt

    def _add_following(
        self, found: dict[str, list[Change]], types: dict[str, EntityType], *, is_own: bool
    ) -> str | None:
        """Add the rows that followed others by a foreign key; why some are not known."""
        waiting = [*found]
        while waiting:
            parent = waiting.pop()
            for key in self._look.cascades:
                child = types.get(key.child)
                if key.parent != parent or child is None or not (key.on_delete or key.on_update):
                    continue
                gone = gone_of(types[parent], key, found[parent])
                known = self._course.committed().tables[child.name]
                if not gone or not may_follow(child, key, gone, known, found.get(key.child, [])):
                    continue
                if not is_own or child.is_keyless:
                    return f"{child.name}: rows of it followed others, which no log tells"
                scan = Scan(self._there(self._own), self._database, self._look.catalogue,
                            Shelf(MemoryChunks()), SOUND)  # fmt: skip
                fields = [f.name for f in child.fields if f.source_column in key.child_columns]
                wanted = {repr(each) for each in gone}
                mine = {repr(key_of(child, row)) for change in found.get(key.child, [])
                        for row in change if row is not None}  # fmt: skip
                more = [
                    Change(each.before, each.after)
                    for each in table_changes(known, scan.table(known.type, known))
                    if repr(each.key) in mine
                    or repr(tuple((each.before or {}).get(name) for name in fields)) in wanted
                ]
                if len(more) > len(mine):
                    waiting.append(key.child)
                found[key.child] = more
        return None


def _require_plain(statement: str) -> None:
    """The statement can only read, write rows, or set something harmless. Raises `Refused`."""
    at = 0
    while (blank := _BLANK.match(statement, at)) is not None:
        at = blank.end()
    found = _WORD.match(statement, at)
    word = found[0].upper() if found is not None else ""
    if not _TAKEN.fullmatch(word):
        raise Refused(f"{word or statement[:9]!r}: no statement of a transaction before a gate")
    if word == "SET" and (never := _NEVER_SET.search(statement)) is not None:
        raise Refused(f"SET {never[0]}: is not the agent's to set")


def _prepared(connection: Connection[Any], database: str) -> list[str]:
    """The names of the prepared transactions of the database."""
    found = []
    for _, size, _, data in fetched(connection, "XA RECOVER"):
        whole = data if isinstance(data, bytes) else str(data).encode()
        if whole[int(size) :] == database.encode():
            found.append(whole[: int(size)].decode("utf-8", "replace"))
    return found


def _end(connection: Connection[Any], how: str, name: str, database: str) -> None:
    """The prepared transaction is ended by another connection, once the server lets go of it."""
    for tried in range(_TRIES):
        try:
            connection.query(f"XA {how} {literal(name)}, {literal(database)}")
            return
        except pymysql.Error as error:
            is_unknown = error.args[:1] == (ER.XAER_NOTA,)
            if is_unknown and name not in _prepared(connection, database):
                return  # it has ended already
            if tried == _TRIES - 1:
                raise
            time.sleep(0.1)


def _of_lock(connection: Connection[Any], number: int, call: str) -> bool:
    name = literal(f"statediff-gate-{number}")
    return [*map(str, *fetched(connection, f"SELECT {call.format(name)}"))] == ["1"]


def _reap(connection: Connection[Any], journal: Journal, database: str) -> None:
    """The prepared transactions of gates that are gone are ended."""
    journal.reap(
        _prepared(connection, database),
        lambda number: _of_lock(connection, number, "GET_LOCK({}, 1)"),
        lambda how, name: _end(connection, how, name, database),
        lambda number: _of_lock(connection, number, "RELEASE_LOCK({})"),
    )
