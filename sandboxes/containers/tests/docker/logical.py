"""The logical types of a state, for comparing variants of one sandbox."""

from __future__ import annotations

from dataclasses import replace

from statediff.model.schema import EntityType
from statediff.model.state import State


def logical_types(state: State) -> dict[str, EntityType]:
    """Every type but schema objects; how a source spells its instants is left out."""
    return {
        t.name: replace(t, fields=tuple(replace(f, form=None) for f in t.fields))
        for t in state.schema.types
        if not t.name.startswith("db.")
    }
