"""A database's own changes after a change: explained with it, and never without."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from statediff.contract.clauses.causes import Times, first_causes, following
from statediff.model.codes import Truth
from statediff.model.delta import Delta, Entity, Op
from statediff.model.schema import Counted, Effect, EntityType, Field, ForeignKey, Kind, Schema
from statediff.model.values import ABSENT

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ORDER = EntityType(
    "order",
    ("id",),
    (
        Field("id", Kind.INT),
        Field("qty", Kind.INT),
        Field("total", Kind.INT, computed_from=("qty",)),
        Field("at", Kind.TIMESTAMP, is_stamp=True),
        Field("parent", Kind.INT, reference="order"),
    ),
    counted=(Counted("order_id_seq", "id", lost=32),),
    foreign=(ForeignKey(("parent",), "order", ("id",), Effect.CASCADE, Effect.NOTHING),),
)
COUNTER = EntityType("db.sequence", ("name",), (Field("name", Kind.TEXT), Field("value", Kind.INT)))
SCHEMA = Schema("s", "1", (COUNTER, ORDER))


def delta(op: Op, type_name: str, key: Any, path: str = "", was: Any = ABSENT, now: Any = ABSENT):
    return Delta(
        op,
        type_name,
        (key,),
        path,
        before=was,
        after=now,
        raw_before=was,
        raw_after=now,
        evidence=(),
    )


def came(number: int, **fields: Any) -> Delta:
    return delta(Op.CREATE, "order", number, now=Entity.of(dict((("id", number), *fields.items()))))


def gone(number: int, parent: int | None) -> Delta:
    return delta(Op.DELETE, "order", number, was=Entity.of({"id": number, "parent": parent}))


def moved(was: int | None, now: int) -> Delta:
    return delta(Op.UPDATE, "db.sequence", "order_id_seq", "value", was, now)


def found(deltas: Sequence[Delta], explained: set[int], times: Times = (None, None)) -> set[int]:
    truths = [(d, Truth.HOLDS if n in explained else Truth.FAILS) for n, d in enumerate(deltas)]
    return {n for n, (truth, _) in following(SCHEMA, truths, times).items() if truth is Truth.HOLDS}


@pytest.mark.parametrize(
    ("was", "now", "numbers", "is_explained"),
    [
        (2, 3, (3,), True),
        (None, 1, (1,), True),
        (2, 5, (3, 5), True),
        (2, 35, (3,), True),
        (2, 36, (3,), False),
        (2, 60, (900,), False),
        (5, 2, (3,), False),
        (2, 3, (), False),
    ],
)
def test_a_counter_follows_rows_and_loses_some_numbers(was, now, numbers, is_explained) -> None:
    deltas = [moved(was, now), *map(came, numbers)]
    assert found(deltas, {*range(1, len(deltas))}) == ({0} if is_explained else set())
    assert found(deltas, set()) == set()  # rows that nothing explains explain nothing


def test_a_generated_field_follows_what_it_reads_and_a_stamp_any_other() -> None:
    total = delta(Op.UPDATE, "order", 1, "total", 2, 3)
    stamp = delta(Op.UPDATE, "order", 1, "at", NOON, NOON + timedelta(hours=1))
    qty = delta(Op.UPDATE, "order", 1, "qty", 1, 2)
    other = delta(Op.UPDATE, "order", 2, "qty", 1, 2)
    assert found([total, stamp, qty], {2}) == {0, 1}
    assert found([total, stamp, other], {2}) == set()
    run = (NOON, NOON + timedelta(minutes=30))
    assert found([stamp, qty], {1}, run) == set()  # the run was over by then
    assert found([stamp, qty], {1}, (NOON, NOON + timedelta(hours=2))) == {0}
    back = delta(Op.UPDATE, "order", 1, "at", NOON, NOON - timedelta(hours=1))
    assert found([back, qty], {1}) == set()


def test_a_row_goes_with_the_one_it_refers_to_and_two_never_explain_each_other() -> None:
    chain = [gone(3, 2), gone(2, 1), gone(1, None)]
    assert found(chain, {2}) == {0, 1}
    assert found(chain, set()) == set()
    circle = [gone(1, 2), gone(2, 1)]
    assert found(circle, set()) == set()
    assert first_causes(SCHEMA, chain) == [chain[2]]
    assert first_causes(SCHEMA, circle) == circle
