"""Things done and undone in a run, on whatever system: no end shows them, its history does."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from statediff.capture.feed import Feed, Watch
from statediff.capture.guard import capture_after
from statediff.capture.source import Source, clock
from statediff.capture.take import take
from statediff.contract.file import parse_contract
from statediff.kernel import evaluate, replay
from statediff.model.readings import Capture
from statediff.model.state import MemoryChunks
from statediff.model.verdict import Judgement, Verdict
from tests.judging import contract

TABLES = (
    "CREATE TABLE note (id INTEGER PRIMARY KEY, body VARCHAR(40))",
    "CREATE TABLE queue (id INTEGER PRIMARY KEY, recipient VARCHAR(40), body VARCHAR(40))",
)
ROWS = ("INSERT INTO note VALUES (1, 'first'), (2, 'second')",)
DELETED = ("DELETE FROM note WHERE id = 2", "INSERT INTO note VALUES (2, 'second')")
QUEUED = ("INSERT INTO queue VALUES (7, 'everybody', 'hello')", "DELETE FROM queue WHERE id = 7")


def run(
    source: Source, feed: Feed, execute: Callable[[str], object], statements: Sequence[str]
) -> tuple[Capture, Capture]:
    """Before and after of a run that commits each statement by itself."""
    store = MemoryChunks()
    with Watch([feed], clock) as watch:
        before = take([source], store, clock, None, "before")
        for statement in statements:
            execute(statement)
        return before, capture_after([source], watch, store, clock, before).capture


def witnessed(source: Source, what: str, sides: tuple[Capture, Capture], rest: str = "") -> str:
    """The sentence of the clause against `what` (an operation and a type) on the run it fails in.

    The same clause over the two ends alone holds. `rest` is the rest of the contract.
    """
    never = f"forbid:\n  - {{id: never, {what}, during: run}}\n"
    never += f"evidence:\n  {source.name}: {{history: required}}\n{rest}"
    ends = f"forbid:\n  - {{id: never, {what}}}\n{rest}"
    assert judged(ends, sides).verdict is Verdict.MATCH
    judgement = judged(never, sides)
    assert judgement.verdict is Verdict.DIVERGE
    (finding,) = (f for f in judgement.findings if f.clause == "never" and f.deltas)
    return finding.sentence


def judged(body: str, sides: tuple[Capture, Capture]) -> Judgement:
    evaluated = evaluate(parse_contract(contract(body).encode(), "c.yaml"), *sides)
    assert replay(evaluated.bundle) == evaluated.judgement
    return evaluated.judgement
