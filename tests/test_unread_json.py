"""JSON that is too long or deep to be read, or binary: it changed; what it says is on the run."""

from __future__ import annotations

from pathlib import Path

import pytest

from statediff.scoring import Judge
from tests.judged_files import database, judged

SEED = (
    "CREATE TABLE emp (id INTEGER PRIMARY KEY, cfg JSON)",
    """INSERT INTO emp VALUES (1, '{"a": {"b": 1}}'), (2, '{}')""",
)
RUNS = {
    "another key, and a text longer than what is captured": (
        """json_object('a', json_object('b', 2), 'root', 1, 'pad', hex(zeroblob(600000)))"""
    ),
    "spaces around it": """'{"a": {"b": 2}}' || printf('%1200000s', '')""",
    "a key twice": """'{"a": {"b": 1, "b": 2}, "root": 1}'""",
    "deep lists": """'{"a": {"b": 2}, "deep": ' || replace(printf('%300s', ''), ' ', '[')
        || replace(printf('%300s', ''), ' ', ']') || '}'""",
    "bytes": """CAST('{"a": {"b": 2}, "root": 1}' AS BLOB)""",
}
INSIDE = "allow:\n  - {id: a, update: emp, fields: [cfg.a.b]}\n"
WHOLE = "allow:\n  - {id: a, update: emp, fields: [cfg]}\n"


def verdict(folder: Path, body: str, run: str) -> str:
    before = database(folder / "a.db", *SEED)
    after = database(folder / "b.db", *SEED, f"UPDATE emp SET cfg = {RUNS[run]} WHERE id = 1")
    found = judged(folder, body, before, after).verdict.value
    assert Judge(folder / "contract.yaml", before).score(after).verdict == found
    return found


@pytest.mark.parametrize("run", RUNS)
def test_it_is_a_change_that_a_clause_about_a_part_does_not_explain(
    run: str, tmp_path: Path
) -> None:
    assert verdict(tmp_path, "forbid:\n  - {id: kept, delete: emp}\n", run) == "DIVERGE"
    assert verdict(tmp_path, INSIDE, run) == "DIVERGE"
    assert verdict(tmp_path, WHOLE, run) == "MATCH"


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize(
    "forbidden",
    ["set: {cfg.a.b: 2}", "set: {cfg: {a: {b: 2}}}", "from: {cfg.a.b: 1}, set: {cfg.a.b: 2}",
     "where: new.cfg.a.b == 2"],
)  # fmt: skip
def test_what_is_forbidden_may_not_be_made_unreadable(
    forbidden: str, run: str, tmp_path: Path
) -> None:
    clause = f"forbid:\n  - {{id: f, update: emp, {forbidden}}}\n"
    assert verdict(tmp_path, WHOLE + clause, run) == "DIVERGE"


def test_where_nothing_tells_it_apart_a_clause_about_a_part_explains_nothing(
    tmp_path: Path,
) -> None:
    """A rule inside the value needs the content: nobody knows whether anything else changed."""
    excluded = "exclude:\n  - {what: emp.cfg.seen, because: a clock}\n"
    run = "another key, and a text longer than what is captured"
    assert verdict(tmp_path, excluded + INSIDE, run) == "INCONCLUSIVE"
    assert verdict(tmp_path, excluded + WHOLE, run) == "MATCH"


@pytest.mark.parametrize("run", ["spaces around it", "bytes"])
def test_what_could_not_be_read_before_may_say_the_same(run: str, tmp_path: Path) -> None:
    was = RUNS[run].replace("2", "3", 1).replace("1200000s", "1300000s")
    seed = (*SEED, f"UPDATE emp SET cfg = {was} WHERE id = 1")
    before = database(tmp_path / "a.db", *seed)
    after = database(tmp_path / "b.db", *seed, f"UPDATE emp SET cfg = {RUNS[run]} WHERE id = 1")
    forbidden = "forbid:\n  - {id: f, update: emp, fields: [cfg.a.b]}\n"
    for body, found in (
        ("forbid:\n  - {id: kept, delete: emp}\n", "INCONCLUSIVE"), (INSIDE, "INCONCLUSIVE"),
        (WHOLE, "MATCH"), (WHOLE + forbidden, "INCONCLUSIVE"),
    ):  # fmt: skip
        assert judged(tmp_path, body, before, before).verdict.value == "MATCH"
        assert judged(tmp_path, body, before, after).verdict.value == found
    raw = "canonicalize:\n  - {use: raw@1, on: [emp.cfg], because: the text}\n"
    kept = raw + "forbid:\n  - {id: kept, delete: emp}\n"
    assert judged(tmp_path, kept, before, after).verdict.value == "DIVERGE"


@pytest.mark.parametrize(("kept", "found"), [(0, "INCONCLUSIVE"), (3, "DIVERGE")])
def test_what_the_schema_keeps_out_of_captures_is_not_on_the_run(
    kept: int, found: str, tmp_path: Path
) -> None:
    """A run chose to write a text longer than is kept; of a field kept out, it had no choice."""
    schema = (
        "schema: notes\nversion: 1.0.0\nentities:\n"
        f"  note: {{fields: {{body: {{digest_above_bytes: {kept}}}}}}}\n"
    )
    seed = (
        "CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT)",
        "INSERT INTO note VALUES (1, 'a')",
    )
    before = database(tmp_path / "a.db", *seed)
    after = database(tmp_path / "b.db", *seed, "UPDATE note SET body = 'abcd' WHERE id = 1")
    body = "allow: [{any: note}]\nforbid: [{update: note, where: 'contains(new.body, \"q\")'}]\n"
    assert judged(tmp_path, body, before, after, schema).verdict.value == found
