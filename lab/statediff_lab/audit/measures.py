"""The findings of an audit, by class: how often a verifier passes harm, and fails what is right.

Shares are of runs that the verifier said anything of. Intervals are 95 %, over tasks: tasks are
drawn anew, whole, 2,000 times; where every task says the same, the interval is the exact one of as
many draws as there are tasks. Of one task there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from statediff.model.verdict import Verdict
from statediff.statistics.binomial import Rounding, clopper_pearson
from statediff_lab.audit.tries import Group, TaskAudit, Try
from statediff_lab.audit.verifiers import Said
from statediff_lab.importers.taxonomy import counted
from statediff_lab.statistics.bootstrap import Interval, mean_interval

RESAMPLES: Final = 2_000


@dataclass(frozen=True)
class Rate:
    """`hits` of `of` runs in `tasks` tasks, with the interval of the share over tasks."""

    hits: int
    of: int
    tasks: int
    interval: Interval | None = None


@dataclass(frozen=True)
class ClassRate:
    """How often the verifier is wrong about runs of one class."""

    group: Group
    kind: str
    wrong: Rate
    """Passed though it is harm; of right runs, not passed."""
    silent: int
    """Runs of which it said nothing; they are in no share, but for right runs."""
    ours: int
    """Of those on which it is wrong, how many our contract judges otherwise."""


@dataclass(frozen=True, kw_only=True)
class DomainAudit:
    """Everything about one verifier, or one domain of a suite."""

    name: str
    tasks: int
    audited: int
    """Tasks of which the verifier said something."""
    classes: tuple[ClassRate, ...]
    groups: tuple[ClassRate, ...]
    """The same by group; `kind` is empty."""
    labels: Mapping[str, int]
    """Runs on which it is wrong, by label of the taxonomy; a run may have several."""
    faults: tuple[tuple[str, str], ...]
    """(task, why it could not be audited)."""

    @property
    def blind(self) -> int:
        """Runs that it passes and must not."""
        return sum(c.wrong.hits for c in self.classes if c.group is not Group.RIGHT)

    @property
    def false_fails(self) -> int:
        """Right runs that it does not pass."""
        return sum(c.wrong.hits for c in self.classes if c.group is Group.RIGHT)


def measure(audits: Iterable[TaskAudit], seed: int) -> tuple[DomainAudit, ...]:
    """The figures of each domain, by name."""
    domains: dict[str, list[TaskAudit]] = {}
    for audit in audits:
        domains.setdefault(audit.domain, []).append(audit)
    return tuple(_domain(name, domains[name], seed) for name in sorted(domains))


def _domain(name: str, audits: Sequence[TaskAudit], seed: int) -> DomainAudit:
    kinds = sorted(
        {(t.group, t.kind) for audit in audits for t in audit.tries},
        key=lambda pair: (tuple(Group).index(pair[0]), pair[1]),
    )
    return DomainAudit(
        name=name,
        tasks=len(audits),
        audited=sum(any(t.said is not Said.NOTHING for t in a.tries) for a in audits),
        classes=tuple(
            _class(g, k, audits, seed, lambda t, g=g, k=k: (t.group, t.kind) == (g, k))  # type: ignore[misc]  # bound now
            for g, k in kinds
        ),
        groups=tuple(
            _class(g, "", audits, seed, lambda t, g=g: t.group is g)  # type: ignore[misc]  # bound now
            for g in Group
            if any(g is group for group, _ in kinds)
        ),
        labels=counted(t.labels for audit in audits for t in audit.tries),
        faults=tuple((a.task, a.fault) for a in audits if a.fault),
    )


def _class(
    group: Group, kind: str, audits: Sequence[TaskAudit], seed: int, is_of: Callable[[Try], bool]
) -> ClassRate:
    shown = [[t for t in audit.tries if is_of(t)] for audit in audits]
    counts = [
        [
            int(t.is_blind or t.is_false_fail)
            for t in tries
            if t.said is not Said.NOTHING or group is Group.RIGHT
        ]
        for tries in shown
    ]
    wrong = [t for tries in shown for t in tries if t.is_blind or t.is_false_fail]
    is_right = group is Group.RIGHT
    return ClassRate(
        group,
        kind,
        rate(counts, seed),
        sum(t.said is Said.NOTHING for tries in shown for t in tries),
        sum(t.ours is not None and (t.ours is Verdict.MATCH) == is_right for t in wrong),
    )


def rate(clusters: Sequence[Sequence[int]], seed: int) -> Rate:
    """The share of ones, each cluster a task."""
    filled = [cluster for cluster in clusters if cluster]
    hits, of = sum(map(sum, filled)), sum(map(len, filled))
    if len(filled) < 2:
        return Rate(hits, of, len(filled))
    if hits in (0, of):
        exact = clopper_pearson(len(filled) if hits else 0, len(filled), rounding=Rounding.NEAREST)
        return Rate(hits, of, len(filled), Interval(float(exact.low), float(exact.high)))
    interval = mean_interval(filled, seed, RESAMPLES, pools_equal=True)
    return Rate(hits, of, len(filled), interval)
