"""The gate's judgement of what an agent committed already: a guard that watches production.

1. `begin` marks the tables (`marks`), makes a slot of logical decoding, and reads the database
   once. From there on its world is moved on by the log alone.
2. `follow` takes every transaction of the log in the order of their commits. One without the
   agent's mark belongs to the world. One with it is judged as a gate judges it, over the world
   that it was committed in, and gets a signed record that names its position in the log,
   and where it is not allowed all that it changed.
3. From time to time the world is kept on disk with its position (`checkpoints`), and the slot may
   forget what is before. A guard that starts again takes the log from there; what has a record
   already gets no other.
4. Rows in the log are read by how the tables are. So before a transaction is judged, the tables are
   looked at once more, after its commit. Where they are others, where the log does not have whole
   rows, or nobody knows whose a transaction was, the record says *hold*, and all is read anew.

A run is one transaction, or all within some minutes. Where one is not allowed another run begins:
what is done is done, and the next is not blamed for it.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import psycopg
from statediff_postgres.session import Connection, cause_of, opened
from statediff_postgres.source import PostgresSource

from statediff.capture.source import SourceUnavailable
from statediff.contract.file import ContractFile
from statediff.errors import InputError, UsageError
from statediff.model.readings import Capture
from statediff.model.state import State
from statediff.model.values import printable
from statediff.model.verdict import Decision
from statediff.packs import known_sandbox
from statediff.workspace.inputs import refinements
from statediff_gate.course import Changes, Course
from statediff_gate.deciding import Deciding
from statediff_gate.decoding import Ended, Logged, RowLine, Unreadable, transactions
from statediff_gate.digests import digest_of
from statediff_gate.following import DECODES, Snapshot, Tables, read_world, require_settings
from statediff_gate.participant import Outcome
from statediff_gate.production.alerts import Alerts
from statediff_gate.production.checkpoints import Checkpoint, Head
from statediff_gate.production.marks import Marks, Shape
from statediff_gate.production.stream import Stream, lsn_of, lsn_text
from statediff_gate.records import MOST_CHANGES, Records, read_decisions

_SLOT: Final = "SELECT lsn::text FROM pg_create_logical_replication_slot(%s, 'test_decoding')"
_SLOTS: Final = """
SELECT plugin, database = current_database(), confirmed_flush_lsn::text, wal_status, active_pid
FROM pg_replication_slots WHERE slot_name = %s
"""
_DATABASE: Final = """
SELECT concat((SELECT system_identifier FROM pg_control_system()), ':', oid) FROM pg_database
WHERE datname = current_database()
"""
_INSERTED: Final = "SELECT pg_current_wal_insert_lsn()::text"
_NOW: Final = b"SELECT clock_timestamp(), pg_current_wal_flush_lsn()::text"
_SETTLED: Final = timedelta(seconds=10)
"""What has a time of so long ago is in the log."""
_IDLE_SECONDS: Final = 0.2
_LOOK_SECONDS: Final = 5.0
_KEEP_SECONDS: Final = 30.0
_KEEP_SHARE: Final = 20
"""The world is kept so seldom that it takes no more than this part of the time."""
_AGAIN_SECONDS: Final = 5.0
_ERASE_SECONDS: Final = 3600.0


@dataclass(frozen=True, kw_only=True)
class Watch:
    """The source that is watched, and how."""

    source: str
    url: str
    agent: str
    """The role that the agent logs in as."""
    slot: str = "statediff_guard"
    run: timedelta = timedelta(0)
    """How long transactions count together; 0: each for itself."""
    keep: timedelta | None = None
    """How long records are kept; None: for good."""


class Guard:
    """A contract behind a PostgreSQL database, until it is closed."""

    def __init__(
        self, contract: ContractFile, watch: Watch, records: Records, alerts: Alerts
    ) -> None:
        self.watch, self.others = watch, 0
        self.decisions = Counter[str]()
        """Counts of its decisions since it started, and of other accounts' transactions."""
        self._records, self._alerts, self._has_told = records, alerts, False
        self._deciding = Deciding(contract)
        refine = refinements(None, known_sandbox(contract))(watch.source)
        self._source = PostgresSource(watch.source, watch.url, refine)
        self._kept = Checkpoint(records.folder, watch.slot)
        self._connect()

    def _connect(self) -> None:
        try:
            self._own: Connection = opened(self.watch.url)
            require_settings(self._own, self.watch.source, (DECODES,))
            self._database = str(self._one(_DATABASE))
        except psycopg.Error as error:
            raise InputError(
                f"{self.watch.source}: cannot be watched: {cause_of(error)}"
            ) from error
        self._marks = Marks(self._own, self.watch.slot, self.watch.agent)

    def close(self) -> None:
        """The database is left; its slot keeps the log for the next start."""
        self._own.close()

    @property
    def position(self) -> str:
        """The position from which the slot keeps the log."""
        return self._head.position

    def _one(self, question: str, *values: str) -> Any:
        row: Any = self._own.execute(question.encode(), values or None).fetchone()
        return row and row[0]

    # ------------------------------------------------------------ beginning and end

    def begin(self) -> Head:
        """The tables are marked, a slot keeps the log, and the world is on disk."""
        slot, before = self.watch.slot, self._kept.load()
        self._marks.require_agent()
        if self._own.execute(_SLOTS.encode(), (slot,)).fetchone() is not None:
            raise UsageError(
                f"the slot {slot} exists already: go on without --begin, end it with --end, or "
                "name another one with --slot"
            )
        try:
            at = lsn_of(self._one(_SLOT, slot))
        except psycopg.Error as error:
            raise InputError(f"no slot can be made: {cause_of(error)}") from error
        try:
            if before is not None:
                self._note(f"nobody watched from {before.position} to {lsn_text(at)}", {})
            self._read_anew(None, at)
        except BaseException:
            self.end()
            raise
        return self._head

    def end(self) -> None:
        """The slot is dropped, and the marks are removed: the server keeps nothing for a guard."""
        try:
            found = self._own.execute(_SLOTS.encode(), (self.watch.slot,)).fetchone()
            head = self._kept.load()
            if found is None and head is None:
                raise UsageError(f"no slot {self.watch.slot} is there")
            if (head is not None and head.database != self._database) or (found and not found[1]):
                raise UsageError(
                    f"the slot {self.watch.slot} is of another database than "
                    f"{self.watch.source!r}: end it there"
                )
            if found is not None:
                self._own.execute("SELECT pg_drop_replication_slot(%s)", (self.watch.slot,))
            self._marks.remove()
        except psycopg.Error as error:
            raise InputError(f"the guard cannot be ended: {cause_of(error)}") from error
        self._kept.remove()

    def _read_anew(self, why: str | None, position: int) -> None:
        """Mark and read everything; `why`, where a guard that is at work has to."""
        marked = self._shape.names - set(self._marks.shape().unmarked) if why else frozenset()
        for _ in range(3):
            self._marks.put()
            shape = self._marks.shape()
            state, _, snapshot = read_world(self._source)
            until = str(self._one(_INSERTED))
            if self._marks.shape() == shape:
                break
        else:
            raise SourceUnavailable("its tables kept changing while they were to be read")
        self._adopt(state, shape)
        self._deciding.require(Capture((self._course.world("before"),)))
        self._head = Head(
            slot=self.watch.slot, source=self.watch.source, agent=self.watch.agent,
            database=self._database, position=lsn_text(position), snapshot=snapshot,
            until=until, why=why,
            marked=tuple(sorted(marked)), shape=shape.tables,
        )  # fmt: skip
        self._snapshot: Snapshot | None = Snapshot.of(snapshot)
        self._is_moved = True
        self._keep(position)

    def _adopt(self, state: State, shape: Shape) -> None:
        self._course, self._shape = Course(self.watch.source, state), shape
        with self._source.session() as connection:
            _, catalogue = self._source.snapshot(connection)
        self._tables = Tables(self._own, state, catalogue)
        self._began: datetime | None = None
        self._mixed: str | None = None
        self._covered = 0

    def _keep(self, position: int) -> None:
        """The world is on disk, as it is at this position."""
        self._records.sync()
        begun = time.monotonic()
        world = self._course.base if self._is_moved else None
        self._head = self._kept.save(replace(self._head, position=lsn_text(position)), world)
        self._is_moved = False
        self._next_keep = time.monotonic() + max(
            _KEEP_SECONDS, _KEEP_SHARE * (time.monotonic() - begun)
        )

    # ------------------------------------------------------------ following

    def follow(self, stop: threading.Event, *, once: bool = False) -> None:
        """Judge what is committed, until `stop` is set, or `once` all that was there is judged."""
        self._open()
        while not stop.is_set():
            try:
                if self._own.closed:
                    self._connect()
                    self._open()
                self._follow(stop, once=once)
                return
            except (psycopg.Error, SourceUnavailable, InputError) as error:
                if once:
                    raise InputError(f"{self.watch.source}: the log ended: {error}") from error
                sys.stderr.write(f"{self.watch.source}: {error}; it is tried again\n")
                self._own.close()
                stop.wait(_AGAIN_SECONDS)

    def _open(self) -> None:
        """Everything is as it was kept. `UsageError` where a part of the log is gone."""
        head, slot = self._kept.load(), self.watch.slot
        found = self._own.execute(_SLOTS.encode(), (slot,)).fetchone()
        if head is None or found is None:
            raise UsageError(
                f"no slot {slot} is there with a beginning in {self._kept.folder}: start with "
                "--begin, once"
            )
        mine = (head.source, head.agent, head.database)
        if mine != (self.watch.source, self.watch.agent, self._database) or not found[1]:
            raise UsageError(
                f"the slot {slot} was begun for the role {head.agent!r} in the database "
                f"{head.source!r}: name another one with --slot"
            )
        if found[4] is not None:
            raise InputError(f"another guard follows the slot {slot}: process {found[4]}")
        if found[3] == "lost" or lsn_of(found[2]) > lsn_of(head.position):
            raise UsageError(
                f"the server does not have its log from {head.position} on any more, and nobody "
                "watched since: --end, then --begin; a record will say so"
            )
        self._marks.require_agent()
        self._head = head
        self._position = self._done = lsn_of(head.position)
        self._snapshot = None if head.snapshot is None else Snapshot.of(head.snapshot)
        self._is_moved = False
        self._next_keep = time.monotonic() + _KEEP_SECONDS
        self._read_records()
        self._adopt(self._kept.world(head), Shape(head.shape))
        self._look()
        self._deciding.require(Capture((self._course.world("before"),)))

    def _read_records(self) -> None:
        """Read which transactions have a record already, and which nobody was informed of."""
        self._decided: dict[int, str] = {}
        untold: list[Any] = []
        last = self._alerts.last
        for record in read_decisions(self._records.folder):
            guarded = record.get("guarded", {})
            if guarded.get("slot") == self.watch.slot:
                if "position" in guarded:
                    self._decided[lsn_of(guarded["position"])] = record["decision"]
                if record["decision"] != Decision.ALLOW.value:
                    untold.append(record)
                untold = [] if record["name"] == last else untold
        self._recorded = max(self._decided, default=0)
        for record in () if self._has_told else untold:
            self._alerts.put(record)
        self._has_told = True

    def _follow(self, stop: threading.Event, *, once: bool) -> None:
        until = self._now()
        end = until[0]
        with contextlib.closing(
            Stream(self.watch.url, self.watch.slot, lsn_of(self._head.position))
        ) as stream:
            self._stream = stream
            next_look = next_erase = 0.0
            for found in self._found(stream):
                now = time.monotonic()
                if found is not None:
                    self._take(found)
                elif stream.position >= until[0]:
                    self._end_run(until[1])
                if found is None and once:
                    stream.confirm(asks=True)
                self._done = stream.position
                if now > next_look:
                    self._marks.require_agent()
                    self._look()
                    until = self._now() if stream.position >= until[0] else until
                    next_look = time.monotonic() + _LOOK_SECONDS
                is_over = stop.is_set() or (once and found is None and stream.position >= end)
                if (now > self._next_keep or is_over) and not self._is_within:
                    self._keep_on()
                    if self.watch.keep is not None and now > next_erase:
                        self._records.erase(datetime.now(UTC) - self.watch.keep)
                        next_erase = now + _ERASE_SECONDS
                if is_over:
                    return

    @property
    def _is_within(self) -> bool:
        """True where the next transaction is judged by more than the world that could be kept."""
        return bool(self._course.own) or self._mixed is not None

    def _now(self) -> tuple[int, datetime]:
        """A position, and a time: what was committed until then is before the position."""
        row: Any = self._own.execute(_NOW).fetchone()
        return lsn_of(row[1]), row[0] - _SETTLED

    def _end_run(self, at: datetime) -> None:
        """Another run begins where this one has lasted long enough."""
        if self._began is not None and at - self._began >= self.watch.run:
            self._course.begin_run()
            self._began = self._mixed = None

    def _keep_on(self) -> None:
        """Keep the world, and let the slot go on to there."""
        stream = self._stream
        if self._done != lsn_of(self._head.position):
            if self._snapshot is None:
                self._head = replace(self._head, snapshot=None, until=None, why=None, marked=())
            self._keep(self._done)
        stream.kept = self._done
        stream.confirm()

    def _found(self, stream: Stream) -> Iterator[Logged | None]:
        """Each transaction of the log; None where there is none for a while."""
        lines: list[str] = []
        for line in stream.lines(_IDLE_SECONDS):
            if line is None:
                yield None
                continue
            lines.append(line)
            if line.startswith("COMMIT "):
                self._position = stream.position
                try:
                    found = list(transactions(lines))
                except Unreadable as error:
                    why = f"the log has a line that cannot be read: {error}"
                    self._note(why, self._place(None), is_known=False)
                    self._read_anew(why, self._done)
                    found = []
                lines = []
                yield from (each for each in found if not isinstance(each, Ended))

    # ------------------------------------------------------------ one transaction

    def _take(self, found: Logged) -> None:
        """The transaction is in the world, and judged where it is the agent's."""
        marks = [content for prefix, content in found.messages if prefix == self.watch.slot]
        if marks and self._position > self._covered:
            self._look()
        if self._snapshot is not None and self._position > lsn_of(self._head.until or "0/0"):
            self._snapshot = None
        self._end_run(_instant(found))
        if self._snapshot is not None and self._snapshot.has(found.xid):
            places = {(line.schema, line.table) for line in found.rows}
            if self._head.why is not None and (marks or not places.issubset(self._head.marked)):
                self._note(self._head.why, self._place(found), found, is_known=bool(marks))
            return
        try:
            why = self._judge(found, marks) if marks else self._follow_others(found)
        except ValueError as error:
            why = f"the log does not fit what was read: {error}"
            if marks:
                self._note(why, self._place(found), found)
        if why is not None:
            if not marks and not self._tables.knows(found.rows):
                self._note(why, self._place(found), found, is_known=False)
            self._read_anew(why, self._done)

    def _follow_others(self, found: Logged) -> str | None:
        """The world with a transaction of others; the reason where it cannot be followed."""
        changes, doubt = self._tables.edits(found.rows, self._course)
        if doubt is None:
            mixed = self._course.meeting(changes)
            if mixed is not None:
                self._course.begin_run()
                self._mixed = mixed
            self._course.others(changes)
            self._is_moved |= bool(changes)
        self.others += bool(found.rows)
        return doubt

    def _judge(self, found: Logged, marks: list[str]) -> str | None:
        """The agent's transaction has its record; the reason where its rows are not all known."""
        course, position = self._course, self._position
        self._began = self._began if course.own else _instant(found)
        changes, lost = self._tables.edits(found.rows, course)
        unlogged = {str(oid): table for oid, table in self._tables.unlogged.items()}
        unseen = [unlogged[each] for each in marks if each in unlogged]  # anybody may write others
        doubt = lost or (f"{unseen[0]}: the server does not log it" if unseen else self._mixed)
        if not changes and doubt is None:
            return None
        state, own = course.with_changes(changes)
        decision = Decision(self._decided.get(position, Decision.ALLOW.value))
        if position > self._recorded:
            decision = self._decide(found, changes, state, doubt, is_whole=lost is None)
        course.accept(state, own, is_restructured=False)
        self._is_moved = True
        if decision is not Decision.ALLOW or not self.watch.run:
            course.begin_run()
            self._mixed = None
        return lost

    def _decide(
        self, found: Logged, changes: Changes, state: State, doubt: str | None, *, is_whole: bool
    ) -> Decision:
        """The decision, whose record is on disk."""
        course, name = self._course, self.watch.source
        sides = (
            Capture((course.capture("before", course.base),)),
            Capture((course.capture("after", state),)),
        )
        stands = self._deciding.standing(*sides)
        decision, why = stands.decision, stands.why
        if decision is Decision.ALLOW and doubt is not None:
            decision, why = Decision.HOLD, doubt
        digest = digest_of({name: changes}, {name: state.schema})
        outcome = Outcome(
            decision=decision, why=why, is_committed=True, digest=digest, changes={name: changes}
        )
        self._write(outcome, self._place(found), sides, [] if is_whole else self._lines(found))
        return decision

    def _lines(self, found: Logged) -> list[Mapping[str, Any]]:
        """The log's lines on the rows of a transaction that cannot be read whole."""
        return [self._line(row) for row in found.rows[:MOST_CHANGES]]

    def _line(self, row: RowLine) -> Mapping[str, Any]:
        known = self._tables.logged.get((row.schema, row.table))
        cells = row.old or row.new or {}
        key = {n: printable(str(cells[n])[:200]) for n in known.keys if n in cells} if known else {}
        return {"op": row.op.lower(), "table": printable(f"{row.schema}.{row.table}"), "key": key}

    def _note(
        self, why: str, place: dict[str, str], found: Logged | None = None, *, is_known: bool = True
    ) -> None:
        """Record that something is not known; it is never called allowed."""
        if not is_known:
            why = f"nobody knows whose it was: {why}"
            del place["agent"]
        if not place or self._position > self._recorded:
            outcome = Outcome(decision=Decision.HOLD, why=why, is_committed=True)
            self._write(outcome, place, None, [] if found is None else self._lines(found))

    def _write(
        self,
        outcome: Outcome,
        place: dict[str, str],
        sides: tuple[Capture, Capture] | None,
        lines: list[Mapping[str, Any]],
    ) -> None:
        guarded = {"slot": self.watch.slot, **place}
        self._records.write(outcome, (), captures=sides, guarded=guarded, lines=lines)
        self.decisions[outcome.decision.value] += 1
        if outcome.decision is not Decision.ALLOW:
            self._alerts.put(self._records.last())

    def _place(self, found: Logged | None) -> dict[str, str]:
        """Which transaction it is, in the words of a record."""
        watch = self.watch
        named = {"source": watch.source, "agent": watch.agent, "position": lsn_text(self._position)}
        if found is not None:
            named |= {"transaction": str(found.xid), "committed_at": _instant(found).isoformat()}
        return named

    # ------------------------------------------------------------ the tables

    def _look(self) -> None:
        """The tables are as they were when all was read; else all is read anew."""
        at = lsn_of(self._one(_INSERTED))
        shape = self._marks.shape()
        if shape.unmarked or shape.tables != self._shape.tables:
            self._changed(shape)
        self._covered = at

    def _changed(self, shape: Shape) -> None:
        """Read anew; note which marks were away from tables that are known."""
        away = sorted(f"{s}.{t}" for s, t in shape.unmarked if (s, t) in self._shape.names)
        if away:
            why = (
                f"the mark of {', '.join(away)} was away: some of the agent's may pass for others'"
            )
            self._note(why, {})
        self._read_anew("the tables were changed meanwhile", self._done)


def _instant(found: Logged) -> datetime:
    """When it was committed, by the server's clock."""
    return datetime.fromisoformat(found.at or "").astimezone(UTC)
