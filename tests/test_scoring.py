"""A judge kept warm gives what one judgement gives, and no reward where nothing is decided."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import pickle
import re
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

import statediff
from statediff import Judge, Score, Verdict
from statediff.errors import ContractError, InputError, UsageError
from statediff.evidence.keys import generate
from statediff.evidence.verify import Signer
from statediff.model.state import MemoryChunks
from statediff.workspace.batches import open_batch
from tests.tickets import BOTH, CLOSE, CLOSED, OPEN, tickets


def test_the_three_verdicts_are_two_rewards_and_none():
    judge = Judge(CLOSE, OPEN)
    right, wrong, gone = (judge.score(after) for after in (CLOSED, BOTH, {"user": []}))
    [lost] = judge.score_many(["nowhere.json"])
    assert (gone.verdict, gone.reward) == (Verdict.DIVERGE, 0.0)  # the run emptied the table
    assert (right.verdict, right.reward, right.why) == (Verdict.MATCH, 1.0, "")
    assert right.parts == {"frame": 1.0, "require": 1.0}
    assert (wrong.verdict, wrong.reward) == (Verdict.DIVERGE, 0.0)
    assert wrong.parts == {"frame": 0.0, "require": 1.0}
    assert wrong.why == 'frame: ticket 8 status "open" → "closed"'
    assert (lost.verdict, lost.reward, lost.parts) == (Verdict.INCONCLUSIVE, None, {})
    assert lost.why.startswith("environment: ")
    with pytest.raises(TypeError, match="neither true nor false"):
        bool(right)


def test_a_score_makes_no_chunk_of_what_changed_and_a_bundle_does(tmp_path: Path):
    path = tmp_path / "before.db"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE ticket (id INTEGER PRIMARY KEY, status TEXT)")
        db.executemany("INSERT INTO ticket VALUES (?, 'open')", [(7,), (8,)])
    after = tmp_path / "after.db"
    after.write_bytes(path.read_bytes())
    with sqlite3.connect(after) as db:
        db.execute("UPDATE ticket SET status = 'closed' WHERE id = 7")
    for judge, state in ((Judge(CLOSE, OPEN), CLOSED), (Judge(CLOSE, f"db={path}"), f"db={after}")):
        judge.score(OPEN if state is CLOSED else f"db={path}")
        with patch.object(MemoryChunks, "put", side_effect=AssertionError("a chunk")):
            assert judge.score(state).verdict is Verdict.MATCH
            with pytest.raises(AssertionError, match="a chunk"):
                judge.judge(state).bundle  # noqa: B018 - asking is what is tried


def test_a_pair_is_packed_when_more_than_its_verdict_is_asked_for():
    file = statediff.load_contract(CLOSE)
    for judged in (statediff.judge(file, OPEN, CLOSED), Judge(file, OPEN).judge(CLOSED)):
        assert judged.verdict is Verdict.MATCH
        judged.assert_match()
        assert judged.is_later("bundle")
        other = statediff.judge(file, OPEN, CLOSED)
        there = pickle.loads(pickle.dumps(judged))
        assert not judged.is_later("bundle")
        assert judged == other == there
        assert (judged.line, there.verdict) == (other.line, Verdict.MATCH)
        assert statediff.replay(judged) is Verdict.MATCH


@pytest.mark.parametrize("levels", [100, 5_000])
def test_what_a_run_nests_too_deep_is_no_escape(tmp_path: Path, levels: int):
    deep: dict[str, object] = {}
    for _ in range(levels):
        deep = {"x": deep}
    after = {"ticket": [{"id": 7, "status": "closed", "note": deep}, OPEN["ticket"][1]]}
    score = Judge(CLOSE, OPEN).score(after)
    assert (score.verdict, score.reward) == (Verdict.DIVERGE, 0.0)
    assert statediff.judge(CLOSE, OPEN, after).verdict is Verdict.DIVERGE
    with pytest.raises(InputError):
        Judge(CLOSE, {"ticket": [{"id": 7, "note": deep, "other": object()}]})
    before, file = tmp_path / "before.json", tmp_path / "after.json"
    before.write_text(json.dumps(OPEN))
    text = '{"x": ' * levels + "{}" + "}" * levels
    written = json.dumps({"ticket": [{**after["ticket"][0], "note": 0}, OPEN["ticket"][1]]})
    file.write_text(written.replace('"note": 0', f'"note": {text}'))
    assert score.verdict is Judge(CLOSE, str(before)).score(str(file)).verdict


@pytest.mark.parametrize("left", [3, None, [1], "x", {"id": 9, "note": 10**5_000}])
def test_what_a_run_leaves_as_a_record_is_no_escape(left: object):
    after = {"ticket": [*CLOSED["ticket"], left]}
    assert Judge(CLOSE, OPEN).score(after).verdict is Verdict.DIVERGE
    assert statediff.judge(CLOSE, OPEN, after).verdict is Verdict.DIVERGE


@pytest.mark.parametrize("left", [[], [{"id": 1}], [{"problem": "x"}], [3], {"a": 1}])
def test_a_type_that_a_run_added_is_no_escape_however_it_is_called(tmp_path: Path, left: object):
    """Anything a run leaves unreadable of the source `tables` is an entity of `source.tables`."""
    for name in ("source.tables", "source.source.tables", "other"):
        after = {**CLOSED, "source.tables": [], name: left}
        right = Verdict.MATCH if left == [] else Verdict.DIVERGE
        assert statediff.judge(CLOSE, OPEN, after).verdict is right
        assert Judge(CLOSE, OPEN).score(after).verdict is right
        before, file = tmp_path / "before.json", tmp_path / "after.json"
        before.write_text(json.dumps(OPEN))
        file.write_text(json.dumps(after))
        judged = statediff.judge(CLOSE, f"tables={before}", f"tables={file}")
        assert (judged.verdict, statediff.replay(judged)) == (right, right)
        spoiled = {**after, "ticket": [*CLOSED["ticket"], 5]}
        assert statediff.judge(CLOSE, OPEN, spoiled).verdict is Verdict.DIVERGE
    owned = {**OPEN, "source.tables": [{"id": 1}]}
    assert statediff.judge(CLOSE, owned, {**owned, **CLOSED}).verdict is Verdict.MATCH
    spoiled = {**owned, "ticket": [*CLOSED["ticket"], 5]}
    assert statediff.judge(CLOSE, owned, spoiled).verdict is Verdict.DIVERGE


@pytest.mark.parametrize(
    "said", [float("nan"), "\ud800", 10**5_000, [[]] * 600_000], ids=["nan", "half", "long", "big"]
)
def test_what_an_agent_says_is_no_escape(said: object):
    asks = f"{CLOSE}answer:\n  schema: {{note: any}}\n"
    judged = statediff.judge(asks, OPEN, CLOSED, answer={"note": said})
    assert judged.verdict is Verdict.DIVERGE
    assert "answer" in judged.line
    assert Judge(asks, OPEN).score(CLOSED, answer={"note": said}).reward == 0.0
    assert statediff.judge(asks, OPEN, CLOSED, answer={"note": 1}).verdict is Verdict.MATCH
    with pytest.raises(InputError, match="the answer: expected JSON"):
        statediff.judge(asks, OPEN, CLOSED, answer={"note": object()})


def test_what_was_before_stays_as_it_was():
    """An object, a file and a database that the run changes in place are judged against it."""
    state = copy.deepcopy(OPEN)
    judge = Judge(CLOSE, state)
    assert judge.score(state).verdict is Verdict.DIVERGE  # nothing was done
    state["ticket"][0]["status"] = "closed"
    assert judge.score(state).verdict is Verdict.MATCH


@pytest.mark.parametrize("form", ["json", "csv", "db"])
def test_places_are_kept_as_they_were(tmp_path: Path, form: str):
    place = tmp_path / f"ticket.{form}"
    _write(place, OPEN)
    judge = Judge(CLOSE, f"desk={place}")
    _write(place, CLOSED)
    assert judge.score(f"desk={place}").verdict is Verdict.MATCH
    _write(place, BOTH)
    judged = judge.judge([f"desk={place}"])
    assert judged.verdict is Verdict.DIVERGE
    assert statediff.replay(judged) is Verdict.DIVERGE
    with pytest.raises(UsageError):
        judge.score(CLOSED)
    with pytest.raises(UsageError):
        judge.score(f"shop={place}")


def _write(place: Path, state: dict[str, list[dict[str, object]]]) -> None:
    place.unlink(missing_ok=True)
    rows = state["ticket"]
    if place.suffix == ".json":
        place.write_text(json.dumps(state))
    elif place.suffix == ".csv":
        place.write_text("id,status\n" + "".join(f"{r['id']},{r['status']}\n" for r in rows))
    else:
        with sqlite3.connect(place) as base:
            base.execute("CREATE TABLE ticket (id INTEGER PRIMARY KEY, status TEXT NOT NULL)")
            base.executemany("INSERT INTO ticket VALUES (:id, :status)", rows)
        base.close()


@pytest.mark.parametrize("workers", [1, 2])
def test_one_bad_run_takes_no_other_with_it(workers: int):
    judge = Judge(CLOSE, OPEN)
    runs = [
        CLOSED,
        {"ticket": [{"id": object()}]},
        "nowhere.json",
        BOTH,
        statediff.changes(OPEN, CLOSED),
    ]
    runs += [{"user": []}, {"ticket": [{"id": 7, "status": (1,)}]}]
    found = judge.score_many((run for run in runs), workers=workers)
    assert [score.reward for score in found] == [1.0, None, None, 0.0, 1.0, 0.0, 0.0]
    assert all(score.why.startswith("environment: ") for score in found[1:3])
    assert found[0] == judge.score(CLOSED)
    with pytest.raises(InputError):
        judge.score({"ticket": [{"id": object()}]})
    with pytest.raises(ContractError, match="unknown entity type"):
        Judge(CLOSE.replace("ticket\n", "tickets\n"), OPEN).score_many([CLOSED], workers=workers)


def test_a_score_is_awaited():
    async def awaited():
        return await Judge(CLOSE, OPEN).score_async(CLOSED)

    with ThreadPoolExecutor(1) as apart:  # whatever loop a test before this one left running
        score = apart.submit(lambda: asyncio.run(awaited())).result()
    assert score == Judge(CLOSE, OPEN).score(CLOSED)
    assert isinstance(Judge(CLOSE, OPEN).score(CLOSED), Score)


def test_answers_are_scored_with_their_runs():
    judge = Judge(
        f"{CLOSE}answer:\n  schema: {{closed: int}}\n  claims: [answer.closed == 1]\n", OPEN
    )
    answers = [{"closed": 1}, {"closed": 2}]
    answers = [*answers, {"closed": lambda: 1}]
    found = judge.score_many([CLOSED] * 3, answers=answers, workers=2)
    assert [score.reward for score in found] == [1.0, 0.0, None]
    assert found == judge.score_many([CLOSED] * 3, answers=answers)
    assert found[1].parts["answer"] == 0.5
    assert judge.score(CLOSED).reward == 0.0  # nobody answered
    with pytest.raises(UsageError, match="as many"):
        judge.score_many([CLOSED], answers=answers)


def test_a_run_that_kills_its_process_is_lost_alone(tmp_path: Path):
    """Those beside it are judged in another process, and the evidence says which it was."""
    judge = Judge(CLOSE, OPEN)
    key = generate(tmp_path / "key").public
    evidence = statediff.Evidence(folder=tmp_path / "batch", key=tmp_path / "key")
    found = judge.score_many([CLOSED, Killer(), BOTH], workers=2, evidence=evidence)
    assert [score.reward for score in found] == [1.0, None, 0.0]
    assert found[1].why == "environment: the process that judged the run ended"
    opener = open_batch(tmp_path / "batch", (Signer("Ada", key, ("evaluator",), None, None),))
    assert opener.batch.records.record(1)["unread"] == found[1].why
    assert opener.judged(2).judgement.verdict is Verdict.DIVERGE


def desk(path: Path, *closed: int) -> str:
    """A SQLite file with tickets 1 to 200, some of them closed."""
    with closing(sqlite3.connect(path)) as base:
        base.execute("CREATE TABLE ticket (id INTEGER PRIMARY KEY, status TEXT NOT NULL)")
        rows = ((at, "closed" if at in closed else "open") for at in range(1, 201))
        base.executemany("INSERT INTO ticket VALUES (?, ?)", rows)
        base.commit()
    return f"desk={path}"


HELD: list[str] = []


def held() -> dict[str, Any]:
    """Tables that only this process has."""
    return {"ticket": [{"id": 7, "status": status} for status in HELD]}


def test_files_are_read_and_compared_by_the_workers(tmp_path: Path):
    """The first process hands out their names; what only it has, it reads itself."""
    judge = Judge(CLOSE, desk(tmp_path / "before.sqlite"))
    right, wrong = desk(tmp_path / "7.sqlite", 7), desk(tmp_path / "78.sqlite", 7, 8)
    runs = [right, wrong, [right], "desk=nowhere.sqlite", CLOSED] * 60
    begin = time.process_time()
    alone = judge.score_many(runs)
    middle = time.process_time()
    with patch.object(Judge, "score", autospec=True, side_effect=Judge.score) as here:
        shared = judge.score_many(runs, workers=2)
    rewards = [score.reward for score in shared[:5]]
    assert rewards == [1.0, 0.0, 1.0, None, None]
    assert shared == alone
    assert {str(call.args[1]) for call in here.call_args_list} <= {runs[3], str(CLOSED)}
    begun = time.process_time()
    judge.score_many(runs[:3] * 200, workers=2)
    share = (time.process_time() - begun) / 600
    assert share <= (middle - begin) / len(runs) / 5


def test_a_function_is_called_by_the_process_that_has_it():
    HELD[:] = ["open"]
    judge = Judge(CLOSE, held)
    HELD[:] = ["closed"]
    assert [score.reward for score in judge.score_many([held] * 3, workers=2)] == [1.0] * 3


def test_workers_that_find_another_state_before_judge_nothing(tmp_path: Path):
    before = tmp_path / "before.sqlite"
    judge = Judge(CLOSE, desk(before))
    runs = [desk(tmp_path / "7.sqlite", 7), desk(tmp_path / "78.sqlite", 7, 8)]
    before.unlink()
    desk(before, 7)
    assert [score.reward for score in judge.score_many(runs, workers=2)] == [1.0, 0.0]


def test_the_evidence_of_files_is_the_same_for_any_number_of_workers(tmp_path: Path):
    judge = Judge(CLOSE, desk(tmp_path / "before.sqlite"))
    runs = [desk(tmp_path / "7.sqlite", 7), desk(tmp_path / "78.sqlite", 7, 8)]
    generate(tmp_path / "key")
    at = datetime(2026, 1, 5, 12, tzinfo=UTC)
    found = []
    for workers in (1, 2):
        folder = tmp_path / f"batch-{workers}"
        evidence = statediff.Evidence(folder=folder, key=tmp_path / "key", at=at)
        judge.score_many(runs, workers=workers, evidence=evidence)
        files = sorted(each for each in folder.rglob("*") if each.is_file())
        found.append({str(each.relative_to(folder)): each.read_bytes() for each in files})
    assert found[0] == found[1]


class Killer(dict):  # type: ignore[type-arg]
    """A state that ends the process that gets it."""

    def __reduce__(self) -> tuple[object, ...]:
        return os._exit, (1,)


def test_threads_and_other_processes_share_a_judge():
    judge = Judge(CLOSE, OPEN)
    with ThreadPoolExecutor(4) as threads:
        found = list(
            threads.map(
                judge.score, [CLOSED, BOTH, OPEN, {"ticket": [{"id": 7, "status": None}]}] * 8
            )
        )
    assert [score.reward for score in found] == [1.0, 0.0, 0.0, 0.0] * 8
    assert pickle.loads(pickle.dumps(judge)).score(CLOSED) == judge.score(CLOSED)


def test_the_near_miss_of_what_is_required_is_why_and_not_what_came_instead():
    score = Judge(CLOSE, OPEN).score(tickets("resolved", "open"))
    wrong = 'ticket 7 does not: status "resolved" ≠ "closed"'
    assert score.why == f"closed: no ticket matches, 1 required; {wrong}"


def test_a_verdict_equals_its_name():
    verdict = Judge(CLOSE, OPEN).score(CLOSED).verdict
    assert verdict == "MATCH"
    assert f"{verdict}" == "MATCH"
    assert {"MATCH": 1.0}[verdict] == 1.0


def test_rows_of_a_database_driver_are_tables_as_they_are():
    def rows(price: str, day: int) -> dict[str, list[dict[str, object]]]:
        at = datetime(2026, 1, day, tzinfo=UTC)
        return {"sale": [{"id": UUID(int=5), "price": Decimal(price), "at": at, "raw": b"ab"}]}

    assert statediff.changes(rows("1.50", 1), rows("1.5", 1)) == ()
    [delta] = statediff.changes(rows("1.50", 1), rows("1.50", 2))
    assert (delta["key"], delta["path"]) == ("00000000-0000-0000-0000-000000000005", "at")
    with pytest.raises(InputError, match="the state after: sale, record 0, at: expected"):
        statediff.changes(rows("1", 1), {"sale": [{"id": 1, "at": object()}]})


def test_a_schema_of_another_source_is_refused_and_says_how_the_state_is_called(tmp_path: Path):
    schema = tmp_path / "schema.yaml"
    schema.write_text(
        "schema: desk\nversion: 1.0.0\nentities:\n  case: {table: ticket, source: desk}\n"
    )
    with pytest.raises(UsageError, match="describes desk, but the state is called tables"):
        Judge(CLOSE, OPEN, schema=schema)


MISTAKES = {
    "invalid syntax": ("it.id == 1", "it.id === 1"),
    "unknown name `itt`": ("it.id == 1", "itt.id == 1"),
    "unknown function `foo`": ("it.id == 1", "foo(it.id) == 1"),
    "no input `nope`": ("it.id == 1", "it.id == input.nope"),
    "a number can never equal a text value": ("it.id == 1", "it.id == 1 and 1 == 'a'"),
    "there is no rule 'nope@1'": (
        "require:",
        "canonicalize:\n  - {use: nope@1, on: [user.name], because: no reason}\nrequire:",
    ),
    "a run in which nothing happens would MATCH": ("require:\n  - update", "forbid:\n  - delete"),
}
"""What is wrong whatever a run leaves, and how it comes into `RENAME`."""
RENAME = """
contract: desk/rename
version: 1.0.0
owner: desk
intent: Rename user 1 to Bob, and change nothing else.
require:
  - update: user
    where: it.id == 1
"""
RUNS = (
    {"user": [{"id": 1, "name": "Bob"}]},
    {"user": [{"id": 1, "name": "Bob", "nam": 1}], "usr": [{"id": 1, "name": "Bob"}]},
    {"user": [{"id": "a", "name": None}], "itt": [{"id": 1}], "input": [{"nope": 1}]},
)
"""The second and third have types, fields and kinds that were not there before."""


def places(tmp_path: Path, form: str) -> list[Any]:
    """The state before, then those after `RUNS`, in that form."""
    states = ({"user": [{"id": 1, "name": "Ada"}]}, *RUNS)
    if form == "tables":
        return list(states)
    found = []
    for number, tables in enumerate(states):
        path = tmp_path / f"{number}.sqlite"
        with closing(sqlite3.connect(path)) as db:
            for name, rows in tables.items():
                first, *others = rows[0]
                db.execute(f"CREATE TABLE {name}({', '.join((f'{first} PRIMARY KEY', *others))})")
                marks = ", ".join("?" * len(rows[0]))
                db.executemany(
                    f"INSERT INTO {name} VALUES ({marks})", map(tuple, map(dict.values, rows))
                )
            db.commit()
        found.append(f"db={path}")
    return found


@pytest.mark.parametrize("form", ["tables", "sqlite"])
@pytest.mark.parametrize("wrong", sorted(MISTAKES))
def test_what_is_wrong_whatever_a_run_does_is_said_before_the_first(
    tmp_path: Path, form: str, wrong: str
) -> None:
    text = RENAME.strip().replace(*MISTAKES[wrong])
    before, *afters = places(tmp_path, form)
    with pytest.raises(ContractError, match=re.escape(wrong)) as early:
        Judge(text, before)
    for after in afters:
        with pytest.raises(ContractError) as late:
            statediff.judge(text, before, after)
        assert [(p.line, p.message) for p in late.value.problems] == [
            (p.line, p.message) for p in early.value.problems
        ]


@pytest.mark.parametrize("form", ["tables", "sqlite"])
@pytest.mark.parametrize(
    ("right", "written"),
    [("update: user", "create: usr"), ("it.id == 1", "it.id == 1 and new.nam == 1")],
)
def test_what_only_a_state_after_has_is_no_mistake_before_it(
    tmp_path: Path, form: str, right: str, written: str
) -> None:
    text = RENAME.strip().replace(right, written)
    before, without, having, _ = places(tmp_path, form)
    judge = Judge(text, before)
    assert judge.score(having).verdict == statediff.judge(text, before, having).verdict
    with pytest.raises(ContractError) as once:
        statediff.judge(text, before, without)
    with pytest.raises(ContractError, match=re.escape(str(once.value))):
        judge.score(without)


# ---------------------------------------------------------------- many runs, one judge

VALUES = st.one_of(
    st.sampled_from(["open", "closed", 0, 0.0, -0.0, 1, 1.0, True, False, None, "1"]),
    st.lists(st.sampled_from([0, 0.0, False]), max_size=2),
)


_SCORES: dict[str, Score] = {}


@given(runs=st.lists(st.tuples(VALUES, VALUES), max_size=12))
def test_whatever_was_judged_before_a_run_is_judged_as_alone(
    runs: list[tuple[object, object]],
) -> None:
    judge = Judge(CLOSE, OPEN)
    for seven, eight in runs * 2:
        after = tickets(seven, eight)
        assert judge.score(after) == _alone(json.dumps(after))


def _alone(after: str) -> Score:
    if after not in _SCORES:
        _SCORES[after] = Judge(CLOSE, OPEN).score(json.loads(after))
    return _SCORES[after]
