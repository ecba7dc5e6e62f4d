"""An account of AWS as a source: what its server's process says that it holds.

The evaluator asks the process itself, over a pipe of its own, so that no account, no page of a
listing and no permission is between it and the state. One answer is one moment: requests wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, TypeAlias

from statediff.capture.source import Clock, SourceUnavailable, scanned
from statediff.model.explanation import by_run
from statediff.model.readings import SourceCapture
from statediff.model.schema import Schema
from statediff.model.state import COMPLETE, ChunkStore, Coverage, Enumeration, State
from statediff.systems.base.rows import keyed_table, source_schema
from statediff.systems.hosted.listed import row_of
from statediff.systems.relational.schema import Refine
from statediff_cloud.types import TYPES

Ask: TypeAlias = Callable[[dict[str, Any]], "dict[str, Any] | None"]
"""A question to the server of the trial → its answer; None if it gives none."""

NO_ANSWER: Final = "the server does not answer"


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
            rows = [row_of(entity, each) for each in found["rows"].get(entity.source_table, ())]
            own = None if like is None else like.tables.get(entity.name)
            tables[entity.name] = keyed_table(entity, rows, known, store, own)
        return State(schema, tables)
