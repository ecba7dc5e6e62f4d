"""Columns give what rows give: outcome, witness, reasons and reads, on any state."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff.contract.evaluation.evaluate import evaluate, outcomes
from statediff.contract.evaluation.plans import Plan, plan_of
from statediff.contract.language.context import (
    FALSE,
    TRUE,
    UNDEFINED,
    EntityRef,
    EvalContext,
    Result,
    Trail,
)
from statediff.contract.language.parser import Scope, parse
from statediff.contract.language.syntax import Call, Compare, Comprehension, EntityT, walk
from statediff.model.batches import Row, batch_rows, encode_rows
from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.model.state import (
    COMPLETE,
    ChunkRef,
    Coverage,
    Enumeration,
    MemoryChunks,
    State,
    Table,
    build_table,
)
from statediff.model.trace import NoAnswer
from statediff.model.values import Key, Observed, Unobserved, encode
from statediff.model.view import Ledger, RecordingView, StateView, View

INPUTS: dict[str, Any] = {
    "low": "a",
    "none_of": (0, 9),
    "n": 2,
    "t": "b",
    "some": (1, 2),
    "none": None,
    "half": Decimal("0.5"),
}
ITEM = EntityType(
    "item",
    ("id",),
    (
        Field("id", Kind.INT, is_nullable=False),
        Field("n", Kind.INT),
        Field("m", Kind.INT),
        Field("t", Kind.TEXT),
        Field("b", Kind.BOOL),
        Field("d", Kind.DECIMAL),
        Field("f", Kind.FLOAT),
        Field("at", Kind.TIMESTAMP),
        Field("local", Kind.LOCAL_TIMESTAMP),
        Field("day", Kind.DATE),
        Field("any", Kind.ANY),
        Field("next", Kind.INT, reference="item"),
    ),
)
SCHEMA = Schema("columns", "1", (ITEM,))
NOON, DAY = datetime(2026, 1, 1, 12, tzinfo=UTC), date(2026, 1, 1)
HIDDEN = Unobserved("hidden")
DOMAINS: dict[str, tuple[Observed, ...]] = {
    "n": (0, 1, 2, 3, -1), "m": (0, 1, 2), "t": ("a", "b", "", "\u0430", "\U0001f600", "\uffee"),
    "b": (True, False), "d": (Decimal(1), Decimal("1.0"), Decimal("0.5")), "f": (0.5, 1.0),
    "at": (NOON, NOON.replace(hour=13)), "day": (DAY, date(2025, 1, 1)),
    "any": (1, "a", True), "next": (1, 9),
}  # fmt: skip
ODD: tuple[Observed, ...] = (
    None, None, HIDDEN, 2**63, -(2**63), 2**63 - 1, 2**80, Decimal("1.5"), Decimal("NaN"),
    float("nan"), float("inf"), -0.0, "x", True, b"x", NOON, NOON.replace(tzinfo=None), (1, 2),
)  # fmt: skip


IT: Row = {
    "id": 1, "n": 1, "m": None, "t": "b", "b": True, "d": Decimal(1), "f": 0.5,
    "at": datetime(2026, 1, 1, 12, tzinfo=UTC), "day": date(2026, 1, 1), "any": "a", "next": 2,
}  # fmt: skip


class RowsOnly:
    """The same side without its columns."""

    def __init__(self, view: View) -> None:
        self._view = view
        self.schema = view.schema
        self.enumeration = view.enumeration
        self.row = view.row

    def rows(self, type_name: str, fields: tuple[str, ...]) -> Iterator[tuple[Key, Row]]:
        return self._view.rows(type_name, fields)


def table_of(rows: list[Row], chunk: int, enumeration: Enumeration = COMPLETE) -> Table:
    """The rows in chunks of that many, so that their columns have forms of their own."""
    store = MemoryChunks()
    whole = [{f.name: row.get(f.name) for f in ITEM.fields} for row in rows]
    refs: list[ChunkRef] = []
    cuts: list[Key] = []
    for start in range(0, max(len(whole), 1), chunk):
        part = whole[start : start + chunk]
        if start:
            cuts.append((part[0]["id"],))  # type: ignore[arg-type]  # ids are integers
        refs.append(store.put(encode_rows(ITEM, [((r["id"],), r) for r in part])))  # type: ignore[misc]
    return Table(ITEM, tuple(refs), tuple(cuts), store, enumeration)


def plainly(result: Result) -> Any:
    if isinstance(result, EntityRef):
        row = {} if result.row is None else {n: encode(v) for n, v in result.row.items()}
        return (result.side, result.type, result.key, row, result.cause)
    return repr(result)


def looked(text: str, table: Table, *, by_columns: bool) -> Any:
    """All that an evaluation yields, and what it read."""
    node = parse(text, Scope(SCHEMA, INPUTS, variables={"it": EntityT("item")}), boolean=False)
    ledger = Ledger()
    side: View = StateView(State(SCHEMA, {"item": table}))
    if not by_columns:
        side = RowsOnly(side)
    view = RecordingView(side, "before", ledger)
    names = {n.field for n in walk(node) if hasattr(n, "field")} | {"id"}
    fields = tuple(f.name for f in ITEM.fields if f.name in names)
    context = EvalContext(view, view, NoAnswer("none"), fields_of=lambda _: fields, trail=Trail())
    boolean = isinstance(node, Compare) or (
        isinstance(node, Call) and node.name in ("all", "any", "unique")
    )
    env = {"it": EntityRef("before", "item", (1,), IT)}
    found = outcomes(node, context, env) if boolean else evaluate(node, context, env)
    seen = [
        (plainly(s.left), plainly(s.right), s.mask, [plainly(t) for t in s.entity_refs])
        for s in context.seen
    ]
    return (
        plainly(found), seen, context.causes, context.undefined, ledger.scans,
        ledger.looks,
    )  # fmt: skip


def terms() -> st.SearchStrategy[str]:
    return st.sampled_from([
        "x.n == 1", "x.n != 1", "x.n >= 0", "x.n < x.m", "x.n == x.m", "x.n != x.m", "x.n == null",
        "null != x.n", "x.n + x.m > 2", "x.n * x.n == x.m", "x.n - 9223372036854775807 < 0",
        "x.n in [1, 2]", "x.n not in [0]", "x.t in ['a', 'b']", "x.n in input.some", "x.n in []",
        'x.t == "a"', 'x.t < "b"', "x.t >= input.t", "x.t != null", "x.b", "not x.b",
        "x.b == true", "x.b == x.b", "x.n == input.n", "x.n > input.half", "x.n > 0.0",
        "x.n < 1e90",
        "x.d > 1", "x.d == x.n", "x.f > 0", 'x.at > timestamp("2026-01-01T12:30:00Z")',
        'x.day == date("2026-01-01")', "x.at == x.at", 'x.any == 1', 'x.any == "a"',
        "x.any != null",
        "x.next == 1", "1 == 1", "x.n == input.none", "2 <= x.n <= 3", "x == 1", "x.n / 1 == 1",
        "reaches(x, before.item[2], via=[item.next])", "reaches(x.next, x, via=[item.next])",
        "x.n == it.n", "it.n < x.m", "x.m == it.m", "x.n > it.m", "x.t != it.t", "x.at <= it.at",
        "x.day == it.day", "x.any == it.any", "x.n in [it.n, 2]", "x.d >= it.d", "it.b == x.b",
        "x.n + it.n == 2", "it.n == 1", "it.b", "x.f < it.f",
        "x.next.n == 1", "-x.n < 0", "x.n == 9223372036854775808",
    ])  # fmt: skip


def conditions() -> st.SearchStrategy[str]:
    return st.recursive(
        terms(),
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(
                lambda p: f"({p[0]} {p[1]} {p[2]})"),
            inner.map(lambda c: f"(not {c})")),
        max_leaves=4,
    )  # fmt: skip


def ranges() -> st.SearchStrategy[str]:
    return st.one_of(
        st.just("for x in before.item"),
        conditions().map(lambda c: f"for x in before.item if {c}"),
        st.tuples(terms(), terms()).map(lambda p: f"for x in after.item if {p[0]} if {p[1]}"),
    )


def expressions() -> st.SearchStrategy[str]:
    elements = st.sampled_from(
        ["x.n", "x.m", "x.n + x.m", "x.n * x.m", "x.d", "x.f", "x.any", "-x.n"]
    )
    ordered = st.sampled_from(["x.n", "x.t", "x.at", "x.day", "x.d", "x.n - x.m", "x.any"])
    single = st.sampled_from(["x.n", "x.t", "x.b", "x.at", "x.any", "x.n + x.m", "x.d", "x.id"])
    return st.one_of(
        st.tuples(st.sampled_from(["all", "any"]), conditions(), ranges()),
        st.tuples(st.just("sum"), elements, ranges()),
        st.tuples(st.sampled_from(["min", "max"]), ordered, ranges()),
        st.tuples(st.just("unique"), single, ranges()),
        st.tuples(st.just("count"), st.sampled_from(["x", "x.n", "x.t"]), ranges()),
    ).map(lambda p: f"{p[0]}({p[1]} {p[2]})") | st.just("count(after.item)")


@st.composite
def states(draw: st.DrawFn) -> Table:
    rows: list[Row] = []
    odd = draw(st.sampled_from([0, 4, 20]))
    for key in range(1, draw(st.integers(0, 7)) + 1):
        row: Row = {"id": key}
        for name, domain in DOMAINS.items():
            is_odd = odd and draw(st.integers(0, odd)) == 0
            row[name] = draw(st.sampled_from(ODD if is_odd else domain))
        rows.append(row)
    enumeration = draw(st.sampled_from([
        COMPLETE, COMPLETE, Enumeration(Coverage.INCOMPLETE, "cut"),
        Enumeration(Coverage.UNOBSERVED, "dark"),
    ]))  # fmt: skip
    return table_of(rows, draw(st.integers(1, 8)), enumeration)


@given(expressions(), states())
def test_columns_give_what_rows_give(text: str, table: Table) -> None:
    assert looked(text, table, by_columns=True) == looked(text, table, by_columns=False)


@given(expressions(), states(), st.sampled_from(["==", "<", "!="]), st.sampled_from([1, 0]))
def test_columns_give_what_rows_give_inside_a_comparison(
    text: str, table: Table, op: str, number: int
) -> None:
    if not text.startswith(("sum", "count")) or "x.f" in text or "x.any" in text:
        text = (
            f"count(x for x in before.item if {text.partition('(')[2].partition(' for')[0]})"
            if text.startswith(("all", "any"))
            else "count(x for x in before.item)"
        )
    text = f"{text} {op} {number}"
    assert looked(text, table, by_columns=True) == looked(text, table, by_columns=False)


ROWS: list[Row] = [{"id": key, "n": key % 3, "m": key, "t": "ab"[key % 2]} for key in range(1, 30)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("all(x.n >= 0 for x in after.item)", TRUE),
        ("all(x.n > 0 for x in after.item)", FALSE),
        ("any(x.n == 2 and x.m > 28 for x in after.item)", TRUE),
        ("any(x.n == 5 for x in after.item)", FALSE),
        ("sum(x.m for x in after.item if x.n == 1) == 145", TRUE),
        ('count(x for x in after.item if x.t == "a") == 14', TRUE),
        ("min(x.m for x in after.item if x.n == 2) == 2", TRUE),
        ("max(x.m * 2 for x in after.item) == 58", TRUE),
        ("unique(x.m for x in after.item)", TRUE),
        ("unique(x.n for x in after.item)", FALSE),
        ("min(x.m for x in after.item if x.n == 7) == 1", UNDEFINED),
        ("all(x.d > 0 for x in after.item)", UNDEFINED),
    ],
)
@pytest.mark.parametrize("chunk", [1, 4, 100])
def test_clauses_over_a_whole_type_by_columns(text: str, expected: int, chunk: int) -> None:
    found = looked(text, table_of(ROWS, chunk), by_columns=True)
    assert found == looked(text, table_of(ROWS, chunk), by_columns=False)
    assert found[0] == repr(expected)


def test_the_witness_is_the_first_entity_that_fails_by_key() -> None:
    seen = looked(
        "all(x.n > 0 for x in after.item if x.m > 4)", table_of(ROWS, 4), by_columns=True
    )[1]
    # The comparison that fails, and the quantifier with the entity that breaks it.
    assert [entry[3][0][2] for entry in seen if entry[2] == FALSE] == [(6,), (6,)]


@pytest.mark.parametrize(
    "text", ["all(x.n == x.m for x in after.item)", "count(x.n for x in after.item) == 3"]
)
def test_a_chunk_without_the_field_is_asked_of_the_rows(text: str) -> None:
    """A migration may have added the field later; another chunk may have another form."""
    old, new = table_of(ROWS[:2], 2), table_of(ROWS[2:5], 2)
    pairs = [((r["id"],), {f.name: r.get(f.name) for f in ITEM.fields}) for r in ROWS[:2]]
    without = new.store.put(encode_rows(ITEM, pairs, without=("n",)))  # type: ignore[arg-type]
    cut = (ROWS[2]["id"],)
    chunks = (without, *new.chunks)
    table = Table(ITEM, chunks, (cut, *new.partition), new.store, old.enumeration)  # type: ignore[arg-type]
    assert looked(text, table, by_columns=True) == looked(text, table, by_columns=False)


def test_what_is_certain_is_never_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [*ROWS, {"id": 40, "n": None}, {"id": 41, "n": 0}, {"id": 42, "n": 0}]
    decoded: list[Key] = []

    def counted(*arguments: Any) -> Iterator[tuple[Key, Row]]:
        for key, row in real(*arguments):
            decoded.append(key)
            yield key, row

    import statediff.contract.evaluation.columns as module  # noqa: PLC0415

    real = module.batch_rows
    monkeypatch.setattr(module, "batch_rows", counted)
    assert looked("all(x.n < 3 for x in after.item)", table_of(rows, 8), by_columns=True)
    assert decoded == [(40,)]
    decoded.clear()
    assert looked("all(x.n != 0 for x in after.item)", table_of(rows, 8), by_columns=True)
    assert decoded == [(3,)]


EIGHT: list[Row] = [
    {"id": key, "n": key, "m": 9 - key, "t": "ab"[key % 2], "b": key % 2 == 0, "d": Decimal(key),
     "f": key / 2, "at": NOON.replace(hour=key), "local": NOON.replace(hour=key, tzinfo=None),
     "day": DAY.replace(day=key), "any": key, "next": 1}
    for key in range(1, 9)
]  # fmt: skip


def decoded_by(text: str, rows: list[Row], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The ids of the rows that were decoded, where the outcome is that of the rows."""
    import statediff.contract.evaluation.columns as module  # noqa: PLC0415

    keys: list[Any] = []

    def counted(*arguments: Any) -> Iterator[tuple[Key, Row]]:
        for key, row in batch_rows(*arguments):
            keys.append(key[0])
            yield key, row

    expected = looked(text, table_of(rows, 3), by_columns=False)
    monkeypatch.setattr(module, "batch_rows", counted)
    assert looked(text, table_of(rows, 3), by_columns=True) == expected
    return keys


@pytest.mark.parametrize(
    "condition",
    ["x.n >= 1", "x.n > 0", "x.n <= 8", "x.n < 9", "1 <= x.n", "x.n == x.n", "x.n != x.m",
     "x.n != 0", "x.n != 9.0", 'x.t in ["a", "b"]', "x.n not in [0, 9]", "x.m not in input.none_of",
     "x.b or not x.b", "x.b == true or x.b == false", "x.t != null", "null != x.n",
     'x.at > timestamp("2025-12-31T23:00:00Z")', 'x.local > timestamp("2025-12-31T23:00:00")',
     'x.day <= date("2026-01-08")', "x.n + x.m == 9", "x.n - 1 >= 0", "x.n * 2 > 1", "2 * x.n > 1",
     'x.n > 0 and x.t != "z"', "x.n > 9 or x.m < 9", "x.next == 1", "x.t >= input.low",
     "not (x.n > 8 and x.m > 8)", "x.id > 0"],
)  # fmt: skip
def test_what_columns_say_of_every_row_decodes_none(
    condition: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert decoded_by(f"all({condition} for x in before.item)", EIGHT, monkeypatch) == []
    assert decoded_by(
        f"any(not ({condition}) for x in after.item if x.n > 0)", EIGHT, monkeypatch
    ) == []  # fmt: skip


@pytest.mark.parametrize(
    "condition",
    ["x.n > 0.5", "x.d > 0", "x.f > 0", "x.any != null", "x.n in [1, null]",
     "x.n not in [0.5]", "x.n + 1 != null", "1 < 2", "x.n + 9223372036854775807 > 0", "x.n != 0.5",
     "1 in [1, 2]", "x.n + 1 not in [0]", "x.m not in [0, x.id + 9]", "x.m not in [0, x.d]"],
)  # fmt: skip
def test_what_columns_cannot_say_exactly_is_left_to_the_rows(
    condition: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = decoded_by(f"all({condition} for x in before.item)", EIGHT, monkeypatch)
    assert found == list(range(1, 9))


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("count(x for x in before.item if x.n > 3) == 5", []),
        ("count(x.n for x in after.item) == 8", []),
        ("count(after.item) == 8", []), ("count(before.item) == 8", []),
        ("sum(x.n for x in before.item if x.b) == 20", []),
        ("sum(x.n + x.m for x in after.item) == 72", []),
        ("min(x.n for x in before.item) == 1", [1]),
        ("max(x.n for x in before.item if x.m > 3) == 5", [5]),
        ("max(x.n - x.m for x in before.item) == 7", [8]), ("unique(x.n for x in before.item)", []),
        ("unique(x.t for x in before.item if x.n < 3)", []),
        ("unique(x.at for x in after.item)", []),
        ("unique(x.t for x in before.item)", [1, 3]),
        ("all(x.n < 4 for x in before.item)", [4]), ("any(x.m < 6 for x in before.item)", [4]),
        ("all(x.n < 4 for x in before.item if x.b)", [4]),
        ("count(x for x in before.item if x.n > 3 if x.m < 4) == 3", []),
        ("sum(x.n for x in before.item if x.n > 99) == 0", []),
        ("sum(x.d for x in before.item) == 36", [*range(1, 9)]),
        ("sum(2 for x in before.item) == 16", [*range(1, 9)]),
        ("count(x.n + 1 for x in before.item) == 8", [*range(1, 9)]),
        ("min(x.t for x in before.item) == \"a\"", [*range(1, 9)]),
    ],
)  # fmt: skip
def test_an_aggregate_decodes_the_rows_that_columns_cannot_speak_for(
    text: str, ids: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert decoded_by(text, EIGHT, monkeypatch) == ids


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("all(x.n > 0 for x in before.item)", [3]), ("all(x.n != null for x in before.item)", [3]),
        ("all(x.n == null or x.m > 0 for x in before.item)", []),
        ("any(x.n == 99 for x in before.item)", []), ("all(x.n != x.m for x in before.item)", []),
        ("count(x for x in before.item if x.n > 0) == 7", [3]),
        ("sum(x.n for x in before.item if x.m > 0) == 33", [3]),
        ("sum(x.n for x in before.item if x.n > 0) == 33", [3]),
        ("sum(x.n for x in before.item if x.m < 6) == 30", []),
        ("min(x.n for x in before.item if x.m < 6) == 4", [4]),
        ("unique(x.n for x in before.item)", []),
        ("unique(x.m for x in before.item if x.m > 0)", []),
        ("all(x.n + 9 != x.m for x in before.item)", [3]),
        ("all(x.m != x.n + 9 for x in before.item)", [3]),
        ("sum(x.n for x in before.item) == 33", [3]),
        ("count(x for x in before.item if x.n in [1, 2]) == 2", []),
    ],
)  # fmt: skip
def test_a_null_is_asked_of_the_rows_only_where_it_is_not_a_plain_value(
    text: str, ids: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{**row, "n": None} if row["id"] == 3 else row for row in EIGHT]
    assert decoded_by(text, rows, monkeypatch) == ids


def test_only_combinations_of_plain_fields_have_a_plan() -> None:
    def planned(text: str) -> bool:
        return planned_of(text).fields is not None

    assert planned('all(x.n > 0 and (x.t == "a" or not x.b) for x in after.item if x.m < 2)')
    assert planned("any(x.n + 1 in [1, input.n] for x in before.item)")
    assert not planned("all(1 in [x.n, x.next.n] for x in after.item)")
    assert not planned("all(not x.next.b for x in after.item)")
    assert not planned("all(x.n / x.m > 0 for x in after.item)")
    assert not planned("all(x.n > 0 or x.next.b for x in after.item)")
    assert not planned("all(x.n > 0 for x in after.item if x.next.b)")
    assert not planned("all(x.next.n > 0 for x in after.item)")
    assert not planned("all(exists(before.item[x.n]) for x in after.item)")
    assert not planned("all(x.n > count(before.item) for x in after.item)")


def test_a_table_built_as_captured_is_read_by_columns_too() -> None:
    rows: list[Row] = [{f.name: None for f in ITEM.fields} | row for row in ROWS]
    table = build_table(ITEM, rows, MemoryChunks())
    assert looked("sum(x.m for x in after.item) == 435", table, by_columns=True)[0] == repr(TRUE)


def planned_of(text: str) -> Plan:
    """The plan of the one loop of a quantifier or an aggregate."""
    node = parse(text, Scope(SCHEMA, INPUTS), boolean=False)
    assert isinstance(node, Call)
    [body] = node.arguments
    assert isinstance(body, Comprehension)
    name = None if node.name in ("all", "any") else node.name
    return plan_of(body.loops[0], body.element, FALSE if node.name == "all" else TRUE, name)


@pytest.mark.parametrize(
    ("numbers", "is_said"),
    [
        ((2**62 - 1, 1), True), ((2**62, 1), False), ((1, 2**63 - 1), False),
        ((-(2**62) + 1, 0), True), ((-(2**62), 0), False), ((2**61, 2**61, 2**61), True),
    ],
)  # fmt: skip
def test_a_sum_that_might_not_fit_is_left_to_the_rows(
    numbers: tuple[int, ...], is_said: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{**EIGHT[0], "id": at, "n": number} for at, number in enumerate(numbers, 1)]
    text = f"sum(x.n for x in before.item) == {sum(numbers)}"
    assert decoded_by(text, rows, monkeypatch) == ([] if is_said else [r["id"] for r in rows])


def test_after_the_first_that_decides_only_the_unknown_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows: list[Row] = [{**row, "n": None if row["id"] == 1 else -1} for row in EIGHT]
    for together in (1, 512):
        monkeypatch.setattr("statediff.contract.evaluation.columns.GROUP", together)
        assert decoded_by("all(x.n > 0 for x in before.item)", rows, monkeypatch) == [1, 2]
        assert decoded_by("any(x.n < 0 for x in before.item)", rows, monkeypatch) == [1, 2]
