"""Whole examples of what the language has: a contract, right ends and wrong ones, each judged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from statediff.cli.main import run

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
NAMES = ("confirm-first", "key-of-two-members", "names-in-quotes")
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
    is_log = end.suffix == ".jsonl"
    states = ["--before", str(end.parent / "before.json")]
    states += ["--after", str(end.parent / "after.json" if is_log else end)]
    log = ["--trace", str(end), "--complete-trace"] if is_log else []
    code = run(["judge", str(end.parent / "contract.yaml"), *states, *log, "--json"])
    wanted = "MATCH" if end.stem.startswith("right") else "DIVERGE"
    assert json.loads(capsys.readouterr().out)["verdict"] == wanted
    assert code == (0 if wanted == "MATCH" else 1)


def test_every_example_has_a_right_end_and_a_wrong_one() -> None:
    kinds = {(end.parent.name, end.stem.partition("-")[0]) for end in ENDS}
    assert kinds == {(name, kind) for name in NAMES for kind in ("right", "wrong")}
