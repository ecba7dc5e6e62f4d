"""Which trials a reviewer is shown, in which order, and through which evaluator's eyes.

Draws depend on a seed and on names alone, and the order tells no verdict.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from statediff.errors import BundleError, UsageError
from statediff.evidence.package import Bundle
from statediff.evidence.seal import is_sealed
from statediff.workspace.bundles import load_bundle
from statediff.workspace.runfolders import is_run, trials


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


@dataclass(frozen=True)
class DrawnTrial:
    """A trial that was drawn: the digest of its bundle, where that lies, and the labels' place."""

    digest: str
    path: Path
    folder: Path
    trust: Path | None

    def read(self) -> Bundle:
        """The bundle; `BundleError`."""
        return load_bundle(self.path, self.trust)[0]


def draw_trials(
    targets: Sequence[Path], size: int | None, seed: int, trust: Path | None = None
) -> list[DrawnTrial]:
    """The trials of runs and bundles, each once, in an order that tells no verdict.

    `size` of them, every verdict that occurs getting its share; all if None. `trust` says whose
    keys count for sealed copies.
    """
    if size is not None and size < 1:
        raise UsageError("--sample: expected at least one trial")
    found: dict[str, DrawnTrial] = {}
    verdicts: dict[str, str] = {}
    for target in targets:
        if is_run(target):
            for trial in trials(target):
                if trial.is_broken:
                    raise BundleError(f"{trial.name}: {trial.why}")
                if trial.bundle is not None:
                    digest = trial.bundle.digest
                    found[digest] = DrawnTrial(digest, trial.folder, trial.folder.parent, None)
                    verdicts[digest] = str(trial.bundle.manifest["verdict"])
            continue
        bundle, folder = load_bundle(target, trust if is_sealed(target) else None)
        keys = trust if is_sealed(target) else None
        found[bundle.digest] = DrawnTrial(bundle.digest, folder, folder.parent, keys)
        verdicts[bundle.digest] = str(bundle.manifest["verdict"])
    order = sample_bundles(verdicts, len(found) if size is None else size, seed)
    return [found[digest] for digest in order]
