"""The page of a run: every scheduled trial with its verdict and its first reason."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from statediff.evidence.package import Bundle
from statediff.reports.comparability import INCOMPARABLE, Judge, are_comparable, judge
from statediff.reports.html import words
from statediff.reports.html.cells import cut, name
from statediff.reports.html.words import Reason, Sign
from statediff.reports.record import Record, reading

Json = Any
MAX_TRIALS: Final = 5_000
"""Trials that a page lists, those that need a look first; it says how many more there are."""
MAX_CLAUSES: Final = 20
NOBODY: Final = Judge()
_ORDER: Final = ("fault", "diverge", "inconclusive", "match")
_GRAVITY: Final = (
    words.VERDICTS["DIVERGE"],
    words.FAULT,
    words.VERDICTS["INCONCLUSIVE"],
    words.NOT_RUN,
    words.VERDICTS["MATCH"],
)
"""What a run may hold, in the order of its exit code."""
_FIRST: Final = Reason("The trial has no bundle that can be read")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One trial of a run. `link` is a relative address, or empty where there is no page."""

    trial: str
    contract: str
    agent: str
    sign: Sign
    reason: Reason
    tally: str = ""
    results: tuple[tuple[str, Sign], ...] = ()
    clauses: tuple[tuple[Sign, str, str], ...] = ()
    """Those that do not hold: truth, sentence, id."""
    more: str = ""
    changes: int = 0
    link: str = ""
    judge: Judge = NOBODY


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run as its page shows it."""

    title: str
    lead: str
    sign: Sign
    scheduled: int
    counts: tuple[tuple[Sign, int], ...]
    """Empty where the verdicts are not comparable."""
    apart: tuple[tuple[str, tuple[tuple[Sign, int], ...]], ...]
    """Then these: by which contract and kernel, and the counts of its verdicts."""
    outcomes: tuple[Outcome, ...]
    more: str
    facts: tuple[tuple[str, str], ...]


def outcome(bundle: Bundle, folder: str, where: str = "the bundle", *, linked: bool) -> Outcome:
    """What the bundle of a trial says of it; `BundleError` if it contradicts itself.

    `folder` is the name of the trial's folder; `linked`, whether its page lies in there.
    """
    with reading(where):
        record = Record(bundle)
        judged = record.judgement
        loose = [c for c in judged["clauses"] if c["truth"] != "HOLDS"]
        found = words.reason(judged)
        return Outcome(
            trial=name(folder),
            contract=name(bundle.manifest["contract"]),
            agent=name(record.trial["agent"]),
            sign=words.verdict(judged["verdict"]),
            reason=Reason(found.lead, cut(found.found), cut(found.asked), name(found.clause)),
            tally=words.tally(judged["clauses"]),
            results=tuple(
                (title, words.result(judged["results"][key])) for key, title, _ in words.RESULTS
            ),
            clauses=tuple(
                (words.truth(c["truth"]), cut(c["sentence"]), name(c["clause"]))
                for c in loose[:MAX_CLAUSES]
            ),
            more=f"{len(loose) - MAX_CLAUSES} more clauses do not hold."
            if len(loose) > MAX_CLAUSES
            else "",
            changes=len(judged["deltas"]),
            link=address(folder) if linked else "",
            judge=judge(bundle.manifest),
        )


def fault(folder: str, why: str) -> Outcome:
    """A trial without a bundle that can be read."""
    return Outcome(
        trial=name(folder),
        contract="",
        agent="",
        sign=words.FAULT,
        reason=Reason(_FIRST.lead, cut(why)),
    )


def address(folder: str) -> str:
    """Where a trial's page lies, from the run's: never outside the run, whatever the name."""
    raw = folder.encode("utf-8", "surrogateescape")  # a name on disk need not be text
    return f"trials/{quote(raw, safe='')}/report.html"


def run_view(
    title: str, outcomes: Iterable[Outcome], scheduled: int, facts: Iterable[tuple[str, str]]
) -> Run:
    """The view of a run; counts are over all trials that were scheduled, run or not."""
    listed = sorted(outcomes, key=lambda o: (_ORDER.index(o.sign.style), natural(o.trial)))
    scheduled = max(scheduled, len(listed))
    signs = [o.sign for o in listed] + [words.NOT_RUN] * (scheduled - len(listed))
    counted = _counted(signs)
    judges = sorted({o.judge for o in listed})
    comparable = are_comparable(judges)
    lead = _lead(counted, scheduled) if comparable else f"{scheduled:,} trials, {INCOMPARABLE}."
    left = len(listed) - MAX_TRIALS
    return Run(
        title=name(title),
        lead=lead,
        sign=_worst(counted),
        scheduled=scheduled,
        counts=counted if comparable else (),
        apart=()
        if comparable
        else tuple(
            (
                name(each) or "without a verdict",
                _counted(
                    [o.sign for o in listed if o.judge == each]
                    + ([words.NOT_RUN] * (scheduled - len(listed)) if each == NOBODY else [])
                ),
            )
            for each in sorted({*judges, *([NOBODY] if scheduled > len(listed) else [])})
        ),
        outcomes=tuple(listed[:MAX_TRIALS]),
        more=f"{left:,} more trials are not shown here; their folders hold their own reports."
        if left > 0
        else "",
        facts=tuple((what, cut(text)) for what, text in facts),
    )


def _counted(signs: Sequence[Sign]) -> tuple[tuple[Sign, int], ...]:
    return tuple((sign, signs.count(sign)) for sign in _GRAVITY if sign in signs)


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """What names with numbers in them are sorted by."""
    parts = re.split(r"([0-9]{1,18})", text)
    return tuple((1, int(p), "") if p.isascii() and p.isdigit() else (0, 0, p) for p in parts)


def _worst(counted: tuple[tuple[Sign, int], ...]) -> Sign:
    """The verdict of the run as its exit code has it: any DIVERGE, else a fault, and so on."""
    return counted[0][0] if counted else words.NOT_RUN


def _lead(counted: tuple[tuple[Sign, int], ...], scheduled: int) -> str:
    matched = dict(counted).get(words.VERDICTS["MATCH"], 0)
    trials = "trial" if scheduled == 1 else "trials"
    if not scheduled:
        return "No trial was scheduled."
    if matched == scheduled:
        return f"All {scheduled:,} {trials} match." if scheduled > 1 else "The one trial matches."
    return (
        f"{matched:,} of {scheduled:,} scheduled {trials} {'matches' if matched == 1 else 'match'}."
    )
