"""A source that cannot be read after a run, by the word of its system [SSD §III].

Where the sandbox file says what a tool's success means (`acknowledges:`), the state after is the
state before with what was acknowledged done to it. Such a reading says that it is a word and no
look; whether that suffices is the contract's to say, and one that does not name the source gets the
reading that there was.

The word covers what was acknowledged, and nothing else. A call that failed may have been carried
out; a tool that acknowledges nothing may have written; a log may lack calls: then the enumerations
are incomplete, so that absence stays unknown. What the word does not name is unobserved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final

from statediff.contract.document.sandboxfile import Acknowledged, ToolEntry
from statediff.model.batches import Row
from statediff.model.readings import Capture, SourceCapture
from statediff.model.schema import NESTED, EntityType, Field, Kind
from statediff.model.state import ChunkStore, Coverage, Enumeration, State, build_table
from statediff.model.trace import Action, ActionClass, Trace
from statediff.model.values import ABSENT, Key, Map, Observed, Unobserved, is_value

UNNAMED: Final = "the acknowledgement does not say it"


def by_word(
    before: Capture,
    after: Capture,
    trace: Trace,
    tools: Iterable[ToolEntry],
    sources: frozenset[str],
    store: ChunkStore,
) -> Capture:
    """The capture in which each of `sources` that was not read is as its tools' results say."""
    known = {tool.name: tool for tool in tools}
    first = {part.reading.source: part for part in before.parts}
    return replace(
        after,
        parts=tuple(
            _told(first[part.reading.source], part, _Word(part.reading.source, known, trace), store)
            if _is_wanted(part, first.get(part.reading.source), sources)
            else part
            for part in after.parts
        ),
    )


def _is_wanted(part: SourceCapture, was: SourceCapture | None, sources: frozenset[str]) -> bool:
    is_unread = part.reading.source in sources and not part.reading.was_read
    return is_unread and was is not None and was.reading.was_read


@dataclass
class _Word:
    """The acknowledgements of a run's calls about one source."""

    source: str
    tools: Mapping[str, ToolEntry]
    trace: Trace
    gap: str | None = None
    """Why more may have happened than was acknowledged; the first reason."""

    def effects(self) -> Iterator[tuple[Action, Acknowledged]]:
        """Each call that acknowledged something, in order; sets `gap` on the way."""
        if not self.trace.is_complete:
            self.miss(f"the log of calls may lack some: {self.trace.cause}")
        for action in self.trace.actions:
            tool = self.tools.get(action.tool)
            if not self._may_write(action, tool):
                continue
            if action.error is not None:
                self.miss(f"nobody acknowledged what the failed call {action.id} did")
            elif tool is None or tool.acknowledges is None:
                self.miss(f"the call {action.id} of {action.tool} acknowledges nothing")
            else:
                yield action, tool.acknowledges

    def _may_write(self, action: Action, tool: ToolEntry | None) -> bool:
        if tool is not None:
            is_here = tool.on in (None, self.source) and tool.permission == "granted"
            return is_here and tool.class_ != ActionClass.READ.value
        return action.action_class is not ActionClass.READ

    def miss(self, why: str) -> None:
        """More may have happened, for this reason."""
        self.gap = self.gap or why


def _told(was: SourceCapture, part: SourceCapture, word: _Word, store: ChunkStore) -> SourceCapture:
    tables = was.state.tables
    rows: dict[str, dict[Key, Row]] = {}
    for action, effect in word.effects():
        table = tables.get(effect.type)
        if table is None:
            word.miss(f"{word.source} has no {effect.type}")
            continue
        known = rows.setdefault(effect.type, {key: dict(row) for key, row in table.rows()})
        if (problem := _apply(table.type, known, action, effect)) is not None:
            word.miss(f"the call {action.id}: {problem}")
    made = {
        name: build_table(table.type, rows[name].values(), store, like=table)
        if name in rows
        else table
        for name, table in tables.items()
    }
    if word.gap is not None:
        unsure = Enumeration(Coverage.INCOMPLETE, f"unrecorded: {word.gap}")
        made = {name: replace(table, enumeration=unsure) for name, table in made.items()}
    state = State(was.state.schema, made)
    reading = replace(
        part.reading,
        is_complete=word.gap is None,
        digest=state.digest(),
        cause=word.gap,
        acknowledgement=True,
        is_agent_influenced=part.reading.is_agent_influenced or word.trace.is_agent_influenced,
    )
    return SourceCapture(reading, state)


def _apply(
    entity: EntityType, rows: dict[Key, Row], action: Action, effect: Acknowledged
) -> str | None:
    """The effect is done to the rows; else why nobody can say what was."""
    said = {name: _said(action, written) for name, written in effect.values.items()}
    named = {name: _typed(entity.by_name.get(name), value) for name, value in said.items()}
    unknown = sorted(name for name in named if name not in entity.by_name)
    if unknown:
        return f"{entity.name} has no field {unknown[0]}"
    if effect.operation == "create":
        row: Row = {
            field.name: named.get(field.name, Unobserved(UNNAMED)) for field in entity.fields
        }
        if not all(is_value(row[name]) for name in entity.key):
            return f"it does not say the key of the {entity.name}"
        key = _key(entity, row, len(rows))
        if key in rows:
            return f"there is such a {entity.name} already"
        rows[key] = row
        return None
    if not set(entity.key) <= named.keys() or not entity.key:
        return f"it does not say which {entity.name} it was"
    key = _key(entity, named, 0)
    if key not in rows:
        return f"there is no such {entity.name}"
    if effect.operation == "delete":
        del rows[key]
    else:
        rows[key] = {**rows[key], **named}
    return None


def _key(entity: EntityType, row: Row, number: int) -> Key:
    if entity.is_keyless:
        return (number,)
    return tuple(value for name in entity.key if is_value(value := row[name]))  # type: ignore[misc]  # values they are


def _said(action: Action, written: str | int | bool | None) -> Observed:
    """The entry's word of the call: an argument, a part of the result, or the value itself."""
    steps = Acknowledged.reference(written)
    if steps is None or isinstance(written, int):
        return written
    first, *rest = steps
    if first == "result":
        value: Observed = action.result
    else:
        arguments = action.arguments
        value = arguments if isinstance(arguments, Unobserved) else dict(arguments.items)[first]
    for step in rest:
        value = _part(value, step)
    return value


def _part(value: Observed, step: str) -> Observed:
    if isinstance(value, Map):
        return dict(value.items).get(step, Unobserved(UNNAMED))
    if isinstance(value, tuple) and step.isdigit() and int(step) < len(value):
        return value[int(step)]
    return Unobserved(UNNAMED)


_EXACT: Final[Mapping[Kind, tuple[type, ...]]] = {
    Kind.BOOL: (bool,),
    Kind.INT: (int,),
    Kind.TEXT: (str,),
}


def _typed(field: Field | None, value: Observed) -> Observed:
    """The value as the field holds it; unobserved where a result has no such kind of value."""
    if field is None or value is None or not is_value(value):
        return Unobserved(UNNAMED) if value is ABSENT else value
    if field.kind is Kind.DECIMAL and type(value) in (int, Decimal):
        return Decimal(value)  # type: ignore[arg-type]  # of these two
    if type(value) in _EXACT.get(field.kind, ()) or field.kind in NESTED:
        return value
    return Unobserved(f"the acknowledgement says no {field.kind.value}")
