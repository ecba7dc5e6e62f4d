"""Inspect AI: a sandbox `statediff`, its tools, a scorer, and a task made of contracts.

    inspect eval statediff/contracts -T contracts=shop/refund-returned-order --model …

    Task(dataset=contract_samples("contracts/"), solver=[statediff_tools(), generate()],
         scorer=statediff_scorer(), sandbox="statediff")

A sample is one trial. The score is a dict, 1.0 under one of `match`, `diverge` and `inconclusive`,
so that each verdict has a mean over all samples: Inspect drops what is "unscored" before it counts,
and INCONCLUSIVE would be gone. A trial that could not be made has no score; its sample has an
error.

The model acts through the sandbox's tools, which record every call. Programs that Inspect runs in
the sandbox run as the evaluator's user, and past the record; the trace says so.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal, overload

from anyio import to_thread
from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageAssistant
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer
from inspect_ai.solver import Generate, Solver, TaskState, generate, solver
from inspect_ai.tool import ToolDef, ToolError, ToolParams
from inspect_ai.util import ExecResult, SandboxEnvironment, sandbox, sandboxenv
from inspect_ai.util import SandboxEnvironmentConfigType as ConfigType
from typing_extensions import override

from statediff import api
from statediff.agents.command import CommandAgent
from statediff.agents.commandline import resolved
from statediff.agents.tools import ToolTable
from statediff.capture.source import clock
from statediff.errors import AdapterError, UsageError
from statediff.workspace.contracts import tasks_of
from statediff_hosts.held import OpenTrial
from statediff_hosts.protocols.loop import SYSTEM

VERDICTS: Final = ("match", "diverge", "inconclusive")
SECONDS: Final = 600
MAX_READ: Final = 100 * 1024 * 1024
_NOT_FOUND, _NOT_STARTED = 127, 126


@sandboxenv(name="statediff")
class StatediffSandbox(SandboxEnvironment):
    """The sandbox of one sample's contract: its configuration, or `contract` in the metadata."""

    def __init__(self, opened: OpenTrial) -> None:
        super().__init__()
        self.opened = opened
        self.running = opened.running
        self.held = opened.held

    def close(self) -> None:
        """Nothing that the sample started is running."""
        self.opened.close()

    @override
    @classmethod
    async def sample_init(
        cls, task_name: str, config: ConfigType | None, metadata: dict[str, str]
    ) -> dict[str, SandboxEnvironment]:
        named = metadata.get("contract") if config is None else config
        if not isinstance(named, str):
            raise UsageError(
                f"{task_name}: the sandbox statediff wants a contract: "
                'Sample(metadata={"contract": NAME}) or sandbox=("statediff", NAME)'
            )

        case = None if config is not None else metadata.get("case")

        opened = await to_thread.run_sync(OpenTrial, named, case, task_name)
        return {"default": cls(opened)}

    @override
    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,
        config: ConfigType | None,
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        for environment in environments.values():
            await to_thread.run_sync(environment.as_type(StatediffSandbox).close)

    @override
    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        """A program in the agent's folder, with an agent's environment and nothing of ours."""
        if user is not None:
            from inspect_ai.util import SandboxUserUnsupportedError  # noqa: PLC0415 - newer ones

            raise SandboxUserUnsupportedError(
                f"the sandbox statediff runs programs as the evaluator's user only, not as {user!r}"
            )
        self.held.miss("programs were run in the sandbox, past its tools")
        return await to_thread.run_sync(self._run, cmd, input, cwd, env, timeout)

    def _run(
        self,
        cmd: list[str],
        given: str | bytes | None,
        cwd: str | None,
        env: dict[str, str] | None,
        seconds: int | None,
    ) -> ExecResult[str]:
        limit = SECONDS if seconds is None else seconds
        with tempfile.NamedTemporaryFile(prefix="statediff-input-") as stdin:
            stdin.write(given.encode() if isinstance(given, str) else given or b"")
            stdin.flush()
            trial = self.held.trial
            own = {"HOME": str(trial.folder), "TMPDIR": str(trial.folder), **(env or {})}
            there = replace(trial, folder=self._path(cwd or "."))
            words = resolved(cmd, there.folder)
            try:
                ran = CommandAgent(
                    words, limit, environment=tuple(own.items()), stdin=Path(stdin.name)
                ).run(there, clock)
            except UsageError as error:
                return ExecResult(False, _NOT_FOUND, "", str(error))
            except AdapterError as error:
                return ExecResult(False, _NOT_STARTED, "", str(error))
        if ran.exit_code is not None and ran.exit_code < 0:
            took = (ran.finished_at - ran.started_at).total_seconds()
            if took >= limit:
                raise TimeoutError(f"{cmd[0]} did not end within {limit} s")
        code = ran.exit_code or 0  # a program always has one
        return ExecResult(code == 0, code, ran.stdout.text, ran.stderr.text)

    @override
    async def write_file(self, file: str, contents: str | bytes) -> None:
        place = self._path(file)
        content = contents.encode() if isinstance(contents, str) else contents

        def write() -> None:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)

        await to_thread.run_sync(write)

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    @override
    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        place = self._path(file)

        def read() -> bytes:
            with place.open("rb") as stream:
                content = stream.read(MAX_READ + 1)
            if len(content) > MAX_READ:
                raise PermissionError(f"{file}: more than {MAX_READ} bytes are not read")
            return content

        content = await to_thread.run_sync(read)
        return content.decode("utf-8") if text else content

    def _path(self, file: str) -> Path:
        """The place of a file in the agent's folder; `PermissionError` for one outside of it."""
        folder = self.held.trial.folder.resolve()
        place = (folder / file).resolve()
        if not place.is_relative_to(folder):
            raise PermissionError(f"{file}: lies outside the agent's folder")
        return place


@solver
def statediff_tools() -> Solver:
    """The tools of the sandbox's systems, by which the model acts; every call is recorded."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:  # noqa: ARG001 - Inspect's signature
        held = sandbox().as_type(StatediffSandbox).held
        table = await to_thread.run_sync(lambda: held.tools)
        state.tools.extend(_tool(table, name) for name in table.tools)
        return state

    return solve


def _tool(table: ToolTable, name: str) -> Any:
    tool = table.tools[name]
    schema = tool.schema()
    parameters = ToolParams.model_validate(_inline(schema, schema.get("$defs", {})))
    for parameter, said in parameters.properties.items():
        said.description = said.description or parameter

    async def execute(**arguments: Any) -> str:
        reply = await to_thread.run_sync(lambda: table.call(name, arguments))
        if reply.is_error:
            raise ToolError(reply.text)
        return reply.text

    return ToolDef(
        execute, name=name, description=tool.description, parameters=parameters
    ).as_tool()


def _inline(schema: Any, definitions: Mapping[str, Any]) -> Any:
    """The schema with what it refers to in place: Inspect's form of one knows no references."""
    if isinstance(schema, list):
        return [_inline(each, definitions) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    if isinstance(named := schema.get("$ref"), str):
        return _inline(definitions[named.removeprefix("#/$defs/")], definitions)
    return {name: _inline(each, definitions) for name, each in schema.items() if name != "$defs"}


@scorer(metrics={verdict: [mean()] for verdict in VERDICTS})
def statediff_scorer(out: str | None = None) -> Scorer:
    """The verdict of the sample's contract; with `out`, bundles are kept in that folder."""

    async def score(state: TaskState, target: Target) -> Score:  # noqa: ARG001 - Inspect's signature
        opened = sandbox().as_type(StatediffSandbox).opened
        asked = sum(
            len(message.tool_calls or ())
            for message in state.messages
            if isinstance(message, ChatMessageAssistant)
        )
        said, agent = state.output.completion, str(state.model)
        judged, _ = await to_thread.run_sync(opened.finish, said, asked, agent)
        return await to_thread.run_sync(verdict_score, judged, out)

    return score


def verdict_score(judged: api.Judged, out: str | None) -> Score:
    """A score with 1.0 under the verdict; with `out`, the bundle is kept in that folder."""
    verdict = judged.verdict.value
    kept = {}
    if out is not None:
        name = f"{judged.contract.replace('/', '-')}-{judged.bundle.digest[:12]}"
        kept["bundle"] = str(judged.save(Path(out) / name))
    return Score(
        value={name: float(name == verdict.lower()) for name in VERDICTS},
        answer=verdict,
        explanation=judged.text(),
        metadata={
            "verdict": verdict,
            "line": judged.line,
            "digest": judged.bundle.digest,
            "results": dict(judged.results),
            "findings": [
                {name: found[name] for name in ("clause", "code", "stage", "truth", "sentence")}
                for found in judged.findings
            ],
            **kept,
        },
    )


def contract_samples(contracts: str | Path | Sequence[str | Path]) -> list[Sample]:
    """A sample for each case of each contract that the names, files and folders mean."""
    return [
        Sample(
            input=each.prompt,
            id=each.name,
            metadata={"contract": each.contract, **({"case": each.case} if each.case else {})},
        )
        for each in tasks_of(contracts)
    ]


@task
def contracts(contracts: str = "shop/refund-returned-order", out: str | None = None) -> Task:
    """The tasks of contracts, by name, file or folder, comma between two."""
    from inspect_ai.solver import system_message  # noqa: PLC0415 - for this task alone

    return Task(
        dataset=contract_samples(contracts.split(",")),
        solver=[system_message(SYSTEM), statediff_tools(), generate()],
        scorer=statediff_scorer(out),
        sandbox="statediff",
    )
