"""A clause over a whole entity type of a million rows, beside the Arrow kernel that it comes to.

    python lab/benchmarks/clauses.py [--rows 1000000] [--repeats 15] [--json]

The state is built and cut as captures build it; the clause, bound once, is evaluated by the engine,
reads noted, three values and all. The floor, in the same run, is one hand-written pyarrow
expression over the same chunks, already gathered into one chunked array. Each clause must hold, and
must be refuted with the right witness in a state with one bad row.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from statediff.contract.evaluation.evaluate import outcomes
from statediff.contract.language.context import FALSE, TRUE, EvalContext, Trail
from statediff.contract.language.parser import Scope, parse
from statediff.contract.language.syntax import Node, footprint
from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.model.state import MemoryChunks, State, Table, build_table
from statediff.model.trace import NoAnswer
from statediff.model.view import Ledger, RecordingView, StateView

TARGET = 3.0
PRODUCT = EntityType(
    "product",
    ("id",),
    (
        Field("id", Kind.INT, is_nullable=False),
        Field("stock", Kind.INT),
        Field("price_cents", Kind.INT),
        Field("category", Kind.TEXT),
    ),
)
SCHEMA = Schema("shop", "1", (PRODUCT,), (("shop-db", ("product",)),))


@dataclass(frozen=True)
class Case:
    """A clause, and the kernel over the same columns that decides the same."""

    clause: str
    kernel: Callable[[dict[str, pa.ChunkedArray]], bool]
    has_target: bool = False


CASES = (
    Case(
        "all(p.stock >= 0 for p in after.product)",
        lambda c: pc.all(pc.greater_equal(c["stock"], 0)).as_py(),
        has_target=True,
    ),
    Case(
        'all(p.stock >= 0 and p.price_cents > 100 for p in after.product if p.category == "tools")',
        lambda c: pc.all(
            pc.if_else(
                pc.equal(c["category"], "tools"),
                pc.and_(pc.greater_equal(c["stock"], 0), pc.greater(c["price_cents"], 100)),
                True,
            )
        ).as_py(),
    ),
    Case(
        "sum(p.stock for p in after.product) >= 0",
        lambda c: pc.sum(c["stock"]).as_py() >= 0,
    ),
)


def product(number: int, bad: int) -> dict[str, Any]:
    """One row; `bad` is the key of the one whose stock is negative."""
    stock = -1 if number == bad else number * 7919 % 500
    category = ("tools", "linen", "garden")[number % 3]
    return {"id": number, "stock": stock, "price_cents": 101 + number % 9000, "category": category}


def table(rows: int, bad: int = 0) -> Table:
    """So many products, as a capture cuts them."""
    made = (product(number, bad) for number in range(1, rows + 1))
    return build_table(PRODUCT, made, MemoryChunks(), is_sorted=True)


def world(known: Table, clause: str) -> tuple[Node, EvalContext]:
    """The clause typed, and a world in which to evaluate it."""
    node = parse(clause, Scope(SCHEMA))
    return node, world_of(known, node)


def world_of(known: Table, node: Node) -> EvalContext:
    """What a judgement makes for each clause: fresh, with a ledger of what is read."""
    view = RecordingView(StateView(State(SCHEMA, {"product": known})), "after", Ledger())
    wanted = {read.field for read in footprint(node)} | {"id"}
    fields = tuple(f.name for f in PRODUCT.fields if f.name in wanted)
    return EvalContext(view, view, NoAnswer("none"), fields_of=lambda _type: fields, trail=Trail())


def judged(known: Table, clause: str) -> Callable[[], int]:
    """The clause, typed once as when a contract is bound, to be evaluated again and again."""
    node, _ = world(known, clause)
    return lambda: outcomes(node, world_of(known, node), {})


def milliseconds(run: Callable[[], object]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    run()
    return 1000 * (time.perf_counter() - start)


def measure(rows: int, repeats: int) -> list[dict[str, Any]]:
    """Medians of interleaved runs; the first of each is thrown away."""
    good, bad_key = table(rows), rows * 2 // 3 + 1
    while product(bad_key, 0)["category"] != "tools":
        bad_key += 1
    bad = table(rows, bad_key)
    columns = {
        f.name: pa.chunked_array([batch.column(f.name) for batch in good.batches()])
        for f in PRODUCT.fields
    }
    found = []
    for case in CASES:
        run = judged(good, case.clause)
        if run() != TRUE or not case.kernel(columns):
            raise SystemExit(f"{case.clause} does not hold")
        if case.clause.startswith("all"):
            node, scene = world(bad, case.clause)
            if outcomes(node, scene, {}) != FALSE or scene.seen[-1].entity_refs[0].key != (
                bad_key,
            ):
                raise SystemExit(f"{case.clause} is not refuted by product {bad_key}")
        gc.collect()
        ours: list[float] = []
        least: list[float] = []
        for _ in range(repeats + 1):
            ours.append(milliseconds(run))
            least.append(milliseconds(partial(case.kernel, columns)))
        value, floor = statistics.median(ours[1:]), statistics.median(least[1:])
        target = TARGET if case.has_target else None
        found.append(
            {
                "measure": case.clause, "unit": "ms", "rows": rows, "repeats": repeats,
                "value": round(value, 3), "least": round(min(ours[1:]), 3),
                "most": round(max(ours[1:]), 3), "floor": round(floor, 3),
                "ratio": round(value / floor, 2), "target": target,
                "ok": target is None or value / floor <= target,
            }
        )  # fmt: skip
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]  # it has one
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    arguments = parser.parse_args()
    for found in measure(arguments.rows, arguments.repeats):
        if arguments.json:
            print(json.dumps(found))
            continue
        aim = f"; target {found['target']}" if found["target"] else ""
        print(
            f"{found['measure']}\n  median {found['value']} ms ({found['least']} to "
            f"{found['most']}), pyarrow kernel {found['floor']} ms: × {found['ratio']}{aim}"
        )


if __name__ == "__main__":
    main()
