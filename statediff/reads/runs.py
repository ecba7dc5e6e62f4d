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
from typing import Any, Final

from statediff.errors import InputError
from statediff.model.strictjson import read_json
from statediff.model.values import Map, Value, printable
from statediff.reads.calls import CallKind, Outcome, ReadCall, ReadTrace
from statediff.reads.instants import last_instant
from statediff.reads.questions import Question
from statediff.reads.scores import Case

MAX_LINE_BYTES: Final = 16 * 1024 * 1024
MAX_CALLS: Final = 100_000
UNRECORDED: Final = "the calls of this run were not recorded"
_OUTCOMES: Final = {outcome.name.lower(): outcome for outcome in Outcome}
_KINDS: Final = {"search": CallKind.SEARCH, "fetch": CallKind.FETCH}
_CALL: Final = {"tool", "id", "subsystem", "query", "actor", "as_of", "found", "outcome"}


def load_runs(
    path: Path, questions: Sequence[Question], zone: tzinfo | None = None
) -> Iterator[Case]:
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


def run_of(read: Value, where: str, numbers: Mapping[str, int], zone: tzinfo | None = None) -> Case:
    """The run that one line holds; `numbers` gives each question's place in its set."""
    if not isinstance(read, Map):
        raise InputError(f"{where}: expected an object")
    line = dict(read.items)
    if unknown := sorted(set(line) - {"question", "answer", "calls", "gap"}):
        raise InputError(f"{where}: {printable(unknown[0])!r} is not known")
    name = line.get("question")
    if not isinstance(name, str) or name not in numbers:
        raise InputError(f"{where}: there is no question {printable(str(name))[:60]!r}")
    answer = line.get("answer")
    if answer is not None and not isinstance(answer, Map):
        raise InputError(f"{where}: expected `answer` to be an object or null")
    return Case(numbers[name], _trace(line, where, zone), _plain(answer))


def _trace(line: Mapping[str, Value], where: str, zone: tzinfo | None) -> ReadTrace:
    gap, calls = line.get("gap"), line.get("calls")
    if gap is not None and not isinstance(gap, str):
        raise InputError(f"{where}: expected `gap` to be a text that says what may be missing")
    if calls is None:
        return ReadTrace(gap=gap or UNRECORDED)
    if not isinstance(calls, tuple) or len(calls) > MAX_CALLS:
        raise InputError(f"{where}: expected `calls` to be a list of at most {MAX_CALLS}")
    rows = (_call(call, f"{where}, call {at}", zone) for at, call in enumerate(calls, 1))
    return ReadTrace.of(rows, gap)


def _call(read: Value, where: str, zone: tzinfo | None) -> ReadCall:
    if not isinstance(read, Map):
        raise InputError(f"{where}: expected an object")
    call = dict(read.items)
    tool = call.get("tool")
    if not isinstance(tool, str):
        raise InputError(f"{where}: expected a text `tool`")
    kind = _KINDS.get(tool, CallKind.OTHER)
    if kind is CallKind.OTHER:
        return ReadCall(kind)
    if unknown := sorted(set(call) - _CALL):
        raise InputError(f"{where}: {printable(unknown[0])!r} is not known")

    def text(name: str) -> str | None:
        found = call.get(name)
        if found is not None and not isinstance(found, str):
            raise InputError(f"{where}: expected `{name}` to be a text")
        return found

    outcome = _OUTCOMES.get(text("outcome") or "delivered")
    if outcome is None:
        raise InputError(f"{where}: expected `outcome` to be one of {', '.join(_OUTCOMES)}")
    found, as_of = call.get("found", ()), text("as_of")
    if not isinstance(found, tuple) or not all(isinstance(each, str) for each in found):
        raise InputError(f"{where}: expected `found` to be a list of texts")
    if kind is CallKind.FETCH and text("id") is None and outcome is not Outcome.INVALID:
        raise InputError(f"{where}: expected the `id` that was fetched")
    return ReadCall(
        kind, outcome, text("id"), text("subsystem"), text("actor"),
        None if as_of is None else last_instant(as_of, zone, f"{where}, `as_of`"),
        tuple(str(each) for each in found),
    )  # fmt: skip


def _plain(value: Map | None) -> Mapping[str, Any] | None:
    return None if value is None else dict(value.items)
