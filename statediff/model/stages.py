"""What one stage hands to the next. Data goes one way (DESIGN.md §9); doubts travel as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from statediff.model.course import NO_COURSE, Course
from statediff.model.delta import Doubt
from statediff.model.state import State
from statediff.model.values import Key
from statediff.model.view import Canonicalizer


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
    there are too many matchings to enumerate, their entities are in `doubts` instead.
    """

    matchings: tuple[Matching, ...]
    doubts: tuple[Doubt, ...] = ()
    ambiguous: tuple[tuple[str, str], ...] = ()
    differ_only_in_opaque_ids: bool = True
    readings_of: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = ()
    """(type, evidence ids before, evidence ids after), sorted by type."""
    course: Course = NO_COURSE
    """What lay between; `between` holds its states by the name of their side."""
    between: Mapping[str, State] = field(default_factory=dict)


@dataclass(frozen=True)
class RuleUse:
    """One applied rule; `evaluate/applied.py` digests what went in and what came out [SSD §VII]."""

    rule: str
    type: str
    field: str
    because: str
    parameters: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Canonical:
    """Stage 3's result for one matching: raw states, ν over them, and the rules in use."""

    before: State
    after: State
    canonicalizer: Canonicalizer
    uses: tuple[RuleUse, ...] = ()
    doubts: tuple[Doubt, ...] = ()


Json = Any
