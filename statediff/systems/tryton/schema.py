"""What Tryton keeps for itself, laid over the types of the catalogue and of the schema file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from statediff.model.schema import Schema

CACHES: Final = frozenset({"ir_cache"})
_BECAUSE: Final = "it tells when the server emptied its caches last, and nothing depends on it"


def with_caches_outside(
    refine: Callable[[Schema], Schema] | None,
) -> Callable[[Schema], Schema]:
    """The refined schema; what the server says of its own caches is outside by default."""

    def refined(schema: Schema) -> Schema:
        logical = schema if refine is None else refine(schema)
        types = (
            replace(each, outside=_BECAUSE) if each.source_table in CACHES else each
            for each in logical.types
        )
        return replace(logical, types=tuple(types))

    return refined
