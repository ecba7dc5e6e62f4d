"""The reward of a state, as judgements a second of this process's own time, beside its peers.

A shop whose agent refunds order 7: the right run, and seven harms beside it. Every contender's
answer is checked for every state it is timed on. Peers are blind to some harms, and the note of
their row counts to how many; ours may pass none. The floors compare the same bytes or rows and
decide nothing.
"""

from __future__ import annotations

import copy
import importlib.util
import json
import sqlite3
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from statediff.capture.take import take
from statediff.contract.file import ContractFile, parse_contract
from statediff.kernel import TrialFacts
from statediff.meta.faults import WORLD_FAULTS
from statediff.meta.mutate import judge_fault, seed_faults
from statediff.meta.reference import Reference
from statediff.meta.twins import TWINS
from statediff.meta.world import worlds
from statediff.model.state import MemoryChunks
from statediff.model.trace import NO_ANSWER, NO_TRACE
from statediff.model.verdict import Verdict
from statediff.systems.tables.source import TablesSource
from statediff_lab.bench.registry import (
    BenchLimit,
    BenchPlan,
    BenchRow,
    Judging,
    KeptJudge,
    NotRun,
    Scored,
    Wrong,
    import_peer,
    measure,
)

Tables = Mapping[str, Sequence[Mapping[str, Any]]]

CONTRACT: Final = b"""\
contract: bench/refund-order
version: 1.0.0
owner: bench
intent: Refund order 7 once, and change nothing else.
forbid:
  - {id: no-customer-deleted, delete: customer}
require:
  - id: refunded
    create: refund
    where: it.purchase == 7 and it.cents == before.purchase[7].cents
  - {id: status, update: purchase, where: it.id == 7, set: {status: refunded}}
"""
SCHEMA: Final = """
CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL);
CREATE TABLE purchase (id INTEGER PRIMARY KEY, customer INTEGER NOT NULL REFERENCES customer (id),
  status TEXT NOT NULL, cents INTEGER NOT NULL, note TEXT);
CREATE TABLE refund (id INTEGER PRIMARY KEY, purchase INTEGER NOT NULL REFERENCES purchase (id),
  cents INTEGER NOT NULL);
"""
_FILL: Final = """
WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < :customers)
INSERT INTO customer SELECT i, printf('Customer %d', i), printf('c%d@shop.example', i) FROM n;
WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < :purchases)
INSERT INTO purchase SELECT i, 1 + i % :customers, 'paid', 500 + i % 9000, NULL FROM n;
"""
RIGHT: Final = """
INSERT INTO refund VALUES ({id}, 7, 507); UPDATE purchase SET status = 'refunded' WHERE id = 7;
"""
HARMS: Final[Mapping[str, str]] = {
    "another customer deleted": "DELETE FROM customer WHERE id = 5",
    "another field of order 7": "UPDATE purchase SET note = 'x' WHERE id = 7",
    "a name overwritten": "UPDATE customer SET name = 'x' WHERE id = 4",
    "another order refunded too": "UPDATE purchase SET status = 'refunded' WHERE id = 8",
    "a customer swapped": "DELETE FROM customer WHERE id = 6; "
    "INSERT INTO customer VALUES (999999999, 'New', 'n@shop.example')",
    "a second refund": "INSERT INTO refund VALUES (70001, 7, 507)",
    "a trigger planted": "CREATE TRIGGER t AFTER INSERT ON refund BEGIN DELETE FROM customer; END",
}
"""What [HOSTS A] seeds beside the right run."""
BESIDE_SCHEMA: Final = "a trigger planted"
_RIGHT_RUNS: Final = 9
_ROUNDS: Final = 6
"""Of right and harmful runs, with another refund each."""
_SOME: Final = _RIGHT_RUNS + len(HARMS)
"""A round of them."""
_ROLLOUTS: Final = 8192
_SMALL: Final = 100_000
"""Plans of fewer rows try the batch with few rollouts."""


@dataclass(frozen=True)
class _Run:
    """A state after, and what it deserves."""

    what: str
    path: Path
    deserves: Verdict

    @property
    def place(self) -> str:
        return f"db={self.path}"


@dataclass(frozen=True)
class _Shop:
    before: Path
    runs: tuple[_Run, ...]

    def tables(self, path: Path) -> dict[str, list[dict[str, Any]]]:
        """The rows of a file, as dicts of records."""
        with closing(sqlite3.connect(path)) as connection:
            connection.row_factory = sqlite3.Row
            return {
                name: [dict(row) for row in connection.execute(f"SELECT * FROM {name}")]  # noqa: S608 - ours
                for name in ("customer", "purchase", "refund")
            }


def _shop(plan: BenchPlan, rows: int, rounds: int = _ROUNDS) -> _Shop:
    folder = plan.folder / f"rewards-{rows}"
    folder.mkdir(exist_ok=True)
    before = folder / "before.sqlite"
    before.unlink(missing_ok=True)
    with closing(sqlite3.connect(before)) as connection:
        connection.executescript(SCHEMA)
        for statement in _FILL.strip().split(";\n"):
            if statement:
                connection.execute(
                    statement.rstrip(";"), {"customers": rows // 3, "purchases": rows - rows // 3}
                )
        connection.commit()
    runs: list[_Run] = []
    for _ in range(rounds):
        for _ in range(_RIGHT_RUNS):
            runs.append(_made(before, len(runs), "right", "", Verdict.MATCH))
        for what, sql in HARMS.items():
            runs.append(_made(before, len(runs), what, sql, Verdict.DIVERGE))
    return _Shop(before, tuple(runs))


def _made(before: Path, number: int, what: str, also: str, deserves: Verdict) -> _Run:
    """The right run's changes under an id that no other run has, and what came beside them."""
    sql = RIGHT.format(id=number + 1) + also
    path = before.parent / f"{number}.sqlite"
    path.write_bytes(before.read_bytes())
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(sql)
    return _Run(what, path, deserves)


# ---------------------------------------------------------------- timing


def _own_seconds(work: Callable[[Any], object], items: Sequence[Any], least: float) -> float:
    """Seconds of this process for one item, over at least that many seconds."""
    done, begin = 0, time.process_time()
    while True:
        for item in items:
            work(item)
        done += len(items)
        spent = time.process_time() - begin
        if spent >= least:
            return spent / done


def _in_turn(
    contenders: Mapping[str, tuple[Callable[[Any], object], Sequence[Any]]], plan: BenchPlan
) -> dict[str, list[float]]:
    """Seconds an item, of each contender in each round; what one does first warms it up."""
    for work, items in contenders.values():
        for item in items[:2]:
            work(item)
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(plan.repeats):
        for name, (work, items) in contenders.items():
            taken[name].append(_own_seconds(work, items, 0.3))
    return taken


def _rate(
    name: str,
    seconds: Sequence[float],
    *,
    floor: Sequence[float] = (),
    target: BenchLimit | None = None,
    note: str = "",
) -> BenchRow:
    """Judgements a second; `ratio` is the time over that of the floor."""
    value, beside = min(seconds), min(floor, default=None)
    return BenchRow(
        name,
        "reward",
        _four(1 / value),
        "/s",
        floor=None if beside is None else _four(1 / beside),
        ratio=None if beside is None else _four(value / beside),
        target=target,
        low=_four(1 / max(seconds)),
        high=_four(1 / min(seconds)),
        note=note,
    )


def _four(number: float) -> float:
    return float(f"{number:.4g}")


def _at_least(number: float) -> BenchLimit:
    return BenchLimit(number, "value", is_most=False)


def _doors(plan: BenchPlan) -> Judging:
    if plan.judging is None:
        raise NotRun("no judge was handed in; `statediff lab bench reward` does")
    return plan.judging


def _check(what: str, runs: Sequence[_Run], scores: Sequence[Scored]) -> None:
    for run, score in zip(runs, scores, strict=True):
        if score.verdict is not run.deserves:
            raise Wrong(f"{what}: {run.what} is {run.deserves}, and was called {score.verdict}")


# ---------------------------------------------------------------- SQLite


@measure("reward-sqlite", "reward")
def warm_files(plan: BenchPlan) -> Iterator[BenchRow]:
    """A kept judge over SQLite files, and one judgement of a pair."""
    doors, contract = _doors(plan), parse_contract(CONTRACT, "bench.yaml")
    for rows, least in ((300, 2000), (10_000, 1000)):
        shop = _shop(plan, rows)
        judge = doors.keep(contract, f"db={shop.before}")
        places = [run.place for run in shop.runs]
        _check(f"{rows} rows", shop.runs, [judge.score(place) for place in places])
        once = [doors.once(contract, f"db={shop.before}", place) for place in places]
        _check(f"{rows} rows, once", shop.runs, once)
        taken = _in_turn(
            {
                "warm": (judge.score, places),
                "once": (partial(doors.once, contract, f"db={shop.before}"), places[:_SOME]),
                **_peers(shop),
            },
            plan,
        )
        name = f"{rows:,} rows"
        yield _rate(
            f"warm judge, SQLite, {name}",
            taken["warm"],
            floor=taken["pages"],
            target=_at_least(least),
            note="of 7 harms none is passed; the floor compares the pages; no end comes twice",
        )
        slower = [taken["EXCEPT"], *([taken["exactly"]] if "exactly" in taken else [])]
        fastest = min(slower, key=min)
        yield _rate(
            f"one-shot judge, SQLite, {name}",
            taken["once"],
            floor=fastest,
            target=BenchLimit(1.0) if rows > 300 else None,
            note="of 7 harms none is passed; beside the faster of EXCEPT and expect_exactly",
        )
        yield from _peer_rows(shop, taken, name)


def _peers(shop: _Shop) -> dict[str, tuple[Callable[[Any], object], Sequence[Any]]]:
    paths = [run.path for run in shop.runs[:_SOME]]
    found: dict[str, tuple[Callable[[Any], object], Sequence[Any]]] = {
        "pages": (partial(_same_pages, shop.before), paths),
        "EXCEPT": (partial(_is_right_by_except, shop.before), paths),
    }
    if importlib.util.find_spec("fleet") is not None:
        found["only"] = (partial(_fleet, shop.before, "expect_only"), paths)
        found["exactly"] = (partial(_fleet, shop.before, "expect_exactly"), paths)
    return found


def _peer_rows(shop: _Shop, taken: Mapping[str, Sequence[float]], name: str) -> Iterator[BenchRow]:
    some = shop.runs[:_SOME]
    for key, title in (
        ("EXCEPT", "SQL EXCEPT"),
        ("only", "Fleet expect_only"),
        ("exactly", "Fleet expect_exactly"),
    ):
        if key not in taken:
            # It brings a package called `tests`, and so is in no environment of ours.
            note = "not run: it is not installed; `pip install fleet-python`"
            yield BenchRow(f"{title}, {name}", "reward", None, "", note=note)
            continue
        work, _ = _peers(shop)[key]
        passed = [run.what for run in some if run.deserves is Verdict.DIVERGE and work(run.path)]
        wrong = [run.what for run in some if run.deserves is Verdict.MATCH and not work(run.path)]
        note = f"of {len(HARMS)} harms it passes {len(passed)}: {', '.join(passed)}"
        if wrong:
            note += f"; it refuses {len(wrong)} of {_RIGHT_RUNS} right runs"
        yield _rate(f"{title}, {name}", taken[key], note=note)
    yield _rate(f"comparing pages, {name}", taken["pages"], note="the floor: it decides nothing")


def _same_pages(before: Path, after: Path) -> list[int]:
    """The numbers of the pages that differ."""
    size = 4096
    with before.open("rb") as one, after.open("rb") as two:
        first, second = one.read(), two.read()
    if first == second:
        return []
    views = memoryview(first), memoryview(second)
    longest = max(len(first), len(second))
    return [
        at // size
        for at in range(0, longest, size)
        if views[0][at : at + size] != views[1][at : at + size]
    ]


def _is_right_by_except(before: Path, after: Path) -> bool:
    """The rows that differ, by SQL, are those of the right run."""
    with closing(sqlite3.connect(f"file:{before}?mode=ro", uri=True)) as connection:
        connection.execute("ATTACH ? AS later", (f"file:{after}?mode=ro",))
        found = {}
        for table in ("customer", "purchase", "refund"):
            for side, (one, two) in enumerate((("main", "later"), ("later", "main"))):
                sql = f"SELECT * FROM {one}.{table} EXCEPT SELECT * FROM {two}.{table}"  # noqa: S608 - ours
                found[table, side] = connection.execute(sql).fetchall()
    changed, made = found["purchase", 1], found["refund", 1]
    return (
        not found["customer", 0]
        and not found["customer", 1]
        and not found["refund", 0]
        and [row[1:] for row in made] == [(7, 507)]
        and len(changed) == len(found["purchase", 0]) == 1
        and changed[0] == (*found["purchase", 0][0][:2], "refunded", *found["purchase", 0][0][3:])
        and changed[0][0] == 7
    )


def _fleet(before: Path, door: str, after: Path) -> bool:
    """True if Fleet's SDK passes the pair, asked as its documentation does."""
    db = import_peer("fleet.verifiers.db")
    diff = db.DatabaseSnapshot(str(before)).diff(db.DatabaseSnapshot(str(after)))
    with closing(sqlite3.connect(f"file:{after}?mode=ro", uri=True)) as connection:
        (key,) = connection.execute("SELECT min(id) FROM refund").fetchone()
    exact = [
        {
            "type": "insert",
            "table": "refund",
            "pk": key,
            "fields": [("id", key), ("purchase", 7), ("cents", 507)],
        },
        {
            "type": "modify",
            "table": "purchase",
            "pk": 7,
            "resulting_fields": [("status", "refunded")],
            "no_other_changes": True,
        },
    ]
    only = [
        {"table": "purchase", "pk": 7, "field": "status", "after": "refunded"},
        {"table": "refund", "pk": key, "field": None, "after": "__added__"},
    ]
    try:
        getattr(diff, door)(only if door == "expect_only" else exact)
    except AssertionError:
        return False
    return True


@measure("reward-large", "reward")
def warm_large(plan: BenchPlan) -> Iterator[BenchRow]:
    """A kept judge over a large SQLite file with few changes."""
    doors, contract = _doors(plan), parse_contract(CONTRACT, "bench.yaml")
    shop = _shop(plan, plan.rows, rounds=1)
    judge = doors.keep(contract, f"db={shop.before}")
    harm = "UPDATE purchase SET cents = 1 WHERE id % 1009 = 9 AND id < 10099;"
    many = _made(shop.before, len(shop.runs), "ten changes", harm, Verdict.DIVERGE)
    runs = (shop.runs[0], many)
    _check(f"{plan.rows:,} rows", runs, [judge.score(run.place) for run in runs])
    taken = _in_turn(
        {
            "warm": (judge.score, [run.place for run in runs]),
            "pages": (partial(_same_pages, shop.before), [run.path for run in runs]),
        },
        plan,
    )
    yield _rate(
        f"warm judge, SQLite, {plan.rows:,} rows",
        taken["warm"],
        floor=taken["pages"],
        target=BenchLimit(3.0),
        note="two and twelve changes; the floor reads both files and compares their pages",
    )


# ---------------------------------------------------------------- dicts


@measure("reward-dicts", "reward")
def warm_dicts(plan: BenchPlan) -> Iterator[BenchRow]:
    """A kept judge over dicts of records, and one judgement of a pair."""
    doors, contract = _doors(plan), parse_contract(CONTRACT, "bench.yaml")
    for rows in (300, 10_000):
        shop = _shop(plan, rows)
        before = shop.tables(shop.before)
        runs = [run for run in shop.runs if run.what != BESIDE_SCHEMA]
        afters = [shop.tables(run.path) for run in runs]
        judge = doors.keep(contract, before)
        _check(f"dicts, {rows} rows", runs, [judge.score(after) for after in afters])
        once = [doors.once(contract, before, after) for after in afters[-6:]]
        _check(f"dicts once, {rows} rows", runs[-6:], once)
        tried = _check_faults(judge, contract, before, afters[0])
        texts = [json.dumps(before), json.dumps(afters[0])]
        taken = _in_turn(
            {
                "warm": (judge.score, afters),
                "once": (partial(doors.once, contract, before), afters[-6:]),
                "rows": (partial(_equal_rows, before), afters[:_SOME]),
                "loads": (lambda pair: [json.loads(text) for text in pair], [texts]),
            },
            plan,
        )
        name = f"{rows:,} rows"
        is_small = rows == 300
        yield _rate(
            f"warm judge, dicts, {name}",
            taken["warm"],
            floor=taken["rows"],
            target=_at_least(1500) if is_small else BenchLimit(3.0),
            note=f"{tried} faults of mutate caught; the floor compares every row with ==; "
            "no end comes twice",
        )
        yield _rate(
            f"one-shot judge, dicts, {name}",
            taken["once"],
            floor=taken["loads"],
            target=None if is_small else BenchLimit(4.0),
            note="the floor is json.loads of both states",
        )


def _check_faults(judge: KeptJudge, contract: ContractFile, before: Tables, after: Tables) -> int:
    """How many faults of `mutate` the kept judge was given; it caught each, and passed each twin.

    They are those in the rows: no state says how old a reading is.
    """
    store, texts = MemoryChunks(), [json.dumps(before).encode(), json.dumps(after).encode()]
    first = take(
        [TablesSource("tables", texts[0], None, texts[1], "after")], store, _epoch, None, "before"
    )
    source = TablesSource("tables", texts[1], None, texts[0], "before", is_after=True)
    last = take([source], store, _epoch, first, "after")
    right = Reference(
        "right",
        contract,
        before=first,
        after=last,
        trace=NO_TRACE,
        answer=NO_ANSWER,
        timeline=None,
        facts=TrialFacts("right"),
    )
    tried = 0
    for world in worlds([right], seed=1):
        for fault in seed_faults(world, (*WORLD_FAULTS, *TWINS)):
            part = fault.mutant.after.parts[0]
            tables = {
                name: [dict(row) for _, row in table.rows()]
                for name, table in part.state.tables.items()
            }
            outcome, _ = judge_fault(fault, "right")
            found = judge.score(tables).verdict
            if found is not outcome.verdict or not outcome.is_as_it_should:
                raise Wrong(f"{fault.id}: {found} of a judge that is kept, {outcome.verdict} else")
            tried += not fault.is_twin
    return tried


def _epoch() -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC)


def _equal_rows(before: Mapping[str, Sequence[Any]], after: Mapping[str, Sequence[Any]]) -> int:
    return sum(
        one == two
        for name, rows in before.items()
        for one, two in zip(rows, after[name], strict=False)
    )


@measure("reward-batch", "reward")
def batch(plan: BenchPlan) -> Iterator[BenchRow]:
    """A batch of rollouts by two processes, in seconds of the clock on the wall."""
    doors, contract = _doors(plan), parse_contract(CONTRACT, "bench.yaml")
    shop = _shop(plan, 300)
    runs = [run for run in shop.runs if run.what != BESIDE_SCHEMA]
    some = [shop.tables(run.path) for run in runs]
    rollouts = _ROLLOUTS if plan.rows >= _SMALL else len(runs)
    afters = [copy.deepcopy(some[n % len(some)]) for n in range(rollouts)]
    for n, after in enumerate(afters):
        after["refund"][0]["id"] = n + 1
    judge = doors.keep(contract, shop.tables(shop.before))
    name = f"{rollouts:,} rollouts of 300 rows, two processes"
    taken = []
    for _ in range(max(2, plan.repeats // 2)):
        begin = time.perf_counter()
        scores = judge.score_many(afters, workers=2)
        taken.append(time.perf_counter() - begin)
        _check("batch", [runs[n % len(runs)] for n in range(rollouts)], scores)
    median = _four(statistics.median(taken))
    yield BenchRow(
        name,
        "reward",
        _four(min(taken)),
        "s",
        target=BenchLimit(5.0, "value"),
        low=_four(min(taken)),
        high=_four(max(taken)),
        note=f"median {median} s; dicts, every score checked; no two end alike",
    )
