"""At which call a recorded run was decided, and what a trainer would have saved by looking.

    python -m lab.benchmarks.so_far                               # the runs of the labelled study
    python -m lab.benchmarks.so_far --cases tau2=DIR --cases agent-diff=DIR [--json]

Each recorded run of τ²-bench is judged after each of its calls, as `Judge.so_far` does, with its
calls so far; then once more under a contract that also asks for the history (`history: required`),
with the states that the calls left. A run that ends in a match and was denied on its way is listed.

Agent-Diff recorded the whole change of a run and no change of a call. Its runs are judged at their
end; of rows that a run made and nothing explains, the outputs of its calls say by when they were
there.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from statediff_lab.importers.recorded import Prepared as Trial
from statediff_lab.importers.recorded import RecordedRun, Suite, open_suite
from statediff_lab.importers.rejudge import readable_runs
from statediff_lab.importers.states import EPOCH
from statediff_lab.importers.tau2.domain import objects
from statediff_lab.importers.tau2.format import apply, delta_of
from statediff_lab.importers.tau2.suite import Tau2

from statediff.capture.feed import Seen, history_of, with_history
from statediff.contract.file import ContractFile, parse_contract
from statediff.errors import InputError
from statediff.kernel import prepare
from statediff.model.delta import Op
from statediff.model.readings import Capture, Transaction
from statediff.model.verdict import Decision, SoFar, Verdict

STUDY: Final = Path("fixtures/study/runs")
HISTORY: Final = "history required"
_OUTPUT: Final = re.compile(r" tool_call_id='")
_CALLS: Final = re.compile(r"'type': 'tool_call'")


@dataclass(frozen=True)
class Followed:
    """One run: its verdict, and the number of the call (from 1) after which it stood so first."""

    suite: str
    domain: str
    run: str
    under: str
    verdict: str
    calls: int
    denied: int | None = None
    """From then on it was denied until its end."""
    lost: int | None = None
    denied_once: int | None = None
    """The first denial of all, whether or not it was taken back."""
    right: int | None = None
    """The first time that its states were as they should end."""
    broken: int | None = None
    """The first time that they were so no longer."""
    why: str = ""


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table, or each run as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", action="append", metavar="SUITE=DIR", default=[])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    named = [each.partition("=") for each in options.cases]
    folders = {name: Path(folder) for name, _, folder in named}
    folders = folders or {name: STUDY / name for name in ("tau2", "agent-diff")}
    found: list[Followed] = []
    for name, folder in folders.items():
        suite = open_suite(name, folder)
        for _, _, run, _ in readable_runs(suite):
            for each in follow(suite, run):
                found.append(each)
                if options.json:
                    print(json.dumps(asdict(each), ensure_ascii=False), flush=True)
    if not options.json:
        print("\n".join(table(found)))


def follow(suite: Suite, run: RecordedRun) -> Iterator[Followed]:
    """The run, call by call where that was recorded; nothing of one that nobody can judge."""
    try:
        trial = suite.prepare(run)
        if isinstance(suite, Tau2):
            yield from _by_calls(suite, run, trial)
        else:
            yield _by_outputs(suite, run, trial)
    except InputError:
        return


# ---------------------------------------------------------------- τ²: what each call changed


def _by_calls(suite: Tau2, run: RecordedRun, trial: Trial) -> Iterator[Followed]:
    nows, read = moments(suite, run), trial.after.parts[0].reading
    if not read.is_complete or nows[-1].parts[0].reading.digest != read.digest:
        return  # what the run left is not known, or its calls do not add up to it
    trace = trial.trace
    steps = [n for n in range(1, len(nows)) if nows[n] is not nows[n - 1]]
    for under, contract in (("as it is", trial.contract), (HISTORY, with_history_of(trial))):
        seen = nows
        if under == HISTORY:
            seen = [with_states(nows, [n for n in steps if n <= at]) for at in range(len(nows))]
        judge = prepare(contract, trial.before)
        stands = [
            judge.so_far(now, trace=replace(trace, actions=trace.actions[:number]))
            for number, now in enumerate(seen)
        ]
        verdict = judge.judgement(seen[-1], trace=trace, answer=trial.answer).verdict
        yield _followed(suite, run, under, verdict, stands[1:])


def moments(suite: Tau2, run: RecordedRun) -> list[Capture]:
    """The captures before the first call and after each."""
    domain = suite.domain(run.task.domain)
    initial, layout = domain.cases.initial, domain.layout
    began = run.raw.get("before") or {}
    states = [apply(initial, delta_of(began.get("init_delta") or [], "init_delta"))]
    for number, call in enumerate(objects(run.raw, "trace")):
        delta = delta_of(call.get("delta") or [], f"trace[{number}].delta")
        states.append(apply(states[-1], delta) if delta else states[-1])
    moved, made = layout.edits(initial, states[0]), layout.edits(states[0], states[-1])
    found: list[Capture] = []
    for number, state in enumerate(states):
        if number and state is states[number - 1]:
            found.append(found[-1])
        else:
            found.append(domain.base.pair(moved, layout.edits(states[0], state), made)[1])
    return found


def with_history_of(trial: Trial) -> ContractFile:
    """The contract that also asks what was between the ends."""
    (part,) = trial.before.parts
    asked = f"evidence: {{{json.dumps(part.reading.source)}: {{history: required}}}}\n"
    return parse_contract(trial.contract.data + asked.encode(), "history.yaml")


def with_states(nows: Sequence[Capture], steps: Sequence[int]) -> Capture:
    """The capture after the last of these calls, with the states that they left."""
    now = nows[steps[-1] if steps else 0]
    source = now.parts[0].reading.source
    left = [Transaction(f"call {n}", source, str(n), None, nows[n].parts[0].state) for n in steps]
    return with_history(now, [history_of(source, Seen(tuple(left), None), now, lambda: EPOCH)])


def _followed(
    suite: Suite, run: RecordedRun, under: str, verdict: Verdict, stands: Sequence[SoFar]
) -> Followed:
    denied = [n for n, each in enumerate(stands, start=1) if each.decision is Decision.DENY]
    last = next((n for n in range(len(stands), 0, -1) if n not in denied), 0)
    rights = [n for n, each in enumerate(stands, start=1) if each.is_right]
    right = rights[0] if rights else None
    later = range((right or len(stands)) + 1, len(stands) + 1)
    first = stands[last] if last < len(stands) else None
    return Followed(
        suite.name,
        run.task.domain,
        run.run_id,
        under,
        verdict.value,
        len(stands),
        denied=None if last == len(stands) else last + 1,
        denied_once=denied[0] if denied else None,
        lost=next((n for n, each in enumerate(stands, start=1) if each.is_lost), None),
        right=right,
        broken=next((n for n in later if n not in rights), None),
        why="" if first is None or first.finding is None else first.finding.clause,
    )


# ---------------------------------------------------------------- Agent-Diff: what outputs name


def _by_outputs(suite: Suite, run: RecordedRun, trial: Trial) -> Followed:
    judge = prepare(trial.contract, trial.before)
    verdict = judge.judgement(trial.after, trace=trial.trace, answer=trial.answer).verdict
    found = judge.so_far(trial.after, trace=trial.trace)
    trace = run.raw.get("trace")
    messages = trace.get("messages") if isinstance(trace, dict) else None
    outputs = [each for each in messages or [] if _OUTPUT.search(each)]
    is_denied = found.decision is Decision.DENY
    return Followed(
        suite.name,
        run.task.domain,
        run.run_id,
        "as it is",
        verdict.value,
        len(outputs),
        denied=_named_by(found, outputs) if is_denied else None,
        denied_once=len(outputs) if is_denied else None,
        lost=len(outputs) if found.is_lost else None,
        right=len(outputs) if found.is_right else None,
        why=found.finding.clause if found.finding is not None else "",
    )


def _named_by(found: SoFar, outputs: Sequence[str]) -> int:
    """The call by which all that was made and is not explained was there; the last one else.

    A new row has a key that nobody can know before it is there.
    """
    unexplained = {
        i for each in found.judgement.open if each.clause == "frame" for i in each.deltas
    }
    keys = [
        str(delta.key[0])
        for delta in found.judgement.deltas
        if delta.id in unexplained and delta.op is Op.CREATE and len(delta.key) == 1
    ]
    places = [
        next((n for n, each in enumerate(outputs, start=1) if key in each), len(outputs))
        for key in keys
    ]
    return max(places, default=len(outputs))


# ---------------------------------------------------------------- the table


COLUMNS: Final = (
    "runs", "contract", "judged", "DIVERGE", "denied", "lost", "calls", "after denial",
    "after loss", "broken again", "MATCH", "denied on the way", "lost on the way",
)  # fmt: skip
"""`calls` are those of the runs that end in DIVERGE, then those of them that were made after a run
was denied to its end, and after it was lost."""


def table(found: Sequence[Followed]) -> Iterator[str]:
    """The table of docs/reward.md, and the runs that a guard would have stopped for nothing."""
    groups: dict[tuple[str, str], list[Followed]] = {}
    for each in found:
        groups.setdefault((f"{each.suite} {each.domain}", each.under), []).append(each)
    yield f"| {' | '.join(COLUMNS)} |"
    yield "|---|---" + "|---:" * (len(COLUMNS) - 2) + "|"
    for (name, under), runs in groups.items():
        yield f"| {' | '.join(map(str, (name, under, *figures(runs))))} |"
    stopped = [e for e in found if e.verdict == Verdict.MATCH.value and e.denied_once]
    yield "".join(f"\n{e.under}: {e.run}: denied after call {e.denied_once}" for e in stopped)


def figures(runs: Sequence[Followed]) -> Iterator[str | int]:
    """The cells of a line of the table, after its name."""
    wrong = [each for each in runs if each.verdict == Verdict.DIVERGE.value]
    right = [each for each in runs if each.verdict == Verdict.MATCH.value]
    calls = sum(each.calls for each in wrong)
    denied = [each.calls - each.denied for each in wrong if each.denied is not None]
    lost = [each.calls - each.lost for each in wrong if each.lost is not None]
    yield from (len(runs), len(wrong), len(denied), len(lost), calls)
    for saved in (sum(denied), sum(lost)):
        yield f"{saved} ({100 * saved / calls:.0f} %)" if calls else "–"
    yield sum(each.broken is not None for each in wrong)
    yield from (len(right), sum(each.denied_once is not None for each in right))
    yield sum(each.lost is not None for each in right)


if __name__ == "__main__":
    main()
