"""A reviewer's view of a copy of a DIVERGE in which personal values were planted."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from statediff.evidence import verify as v
from statediff.reports.copies import change_lines

MARK = "Zyxwv"
NUMBER = 555010999
"""A personal value that is no text; planted where the name of the field says so."""

CONTRACT = """\
contract: crm/close
version: 1.0.0
owner: crm
intent: Close the case and answer with its number.
inputs: {case: 7}
forbid:
  - {id: pay, update: person, fields: [salary]}
  - {id: notes, that: 'any(p.salary > 10 and p.note != "fine" for p in after.person)'}
require:
  - {id: closed, update: case, where: it.id == input.case, set: {status: closed}}
exclude: [{what: case.seen_by, because: nobody judges it}]
answer: {schema: {case: int, said: text}, claims: ['answer.said == "done"']}
steps:
  - {id: polite, on: say, that: 'call.arguments.words != "no"'}
"""
SCHEMA = """\
schema: crm
version: 1.0.0
entities:
  person: {key: [id], fields: {id: {type: text}, boss: {type: text, to: person}}}
"""


def plant(number: int) -> str:
    return f"{MARK} {number:02d}"


def world(*, after: bool) -> dict[str, Any]:
    """The two states of a run, with a personal value in thirteen places."""
    person = {
        "id": plant(1), "boss": plant(1), "note": plant(2 + after), "salary": NUMBER + after,
        "born_on": plant(4),
        "data": {plant(5): 1 + after, "deep": [plant(6), {"x": plant(7)}]},
        "phone": NUMBER,
    }  # fmt: skip
    case = {"id": 7, "status": "closed" if after else plant(8), "seen_by": plant(9) + str(after)}
    found: dict[str, Any] = {"person": [person], "case": [case], "memo": []}
    if after:
        found["memo"] = [{"id": 1, "text": plant(10) * 9000, "tags": [plant(11)], "to": plant(12)}]
        person["data"]["deep"].append(plant(13))
    return found


CALLS = [
    {"tool": plant(14), "arguments": {"words": plant(15), plant(16): 1},
     "result": plant(17), "principal": plant(18)},
    {"tool": "say", "arguments": {"words": plant(19)}, "error": plant(20)},
]  # fmt: skip
ANSWER = {"case": 7, "said": plant(21), plant(22): plant(23)}


@pytest.fixture
def sealed(statediff: Any, files: Any) -> Path:
    """A folder with the copies of one DIVERGE into which 23 values were planted."""
    folder = Path(files.folder)
    (folder / "c.yaml").write_text(CONTRACT)
    (folder / "schema.yaml").write_text(SCHEMA)
    (folder / "a.json").write_text(json.dumps(world(after=False)))
    (folder / "b.json").write_text(json.dumps(world(after=True)))
    (folder / "answer.json").write_text(json.dumps(ANSWER))
    (folder / "calls.jsonl").write_text("".join(json.dumps(each) + "\n" for each in CALLS))
    told = statediff(
        "judge", "c.yaml", "--before", "a.json", "--after", "b.json", "--schema", "schema.yaml",
        "--answer", "answer.json", "--trace", "calls.jsonl", "--out", "kept",
    )  # fmt: skip
    assert told.code == 1, told.err
    assert statediff("keygen", "key", "--name", "Ada").code == 0
    assert statediff("sign", "kept", "--key", "key", "--out", "sealed").code == 0
    for tier in ("public", "reviewer"):
        made = ("redact", "sealed", "--tier", tier, "--trust", "trust.json", "--out", f"{tier}.zip")
        assert statediff(*made).code == 0
    return folder


def test_what_is_planted_is_in_the_auditors_copy_alone(sealed: Path) -> None:
    whole = (sealed / "sealed" / "leaves.json").read_text()
    assert len({n for n in range(1, 24) if plant(n) in whole}) >= 20
    digests = [hashlib.sha256(plant(n).encode()).hexdigest() for n in range(1, 24)]
    for tier in ("public", "reviewer"):
        copy = v.read_copy(sealed / f"{tier}.zip")
        told = b"\n".join(copy.values()).decode()
        assert MARK not in told
        assert str(NUMBER) not in told
        assert str(NUMBER + 1) not in told
        assert not [each for each in digests if each in told]


def test_a_reviewer_is_shown_the_clause_the_rows_and_the_values_that_are_not_withheld(
    sealed: Path, statediff: Any
) -> None:
    told = statediff("show", "reviewer.zip", "--trust", "trust.json").out
    assert MARK not in told
    assert "✘ pay" in told
    assert "case 7 status" in told
    assert '→ "closed"' in told
    assert "person" in told
    assert "row-" in told
    assert "withheld: free text" in told
    assert statediff("report", "reviewer.zip", "--trust", "trust.json").code == 0
    page = next(sealed.glob("*.html")).read_text()
    assert "pay" in page
    assert "row-" in page
    assert "withheld: free text" in page
    again = statediff("replay", "reviewer.zip", "--trust", "trust.json")
    assert again.code == 3
    assert again.out.startswith("DIVERGE follows from the")


def test_what_nothing_explains_is_listed_first() -> None:
    sides = {"path": "", "before": {"entity": []}, "after": {"value": ["absent"]}}
    one = {"op": "delete", "type": "case", "key": [["int", "1"]], "explained_by": ["a"], **sides}
    other = {**one, "key": [["int", "2"]], "explained_by": []}
    assert next(change_lines({"changes": [one] * 60 + [other]})).startswith("delete case 2:")


def test_the_whole_copy_is_valid_replays_and_has_the_review_that_its_bundle_makes(
    sealed: Path, statediff: Any
) -> None:
    assert sealed.is_dir()
    assert statediff("verify", "sealed", "--trust", "trust.json").code == 0
    assert statediff("replay", "sealed", "--trust", "trust.json").code == 1


def test_a_file_says_which_fields_are_shown_and_which_are_personal(
    sealed: Path, statediff: Any
) -> None:
    (sealed / "disclosure.yaml").write_text("shown: [case.status]\npersonal: [case.id]\n")
    made = ("sign", "kept", "--key", "key", "--disclosure", "disclosure.yaml", "--out", "s.zip")
    assert statediff(*made).code == 0
    cut = ("redact", "s.zip", "--tier", "reviewer", "--trust", "trust.json", "--out", "r.zip")
    assert statediff(*cut).code == 0
    told = statediff("show", "r.zip", "--trust", "trust.json").out
    assert told.count(MARK) == 1, "the status before"
    (sealed / "wrong.yaml").write_text("show: [case.status]\n")
    assert statediff(*made[:5], "wrong.yaml", "--out", "t.zip").code == 2


def test_check_refuses_what_sign_would(sealed: Path, statediff: Any) -> None:
    checked = ("check", "c.yaml", "--before", "a.json", "--schema", "schema.yaml")
    assert "disclosure" not in statediff(*checked).out
    (sealed / "disclosure.yaml").write_text("replayable: {DIVERGE: reviewer}\n")
    told = statediff(*checked)
    assert (told.code, "not-replayable" in told.out) == (2, True)
    (sealed / "disclosure.yaml").write_text("personal: [person.salery]\n")
    told = statediff(*checked)
    assert (told.code, "`person.salery` is no field" in told.out) == (2, True)


def test_check_says_what_each_reader_would_learn(sealed: Path, statediff: Any) -> None:
    explained = ("check", "c.yaml", "--explain", "--before", "a.json", "--schema", "schema.yaml")
    told = " ".join(statediff(*explained).out.split())
    assert "with the values of case.id" in told
    assert "personal: person.phone, person.salary" in told
    assert "person.note" in told
    (sealed / "disclosure.yaml").write_text("shown: [person.note]\npersonal: [case.id]\n")
    told = " ".join(statediff(*explained).out.split())
    assert "person.note, and texts" in told
    assert "personal: case.id, person.phone" in told
