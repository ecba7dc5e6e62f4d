"""The page of a run: every scheduled trial with its verdict and its first reason."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final
from urllib.parse import quote

from statediff.evidence.package import Bundle
from statediff.model.values import decode
from statediff.reports.comparability import INCOMPARABLE, Judge, are_comparable, judge
from statediff.reports.html import words
from statediff.reports.html.cells import cut, name
from statediff.reports.html.changes import View
from statediff.reports.html.page import Kind
from statediff.reports.html.shares import Field, Row, share_of
from statediff.reports.html.words import Reason, Sign
from statediff.reports.record import Record, reading
from statediff.suite.records import domain_of
from statediff.suite.spans import SpanCounts, spans

Json = Any
KIND: Final = Kind(("report.css", "dashboard.css"), modules=("rows.mjs",))
MAX_TRIALS: Final = 5_000
"""Trials that a page lists, those that need a look first; it says how many more there are."""
MAX_CLAUSES: Final = 20
MAX_ROWS: Final = 300
MAX_AGENTS: Final = 12
MAX_BROKEN: Final = 100
MAX_LINKS: Final = 50
"""Trials of one clause that are named; all are counted."""
NOBODY: Final = Judge()
NO_CALLS: Final = SpanCounts()
_ORDER: Final = ("fault", "diverge", "inconclusive", "match")
_GRAVITY: Final = (
    words.VERDICTS["DIVERGE"],
    words.FAULT,
    words.VERDICTS["INCONCLUSIVE"],
    words.NOT_RUN,
    words.VERDICTS["MATCH"],
)
"""The ends of a run's trials, in the order of its exit code."""
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
    changes: int = 0
    link: str = ""
    calls: SpanCounts = NO_CALLS
    """Its recorded calls, each judged by itself."""
    judge: Judge = NOBODY
    microseconds: int | None = None
    """How long its agent took; None where that is not known."""
    cost_nano: int | None = None
    """In billionths; None where nobody said."""

    @property
    def seconds(self) -> str:
        return "" if self.microseconds is None else f"{self.microseconds / 1e6:,.2f} s"

    @property
    def cost(self) -> str:
        return "" if self.cost_nano is None else f"{Decimal(self.cost_nano).scaleb(-9):,.4f}"


def outcome(
    bundle: Bundle,
    folder: str,
    where: str = "the bundle",
    *,
    linked: bool,
    cost_nano: int | None = None,
) -> Outcome:
    """The trial by its bundle; `BundleError` if that contradicts itself.

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
                (words.truth(c["truth"]), cut(c["sentence"]), name(c["clause"])) for c in loose
            ),
            changes=len(judged["deltas"]),
            calls=SpanCounts.of(
                spans(judged, record.trace, bundle.document("captures.json")["history"])
            ),
            link=address(folder) if linked else "",
            judge=judge(bundle.manifest),
            microseconds=_microseconds(bundle.document("timeline.json")),
            cost_nano=cost_nano,
        )


def _microseconds(timeline: Json) -> int | None:
    if timeline is None:
        return None
    began, ended = (decode(timeline[f"agent_{moment}_at"]) for moment in ("started", "finished"))
    if not (isinstance(began, datetime) and isinstance(ended, datetime)):
        return None
    return (ended - began) // timedelta(microseconds=1)


def fault(folder: str, why: str, contract: str = "", agent: str = "") -> Outcome:
    """A trial without a bundle that can be read, and what is known of its plan."""
    return Outcome(
        trial=name(folder),
        contract=name(contract),
        agent=name(agent),
        sign=words.FAULT,
        reason=Reason(_FIRST.lead, cut(why)),
    )


def address(folder: str) -> str:
    """The address of a trial's page from the run's: never outside the run, whatever the name."""
    raw = folder.encode("utf-8", "surrogateescape")  # a name on disk need not be text
    return f"trials/{quote(raw, safe='')}/report.html"


def run_view(
    title: str, outcomes: Iterable[Outcome], scheduled: int, facts: Iterable[tuple[str, str]]
) -> View:
    """Everything that the page of a run shows; it counts every scheduled trial, run or not."""
    listed = sorted(outcomes, key=lambda o: (_ORDER.index(o.sign.style), natural(o.trial)))
    scheduled = max(scheduled, len(listed))
    signs = [o.sign for o in listed] + [words.NOT_RUN] * (scheduled - len(listed))
    counted = _counted(signs)
    lead, apart = _lead(counted, scheduled), _apart(listed, scheduled - len(listed))
    if apart:
        lead = f"{scheduled:,} scheduled trials, {apart[0]}."
    left = len(listed) - MAX_TRIALS
    agents, rows = _matrix(listed)
    broken = _broken(listed)
    over = ((len(agents) - MAX_AGENTS, "agents"), (len(rows) - MAX_ROWS, "contracts"),
            (len(broken) - MAX_BROKEN, "clauses"))  # fmt: skip
    return {
        "title": name(title),
        "lead": lead,
        "sign": counted[0][0] if counted else words.NOT_RUN,
        "scheduled": scheduled,
        "counts": () if apart else counted,
        "apart": apart[1] if apart else (),
        "outcomes": listed[:MAX_TRIALS],
        "more": f"{left:,} more trials are not shown here; their folders hold their own reports."
        if left > 0
        else "",
        "facts": [(what, cut(text)) for what, text in (*facts, *_calls(listed))],
        "agents": [agent or "unknown" for agent in agents[:MAX_AGENTS]],
        "rows": rows[:MAX_ROWS],
        "broken": broken[:MAX_BROKEN],
        "left": ", ".join(f"{n:,} more {what}" for n, what in over if n > 0),
        "most": MAX_CLAUSES,
    }


def _calls(listed: Sequence[Outcome]) -> Iterator[tuple[str, str]]:
    """Calls judged one by one, and where that and the verdicts say different things."""
    called = [each for each in listed if each.calls.number]
    if not called:
        return
    every = SpanCounts(
        sum(each.calls.number for each in called),
        sum(each.calls.wrong for each in called),
        sum(each.calls.unknown for each in called),
    )
    yield "Calls", str(every)
    ends = [(each.sign.style, each.calls.wrong > 0) for each in called]
    yield "Right end, wrong call", f"{ends.count(('match', True)):,} of {len(ends):,}"
    yield "Wrong end, right calls", f"{ends.count(('diverge', False)):,} of {len(ends):,}"


Counts = tuple[tuple[Sign, int], ...]


def _apart(
    listed: Sequence[Outcome], unrun: int
) -> tuple[str, tuple[tuple[str, Counts], ...]] | None:
    """Why and how verdicts are counted apart: by who judged, or by domain; None where one is all.

    `unrun` trials are listed nowhere: they are with those of which no judge or domain is known.
    """
    of: Callable[[Outcome], str]
    if not are_comparable({o.judge for o in listed}):
        why, of, unknown = INCOMPARABLE, lambda o: name(o.judge), "without a verdict"
    elif len({domain_of(o.contract) for o in listed if o.contract}) > 1:
        why, of, unknown = "counted by domain", lambda o: domain_of(o.contract), "not known"
    else:
        return None
    signs: dict[str, list[Sign]] = defaultdict(list)
    for each in listed:
        signs[of(each)].append(each.sign)
    if unrun:
        signs[""] += [words.NOT_RUN] * unrun
    return why, tuple((key or unknown, _counted(own)) for key, own in sorted(signs.items()))


def _matrix(listed: Sequence[Outcome]) -> tuple[list[str], tuple[Row, ...]]:
    """Agents, and a row for each contract as it was judged; of trials that are known by both."""
    cells: dict[tuple[str, Judge], dict[str, list[Sign]]] = defaultdict(lambda: defaultdict(list))
    judges: dict[str, set[Judge]] = defaultdict(set)
    for each in listed:
        if each.judge != NOBODY:
            judges[each.contract].add(each.judge)
    for each in listed:
        # What has no verdict was judged by nobody: it counts where the contract has one judge.
        known = judges[each.contract]
        by = next(iter(known)) if each.judge == NOBODY and len(known) == 1 else each.judge
        cells[each.contract, by][each.agent].append(each.sign)
    agents = sorted({agent for row in cells.values() for agent in row})
    return agents, tuple(
        Row(
            contract or "no contract known",
            "",
            str(by) if len(judges[contract]) > 1 else "",
            tuple(
                Field(share_of(_counted(row[agent])) if agent in row else None)
                for agent in agents[:MAX_AGENTS]
            ),
        )
        for (contract, by), row in sorted(cells.items())
    )


def _broken(listed: Sequence[Outcome]) -> list[View]:
    """The clauses that do not hold: what fails first, then by the number of trials."""
    found: dict[tuple[str, str, Sign], list[tuple[str, Outcome]]] = defaultdict(list)
    for each in listed:
        for sign, sentence, clause in each.clauses:
            found[each.contract, clause, sign].append((sentence, each))
    return [
        {
            "contract": contract,
            "clause": clause,
            "sign": sign,
            "sentence": members[0][0],
            "trials": [(o.trial, o.link) for _, o in members[:MAX_LINKS]],
            "number": len(members),
        }
        for (contract, clause, sign), members in sorted(
            found.items(), key=lambda e: (e[0][2] != words.TRUTHS["FAILS"], -len(e[1]), e[0][:2])
        )
    ]


def _counted(signs: Sequence[Sign]) -> tuple[tuple[Sign, int], ...]:
    return tuple((sign, signs.count(sign)) for sign in _GRAVITY if sign in signs)


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """A key that sorts names by the numbers in them."""
    parts = re.split(r"([0-9]{1,18})", text)
    return tuple((1, int(p), "") if p.isascii() and p.isdigit() else (0, 0, p) for p in parts)


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
