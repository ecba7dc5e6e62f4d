"""Published judges on trial: their verdicts beside labels of the same runs, and beside each other.

The labels are people's, or a deterministic rule's; the page says which. A verdict that the judge
gave in another form than asked counts as its benchmark counted it.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final

from statediff.errors import InputError
from statediff.model.values import printable
from statediff.statistics.repeats import Reruns, reruns
from statediff_lab.audit.measures import Rate, rate
from statediff_lab.importers.recorded import read_objects
from statediff_lab.importers.taxonomy import Cause
from statediff_lab.labels import Label, cohen, fleiss

PASSES: Final = {"success": True, "pass": True, "failure": False, "fail": False}


@dataclass(frozen=True, kw_only=True)
class JudgeFigures:
    """One judge over all labelled runs; every run is a task of its own."""

    judge: str
    agreement: Rate
    passed: Rate
    precision: Rate
    """Of the runs that it passes, those that the label passes."""
    lenient: Rate
    """Passed, of the runs that the label fails."""
    strict: Rate
    """Failed, of the runs that the label passes."""
    kappa: Fraction | None
    """Cohen's, with the label."""
    causes: tuple[tuple[Cause, int], ...]
    """Its disagreements with the label, by what the verdicts themselves say of their cause."""


@dataclass(frozen=True, kw_only=True)
class JudgeStudy:
    """All judges of one set of runs."""

    name: str
    labels: str
    """Whose the labels are."""
    passed: Rate
    """By the labels."""
    judges: tuple[JudgeFigures, ...]
    kappas: tuple[tuple[str, str, Fraction | None], ...]
    """Cohen's kappa of each two judges."""
    fleiss: Fraction | None
    """Of all judges, without the label."""
    spread: Reruns
    """Of the share that each judge passes."""


Verdicts = Mapping[str, Mapping[str, bool]]
"""Judge → run → whether it passes."""


def compare_judges(
    name: str, labels: Mapping[str, bool], verdicts: Verdicts, whose: str, seed: int
) -> JudgeStudy:
    """The figures of each judge, most agreement first."""
    split = _split(verdicts)
    figures = [_figures(judge, labels, said, split, seed) for judge, said in verdicts.items()]
    shares = [Fraction(f.passed.hits, f.passed.of) for f in figures]
    runs = [{j: _label(said[run]) for j, said in verdicts.items() if run in said} for run in labels]
    return JudgeStudy(
        name=name,
        labels=whose,
        passed=rate([[int(p)] for p in labels.values()], seed),
        judges=tuple(sorted(figures, key=lambda f: (-f.agreement.hits, f.judge))),
        kappas=tuple(
            (one, other, cohen([(e[one], e[other]) for e in runs if one in e and other in e]))
            for one, other in itertools.combinations(sorted(verdicts), 2)
        ),
        fleiss=fleiss(runs)[1],
        spread=reruns(shares),
    )


def _split(verdicts: Verdicts) -> frozenset[str]:
    """The runs of which judges say different things."""
    found: dict[str, set[bool]] = {}
    for said in verdicts.values():
        for run, passes in said.items():
            found.setdefault(run, set()).add(passes)
    return frozenset(run for run, words in found.items() if len(words) > 1)


def _label(passes: bool) -> Label:
    return Label.CORRECT if passes else Label.INCORRECT


def _figures(
    judge: str,
    labels: Mapping[str, bool],
    said: Mapping[str, bool],
    split: frozenset[str],
    seed: int,
) -> JudgeFigures:
    pairs = [(said[run], label) for run, label in labels.items() if run in said]
    wrong = [run for run, label in labels.items() if said.get(run, label) != label]
    causes = Counter(Cause.JUDGE_VARIANCE if run in split else Cause.UNEXPLAINED for run in wrong)

    def share(hits: Sequence[bool]) -> Rate:
        return rate([[int(hit)] for hit in hits], seed)

    return JudgeFigures(
        judge=judge,
        agreement=share([passes == label for passes, label in pairs]),
        passed=share([passes for passes, _ in pairs]),
        precision=share([label for passes, label in pairs if passes]),
        lenient=share([passes for passes, label in pairs if not label]),
        strict=share([not passes for passes, label in pairs if label]),
        kappa=cohen([(_label(passes), _label(label)) for passes, label in pairs]),
        causes=tuple((cause, causes[cause]) for cause in Cause if causes[cause]),
    )


def judge_file(path: Path, seed: int = 0) -> JudgeStudy:
    """The judges of a file of JSON lines; `InputError` for a damaged or an ambiguous one.

    A line is a label (`run`, `label`) or a verdict (`run`, `judge`, `verdict`), and says pass or
    fail (success or failure). Verdicts on runs without a label count between judges only.
    """
    labels: dict[str, bool] = {}
    verdicts: dict[str, dict[str, bool]] = {}
    for at, line in enumerate(judge_lines(path, ("run",)), start=1):
        run, said = str(line["run"]), line.get("label", line.get("verdict"))
        place = f"{printable(path.name)}, line {at}"
        if said not in PASSES or ("label" in line) == ("judge" in line and "verdict" in line):
            raise InputError(
                f"{place}: expected `label`, or `judge` and `verdict`, one of {', '.join(PASSES)}"
            )
        told = labels if "label" in line else verdicts.setdefault(str(line["judge"]), {})
        if run in told:
            raise InputError(f"{place}: {printable(run)} is there twice")
        told[run] = PASSES[str(said)]
    if not labels or not verdicts:
        raise InputError(f"{printable(path.name)}: expected labels and verdicts")
    for judge, known in verdicts.items():
        if not labels.keys() & known.keys():
            raise InputError(f"{printable(path.name)}: {printable(judge)} judged no labelled run")
    return compare_judges(printable(path.name), labels, verdicts, "the file's", seed)


def judge_lines(path: Path, names: Sequence[str]) -> list[Mapping[str, object]]:
    """The lines of a file of verdicts, which all have the names. `InputError`."""
    found = []
    for where, entry in read_objects(path):
        if not all(name in entry for name in names):
            raise InputError(f"{where}: expected {', '.join(names)}")
        for name in {"human", "verdict"} & set(names):
            if str(entry[name]) not in PASSES:
                raise InputError(f"{where}: {name}: expected one of {', '.join(PASSES)}")
        found.append(entry)
    return found
