"""What reviewers signed of trials, in a store: beside how the trials ended, and never in it.

The store keeps the files as they are; whose they are is checked when somebody asks, by the trust
file that they name. What no key of it signed, or is of another bundle, counts for nothing, and how
much of that there is is told.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from statediff.errors import BundleError
from statediff.evidence.verify import Signer
from statediff.suite.labels import (
    FOLDER,
    MAX_BYTES,
    Flagged,
    Labelled,
    Resolved,
    Signed,
    read_signed,
    settled,
    unreliable,
)  # fmt: skip
from statediff.suite.overview import Judged
from statediff.suite.records import Ended
from statediff.suite.review_terms import Label
from statediff.suite.store import Store
from statediff.suite.tables import OPINIONS, TRIALS

_NOT_READ: Final = ""
"""What is kept of a file that is none of ours: enough to be counted as one that nobody signed."""


@dataclass(frozen=True, kw_only=True)
class Opinion:
    """A trial of which a trusted reviewer said something."""

    run: str
    trial: str
    number: int | None
    judged: Judged
    agent: str
    ended: Ended
    label: Label | None
    """What was settled; None where it was only flagged."""
    flags: tuple[Flagged, ...]
    """Why it is not to be relied on, and who says so; none where nobody does."""


@dataclass(frozen=True)
class Opinions:
    """All that trusted reviewers said of the trials of some runs."""

    trials: tuple[Opinion, ...]
    """By run and name."""
    refused: int
    """Files that do not count: by other keys, damaged, or of another bundle."""

    def flagged(self, run: str) -> dict[str, tuple[Flagged, ...]]:
        """The flags of one run, by trial."""
        return {each.trial: each.flags for each in self.trials if each.run == run and each.flags}


def gather(store: Store, run: str, folder: Path) -> None:
    """What lies beside the bundles of the run is in the store, and nothing that does not."""
    found: dict[tuple[str, str], str] = {}
    known = {(trial, name) for trial, name in store.rows(
        sa.select(OPINIONS.c.trial, OPINIONS.c.name).where(OPINIONS.c.run == run)
    )}  # fmt: skip
    trials = {name for (name,) in store.rows(sa.select(TRIALS.c.name).where(TRIALS.c.run == run))}
    for trial in sorted(trials):
        place = folder / "trials" / trial / FOLDER
        try:
            names = [name for name in os.listdir(place) if name.endswith(".json")]  # noqa: PTH208 - many, and in time
        except OSError:
            continue  # nobody said anything
        for name in names:
            found[trial, name] = "" if (trial, name) in known else _content(place / name)
    store.put_opinions(
        run, [(*key, found[key]) for key in sorted(found) if key not in known],
        sorted(known - found.keys()),
    )  # fmt: skip


def opinions(store: Store, runs: Sequence[str] | None, trust: Sequence[Signer]) -> Opinions:
    """What reviewers said of the trials of the runs (None: of all), as far as `trust` lets them."""
    at = sa.and_(OPINIONS.c.run == TRIALS.c.run, OPINIONS.c.trial == TRIALS.c.name)
    columns = [
        TRIALS.c[name]
        for name in ("run", "name", "number", "contract", "version", "digest", "kernel", "agent",
                     "ended", "bundle")
    ]  # fmt: skip
    wanted = (
        sa.select(*columns, OPINIONS.c.content).select_from(OPINIONS.join(TRIALS, at))
        .where(sa.true() if runs is None else TRIALS.c.run.in_(list(runs)))
        .order_by(TRIALS.c.run, TRIALS.c.name)
    )  # fmt: skip
    said: dict[tuple[object, ...], list[Signed]] = defaultdict(list)
    refused = 0
    for *row, bundle, content in store.rows(wanted):
        try:
            each = read_signed(content.encode(), trust)
        except BundleError:
            refused += 1
            continue
        if each.bundle == bundle:
            said[tuple(row)].append(each)
        else:
            refused += 1
    return Opinions(tuple(_opinion(row, each) for row, each in said.items()), refused)


def _opinion(row: Sequence[object], said: Sequence[Signed]) -> Opinion:
    run, trial, number, contract, version, digest, kernel, agent, ended = row
    newest = {
        each.reviewer: each
        for each in sorted((e for e in said if isinstance(e, Labelled)), key=lambda e: e.at)
    }
    resolutions = sorted((e for e in said if isinstance(e, Resolved)), key=lambda e: e.at)
    return Opinion(
        run=str(run),
        trial=str(trial),
        number=number if isinstance(number, int) else None,
        judged=Judged(str(contract), str(version), str(digest), str(kernel)),
        agent=str(agent),
        ended=Ended(str(ended)),
        label=settled(list(newest.values()), resolutions),
        flags=unreliable(each for each in said if isinstance(each, Flagged)),
    )


def _content(path: Path) -> str:
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW), "rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError:
        return _NOT_READ
    # What a reviewer signs is ASCII; anything else would be refused anyway.
    return data.decode("ascii") if len(data) <= MAX_BYTES and data.isascii() else _NOT_READ
