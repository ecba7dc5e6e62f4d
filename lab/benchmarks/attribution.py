"""Who made each change: calls over concurrent connections, each delta compared with what is known.

Every connection runs in a thread of its own on one SQLite database, and every action is recorded
with the transactions it made. Actions insert, update and delete rows, several at once too; some
read, some fail, some change nothing, some are transactions of several statements. What one writes
carries its number, so that the state after the run says itself who left what: `wrong` counts the
deltas attributed to another action.
"""

from __future__ import annotations

import random
import sqlite3
import tempfile
import threading
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from statediff.agents.recorder import Recorder
from statediff.capture.feed import Watch
from statediff.capture.source import clock
from statediff.capture.store import DiskChunks
from statediff.capture.take import take
from statediff.contract.file import parse_contract
from statediff.kernel import Evaluated, evaluate
from statediff.model.delta import Delta, Entity, Op
from statediff.model.trace import Mark
from statediff.systems.sqlite.feed import SqliteFeed
from statediff.systems.sqlite.source import SqliteSource
from statediff.systems.sqlite.wal import LogMarks

ROWS = 400
CONTRACT = b"""\
contract: lab/benchmarks/attribution
version: 1.0.0
owner: benchmarks
intent: Everything may change; the question is who changed it.
noop: true
forbid:
  - {id: none-by-the-system, any: item, by: system}
allow:
  - any: item
    by: agent
"""


@dataclass(frozen=True, kw_only=True)
class Attributed:
    """How many deltas of a run have a maker, and how many of these are right."""

    deltas: int
    attributed: int
    wrong: int


class Workload:
    """Threads that act on one database, recorded; `deleted` says who deleted which row."""

    def __init__(self, database: Path, recorder: Recorder | None, seed: int) -> None:
        self.database = database
        self.recorder = recorder
        self.seed = seed
        self.deleted: dict[int, str] = {}

    def run(self, actions: int, connections: int) -> None:
        """All actions are made, as evenly as can be."""
        shares = [range(at, actions, connections) for at in range(connections)]
        threads = [threading.Thread(target=self._work, args=(share,)) for share in shares]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _work(self, share: range) -> None:
        marks = LogMarks("shop-db", self.database)
        with closing(sqlite3.connect(self.database, timeout=60, isolation_level=None)) as database:
            for number in share:
                self._act(number, database, marks)

    def _act(self, number: int, database: sqlite3.Connection, marks: LogMarks) -> None:
        chance = random.Random(f"{self.seed} {number}")
        call = "" if self.recorder is None else self.recorder.begin("sql", {"number": number})
        stamp = int(call.removeprefix("call-") or 0)
        made: list[Mark] = []
        error: str | None = None
        try:
            for statement, parameters in statements(chance, number, stamp):
                rows, new = marks.execute(database, statement, parameters)
                made += new
                if statement.startswith("DELETE"):
                    self.deleted |= {row[0]: call for row in rows}
        except sqlite3.Error as failed:
            error = str(failed)
            if database.in_transaction:
                database.execute("ROLLBACK")
        if self.recorder is not None:
            self.recorder.end(call, error=error, transactions=made)


def statements(
    chance: random.Random, number: int, stamp: int
) -> list[tuple[str, tuple[object, ...]]]:
    """The statements of one action."""
    row = chance.randrange(1, ROWS + 1)
    insert = ("INSERT INTO item VALUES (?, ?, 'new')", (10_000 + number, stamp))
    update = ("UPDATE item SET n = ? WHERE id = ?", (stamp, row))
    match chance.randrange(10):
        case 0 | 1:
            return [insert]
        case 2 | 3 | 4:
            return [update]
        case 5:
            return [("UPDATE item SET n = ? WHERE id BETWEEN ? AND ?", (stamp, row, row + 4))]
        case 6:
            return [("DELETE FROM item WHERE id = ? RETURNING id", (ROWS + row,))]
        case 7:
            return [("SELECT count(*) FROM item", ()), ("UPDATE item SET n = 1 WHERE 0", ())]
        case 8:
            return [("BEGIN IMMEDIATE", ()), update, insert, ("COMMIT", ())]
        case _:
            return [("INSERT INTO item VALUES (?, ?, 'clash')", (row, stamp)), insert]


def measure(
    actions: int, connections: int, seed: int, *, unrecorded: int = 0
) -> tuple[Attributed, Evaluated]:
    """One run, judged; `unrecorded` more actions are made past the recorder."""
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder, "shop.sqlite")
        with closing(sqlite3.connect(database, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, n INT, t TEXT)")
            rows = [(number, 0, "old") for number in range(1, 2 * ROWS + 1)]
            connection.executemany("INSERT INTO item VALUES (?, ?, ?)", rows)
        store, source = DiskChunks(Path(folder, "chunks")), SqliteSource("shop-db", database)
        with (
            Recorder(Path(folder, "calls.jsonl"), clock) as recorder,
            Watch([SqliteFeed("shop-db", database)], clock) as watch,
        ):
            before = take([source], store, clock, None, "before")
            work = Workload(database, recorder, seed)
            work.run(actions, connections)
            Workload(database, None, seed + 1).run(unrecorded, 1)
            recorder.close()
            after = watch.add_history(store, before, take([source], store, clock, before, "after"))
            trace = recorder.trace()
        file = parse_contract(CONTRACT, "attribution.yaml")
        evaluated = evaluate(file, before, after, trace=trace)
    deltas = evaluated.judgement.deltas
    known = [d for d in deltas if d.action is not None]
    return Attributed(
        deltas=len(deltas),
        attributed=len(known),
        wrong=sum(d.action != truth(d, work.deleted) for d in known),
    ), evaluated


def truth(delta: Delta, deleted: dict[int, str]) -> str:
    """The call that left the delta, as the state itself says."""
    if delta.op is Op.DELETE:
        return deleted[int(str(delta.key[0]))]
    stamp = dict(delta.after.fields)["n"] if isinstance(delta.after, Entity) else delta.after
    return f"call-{stamp}"
