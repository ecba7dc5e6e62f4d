from pathlib import Path

import pytest

from tests.cli.conftest import CONTRACT, Call, Files

CLOSE = """\
contract: shop/note-that-it-broke
version: 1.0.0
owner: care
intent: Leave a note on order 1009 and change nothing else.
sandbox: shop
frame: {open: a contract with holes for a test}
require:
  - id: noted
    create: note
    where: it.order == 1009
"""
AGENT = """\
import os, sqlite3

def right():
    with sqlite3.connect(os.environ["STATEDIFF_SHOP_DB_URL"].removeprefix("sqlite:///")) as db:
        db.execute("INSERT INTO notes (id, customer_id, order_id, by_staff_id, body, created_at)"
            " SELECT 990, customer_id, id, 4, 'broken', '2026-03-16 10:30:00' FROM orders"
            " WHERE id = 1009")
"""


def folder(tmp_path: Path) -> Path:
    tmp_path.mkdir(parents=True)
    (tmp_path / "agents.py").write_text(AGENT)
    (tmp_path / "contract.yaml").write_text(CLOSE)
    (tmp_path / "cases.yaml").write_text("cases: [{agent: right, verdict: MATCH}]\n")
    return tmp_path


def test_holes_are_reported_with_what_closes_them_and_proposed_in_the_file(
    statediff: Call, tmp_path: Path
) -> None:
    file = folder(tmp_path / "task") / "contract.yaml"
    said = statediff("mutate", str(file), "--json", "--write")
    assert said.code == 1
    report, last = said.lines
    assert report["contract"] == "shop/note-that-it-broke@1.0.0"
    assert report["caught"] < report["faults"]
    assert report["twins_diverged"] == []
    left = {each["what"]: each["number"] for each in report["untried"]}
    assert left["fields of rows left alone"] > 20
    assert any("no source delivers" in each for each in report["never_seeded"])
    found = {entry["fault"]: entry for entry in report["survivors"]}
    assert "delete: customer" in found["extra-delete customer"]["closing"]
    assert found["unsaid note"]["fields"] == ["body", "created_at"]
    assert last["summary"]["survivors"] == len(found)
    proposed = file.read_text()
    assert proposed.startswith(CLOSE.rstrip())
    assert "#     - id: no-other-customer\n#       delete: customer\n" in proposed
    assert statediff("check", str(file)).code == 0


def test_mutation_without_a_reference_says_how_to_name_one(statediff: Call, tmp_path: Path) -> None:
    task = folder(tmp_path / "task")
    (task / "cases.yaml").unlink()
    said = statediff("mutate", str(task))
    assert (said.code, said.out) == (2, "")
    assert "--reference" in said.err
    (task / "cases.yaml").write_text("cases: [{agent: right, verdict: MATCH}]\nsurvivors: [1]\n")
    assert "`survivor`" in statediff("mutate", str(task)).err


def test_what_was_not_tried_stands_under_what_was_caught(statediff: Call, tmp_path: Path) -> None:
    said = statediff("mutate", str(folder(tmp_path / "task")))
    first, _, third, last = said.out.splitlines()[:4]
    assert "faults caught" in first
    assert third.startswith("  not tried: ")
    assert "fields of rows left alone (of each type, one field of one row is altered)" in third
    assert last.startswith("  never seeded: what no source delivers as a row")


def test_a_recorded_run_needs_no_sandbox(statediff: Call, files: Files) -> None:
    run = ("--before", "a.json", "--after", "b.json", "--json")
    said = statediff("mutate", "c.yaml", *run).lines
    assert said[0]["references"] == ["recorded"]
    assert said[0]["faults"] == said[0]["caught"] > 3
    files.write("loose.yaml", CONTRACT.replace("    set: {status: closed}\n", ""))
    loose = statediff("mutate", "loose.yaml", *run)
    assert (loose.code, bool(loose.lines[0]["survivors"])) == (1, True)
    assert statediff("mutate", "c.yaml", "loose.yaml", *run).code == 2
    assert statediff("mutate", "c.yaml", "--before", "a.json").code == 2


@pytest.mark.slow
def test_each_case_of_a_contract_is_tried(statediff: Call, tmp_path: Path) -> None:
    task = folder(tmp_path / "task")
    contract = CLOSE.replace("sandbox: shop\n", "sandbox: shop\ninputs: {order: 1}\ncases: o.csv\n")
    (task / "contract.yaml").write_text(contract.replace("== 1009", "== input.order"))
    (task / "o.csv").write_text("case,order\nbroken,1009\nother,1010\n")
    found = statediff("mutate", str(task), "--case", "br*", "--json").lines
    assert [each["contract"] for each in found[:-1]] == ["shop/note-that-it-broke/broken@1.0.0"]
    all_ = statediff("mutate", str(task))
    assert all_.code == 4  # the agent does what the other case does not ask for
    assert "1 of 2: shop/note-that-it-broke/broken" in all_.err


def test_a_reference_that_failed_is_named_with_what_its_program_said(
    statediff: Call, tmp_path: Path
) -> None:
    task = folder(tmp_path / "task")
    (task / "agents.py").write_text("def right():\n    raise SystemExit('no such order')\n")
    said = statediff("mutate", str(task / "contract.yaml"))
    assert said.code == 2
    wanted = "gets DIVERGE, not MATCH (the agent ended with exit code 1: no such order; noted: "
    assert wanted in said.err
