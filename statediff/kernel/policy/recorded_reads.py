"""What a trace tells of reads: which artifacts each call asked for, and which it brought.

A call of a tool that nobody ties to artifacts may have shown anything; unless its tool is said to
show nothing of them, it leaves open what was read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from statediff.contract.clauses.visibility import BoundAccess, ReadBy, key_part
from statediff.contract.language.context import EntityRef
from statediff.kernel.policy.run import CallContext
from statediff.kernel.policy.steps import shown_call
from statediff.model.explanation import Cause, Reason
from statediff.model.trace import Action, NoAnswer, Trace
from statediff.model.values import Absent, Map, Observed, Unobserved, Value
from statediff.reads.captured import FETCH, SEARCH, WINDOW

UNCITED: Final = Reason.READ_UNCITED()


@dataclass(frozen=True)
class RecordedRead:
    """One read: the call at `position`, the artifacts it named and whether they were delivered."""

    position: int
    call: EntityRef
    names: tuple[str, ...]
    is_delivered: bool
    subsystem: str | None = None
    """Where a search looked; None for everywhere, and for what is no search."""
    is_search: bool = False


@dataclass(frozen=True)
class RecordedReads:
    """All reads of one run."""

    all: tuple[RecordedRead, ...]
    window: frozenset[str] | None
    """The artifacts that were offered in a window; None where none was."""
    causes: frozenset[Cause]
    """Why something may have been read that is not here."""
    answered_at: int
    """The calls before this position came before the answer."""

    def before_answer(self) -> Iterator[RecordedRead]:
        """The reads that the answer can rest on."""
        return (look for look in self.all if look.position < self.answered_at)


def recorded_reads(access: BoundAccess, run: CallContext) -> RecordedReads:
    """The reads that the trace tells of."""
    found: list[RecordedRead] = []
    causes: set[Cause] = set() if run.gap is None else {run.gap}
    window: set[str] | None = None
    readers = {reader.tool: reader for reader in access.readers}
    for position, (call, action) in enumerate(zip(run.calls, run.trace.actions, strict=True)):
        reader = readers.get(action.tool)
        if reader is None and action.tool == WINDOW:
            names = _texts(_at(action.result, ("artifacts", "[]", "id")))
            window = (window or set()) | set(names or ())
            causes.add(UNCITED if names is not None else _silent(call))
        elif reader is not None:
            _add(found, causes, _mapped(position, call, action, reader, access), call)
        elif action.tool in (SEARCH, FETCH):
            _add(found, causes, _gated(position, call, action), call)
        elif action.tool not in access.aside and action.tool != access.submitted_by:
            causes.add(Reason.MAY_HAVE_SHOWN(call=shown_call(call)))
    shown = None if window is None else frozenset(window)
    return RecordedReads(tuple(found), shown, frozenset(causes), _answered_at(access, run))


def _add(
    found: list[RecordedRead], causes: set[Cause], look: RecordedRead | None, call: EntityRef
) -> None:
    if look is None:
        causes.add(_silent(call))
    else:
        found.append(look)


def _silent(call: EntityRef) -> Cause:
    return Reason.WHICH_ARTIFACTS(call=shown_call(call))


def _gated(position: int, call: EntityRef, action: Action) -> RecordedRead | None:
    """A call of the gate; None where the log does not tell what it was about."""
    arguments = action.arguments
    is_delivered = action.error is None
    if isinstance(arguments, Unobserved):
        return None
    if action.tool == FETCH:
        asked = arguments.get("id")
        if not isinstance(asked, str):  # the gate refuses a call without one
            return None if is_delivered else RecordedRead(position, call, (), is_delivered=False)
        return RecordedRead(position, call, (asked,), is_delivered)
    subsystem = arguments.get("subsystem")
    names = _texts(_at(action.result, ("results", "[]", "id"))) if is_delivered else ()
    if names is None or not isinstance(subsystem, str | None | Absent):
        return RecordedRead(position, call, (), is_delivered=False) if not is_delivered else None
    where = subsystem if isinstance(subsystem, str) else None
    return RecordedRead(position, call, names, is_delivered, where, is_search=True)


def _mapped(
    position: int, call: EntityRef, action: Action, reader: ReadBy, access: BoundAccess
) -> RecordedRead | None:
    """A call of a tool that the contract ties to artifacts."""
    is_delivered = action.error is None
    root, *path = reader.path
    if root == "result" and not is_delivered:
        return RecordedRead(position, call, (), is_delivered=False)
    holding = access.holding(reader.subsystem)
    values = _at(action.arguments if root == "arguments" else action.result, tuple(path))
    if holding is None or values is None:
        return None
    keys = [key_part(value, holding.key_kinds[0]) for value in values]
    if None in keys:
        return None
    names = tuple(holding.id_of((key,)) for key in keys)
    where = reader.subsystem if reader.is_search else None
    return RecordedRead(position, call, names, is_delivered, where, reader.is_search)


def _at(whole: Observed, path: tuple[str, ...]) -> tuple[Value, ...] | None:
    """The values at a path; None where it leads nowhere, or somewhere that was not recorded."""
    if isinstance(whole, Unobserved):
        return None
    if not path:
        return (whole,)  # type: ignore[return-value]  # what is no value there is no artifact's name
    step, rest = path[0], path[1:]
    if step == "[]":
        if not isinstance(whole, tuple):
            return None
        found: list[Value] = []
        for each in whole:
            inner = _at(each, rest)
            if inner is None:
                return None
            found += inner
        return tuple(found)
    return _at(whole.get(step), rest) if isinstance(whole, Map) else None


def _texts(values: Iterable[Value] | None) -> tuple[str, ...] | None:
    if values is None:
        return None
    listed = tuple(values)
    return tuple(str(v) for v in listed) if all(isinstance(v, str) for v in listed) else None


def _answered_at(access: BoundAccess, run: CallContext) -> int:
    """The position of the call by which, or after which, the answer was given."""
    actions = run.trace.actions
    given = [
        at
        for at, action in enumerate(actions)
        if action.tool == access.submitted_by and action.error is None
    ]
    if given:
        return given[-1]
    return _replied_at(run.trace, run.context.answer)


def _replied_at(trace: Trace, answer: Mapping[str, Observed] | NoAnswer) -> int:
    """Where turns are distinguished: the end of the last one whose reply is the answer."""
    turns = trace.turns or ()
    if isinstance(answer, NoAnswer):
        return len(trace.actions)
    replied = [
        number
        for number, turn in enumerate(turns)
        if (isinstance(turn.reply, Map) and dict(turn.reply.items) == answer)
        or (isinstance(turn.reply, str) and turn.reply == answer.get("text"))
    ]
    if replied and replied[-1] + 1 < len(turns):
        return turns[replied[-1] + 1].calls_before
    return len(trace.actions)
