"""A judge kept warm gives what one judgement gives, and no reward where nothing is decided."""

from __future__ import annotations

import asyncio
import copy
import json
import sqlite3
from pathlib import Path

import pytest

import statediff
from statediff import Judge, Score, Verdict
from statediff.errors import ContractError, InputError, UsageError

CLOSE = """
contract: notes/close-ticket
version: 1.0.0
owner: support
intent: Close ticket 7 and change nothing else.
require:
  - id: closed
    update: ticket
    where: it.id == 7
    set: {status: closed}
"""
OPEN = {"ticket": [{"id": 7, "status": "open"}, {"id": 8, "status": "open"}]}
CLOSED = {"ticket": [{"id": 7, "status": "closed"}, {"id": 8, "status": "open"}]}
BOTH = {"ticket": [{"id": 7, "status": "closed"}, {"id": 8, "status": "closed"}]}


def test_the_three_verdicts_are_two_rewards_and_none():
    judge = Judge(CLOSE, OPEN)
    right, wrong, lost = (judge.score(after) for after in (CLOSED, BOTH, {"user": []}))
    assert (right.verdict, right.reward, right.why) == (Verdict.MATCH, 1.0, "")
    assert right.parts == {"frame": 1.0, "require": 1.0}
    assert (wrong.verdict, wrong.reward) == (Verdict.DIVERGE, 0.0)
    assert wrong.parts == {"frame": 0.0, "require": 1.0}
    assert wrong.why == 'frame: ticket 8 status "open" → "closed"'
    assert (lost.verdict, lost.reward, lost.parts) == (Verdict.INCONCLUSIVE, None, {})
    assert lost.why.startswith("environment: ")
    with pytest.raises(TypeError, match="neither true nor false"):
        bool(right)


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


def test_one_bad_run_takes_no_other_with_it():
    judge = Judge(CLOSE, OPEN)
    found = judge.score_many([CLOSED, {"ticket": [{"id": object()}]}, "nowhere.json", BOTH])
    assert [score.reward for score in found] == [1.0, None, None, 0.0]
    assert all(score.why.startswith("environment: ") for score in found[1:3])
    with pytest.raises(InputError):
        judge.score({"ticket": [{"id": object()}]})
    with pytest.raises(ContractError):
        Judge(CLOSE.replace("ticket\n", "tickets\n"), OPEN).score_many([CLOSED])


def test_a_score_is_awaited():
    assert asyncio.run(Judge(CLOSE, OPEN).score_async(CLOSED)) == Judge(CLOSE, OPEN).score(CLOSED)
    assert isinstance(Judge(CLOSE, OPEN).score(CLOSED), Score)
