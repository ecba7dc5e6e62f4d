"""Whole examples of what the language has: a contract, right ends and wrong ones, each judged."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import sys
from pathlib import Path

import pytest

from statediff.cli.main import run

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
NAMES = (
    "along-the-run",
    "answer-in-prose",
    "confirm-first",
    "key-of-two-members",
    "log-without-a-key",
    "names-in-quotes",
    "order-of-a-log",
    "talk-with-the-user",
    "two-readings",
    "two-systems",
)
ENDS = sorted(
    end
    for name in NAMES
    for end in (EXAMPLES / name).iterdir()
    if end.stem.partition("-")[0] in ("right", "wrong")
)


@pytest.mark.parametrize("end", ENDS, ids=lambda end: f"{end.parent.name}/{end.stem}")
def test_a_right_end_is_match_and_a_wrong_one_diverge(
    end: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An end is the state after, a log, an answer, or a folder: states of a run, or of systems."""
    folder = end.parent
    before, states = folder / "before", sorted(end.iterdir()) if end.is_dir() else []
    after = end if end.suffix == ".json" else folder / "after.json"
    if before.is_dir():  # a state a system
        more = [w for s in before.iterdir() for w in ("--before", f"{s.stem}={s}")]
        more += [w for s in states for w in ("--after", f"{s.stem}={s}")]
        states = []
    else:
        more = ["--before", f"{before}.json", "--after", str(states[-1] if states else after)]
    more += [word for state in states for word in ("--during", str(state))]
    more += ["--trace", str(end), "--complete-trace"] if end.suffix == ".jsonl" else []
    more += ["--answer", str(end)] if end.suffix == ".txt" else []
    schema = folder / "schema.yaml"
    more += ["--schema", str(schema)] if schema.is_file() else []
    code = run(["judge", str(folder / "contract.yaml"), *more, "--json"])
    wanted = "MATCH" if end.stem.startswith("right") else "DIVERGE"
    assert json.loads(capsys.readouterr().out)["verdict"] == wanted
    assert code == (0 if wanted == "MATCH" else 1)


def test_every_example_has_a_right_end_and_a_wrong_one() -> None:
    kinds = {(end.parent.name, end.stem.partition("-")[0]) for end in ENDS}
    assert kinds == {(name, kind) for name in NAMES for kind in ("right", "wrong")}


TIMES = EXAMPLES / "time-of-the-run"
BO = "2026-11-28T15:06:43Z"


@pytest.mark.parametrize(
    ("joined", "renewed", "verdict"),
    [
        ("now", BO, "MATCH"),
        ("9999-01-01T00:00:00Z", BO, "DIVERGE"),
        ("2020-01-01T00:00:00Z", BO, "DIVERGE"),
        ("now", "2026-11-28T15:06:44Z", "DIVERGE"),
        ("now", "2026-11-28 15:06:43", "DIVERGE"),
    ],
)
def test_a_time_of_the_run_is_one(
    joined: str, renewed: str, verdict: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "club.db"
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE members (id INTEGER PRIMARY KEY, name, joined_at, renewed_at)")
        db.execute("INSERT INTO members VALUES (1, 'Bo', '2020-02-02T00:00:00Z', NULL)")
        db.commit()
    agent = [sys.executable, str(TIMES / "agent.py"), str(path), joined, renewed]
    given = ["--state", f"db={path}", "--schema", str(TIMES / "schema.yaml")]
    out = str(tmp_path / "bundle")
    given += ["--contract", str(TIMES / "contract.yaml"), "--out", out, "--settle", "0", "--json"]
    run(["watch", *given, "--", *agent])
    assert json.loads(capsys.readouterr().out)["verdict"] == verdict
    run(["replay", out, "--json"])
    assert json.loads(capsys.readouterr().out)["verdict"] == verdict
