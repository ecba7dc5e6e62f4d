"""Tasks for Harbor: what is written, and the trial inside an environment, by its own programs.

`hosts/tests/environments` gives them to Harbor itself.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from threading import Thread
from time import sleep

import pytest
from statediff_hosts import harbor_trial

from statediff.cli.main import run
from statediff.contract.file import load_contract
from statediff.harness import Task
from statediff.packs import agent_command, agents_in, contract_folders, sandbox_of
from tests.own_sandboxes import make_project


def exported(named: Path | str, out: Path) -> int:
    return run(["export", str(named), "--as", "harbor", "--out", str(out)])


def export(named: Path | str, out: Path) -> list[Path]:
    assert exported(named, out) == 0
    return sorted(out.iterdir())


def test_every_task_of_a_pack_is_a_folder_with_a_solution(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = export("shop", tmp_path / "tasks")
    names = [each.name.replace("/", "-") for each in contract_folders()]
    assert {folder.name for folder in folders} == {n for n in names if n.startswith("shop-")}
    for folder in folders:
        told = tomllib.loads((folder / "task.toml").read_text())
        file = load_contract(folder / "environment" / "task" / "contract.yaml")
        assert told["metadata"]["digest"] == file.digest
        assert shlex.split(told["environment"]["healthcheck"]["command"])[:3] == [
            *("python", "-m", harbor_trial.__name__)
        ]
        assert (folder / "instruction.md").read_text().startswith(Task.of(file.content).prompt)
        for script in ("solution/solve.sh", "tests/test.sh"):
            subprocess.run(["sh", "-n", folder / script], check=True)
        runner, agents, agent = (folder / "solution" / "solve.sh").read_text().split()[-3:]
        assert (folder / runner.lstrip("/")).is_file()
        assert agent in agents_in((folder / agents.lstrip("/")).parent)
    assert exported("shop", tmp_path / "tasks") == 2
    assert "exists already" in capsys.readouterr().err


def environment(task: Path, here: Path) -> Path:
    """A folder that is `/opt/statediff` of an environment."""
    here.mkdir()
    (task / "environment" / "task").rename(here / "task")
    return here


def test_a_projects_own_sandbox_is_a_trial_in_an_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(harbor_trial.PORT_VARIABLE, "0")
    contract = make_project(tmp_path / "own", "dump")
    past = "actions:\n  allow: {classes: [read, reversible-update]}\n"
    text = contract.read_text()
    found = []
    for agent, written in (("right", text), ("wrong", text), ("right", text + past)):
        contract.write_text(written)
        number = str(len(found))
        [task] = export(contract, tmp_path / "tasks" / number)
        [copied] = (task / "environment").rglob("contract.yaml")
        assert Path(str(sandbox_of(load_contract(copied)))).is_relative_to(task)
        here = environment(task, tmp_path / number)
        held = Thread(target=harbor_trial.hold, args=(here, None))
        held.start()
        while not (here / "env").exists():
            assert held.is_alive()
            sleep(0.02)
        acts = f". {here}/env; exec {shlex.join(agent_command(contract.parent, agent))}"
        subprocess.run(["sh", "-ec", acts], check=True, env={"PATH": os.environ["PATH"]})
        reward, bundle = here / "reward.json", here / "bundle"
        code = harbor_trial.finish(here, reward, bundle)
        held.join()
        assert (bundle / "manifest.json").exists()
        rewards = json.loads(reward.read_text()) if reward.exists() else {}
        found.append((code, rewards.get("reward")))
        assert harbor_trial.finish(here, reward, bundle) == 4  # nobody holds it any more
    assert found == [(0, 1.0), (0, 0.0), (3, None)]
    assert "INCONCLUSIVE: " in capsys.readouterr().out


@pytest.mark.slow
def test_a_trial_begins_once_and_one_that_cannot_says_why(tmp_path: Path) -> None:
    [task] = export(make_project(tmp_path / "own", "dump"), tmp_path / "tasks")
    here = environment(task, tmp_path / "here")
    [contract] = (here / "task").rglob("contract.yaml")
    contract.write_text("contract: none")
    command = [sys.executable, "-m", harbor_trial.__name__, "begin", str(here)]
    for _ in range(2):  # a healthcheck may be asked again
        begun = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
        assert begun.returncode == 4
        assert "contract.yaml" in begun.stderr
    assert harbor_trial.finish(here, here / "reward.json", here / "bundle") == 4
    assert not (here / "reward.json").exists()


def test_what_no_image_has_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    contract = make_project(tmp_path / "outside", "external")
    plain = tmp_path / "plain.yaml"
    plain.write_text(
        "contract: t/own\nversion: 1.0.0\nowner: t\nintent: Change nothing here.\nnoop: true\n"
    )
    for named, why in ((contract, "outside of it"), (plain, "names no sandbox")):
        assert exported(named, tmp_path / "tasks") == 2
        assert why in " ".join(capsys.readouterr().err.split())
    assert not list((tmp_path / "tasks").glob("*"))
