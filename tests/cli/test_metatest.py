import json
from pathlib import Path

import pytest

from statediff.contract.file import load_contract
from statediff.meta.read_faults import CODES, UNRECORDED
from statediff.workspace.references import every_contract
from tests.cli.conftest import Call
from tests.own_sandboxes import make_project

CHECKOUT = Path(__file__).parents[2]

KEYS = [
    "schema", "seed", "faults", "caught", "named", "twins", "twins_diverged", "evidence_faults",
    "inconclusive", "stage_cases", "stage_named", "by_class", "by_domain", "untried",
    "never_seeded",
]  # fmt: skip
CONTRACT = """\
contract: notes/close-ticket
version: 1.0.0
owner: support
intent: Close ticket 7 and change nothing else.
inputs: {ticket: 7}
require:
  - id: closed
    update: ticket
    where: it.id == input.ticket
    set: {status: closed}
"""


@pytest.mark.slow
def test_metatest_prints_exactly_its_counts_and_its_seed(statediff: Call, drawn_seed: int) -> None:
    options = ("--sample", "5", "--seed", str(drawn_seed), "--json")
    said = statediff("metatest", "shop/correct-address", *options)
    [document] = said.lines
    assert list(document) == KEYS
    assert document["seed"] == drawn_seed
    assert said.code == 0, f"statediff metatest shop/correct-address {' '.join(options)}"
    assert document["caught"] == document["faults"] > 0
    assert document["twins_diverged"] == 0
    assert document["inconclusive"] == document["evidence_faults"]
    assert document["stage_named"] == document["stage_cases"] > 0
    assert sum(line["faults"] for line in document["by_class"].values()) == document["faults"]
    assert list(document["by_domain"]) == ["shop"]
    assert "seeded cases" in {each["what"] for each in document["untried"]}
    low, high = document["by_domain"]["shop"]["interval"]
    assert 0 < low < high == 1


def test_agree_says_on_which_recorded_faults_two_contracts_differ(
    statediff: Call, tmp_path: Path
) -> None:
    opened = CONTRACT.replace("require:", "frame: {open: only the ticket matters}\nrequire:")
    (tmp_path / "a.yaml").write_text(CONTRACT)
    (tmp_path / "b.yaml").write_text(opened)
    for name, status in (("before", "open"), ("after", "closed")):
        tickets = [{"id": 7, "status": status}, {"id": 8, "status": "open"}]
        state = {"ticket": tickets, "user": [{"id": 1, "name": "Ada"}]}
        (tmp_path / f"{name}.json").write_text(json.dumps(state))
    run = ("--before", "before.json", "--after", "after.json")
    said = statediff("agree", "a.yaml", "b.yaml", *run, "--json")
    assert said.code == 1
    assert said.json["cases"] == said.json["agree"] + len(said.json["differ"])
    assert set(said.json["clauses_of_a"]) == {"frame"}
    assert said.json["clauses_of_b"] == {}
    assert statediff("agree", "a.yaml", "a.yaml", *run).code == 0
    wrong = statediff("agree", "a.yaml", "b.yaml", "--before", "before.json")
    assert (wrong.code, wrong.out) == (2, "")


def test_metatest_seeds_into_a_recorded_run_and_refuses_half_of_one(
    statediff: Call, tmp_path: Path
) -> None:
    (tmp_path / "a.yaml").write_text(CONTRACT)
    for name, status in (("before", "open"), ("after", "closed")):
        tickets = [{"id": 7, "status": status}, {"id": 8, "status": "open"}]
        state = {"ticket": tickets, "user": [{"id": 1, "name": "Ada"}, {"id": 2, "name": "Bo"}]}
        (tmp_path / f"{name}.json").write_text(json.dumps(state))
    run = ("--before", "before.json", "--after", "after.json")
    said = statediff("metatest", "a.yaml", *run, "--json")
    found = said.json
    assert said.code == 0, f"--seed {found['seed']}"
    assert 0 <= found["seed"] < 1_000_000
    assert found["caught"] == found["faults"] > 10
    assert found["twins"] >= found["faults"]
    assert found["inconclusive"] == found["evidence_faults"] > 0
    both = (*run, "--captures", ".")
    for wrong in (run[:2], (*run, "--live"), (*run, "--corpus", "."), both):
        refused = statediff("metatest", "a.yaml", *wrong)
        assert (refused.code, refused.out) == (2, "")
        assert "a recorded run is one CONTRACT" in refused.err


@pytest.mark.slow
def test_metatest_seeds_into_the_trials_that_a_run_kept(statediff: Call, tmp_path: Path) -> None:
    name = "shop/correct-address"
    assert statediff("run", name, "--agent", "careful", "--out", "right").code == 0
    assert statediff("run", name, "--agent", "wrong_recipient", "--out", "wrong").code == 1
    [run], [other] = (list((tmp_path / out).glob("run-*")) for out in ("right", "wrong"))
    said = statediff(
        "metatest", name, "--captures", str(run), "--sample", "3", "--seed", "8", "--json"
    )
    assert said.code == 0
    assert said.json["caught"] == said.json["faults"] > 0
    assert said.json["faults"] == 3
    none = statediff("metatest", name, "--captures", str(other))
    assert none.code == 2
    assert "expected a trial of shop/correct-address that gets MATCH" in none.err
    [trial] = (run / "trials").iterdir()
    states = trial / "states.json"
    states.write_text(states.read_text().replace('["complete",""]', '["incomplete",""]', 1))
    broken = statediff("metatest", name, "--captures", str(trial))
    assert broken.code == 2
    assert "has another digest than it says" in broken.err


@pytest.mark.slow
def test_the_trials_of_a_run_are_tried_each_under_its_own_case(
    statediff: Call, tmp_path: Path
) -> None:
    contract = make_project(tmp_path, "file")
    named = "sandbox: app  # ours\ninputs: {n: 2}\ncases: n.csv"
    text = contract.read_text().replace("sandbox: app", named).replace("== 1", "== input.n")
    contract.write_text(text)
    (tmp_path / "n.csv").write_text("case,n\none,1\ntwo,2\nthree,1\n")
    assert statediff("run", "contract.yaml", "--agent", "right", "--out", "runs").code == 1
    [run] = (tmp_path / "runs").glob("run-*")
    said = statediff("mutate", "contract.yaml", "--captures", str(run), "--json")
    tried = [each.get("contract") for each in said.lines]
    assert tried == ["own/file/one@1.0.0", "own/file/three@1.0.0", None]
    options = ("--captures", str(run), "--sample", "1", "--seed", "1", "--json")
    one, three = (
        statediff("metatest", "contract.yaml", *options, "--case", case).json
        for case in ("one", "three")
    )
    both = statediff("metatest", "contract.yaml", *options).json
    for count in ("faults", "evidence_faults", "twins", "stage_cases"):
        assert both[count] == one[count] + three[count]
    assert one["faults"] + one["evidence_faults"] > 0
    assert one["stage_cases"] == three["stage_cases"] == 1
    wrong = statediff("metatest", "contract.yaml", "--captures", str(run), "--case", "two")
    assert "expected a trial of own/file/two that gets MATCH" in wrong.err
    above = statediff("mutate", "contract.yaml", "--captures", "runs")
    assert f"the newest is runs/{run.name}" in above.err


def test_metatest_seeds_into_the_recorded_runs_beside_a_contract(statediff: Call) -> None:
    contract = str(CHECKOUT / "docs" / "examples" / "reads" / "silence.yaml")
    said = statediff("metatest", contract, "--sample", "4", "--seed", "3", "--json")
    assert (said.code, said.err) == (0, "")
    faults = said.json["by_class"]
    assert faults["agent:faulty"]["caught"] == 2, "both wrong runs, without --live"
    assert {*CODES, *UNRECORDED} & set(faults), "the read side is seeded"
    assert list(said.json["by_domain"]) == ["reads"]


def test_a_metatest_of_everything_has_contracts_of_the_read_side() -> None:
    everything = every_contract()
    files = [load_contract(path) for path in everything]
    assert len(set(everything)) == len(everything)
    assert len([each for each in files if each.content.access is not None]) >= 3
    assert {each.content.sandbox for each in files} >= {None, "shop", "helpdesk"}


def test_a_metatest_goes_on_with_the_pieces_that_are_kept(statediff: Call, tmp_path: Path) -> None:
    contract = str(CHECKOUT / "docs" / "examples" / "reads" / "silence.yaml")
    asked = ("metatest", contract, "--sample", "2", "--seed", "3", "--keep", "kept", "--json")
    first = statediff(*asked)
    assert first.code == 0
    [piece] = (tmp_path / "kept").iterdir()
    # Whatever stands there is what is counted: nothing is judged again.
    lost = piece.read_text().replace('"verdict": "DIVERGE"', '"verdict": "MATCH"')
    piece.write_text(lost)
    second = statediff(*asked)
    assert (second.code, second.json["caught"] < second.json["faults"]) == (1, True)
    piece.write_text(lost[:-9])
    assert statediff(*asked) == first
    other = statediff(*asked[:5], "4", *asked[6:])
    assert (other.code, len(list((tmp_path / "kept").iterdir()))) == (0, 2)
    refused = statediff(*asked[:-1], "--before", contract, "--after", contract)
    assert (refused.code, refused.out) == (2, "")
    assert "a recorded run is one piece" in refused.err
