"""What one more judgement costs under a contract that is prepared over its state before.

    python -m lab.benchmarks.warm_kernel [--rows 300 10000 1000000] [--repeats 200] [--json]

Processor time of `Prepared.judgement`, the least of many, for contracts of several kinds. Both
states are captured already; the state after shares the chunks that the run left alone. Beside it
stands `judgement_of`, which prepares anew each time. Each verdict is checked.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from statediff.contract.file import parse_contract
from statediff.kernel import judgement_of, prepare
from statediff.model.batches import batch_rows, encode_rows
from statediff.model.readings import Capture, Reading, ReadingKind, SourceCapture
from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.model.state import MemoryChunks, State, build_table
from statediff.model.trace import NO_ANSWER, NO_TRACE, Action, ActionClass, NoAnswer, Trace
from statediff.model.values import Map, Value, key_order
from statediff.model.verdict import Judgement, Verdict

TARGET_MS: Final = 0.25
ROWS: Final = (300, 10_000, 1_000_000)
_NOON: Final = datetime(2026, 3, 16, 12, tzinfo=UTC)


def _id(name: str = "id", reference: str | None = None) -> Field:
    return Field(name, Kind.INT, is_nullable=False, reference=reference)


_TEXT: Final = Kind.TEXT
TYPES: Final = (
    EntityType("approval", ("id",), (_id(), _id("order", "order"), _id("by", "staff"))),
    EntityType("customer", ("id",), (_id(), Field("name", _TEXT), Field("email", _TEXT))),
    EntityType("log", (), (Field("what", _TEXT), Field("day", _TEXT))),
    EntityType(
        "order",
        ("id",),
        (_id(), _id("customer", "customer"), Field("status", _TEXT), Field("cents", Kind.INT)),
    ),
    EntityType(
        "product",
        ("id",),
        (
            _id(),
            Field("name", _TEXT),
            Field("stock", Kind.INT),
            Field("parent", Kind.INT, reference="product"),
        ),
    ),
    EntityType("refund", ("id",), (_id(), _id("order", "order"), Field("cents", Kind.INT))),
    EntityType("staff", ("id",), (_id(), Field("name", _TEXT), Field("role", _TEXT))),
)
SCHEMA: Final = Schema("shop", "1", TYPES, (("shop-db", tuple(t.name for t in TYPES)),))
_SHARES: Final = {"customer": 20, "order": 50, "product": 20, "refund": 9}
"""Rows of each type, in hundredths; of the others there are a few."""


def _row(name: str, number: int) -> dict[str, Any]:
    rows: Mapping[str, dict[str, Any]] = {
        "approval": {"order": number, "by": 1},
        "customer": {"name": f"Customer {number} ", "email": f"c{number}@example.org"},
        "order": {"customer": number % 50 + 1, "status": "shipped", "cents": 100 + number % 900},
        "product": {
            "name": f"Product {number}",
            "stock": number * 7919 % 500,
            "parent": number // 2 or None,
        },
        "refund": {"order": number, "cents": 100 + number % 900},
        "staff": {"name": f"Clerk {number}", "role": "billing" if number == 1 else "support"},
    }
    return {"id": number, **rows[name]}


def world(rows: int) -> State:
    """A shop of about so many rows, as a capture cuts it."""
    store = MemoryChunks()
    tables = {}
    for kind in TYPES:
        count = max(8, rows * _SHARES[kind.name] // 100) if kind.name in _SHARES else 8
        made: Iterator[dict[str, Any]] = (_row(kind.name, n) for n in range(1, count + 1))
        if kind.is_keyless:
            made = ({"what": f"start {n}", "day": "monday"} for n in range(8))
        tables[kind.name] = build_table(kind, made, store, is_sorted=not kind.is_keyless)
    return State(SCHEMA, tables)


def changed(state: State, edits: Mapping[str, Mapping[int, dict[str, Any] | None]]) -> State:
    """The state with fields of some rows set, or rows added; other chunks are shared."""
    tables = dict(state.tables)
    for name, rows in edits.items():
        table = tables[name]
        orders = {key_order((key,)): (key, cells) for key, cells in rows.items()}
        chunks = list(table.chunks)
        at = {order: sum(order >= cut for cut in table.cuts) for order in orders}
        for index in set(at.values()):
            found = {
                key_order(k): (k, r)
                for k, r in batch_rows(table.type, table.store.get(chunks[index]), None)
            }
            for order, (key, cells) in orders.items():
                if at[order] == index:
                    old = found.get(order, ((key,), {}))[1]
                    found[order] = (key,), {**old, **(cells or {}), "id": key}
            rebuilt = [found[order] for order in sorted(found)]
            chunks[index] = table.store.put(encode_rows(table.type, rebuilt))
        tables[name] = table.with_chunks(tuple(chunks))
    return State(state.schema, tables)


def with_log(state: State) -> State:
    """The state with one more line in its log, which has no key."""
    table = state.tables["log"]
    rows = [row for _, row in table.rows()] + [{"what": "refund", "day": "tuesday "}]
    grown = build_table(table.type, rows, MemoryChunks(), like=table)
    return State(state.schema, {**state.tables, "log": grown})


def capture(moment: str, state: State) -> Capture:
    """The state as its source delivered it."""
    reading = Reading(
        f"{moment}/shop-db",
        "shop-db",
        ReadingKind.SCAN,
        as_of=_NOON,
        clock="trial",
        is_complete=True,
        digest=state.digest(),
    )
    return Capture((SourceCapture(reading, state),))


_HEAD = "contract: bench/warm\nversion: 1.0.0\nowner: bench\nintent: Do what is asked.\n"
_PAID = """
require:
  - {id: paid, update: order, where: it.id == 7, set: {status: paid}}
"""
_REFUND = """
forbid:
  - {id: no-customer-deleted, delete: customer}
  - {id: no-privilege-change, any: [staff, approval]}
require:
  - id: refunded
    create: refund
    where: it.order == 7 and before.order[it.order].customer.email == "c8@example.org"
    count: {min: 1}
    that: sum(r.cents for r in them) == 107
allow:
  - id: status
    update: order
    where: it.id == 7 and (new.status == it.status or new.status == "paid")
    fields: [status]
effects:
  - on: create refund
    reversibility: irreversible
    authorized_by: any(a.order == 7 and a.by.role == "billing" for a in before.approval)
    retry_safe: false
"""
_WHOLE = """
forbid:
  - {id: oversold, that: 'any(p.stock < 0 for p in after.product)'}
allow: [{id: renamed, update: [product, customer]}]
require:
  - {id: paid, update: order, where: it.id == 7, set: {status: paid}}
  - id: stock-kept
    that: sum(p.stock for p in after.product) == sum(p.stock for p in before.product)
  - {id: as-many, that: count(after.customer) == count(before.customer)}
  - {id: emails, that: 'unique(c.email for c in after.customer)'}
  - {id: positive, that: 'all(p.stock >= 0 for p in after.product)'}
  - {id: tree, that: 'reaches(after.product[3], after.product[1], via=[product.parent])'}
"""
_RULED = """
canonicalize:
  - {use: trim@1, on: [customer.name, log.day], because: the application trims}
  - {use: casefold@1, on: [order.status], because: the application has no case}
identify:
  - {type: log, match_on: {what: null}, version: 1, because: the log has no key}
require:
  - {id: paid, update: order, where: it.id == 7, set: {status: PAID}}
  - {id: logged, create: log, where: it.day == "tuesday"}
"""
_TRACED = """
answer:
  schema: {paid: int}
  claims:
    - answer.paid == count(o for o in updated.order if o.status == "paid")
require:
  - {id: paid, update: order, where: it.id == 7, set: {status: paid}}
steps:
  - {id: looked-first, on: pay, that: 'any(c.tool == "look" for c in calls)'}
  - {id: paid-once, calls: call.tool == "pay", count: 1}
actions:
  allow: {classes: [read, conditional-update]}
  forbid: {classes: [permission-change]}
"""
_TRACE: Final = Trace(
    tuple(
        Action(f"call-{n}", tool, action_class=kind)
        for n, (tool, kind) in enumerate(
            (*(("look", ActionClass.READ),) * 5, ("pay", ActionClass.CONDITIONAL_UPDATE)), start=1
        )
    ),
    is_complete=True,
    cause="",
)
_PAY: Final = {"order": {7: {"status": "paid"}}}
_SOLD: Final = {
    **_PAY,
    "product": {1: {"name": "Product one"}},
    "customer": {1: {"email": "first@example.org"}},
}


@dataclass(frozen=True)
class Case:
    """A contract, and a run that it is to judge."""

    contract: str
    verdict: Verdict
    after: Callable[[State], State] = lambda state: changed(state, _PAY)
    trace: Trace = NO_TRACE
    answer: Value | NoAnswer = NO_ANSWER


CASES: Final[Mapping[str, Case]] = {
    "one update": Case(_PAID, Verdict.MATCH),
    "one update, wrong": Case(_PAID.replace("it.id == 7", "it.id == 8"), Verdict.DIVERGE),
    "refund": Case(_REFUND, Verdict.MATCH, lambda state: refunded(state, 107)),
    "refund, wrong": Case(_REFUND, Verdict.DIVERGE, lambda state: refunded(state, 108)),
    "whole state": Case(_WHOLE, Verdict.MATCH),
    "whole, its types": Case(_WHOLE, Verdict.MATCH, lambda state: changed(state, _SOLD)),
    "rules, identities": Case(_RULED, Verdict.MATCH, lambda state: with_log(changed(state, _PAY))),
    "trace, answer": Case(_TRACED, Verdict.MATCH, trace=_TRACE, answer=Map((("paid", 1),))),
}


def refunded(state: State, cents: int) -> State:
    """The state with one refund more."""
    return changed(state, {"refund": {5_000_000: {"order": 7, "cents": cents}}})


def least_ms(run: Callable[[], object], repeats: int) -> float:
    """The least processor time of one call, milliseconds."""
    times = []
    gc.collect()
    for _ in range(repeats):
        began = time.process_time_ns()
        run()
        times.append(time.process_time_ns() - began)
    return min(times) / 1e6


def measure(case: Case, before: State, repeats: int) -> tuple[float, float]:
    """(warm, anew) in milliseconds. Each of the states after is met for the first time."""
    file = parse_contract((_HEAD + case.contract).encode(), "warm.yaml")
    first, last = capture("before", before), capture("after", case.after(before))
    prepared = prepare(file, first)

    def again() -> Capture:
        [part] = last.parts
        tables = {
            name: table.with_chunks(table.chunks) for name, table in part.state.tables.items()
        }
        return Capture((replace(part, state=State(part.state.schema, tables)),))

    def anew(after: Capture) -> Judgement:
        return judgement_of(file, first, after, trace=case.trace, answer=case.answer)

    afters = iter([again() for _ in range(repeats + 1)])
    judged = prepared.judgement(next(afters), trace=case.trace, answer=case.answer)
    assert judged.verdict is case.verdict, (case, judged)
    assert judged == anew(last)
    warm = least_ms(
        lambda: prepared.judgement(next(afters), trace=case.trace, answer=case.answer), repeats
    )
    few = max(3, repeats // 20)
    afters = iter([again() for _ in range(few)])
    return warm, least_ms(lambda: anew(next(afters)), few)


def main() -> None:
    """Prints the table, or the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--case", choices=CASES, action="append")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = []
    for rows in given.rows:
        before = world(rows)
        for name in given.case or CASES:
            warm, anew = measure(CASES[name], before, given.repeats)
            found.append({"rows": rows, "case": name, "warm_ms": warm, "anew_ms": anew})
    if given.json:
        print(json.dumps(found))
        return
    print(f"{'rows':>9}  {'contract':<20}{'warm ms':>9}{'anew ms':>9}   target {TARGET_MS} ms")
    for each in found:
        print(
            f"{each['rows']:>9}  {each['case']:<20}{each['warm_ms']:>9.3f}{each['anew_ms']:>9.2f}"
        )


if __name__ == "__main__":
    main()
