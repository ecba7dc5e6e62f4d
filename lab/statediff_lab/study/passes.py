"""Labels of recorded runs as passes gave them: who each was, what it said, and what is settled.

A pass labels the sample of a registration without knowing another's labels; a settling reads what
two passes differ on. Each says what it was: a person, a program or a model. Times are a person's;
nobody else's count as how long somebody took to see something. What both passes say alike is
settled, else what the settling says; what nobody settled is unresolvable.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from pydantic import TypeAdapter

from statediff.errors import InputError
from statediff.evidence.canonical import write
from statediff_lab.labels import Label, cohen
from statediff_lab.statistics.bootstrap import Draws, Interval, middle
from statediff_lab.study.planning import Registration, read_file_of

if TYPE_CHECKING:
    from statediff.model.columns import Mask

FORM: Final = "statediff/study-labels/1"
MAX_REASON: Final = 600
RunName: TypeAlias = tuple[str, str]
"""Domain and run."""


class Labeller(StrEnum):
    """The source of the labels of a pass."""

    PERSON = "person"
    PROGRAM = "program"
    MODEL = "model"


class Part(StrEnum):
    """The purpose of the labels of a file."""

    PASS = "pass"  # noqa: S105 - a word of the protocol
    SETTLING = "settling"


@dataclass(frozen=True, kw_only=True)
class GivenLabel:
    """One label and its reason."""

    domain: str
    run: str
    label: Label
    kind: str
    """Of failure, in the words of the instructions."""
    reason: str
    seconds: int | None = None
    """How long a person took; None of everybody else."""


@dataclass(frozen=True, kw_only=True)
class LabelFile:
    """One pass over a sample, or the settling of two."""

    registration: str
    """The digest of the registration."""
    name: str
    part: Part
    by: Labeller
    version: str
    """Of the program or model, or that it is not known; what a person is called."""
    saw: str
    """What was shown, in words."""
    labels: tuple[GivenLabel, ...]
    """By domain and run."""
    form: str = FORM

    def written(self) -> bytes:
        """The file's bytes: canonical JSON and a newline."""
        tree = asdict(self)
        ordered = sorted(tree["labels"], key=lambda each: (each["domain"], each["run"]))
        return write({**tree, "labels": ordered}) + b"\n"

    @property
    def digest(self) -> str:
        """SHA-256 of the file, by which a log names it."""
        return hashlib.sha256(self.written()).hexdigest()

    @property
    def by_run(self) -> Mapping[RunName, Label]:
        return {(each.domain, each.run): each.label for each in self.labels}


@lru_cache
def _shape() -> TypeAdapter[LabelFile]:
    return TypeAdapter(LabelFile)


def read_labels(data: bytes) -> LabelFile:
    """The labels in a file's bytes. `InputError` where it is none of this form."""
    found = read_file_of(_shape(), data, "labels")
    labels = found.labels
    if found.form != FORM or found.written() != data:
        raise InputError("labels: of a form that this version does not know, or not as written")
    if len(found.by_run) < len(labels):
        raise InputError("labels: one run has two labels")
    if any(each.seconds is not None for each in labels) and found.by is not Labeller.PERSON:
        raise InputError(f"labels: of a {found.by.value} there are no times, only of a person")
    if any(not each.reason.strip() or len(each.reason) > MAX_REASON for each in labels):
        raise InputError(f"labels: every label has a reason of at most {MAX_REASON} characters")
    return found


@dataclass(frozen=True)
class Labelling:
    """The passes over one sample, and what they settle."""

    registration: Registration
    passes: tuple[LabelFile, LabelFile]
    settling: LabelFile | None

    @property
    def settled(self) -> Mapping[RunName, Label]:
        """Every run that a pass labelled, with the label that counts."""
        one, other = (each.by_run for each in self.passes)
        more = {} if self.settling is None else self.settling.by_run
        found = {}
        for run in sorted({*one, *other}):
            is_same = run in one and one[run] is other.get(run)
            found[run] = one[run] if is_same else more.get(run, Label.UNRESOLVABLE)
        return found

    @property
    def missing(self) -> int:
        """How many runs of the sample no pass labelled."""
        return len(self.registration.sample) - len(self.settled)


def labelling(registration: Registration, files: Sequence[LabelFile]) -> Labelling:
    """Two passes, and maybe a settling. `InputError` where they do not go together."""
    passes = [each for each in files if each.part is Part.PASS]
    settlings = [each for each in files if each.part is Part.SETTLING]
    if len(passes) != 2 or len(settlings) > 1:
        raise InputError("labels: expected those of two passes, and of at most one settling")
    if passes[0].name == passes[1].name:
        raise InputError("labels: both passes have one name; one pass is no second opinion")
    sample = {(each.domain, each.run) for each in registration.sample}
    for file in files:
        if file.registration != registration.digest:
            raise InputError(f"labels: {file.name} is of another registration")
        if not file.by_run.keys() <= sample:
            raise InputError(f"labels: {file.name} labels a run that was not drawn")
    found = Labelling(registration, (passes[0], passes[1]), settlings[0] if settlings else None)
    one, other = (each.by_run for each in passes)
    alike = {run for run in one if one[run] is other.get(run)}
    if settlings and settlings[0].by_run.keys() & alike:
        raise InputError("labels: the settling is of a run on which the passes agree")
    return found


# ---------------------------------------------------------------- how far they agree


@dataclass(frozen=True, kw_only=True)
class PassAgreement:
    """Two passes over one domain."""

    domain: str
    runs: int
    """Those that both labelled."""
    agree: int
    interval: Interval | None
    """Of the share on which they agree."""
    kappa: float | None
    """Cohen's; None where chance alone would agree always."""
    kappa_interval: Interval | None
    labels: Mapping[str, Mapping[str, int]]
    """By pass: how many of each label."""
    settled: Mapping[str, int]
    """How many of each label count in the end."""
    open: int
    """Disagreements that nobody settled; they count as unresolvable."""


def agreements(found: Labelling, seed: int, resamples: int) -> tuple[PassAgreement, ...]:
    """By domain; intervals of a bootstrap over tasks and then runs. Nothing is pooled."""
    domains = sorted({each.domain for each in found.registration.sample})
    return tuple(_agreement(found, domain, seed, resamples) for domain in domains)


def _agreement(found: Labelling, domain: str, seed: int, resamples: int) -> PassAgreement:
    one, other = found.passes
    first, second, settled = one.by_run, other.by_run, found.settled
    runs = [each for each in found.registration.sample if each.domain == domain]
    both = [e for e in runs if (domain, e.run) in first and (domain, e.run) in second]
    pairs = [(first[domain, each.run], second[domain, each.run]) for each in both]
    kappa = cohen(pairs)
    draws = Draws([each.task for each in both], seed, resamples) if both else None
    same = np.array([a is b for a, b in pairs], dtype=np.bool_)
    more = {} if found.settling is None else found.settling.by_run
    return PassAgreement(
        domain=domain,
        runs=len(both),
        agree=int(same.sum()),
        interval=None if draws is None else draws.share(same, np.ones_like(same)),
        kappa=None if kappa is None else float(kappa),
        kappa_interval=None if draws is None else _kappa_interval(draws, pairs, same),
        labels={
            each.name: _counted(label for (d, _), label in each.by_run.items() if d == domain)
            for each in (one, other)
        },
        settled=_counted(label for (d, _), label in settled.items() if d == domain),
        open=sum(
            first.get(run) is not second.get(run) and run not in more
            for run in settled
            if run[0] == domain
        ),
    )


def _kappa_interval(
    draws: Draws, pairs: Sequence[tuple[Label, Label]], same: Mask
) -> Interval | None:
    masks = [
        tuple(np.array([pair[at] is label for pair in pairs], dtype=np.bool_) for at in (0, 1))
        for label in Label
    ]
    total = draws.drawn(np.ones_like(same)).astype(float)
    chance = sum(draws.drawn(a) * draws.drawn(b) for a, b in masks) / total**2
    observed = draws.drawn(same) / total
    is_defined = chance < 1
    if not is_defined.any():
        return None
    kappas = (observed[is_defined] - chance[is_defined]) / (1 - chance[is_defined])
    return middle(kappas)


def _counted(labels: Iterable[Label]) -> dict[str, int]:
    return dict(sorted(Counter(label.value for label in labels).items()))
