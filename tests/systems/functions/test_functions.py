"""A function that returns tables is a source: strictly, and never a MATCH where it failed."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import statediff
from statediff.cli.main import run
from statediff.errors import InputError, UsageError

CONTRACT = """
contract: notes/close
version: 1.0.0
owner: support
intent: Note 1 is closed.
require:
  - id: closed
    update: note
    where: it.id == 1
    set: {open: false}
"""


def test_it_is_watched_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    (tmp_path / "notes_source.py").write_text(
        "import json\nfrom pathlib import Path\n"
        "def notes():\n    return {'note': json.loads(Path('notes.json').read_text())}\n"
    )
    (tmp_path / "notes.json").write_text('[{"id": 1, "open": true}]')
    monkeypatch.chdir(tmp_path)
    program = (
        "from pathlib import Path; Path('notes.json').write_text('[{\"id\":1,\"open\":false}]')"
    )
    code = run(["watch", "--source", "n=notes_source:notes", "--", sys.executable, "-c", program])
    assert code == 0
    assert "true → false" in capsys.readouterr().out
    assert run(["capture", "--source", "n=notes_source:notes", "--out", "n.state"]) == 0
    assert run(["capture", "n=python://notes_source:notes"]) == 0


def test_a_function_at_hand_is_watched_and_judged() -> None:
    note = {"id": 1, "open": True, "at": datetime(2026, 1, 5, tzinfo=UTC), "cost": Decimal("1.50")}
    contract = statediff.load_contract(CONTRACT)
    with statediff.watch(contract, notes=lambda: {"note": [note]}, settle_seconds=0) as run:
        note["open"] = False
    assert run.judged is not None
    assert run.judged.verdict.value == "MATCH", run.judged.line


def test_one_that_fails_after_the_run_leaves_the_verdict_open() -> None:
    is_down = False

    def notes() -> Any:
        if is_down:
            raise ConnectionError("the service is away")
        return {"note": [{"id": 1, "open": True}]}

    with statediff.watch(statediff.load_contract(CONTRACT), notes=notes, settle_seconds=0) as run:
        is_down = True
    assert run.judged is not None
    assert run.judged.verdict.value == "INCONCLUSIVE"
    assert "the service is away" in run.judged.text()


@pytest.mark.parametrize(
    ("returned", "words"),
    [([], "expected {type"), ({1: []}, "of a type as text"), ({"a": ""}, "a: expected records"),
     ({"a": [1]}, "a, record 0: expected a mapping, found int"),
     ({"a": [{}, {"b": {1: 2}}]}, "a, record 1, b: expected names as text"),
     ({"a": [{"b": {1, 2}}]}, "record 0, b: expected a value of JSON.*found set"),
     ({"a": [{"b": float("nan")}]}, "a finite number")],
)  # fmt: skip
def test_what_is_no_state_is_named_with_its_place(returned: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        statediff.state(lambda: returned)


@pytest.mark.parametrize(
    ("named", "words"),
    [("n=os", "expected module:function"), ("n=nosuch:f", "cannot be imported"),
     ("n=os:nosuch", "no function"), ("os:getcwd", "expected NAME=MODULE:FUNCTION")],
)  # fmt: skip
def test_a_wrong_name_is_a_usage_error(named: str, words: str, capsys: Any) -> None:
    assert run(["capture", "--source", named]) == 2
    assert words in capsys.readouterr().err.replace("\n", " ")


def test_an_unknown_function_by_url_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="no function"):
        statediff.state("python://os:nosuch")
