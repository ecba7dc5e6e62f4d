"""AUTOINCREMENT counters are explained exactly by the rows that a run inserted."""

from __future__ import annotations

from pathlib import Path

import pytest

from statediff import api
from statediff.contract.file import parse_contract
from statediff.kernel import evaluate, replay
from statediff.meta.reference import rebuild, with_state
from statediff.model.readings import Capture
from statediff.model.state import Coverage, Enumeration, State
from statediff.model.verdict import Verdict
from statediff.workspace import inputs
from tests.judged_files import database, judged, sentences
from tests.judging import DIVERGE, INCONCLUSIVE, MATCH, contract

TABLE = 'CREATE TABLE "order" (id INTEGER PRIMARY KEY AUTOINCREMENT, note TEXT)'
OTHER = "CREATE TABLE log (id INTEGER PRIMARY KEY AUTOINCREMENT, what TEXT)"
INSERT = "INSERT INTO \"order\" (note) VALUES ('new')"
REQUIRED = """
require:
  - id: ordered
    create: order
    count: {min: 1}
"""
SEEDED = (TABLE, OTHER, INSERT, "INSERT INTO log (what) VALUES ('begun')")
EMPTY = (TABLE, OTHER)


def verdict(folder: Path, before: tuple[str, ...], *run: str, body: str = REQUIRED) -> str:
    one = database(folder / "a.db", *before)
    two = database(folder / "b.db", *before, *run)
    done = judged(folder, body, one, two, noop=body != REQUIRED)
    assert api.replay(done) is done.verdict
    return done.verdict.value


@pytest.mark.parametrize("before", [SEEDED, EMPTY])
@pytest.mark.parametrize(
    "run",
    [
        (INSERT,),
        (INSERT, INSERT, INSERT),
        ("INSERT INTO \"order\" VALUES (700, 'by hand')",),
        (INSERT, 'UPDATE "order" SET note = note'),
        ("BEGIN", INSERT, INSERT, "ROLLBACK", INSERT),
    ],
)
def test_a_required_insert_moves_the_counter(
    before: tuple[str, ...], run: tuple[str, ...], tmp_path: Path
) -> None:
    assert verdict(tmp_path, before, *run) == "MATCH"


@pytest.mark.parametrize("before", [SEEDED, EMPTY])
@pytest.mark.parametrize(
    "run",
    [
        (INSERT, "UPDATE sqlite_sequence SET seq = 99 WHERE name = 'order'"),
        (INSERT, "UPDATE sqlite_sequence SET seq = 0 WHERE name = 'order'"),
        (INSERT, "UPDATE sqlite_sequence SET seq = '3' WHERE name = 'order'"),
        (INSERT, INSERT, 'DELETE FROM "order" WHERE id = (SELECT max(id) FROM "order")'),
        (INSERT, "INSERT INTO sqlite_sequence VALUES ('nothing', 1)"),
        (INSERT, "INSERT INTO log (what) VALUES ('x')"),
    ],
)
def test_what_the_rows_do_not_explain_is_unexplained(
    before: tuple[str, ...], run: tuple[str, ...], tmp_path: Path
) -> None:
    assert verdict(tmp_path, before, *run) == "DIVERGE"


def test_a_counter_that_is_taken_away_or_doubled_never_matches(tmp_path: Path) -> None:
    assert verdict(tmp_path, SEEDED, INSERT, "DELETE FROM sqlite_sequence") == "DIVERGE"
    doubled = "INSERT INTO sqlite_sequence VALUES ('log', 9)"
    assert verdict(tmp_path, SEEDED, INSERT, doubled) == "DIVERGE"
    assert verdict(tmp_path, EMPTY, INSERT, doubled) == "DIVERGE"


def test_rows_outside_the_boundary_explain_their_counter(tmp_path: Path) -> None:
    body = (
        "exclude:\n  - {what: log, because: it is a log}\nforbid:\n  - {id: kept, delete: order}\n"
    )
    insert = "INSERT INTO log (what) VALUES ('x')"
    assert verdict(tmp_path, SEEDED, insert, body=body) == "MATCH"
    more = "UPDATE sqlite_sequence SET seq = 9 WHERE name = 'log'"
    assert verdict(tmp_path, SEEDED, insert, more, body=body) == "DIVERGE"


def test_a_forbidden_counter_stays_forbidden(tmp_path: Path) -> None:
    body = f"forbid:\n  - {{id: still, any: db.sequence}}\n{REQUIRED}"
    assert verdict(tmp_path, SEEDED, INSERT, body=body) == "DIVERGE"


def test_a_name_in_a_definition_is_no_counter(tmp_path: Path) -> None:
    table = (
        "CREATE TABLE \"order\" (id INTEGER PRIMARY KEY, note TEXT DEFAULT 'autoincrement'"
        " /* AUTOINCREMENT */)"
    )
    before = (table, OTHER, "INSERT INTO log (what) VALUES ('begun')")
    forged = "INSERT INTO sqlite_sequence VALUES ('order', 1)"
    one = database(tmp_path / "a.db", *before)
    done = judged(tmp_path, REQUIRED, one, database(tmp_path / "b.db", *before, INSERT, forged))
    assert done.verdict.value == "DIVERGE"
    assert any("db.sequence order" in sentence for sentence in sentences(done))


def test_a_row_that_came_and_went_explains_the_counter_only_where_history_is_asked(
    tmp_path: Path,
) -> None:
    body = "forbid:\n  - {id: logs, any: log}\nallow:\n  - {id: orders, any: order}\n"
    asked = body + "evidence:\n  db: {history: required}\n"
    last = 'DELETE FROM "order" WHERE id = 2'
    before = database(tmp_path / "a.db", *SEEDED)
    between = database(tmp_path / "m.db", *SEEDED, INSERT)
    after = database(tmp_path / "b.db", *SEEDED, INSERT, last)
    assert judged(tmp_path, body, before, after).verdict.value == "DIVERGE"
    assert judged(tmp_path, asked, before, after).verdict.value == "DIVERGE"
    captured = inputs.capture_pair(
        [str(before)], [str(after)], inputs.refinements(None, None), [str(between)]
    )
    done = evaluate(parse_contract(contract(asked).encode(), "c.yaml"), *captured)
    assert done.judgement.verdict is MATCH
    assert replay(done.bundle) == done.judgement
    done = evaluate(parse_contract(contract(body).encode(), "c.yaml"), *captured)
    assert done.judgement.verdict is DIVERGE


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ((), INCONCLUSIVE),
        (("UPDATE sqlite_sequence SET seq = 0 WHERE name = 'order'",), DIVERGE),
    ],
)
def test_a_row_that_was_not_seen_may_explain_its_counter(
    more: tuple[str, ...], expected: Verdict, tmp_path: Path
) -> None:
    """The listing ended before the row that came: it may have the key that the counter is at."""
    before = database(tmp_path / "a.db", *SEEDED)
    after = database(tmp_path / "b.db", *SEEDED, INSERT, INSERT, *more)
    one, two = inputs.capture_pair([str(before)], [str(after)], inputs.refinements(None, None), [])
    (part,) = two.parts
    listed = part.state.tables["order"]
    rows = [row for _, row in listed.rows()][:-1]
    cut = rebuild(listed, rows, Enumeration(Coverage.INCOMPLETE, "the listing was cut short"))
    state = State(part.state.schema, {**part.state.tables, "order": cut})
    body = "allow:\n  - {id: orders, create: order}\n"
    file = parse_contract(contract(body).encode(), "c.yaml")
    done = evaluate(file, one, Capture((with_state(part, state),)))
    assert done.judgement.verdict is expected
    assert replay(done.bundle) == done.judgement
