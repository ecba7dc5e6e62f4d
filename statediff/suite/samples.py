"""Which trials a reviewer is shown, in which order, and through which evaluator's eyes.

Draws depend on a seed and on names alone, and the order tells no verdict.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence


def sample_bundles(bundles: Mapping[str, str], size: int, seed: int) -> tuple[str, ...]:
    """A stratified sample of bundles (digest → verdict), in an order that tells no verdict.

    Every verdict that occurs gets its share, and at least one place where there is room. The same
    seed draws the same sample whatever the order of the bundles: places are ranked by a hash.
    """
    ranked = sorted(bundles, key=lambda digest: _sample_rank(digest, seed))
    strata: dict[str, list[str]] = {}
    for digest in ranked:
        strata.setdefault(bundles[digest], []).append(digest)
    wanted = min(size, len(ranked))
    shares = {name: wanted * len(members) // len(ranked) for name, members in strata.items()}
    for name in sorted(strata, key=lambda name: (shares[name], len(strata[name]), name)):
        if shares[name] == 0 and sum(shares.values()) < wanted:
            shares[name] = 1
    chosen = {digest for name, members in strata.items() for digest in members[: shares[name]]}
    for digest in ranked:  # what rounding left over
        if len(chosen) < wanted:
            chosen.add(digest)
    return tuple(digest for digest in ranked if digest in chosen)


def _sample_rank(digest: str, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}\x00{digest}".encode()).digest()


def counterbalanced(
    trials: Sequence[str], evaluators: Sequence[str], reviewer: int
) -> dict[str, str]:
    """By trial, the evaluator of which alone this reviewer sees what it shows.

    Reviewers are numbered from 0. As many reviewers as there are evaluators see each trial once
    through each of them; for one reviewer the numbers of trials by evaluator differ by at most one.
    The rows are those of Williams' square: of an even number of evaluators each follows every
    other equally often, so that no evaluator gains by what was seen before it (Williams, 1949).
    """
    size = len(evaluators)
    sequence = [(at + 1) // 2 if at % 2 else (size - at // 2) % size for at in range(size)]
    return {
        trial: evaluators[(sequence[at % size] + reviewer) % size]
        for at, trial in enumerate(trials)
    }
