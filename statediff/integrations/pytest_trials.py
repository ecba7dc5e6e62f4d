"""The trials of one pytest process: its sandboxes, and the two ways in which a test makes one."""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import pytest

from statediff import api
from statediff.agents.function import as_answer
from statediff.api import AnAgent, Judged
from statediff.errors import UsageError
from statediff.evaluate import ContractFile
from statediff.harness import NO_HOOKS, Hooks
from statediff.integrations.held import HeldTrial
from statediff.integrations.verdicts import require
from statediff.model.trace import NoAnswer
from statediff.model.values import ABSENT
from statediff.systems.base.embedded import EmbeddedSandbox

_NOTHING: Final = object()


class Trials:
    """What runs until `close`: each sandbox from the first test that needs it."""

    def __init__(self, out: Path | None) -> None:
        self._out = out
        self._running: dict[tuple[str, str], EmbeddedSandbox] = {}
        self._stack = ExitStack()
        work = tempfile.TemporaryDirectory(prefix="statediff-", ignore_cleanup_errors=True)
        self._folder = Path(self._stack.enter_context(work))
        self._number = 0

    def sandbox(self, name: str, variant: str) -> EmbeddedSandbox:
        """The sandbox, started when it is first asked for."""
        if (name, variant) not in self._running:
            opened = self._stack.enter_context(api.open_sandbox(name, variant))
            self._running[name, variant] = opened
        return self._running[name, variant]

    def new_folder(self) -> Path:
        """The name of a folder that is not there yet."""
        self._number += 1
        return self._folder / f"trial-{self._number}"

    def runner(self, item: pytest.Item) -> Runner:
        """What runs agents for a test."""
        return Runner(self, item)

    @contextmanager
    def body(self, item: pytest.Item) -> Iterator[Body]:
        """A trial whose agent is the test."""
        contract, variant = marked(item)
        file = api.load_contract(contract)
        sandbox = self.sandbox(named_sandbox(file), variant)
        with HeldTrial(sandbox, file, self.new_folder(), agent=item.name) as held:
            yield Body(held, self, item)

    def keep(self, item: pytest.Item, judged: Judged) -> None:
        """The verdict is a property of the test; the bundle is kept if that was asked for."""
        item.user_properties.append(("statediff_verdict", judged.verdict.value))
        if self._out is not None:
            name = re.sub(r"[^A-Za-z0-9_.-]+", "-", item.nodeid)[-80:].strip("-.")
            # Names of tests may differ in what was left out, and a bundle is known by its digest.
            told = hashlib.sha256(item.nodeid.encode()).hexdigest()[:8]
            place = self._out / f"{name}-{told}-{judged.bundle.digest[:12]}"
            judged.save(place)
            item.user_properties.append(("statediff_bundle", str(place)))

    def close(self) -> None:
        """Nothing that was started here is running, and nothing is left of its files."""
        self._stack.close()


_KEY: Final = pytest.StashKey[Trials]()


def trials_of(config: pytest.Config) -> Trials:
    """The trials of this process; they end when pytest does, however it does."""
    if _KEY not in config.stash:
        chosen = config.getoption("--statediff-out")
        out = None if chosen is None else Path(config.invocation_params.dir, chosen)
        config.stash[_KEY] = Trials(out)
        config.add_cleanup(config.stash[_KEY].close)
    return config.stash[_KEY]


@dataclass(frozen=True)
class Runner:
    """The fixture `statediff_run`."""

    trials: Trials
    item: pytest.Item

    def __call__(
        self,
        agent: AnAgent,
        contract: str | Path | ContractFile | None = None,
        *,
        expect: str = "MATCH",
        timeout_seconds: float | None = None,
        hooks: Hooks = NO_HOOKS,
    ) -> Judged:
        """One trial of the agent, judged; it has the verdict that is expected.

        The contract is the one of the test's marker unless another is given.
        """
        __tracebackhide__ = True
        if expect not in ("MATCH", "DIVERGE", "INCONCLUSIVE"):
            raise UsageError(f"expect={expect!r}: expected MATCH, DIVERGE or INCONCLUSIVE")
        variant = "embedded"
        if contract is None:
            contract, variant = marked(self.item)
        file = contract if isinstance(contract, ContractFile) else api.load_contract(contract)
        sandbox = self.trials.sandbox(named_sandbox(file), variant)
        [judged] = api.run(
            contract, agent, sandbox=sandbox, timeout_seconds=timeout_seconds,
            out=self.trials.new_folder(), hooks=hooks,
        )  # fmt: skip
        self.trials.keep(self.item, judged)
        require(judged, expect)
        return judged


@dataclass
class Body:
    """The fixture `statediff_sandbox`: what an agent gets, for the body of a test."""

    held: HeldTrial
    trials: Trials
    item: pytest.Item
    answer: Any = _NOTHING
    """What the agent says at the end, as JSON would hold it; may be set."""

    @property
    def prompt(self) -> str:
        """The task, as an agent is told it."""
        return self.held.trial.prompt

    @property
    def inputs(self) -> Mapping[str, Any]:
        """The inputs that the task names."""
        return self.held.trial.inputs

    @property
    def urls(self) -> Mapping[str, str]:
        """Source → where it is reached."""
        return self.held.trial.urls

    @property
    def folder(self) -> Path:
        """The agent's own folder."""
        return self.held.trial.folder

    def path(self, source: str) -> Path:
        """The file or folder of a source on this machine."""
        if source not in self.urls:
            raise UsageError(f"no source {source!r}; there are: {', '.join(sorted(self.urls))}")
        parts = urlsplit(self.urls[source])
        if parts.scheme not in ("file", "sqlite"):
            raise UsageError(f"{source}: is reached by {parts.scheme}://, it has no path; see urls")
        place = unquote(parts.path)
        return Path(place[1:] if parts.scheme == "sqlite" else place)

    def call(self, tool: str, **arguments: Any) -> str:
        """What a tool of the sandbox gave; the call is recorded, as an agent's would be."""
        reply = self.held.tools.call(tool, arguments)
        if reply.is_error:
            raise UsageError(f"{tool}: {reply.text}")
        return reply.text

    def end(self) -> None:
        """The trial is judged, and matches."""
        __tracebackhide__ = True
        said = ABSENT if self.answer is _NOTHING else as_answer(self.answer)
        if isinstance(said, NoAnswer):
            raise UsageError(f"{self.item.nodeid}: the answer that it sets: {said.cause}")
        judged = self.held.judged(said)
        self.trials.keep(self.item, judged)
        require(judged)


def marked(item: pytest.Item) -> tuple[str, str]:
    """The contract of the test's marker, and the variant of its sandbox.

    A path is relative to the test's folder, if it is there; else to the current one.
    """
    marker = item.get_closest_marker("statediff")
    given = () if marker is None else marker.args
    options = {} if marker is None else marker.kwargs
    if len(given) != 1 or not isinstance(given[0], (str, Path)) or options.keys() - {"variant"}:
        raise UsageError(
            f"{item.nodeid}: expected @pytest.mark.statediff(CONTRACT) with a path or a pack's "
            f"task, and perhaps variant=NAME; found {'no marker' if marker is None else given}"
        )
    beside = item.path.parent / given[0]
    return str(beside if beside.exists() else given[0]), str(options.get("variant", "embedded"))


def named_sandbox(file: ContractFile) -> str:
    """The sandbox that the contract names; `UsageError` if it names none."""
    if file.content.sandbox is None:
        raise UsageError(
            f"{file.content.contract} names no sandbox to run in; add `sandbox:`, or judge states "
            "with statediff.judge"
        )
    return file.content.sandbox
