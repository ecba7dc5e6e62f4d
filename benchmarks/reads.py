"""The read side at the scale of [GE]: indexing, searching, and scoring 10,000 runs of 20 calls.

    python -m benchmarks.reads

The released scorer's rate is the one measured for it: about 10,000 such runs a second (FACTS.md H).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from statediff.reads.calls import CallKind, Outcome, ReadCall, ReadTrace
from statediff.reads.cone import Cone, Policy
from statediff.reads.draws import below, chosen
from statediff.reads.generate import generate
from statediff.reads.links import links_of, silences_of
from statediff.reads.log import Corpus, corpus_of
from statediff.reads.scores import Case, Scorer
from statediff.reads.search import Index
from statediff.reads.verdict import judge
from statediff.reads.world import Pack, load_pack

RUNS, CALLS, ROUNDS = 10_000, 20, 5
RELEASED = 10_000
"""Runs a second of the scorer released with [GE]."""


def cases(pack: Pack, scorer: Scorer) -> list[Case]:
    """Runs with searches, fetches, blocked calls and answers, drawn by name."""
    names = sorted(pack.corpus.artifacts)
    made = []
    for run in range(RUNS):
        asked = scorer.questions[run % len(scorer.questions)].asked
        calls = []
        for at in range(CALLS):
            name = chosen(names, 1, run, at)
            if below(4, 2, run, at) == 0:
                calls.append(ReadCall(CallKind.SEARCH, subsystem="jira", found=(name,)))
            else:
                blocked = below(10, 3, run, at) == 0
                outcome = Outcome.BLOCKED if blocked else Outcome.DELIVERED
                calls.append(ReadCall(CallKind.FETCH, outcome, artifact=name))
        answer = {"exists": True, "could_actor_have_known": True, "evidence": [names[run % 99]]}
        made.append(Case(run % len(scorer.questions), ReadTrace.of(calls), answer))
        assert asked
    return made


def median(work: Callable[[], object]) -> float:
    """Seconds, the median of some rounds."""
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def main() -> None:
    """Prints the table."""
    pack = load_pack("enterprise")
    corpus, config = pack.corpus, pack.config.content
    scorer = Scorer(corpus, config, generate(corpus, config).questions)
    runs = cases(pack, scorer)
    prepared = scorer.prepare(runs)
    whole = median(lambda: scorer.score(scorer.prepare(runs)))
    bare = median(lambda: scorer.score(prepared))
    judged = median(lambda: judge(scorer, runs))
    for what, seconds in (
        ("parsed traces to scores", whole),
        ("prepared arrays to scores", bare),
        ("parsed traces to findings", judged),
    ):
        rate = RUNS / seconds
        print(f"{what:26}{rate:12,.0f} a second, {rate / RELEASED:.1f} times the released scorer's")

    def fresh() -> Corpus:
        return corpus_of(corpus.events, corpus.artifacts.values())

    linking = median(lambda: links_of(fresh(), config.causal_links))
    silent = median(lambda: silences_of(fresh(), config.silences))
    print(f"links and silences        {linking + silent:12.3f} s")
    index = Index(corpus)
    searches = []
    words = ["incident", "kafka", "partitions", "message", "page", "alex", "review", "login page"]
    for number in range(400):
        cone = Cone(Policy(config), chosen(sorted(config.actors), 5, number), 2**62)
        begin = time.perf_counter()
        index.search(cone, words[number % len(words)])
        searches.append(time.perf_counter() - begin)
    print(f"a search, median          {statistics.median(searches) * 1000:12.3f} ms")


if __name__ == "__main__":
    main()
