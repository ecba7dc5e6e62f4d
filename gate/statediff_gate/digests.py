"""The digest of what a transaction does, up to keys that the system itself gives to new rows.

An approval is bound to this digest. A number that the system gives to a new row may be another one
when the statements run again, so that a key of one whole number stands for the row's content, and a
reference to the row too. Every other value counts, a key that somebody chose among them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from statediff.evidence import documents as doc
from statediff.evidence.canonical import write
from statediff.model.batches import Row
from statediff.model.schema import COUNTERS, EntityType, Kind, Schema
from statediff_gate.course import Changes

_ROUNDS = 3
"""New rows differ by what they refer to, and by what that refers to."""


def digest_of(changes: Mapping[str, Changes], schemas: Mapping[str, Schema]) -> str:
    """The digest of the changes of each source, in hex."""
    rows = list(_rows(changes, schemas))
    labels: dict[tuple[str, str, Any], str] = {}
    numbered = [
        ((source, entity.name, row[entity.key[0]]), source, entity, side, row)
        for source, entity, side, row in rows
        if _is_numbered(entity)
    ]
    there = {place for place, _, _, side, _ in numbered if side == "gone"}
    for _ in range(_ROUNDS):
        labels = {
            place: hashlib.sha256(write(_content(source, entity, row, labels))).hexdigest()
            for place, source, entity, side, row in numbered
            if side == "come" and place not in there
        }
    listed = [
        [source, entity.name, side, _content(source, entity, row, labels)]
        for source, entity, side, row in rows
    ]
    return hashlib.sha256(write(sorted(listed, key=write))).hexdigest()


def _rows(
    changes: Mapping[str, Changes], schemas: Mapping[str, Schema]
) -> Iterator[tuple[str, EntityType, str, Row]]:
    for source, types in changes.items():
        for name, edits in types.items():
            entity = schemas[source].by_name[name]
            if name == COUNTERS:
                continue  # they follow the rows, and new keys are aside
            yield from ((source, entity, "gone", row) for row in edits.gone)
            yield from ((source, entity, "come", row) for row in edits.come)


def _is_numbered(entity: EntityType) -> bool:
    return len(entity.key) == 1 and entity.by_name[entity.key[0]].kind is Kind.INT


def _content(source: str, entity: EntityType, row: Row, labels: Mapping[Any, str]) -> Any:
    found = []
    own = (source, entity.name, row[entity.key[0]]) if _is_numbered(entity) else None
    for name, value in row.items():
        field = entity.by_name.get(name)
        target = None if field is None else field.reference
        if own is not None and name == entity.key[0] and own in labels:
            found.append([name, ["new"]])
        elif target is not None and (source, target, value) in labels:
            found.append([name, ["new", labels[source, target, value]]])
        else:
            found.append([name, doc.fields_document(((name, value),))])
    return found
