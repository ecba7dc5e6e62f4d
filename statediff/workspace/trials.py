"""What a trial is made with: its agent by name, its sandbox by the contract, its clock."""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from statediff.agents.command import CommandAgent
from statediff.agents.function import FunctionAgent
from statediff.agents.trial import Agent
from statediff.capture.take import take
from statediff.errors import UsageError
from statediff.evaluate import ContractFile, evaluate
from statediff.model.readings import Capture, Timeline
from statediff.model.state import MemoryChunks
from statediff.model.values import printable
from statediff.packs import EMBEDDED, sandbox_pack
from statediff.systems.base.embedded import EmbeddedSandbox
from statediff.workspace.inputs import EPOCH, offline_clock

AT_ONCE: Final = Timeline(EPOCH, EPOCH, EPOCH, EPOCH, EPOCH)
"""The timeline of a run in which nothing happened: every reading is fresh."""


def clock() -> datetime:
    """The trial's clock: this machine's, in UTC."""
    return datetime.now(UTC)


@contextmanager
def embedded(name: str, variant: str = EMBEDDED) -> Iterator[EmbeddedSandbox]:
    """The sandbox called `name`, running in a folder of its own that goes with it."""
    pack = sandbox_pack(name, variant)
    with (
        tempfile.TemporaryDirectory(prefix="statediff-", ignore_cleanup_errors=True) as work,
        EmbeddedSandbox(pack, Path(work)) as sandbox,
    ):
        yield sandbox


def base_state(sandbox: EmbeddedSandbox) -> Capture:
    """What the evaluator reads of a sandbox that was just reset."""
    return take(sandbox.sources(), MemoryChunks(), offline_clock, None, "before")


def require_sound(file: ContractFile, base: Capture) -> None:
    """The contract fits the state, and a run in which nothing happens does not match it unasked.

    `ContractError` with every problem found.
    """
    evaluate(file, base, base, timeline=AT_ONCE)


def agent_of(
    contract: Path,
    command: str | None,
    named: str | None,
    timeout_seconds: float | None,
    image: str | None = None,
) -> Agent:
    """The agent that the options name; `UsageError` if they name none, two, or an unknown one.

    `named` is `module:function`, or the name of a program in the contract's `agents` folder;
    `image` holds the program that `command`, or the image itself, names.
    """
    limit = 600.0 if timeout_seconds is None else timeout_seconds
    if image is not None:
        return _in_image(image, command, named, limit)
    if command is not None and named is None:
        return CommandAgent.parse(command, limit)
    if named is None or command is not None:
        raise UsageError("give the agent as either --agent-cmd or --agent")
    if ":" in named:
        if timeout_seconds is not None:
            raise UsageError("--timeout needs --agent-cmd: a function cannot be ended from outside")
        if "" not in sys.path:
            sys.path.insert(0, "")  # as `python -m` would: the module may lie where we stand
        return FunctionAgent.load(named)
    return packed_agent(contract.parent, named, limit)


def _in_image(image: str, command: str | None, named: str | None, limit: float) -> Agent:
    if named is not None:
        raise UsageError("--agent-image goes with --agent-cmd, or alone; --agent runs here")
    try:
        from statediff.agents.image import ImageAgent
    except ModuleNotFoundError as error:
        raise UsageError(
            f"--agent-image needs {error.name}; get it with `pip install statediff[docker]`"
        ) from error
    try:
        return ImageAgent(image, tuple(shlex.split(command or "")), limit)
    except ValueError as error:
        raise UsageError(f"the agent command {command!r} cannot be split: {error}") from error


def packed_agent(folder: Path, named: str, timeout_seconds: float = 600.0) -> CommandAgent:
    """A program from a contract's `agents` folder, run by this Python."""
    known = {path.stem: path for path in sorted((folder / "agents").glob("*.py"))}
    if named not in known:
        there = ", ".join(known) or "none"
        raise UsageError(
            f"{printable(named)}: expected module:function or an agent of the contract's folder; "
            f"there are: {there}"
        )
    program = known[named].absolute()
    return CommandAgent((sys.executable, "-B", str(program)), timeout_seconds, name=named)
