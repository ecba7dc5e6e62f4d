"""A judged run in few bytes: what differs from the state before, what the agent said, the decision.

A record does not hold what its verdict was read from. It holds what makes both captures again: the
rows that differ, over a state before that is kept once for many runs. Where many rows differ, or
the states are of another make, the state after is kept as chunks, and the record names them.

Both state roots are in the record. Making the captures again makes the roots again, of all
rows, so that no row can be left out of a record and none put in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from statediff.errors import BundleError, InputError
from statediff.evidence import documents as doc
from statediff.evidence.batches.sealing import REWARDS
from statediff.evidence.canonical import write
from statediff.evidence.states import capture_from, states_document, states_from
from statediff.model.columns import table_changes
from statediff.model.patch import patched
from statediff.model.readings import Capture
from statediff.model.state import ChunkStore, LayeredChunks, State, Table
from statediff.model.trace import NoAnswer
from statediff.model.values import Key, Observed, Unobserved, Value, same
from statediff.model.verdict import Judgement, Truth, Verdict

Json = Any
BEFORE: Final = "statediff/batch-before/1"
FEW_ROWS: Final = 64
"""Changed rows that a record holds itself; of more, the state after is kept as chunks."""
INLINE_BYTES: Final = 16 * 1024
"""Bytes of changed rows that a record holds itself, before they are compressed."""
MOST_WORDS: Final = 2000
"""Characters of the cause why a run was not read."""
UNREAD: Final[Json] = {"verdict": Verdict.INCONCLUSIVE.value, "reward": None, "parts": {}}
"""The decision on a run whose state after could not be read or judged."""


def before_document(capture: Capture, root: str) -> Json:
    """A state before, which many records are over; its chunks are in the store of the batch."""
    return {
        "form": BEFORE,
        "root": root,
        "states": states_document([capture]),
        "captures": doc.capture_document(capture),
    }


def before_from(document: Json, store: ChunkStore) -> Capture:
    """The capture that such a document says. `BundleError`."""
    try:
        if document["form"] != BEFORE:
            raise ValueError(f"not of form {BEFORE}")
        return capture_from(document["captures"], states_from(document["states"], store))
    except _ODD as error:
        raise BundleError(f"the state before: {error!r}"[:500]) from error


def put_states(capture: Capture, store: ChunkStore) -> None:
    """All chunks of a capture are in the store."""
    for part in capture.parts:
        for table in part.state.tables.values():
            for batch in table.batches():
                store.put(batch)


def after_document(before: Capture, after: Capture, store: ChunkStore | None) -> Json:
    """The capture after: its readings, and the rows that differ; else its chunks, by digest.

    These are put into the store; without one they are there already.
    """
    found = {"captures": doc.capture_document(after)}
    rows = _rows(before, after)
    if rows is not None and len(write(rows)) <= INLINE_BYTES:
        return {**found, "rows": rows}
    if store is not None:
        put_states(after, store)
    return {**found, "states": states_document([after])}


def after_from(document: Json, before: Capture, store: ChunkStore) -> Capture:
    """The capture after that such a document makes of the one before. `BundleError`."""
    try:
        listed = document["captures"]
        if "states" in document:
            return capture_from(listed, states_from(document["states"], store))
        states = {part.reading.source: part.state for part in before.parts}
        tables: dict[str, dict[str, Table]] = {}
        for source, name, changes in document["rows"]:
            table = states[source].tables[name]
            tables.setdefault(source, {})[name] = _changed(table, changes)
        made: dict[str, State] = {}
        for entry in listed:
            base = states[entry["reading"]["source"]]
            own = tables.get(entry["reading"]["source"])
            state = base if own is None else State(base.schema, {**base.tables, **own})
            if state.digest() != entry["state"]:
                raise ValueError("its rows do not make the state that was read")
            made[entry["state"]] = state
        return capture_from(listed, made)
    except _ODD as error:
        raise BundleError(f"the state after: {error!r}"[:500]) from error


def chunk_names(document: Json) -> set[str]:
    """The chunks that a document of a capture names. `BundleError`."""
    try:
        tables = document["states"]["tables"] if "states" in document else []
        found = {digest for *_, chunks in tables for _, digest, *_ in chunks}
        if not all(isinstance(digest, str) for digest in found):
            raise TypeError("a digest is a text")
    except _ODD as error:
        raise BundleError(f"chunks: {error!r}"[:500]) from error
    return found


_ODD: Final = (LookupError, TypeError, ValueError, AttributeError, InputError)
"""Errors that a document of another form raises."""


def decision(judgement: Judgement) -> Json:
    """The decision that a trainer got, and the digest that binds all of the judgement."""
    verdict = judgement.verdict
    parts: dict[str, list[int]] = {}
    if verdict is not Verdict.INCONCLUSIVE:
        for clause in judgement.clauses:
            counts = parts.setdefault(clause.stage.value, [0, 0])
            counts[0] += clause.truth is Truth.HOLDS
            counts[1] += 1
    whole = doc.judgement_bytes(judgement)
    return {
        "verdict": verdict.value,
        "reward": REWARDS[verdict.value],
        "parts": parts,
        "judgement": hashlib.sha256(whole).hexdigest(),
    }


def answer_from(document: Json) -> Value | NoAnswer:
    """The answer of such a document. `BundleError`."""
    try:
        return doc.answer_from(document)
    except _ODD as error:
        raise BundleError(f"the answer: {error!r}"[:500]) from error


def _rows(before: Capture, after: Capture) -> Json | None:
    """[source, type, changes] of each table that differs; None where that would not say all."""
    if [p.reading.source for p in before.parts] != [p.reading.source for p in after.parts]:
        return None
    found: list[Json] = []
    left = FEW_ROWS
    for one, two in zip(before.parts, after.parts, strict=True):
        if one.state is two.state:
            continue
        if (
            one.state.schema != two.state.schema
            or one.state.tables.keys() != two.state.tables.keys()
        ):
            return None
        for name, table in sorted(two.state.tables.items()):
            changes = _table_rows(one.state.tables[name], table, left)
            if changes is None:
                return None
            left -= len(changes)
            if changes:
                found.append([one.reading.source, name, changes])
    return found


def _table_rows(before: Table, after: Table, most: int) -> list[Json] | None:
    if before is after:
        return []
    alike = (before.type, before.partition, before.enumeration)
    if alike != (after.type, after.partition, after.enumeration):
        return None
    if before.chunks == after.chunks:
        return []
    found: list[Json] = []
    for change in table_changes(before, after):
        fields = _fields(change.before, change.after)
        if fields is None or len(found) == most:
            return None
        if fields or change.before is None or change.after is None:
            found.append([doc.key_document(change.key), None if change.after is None else fields])
    return found


def _fields(before: Mapping[str, Observed] | None, after: Mapping[str, Observed] | None) -> Any:
    """The fields of a row after that it did not have; None where they do not make the row."""
    sides = [side for side in (before, after) if side is not None]
    if any(isinstance(cell, Unobserved) for side in sides for cell in side.values()):
        return None
    if before is None or after is None:
        return doc.fields_document(tuple((after or {}).items()))
    if list(before) != list(after):
        return None
    return doc.fields_document(
        tuple((name, cell) for name, cell in after.items() if not same(before[name], cell))
    )


def _changed(table: Table, changes: Sequence[Json]) -> Table:
    gone, come = [], []
    for key, fields in changes:
        own: Key = doc.key_from(key)
        old = table.row(own)
        if old is not None:
            gone.append(old)
        if fields is not None:
            come.append({**(old or {}), **doc.fields_from(fields)})
    return patched(table, gone, come, LayeredChunks(table.store))
