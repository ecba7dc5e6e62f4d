import contextlib
import json
import re
import resource
import sqlite3
from dataclasses import replace
from datetime import timedelta

import pytest

from statediff.agents.command import CommandAgent
from statediff.agents.function import FunctionAgent
from statediff.agents.trial import Trial
from statediff.capture.guard import Scans
from statediff.capture.source import clock
from statediff.contract.file import load_contract, parse_contract
from statediff.errors import ContractError, SandboxError, StorageError
from statediff.evidence.package import load
from statediff.harness import NO_HOOKS, Hooks, Task, TrialPlan, observe_trial, run_trial
from statediff.kernel import replay
from statediff.model.state import MemoryChunks
from statediff.model.trace import NoAnswer
from statediff.model.verdict import Verdict
from statediff.packs import contract_folder, sandbox_pack
from statediff.systems.base.sandbox import EmbeddedSandbox
from statediff.trial_folder import write_run
from tests.tasks import live_trial
from tests.tasks import running as running  # noqa: PLC0414 - a fixture
from tests.tasks import shop as shop  # noqa: PLC0414 - a fixture


def observe(shop, agent, tmp_path, hooks=NO_HOOKS):
    return observe_trial(
        shop,
        FunctionAgent(agent, "test"),
        Task("do it", {"order": 1009}),
        TrialPlan("trial-1", tmp_path / "trial"),
        clock=clock,
        store=MemoryChunks(),
        hooks=hooks,
    )


def test_a_trial_leaves_its_whole_record_and_its_bundle_replays(shop, tmp_path):
    folder = contract_folder("shop/refund-returned-order")
    trial = run_trial(
        shop,
        load_contract(folder.contract),
        CommandAgent(folder.agent("careful")),
        TrialPlan("trial-7", tmp_path / "trial-7", seed=7),
        clock=clock,
        store=MemoryChunks(),
    )
    written = sorted(path.name for path in (tmp_path / "trial-7").iterdir())
    assert written == [
        "agent.json",
        "answer.json",
        "bundle",
        "captures.json",
        "receipt.json",
        "states.json",
        "timeline.json",
        "trace.jsonl",
    ]
    assert replay(trial.evaluated.bundle).verdict is Verdict.MATCH
    lines = (tmp_path / "trial-7" / "trace.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["is_complete"] is False
    assert [json.loads(line)["tool"] for line in lines[1:]] == ["refund", "set_status", "send"]


def test_an_observed_trial_holds_both_captures_and_an_ordered_timeline(shop, tmp_path):
    seen: list[Trial] = []

    def agent(trial: Trial) -> object:
        seen.append(trial)
        with sqlite3.connect(trial.urls["shop-db"].removeprefix("sqlite:///")) as connection:
            connection.execute("DELETE FROM notes WHERE id = 901")
        connection.close()
        return {"ok": True}

    observed = observe(shop, agent, tmp_path)
    before, after = (
        {p.reading.source: p.state for p in c.parts}["shop-db"]
        for c in (observed.before, observed.after)
    )
    assert (before.tables["note"].row_count, after.tables["note"].row_count) == (9, 8)
    assert before.tables["order"].chunks == after.tables["order"].chunks
    line = observed.timeline
    moments = [
        line.reset_verified_at,
        line.agent_started_at,
        line.agent_finished_at,
        line.settled_at,
    ]
    assert moments == sorted(moments)
    assert all(reading.as_of >= line.settled_at for reading in observed.after.readings)
    assert seen[0].inputs == {"order": 1009}


def test_nothing_runs_without_a_proven_reset(tmp_path):
    class Leaky(EmbeddedSandbox):
        def reset(self) -> None:
            super().reset()
            (self.agent_folder / "left").touch()

    ran: list[Trial] = []
    with (
        Leaky(sandbox_pack("shop"), tmp_path / "work") as leaky,
        pytest.raises(SandboxError, match="agent/left"),
    ):
        observe(leaky, ran.append, tmp_path)
    assert ran == []
    assert json.loads((tmp_path / "trial" / "receipt.json").read_text())["ok"] is False


def test_a_source_that_dies_is_a_reading_with_a_cause(shop, tmp_path):
    hooks = Hooks(before_capture_after=lambda running: running.unplug("outbox"))
    observed = observe(shop, lambda _: 1, tmp_path, hooks)
    readings = {reading.source: reading for reading in observed.after.readings}
    assert readings["outbox"].cause == "connection refused"
    assert readings["shop-db"].is_complete


def test_what_is_written_after_the_capture_is_in_no_bundle(shop, tmp_path):
    """Whoever writes once the state was read changes neither what was read nor its verdict."""
    contract = load_contract(contract_folder("shop/refuse-late-refund").contract)
    held: list[str] = []

    def agent(trial: Trial) -> object:
        held.append(trial.urls["shop-db"].removeprefix("sqlite:///"))
        return {"decision": "refused", "refunded_cents": 0}

    done = live_trial(shop, contract, FunctionAgent(agent, "late"), tmp_path / "trial")
    verdict, digest = done.evaluated.judgement.verdict, done.evaluated.bundle.digest
    with contextlib.closing(sqlite3.connect(held[0], isolation_level=None)) as late:
        late.execute("DELETE FROM refunds")
    kept = load(tmp_path / "trial" / "bundle")
    assert (kept.digest, replay(kept).verdict) == (digest, verdict)
    assert b"refund[" not in kept.files["judgement.json"]


def test_a_write_still_open_at_the_end_is_in_the_timeline(shop, tmp_path, monkeypatch):
    monkeypatch.setattr("statediff.harness.SETTLE_SECONDS", 0.05)
    held: list[sqlite3.Connection] = []

    def agent(trial: Trial) -> object:
        path = trial.urls["shop-db"].removeprefix("sqlite:///")
        held.append(sqlite3.connect(path, isolation_level=None))
        held[0].execute("BEGIN IMMEDIATE")
        return 1

    observed = observe(shop, agent, tmp_path)
    held[0].close()
    assert observed.timeline.unsettled == (("shop-db", "a write transaction is still open"),)


def test_what_is_seen_to_end_only_later_is_held_against_no_agent_that_failed(
    shop, tmp_path, monkeypatch
):
    """As a server that was asked to end, and was still ending when the agent had failed."""
    settle, waits = shop.settle, []

    def later(clock, wait_seconds=2.0):
        waits.append(wait_seconds)
        failed = (("shop-db", "its server ended"),) if len(waits) == 2 else ()
        return replace(settle(clock, wait_seconds), failed=failed)

    monkeypatch.setattr(shop, "settle", later)

    def broken(_: Trial) -> object:
        raise RuntimeError("connection refused")

    observed = observe(shop, broken, tmp_path)
    assert observed.failed == (("shop-db", "its server ended"),)
    assert waits[1] == 0


def test_an_agent_that_raises_is_recorded_not_a_harness_fault(shop, tmp_path):
    def agent(_: Trial) -> object:
        raise RuntimeError("out of tokens")

    observed = observe(shop, agent, tmp_path)
    assert observed.run.answer == NoAnswer("the agent raised RuntimeError: out of tokens")
    record = json.loads((tmp_path / "trial" / "agent.json").read_text())
    assert record["error"] == "the agent raised RuntimeError: out of tokens"


def test_a_trial_folder_is_never_overwritten(shop, tmp_path):
    observe(shop, lambda _: 1, tmp_path)
    with pytest.raises(StorageError, match="nothing in it is overwritten"):
        observe(shop, lambda _: 2, tmp_path)


def test_what_a_full_disk_does_not_take_is_named_and_what_was_written_stays(shop, tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def agent(_: Trial) -> object:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
        return "x" * 300_000

    try:
        observed = observe(shop, agent, tmp_path)
        (missing,) = observed.files.finish()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert re.fullmatch(
        r"run is not kept: .*answer\.json cannot be written: File too large.*", missing
    )
    names = {path.name for path in (tmp_path / "trial").iterdir()}
    assert {"receipt.json", "trace.jsonl", "captures.json"} <= names
    assert not any(name.startswith(("answer.json", ".")) for name in names)


def test_a_link_that_the_agent_plants_where_results_go_is_not_followed(shop, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")

    def agent(_: Trial) -> object:
        for name in ("answer.json", ".answer.json.part"):
            (tmp_path / "trial" / name).symlink_to(victim)
        return 1

    observe(shop, agent, tmp_path)
    assert victim.read_text() == "precious"
    assert not (tmp_path / "trial" / "answer.json").is_symlink()


def test_a_contract_that_does_not_fit_is_refused_before_the_agent_runs(shop, tmp_path):
    ran: list[Trial] = []
    contract = parse_contract(
        b"contract: shop/bad\nversion: 1.0.0\nowner: me\nintent: delete nothing at all\n"
        b"forbid:\n  - {id: a, delete: custmer}\n",
        "bad.yaml",
    )
    with pytest.raises(ContractError, match="custmer"):
        live_trial(shop, contract, FunctionAgent(ran.append, "test"), tmp_path / "t")
    assert ran == []


def test_an_agent_is_told_only_the_inputs_its_prompt_names():
    content = load_contract(contract_folder("shop/refund-returned-order").contract).content
    task = Task.of(content)
    assert task.inputs == {"order": 1009}
    assert "order 1009 came back" in task.prompt
    assert '{"refunded_cents": …}' in task.prompt
    assert "3900" not in task.prompt


def test_a_run_says_by_which_versions_it_was_made(tmp_path):
    write_run(tmp_path / "run", "run-1", {"shop/a@1.0.0": "abc"}, {"trials": 4})
    document = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (document["run"], document["contracts"]) == ("run-1", {"shop/a@1.0.0": "abc"})
    with pytest.raises(StorageError):
        write_run(tmp_path / "run", "run-1", {}, {})


def test_an_agent_whose_clock_is_wrong_cannot_move_the_timeline(shop, tmp_path):
    def agent(trial: Trial) -> object:
        early = (clock() - timedelta(days=1)).isoformat()
        trial.trace_path.write_text(json.dumps({"tool": "x", "started_at": early}) + "\n")
        return 1

    timeline = observe(shop, agent, tmp_path).timeline
    assert timeline.first_action_at == timeline.agent_started_at > timeline.reset_verified_at


def test_a_trial_read_by_pages_is_the_trial_that_scans_show(shop, tmp_path):
    folder = contract_folder("shop/refund-returned-order")
    told = {}
    for rate in (0.0, 1.0):
        name = f"trial-{rate}"
        careful = CommandAgent(folder.agent("careful"))
        scans = Scans(rate, by_pages=True)
        trial = live_trial(shop, folder.contract, careful, tmp_path / name, scans=scans)
        assert trial.evaluated.judgement.verdict is Verdict.MATCH
        (part,) = (p for p in trial.observed.after.parts if p.reading.source == "shop-db")
        assert trial.observed.after.history.gap("shop-db") is None
        assert part.reading.is_complete
        checks = json.loads((tmp_path / name / "captures.json").read_text())["checks"]
        (how,) = (check["by"] for check in checks if check["source"] == "shop-db")
        told[rate] = how, sorted(d.id for d in trial.evaluated.judgement.deltas)
    assert [how for how, _ in told.values()] == [["pages"], ["pages", "scan"]]
    assert len({str(ids) for _, ids in told.values()}) == 1


def test_doubled_braces_in_a_prompt_are_braces():
    text = "contract: a/b\nversion: 1.0.0\nowner: me\nintent: Say what it says.\nnoop: true\n"
    prompt = 'inputs: {word: 5}\nprompt: "Write {{word}} and {{other}} for {word}, {else} and {}"\n'
    task = Task.of(parse_contract((text + prompt).encode(), "c.yaml").content)
    assert task.prompt == "Write {word} and {other} for 5, {else} and {}"
    assert task.inputs == {"word": 5}
