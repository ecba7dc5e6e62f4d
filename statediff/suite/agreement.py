"""How far reviewers agree with each other, and verdicts with what reviewers settled.

Exact: every figure is a fraction, or None where it is not defined (nobody labelled the same trial,
or chance alone explains everything).
"""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import median
from typing import Final

from statediff.statistics.binomial import Share, clopper_pearson
from statediff.suite.records import domain_of
from statediff.suite.review_terms import Label

EXPECTED: Final = {"MATCH": Label.CORRECT, "DIVERGE": Label.INCORRECT}
"""The label that a verdict should meet; INCONCLUSIVE claims nothing."""

_DISAGREEMENTS: Final = {
    ("DIVERGE", Label.CORRECT): "false-negative",
    ("MATCH", Label.INCORRECT): "false-positive",
}
Votes = Sequence[Mapping[str, Label]]
"""For each trial, reviewer → label."""


@dataclass(frozen=True)
class Pair:
    """Two reviewers over the trials that both labelled."""

    one: str
    other: str
    trials: int
    agree: int
    kappa: Fraction | None
    """Cohen's."""


@dataclass(frozen=True)
class Against:
    """Verdicts beside settled labels, INCONCLUSIVE and unresolvable apart."""

    trials: int
    agree: int
    false_acceptances: int
    """MATCH where the run was incorrect."""
    false_rejections: int
    """DIVERGE where the run was correct."""
    inconclusive: int
    unresolvable: int


@dataclass(frozen=True, kw_only=True)
class Settled:
    """A trial whose label is settled, and its verdict."""

    trial: str
    contract: str
    version: str
    digest: str
    kernel: str
    verdict: str
    label: Label
    bundle: str
    """The digest of its bundle."""

    @property
    def disagreement(self) -> str | None:
        """How its verdict contradicts the label [TV eq. 5]; None where it does not."""
        return _DISAGREEMENTS.get((self.verdict, self.label))


@dataclass(frozen=True)
class Rates:
    """How often verdicts of one kernel contradict the labels of one domain [TV eqs. 5–6].

    Each share is None where a contract of the domain is there in two forms: they are two
    evaluators, and have no common rate.
    """

    domain: str
    kernel: str
    contracts: tuple[str, ...]
    decided: int
    """Trials with a MATCH or a DIVERGE and a label that says right or wrong."""
    error: Share | None
    """Of the decided ones."""
    false_negatives: Share | None
    """DIVERGE, of the decided runs that were correct."""
    false_positives: Share | None
    """MATCH, of the decided runs that were incorrect."""


def rates(settled: Sequence[Settled]) -> tuple[Rates, ...]:
    """By domain and kernel; there is no figure over all of them."""
    groups: dict[tuple[str, str], list[Settled]] = defaultdict(list)
    for each in settled:
        groups[domain_of(each.contract), each.kernel].append(each)
    return tuple(_rates(*key, members) for key, members in sorted(groups.items()))


def _rates(domain: str, kernel: str, members: Sequence[Settled]) -> Rates:
    forms = {(each.contract, each.version, each.digest) for each in members}
    decided = [e for e in members if e.verdict in EXPECTED and e.label is not Label.UNRESOLVABLE]
    is_one = len({contract for contract, _, _ in forms}) == len(forms)

    def share(of: Sequence[Settled]) -> Share | None:
        wrong = sum(each.disagreement is not None for each in of)
        return clopper_pearson(wrong, len(of)) if is_one else None

    return Rates(
        domain, kernel, tuple(sorted({f"{contract} {version}" for contract, version, _ in forms})),
        len(decided), share(decided),
        share([each for each in decided if each.label is Label.CORRECT]),
        share([each for each in decided if each.label is Label.INCORRECT]),
    )  # fmt: skip


def pairs(votes: Votes) -> tuple[Pair, ...]:
    """Every two reviewers who labelled a trial both, by name."""
    names = sorted({name for each in votes for name in each})
    found = []
    for one, other in itertools.combinations(names, 2):
        both = [(each[one], each[other]) for each in votes if one in each and other in each]
        if both:
            agree = sum(a == b for a, b in both)
            found.append(Pair(one, other, len(both), agree, cohen(both)))
    return tuple(found)


def cohen(both: Sequence[tuple[Label, Label]]) -> Fraction | None:
    """Cohen's kappa over pairs of labels; None where chance alone would agree always."""
    if not both:
        return None
    total = len(both)
    observed = Fraction(sum(a == b for a, b in both), total)
    one, other = Counter(a for a, _ in both), Counter(b for _, b in both)
    chance = sum((Fraction(one[x] * other[x], total * total) for x in Label), Fraction(0))
    return None if chance == 1 else (observed - chance) / (1 - chance)


def fleiss(votes: Votes) -> tuple[int, Fraction | None]:
    """(trials, Fleiss' kappa) over the trials that as many reviewers as possible labelled."""
    most = max((len(each) for each in votes), default=0)
    counted = [Counter(each.values()) for each in votes if len(each) == most]
    if most < 2:
        return 0, None
    total = len(counted)
    within = sum(
        (Fraction(sum(n * n for n in each.values()) - most, most * (most - 1)) for each in counted),
        Fraction(0),
    )
    shares = [Fraction(sum(each[x] for each in counted), total * most) for x in Label]
    chance = sum((share * share for share in shares), Fraction(0))
    return total, None if chance == 1 else (within / total - chance) / (1 - chance)


def against(verdicts: Sequence[tuple[str, Label]]) -> Against:
    """Verdicts and the labels that were settled for them, trial by trial."""
    decided = [
        (verdict, label)
        for verdict, label in verdicts
        if verdict in EXPECTED and label is not Label.UNRESOLVABLE
    ]
    return Against(
        trials=len(verdicts),
        agree=sum(EXPECTED[verdict] is label for verdict, label in decided),
        false_acceptances=sum(pair == ("MATCH", Label.INCORRECT) for pair in decided),
        false_rejections=sum(pair == ("DIVERGE", Label.CORRECT) for pair in decided),
        inconclusive=sum(verdict not in EXPECTED for verdict, _ in verdicts),
        unresolvable=sum(
            verdict in EXPECTED and label is Label.UNRESOLVABLE for verdict, label in verdicts
        ),
    )


def median_seconds(seconds: Sequence[int]) -> float | None:
    """The median time of a review; None without any."""
    return float(median(seconds)) if seconds else None


def sample(bundles: Mapping[str, str], size: int, seed: int) -> tuple[str, ...]:
    """A stratified sample of bundles (digest → verdict), in an order that tells no verdict.

    Every verdict that occurs gets its share, and at least one place where there is room. The same
    seed draws the same sample whatever the order of the bundles: places are ranked by a hash.
    """
    ranked = sorted(bundles, key=lambda digest: _rank(digest, seed))
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


def _rank(digest: str, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}\x00{digest}".encode()).digest()
