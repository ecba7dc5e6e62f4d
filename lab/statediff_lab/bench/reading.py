"""The read side at the scale of [GE]: findings of recorded runs, indexing, and search.

Rates are per second of this process's own time: what other programs do beside it is not counted.
The scorer released with [GE] managed about 10,000 such runs a second, as its authors say.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from statediff.model.verdict import Verdict
from statediff.reads.index import Cone, Index
from statediff_lab.bench.registry import BenchLimit, BenchPlan, BenchRow, Wrong, measure
from statediff_lab.reads.cone import Policy
from statediff_lab.reads.gate import CallKind, ReadCall, ReadOutcome, ReadTrace
from statediff_lab.reads.generate import generate, links_of, silences_of
from statediff_lab.reads.log import Corpus, Event, corpus_of
from statediff_lab.reads.scores import ReadRun, Scorer
from statediff_lab.reads.verdict import decide, judge
from statediff_lab.reads.world import Pack, load_pack
from statediff_lab.statistics.draws import below, choose

CALLS: Final = 20
RELEASED: Final = 10_000
"""Runs a second of the scorer released with [GE]."""
SEARCHES: Final = 400
CHECKED: Final = 25
_SMALL: Final = 100_000
"""Plans of fewer rows are tried on the smallest place, with few runs."""


def _place(plan: BenchPlan) -> tuple[Pack, int]:
    """The place, and how many runs there are."""
    return (load_pack("starter"), 200) if plan.rows < _SMALL else (load_pack("enterprise"), 10_000)


def _cases(pack: Pack, scorer: Scorer, runs: int) -> list[ReadRun]:
    """Runs with searches, fetches, blocked calls and answers, drawn by name."""
    names = sorted(pack.corpus.artifacts)
    subsystems = pack.config.content.subsystems
    made = []
    for run in range(runs):
        calls = []
        for at in range(CALLS):
            name = choose(names, 1, run, at)
            if below(4, 2, run, at) == 0:
                where = choose(subsystems, 4, run, at)
                calls.append(ReadCall(CallKind.SEARCH, subsystem=where, found=(name,)))
            else:
                blocked = below(10, 3, run, at) == 0
                outcome = ReadOutcome.BLOCKED if blocked else ReadOutcome.DELIVERED
                calls.append(ReadCall(CallKind.FETCH, outcome, artifact=name))
        cited = [names[run % min(99, len(names))]]
        answer = {"exists": True, "could_actor_have_known": True, "evidence": cited}
        made.append(ReadRun(run % len(scorer.questions), ReadTrace.of(calls), answer))
    return made


@measure("read-findings", "reads")
def findings(plan: BenchPlan) -> Iterator[BenchRow]:
    """Recorded runs of 20 calls to findings, and prepared arrays to scores."""
    pack, runs = _place(plan)
    config = pack.config.content
    scorer = Scorer(pack.corpus, config, generate(pack.corpus, config).questions)
    cases = _cases(pack, scorer, runs)
    _check(pack, scorer, cases)
    prepared = scorer.prepare(cases)
    taken = _own_times(
        {"findings": lambda: decide(scorer, cases), "scores": lambda: scorer.score(prepared)},
        plan.repeats,
    )
    yield _rate("parsed traces to findings", runs, taken["findings"], 5 * RELEASED)
    yield _rate("prepared arrays to scores", runs, taken["scores"], 100_000)


def _check(pack: Pack, scorer: Scorer, cases: Sequence[ReadRun]) -> None:
    """What arrays say of the first runs is what the cone says of each call."""
    found = decide(scorer, cases)
    cards = judge(scorer, cases[:CHECKED])
    for row, (case, card) in enumerate(zip(cases, cards, strict=False)):
        asked = scorer.questions[case.question].asked
        cone = Policy(pack.config.content).cone(asked.actor, asked.as_of)
        stray = sum(_strays(call, cone, pack.corpus) for call in case.trace.calls())
        if int(found.scores.violating[row]) != stray or found.verdicts()[row] is not card.verdict:
            raise Wrong(f"run {row}: {stray} calls stray, not {found.scores.violating[row]}")
    if Verdict.DIVERGE not in found.verdicts():
        raise Wrong("no run breaks a rule, so nothing was decided")


def _strays(call: ReadCall, cone: Cone, corpus: Corpus) -> bool:
    if call.kind is CallKind.SEARCH:
        return call.subsystem not in cone.subsystems
    artifact = corpus.artifacts.get(call.artifact or "")
    return artifact is not None and not cone.holds(artifact)


@measure("read-indexing", "reads")
def indexing(plan: BenchPlan) -> Iterator[BenchRow]:
    """Links and silences of the whole log, as it is and where no join hits."""
    pack, _ = _place(plan)
    corpus, config = pack.corpus, pack.config.content
    artifacts = tuple(corpus.artifacts.values())
    apart = tuple(
        replace(event, facts={name: f"{value} {event.id}" for name, value in event.facts.items()})
        for event in corpus.events
    )

    def indexed(events: tuple[Event, ...]) -> int:
        fresh = corpus_of(events, artifacts)
        links = len(links_of(fresh, config.causal_links))
        silences_of(fresh, config.silences)
        return links

    if not indexed(corpus.events) or indexed(apart):
        raise Wrong("a log whose facts all differ has links, or the log itself has none")
    taken = _own_times(
        {"as it is": lambda: indexed(corpus.events), "no join hits": lambda: indexed(apart)},
        plan.repeats,
    )
    for name, seconds in taken.items():
        yield BenchRow(
            f"links and silences, {name}",
            "reads",
            _ms(statistics.median(seconds)),
            "ms",
            target=BenchLimit(1000, "value"),
            low=_ms(min(seconds)),
            high=_ms(max(seconds)),
            note=f"{len(corpus.events)} events; own time of the process",
        )


@measure("read-search", "reads")
def search(plan: BenchPlan) -> Iterator[BenchRow]:
    """One search through the index of words, by many actors."""
    pack, _ = _place(plan)
    index, policy = Index(pack.corpus.artifacts.values()), Policy(pack.config.content)
    actors = sorted(pack.config.content.actors)
    titles = [artifact.title for artifact in list(pack.corpus.artifacts.values())[:50]]
    seconds = []
    hits = 0
    for number in range(SEARCHES):
        cone = policy.cone(choose(actors, 5, number), 2**62)
        begin = time.process_time()
        found = index.search(cone, titles[number % len(titles)])
        seconds.append(time.process_time() - begin)
        hits += len(found)
        if not all(cone.holds(pack.corpus.artifacts[hit.id]) for hit in found):
            raise Wrong("a search names what its actor may not see")
    if not hits:
        raise Wrong("no search found anything")
    yield BenchRow(
        "one search, median",
        "reads",
        _ms(statistics.median(seconds)),
        "ms",
        target=BenchLimit(1, "value"),
        low=_ms(min(seconds)),
        high=_ms(max(seconds)),
        note=f"{len(pack.corpus.artifacts)} artifacts; own time of the process",
    )


def _own_times(contenders: dict[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Seconds of this process for each, in turns; the first round warms up."""
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for repeat in range(repeats + 1):
        for name, work in contenders.items():
            begin = time.process_time()
            work()
            if repeat:
                taken[name].append(time.process_time() - begin)
    return taken


def _rate(name: str, runs: int, seconds: list[float], least: int) -> BenchRow:
    """A row of runs a second, beside the released scorer's."""
    rates = [float(f"{runs / max(each, 1e-9):.4g}") for each in seconds]
    value = statistics.median(rates)
    return BenchRow(
        name,
        "reads",
        value,
        "runs/s",
        floor=RELEASED,
        ratio=float(f"{value / RELEASED:.4g}"),
        target=BenchLimit(least, "value", is_most=False),
        low=min(rates),
        high=max(rates),
        note=f"{runs} runs of {CALLS} calls; own time of the process",
    )


def _ms(seconds: float) -> float:
    return float(f"{seconds * 1000:.4g}")
