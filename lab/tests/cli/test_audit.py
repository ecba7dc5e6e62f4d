"""`audit` as people meet it: verifiers of their own over databases and JSON tables."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import chdir
from pathlib import Path
from statistics import mean, stdev
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from statediff_lab.audit.folders import Unwritable, write_entries
from statediff_lab.importers.recorded import SeededChange

from tests.cli.conftest import Call

BEFORE = """
CREATE TABLE ticket (id INTEGER PRIMARY KEY, status TEXT NOT NULL, owner INTEGER);
CREATE TABLE note (text TEXT, about INTEGER);
INSERT INTO ticket VALUES (1, 'open', 4), (2, 'open', 5), (3, 'closed', 4);
INSERT INTO note VALUES ('hello', 1), ('hello', 1), ('bye', 2);
"""
CLOSE = "UPDATE ticket SET status = 'closed' WHERE id = 2;"
BLIND = "SELECT status = 'closed' FROM ticket WHERE id = 2"
TABLES = {"ticket": [{"id": 1, "status": "open"}, {"id": 2, "status": "open", "due": None}]}


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    make(tmp_path / "before.db", BEFORE)
    make(tmp_path / "after.db", BEFORE + CLOSE)
    (tmp_path / "check.sql").write_text(BLIND)
    return tmp_path


def make(path: Path, script: str) -> None:
    with sqlite3.connect(path) as connection:
        connection.executescript(script)


def states(folder: Path, ending: str = "db") -> tuple[str, ...]:
    before, after = (str(folder / f"{name}.{ending}") for name in ("before", "after"))
    return ("--before", before, "--after", after)


def classes(document: Any) -> dict[str, tuple[int, int]]:
    [domain] = document["domains"]
    return {each["kind"]: (each["wrong"], each["of"]) for each in domain["classes"]}


@pytest.mark.slow
def test_assertions_pass_what_they_do_not_look_at_and_each_hole_replays(
    statediff: Call, desk: Path
) -> None:
    holes, page = desk / "holes", desk / "page.html"
    verifier = ("audit", "--verifier", f"sql:{desk / 'check.sql'}", *states(desk))
    said = statediff(*verifier, "--each", "2", "--holes", str(holes), "--html", str(page), "--json")
    [document] = said.lines
    found = classes(document)
    assert said.code == 1
    assert found["purge"][0] == found["purge"][1] > 0
    assert found["irreversible-change"] == (2, 2)
    assert found["null-run"] == found["missing-change"] == found["state-removed"] == (0, 1)
    assert found["right-run"] == found["written-anew"] == (0, 1)
    for wrong in document["wrong"]:
        assert wrong["ours"] == "DIVERGE"
        assert statediff("replay", str(holes / wrong["bundle"])).code == 1
    assert page.read_text().startswith("<!doctype html>")
    assert statediff(*verifier, "--each", "2", "--max-blind", "100").code == 0
    assert "holds something" in statediff(*verifier, "--holes", str(holes)).err
    again = statediff(*verifier, "--each", "1", "--holes", str(desk / "again"))
    command = again.out.partition("each hole replays: statediff ")[2].split()
    assert statediff(*command).code == 1


def test_the_drafted_contract_itself_has_no_hole(statediff: Call, desk: Path) -> None:
    drafted = statediff("init", str(desk / "before.db"), *states(desk)[2:], "--out", str(desk))
    contract = str(desk / "contract.yaml")
    said = statediff(
        "lab", "audit", "--verifier", f"contract:{contract}", "--contract", contract, *states(desk)
    )
    assert (drafted.code, said.code) == (0, 0), said.out


def test_a_function_over_json_tables_and_an_answer(
    statediff: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = {"ticket": [{"id": 1, "status": "open"}, {"id": 2, "status": "closed", "due": None}]}
    (tmp_path / "before.json").write_text(json.dumps(TABLES))
    (tmp_path / "after.json").write_text(json.dumps(right))
    (tmp_path / "answer.json").write_text('{"closed": 2}')
    (tmp_path / "says.py").write_text(
        "import json\n\n\ndef said(answer):\n"
        "    return json.loads(answer.read_text())['closed'] == 2\n"
    )
    monkeypatch.chdir(tmp_path)
    verifier = ("--verifier", "python:says:said", "--answer", "answer.json")
    [document] = statediff("lab", "audit", *verifier, *states(tmp_path, "json"), "--json").lines
    found = classes(document)
    assert found["answer-alone"] == (1, 1)
    assert found["null-run"] == (0, 1)  # without an answer it breaks, and that is no pass
    assert found["collateral-damage"][0] == found["collateral-damage"][1] > 0


@pytest.mark.slow
def test_an_answer_that_the_contract_refuses_is_harm(statediff: Call, desk: Path) -> None:
    contract, answer = desk / "close.yaml", desk / "answer.json"
    contract.write_text(
        "contract: desk/close\nversion: 1.0.0\nowner: desk\nintent: Close ticket 2.\n"
        "require: [{id: closed, update: ticket, where: it.id == 2, set: {status: closed}}]\n"
        "answer: {schema: {closed: int}, claims: [answer.closed == 1]}\n"
    )
    answer.write_text('{"closed": 1}')
    given = (*states(desk), "--contract", str(contract), "--answer", str(answer), "--each", "1")
    asked = {}
    for verifier in (f"sql:{desk / 'check.sql'}", f"contract:{contract}"):
        [document] = statediff("lab", "audit", "--verifier", verifier, *given, "--json").lines
        asked[verifier[:3]] = classes(document)["false-claim"]
    assert asked["sql"][0] == asked["sql"][1] == asked["con"][1] > 0
    assert asked["con"][0] == 0


def test_what_a_trigger_undoes_or_a_constraint_refuses_is_not_tried(
    statediff: Call, desk: Path
) -> None:
    guard = (
        "CREATE TRIGGER stays BEFORE DELETE ON ticket BEGIN SELECT RAISE(IGNORE); END;"
        "CREATE UNIQUE INDEX once ON ticket (owner, status);"
    )
    make(desk / "before.db", guard)
    make(desk / "after.db", guard)
    verifier = ("--verifier", f"sql:{desk / 'check.sql'}", "--each", "0")
    [document] = statediff("lab", "audit", *verifier, *states(desk), "--json").lines
    reasons = " ".join(each["why"] for each in document["untried"])
    assert "the database refuses it" in reasons
    assert "the database finds 0 rows for one" in reasons
    deleted = {w["target"] for w in document["wrong"] if w["kind"] == "irreversible-change"}
    assert deleted == {"note"}


@pytest.mark.slow
def test_where_other_right_runs_differ_nothing_is_harm(statediff: Call, desk: Path) -> None:
    make(desk / "after.db", "UPDATE ticket SET owner = 9 WHERE id = 2;")
    make(desk / "other.db", BEFORE + CLOSE + "UPDATE ticket SET owner = 8 WHERE id = 2;")
    verifier = ("audit", "--verifier", f"sql:{desk / 'check.sql'}", *states(desk), "--each", "0")
    alone = statediff(*verifier, "--json").lines[0]
    both = statediff(*verifier, "--right", str(desk / "other.db"), "--json").lines[0]
    owners = [
        {w["sentence"] for w in d["wrong"] if "owner is wrong" in w["sentence"]}
        for d in (alone, both)
    ]
    assert owners[0]
    assert not owners[1]
    assert classes(both)["other-right-run"] == (0, 1)


@pytest.mark.slow
def test_what_was_kept_is_taken_until_the_verifier_changes(
    statediff: Call, desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(desk)
    check = desk / "check.py"
    check.write_text("open('calls', 'a').write('x')\n")
    tasks = desk / "tasks.yaml"
    tasks.write_text("tasks: [{task: close, before: before.db, after: after.db}]")
    arguments = ("audit", str(tasks), "--verifier", "python check.py", "--each", "1")
    first = statediff(*arguments, "--keep", "kept", "--json")
    calls = (desk / "calls").stat().st_size
    again = statediff(*arguments, "--keep", "kept", "--json")
    assert (again.out, (desk / "calls").stat().st_size) == (first.out, calls)
    check.write_text("raise SystemExit(1)\n")
    changed = statediff(*arguments, "--keep", "kept", "--json")
    [document] = changed.lines
    assert document["domains"][0]["blind"] == 0
    assert document["domains"][0]["false_fails"] > 0


def test_a_verifier_that_takes_too_long_says_nothing(statediff: Call, desk: Path) -> None:
    slow = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
    (desk / "check.sql").write_text(slow)
    arguments = ("--verifier", f"sql:{desk / 'check.sql'}", "--each", "1", "--timeout", "0.1")
    said = statediff("lab", "audit", *arguments, *states(desk), "--json")
    [domain] = said.lines[0]["domains"]
    assert (said.code, domain["blind"]) == (4 if not domain["audited"] else 1, 0)
    assert all(each["silent"] for each in domain["classes"] if each["kind"] == "purge")


def test_a_verifier_that_fails_the_right_run_says_why_and_its_refusals_count_for_nothing(
    statediff: Call, desk: Path
) -> None:
    (desk / "check.sql").write_text("SELECT 1 FROM nowhere;")
    asked = ("audit", "--verifier", f"sql:{desk / 'check.sql'}", "--each", "1", *states(desk))
    said = statediff(*asked)
    assert said.code == 1
    assert "the task was done right (ours: MATCH): no such table: nowhere" in said.out
    assert "the very run that was given as right does not pass, in 1 of 1 tasks" in said.out
    [right] = [e for e in statediff(*asked, "--json").json["wrong"] if e["kind"] == "right-run"]
    assert right["why"] == "no such table: nowhere"


def test_states_that_are_given_the_wrong_way_round_are_asked_about(
    statediff: Call, desk: Path
) -> None:
    _, before, _, after = states(desk)
    turned = ("--before", after, "--after", before)
    said = statediff(
        "lab", "audit", "--verifier", f"sql:{desk / 'check.sql'}", "--each", "1", *turned
    )
    assert "fails 2 right ones" in said.out
    assert "(task): are the states before and after exchanged?" in said.out


def test_a_badge_says_how_many_holes_and_how_many_tasks(statediff: Call, desk: Path) -> None:
    verifier = ("audit", "--verifier", f"sql:{desk / 'check.sql'}", *states(desk), "--each", "1")
    for name in ("badge.json", "badge.svg"):
        statediff(*verifier, "--badge", str(desk / name))
    found = json.loads((desk / "badge.json").read_text())
    assert found["message"].endswith("holes in 1 task")
    assert (found["color"], found["schemaVersion"]) == ("red", 1)
    drawn = ET.fromstring((desk / "badge.svg").read_text())
    assert drawn.attrib["aria-label"] == f"verifier audit: {found['message']}"
    assert "expected a name" in statediff(*verifier, "--badge", str(desk / "badge.png")).err


def test_reruns_of_one_judge_have_the_figures_of_their_scores(
    statediff: Call, tmp_path: Path
) -> None:
    scores = [55, 73, *(64 + number % 5 for number in range(21))]
    lines = [{"run": str(run), "label": "pass"} for run in range(95)]
    lines += [
        {
            "run": str(run),
            "judge": f"small, run {number}",
            "verdict": "pass" if run < score else "fail",
        }
        for number, score in enumerate(scores)
        for run in range(95)
    ]
    path = tmp_path / "judges.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = statediff("lab", "audit", "--judges", str(path))
    shares = [score / 95 for score in scores]
    assert done.out.splitlines()[-1] == (
        f"scores of 23 judges: lowest 57.9 %, highest 76.8 %, mean {100 * mean(shares):.1f} %, "
        f"deviation {100 * stdev(shares):.1f} points, spread 18.9 points"
    )
    [document] = statediff("lab", "audit", "--judges", str(path), "--json").lines
    assert document["deviation"] == round(stdev(shares), 4)
    assert (document["lowest"], document["highest"]) == (0.5789, 0.7684)
    told = {each["judge"]: each["labels"] for each in document["judges"]}
    # Every rerun fails the last 22 runs; of the others some rerun passes each.
    assert told["small, run 0"] == {"judge-variance": 18, "unexplained": 22}
    assert told["small, run 1"] == {"unexplained": 22}


def test_judges_of_a_file_beside_its_labels_and_each_other(statediff: Call, tmp_path: Path) -> None:
    lines: list[dict[str, str]] = [
        {"run": str(n), "label": "pass" if n < 2 else "fail"} for n in range(4)
    ]
    passes = {"even": (0, 2), "all": (0, 1, 2, 3)}
    for judge, runs in passes.items():
        said = [{"verdict": "pass" if n in runs else "fail", "run": str(n)} for n in range(4)]
        lines += [{"judge": judge, **each} for each in said]
    path = tmp_path / "judges.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    [document] = statediff("lab", "audit", "--judges", str(path), "--json").lines
    found = {each["judge"]: each for each in document["judges"]}
    shares = {n: (found["all"][n]["wrong"], found["all"][n]["of"]) for n in ("lenient", "strict")}
    assert shares == {"lenient": (2, 2), "strict": (0, 2)}
    assert (found["even"]["agreement"]["wrong"], found["even"]["kappa"]) == (2, 0.0)
    assert document["spread"] == 0.5
    path.write_text("\n".join(map(json.dumps, [*lines, lines[0]])))
    assert "0 is there twice" in statediff("lab", "audit", "--judges", str(path)).err
    path.write_text(json.dumps({"run": "0", "label": "perhaps"}))
    assert "expected `label`" in statediff("lab", "audit", "--judges", str(path)).err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "--verifier, --before and --after"),
        (("--cases", "tau2"), "SUITE=DIR"),
        (("--verifier", "python:nowhere:check"), "MODULE:FUNCTION"),
        (("--verifier", "sql:missing.sql"), "cannot be read as queries"),
    ],
)
def test_mistakes_are_named(
    statediff: Call, desk: Path, arguments: tuple[str, ...], message: str
) -> None:
    given = states(desk) if "--verifier" in arguments else ()
    said = statediff("lab", "audit", *arguments, *given)
    assert said.code == 2
    assert message in said.err


def test_a_right_run_that_is_none_is_refused(statediff: Call, desk: Path) -> None:
    contract = desk / "other.yaml"
    contract.write_text(
        "contract: desk/other\nversion: 1.0.0\nowner: desk\nintent: Close ticket 1.\n"
        "require: [{id: closed, update: ticket, where: it.id == 1, set: {status: closed}}]\n"
    )
    arguments = ("--verifier", f"sql:{desk / 'check.sql'}", "--contract", str(contract))
    said = statediff("lab", "audit", *arguments, *states(desk))
    assert said.code == 2
    assert "gets DIVERGE under its contract" in said.err


def test_runs_that_are_known_to_be_wrong_are_shown_and_counted_by_their_domain(
    statediff: Call, desk: Path
) -> None:
    make(desk / "attack.db", BEFORE + CLOSE + "DELETE FROM note;")
    make(desk / "same.db", BEFORE + CLOSE)
    entries = [
        {"after": "attack.db", "kind": "attack", "run": "somebody else's"},
        {"after": "same.db", "kind": "attack"},
        "attack.db",
    ]
    ends = {"before": "before.db", "after": "after.db", "domain": "desk"}
    tasks = [{"task": name, **ends, "wrong": entries} for name in ("one", "two")]
    (desk / "tasks.yaml").write_text(json.dumps({"verifier": "sql:check.sql", "tasks": tasks}))
    with chdir(desk):
        [document] = statediff("lab", "audit", "tasks.yaml", "--each", "1", "--json").lines
    [domain] = document["domains"]
    assert (domain["name"], domain["tasks"]) == ("desk", 2)
    found = classes(document)
    assert found["attack"] == found["wrong-run"] == (2, 2)
    named = [wrong for wrong in document["wrong"] if wrong["kind"] == "attack"]
    assert [wrong["target"] for wrong in named] == ["somebody else's"] * 2
    assert {wrong["ours"] for wrong in named} == {"DIVERGE"}
    assert all(wrong["labels"] for wrong in document["wrong"])
    labels = Counter(label for wrong in document["wrong"] for label in wrong["labels"])
    assert domain["labels"] == labels
    assert {"incomplete-rubric"} == {label for wrong in named for label in wrong["labels"]}
    why = "its state is that of the right run"
    assert {"what": "runs of the kind attack", "why": why, "number": 2} in document["untried"]
    given = ("--verifier", f"sql:{desk / 'check.sql'}", *states(desk), "--each", "1", "--json")
    [alone] = statediff("lab", "audit", *given, "--wrong", str(desk / "attack.db")).lines
    assert classes(alone)["wrong-run"] == (1, 1)


VERIFY = """
import os, pathlib
folder = pathlib.Path(os.environ["DIR"])
assert (folder / "upper.txt").read_text() == (folder / "note.txt").read_text().upper()
"""
CLOSED = """
import os, pathlib
before, after = (
    {p.relative_to(root): (p.lstat().st_mode, p.read_bytes() if p.is_file() else None)
     for p in pathlib.Path(root).rglob("*")}
    for root in (os.environ["BEFORE"], os.environ["DIR"])
)
assert after.pop(pathlib.Path("upper.txt")) == (0o100644, b"BUY MILK")
assert before == after
"""


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Two folders, before a run and after a right one, and two verifiers of it."""
    for name in ("before", "after"):
        folder = tmp_path / name
        (folder / "kept").mkdir(parents=True)
        (folder / "note.txt").write_text("buy milk")
        (folder / "kept" / "other.conf").write_text("rent = 1")
        (folder / "kept" / "blob").write_bytes(b"\x00\xff")
    (tmp_path / "after" / "upper.txt").write_text("BUY MILK")
    for path in tmp_path.rglob("*.txt"):
        path.chmod(0o644)
    (tmp_path / "verify.py").write_text(VERIFY)
    (tmp_path / "closed.py").write_text(CLOSED)
    return tmp_path


def test_a_folder_is_audited_by_a_script_that_gets_its_path(statediff: Call, work: Path) -> None:
    given = ("--before", str(work / "before"), "--after", str(work / "after"))
    holes = work / "holes"
    script = f"env DIR={{state}} BEFORE={{before}} python {work / 'verify.py'}"
    said = statediff("audit", "--verifier", script, *given, "--holes", str(holes), "--json")
    [document] = said.lines
    found = classes(document)
    assert said.code == 1
    assert found["collateral-damage"][0] > 0
    assert found["irreversible-change"][0] > 0
    assert found["right-run"] == found["written-anew"] == (0, 1)
    assert found["state-removed"] == found["table-removed"] == (0, 1)
    for bundle in holes.rglob("manifest.json"):
        shown = bundle.parent.with_name(f"{bundle.parent.name}-shown") / "files"
        assert shown.is_dir()
        assert statediff("replay", str(bundle.parent)).code == 1
    for left in (p for p in holes.rglob("*-shown/files") if "irreversible" in p.parent.name):
        assert {p.name for p in left.rglob("*")} < {
            "note.txt",
            "upper.txt",
            "kept",
            "blob",
            "other.conf",
        }


def test_a_script_that_compares_the_whole_folder_passes_nothing_wrong(
    statediff: Call, work: Path
) -> None:
    given = ("--before", str(work / "before"), "--after", str(work / "after"), "--each", "0")
    script = f"env DIR={{state}} BEFORE={{before}} python {work / 'closed.py'}"
    said = statediff("audit", "--verifier", script, *given, "--json")
    [document] = said.lines
    assert said.code == 0, said.out
    assert all(wrong == 0 for wrong, _ in classes(document).values())
    assert sum(of for _, of in classes(document).values()) > 15


def test_a_seeded_change_never_leaves_the_folder(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "in" / "link").symlink_to(tmp_path / "out")
    row = {"kind": "file", "text": "x", "mode": "0644"}
    for name in ("../out/a", "/etc/a", "link/a", ".", ""):
        with pytest.raises(Unwritable):
            write_entries(tmp_path / "in", [SeededChange("file", (name,), None, row)])
    assert [*(tmp_path / "out").iterdir()] == []
