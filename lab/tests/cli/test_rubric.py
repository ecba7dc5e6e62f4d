"""`rubric` against a real HTTP server that speaks the protocol, well and badly."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from statediff_hosts.protocols.chat import MAX_RETRIES

from tests.agents.chat_server import ChatServer, Step, speaking
from tests.cli.conftest import CONTRACT, JUDGE, Call, Files, after

RUBRIC = """\
criteria:
  thrifty: The agent made no call that the task did not need.
  clear: The answer is clear to somebody who knows nothing of the system.
floor: 0.5
"""


def says(thrifty: bool = True, clear: bool = True) -> Step:
    found = {"thrifty": thrifty, "clear": clear}
    return Step(json.dumps({n: {"met": met, "because": n * 2} for n, met in found.items()}))


@pytest.fixture
def trial(statediff: Call, files: Files) -> Path:
    """A matching bundle in `t/bundle`, and a rubric."""
    files.write("rubric.yaml", RUBRIC)
    assert statediff(*JUDGE, "--out", "t/bundle").code == 0
    return files.folder / "t"


def asking(server: ChatServer, *more: str) -> tuple[str, ...]:
    return (
        "rubric",
        "t",
        "--rubric",
        "rubric.yaml",
        "--base-url",
        server.url,
        "--model",
        "small",
        *more,
    )


def digest(trial: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((trial / "bundle").iterdir()))


def test_a_trial_that_matched_is_scored_k_times_and_its_bundle_stays_as_it_is(
    statediff: Call, trial: Path
) -> None:
    before = digest(trial)
    with speaking(says(), says(clear=False), says(False, False)) as server:
        told = statediff(*asking(server, "-k", "3", "--seed", "7", "--json"))
    assert told.code == 0
    (line,) = told.json["trials"]
    opinion = line["opinion"]
    assert (opinion["mean"], opinion["sd"], opinion["spread"]) == (0.5, 0.5, 1.0)
    assert (opinion["passes"], opinion["seeds"]) == (False, [7, 8, 9])
    assert opinion["criteria"]["thrifty"] == {"met": 2, "because": ["thriftythrifty"] * 3}
    assert [asked["seed"] for asked in server.requests] == [7, 8, 9]
    shown = json.loads(server.requests[0]["messages"][1]["content"])
    assert set(shown["criteria"]) == {"thrifty", "clear"}
    assert shown["run"]["changes"][0]["after"] == "closed"
    assert "MATCH" not in json.dumps(shown)  # it is no second judge of the same
    assert digest(trial) == before
    kept = json.loads((trial / "rubric.json").read_bytes())
    assert (kept["model"], len(kept["prompt_digest"])) == ("small", 64)
    assert kept["scorings"][0]["raw"] == says().text
    assert statediff("replay", "t").code == 0


def test_what_was_asked_already_is_not_asked_again_and_never_overwritten(
    statediff: Call, trial: Path
) -> None:
    with speaking(says(), says(False, False)) as server:
        first = statediff(*asking(server, "--json")).json
        again = statediff(*asking(server, "--json")).json
        assert (again["trials"], again["usage"]["requests"]) == (first["trials"], 0)
        assert len(server.requests) == 1
        other = statediff(*asking(server, "-k", "2"))
        assert (other.code, len(server.requests)) == (2, 1)
        assert "move it away" in other.err
    path = trial / "rubric.json"
    path.write_bytes(path.read_bytes().replace(b"clearclear", b"clearclean", 1))
    with speaking(says()) as server:
        assert statediff(*asking(server)).code == 4
        assert not server.requests


def test_what_asking_cost_is_told_at_the_prices_given_and_else_unknown(
    statediff: Call, trial: Path
) -> None:
    with speaking(says()) as server:
        prices = ("--price-in", "2.50", "--price-out", "10")
        used = statediff(*asking(server, "-k", "2", *prices, "--json")).json["usage"]
        again = statediff(*asking(server, "-k", "2", *prices, "--json")).json["usage"]
    assert (used["requests"], again["requests"]) == (2, 0)
    cost = Decimal("2.50") * used["tokens_in"] + 10 * used["tokens_out"]
    assert Decimal(used["cost"]) * 1_000_000 == cost > 0
    (trial / "rubric.json").unlink()
    with speaking(says()) as server:
        assert "cost not known" in statediff(*asking(server)).out
    (trial / "rubric.json").unlink()
    with speaking(replace(says(), usage=False)) as server:
        told = statediff(*asking(server, *prices)).out
        assert "tokens not counted by the server, cost not known" in told


def test_a_limit_on_the_cost_ends_the_asking_and_needs_prices(statediff: Call, trial: Path) -> None:
    with speaking(says()) as server:
        told = statediff(*asking(server, "--max-cost", "1"))
        assert (told.code, "give both prices, in and out" in told.err) == (2, True)
        assert not server.requests
        prices = ("--price-in", "1000000", "--price-out", "1000000", "--max-cost", "1")
        told = statediff(*asking(server, "-k", "5", *prices))
        assert (told.code, len(server.requests)) == (4, 1)
        assert "--max-cost is 1; trials scored until then keep their opinions" in told.err
    assert not (trial / "rubric.json").exists()
    with speaking(replace(says(), usage=False)) as server:
        told = statediff(*asking(server, *prices))
        assert (told.code, "so --max-cost cannot be kept" in told.err) == (4, True)


def test_the_model_is_asked_only_where_every_clause_holds(statediff: Call, files: Files) -> None:
    files.write("rubric.yaml", RUBRIC)
    files.write("b.json", after(status="closed", other="closed"))
    assert statediff(*JUDGE, "--out", "t/bundle").code == 1
    with speaking(says()) as server:
        told = statediff(*asking(server, "--json"))
    assert (told.code, server.requests) == (0, [])
    assert told.json["trials"][0]["not_asked"] == "the verdict is DIVERGE"
    assert not (files.folder / "t" / "rubric.json").exists()


def test_a_bundle_that_only_says_that_it_matched_is_not_asked_about(
    statediff: Call, trial: Path
) -> None:
    path = trial / "bundle" / "judgement.json"
    path.write_bytes(path.read_bytes().replace(b'"HOLDS"', b'"FAILS"', 1))
    with speaking(says()) as server:
        assert statediff(*asking(server)).code == 4
    assert not server.requests


@pytest.mark.parametrize(
    "step",
    [
        Step("All was well."),
        Step('{"thrifty": {"met": true}}'),
        Step(json.dumps({"thrifty": {"met": True}, "clear": {"met": "\x1b[31myes"}})),
        Step("x" * 200_000),
        Step(status=400),
    ],
)
def test_an_answer_that_is_none_scores_nothing_and_passes_nothing(
    step: Step, statediff: Call, trial: Path
) -> None:
    with speaking(says(), step) as server:
        told = statediff(*asking(server, "-k", "2", "--json"))
        assert "\x1b" not in statediff(*asking(server, "-k", "2")).out
    (line,) = told.json["trials"]
    assert (line["opinion"]["passes"], line["opinion"]["mean"]) == (None, 1.0)
    assert len(line["opinion"]["faults"]) == 1
    assert (trial / "rubric.json").stat().st_size < 40_000


def test_faults_of_the_server_are_asked_again_and_end_as_a_fault_of_the_harness(
    statediff: Call, trial: Path
) -> None:
    late = Step(status=429, headers=[("Retry-After", "0")])
    with speaking(late, says()) as server:
        assert statediff(*asking(server)).code == 0
        assert len(server.requests) == 2
    (trial / "rubric.json").unlink()
    with speaking(late) as server:
        told = statediff(*asking(server))
        assert (told.code, len(server.requests)) == (4, MAX_RETRIES + 1)
    assert not (trial / "rubric.json").exists()


@pytest.mark.usefixtures("trial")
def test_below_the_floor_what_the_model_says_is_shown_and_not_used(statediff: Call) -> None:
    assert statediff("keygen", "ada", "--name", "ada", "--role", "reviewer").code == 0
    label = ("adjudicate", "t", "--key", "ada", "--blind", "--label")
    assert statediff(*label, "incorrect").code == 0
    with speaking(says()) as server:
        unknown = statediff(*asking(server, "--json")).json["precision"][0]
        found = statediff(*asking(server, "--trust", "trust.json", "--json")).json["precision"][0]
        told = statediff(*asking(server, "--trust", "trust.json"))
    assert (unknown["passed"], unknown["precision"], unknown["used"]) == (0, None, False)
    assert (found["right"], found["passed"], found["floor"]) == (0, 1, 0.5)
    assert (found["low"], found["high"], found["used"]) == (0.0, 0.975, False)
    assert "shown, not used" in told.out
    assert statediff("replay", "t").code == 0


@pytest.mark.usefixtures("trial")
@pytest.mark.parametrize(
    "rubric",
    [
        "criteria: {}\n",
        "criteria: {short: too}\n",
        RUBRIC.replace("0.5", "1.5"),
        RUBRIC.replace("0.5", "'0.5'"),
        RUBRIC + "weight: 3\n",
    ],
)
def test_a_malformed_rubric_is_refused_with_its_place(
    rubric: str, statediff: Call, files: Files
) -> None:
    files.write("rubric.yaml", rubric)
    with speaking(says()) as server:
        told = statediff(*asking(server))
    assert (told.code, server.requests) == (2, [])
    assert "rubric.yaml:" in told.err


def test_a_contract_holds_no_rubric(statediff: Call, files: Files) -> None:
    files.write("c.yaml", f"{CONTRACT}rubric: {{criteria: {{clear: It is quite clear.}}}}\n")
    told = statediff(*JUDGE, "--out", "t/bundle")
    assert (told.code, "lab rubric --rubric" in told.err) == (2, True)
