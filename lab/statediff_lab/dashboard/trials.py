"""The trials of a dashboard that fit a choice, a page at a time, and by what they are sorted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final

from statediff.model.codes import Stage, meaning_of
from statediff.reports.html import words
from statediff.reports.html.cells import cut, name
from statediff.reports.html.page import render
from statediff.reports.html.words import Sign
from statediff.suite import overview
from statediff.suite.overview import LEVELS, PAGE, TrialPlace
from statediff.suite.records import Ended, domain_of
from statediff.suite.spans import SpanCounts
from statediff.suite.store import Store
from statediff_lab.dashboard.parts import KIND, SIGNS, Choice, address

MAX_OPTIONS: Final = 300
"""Values of one field that can be chosen; an address may name any other."""
_STAGES: Final = {stage.value: at for at, stage in enumerate(Stage)}
_HEADS: Final = (
    ("ended", "Verdict"),
    ("name", "Trial"),
    ("case", "Contract"),
    ("agent", "Agent"),
    ("started", "Run"),
    ("", "Reason"),
    ("time", "Time"),
    ("cost", "Cost"),
)
"""By what a column sorts, and its title."""


@dataclass(frozen=True)
class Entry:
    """One trial of a list."""

    name: str
    sign: Sign
    contract: str
    agent: str
    run: str
    link: str
    reason: str
    clause: str
    more: int
    results: tuple[tuple[str, Sign], ...]
    calls: str
    """How many calls were recorded, and how many of them are wrong by themselves."""
    seconds: str
    cost: str


@dataclass(frozen=True)
class Option:
    """One value that a field of a form may have."""

    value: str
    text: str
    is_chosen: bool


@dataclass(frozen=True)
class FormField:
    """A field of a form, with its values; the first is none."""

    key: str
    title: str
    options: tuple[Option, ...]


@dataclass(frozen=True)
class Head:
    """The head of a column, and where it is sorted by that."""

    title: str
    link: str
    order: str
    """`ascending`, `descending` or empty."""


@dataclass(frozen=True)
class Trials:
    """A page of the trials that fit a choice."""

    root: str
    chosen: tuple[tuple[str, str], ...]
    fields: tuple[FormField, ...]
    hidden: tuple[tuple[str, str], ...]
    heads: tuple[Head, ...]
    first: int
    entries: tuple[Entry, ...]
    back: str
    on: str


def trials_page(
    store: Store,
    runs: Sequence[str] | None,
    chosen: Choice,
    root: str,
    page: int,
    names: Mapping[str, str],
) -> str:
    """The trials that fit, a page of them; `names` are the runs' names by their ids."""
    found = overview.find_trials(
        store, chosen, runs=runs, limit=PAGE + 1, offset=page * PAGE, with_findings=True
    )
    view = Trials(
        root,
        tuple((what, value) for what, value in _told(chosen, names) if value),
        _fields(store, runs, chosen, names),
        tuple(
            (key, value) for key in ("sort", "down") if (value := chosen.fields()[key]) is not None
        ),
        tuple(_head(key, title, chosen, root) for key, title in _HEADS),
        page * PAGE + 1,
        tuple(_entry(place, root, names) for place in found[:PAGE]),
        chosen.link(root, page - 1) if page else "",
        chosen.link(root, page + 1) if len(found) > PAGE else "",
    )
    return render("trials.html", view, KIND)


def _told(chosen: Choice, names: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return (
        ("run", "" if chosen.run is None else name(names.get(chosen.run, chosen.run))),
        ("domain", name(chosen.domain or "")),
        ("contract", name(chosen.contract or "")),
        ("agent", name(chosen.agent or "")),
        ("verdict", "" if chosen.ended is None else SIGNS[chosen.ended].word),
        ("clause", name(chosen.clause or "")),
        ("reason", _reason(chosen.code) if chosen.code else ""),
        ("levels", LEVELS[chosen.levels].title if chosen.levels else ""),
    )


def _fields(
    store: Store, runs: Sequence[str] | None, chosen: Choice, names: Mapping[str, str]
) -> tuple[FormField, ...]:
    values = overview.choices(store, runs)
    contracts = sorted({contract for contract, _ in values.tried})
    every: tuple[tuple[str, str, str | None, list[tuple[str, str]]], ...] = (
        ("run", "Run", chosen.run, [(run, names[run]) for run in sorted(names, key=names.get)]),  # type: ignore[arg-type]
        ("domain", "Domain", chosen.domain, _same({domain_of(each) for each in contracts})),
        ("contract", "Contract", chosen.contract, _same(contracts)),
        ("agent", "Agent", chosen.agent, _same({agent for _, agent in values.tried if agent})),
        (
            "ended",
            "Verdict",
            None if chosen.ended is None else chosen.ended.value,
            [(each.value, SIGNS[each].word) for each in Ended],
        ),
        ("clause", "Clause", chosen.clause, _same({clause for clause, _ in values.broken})),
        (
            "code",
            "Reason",
            chosen.code,
            sorted((code, _reason(code)) for code in {code for _, code in values.broken}),
        ),
        ("levels", "Levels", chosen.levels, [(key, each.title) for key, each in LEVELS.items()]),
    )
    return tuple(
        FormField(
            key,
            title,
            tuple(Option(value, name(text), value == now) for value, text in known[:MAX_OPTIONS]),
        )
        for key, title, now, known in every
        if len(known) > 1 or now is not None
    )


def _same(values: Sequence[str] | set[str]) -> list[tuple[str, str]]:
    return [(value, value) for value in sorted(values)]


def _head(key: str, title: str, chosen: Choice, root: str) -> Head:
    if not key:
        return Head(title, "", "")
    is_now = chosen.sort == key
    link = replace(chosen, sort=key, is_down=is_now and not chosen.is_down).link(root)
    order = ("descending" if chosen.is_down else "ascending") if is_now else ""
    return Head(title, link, order)


def _reason(code: str) -> str:
    return cut(meaning_of(code) or code)


def _entry(place: TrialPlace, root: str, names: Mapping[str, str]) -> Entry:
    trial = place.trial
    worst = sorted(
        trial.loose, key=lambda each: (each.truth != "FAILS", _STAGES.get(each.stage, 0))
    )
    first = worst[0] if worst else None
    results = (("State", trial.outcome), ("Answer", trial.task), ("Tool calls", trial.tool))
    return Entry(
        name(trial.name),
        SIGNS[trial.ended],
        cut(f"{trial.contract} {trial.version}".strip()),
        name(trial.agent) or "unknown",
        name(names.get(trial.run, trial.run)),
        report_link(root, trial.run, trial.name) if trial.ended.has_verdict else "",
        cut(trial.why) if first is None else _reason(first.code),
        "" if first is None else name(first.clause),
        max(len(worst) - 1, 0),
        tuple((title, words.result(found)) for title, found in results if found is not None),
        str(SpanCounts(trial.calls, trial.calls_wrong, trial.calls_unknown)) if trial.calls else "",
        "" if trial.agent_microseconds is None else f"{trial.agent_microseconds / 1e6:,.2f} s",
        "" if trial.cost_nano is None else f"{Decimal(trial.cost_nano).scaleb(-9):,.4f}",
    )


def report_link(root: str, run: str, trial: str) -> str:
    """The address of the report of a trial."""
    return address(root, "report", {"run": run, "name": trial})
