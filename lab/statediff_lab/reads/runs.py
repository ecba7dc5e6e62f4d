"""Recorded runs from JSON lines, each line one question's calls and answer.

    {"question": "q007", "answer": {"exists": false, "evidence": []},
     "calls": [{"tool": "search", "subsystem": "jira", "found": ["jira-3f…"]},
               {"tool": "fetch", "id": "jira-3f…", "outcome": "blocked"}]}

`outcome` is `delivered` where it is left out. A line without `calls` has an unrecorded log: the run
is INCONCLUSIVE unless something else decides it. `gap` says why a log may not hold every call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import tzinfo
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field

from statediff.errors import InputError
from statediff.model.strictjson import read_json
from statediff.model.values import Value, printable
from statediff_lab.reads.gate import CallKind, ReadCall, ReadOutcome, ReadTrace
from statediff_lab.reads.instants import last_instant
from statediff_lab.reads.log import LineShape, Members
from statediff_lab.reads.questions import Question
from statediff_lab.reads.scores import ReadRun

MAX_LINE_BYTES: Final = 16 * 1024 * 1024
MAX_CALLS: Final = 100_000
UNRECORDED: Final = "the calls of this run were not recorded"
_OUTCOMES: Final = {outcome.value: outcome for outcome in ReadOutcome}
_KINDS: Final = {"search": CallKind.SEARCH, "fetch": CallKind.FETCH}


def load_runs(
    path: Path, questions: Sequence[Question], zone: tzinfo | None = None
) -> Iterator[ReadRun]:
    """The runs of a file, one at a time. `InputError` names the line that is none."""
    numbers = {question.asked.id: at for at, question in enumerate(questions)}
    try:
        with path.open("rb") as stream:
            for number, line in enumerate(
                iter(lambda: stream.readline(MAX_LINE_BYTES + 1), b""), 1
            ):
                if line.strip():
                    where = f"{path.name}, line {number}"
                    yield run_of(
                        read_json(line, where, max_bytes=MAX_LINE_BYTES), where, numbers, zone
                    )
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error


def run_of(
    read: Value, where: str, numbers: Mapping[str, int], zone: tzinfo | None = None
) -> ReadRun:
    """The run that one line holds; `numbers` gives each question's place in its set."""
    line = _RunLine.of(read, where)
    if line.question not in numbers:
        raise InputError(f"{where}: there is no question {printable(line.question)[:60]!r}")
    if line.calls is None:
        return ReadRun(numbers[line.question], ReadTrace(gap=line.gap or UNRECORDED), line.answer)
    rows = (_call(call, f"{where}, call {at}", zone) for at, call in enumerate(line.calls, 1))
    return ReadRun(numbers[line.question], ReadTrace(tuple(rows), line.gap), line.answer)


class _RunLine(LineShape):
    question: str
    answer: Annotated[dict[str, Any], Members] | None = None
    gap: str | None = None
    calls: Annotated[tuple[Any, ...], Field(max_length=MAX_CALLS)] | None = None


class _OtherCall(LineShape, extra="ignore"):
    tool: str


class _CallLine(_OtherCall, extra="forbid"):
    id: str | None = None
    subsystem: str | None = None
    query: Any = None
    actor: str | None = None
    as_of: str | None = None
    found: tuple[str, ...] = ()
    outcome: str | None = None


def _call(read: Value, where: str, zone: tzinfo | None) -> ReadCall:
    kind = _KINDS.get(_OtherCall.of(read, where).tool, CallKind.OTHER)
    if kind is CallKind.OTHER:
        return ReadCall(kind)
    call = _CallLine.of(read, where)
    outcome = _OUTCOMES.get(call.outcome or "delivered")
    if outcome is None:
        raise InputError(f"{where}: expected `outcome` to be one of {', '.join(_OUTCOMES)}")
    if kind is CallKind.FETCH and call.id is None and outcome is not ReadOutcome.INVALID:
        raise InputError(f"{where}: expected the `id` that was fetched")
    as_of = call.as_of
    return ReadCall(
        kind,
        outcome,
        call.id,
        call.subsystem,
        call.actor,
        None if as_of is None else last_instant(as_of, zone, f"{where}, `as_of`"),
        call.found,
    )


def run_line(
    question: str, answer: Mapping[str, Any] | None, trace: ReadTrace, *, has_log: bool = True
) -> dict[str, Any]:
    """The line that `run_of` reads as this run; without `has_log` one whose calls nobody saw."""
    line: dict[str, Any] = {"question": question, "answer": answer}
    if trace.gap is not None:
        line["gap"] = trace.gap
    return {**line, "calls": [_as_line(call) for call in trace.calls]} if has_log else line


def _as_line(call: ReadCall) -> dict[str, Any]:
    if call.kind is CallKind.OTHER:
        return {"tool": "other"}
    told = {
        "tool": call.kind.value,
        "id": call.artifact,
        "subsystem": call.subsystem,
        "outcome": call.outcome.value,
    }
    found = {"found": list(call.found)} if call.kind is CallKind.SEARCH else {}
    return {**{name: value for name, value in told.items() if value is not None}, **found}
