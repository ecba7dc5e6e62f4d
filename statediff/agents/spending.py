"""What a model's tokens cost: by the prices that somebody gives, or unknown.

A price is what one million tokens cost. Nothing is guessed: where a price or a server's count is
missing, so is the cost, and a limit on the cost cannot be asked for.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from statediff.errors import AdapterError, UsageError

_MILLION: Final = 1_000_000
_UNDONE: Final = "this trial was not carried through, and its agent is not to blame"


@dataclass(frozen=True)
class Prices:
    """Of one million tokens, in whatever currency; None where nobody says."""

    tokens_in: Decimal | None = None
    tokens_out: Decimal | None = None

    def cost(self, used: Usage) -> Decimal | None:
        """What the tokens cost; None where a price or a count is not known."""
        if self.tokens_in is None or self.tokens_out is None:
            return None
        if used.tokens_in is None or used.tokens_out is None:
            return None
        return (self.tokens_in * used.tokens_in + self.tokens_out * used.tokens_out) / _MILLION


@dataclass(frozen=True)
class Usage:
    """What was asked of a model. Tokens are None once one answer came without a count."""

    requests: int = 0
    retries: int = 0
    tokens_in: int | None = 0
    tokens_out: int | None = 0
    cost: Decimal | None = None

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.requests + other.requests,
            self.retries + other.retries,
            _sum(self.tokens_in, other.tokens_in),
            _sum(self.tokens_out, other.tokens_out),
        )

    def as_json(self) -> dict[str, object]:
        """Exact: the cost is text."""
        return {
            "requests": self.requests, "retries": self.retries, "tokens_in": self.tokens_in,
            "tokens_out": self.tokens_out,
            "cost": None if self.cost is None else f"{self.cost:f}",
        }  # fmt: skip


class Budget:
    """What all trials of a run may cost together; safe to use from several threads."""

    def __init__(
        self, prices: Prices, most: Decimal | None = None, left_undone: str = _UNDONE
    ) -> None:
        """`left_undone` says what the limit costs whoever reaches it."""
        if most is not None and (prices.tokens_in is None or prices.tokens_out is None):
            raise UsageError(
                "--max-cost needs to know what tokens cost; give --price-in and --price-out, each "
                "for one million tokens"
            )
        self.prices = prices
        self._most = most
        self._left_undone = left_undone
        self._spent = Decimal(0)
        self._lock = threading.Lock()

    def require_open(self) -> None:
        """There is something left to spend; else `AdapterError`: the trial has no verdict."""
        if self._most is not None and self._spent >= self._most:
            raise AdapterError(
                f"the run has cost {self._spent:f} and --max-cost is {self._most:f}; "
                f"{self._left_undone}"
            )

    def spend(self, used: Usage) -> None:
        """The tokens are paid for; `AdapterError` where a limit is asked for and no count came."""
        cost = self.prices.cost(used)
        if cost is None:
            if self._most is not None:
                raise AdapterError(
                    "the model's server does not say how many tokens it used, so --max-cost cannot "
                    "be kept; leave it out, or use a server that reports `usage`"
                )
            return
        with self._lock:
            self._spent += cost


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
