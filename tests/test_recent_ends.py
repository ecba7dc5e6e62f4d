"""A run that ends as one before it is not judged again, and no other run is taken for it."""

import gc
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from unittest.mock import patch
from weakref import ref

import pytest
from hypothesis import given
from hypothesis import strategies as st

import statediff
from statediff import Judge, Verdict
from statediff.evaluate import Prepared
from statediff.recent import ENDS_KEPT, Recent, ends_kept

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
ANSWERED = f"{CLOSE}answer:\n  schema: {{closed: any}}\n  claims: [answer.closed == 1]\n"
TWO = {7: "open", 8: "open"}


def tables(**statuses: object) -> dict[str, list[dict[str, object]]]:
    found = TWO | {int(name[1:]): status for name, status in statuses.items()}
    return {"ticket": [{"id": number, "status": status} for number, status in found.items()]}


@contextmanager
def judgements() -> Iterator[list[object]]:
    """What is judged meanwhile."""
    judged: list[object] = []
    plain = Prepared.judgement

    def noted(self: Prepared, *given: object, **named: object) -> object:
        judged.append(given)
        return plain(self, *given, **named)  # type: ignore[arg-type]  # handed on as given

    with patch.object(Prepared, "judgement", noted):
        yield judged


def database(place: Path, *changes: str) -> str:
    with closing(sqlite3.connect(place)) as base:
        base.executescript(
            "CREATE TABLE ticket (id INTEGER PRIMARY KEY, status TEXT);"
            "INSERT INTO ticket VALUES (7, 'open'), (8, 'open')"
        )
        for change in changes:
            base.executescript(change)
    return f"db={place}"


def test_ends_of_tables_are_judged_once() -> None:
    judge = Judge(CLOSE, tables())
    runs = [tables(), tables(n7="closed"), tables(n8="closed"), tables(n7=1), tables(n7=True)]
    with judgements() as judged:
        first = [judge.score(run) for run in runs]
        assert [judge.score(run) for run in (*runs, *runs)] == first * 2
        assert judge.score_many(runs * 3) == first * 3
    assert len(judged) == len(runs)
    assert first == [Judge(CLOSE, tables()).score(run) for run in runs]
    first[1].parts["frame"] = 7.0  # type: ignore[index]  # whoever does it, does it to its own
    assert judge.score(runs[1]).parts == {"frame": 1.0, "require": 1.0}


def test_ends_of_databases_are_judged_once(tmp_path: Path) -> None:
    close = "UPDATE ticket SET status = 'closed' WHERE id = 7"
    both = "UPDATE ticket SET status = 'closed'"
    judge = Judge(CLOSE, database(tmp_path / "before.db"))
    one, same, other = (
        database(tmp_path / f"{name}.db", change)
        for name, change in (("one", close), ("same", close), ("other", both))
    )
    with judgements() as judged:
        found = [judge.score(place).verdict for place in (one, same, other, one, other)]
    assert found == ["MATCH", "MATCH", "DIVERGE", "MATCH", "DIVERGE"]
    assert len(judged) == 2
    (tmp_path / "one.db").write_bytes((tmp_path / "other.db").read_bytes())
    assert judge.score(one).verdict is Verdict.DIVERGE
    (tmp_path / "one.db").write_bytes(b"SQLite format 3\0")
    assert judge.score(one).verdict is Verdict.DIVERGE
    assert judge.score(same).verdict is Verdict.MATCH


def test_another_answer_is_another_run() -> None:
    judge = Judge(ANSWERED, tables())
    answers = [{"closed": said} for said in (1, 2, "1", True, None, [1], 1)]
    found = [judge.score(tables(n7="closed"), answer=answer).verdict for answer in answers * 2]
    fresh = [
        Judge(ANSWERED, tables()).score(tables(n7="closed"), answer=a).verdict for a in answers
    ]
    assert found == fresh * 2
    assert found[:2] == [Verdict.MATCH, Verdict.DIVERGE]
    assert judge.score(tables(n7="closed")).verdict is not Verdict.MATCH  # nobody answered


def test_a_trace_is_always_read(tmp_path: Path) -> None:
    judge, place = Judge(CLOSE, tables()), tmp_path / "calls.jsonl"
    place.write_text("")
    with judgements() as judged:
        for _ in range(2):
            judge.score(tables(n7="closed"), trace=place)
    assert len(judged) == 2


def test_no_more_is_remembered_than_a_few_ends() -> None:
    judge = Judge(CLOSE, tables())
    state = ref(judge.judged(tables(n8="first")).after.parts[0].state)
    runs = [tables(n8=f"status {n}") for n in range(2 * ENDS_KEPT)]
    for run in runs:
        judge.score(run)
    gc.collect()
    assert state() is None
    assert len(judge._ends._recent._kept) == ENDS_KEPT
    with judgements() as judged:
        assert judge.score(runs[0]).verdict is Verdict.DIVERGE
    assert len(judged) == 1


def test_large_states_are_remembered_less() -> None:
    assert ends_kept(1) == ENDS_KEPT
    assert ends_kept(1 << 25) == 2
    assert ends_kept(1 << 30) == 0
    nothing = Recent[str](0)
    nothing.keep(1, "one")
    assert nothing.get(1) is None


values = st.one_of(
    st.sampled_from(["open", "closed", 0, 0.0, -0.0, 1, 1.0, True, False, None, "1"]),
    st.lists(st.sampled_from([0, 0.0, False]), max_size=2),
)


@given(runs=st.lists(st.tuples(values, values), max_size=12))
def test_whatever_was_judged_before_a_run_is_judged_as_alone(
    runs: list[tuple[object, object]],
) -> None:
    judge = Judge(CLOSE, tables())
    for seven, eight in runs * 2:
        after = tables(n7=seven, n8=eight)
        assert judge.score(after) == _alone(json.dumps(after))


def _alone(after: str) -> statediff.Score:
    if after not in _SCORES:
        _SCORES[after] = Judge(CLOSE, tables()).score(json.loads(after))
    return _SCORES[after]


_SCORES: dict[str, statediff.Score] = {}


@pytest.mark.parametrize("kept", [1, 2])
def test_what_was_asked_for_last_stays(kept: int) -> None:
    recent = Recent[int](kept)
    for number in range(3):
        recent.keep(number, number)
        recent.get(0)
    assert recent.get(0) == (0 if kept == 2 else None)
    assert recent.get(2) == 2
