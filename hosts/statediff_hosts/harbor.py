r"""Harbor: a verifier whose rewards are a contract's verdict, and a plugin that looks before.

    harbor run -p TASK -a AGENT --verifier statediff_hosts.harbor:StatediffVerifier \
      --verifier-kwarg contract=./tests/contract.yaml \
      --verifier-kwarg 'states={"db": "/app/app.db"}' \
      --verifier-kwarg 'before={"db": "./tests/before.db"}'

MATCH has the reward 1.0 and DIVERGE 0.0; the shares of clauses are further keys. INCONCLUSIVE is an
exception: the trial has no reward. The bundle is in the trial's folder, `verifier/statediff`.

The state before is a file of the task's folder, out of the agent's reach. States that are URLs may
be read instead when the agent starts, by `--plugin statediff` with the same `contract` and
`states`: Harbor's hooks know the trial, and not the inside of its environment.
"""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from anyio import Path as AsyncPath
from harbor.environments.base import BaseEnvironment
from harbor.job import Job
from harbor.models.job.plugin import BaseJobPlugin
from harbor.models.job.result import JobResult
from harbor.models.verifier.result import VerifierResult
from harbor.trial.hooks import TrialHookEvent
from harbor.verifier.base import BaseVerifier

from statediff.errors import UsageError
from statediff.integrations.verdicts import rewards_of
from statediff_hosts.boxes import BoxedRun

_KEPT: Final[dict[Path, BoxedRun]] = {}
"""The runs whose state before the plugin has read, by the trial's folder."""


class EnvironmentBox:
    """The environment of a trial, seen by its root."""

    def __init__(self, environment: BaseEnvironment) -> None:
        self._environment = environment

    async def run(self, *command: str) -> tuple[int, str]:
        done = await self._environment.exec(shlex.join(command), user="root")
        return done.return_code, done.stdout or ""

    async def read(self, path: str) -> bytes:
        with tempfile.TemporaryDirectory(prefix="statediff-harbor-") as folder:
            copied = AsyncPath(folder) / "state"
            await self._environment.download_file(path, Path(copied))
            return await copied.read_bytes()


class StatediffVerifier(BaseVerifier):
    """The verdict of a contract.

    `contract` is a path in the task's folder, or a name that statediff knows; the values of
    `before` are paths there, `states` and `answer` paths in the environment.
    """

    def __init__(
        self,
        *,
        contract: str,
        states: Mapping[str, str],
        before: Mapping[str, str] | None = None,
        answer: str | None = None,
        **given: Any,
    ) -> None:
        super().__init__(**given)
        folder = Path(self.task.task_dir)
        named = folder / contract
        self._contract = str(named) if named.exists() else contract
        self._states = states
        self._before = {name: folder / path for name, path in (before or {}).items()}
        self._answer = answer

    async def verify(self) -> VerifierResult:
        """Rewards; `NoReward` where the verdict is INCONCLUSIVE."""
        run = _KEPT.pop(self.trial_paths.trial_dir.absolute(), None)
        if run is None and not self._before:
            raise UsageError(
                "the state before is not known: give before={source: file of the task}, or have "
                "the plugin statediff read states that are URLs"
            )
        if run is None:
            run = BoxedRun(self._contract, self._states)
            await run.keep(self._before)
        box = EnvironmentBox(self.environment)
        await run.after(box)
        reply = None
        if self._answer is not None and await self.environment.is_file(self._answer):
            reply = (await box.read(self._answer)).decode("utf-8", "replace")
        judged = await run.judge(reply)
        judged.save(self.trial_paths.verifier_dir / "statediff")
        return VerifierResult(rewards=rewards_of(await run.score(reply)))


class StatediffPlugin(BaseJobPlugin):
    """Reads the state before when the agent of a trial starts; every state is a URL."""

    def __init__(self, *, contract: str, states: Mapping[str, str], **_: Any) -> None:
        inside = sorted(name for name, place in states.items() if "://" not in place)
        if inside:
            raise UsageError(
                f"{', '.join(inside)}: Harbor's hooks cannot read inside an environment; ship the "
                "state before in the task's folder, and give it to the verifier as before="
            )
        self._contract, self._states = contract, states

    async def on_job_start(self, job: Job) -> None:
        job.on_agent_started(self._look)
        job.on_trial_ended(self._forget)

    async def on_job_end(self, job_result: JobResult) -> None:
        _KEPT.clear()

    async def _look(self, event: TrialHookEvent) -> None:
        run = BoxedRun(self._contract, self._states)
        await run.before(None)  # nothing is read in the environment
        _KEPT[_folder_of(event)] = run

    async def _forget(self, event: TrialHookEvent) -> None:
        _KEPT.pop(_folder_of(event), None)


def _folder_of(event: TrialHookEvent) -> Path:
    return (Path(event.config.trials_dir) / event.config.trial_name).absolute()
