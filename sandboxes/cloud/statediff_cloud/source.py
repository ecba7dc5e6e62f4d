"""An account of AWS as a source: what its server's process says that it holds.

The evaluator asks the process itself, over a pipe of its own, so that no account, no page of a
listing and no permission is between it and the state. One answer is one moment: requests wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, TypeAlias

from statediff.capture.source import Clock, SourceUnavailable, scanned
from statediff.model.batches import Row
from statediff.model.explanation import by_run
from statediff.model.readings import SourceCapture
from statediff.model.schema import EntityType, Kind, Schema
from statediff.model.state import COMPLETE, ChunkStore, Coverage, Enumeration, State
from statediff.model.values import Map, Observed, Unobserved, Value
from statediff.systems.base.rows import instant, keyed_table, source_schema
from statediff.systems.relational.schema import Refine
from statediff_cloud.types import TYPES

Ask: TypeAlias = Callable[[dict[str, Any]], "dict[str, Any] | None"]
"""A question to the server of the trial → its answer; None if it gives none."""

NO_ANSWER: Final = "the server does not answer"
_NOT_TEXT: Final = Unobserved(by_run("it holds half of a surrogate pair, which is no text"))
_TOO_DEEP: Final = Unobserved(by_run("it is nested too deeply"))
_MAX_DEPTH: Final = 100


class AwsSource:
    """Identities, policies, buckets, objects and queues of one account, and who may do what."""

    not_observed: ClassVar[tuple[str, ...]] = (
        "secrets of access keys and sessions; of a password only that it is another one",
        "when an access key, a role or a password was last used",
        "the text of contents above 64 KiB or not UTF-8, of which size and digest are seen",
        "receipt handles of messages, and the five minutes in which duplicates are recognized",
        "moto's own counters, such as how often it was asked for an object",
        "in which order a principal's rights were granted, and by whom",
    )

    def __init__(self, name: str, ask: Ask, refine: Refine | None = None) -> None:
        self._name = name
        self._ask = ask
        self._refine = refine

    @property
    def name(self) -> str:
        return self._name

    def schema(self) -> Schema:
        schema = source_schema(self._name, TYPES)
        return schema if self._refine is None else self._refine(schema)

    def read(self, store: ChunkStore, clock: Clock, like: State | None) -> SourceCapture:
        as_of = clock()
        answer = self._ask({"state": True})
        if answer is None:
            raise SourceUnavailable(NO_ANSWER)
        return scanned(self._name, as_of, self.state(answer["state"], store, like))

    def state(self, found: Mapping[str, Any], store: ChunkStore, like: State | None) -> State:
        """The state in an answer of the server's."""
        schema = self.schema()
        tables = {}
        for entity in schema.types:
            more = found["more"].get(entity.source_table, 0)
            cause = by_run(f"{more} more than are read")
            known = Enumeration(Coverage.INCOMPLETE, cause) if more else COMPLETE
            rows = [_row(entity, each) for each in found["rows"].get(entity.source_table, ())]
            own = None if like is None else like.tables.get(entity.name)
            tables[entity.name] = keyed_table(entity, rows, known, store, own)
        return State(schema, tables)


def _row(entity: EntityType, row: Mapping[str, Any]) -> Row:
    kinds = {field.source_column: field.kind for field in entity.fields}
    return {name: _cell(cell, kinds.get(name, Kind.ANY)) for name, cell in row.items()}


def _cell(cell: Any, kind: Kind) -> Observed:
    if kind is Kind.TIMESTAMP:
        moment: Observed = instant(cell, None)
        return moment
    try:
        return _value(cell, 0)
    except UnicodeEncodeError:
        return _NOT_TEXT
    except RecursionError:
        return _TOO_DEEP


def _value(cell: Any, depth: int) -> Value:
    if depth > _MAX_DEPTH:
        raise RecursionError
    if isinstance(cell, str):
        cell.encode()
        return cell
    if isinstance(cell, list):
        return tuple(_value(each, depth + 1) for each in cell)
    if isinstance(cell, dict):
        named = {str(_value(n, depth)): _value(each, depth + 1) for n, each in cell.items()}
        return Map.of(named)
    value: Value = cell
    return value
