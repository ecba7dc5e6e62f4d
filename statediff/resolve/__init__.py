"""Stage 2: from captures to one state per side, and every admissible way to pair their entities.

1. Combine what several sources deliver of one type; where admissible readings differ the value is
   unobserved, unless the contract names an authority.
2. Pair entities: by stable key first; by a declared natural key only where a type has none.
3. Line up the states that each source went through in between, where a history tells them.

Identity is conservative (docs/design.md §3): nothing is matched by similarity, candidates that tie
or only look alike leave several matchings, and no two keys are ever merged. Where the matchings are
too many to try, nothing is known of the type. This stage
knows nothing of what the contract wants.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import product
from typing import Final

from statediff.errors import AdapterError
from statediff.model.readings import Capture
from statediff.model.schema import Schema, merge_schemas
from statediff.model.timelines import Matching, Resolution
from statediff.resolve.history_matching import course_of
from statediff.resolve.merge_sources import Earlier, Scope, combine
from statediff.resolve.pairing import (
    MAX_MATCHINGS,
    IdentityRule,
    apply,
    natural_key,
    pair,
    withheld,
)

__all__ = ["RESOLVER", "IdentityRule", "natural_key", "resolve"]

RESOLVER: Final = "resolve@1"
"""Raised whenever the same states could be paired in another way; manifests name it."""


def resolve(
    before: Capture,
    after: Capture,
    rules: Sequence[IdentityRule] = (),
    authority: Mapping[str, str] | None = None,
    refused: Mapping[tuple[str, str], str] | None = None,
    must_report: Collection[str] | None = None,
) -> Resolution:
    """Every admissible matching of the two captures.

    `authority` names, per type, the source that decides when sources differ. `refused` gives the
    cause for each (side, source) whose reading may not be used: what it delivers is unobserved,
    no matter who else supplies it, if the source is one that `must_report` (None: every source is).
    """
    schema = _schema(before, after)
    scope = Scope(schema, _deliverers(before, after), authority or {}, refused or {}, must_report)
    first = combine(before, "before", scope)
    states = first, combine(after, "after", scope, earlier=Earlier(before, first))
    evidence = tuple(
        (t.name, _evidence(before, t.name), _evidence(after, t.name)) for t in schema.types
    )
    matchings = [Matching(states[0], states[1])]
    ambiguous: list[tuple[str, str]] = []
    opaque = True
    for rule in rules:
        found = pair(rule, matchings[0])
        if found.hopeless or len(matchings) * len(found.options) > MAX_MATCHINGS:
            cause = found.hopeless or "ambiguous identity: too many ways to pair"
            matchings = [withheld(m, rule.type, cause) for m in matchings]
            continue
        if found.cause:
            ambiguous.append((rule.type, found.cause))
            opaque = opaque and found.is_opaque
        matchings = [apply(m, rule, option) for m, option in product(matchings, found.options)]
    course, between = course_of(before, after, states, scope, {rule.type for rule in rules})
    return Resolution(
        tuple(matchings),
        tuple(ambiguous),
        differ_only_in_opaque_ids=opaque,
        readings_of=evidence,
        course=course,
        between=between,
    )


def _schema(before: Capture, after: Capture) -> Schema:
    try:
        parts = tuple(p.state.schema for p in (*before.parts, *after.parts))
        return merge_schemas(parts)
    except ValueError as error:
        raise AdapterError(f"the captures do not fit together: {error}") from error


def _deliverers(before: Capture, after: Capture) -> dict[str, frozenset[str]]:
    """Which sources deliver a type on either side, by what they say or by what they delivered."""
    found: dict[str, set[str]] = {}
    for part in (*before.parts, *after.parts):
        for name in part.state.schema.by_name:
            found.setdefault(name, set()).add(part.reading.source)
            found[name].update(part.state.schema.sources_of(name))
    return {name: frozenset(sources) for name, sources in found.items()}


def _evidence(capture: Capture, type_name: str) -> tuple[str, ...]:
    return tuple(p.reading.id for p in capture.parts if type_name in p.state.schema.by_name)
