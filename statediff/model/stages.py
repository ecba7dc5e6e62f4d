"""What one stage hands to the next. Data goes one way (docs/design.md §9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from statediff.model.state import State
from statediff.model.timelines import NO_TIMELINES, Timelines
from statediff.model.values import Key


@dataclass(frozen=True)
class IdentityPair:
    """One resolved identity: the rule that joined them, and the keys on both sides."""

    type: str
    rule: str
    before: Key
    after: Key


@dataclass(frozen=True)
class Matching:
    """One admissible way to pair entities: the two states with paired entities under one key."""

    before: State
    after: State
    pairs: tuple[IdentityPair, ...] = ()


@dataclass(frozen=True)
class Resolution:
    """Stage 2's result: every admissible matching (at least one), and what stays in doubt.

    `ambiguous` names the types over whose identity the matchings differ, with the cause. When
    there are too many matchings to enumerate, nothing of the type is observed instead. Where the
    candidates `differ_only_in_opaque_ids`, the matchings are the same but for these ids.
    """

    matchings: tuple[Matching, ...]
    ambiguous: tuple[tuple[str, str], ...] = ()
    differ_only_in_opaque_ids: bool = True
    readings_of: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = ()
    """(type, evidence ids before, evidence ids after), sorted by type."""
    course: Timelines = NO_TIMELINES
    """What lay between; `between` holds its states by the name of their side."""
    between: Mapping[str, State] = field(default_factory=dict)
