"""The outcome of a transaction at a gate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from statediff.model.verdict import Decision
from statediff.systems.relational.tools import Scalar
from statediff_gate.course import Changes
from statediff_gate.participant import Answer

Statement: TypeAlias = tuple[str, str, tuple[Scalar, ...]]
"""The source, one SQL statement, and what each `?` in it is."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The outcome of a transaction.

    It is neither true nor false: a decision has three values. Compare `decision`.
    """

    decision: Decision
    why: str = ""
    """Why it is not ALLOW."""
    is_committed: bool = False
    answers: tuple[Answer, ...] = ()
    """The answer to each statement."""
    digest: str | None = None
    """The digest of what it did, or would have done."""
    record: str | None = None
    """The name of the decision's record; of a hold, what an approval names."""
    changes: Mapping[str, Changes] = field(default_factory=dict, repr=False)

    def __bool__(self) -> bool:
        raise TypeError("an outcome is neither true nor false: compare `.decision`")
