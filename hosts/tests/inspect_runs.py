"""Inspect AI: a task of contracts runs offline by a scripted model, and no verdict is lost.

Run by `test_inspect.py`, in a process of their own.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from inspect_ai import Task, eval  # noqa: A004 - Inspect's name for it
from inspect_ai.dataset import Sample
from inspect_ai.log import read_eval_log
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.solver import Generate, TaskState, generate, solver, use_tools
from inspect_ai.tool import bash
from inspect_ai.util import sandbox
from statediff_hosts.inspect_boxes import frame, state_scorer, watched
from statediff_hosts.inspect_provider import (
    StatediffSandbox,
    contract_samples,
    contracts,
    statediff_scorer,
    statediff_tools,
)

import statediff
from statediff.api import Judged
from statediff.errors import ContractError, SandboxError, UsageError
from statediff.suite import campaign
from statediff.systems.base.sandbox import EmbeddedSandbox
from tests.own_sandboxes import KINDS, make_project
from tests.tickets import CLOSE

TOLD = """contract: t/told
version: 1.0.0
owner: t
intent: Tell ada@example.org once.
sandbox: shop
answer:
  schema: {told: int}
  claims:
    - answer.told == 1
require:
  - id: told
    create: message
    where: it.to == "ada@example.org"
"""
MAIL = {"sender": "care@shop.example", "to": ["ada@example.org"], "subject": "Hi", "body": "Here."}


def said(output: ModelOutput) -> ModelOutput:
    output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return output


def call(tool: str, arguments: dict[str, Any]) -> ModelOutput:
    return said(ModelOutput.for_tool_call("mockllm", tool, arguments))


def answer(text: str = '{"told": 1}') -> ModelOutput:
    return said(ModelOutput.from_content("mockllm", text))


@solver
def unplugging():
    async def solve(state: TaskState, generate: Generate) -> TaskState:  # noqa: ARG001
        if state.epoch == 3:  # the mail server ends before anybody looks at what it got
            sandbox().as_type(StatediffSandbox).running.unplug("outbox")
        return state

    return solve


@pytest.fixture(scope="module")
def contract(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("inspect") / "explained.yaml"
    path.write_text(TOLD)
    return path


@pytest.mark.filterwarnings("ignore")  # what Inspect leaves open by itself is not ours to mend
def test_all_three_verdicts_survive_into_the_log_of_a_task_run_offline(contract, tmp_path):
    script = [
        call("outbox_send", MAIL), answer(),  # MATCH
        call("outbox_send", {"to": 7}), answer("I told her."),  # refused by Inspect; DIVERGE
        call("outbox_send", MAIL), answer(),  # and then its server ends: INCONCLUSIVE
    ]  # fmt: skip
    task = Task(
        dataset=contract_samples(contract),
        solver=[statediff_tools(), generate(), unplugging()],
        scorer=statediff_scorer(str(tmp_path / "kept")),
        sandbox="statediff",
        epochs=3,
    )
    [log] = eval(
        task, model=get_model("mockllm/model", custom_outputs=script), display="none",
        log_dir=str(tmp_path / "logs"), max_samples=1, max_sandboxes=1,
    )  # fmt: skip
    gc.collect()  # here, where its warnings are not of another test
    assert log.status == "success", log.error
    kept = read_eval_log(log.location)
    scores = [sample.scores["statediff_scorer"] for sample in kept.samples]
    verdicts = [score.answer for score in scores]
    assert verdicts == ["MATCH", "DIVERGE", "INCONCLUSIVE"], scores[0].explanation
    for score, verdict in zip(scores, ("match", "diverge", "inconclusive"), strict=True):
        assert score.value == {
            name: float(name == verdict) for name in ("match", "diverge", "inconclusive")
        }
        assert score.explanation.startswith(verdict.upper())
        bundle = statediff.load(score.metadata["bundle"])
        assert statediff.replay(bundle).value == verdict.upper() == score.metadata["verdict"]
        assert bundle.bundle.document("trial.json")["agent"] == "mockllm/model"
    means = {each.name: each.metrics["mean"].value for each in kept.results.scores}
    assert means == pytest.approx({"match": 1 / 3, "diverge": 1 / 3, "inconclusive": 1 / 3})
    # Every call was recorded; what Inspect itself refused leaves the record incomplete.
    whole, refused, _ = (
        statediff.load(s.metadata["bundle"]).bundle.document("trace.json") for s in scores
    )
    assert [action["tool"] for action in whole["actions"]] == ["outbox_send"]
    assert (whole["is_complete"], refused["is_complete"]) == (True, False)
    assert "1 calls never came" in refused["cause"]


def test_programs_in_the_sandbox_see_an_agents_environment_and_its_folder_only(
    contract, tmp_path, monkeypatch
):
    monkeypatch.setenv("SECRET_KEY", "not for agents")

    async def lives() -> None:
        started = await StatediffSandbox.sample_init("t", str(contract), {})
        box = started["default"].as_type(StatediffSandbox)
        try:
            await box.write_file("notes/a.txt", "täglich")
            assert await box.read_file("notes/a.txt") == "täglich"
            assert await box.read_file("notes/a.txt", text=False) == "täglich".encode()
            seen = await box.exec(["env"], env={"MORE": "1"}, cwd="notes")
            assert "STATEDIFF_SHOP_DB_URL=" in seen.stdout
            assert "MORE=1" in seen.stdout
            assert "SECRET_KEY" not in seen.stdout
            read = await box.exec(["cat", "-", "notes/a.txt"], input="from input ")
            assert (read.success, read.stdout) == (True, "from input täglich")
            assert (await box.exec([sys.executable, "-c", "exit(3)"])).returncode == 3
            assert (await box.exec(["no-such-program"])).returncode == 127
            with pytest.raises(TimeoutError, match="did not end within 1 s"):
                await box.exec(["sleep", "30"], timeout=1)
            for outside in ("../x", "/etc/passwd", str(tmp_path / "x")):
                with pytest.raises(PermissionError, match="outside the agent's folder"):
                    await box.write_file(outside, "x")
                with pytest.raises(PermissionError, match="outside the agent's folder"):
                    await box.read_file(outside)
            judged = Judged(box.held.finish())
            assert judged.verdict.value == "DIVERGE"
        finally:
            await StatediffSandbox.sample_cleanup("t", None, started, False)

    asyncio.run(lives())


def test_a_sample_without_a_contract_is_told_what_it_lacks():
    with pytest.raises(UsageError, match=r'Sample\(metadata=\{"contract": NAME\}\)'):
        asyncio.run(StatediffSandbox.sample_init("t", None, {}))


def test_an_interrupted_sample_leaves_no_thread_and_no_sandbox(contract):
    async def lives() -> tuple[StatediffSandbox, Path]:
        started = await StatediffSandbox.sample_init("t", None, {"contract": str(contract)})
        box = started["default"].as_type(StatediffSandbox)
        folder = box.held.trial.folder
        assert folder.is_dir()
        await StatediffSandbox.sample_cleanup("t", None, started, True)
        return box, folder

    box, folder = asyncio.run(lives())
    assert not folder.exists()
    with pytest.raises(UsageError, match="is over and was not judged"):
        box.held.finish()


def test_a_sandbox_that_cannot_be_proven_begins_no_sample_and_leaves_nothing(
    contract, tmp_path, monkeypatch
):
    class Leaky(EmbeddedSandbox):
        def reset(self) -> None:
            super().reset()
            (self.agent_folder / "left").touch()

    monkeypatch.setattr(campaign, "EmbeddedSandbox", Leaky)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(SandboxError, match="agent/left"):
        asyncio.run(StatediffSandbox.sample_init("t", str(contract), {}))
    assert list(tmp_path.iterdir()) == []


def test_the_task_of_contracts_has_a_sample_for_each():
    task = contracts("shop/notify-once,shop/refund-returned-order")
    assert [sample.id for sample in task.dataset] == [
        "shop/notify-once@2.1.0", "shop/refund-returned-order@2.0.0",
    ]  # fmt: skip
    assert "We recall the article HS-314" in task.dataset[0].input


def test_a_contract_has_a_sample_for_each_of_its_cases(tmp_path):
    path = tmp_path / "told.contract.yaml"
    path.write_text(
        TOLD.replace(
            "sandbox: shop",
            "prompt: Tell her {n} times.\nsandbox: shop\ninputs: {n: 1}\ncases: n.csv",
        )
    )
    (tmp_path / "n.csv").write_text("case,n\none,1\ntwo,2\n")
    samples = contract_samples(path)
    assert [each.id for each in samples] == ["t/told/one@1.0.0", "t/told/two@1.0.0"]

    async def opened() -> list[Any]:
        found = []
        for each in samples:
            [made] = (await StatediffSandbox.sample_init("t", None, each.metadata)).values()
            found.append(made.held.trial.inputs["n"])
            made.close()
        return found

    assert asyncio.run(opened()) == [1, 2]


@pytest.mark.filterwarnings("ignore")  # as above
def test_a_model_works_in_a_projects_own_sandbox_of_each_kind(tmp_path):
    script = []
    for kind, own in sorted(KINDS.items()):
        make_project(tmp_path / kind, kind)
        script += [call(*own.call), answer("{}")]
    task = Task(
        dataset=contract_samples([tmp_path / kind for kind in sorted(KINDS)]),
        solver=[statediff_tools(), generate()],
        scorer=statediff_scorer(),
        sandbox="statediff",
    )
    [log] = eval(
        task, model=get_model("mockllm/model", custom_outputs=script), display="none",
        log_dir=str(tmp_path / "logs"), max_samples=1, max_sandboxes=1,
    )  # fmt: skip
    gc.collect()
    assert log.status == "success", log.error
    answers = {s.id: s.scores["statediff_scorer"].answer for s in log.samples}
    assert answers == {f"own/{kind}@1.0.0": "MATCH" for kind in KINDS}


ACTS = {
    "match": "sed -i '0,/open/s//closed/' app.json",
    "diverge": "sed -i 's/open/closed/g' app.json",
    "inconclusive": "sed -i '0,/open/s//closed/; s/seen/known/' app.json",
}
TICKETS = """{"ticket": [{"id": 7, "status": "open", "note": "", "urgency": 1},
{"id": 8, "status": "open", "note": "seen", "urgency": null}]}"""
UNKNOWN_BEFORE = (
    f"{CLOSE}allow: [{{update: ticket, fields: [note]}}]\n"
    "forbid: [{id: urgent, update: ticket, where: it.urgency > 3}]\n"
)
"""How urgent ticket 8 is was not known before the run, so that a change of it decides nothing."""


def in_any_sandbox(contract: Any, tmp_path: Path, **options: Any) -> Any:
    """A log: a sample for each of `ACTS`, done by a model's tool in a sandbox of Inspect's own."""
    script = []
    for act in ACTS.values():
        script += [call("bash", {"command": act}), answer("done")]
    task = Task(
        dataset=[Sample(input="Close ticket 7.", files={"app.json": TICKETS}) for _ in ACTS],
        solver=[watched(contract, {"tables": "app.json"}), use_tools(bash()), generate()],
        scorer=state_scorer(**options),
        sandbox="local",
    )
    [log] = eval(
        task, model=get_model("mockllm/model", custom_outputs=script), display="none",
        log_dir=str(tmp_path / "logs"), max_samples=1, max_sandboxes=1,
    )  # fmt: skip
    gc.collect()
    assert log.status == "success", log.error
    return log


@pytest.mark.filterwarnings("ignore")  # as above
@pytest.mark.parametrize("unscored", [False, True])
def test_any_sandbox_is_judged_by_a_contract(tmp_path, unscored):
    log = in_any_sandbox(UNKNOWN_BEFORE, tmp_path, unscored=unscored)
    scores = [sample.scores["state_scorer"] for sample in log.samples]
    assert [score.answer for score in scores] == ["MATCH", "DIVERGE", "INCONCLUSIVE"]
    assert scores[1].value == {"match": 0.0, "diverge": 1.0, "inconclusive": 0.0}
    means = {each.name: each.metrics["mean"].value for each in log.results.scores}
    if unscored:
        assert means == pytest.approx({"match": 1 / 2, "diverge": 1 / 2, "inconclusive": 0.0})
        assert scores[2].value != scores[2].value
    else:
        assert means == pytest.approx({"match": 1 / 3, "diverge": 1 / 3, "inconclusive": 1 / 3})


@pytest.mark.filterwarnings("ignore")  # as above
def test_any_sandbox_is_judged_by_what_may_change_there_without_a_contract(tmp_path):
    allowed = [{"update": "ticket", "where": "it.id == 7", "fields": ["status"]}]
    log = in_any_sandbox(frame(allowed), tmp_path)
    scores = [sample.scores["state_scorer"] for sample in log.samples]
    assert [score.answer for score in scores] == ["MATCH", "DIVERGE", "DIVERGE"]
    log = in_any_sandbox(frame(["ticket.status"]), tmp_path)
    answers = [sample.scores["state_scorer"].answer for sample in log.samples]
    assert answers == ["MATCH", "MATCH", "DIVERGE"]


def test_a_frame_says_which_pattern_it_cannot_read():
    with pytest.raises(ContractError, match="updates"):
        frame([{"updates": "ticket"}])


@pytest.mark.filterwarnings("ignore")  # as above
def test_without_the_solver_that_looks_first_no_sample_is_scored(tmp_path):
    task = Task(
        dataset=[Sample(input="?")], solver=[generate()], scorer=state_scorer(), sandbox="local"
    )
    model = get_model("mockllm/model", custom_outputs=[answer("done")])
    [log] = eval(task, model=model, display="none", log_dir=str(tmp_path / "logs"))
    gc.collect()
    assert log.status == "error"
    assert "put the solver watched" in log.error.message
