"""The residue of a reading: what its view does not say, by named part and digest.

View and residue together tell any two contents apart (`statediff.conformance.ResidueSuite`). A part
that nobody named stands in a type that is inside the boundary. Parts that programs write anew by
themselves have a type of their own, outside with the reason.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from statediff.model.schema import EntityType, Field, Kind
from statediff.model.values import Map


def residue_type(name: str, *key: str, because: str | None = None) -> EntityType:
    """A row for each thing that has residue; `because` says why it is outside the boundary."""
    fields = tuple(Field(part, Kind.TEXT, is_nullable=False) for part in key)
    parts = Field("residue", Kind.MAP, is_nullable=False)
    return EntityType(name, key, (*fields, parts), outside=because)


def residue(parts: Mapping[str, bytes]) -> Map:
    """Each part that says anything, by its digest."""
    return Map.of({n: hashlib.sha256(each).hexdigest() for n, each in parts.items() if each})
