"""Two runs of a dashboard side by side: figures by domain, the cases that changed, and one case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from statediff.model.codes import meaning_of
from statediff.reports.html.cells import cut, name
from statediff.reports.html.page import render
from statediff.reports.html.words import NOT_RUN, Sign
from statediff.suite import overview
from statediff.suite.overview import PAGE
from statediff.suite.records import Loose, Trial
from statediff.suite.store import Store
from statediff_lab.comparison import (
    CaseChange,
    ComparedCase,
    Comparison,
    RunPart,
    agents_of,
    compare,
    side_figures,
    trials_of,
)
from statediff_lab.dashboard.parts import (
    KIND,
    SIGNS,
    MeasuredRow,
    address,
    measured_row,
)
from statediff_lab.dashboard.trials import FormField, Option, report_link
from statediff_lab.reports.comparison import TOLD, difference_line

if TYPE_CHECKING:
    from statediff.evidence.package import Bundle

SEED: Final = 0
"""Of the bootstrap."""
_ABSENT: Final = replace(NOT_RUN, word="NOT SCHEDULED")


@dataclass(frozen=True)
class Pair:
    """Which two parts of runs are compared, and which of their cases are listed."""

    a: str
    b: str
    agent_a: str | None = None
    agent_b: str | None = None
    change: CaseChange | None = None

    def link(self, root: str, page: int = 0, change: CaseChange | None = None) -> str:
        """The address of their comparison."""
        given = {
            "a": self.a,
            "b": self.b,
            "agent_a": self.agent_a,
            "agent_b": self.agent_b,
            "change": None if change is None else change.value,
            "page": str(page) if page else None,
        }
        return address(root, "compare", given)


@dataclass(frozen=True)
class CaseSide:
    """How a case ended on one side, and where its report is."""

    sign: Sign
    link: str


@dataclass(frozen=True)
class CaseRow:
    """One case that is listed."""

    name: str
    change: str
    a: CaseSide
    b: CaseSide
    new: tuple[str, ...]
    vanished: tuple[str, ...]
    link: str
    """To what changed; empty where a side has no verdict."""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """The page of a comparison; without `a` and `b` it is a form alone."""

    root: str
    fields: tuple[FormField, ...]
    trouble: str = ""
    sides: tuple[str, str] = ("", "")
    counts: tuple[tuple[str, int, str, bool], ...] = ()
    """(change, cases, link, whether these are listed)."""
    differences: tuple[tuple[str, str], ...] = ()
    """(domain, the difference in words)."""
    rows: tuple[MeasuredRow, ...] = ()
    cases: tuple[CaseRow, ...] = ()
    first: int = 1
    back: str = ""
    on: str = ""


def comparison_page(
    store: Store, pair: Pair | None, root: str, page: int, names: Mapping[str, str]
) -> str:
    """The two runs side by side; a form where it is not said which."""
    if pair is None:
        view = Compared(root=root, fields=_fields(None, names, ([], [])))
        return render("comparison.html", view, KIND)
    known = agents_of(store, pair.a), agents_of(store, pair.b)
    fields = _fields(pair, names, known)
    agents = [
        own[0] if given is None and len(own) == 1 else given
        for given, own in zip((pair.agent_a, pair.agent_b), known, strict=True)
    ]
    unsaid = [
        side
        for side, agent, own in zip("AB", agents, known, strict=True)
        if (agent is None and own) or (agent is not None and agent not in own)
    ]
    if unsaid:
        why = (
            f"Choose an agent of {' and of '.join(unsaid)}: it has trials of several, or of others."
        )
        return render("comparison.html", Compared(root=root, fields=fields, trouble=why), KIND)
    parts = RunPart(pair.a, agents[0]), RunPart(pair.b, agents[1])
    found = compare(trials_of(store, parts[0]), trials_of(store, parts[1]), SEED)
    listed = _listed(found, pair.change)
    at = page * PAGE
    view = Compared(
        root=root,
        fields=fields,
        sides=_titles(pair, agents, names),
        counts=tuple(
            (_word(change), len(found.of(change)), pair.link(root, change=change),
             change is pair.change)
            for change in CaseChange
            if found.of(change)
        ),
        differences=tuple(
            (name(domain), difference_line(of))
            for domain, of in found.domains.items()
            if of.decided
        ),
        rows=_rows(store, parts),
        cases=tuple(_case(case, pair, root) for case in listed[at : at + PAGE]),
        first=at + 1,
        back=pair.link(root, page - 1, pair.change) if page else "",
        on=pair.link(root, page + 1, pair.change) if len(listed) > at + PAGE else "",
    )  # fmt: skip
    return render("comparison.html", view, KIND)


def _fields(
    pair: Pair | None, names: Mapping[str, str], known: tuple[Sequence[str], Sequence[str]]
) -> tuple[FormField, ...]:
    runs = sorted(names.items(), key=lambda each: (each[1], each[0]))
    now = ("", "") if pair is None else (pair.a, pair.b)
    fields = [
        FormField(side, f"Run {side.upper()}", _options(runs, chosen))
        for side, chosen in zip("ab", now, strict=True)
    ]
    agents = (None, None) if pair is None else (pair.agent_a, pair.agent_b)
    for side, chosen, own in zip("ab", agents, known, strict=True):
        if len(own) > 1:
            options = _options([(agent, agent) for agent in own], chosen or "")
            fields.append(FormField(f"agent_{side}", f"Agent of {side.upper()}", options))
    return tuple(fields)


def _options(known: Sequence[tuple[str, str]], chosen: str) -> tuple[Option, ...]:
    return tuple(Option(value, name(text), value == chosen) for value, text in known)


def _titles(pair: Pair, agents: Sequence[str | None], names: Mapping[str, str]) -> tuple[str, str]:
    one, other = (
        name(names.get(run, run)) + (f", {name(agent)}" if agent else "")
        for run, agent in zip((pair.a, pair.b), agents, strict=True)
    )
    return one, other


def _rows(store: Store, parts: tuple[RunPart, RunPart]) -> tuple[MeasuredRow, ...]:
    """Domain by domain, A above B."""
    found = []
    for side, part in zip("AB", parts, strict=True):
        groups = [
            group
            for group in overview.groups(store, [part.run])
            if part.agent is None or group.agent == part.agent
        ]
        found += [
            measured_row(name(domain), side, own.counted, own.measures)
            for domain, own in side_figures(groups).items()
        ]
    return tuple(sorted(found, key=lambda row: (row.title, row.whose)))


def _listed(found: Comparison, change: CaseChange | None) -> Sequence[ComparedCase]:
    """The cases of one kind; of no kind, those whose ends or violations differ."""
    if change is not None:
        return found.of(change)
    failing = (c for c in found.of(CaseChange.BOTH_FAIL) if c.new or c.vanished)
    return [*(case for kind in TOLD for case in found.of(kind)), *failing]


def _case(case: ComparedCase, pair: Pair, root: str) -> CaseRow:
    a, b = _side(case.a, pair.a, root), _side(case.b, pair.b, root)
    both = None not in (case.a, case.b) and a.link and b.link
    given = {
        "a": pair.a,
        "b": pair.b,
        "name_a": case.a.name if case.a else None,
        "name_b": case.b.name if case.b else None,
    }
    return CaseRow(
        _name(case),
        _word(case.change),
        a,
        b,
        tuple(map(_violation, case.new)),
        tuple(map(_violation, case.vanished)),
        address(root, "case", given) if both else "",
    )


def _name(case: ComparedCase) -> str:
    return name(case.name if case.number is None else f"{case.contract} {case.number}")


def _side(trial: Trial | None, run: str, root: str) -> CaseSide:
    if trial is None:
        return CaseSide(_ABSENT, "")
    link = report_link(root, run, trial.name) if trial.ended.has_verdict else ""
    return CaseSide(SIGNS[trial.ended], link)


def _violation(found: Loose) -> str:
    return f"{name(found.clause)}: {cut(meaning_of(found.code) or found.code)}"


def _word(change: CaseChange) -> str:
    return change.value.replace("_", " ")


@dataclass(frozen=True)
class OneCase:
    """Two trials of a case side by side."""

    root: str
    title: str
    sides: tuple[CaseBundle, CaseBundle]
    calls: str


@dataclass(frozen=True)
class CaseBundle:
    """One of the two: how it ended, and what only it changed."""

    title: str
    sign: Sign
    link: str
    number: int
    lines: tuple[str, ...]
    turn: str


@dataclass(frozen=True)
class JudgedSide:
    """A trial of a case, as it is fetched."""

    title: str
    """Its run and its name."""
    link: str
    """To its report."""
    bundle: Bundle


def case_page(one: JudgedSide, other: JudgedSide, root: str) -> str:
    """The two trials, and where they part. `BundleError` if a bundle contradicts itself."""
    from statediff_lab.reports.differences import (  # noqa: PLC0415 - slow
        differences,
        parting_line,
    )

    inside = differences(one.bundle, other.bundle)
    sides = []
    for side, own, turn in (
        (one, inside.vanished, inside.first_failed_turn_a),
        (other, inside.new, inside.first_failed_turn_b),
    ):
        told = "" if turn is None else f"The first turn that fails its gate is {turn}."
        lines = tuple(map(cut, own.lines))
        sign = _sign(side.bundle.manifest["verdict"])
        sides.append(CaseBundle(name(side.title), sign, side.link, own.number, lines, told))
    title = name(one.bundle.manifest["contract"])
    view = OneCase(root, title, (sides[0], sides[1]), cut(parting_line(inside)))
    return render("case.html", view, KIND)


def _sign(verdict: object) -> Sign:
    return next((sign for ended, sign in SIGNS.items() if ended.value == verdict), _ABSENT)
