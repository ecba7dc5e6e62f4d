"""Runs that are known to be right, for a contract to be tried on: made live, or recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from statediff.evaluate import ContractFile
    from statediff.meta.recordings import Recordings
    from statediff.meta.reference import Reference
    from statediff.systems.base.embedded import EmbeddedSandbox


def live_references(
    file: ContractFile,
    path: Path,
    agents: Sequence[str],
    running: dict[str, EmbeddedSandbox],
    stack: ExitStack,
) -> Iterator[Reference]:
    """Each agent's trial, run live."""
    import tempfile

    from statediff.errors import UsageError
    from statediff.harness import TrialPlan, trial_facts
    from statediff.meta.reference import Reference
    from statediff.workspace.agents import packed_agent
    from statediff.workspace.trials import TrialRequest, embedded, lend, make_trial

    content = file.content
    if content.sandbox is None or not agents:
        raise UsageError(
            f"{content.contract}: mutation needs a sandbox and an agent that does the task right; "
            "name one with --reference, or in a cases.yaml beside the contract"
        )
    if content.sandbox not in running:
        running[content.sandbox] = stack.enter_context(embedded(content.sandbox))
    sandbox = running[content.sandbox]
    for agent in agents:
        with tempfile.TemporaryDirectory(prefix="statediff-") as folder:
            plan = TrialPlan(agent, Path(folder) / "trial")
            program = packed_agent(path.parent, agent, 60.0)
            request = TrialRequest(contract=file, agent=program, lease=lend(sandbox))
            seen = make_trial(request, plan).observed
            yield Reference(
                agent,
                file,
                before=seen.before,
                after=seen.after,
                trace=seen.run.trace,
                answer=seen.run.answer,
                timeline=seen.timeline,
                facts=trial_facts(sandbox, seen, agent, plan),
            )


def recorded_run(
    file: ContractFile,
    before: list[str],
    after: list[str],
    answer: Path | None,
    trace: Path | None = None,
    schema: Path | None = None,
) -> Reference:
    """The trial that the captures of a recorded run make; nothing is known of when it happened.

    A trace is taken for every call there was: a reference is a run that is known to be right.
    """
    from statediff.evaluate import TrialFacts
    from statediff.meta.reference import Reference
    from statediff.workspace.inputs import answer_from, capture_pair, refinements, trace_from

    first, last = capture_pair(before, after, refinements(schema, file.content.sandbox), ())
    facts = TrialFacts("offline", agent="unknown", isolation="unknown")
    calls = trace_from(trace, is_complete=trace is not None)
    return Reference(
        "recorded",
        file,
        before=first,
        after=last,
        trace=calls,
        answer=answer_from(answer),
        timeline=None,
        facts=facts,
    )


def recorded_trial(file: ContractFile, kept: Recordings, name: str) -> Reference:
    """The trial that a recorded run makes."""
    before, after = [str(kept.before)], [str(kept.after)]
    run = recorded_run(file, before, after, kept.answer(name), kept.trace(name), kept.schema)
    return replace(run, name=name)
