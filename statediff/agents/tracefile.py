"""A trace in a file, no matter who wrote it: known by its first line.

| who | first line |
|---|---|
| an agent | a call: `{"tool": …}`, a message of the user or a reply |
| a recorder (`mcp`, `mcp-proxy`) | `{"form": "statediff.calls/1"}` |
| a trial (`trace.jsonl` of its folder), `import otel` | what is known of the whole trace |
| OpenTelemetry | OTLP, in JSON or protobuf |

Unless somebody vouches that no agent did, it is taken for the agent's own word.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from statediff.agents.handover import LACKS, SELF_RECORDED, read_handed_file, read_trace
from statediff.agents.otel import read_otel
from statediff.agents.otlp import MAX_FILE_BYTES
from statediff.agents.recorder import FORM, read_calls
from statediff.errors import BundleError, InputError
from statediff.evidence.canonical import read
from statediff.evidence.documents import check_shape, trace_document, trace_from
from statediff.model.trace import Trace, Turn
from statediff.model.values import printable

MAX_KEPT_BYTES: Final = 256 * 1024 * 1024
"""The most bytes of a log that a recorder or a trial wrote."""
_SNIFFED: Final = 4096


def read_trace_file(path: Path, *, is_vouched: bool = False) -> Trace:
    """The trace; `InputError` at its first line that cannot be read.

    With `is_vouched`, the caller answers for it that no agent wrote it and that it holds every
    call, except where the log itself says that it does not.
    """
    what = printable(str(path))
    reader = _reader(path, what)
    try:
        trace = reader(path)
        if reader in (read_calls, _whole):
            _require_sound(trace)
    except (BundleError, KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{what}: a line is no call as statediff writes it: {error}") from error
    if is_vouched:
        says = not trace.is_agent_influenced or trace.cause.startswith(LACKS)
        own = trace.cause if says else ""
        return replace(trace, is_complete=not own, is_agent_influenced=False, cause=own)
    cause = trace.cause or "whether an agent wrote the file is not known"
    # That the harness spoke for the user is its word too.
    turns = None if trace.turns is None else tuple(map(_as_heard, trace.turns))
    return replace(trace, is_complete=False, is_agent_influenced=True, cause=cause, turns=turns)


def _as_heard(turn: Turn) -> Turn:
    return Turn(turn.message, turn.calls_before, turn.reply)


def _reader(path: Path, what: str) -> Callable[[Path], Trace]:
    """Who can read it, by how it begins."""
    raw = read_handed_file(path, MAX_KEPT_BYTES)
    if raw is None:
        raise InputError(f"{what}: expected a trace, found nothing")
    begins = raw[:_SNIFFED].lstrip()
    if begins and begins[:1] not in b"{":
        return read_otel
    first = raw.split(b"\n", 1)[0]
    try:
        head = json.loads(first) if len(first) <= MAX_FILE_BYTES else {}
    except (ValueError, RecursionError):
        head = {}
    if isinstance(head, dict):
        if head.get("form") == FORM:
            return read_calls
        if head.keys() == {"cause", "is_agent_influenced", "is_complete", "turns"}:
            return _whole
        if {"resourceSpans", "resourceLogs"} & head.keys():
            return read_otel
    if b'"resourceSpans"' in begins or b'"resourceLogs"' in begins:
        return read_otel  # one document, indented over many lines
    return _lines


def _lines(path: Path) -> Trace:
    trace = read_trace(path)
    if trace.cause != SELF_RECORDED and not trace.cause.startswith(LACKS):
        raise InputError(f"{printable(str(path))}: {trace.cause}")
    return trace


def _whole(path: Path) -> Trace:
    """The trace that a trial left in its folder."""
    what = printable(str(path))
    try:
        head, *actions = (
            read(line, what) for line in path.read_bytes().split(b"\n") if line.strip()
        )
        return trace_from({**head, "actions": actions})
    except OSError as error:
        raise InputError(f"{what}: cannot be read: {error.strerror}") from error


def _require_sound(trace: Trace) -> None:
    """Our own readers trust that nobody else wrote these files: here somebody else may have."""
    check_shape(trace_document(trace), "trace.json")
    ids = {action.id for action in trace.actions}
    if len(ids) != len(trace.actions):
        raise ValueError("two calls have one id")
    for action in trace.actions:
        if action.attempt < 1:
            raise ValueError(f"{action.id}: attempts count from 1")
        if action.parent is not None and action.parent not in ids:
            raise ValueError(f"{action.id}: its parent is no call")
