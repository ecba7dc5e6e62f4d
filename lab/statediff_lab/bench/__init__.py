"""The costs of statediff, measured beside its peers in one run, with every result checked.

A measure is one function in one registry (`registry.measure`): it gets the `Plan`, times what it
times with `timed`, checks what came out, and yields `Row`s. `run` collects them in order; a measure
whose server or peer is missing yields a row that says so, never a number.

Times on a shared machine say little; ratios of medians of interleaved runs say more. So each row
has the floor or the peer it was measured beside, the ratio, and the target as a rule about either.
"""

from __future__ import annotations

from statediff_lab.bench import (
    capturing,
    deltas,
    diffing,
    resets,
    rewards,
    trialing,
)
from statediff_lab.bench.registry import MEASURES, BenchPlan, BenchRow, Judging, machine, run

__all__ = ["MEASURES", "BenchPlan", "BenchRow", "Judging", "machine", "run"]

MODULES = (diffing, capturing, deltas, resets, trialing, rewards)
"""Importing a module registers its measures, in this order."""
