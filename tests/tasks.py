"""Runs agents of the packs' tasks live, each in the sandbox of its task."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from statediff.agents.command import CommandAgent
from statediff.agents.trial import Agent
from statediff.capture.source import clock
from statediff.contract.file import ContractFile, load_contract, parse_contract
from statediff.harness import Hooks, JudgedTrial, TrialPlan, run_trial
from statediff.model.state import MemoryChunks
from statediff.packs import ContractFolder, sandbox_names, sandbox_pack
from statediff.systems.base.registry import plugins
from statediff.systems.base.sandbox import EmbeddedSandbox

Sandboxes: TypeAlias = Callable[[str], EmbeddedSandbox]


def needs(pack: str) -> tuple[pytest.MarkDecorator, ...]:
    """The marks of a test in the sandbox: its servers may be an extra's."""
    programs = {
        kind.name: kind.requirement for p in plugins().values() for kind in p.kinds if kind.programs
    }
    asked = [programs[s.kind] for s in sandbox_pack(pack).sources if s.kind in programs]
    return tuple(pytest.mark.pack(requirement) for requirement in asked[:1])


def packs_of_the_core() -> tuple[str, ...]:
    """The sandboxes whose servers need no extra."""
    return tuple(name for name in sandbox_names() if not needs(name))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandboxes]:
    """Sandboxes by name, each started when a task first needs it."""
    started: dict[str, EmbeddedSandbox] = {}
    with ExitStack() as stack:

        def sandbox(name: str) -> EmbeddedSandbox:
            if name not in started:
                work = tmp_path_factory.mktemp(name) / "work"
                started[name] = stack.enter_context(EmbeddedSandbox(sandbox_pack(name), work))
            return started[name]

        yield sandbox


@pytest.fixture(scope="module")
def shop(running: Sandboxes) -> EmbeddedSandbox:
    return running("shop")


def live_trial(
    sandbox: EmbeddedSandbox,
    contract: ContractFile | Path | str,
    agent: Agent,
    folder: Path,
    **more: Any,
) -> JudgedTrial:
    """A trial in the folder, of a contract, of the one in a file, or of the one that is written."""
    if isinstance(contract, str):
        contract = parse_contract(contract.encode(), "contract.yaml")
    elif isinstance(contract, Path):
        contract = load_contract(contract)
    given = {"clock": clock, "store": MemoryChunks(), **more}
    return run_trial(sandbox, contract, agent, TrialPlan("t", folder), **given)


def try_agent(
    running: Sandboxes, folder: ContractFolder, agent: str, out: Path, unplug: str = ""
) -> JudgedTrial:
    """One trial of an agent of this task; `unplug` stops a source before the capture after."""
    contract = load_contract(folder.contract)
    hooks = Hooks()
    if unplug:
        hooks = Hooks(before_capture_after=lambda sandbox: sandbox.unplug(unplug))
    sandbox = running(contract.content.sandbox or "")
    return live_trial(sandbox, contract, CommandAgent(folder.agent(agent), 30.0), out, hooks=hooks)
