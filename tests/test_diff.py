"""The diff agrees with a naive row-by-row comparison, and never guesses across what is unknown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import statediff.kernel.diff as diff_stage
from statediff.contract.document.contract import Canonicalize
from statediff.kernel.canonicalize.book import RuleBook
from statediff.kernel.canonicalize.rules import rule_book
from statediff.kernel.diff import diff
from statediff.model.batches import Row, encode_rows
from statediff.model.boundary import Boundary, RuleError
from statediff.model.columns import table_changes
from statediff.model.delta import Delta, Diff, Doubt, Entity, Label, Op, default_label
from statediff.model.nested import Change, apply
from statediff.model.schema import EntityType, Field, Kind, Purpose, Schema
from statediff.model.state import Coverage, Enumeration, MemoryChunks, State, Table, build_table
from statediff.model.values import (
    ABSENT,
    Excluded,
    Key,
    Map,
    Observed,
    Unobserved,
    encode,
    key_order,
    same,
)

ITEM = EntityType(
    "item",
    ("shelf", "id"),
    (
        Field("shelf", Kind.TEXT),
        Field("id", Kind.INT),
        Field("count", Kind.INT),
        Field("name", Kind.TEXT),
        Field("weight", Kind.FLOAT),
        Field("price", Kind.DECIMAL),
        Field("seen", Kind.TIMESTAMP),
        Field("tags", Kind.LIST),
        Field("note", Kind.ANY),
    ),
)
LOG = EntityType(
    "log", (), (Field("what", Kind.TEXT), Field("size", Kind.INT), Field("at", Kind.INT))
)
PLAIN = EntityType(
    "plain",
    ("id",),
    (Field("id", Kind.INT), Field("a", Kind.TEXT), Field("b", Kind.INT), Field("c", Kind.INT)),
)
MISSED = Unobserved("not UTF-8")


def state(
    tables: Mapping[EntityType, list[Row]],
    cuts: tuple[Key, ...] | None = None,
    enumeration: Enumeration | None = None,
) -> State:
    built = {}
    for entity_type, rows in tables.items():
        store = MemoryChunks()
        like = None if cuts is None else Table(entity_type, (), cuts, store)
        table = build_table(entity_type, rows, store, like=like)
        built[entity_type.name] = (
            table if enumeration is None else replace(table, enumeration=enumeration)
        )
    types = tuple(sorted(tables, key=lambda t: t.name))
    return State(Schema("test", "1", types), built)


def plain(*rows: tuple[Any, ...], of: EntityType = PLAIN) -> dict[EntityType, list[Row]]:
    names = [f.name for f in of.fields]
    return {of: [dict(zip(names, row, strict=True)) for row in rows]}


def brief(found: Diff) -> list[tuple[str, str]]:
    return [(delta.op.value, delta.id) for delta in found.deltas]


def written(row: Row) -> str:
    return str([[name, encode(row[name])] for name in sorted(row)])


# --- strategies --------------------------------------------------------------------------------

markers = st.sampled_from([ABSENT, Excluded("rule"), MISSED, Unobserved("torn")])
scalars: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1, 2, 2**70]),
    st.sampled_from([0.0, -0.0, 1.0, float("nan"), float("inf")]),
    st.sampled_from([Decimal(1), Decimal("1.0"), Decimal("1.00"), Decimal("NaN")]),
    st.sampled_from(["", "1", "a", "A", "\u00e9", "e\u0301"]),
    st.sampled_from([b"", b"1"]),
    st.sampled_from([datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1)]),  # noqa: DTZ001
)
anything: st.SearchStrategy[Any] = st.one_of(
    scalars,
    st.lists(scalars, max_size=3).map(tuple),
    st.dictionaries(st.sampled_from("xy"), scalars, max_size=2).map(Map.of),
)
natives: dict[Kind, st.SearchStrategy[Any]] = {
    Kind.INT: st.integers(0, 3),
    Kind.TEXT: st.sampled_from(["", "a", "b"]),
    Kind.FLOAT: st.sampled_from([0.0, -0.0, 1.5, float("nan")]),
    Kind.DECIMAL: st.sampled_from([Decimal("1.0"), Decimal("1.00"), Decimal(2)]),
    Kind.TIMESTAMP: st.integers(0, 2).map(lambda s: datetime(2026, 1, 1, 0, 0, s, tzinfo=UTC)),
    Kind.LIST: st.lists(st.integers(0, 2), max_size=3).map(tuple),
    Kind.ANY: anything,
}


def cells(kind: Kind, with_markers: bool = True) -> st.SearchStrategy[Any]:
    native = natives[kind]
    usual = st.one_of(native, native, native, st.none())
    return st.one_of(usual, usual, usual, anything, markers) if with_markers else usual


def rows_of(entity_type: EntityType, with_markers: bool = True) -> st.SearchStrategy[list[Row]]:
    row = st.fixed_dictionaries(
        {
            f.name: natives[f.kind] if f.name in entity_type.key else cells(f.kind, with_markers)
            for f in entity_type.fields
        }
    )

    def distinct(row: Row) -> Any:
        return tuple(str(encode(row[name])) for name in entity_type.key)

    unique = distinct if entity_type.key else None
    return st.lists(row, max_size=8, unique_by=unique)


@st.composite
def pairs(draw: st.DrawFn, entity_type: EntityType, with_markers: bool = True) -> Any:
    """Two lists of rows that share most of them."""
    before: list[Row] = draw(rows_of(entity_type, with_markers))
    after: list[Row] = []
    for row in before:
        fate = draw(st.sampled_from(["keep", "keep", "change", "drop"]))
        if fate == "change":
            names = [f for f in entity_type.fields if f.name not in entity_type.key]
            spec = draw(st.sampled_from(names))
            after.append({**row, spec.name: draw(cells(spec.kind, with_markers))})
        elif fate == "keep":
            after.append(dict(row))
    known = [[row[name] for name in entity_type.key] for row in before]
    new = draw(rows_of(entity_type, with_markers))
    keys = [[row[name] for name in entity_type.key] for row in new]
    after += [r for r, k in zip(new, keys, strict=True) if not entity_type.key or k not in known]
    return before, after


item_cuts = st.lists(st.tuples(natives[Kind.TEXT], natives[Kind.INT]), max_size=3, unique=True).map(
    lambda cuts: tuple(sorted(cuts))
)
log_cuts = st.lists(
    st.tuples(st.sampled_from(["4", "8", "c"]), st.just(0)), max_size=3, unique=True
).map(lambda cuts: tuple(sorted(cuts)))


def keyed(table: Table) -> dict[Any, tuple[Key, Row]]:
    return {key_order(key): (key, row) for key, row in table.rows()}


# --- the fast path agrees with the naive one -----------------------------------------------------


@given(
    st.one_of(
        st.tuples(st.just(ITEM), pairs(ITEM), item_cuts, item_cuts),
        st.tuples(st.just(LOG), pairs(LOG), log_cuts, log_cuts),
    ),
    st.booleans(),
)
def test_table_changes_are_what_a_row_by_row_comparison_finds(drawn: Any, trust: bool) -> None:
    entity_type, (before, after), cuts_before, cuts_after = drawn
    left = state({entity_type: before}, cuts_before).tables[entity_type.name]
    right = state({entity_type: after}, cuts_after).tables[entity_type.name]
    rows_before, rows_after = keyed(left), keyed(right)
    wanted = []
    for order in sorted({*rows_before, *rows_after}):
        one, two = rows_before.get(order), rows_after.get(order)
        if (
            one is None
            or two is None
            or not all(same(one[1][n], two[1][n]) for n in one[1])
            or any(isinstance(cell, Unobserved) for cell in one[1].values())
        ):
            wanted.append(order)
    found = list(table_changes(left, right, trust_digests=trust))
    orders = [key_order(change.key) for change in found]
    assert orders == sorted(orders)
    really = []
    for change, order in zip(found, orders, strict=True):
        for row, rows in ((change.before, rows_before), (change.after, rows_after)):
            assert (row is None) == (order not in rows)
            assert row is None or all(same(row[n], rows[order][1][n]) for n in row)
        if (
            change.before is None
            or change.after is None
            or any(
                isinstance(cell, Unobserved) or not same(cell, change.after[name])
                for name, cell in change.before.items()
            )
        ):
            really.append(order)
    assert really == wanted


def naive_places(place: str, v0: Any, v1: Any, *, is_multiset: bool) -> Iterator[Any]:
    """The places where two values differ, as a reader would say it."""
    if isinstance(v0, tuple) and isinstance(v1, tuple) and not is_multiset:
        for at in range(max(len(v0), len(v1))):
            one, two = (v[at] if at < len(v) else ABSENT for v in (v0, v1))
            yield from naive_places(f"{place}[{at}]", one, two, is_multiset=False)
    elif encode(v0) != encode(v1):
        yield place, v0, v1


def naive(before: Table, after: Table, nu: RuleBook | None, outside: Boundary) -> set[str]:
    """The lines a reader of the design would compute for a keyed type, one a delta or doubt."""
    rows_before, rows_after = keyed(before), keyed(after)
    lines = set()
    for order in {*rows_before, *rows_after}:
        if order not in rows_after:
            lines.add(f"delete {rows_before[order][0]!r}")
            continue
        if order not in rows_before:
            lines.add(f"create {rows_after[order][0]!r}")
            continue
        key, one = rows_before[order]
        two = rows_after[order][1]
        for name in one:
            v0 = nu.row("item", one)[name] if nu else one[name]
            v1 = nu.row("item", two)[name] if nu else two[name]
            if outside.excludes("item", name):
                if not same(one[name], two[name]):
                    lines.add(f"hidden {key!r} {name}")
            elif isinstance(v0, Unobserved) or isinstance(v1, Unobserved):
                lines.add(f"doubt {key!r} {name}")
            elif encode(v0) != encode(v1):
                is_multiset = nu is not None and name == "tags"
                for place, old, new in naive_places(name, v0, v1, is_multiset=is_multiset):
                    lines.add(f"update {key!r} {place} {encode(old)} {encode(new)}")
            elif encode(one[name]) != encode(two[name]):
                lines.add(f"hidden {key!r} {name}")
    return lines


BOOK = rule_book(
    Schema("test", "1", (ITEM, LOG)),
    (
        Canonicalize(use="nfc@1", on=("item.name", "item.note"), because="two editors"),
        Canonicalize(use="trim@1", on=("item.note",), because="pasted"),
        Canonicalize(use="decimal@1", on=("item.price", "item.weight"), because="cents"),
        Canonicalize(use="unordered@1", on=("item.tags",), because="a set"),
        Canonicalize(use="ignore@1", on=("log.at",), because="the clock of the log"),
    ),
)  # fmt: skip


@given(pairs(ITEM), item_cuts, item_cuts, st.booleans(), st.booleans())
def test_deltas_hidden_deltas_and_doubts_are_the_naive_ones(
    drawn: Any, cuts_before: Any, cuts_after: Any, with_nu: bool, bounded: bool
) -> None:
    before, after = state({ITEM: drawn[0]}, cuts_before), state({ITEM: drawn[1]}, cuts_after)
    nu = BOOK if with_nu else None
    boundary = Boundary(before.schema, [("item.count", "counted elsewhere")] if bounded else [])
    found = diff(before, after, nu, boundary)
    lines = {
        f"{d.op.value} {d.key!r}"
        + (f" {d.place} {encode(d.before)} {encode(d.after)}" if d.path else "")  # type: ignore[arg-type]
        for d in found.deltas
    }
    lines |= {f"hidden {h.delta.key!r} {h.delta.path}" for h in found.hidden}
    lines |= {f"doubt {d.key!r} {d.path}" for d in found.doubts}
    assert lines == naive(before.tables["item"], after.tables["item"], nu, boundary)
    assert len(lines) == len(found.deltas) + len(found.hidden) + len(found.doubts)


@given(pairs(ITEM, with_markers=False), st.booleans())
def test_applying_the_deltas_to_before_gives_after(drawn: Any, with_nu: bool) -> None:
    before, after = state({ITEM: drawn[0]}), state({ITEM: drawn[1]})
    nu = BOOK if with_nu else RuleBook(before.schema)
    inside: dict[Any, list[Change]] = defaultdict(list)
    world = {order: nu.row("item", row) for order, (_, row) in keyed(before.tables["item"]).items()}
    for delta in diff(before, after, nu).deltas:
        order = key_order(delta.key)
        if delta.path:
            change = Change(delta.steps, delta.before, delta.after)  # type: ignore[arg-type]
            inside[order, delta.path].append(change)
        elif isinstance(delta.after, Entity):
            assert order not in world
            world[order] = delta.after.as_row()
        else:
            assert isinstance(delta.before, Entity)
            gone = world.pop(order)
            assert all(same(gone[n], v) for n, v in delta.before.fields)
    for (order, name), changes in inside.items():
        world[order][name] = apply(world[order][name], changes)  # type: ignore[arg-type]
    wanted = keyed(after.tables["item"])
    assert set(world) == set(wanted)
    for order, row in world.items():
        assert all(same(row[n], v) for n, v in nu.row("item", wanted[order][1]).items())


@given(pairs(LOG), st.booleans())
def test_rows_without_a_key_are_counted(drawn: Any, with_nu: bool) -> None:
    before, after = state({LOG: drawn[0]}), state({LOG: drawn[1]})
    nu = BOOK if with_nu else RuleBook(before.schema)
    found = diff(before, after, nu)
    if any(isinstance(v, Unobserved) for rows in drawn for row in rows for v in row.values()):
        return

    def counts(rows: list[Row]) -> dict[str, int]:
        seen: dict[str, int] = {}
        for row in rows:
            content = written(nu.row("log", row))
            seen[content] = seen.get(content, 0) + 1
        return seen

    moved = counts(drawn[1])
    for content, n in counts(drawn[0]).items():
        moved[content] = moved.get(content, 0) - n
    told: dict[str, int] = {}
    for delta in found.deltas:
        step = 1 if delta.op is Op.CREATE else -1
        entity = delta.after if delta.op is Op.CREATE else delta.before
        assert isinstance(entity, Entity)
        content = written(entity.as_row())
        told[content] = told.get(content, 0) + step
    assert told == {content: n for content, n in moved.items() if n}
    assert not found.doubts


@given(rows_of(ITEM), rows_of(LOG), st.booleans())
def test_a_state_diffed_with_itself_is_empty(items: list[Row], logs: list[Row], nu: bool) -> None:
    world = state({ITEM: items, LOG: logs})
    found = diff(world, world, BOOK if nu else None)
    assert (found.deltas, found.hidden) == ((), ())
    unknown = any(isinstance(v, Unobserved) for row in (*items, *logs) for v in row.values())
    assert unknown or not found.doubts


@given(pairs(ITEM), pairs(LOG), st.randoms(use_true_random=False))
def test_shuffling_the_rows_changes_nothing_and_inputs_stay(
    items: Any, logs: Any, random: Any
) -> None:
    sides = [state({ITEM: items[i], LOG: logs[i]}) for i in (0, 1)]
    digests = [side.digest() for side in sides]
    first = diff(*sides, BOOK)
    for rows in (*items, *logs):
        random.shuffle(rows)
    again = diff(*(state({ITEM: items[i], LOG: logs[i]}) for i in (0, 1)), BOOK)
    assert repr(first) == repr(again)
    assert [side.digest() for side in sides] == digests
    assert [d.key for d in first.deltas] == [
        d.key for d in sorted(first.deltas, key=lambda d: (d.type, key_order(d.key)))
    ]


@given(rows_of(LOG), rows_of(LOG), st.integers(0, 2))
def test_a_delta_between_rows_without_a_key_holds_in_every_completion(
    before: list[Row], after: list[Row], fill: int
) -> None:
    found = diff(state({LOG: before}), state({LOG: after}))

    def completed(rows: list[Row]) -> list[Row]:
        return [{n: fill if isinstance(v, Unobserved) else v for n, v in r.items()} for r in rows]

    full = diff(state({LOG: completed(before)}), state({LOG: completed(after)}))

    def told(deltas: tuple[Delta, ...], op: Op) -> list[Row]:
        sides = [d.after if op is Op.CREATE else d.before for d in deltas if d.op is op]
        return completed([side.as_row() for side in sides if isinstance(side, Entity)])

    for op in (Op.CREATE, Op.DELETE):
        left = [written(row) for row in told(full.deltas, op)]
        for row in told(found.deltas, op):
            left.remove(written(row))


# --- single behaviours ----------------------------------------------------------------------------


def test_a_change_without_a_contract_is_one_delta_a_field_with_evidence() -> None:
    found = diff(
        state(plain((1, "x", 1, 1), (2, "y", 2, 2))),
        state(plain((1, "x", 5, 6), (3, "z", 3, 3))),
        evidence={"plain": (("r1",), ("r2",))},
    )
    assert brief(found) == [
        ("update", "plain[1].b"), ("update", "plain[1].c"),
        ("delete", "plain[2]"), ("create", "plain[3]"),
    ]  # fmt: skip
    update, _, delete, create = found.deltas
    assert (update.before, update.after, update.evidence) == (1, 5, ("r1", "r2"))
    assert create.before is ABSENT
    assert create.after == Entity.of({"id": 3, "a": "z", "b": 3, "c": 3})
    assert delete.after is ABSENT
    assert [d.label for d in found.deltas] == [
        Label.CONDITIONAL, Label.CONDITIONAL, Label.IRREVERSIBLE, Label.CONDITIONAL,
    ]  # fmt: skip


def test_representation_counts_unless_nu_says_otherwise() -> None:
    typed = EntityType("item", ("id",), (Field("id", Kind.INT), Field("price", Kind.ANY)))
    before = state(plain((1, Decimal("1.0")), (2, 1), (3, 0.0), of=typed))
    after = state(plain((1, Decimal("1.00")), (2, True), (3, -0.0), of=typed))
    assert len(diff(before, after).deltas) == 3
    rules = (Canonicalize(use="decimal@1", on=("item.price",), because="cents"),)
    book = rule_book(before.schema, rules)
    found = diff(before, after, book)
    assert brief(found) == [("update", "item[2].price")]
    assert [(h.delta.id, h.rule, h.by_boundary) for h in found.hidden] == [
        ("item[1].price", "decimal@1 (cents)", False),
        ("item[3].price", "decimal@1 (cents)", False),
    ]
    hidden = found.hidden[0].delta
    assert same(hidden.raw_before, Decimal("1.0"))  # type: ignore[arg-type]
    assert same(hidden.before, Decimal("1.00"))  # type: ignore[arg-type]


def test_what_lies_outside_the_boundary_is_hidden_with_its_reason() -> None:
    before = state({**plain((1, "x", 1, 1)), **plain(("m", 1, 1), of=LOG)})
    after = state({**plain((1, "y", 1, 2), (2, "z", 0, 0)), **plain(("n", 1, 1), of=LOG)})
    boundary = Boundary(before.schema, [("plain.a", "random"), ("log", "not ours")])
    found = diff(before, after, boundary=boundary)
    assert brief(found) == [("update", "plain[1].c"), ("create", "plain[2]")]
    created = found.deltas[1].after
    assert isinstance(created, Entity)
    assert created.as_row()["a"] == Excluded("exclude: plain.a (random)")
    assert {(h.delta.type, h.delta.op, h.rule) for h in found.hidden} == {
        ("log", Op.CREATE, "exclude: log (not ours)"),
        ("log", Op.DELETE, "exclude: log (not ours)"),
        ("plain", Op.UPDATE, "exclude: plain.a (random)"),
    }
    assert all(h.by_boundary for h in found.hidden)


def test_rows_without_a_key_that_differ_only_outside_the_boundary_are_one_row() -> None:
    before, after = state(plain(("a", 1, 7), of=LOG)), state(plain(("a", 1, 8), of=LOG))
    assert len(diff(before, after).deltas) == 2
    found = diff(before, after, boundary=Boundary(before.schema, [("log.at", "a clock")]))
    assert (found.deltas, len(found.hidden)) == ((), 2)
    assert all(h.by_boundary and h.rule == "exclude: log.at (a clock)" for h in found.hidden)
    found = diff(before, after, BOOK)
    assert (found.deltas, len(found.hidden)) == ((), 2)
    assert not any(h.by_boundary for h in found.hidden)


def test_rows_of_an_association_are_linked_and_unlinked() -> None:
    member = EntityType(
        "member", ("user", "group"), (Field("user", Kind.INT), Field("group", Kind.INT)),
        is_association=True,
    )  # fmt: skip
    found = diff(state(plain((1, 1), of=member)), state(plain((1, 2), of=member)))
    assert [d.op for d in found.deltas] == [Op.UNLINK, Op.LINK]


def test_what_comes_or_goes_is_a_link_where_its_own_side_says_so() -> None:
    pure = EntityType(
        "member", ("user", "group"), (Field("user", Kind.INT), Field("group", Kind.INT)),
        is_association=True,
    )  # fmt: skip
    rows = (1, 1), (1, 2)
    for types, wanted in (
        ((pure, replace(pure, is_association=False)), [Op.UNLINK, Op.CREATE]),
        ((replace(pure, is_association=False), pure), [Op.DELETE, Op.LINK]),
    ):
        sides = [state(plain(row, of=of)) for row, of in zip(rows, types, strict=True)]
        assert [d.op for d in diff(*sides).deltas] == wanted


@pytest.mark.parametrize(
    ("gone", "kept"),
    [(True, False), ("2026-01-01", None), (1, 0), (Decimal("1.0"), Decimal("0.0")), ("1", "0"),
     ("yes", ""), ("true", "False")],
)  # fmt: skip
def test_soft_deletion_is_a_delete_and_its_undoing_a_create(gone: Any, kept: Any) -> None:
    kind = Kind.BOOL if gone is True else Kind.ANY
    soft = replace(PLAIN, fields=(*PLAIN.fields, Field("gone", kind)), deleted_when="gone")
    before = state(plain((1, "x", 1, 1, kept), (2, "y", 1, 1, gone), (3, "z", 1, 1, gone), of=soft))
    after = state(plain((1, "w", 1, 1, gone), (2, "y", 1, 1, kept), (3, "q", 1, 1, gone), of=soft))
    found = diff(before, after)
    assert brief(found) == [
        ("delete", "plain[1]"), ("update", "plain[1].a"), ("create", "plain[2]"),
        ("update", "plain[3].a"),
    ]  # fmt: skip
    assert found.deltas[0].label is Label.IRREVERSIBLE
    assert found.deltas[0].after is ABSENT
    assert isinstance(found.deltas[0].raw_after, Entity)
    hidden = diff(before, after, boundary=Boundary(before.schema, [("plain.gone", "internal")]))
    assert brief(hidden) == [("update", "plain[1].a"), ("update", "plain[3].a")]
    assert [(h.delta.op, h.by_boundary) for h in hidden.hidden] == [
        (Op.DELETE, True), (Op.CREATE, True),
    ]  # fmt: skip


def test_what_is_born_deleted_is_a_creation_and_a_deletion() -> None:
    soft = replace(PLAIN, fields=(*PLAIN.fields, Field("gone", Kind.ANY)), deleted_when="gone")
    before = state(plain((1, "x", 1, 1, None), of=soft))
    after = state(plain((1, "x", 1, 1, None), (2, "y", 1, 1, "now"), (3, "z", 1, 1, None), of=soft))
    found = diff(before, after)
    assert brief(found) == [
        ("delete", "plain[2]"), ("create", "plain[2]"), ("create", "plain[3]"),
    ]  # fmt: skip
    assert found.deltas[0].label is Label.IRREVERSIBLE
    hidden = diff(before, after, boundary=Boundary(before.schema, [("plain.gone", "internal")]))
    assert brief(hidden) == [("create", "plain[2]"), ("create", "plain[3]")]
    torn = Enumeration(Coverage.INCOMPLETE, "page 2 missing")
    missed = state(plain((1, "x", 1, 1, None), of=soft), enumeration=torn)
    assert diff(missed, after).deltas == ()


@pytest.mark.parametrize(
    ("mark", "op"), [("now", Op.UPDATE), (1, Op.UPDATE), (None, Op.DELETE), (0, Op.DELETE)]
)
def test_what_was_softly_deleted_is_purged_and_not_deleted_again(mark: Any, op: Op) -> None:
    before = state(plain((1, "x", 1, 1, mark), (2, "y", 1, 1, None), of=SOFT))
    after = state(plain((2, "y", 1, 1, None), of=SOFT))
    (found,) = diff(before, after).deltas
    assert (found.op, found.label, found.after) == (op, Label.IRREVERSIBLE, ABSENT)
    if op is Op.UPDATE:
        assert (found.id, found.before, found.raw_after) == ("plain[1].gone", mark, ABSENT)
    hidden = diff(before, after, boundary=Boundary(before.schema, [("plain.gone", "internal")]))
    assert brief(hidden) == [("delete", "plain[1]")]
    torn = Enumeration(Coverage.INCOMPLETE, "page 2 missing")
    missed = diff(before, state(plain((2, "y", 1, 1, None), of=SOFT), enumeration=torn))
    assert (missed.deltas, missed.doubts[-1].key) == ((), (1,))


def test_whether_a_row_is_purged_or_deleted_is_open_where_its_mark_was_not_read() -> None:
    before = state(plain((1, "x", 1, 1, TORN), of=SOFT))
    found = diff(before, state(plain(of=SOFT)))
    assert (found.deltas, told(found)) == ((), [("plain[1]", "", "torn")])


def test_another_entity_under_the_key_of_one_that_was_softly_deleted_is_created() -> None:
    typed = replace(SOFT, fields=(*SOFT.fields[:3], KIND, SOFT.fields[-1]))
    before = state(plain((1, "x", 1, 1, "then"), of=typed))
    after = state(plain((1, "x", 1, 2, None), of=typed))
    assert brief(diff(before, after)) == [("create", "plain[1]"), ("update", "plain[1].gone")]


def test_an_incomplete_enumeration_makes_absence_a_doubt() -> None:
    torn = Enumeration(Coverage.INCOMPLETE, "page 2 missing")
    full, part = plain((1, "x", 1, 1), (2, "y", 1, 1)), plain((1, "x", 2, 1))
    found = diff(state(full), state(part, enumeration=torn))
    assert brief(found) == [("update", "plain[1].b")]
    assert [(d.key, d.path, d.cause) for d in found.doubts] == [
        (None, None, "page 2 missing"), ((2,), "", "page 2 missing"),
    ]  # fmt: skip
    found = diff(state(part, enumeration=torn), state(full))
    assert brief(found) == [("update", "plain[1].b")]
    assert found.doubts[1].key == (2,)
    found = diff(state(full, enumeration=torn), state(part))
    assert brief(found) == [("update", "plain[1].b"), ("delete", "plain[2]")]


def test_an_unobserved_type_is_one_doubt_and_no_delta() -> None:
    lost = Enumeration(Coverage.UNOBSERVED, "connection refused")
    rows = plain((1, "x", 1, 1))
    found = diff(state(rows), state(plain(), enumeration=lost))
    assert found == Diff((), (), (Doubt("plain", None, None, "connection refused", "capture"),))


def test_a_type_only_one_state_has_is_a_doubt() -> None:
    before, after = state({}), state(plain((1, "x", 1, 1)))
    wanted = (Doubt("plain", None, None, "no source delivered it", "capture"),)
    assert diff(before, after) == diff(after, before) == Diff((), (), wanted)


def test_a_field_a_migration_adds_was_absent() -> None:
    wide = replace(PLAIN, fields=(*PLAIN.fields, Field("d", Kind.INT)))
    found = diff(state(plain((1, "x", 1, 1))), state(plain((1, "x", 1, 1, None), of=wide)))
    assert brief(found) == [("update", "plain[1].d")]
    assert (found.deltas[0].before, found.deltas[0].after) == (ABSENT, None)
    rules = (Canonicalize(use="ignore@1", on=("plain.d",), because="new"),)
    book = rule_book(Schema("test", "1", (wide,)), rules)
    found = diff(state(plain((1, "x", 1, 1))), state(plain((1, "x", 1, 1, 3), of=wide)), book)
    assert (found.deltas, len(found.hidden)) == ((), 1)


def test_a_changed_key_definition_is_a_doubt_of_resolution() -> None:
    other = replace(PLAIN, key=("a",))
    found = diff(state(plain((1, "x", 1, 1))), state(plain((1, "x", 1, 1), of=other)))
    assert found.deltas == ()
    assert [d.stage for d in found.doubts] == ["resolve"]


def test_labels_follow_the_design() -> None:
    def label(op: Op, name: str, holds: Purpose | None = None) -> Label:
        return default_label(op, EntityType(name, ("id",), (), holds=holds).purpose)

    assert label(Op.DELETE, "order") is Label.IRREVERSIBLE
    assert label(Op.UPDATE, "db.grant") is Label.IRREVERSIBLE
    assert label(Op.CREATE, "message") is Label.IRREVERSIBLE
    assert label(Op.UPDATE, "message") is Label.CONDITIONAL
    assert label(Op.CREATE, "order") is Label.CONDITIONAL
    assert {label(op, "right", Purpose.PERMISSIONS) for op in Op} == {Label.IRREVERSIBLE}
    assert label(Op.LINK, "mail", Purpose.MESSAGES) is Label.IRREVERSIBLE
    assert label(Op.UPDATE, "mail", Purpose.MESSAGES) is Label.CONDITIONAL
    assert label(Op.CREATE, "entry", Purpose.HISTORY) is Label.CONDITIONAL
    assert label(Op.UPDATE, "entry", Purpose.HISTORY) is Label.IRREVERSIBLE
    assert label(Op.UPDATE, "message", Purpose.HISTORY) is Label.IRREVERSIBLE, "the schema decides"


@pytest.mark.parametrize(
    ("excludes", "index", "message"),
    [
        ([("plain.a", "why"), ("plian", "why")], 1, "did you mean 'plain'"),
        ([("plain.d", "why")], 0, "has no field 'd'"),
        ([("plain", " ")], 0, "without a reason"),
        ([("plain", "why"), ("plain.a", "why")], 1, "already excluded"),
    ],
)
def test_a_boundary_that_names_nothing_is_refused(
    excludes: list[tuple[str, str]], index: int, message: str
) -> None:
    with pytest.raises(RuleError, match=message) as caught:
        Boundary(state(plain()).schema, excludes)
    assert caught.value.index == index


def test_few_changes_among_many_rows_decode_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(i, f"name {i}", i, i) for i in range(20_000)]
    before = state(plain(*rows))
    rows[777] = (777, "changed", 777, 777)
    del rows[15_000]
    rows.insert(3, (-5, "new", 0, 0))
    after = state(plain(*rows), before.tables["plain"].partition)
    decoded = []
    original = MemoryChunks.get
    monkeypatch.setattr(
        MemoryChunks, "get", lambda self, ref: decoded.append(ref) or original(self, ref)
    )
    found = diff(before, after)
    assert brief(found) == [
        ("create", "plain[-5]"), ("update", "plain[777].a"), ("delete", "plain[15000]"),
    ]  # fmt: skip
    assert len(decoded) == 4  # two chunks a side of five
    recut = state(plain(*rows))
    assert brief(diff(before, recut)) == brief(found)


def test_values_of_any_kind_keep_their_markers_in_a_created_entity() -> None:
    found = diff(state(plain()), state(plain((1, MISSED, ABSENT, 1))))
    entity = found.deltas[0].after
    assert isinstance(entity, Entity)
    wanted: list[Observed] = [1, MISSED, ABSENT, 1]
    assert list(entity.as_row().values()) == wanted
    assert found.doubts == ()


# --- what it says of what it cannot say -----------------------------------------------------------

KIND = Field("c", Kind.INT, is_immutable=True)
NAMED = replace(PLAIN, fields=(*PLAIN.fields[:3], KIND))
SOFT = replace(PLAIN, fields=(*PLAIN.fields, Field("gone", Kind.ANY)), deleted_when="gone")
TORN = Unobserved("torn")


def told(found: Diff) -> list[tuple[str, str | None, str]]:
    return [(doubt.where, doubt.path, doubt.cause) for doubt in found.doubts]


def test_a_doubt_names_the_source_where_one_alone_delivers_the_type() -> None:
    world = state(plain((1, MISSED, 1, 1)))
    for sources, named in (
        ((), ""), ((("db", ("plain",)),), "db"), ((("db", ("plain",)), ("crm", ("plain",))), ""),
    ):  # fmt: skip
        known = replace(world, schema=replace(world.schema, sources=sources))
        (doubt,) = diff(known, known).doubts
        assert (doubt.source, doubt.stage) == (named, "capture")


@pytest.mark.parametrize("cause", [None, "page 2 missing"])
def test_what_an_enumeration_may_have_missed_is_doubted_with_its_cause(cause: str | None) -> None:
    torn = Enumeration(Coverage.INCOMPLETE, cause)
    found = diff(state(plain((1, "x", 1, 1))), state(plain(), enumeration=torn))
    why = cause or "not enumerated"
    assert (found.deltas, told(found)) == ((), [("plain", None, why), ("plain[1]", "", why)])
    keyless = diff(state(plain(("a", 1, 1), of=LOG)), state(plain(of=LOG), enumeration=torn))
    assert [(d.path, d.cause) for d in keyless.doubts] == [(None, why), ("", why)]


def test_of_a_type_outside_the_boundary_nothing_is_doubted() -> None:
    torn = Enumeration(Coverage.INCOMPLETE, "page 2 missing")
    before = state(plain((1, MISSED, 1, 1)))
    boundary = Boundary(before.schema, [("plain", "not ours")])
    for after in (
        state(plain(), enumeration=torn), state({}),
        state(plain((1, MISSED, 1, 1), of=replace(PLAIN, key=("b",)))),
    ):  # fmt: skip
        assert diff(before, after).doubts
        assert diff(before, after, boundary=boundary) == Diff((), (), ())


def test_what_a_rule_hides_is_outside_the_boundary_where_its_type_is() -> None:
    before, after = state(plain((1, "a", 1, 1))), state(plain((1, "A", 2, 1)))
    rules = rule_book(
        before.schema, (Canonicalize(use="casefold@1", on=("plain.a",), because="a test"),)
    )
    boundary = Boundary(before.schema, [("plain", "not ours")])
    found = diff(before, after, rules, boundary)
    assert (found.deltas, found.doubts) == ((), ())
    assert [(h.delta.path, h.rule, h.by_boundary) for h in found.hidden] == [
        ("a", "exclude: plain (not ours)", True), ("b", "exclude: plain (not ours)", True),
    ]  # fmt: skip


def test_doubts_are_sorted_by_type_entity_and_path() -> None:
    rows = plain((2, MISSED, 1, 1), (1, "x", MISSED, MISSED))
    world = state({**rows, LOG: [{"what": MISSED, "size": 1, "at": 1}]})
    found = diff(world, world)
    keyless, *others = found.doubts
    assert (keyless.type, keyless.path) == ("log", "")
    assert [(doubt.key, doubt.path) for doubt in others] == [((1,), "b"), ((1,), "c"), ((2,), "a")]


@pytest.mark.parametrize(
    ("before", "after", "doubts"),
    [
        ((1, MISSED, 1, 1), (1, "x", 1, 1), [("plain[1].a", "a", "not UTF-8")]),
        ((1, "x", 1, 1), (1, MISSED, 1, 1), [("plain[1].a", "a", "not UTF-8")]),
        ((1, MISSED, 1, 1), (1, MISSED, 1, 1), [("plain[1].a", "a", "not UTF-8")]),
        ((1, MISSED, 1, 1), (1, TORN, 1, 1), [("plain[1].a", "a", "not UTF-8; torn")]),
        ((1, MISSED, TORN, 1), (1, "x", 1, 1),
         [("plain[1].a", "a", "not UTF-8"), ("plain[1].b", "b", "torn")]),
    ],
)  # fmt: skip
def test_a_cell_that_was_not_observed_is_doubted_and_the_others_are_compared(
    before: Any, after: Any, doubts: Any
) -> None:
    sides = state(plain(before, (2, "x", 1, 1))), state(plain((*after[:3], 9), (2, "x", 1, 2)))
    found = diff(*sides)
    assert told(found) == doubts
    assert brief(found) == [("update", "plain[1].c"), ("update", "plain[2].c")]


@pytest.mark.parametrize(
    ("of", "before", "after", "deltas", "doubts"),
    [
        # What decides identity was not observed: of the whole entity nothing is known.
        (NAMED, (1, "x", 1, MISSED), (1, "y", 1, 5), [], [("plain[1]", None, "not UTF-8")]),
        # Whether it was softly deleted or not, what else of its row changed is an update.
        (SOFT, (1, "x", 1, 1, None), (1, "y", 1, 1, MISSED), ["update plain[1].a"],
         [("plain[1]", None, "not UTF-8")]),
        (SOFT, (1, "x", 1, 1, MISSED), (1, "y", TORN, 1, True), ["update plain[1].a"],
         [("plain[1]", None, "not UTF-8"), ("plain[1].b", "b", "torn")]),
        (SOFT, (1, "x", 1, 1, None), (1, "y", TORN, 1, True),
         ["delete plain[1]", "update plain[1].a"], [("plain[1].b", "b", "torn")]),
        # Otherwise the cell alone is in doubt.
        (NAMED, (1, MISSED, 1, 5), (1, "y", 2, 5), ["update plain[1].b"],
         [("plain[1].a", "a", "not UTF-8")]),
        (NAMED, (1, MISSED, 1, 5), (1, "y", 2, 6), ["delete plain[1]", "create plain[1]"], []),
        # A migration that adds what decides identity replaces nobody.
        (NAMED, (1, "x", 1, ABSENT), (1, "x", 1, 5), ["update plain[1].c"], []),
        (NAMED, (1, "x", 1, 5), (1, "x", 1, ABSENT), ["update plain[1].c"], []),
        (NAMED, (1, "x", 1, 5), (1, "x", 1, None), ["delete plain[1]", "create plain[1]"], []),
    ],
)  # fmt: skip
def test_identity_is_decided_by_what_was_observed(
    of: EntityType, before: Any, after: Any, deltas: list[str], doubts: Any
) -> None:
    found = diff(state(plain(before, of=of)), state(plain(after, of=of)))
    assert [" ".join(delta) for delta in brief(found)] == deltas
    assert told(found) == doubts


REUSED = "ambiguous identity: keys are reused, no immutable field says it is the same"


@pytest.mark.parametrize(
    ("of", "before", "after", "deltas", "doubts"),
    [
        (PLAIN, (1, "x", 1, 1), (1, "y", 1, 1), [], [("plain[1]", None, REUSED)]),
        (PLAIN, (1, "x", 1, 1), (1, "x", 1, 1), [], []),
        (PLAIN, (1, MISSED, 1, 1), (1, "x", 1, 1), [], [("plain[1].a", "a", "not UTF-8")]),
        (NAMED, (1, "x", 1, 5), (1, "y", 1, 5), ["update plain[1].a"], []),
        (NAMED, (1, "x", 1, None), (1, "y", 1, None), [], [("plain[1]", None, REUSED)]),
        (NAMED, (1, "x", 1, MISSED), (1, "y", 1, 5), [], [("plain[1]", None, "not UTF-8")]),
        (SOFT, (1, "x", 1, 1, None), (1, "x", 1, 1, True), ["delete plain[1]"], []),
        (SOFT, (1, "x", 1, 1, None), (1, "y", 1, 1, True), ["delete plain[1]"],
         [("plain[1]", None, REUSED)]),
        (SOFT, (1, "x", 1, 1, None), (1, "y", 1, 1, None), [], [("plain[1]", None, REUSED)]),
    ],
)  # fmt: skip
def test_where_keys_are_reused_only_an_immutable_field_says_it_is_the_same(
    of: EntityType, before: Any, after: Any, deltas: list[str], doubts: Any
) -> None:
    reused = replace(of, keys_are_reused=True)
    found = diff(state(plain(before, of=of)), state(plain(after, of=reused)))
    assert [" ".join(delta) for delta in brief(found)] == deltas
    assert told(found) == doubts
    assert {doubt.stage for doubt in found.doubts if doubt.cause == REUSED} <= {"resolve"}


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        (None, True, "delete"), (False, 0, "update"), (ABSENT, "2026", "delete"),
        (True, None, "create"), (1, False, "create"), ("2026", ABSENT, "create"),
        (None, False, "update"), (True, "2026", "update"), (False, ABSENT, "update"),
    ],
)  # fmt: skip
def test_an_entity_is_softly_deleted_by_any_value_but_null_false_and_zero(
    before: Observed, after: Observed, wanted: str
) -> None:
    sides = [state(plain((1, "x", 1, 1, gone), of=SOFT)) for gone in (before, after)]
    (delta,) = diff(*sides).deltas
    assert delta.op.value == wanted
    assert delta.path == ("gone" if wanted == "update" else "")


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        (None, True, ("delete", "")), (True, None, ("create", "")),
        # What moves nothing, or was not observed, is a change of the field.
        (None, False, ("update", "gone")), (MISSED, True, ("update", "gone")),
        (True, MISSED, ("update", "gone")),
    ],
)  # fmt: skip
def test_a_soft_deletion_outside_the_boundary_is_hidden_as_what_it_is(
    before: Observed, after: Observed, wanted: tuple[str, str]
) -> None:
    sides = [
        state(plain((1, text, 1, 1, gone), of=SOFT)) for text, gone in (("x", before), ("y", after))
    ]
    outside = [("plain.a", "free text"), ("plain.gone", "internal")]
    found = diff(*sides, boundary=Boundary(sides[0].schema, outside))
    assert (found.deltas, found.doubts) == ((), ())
    assert sorted((h.delta.op.value, h.delta.path) for h in found.hidden) == sorted(
        [("update", "a"), wanted]
    )


@pytest.mark.parametrize("side", [0, 1])
def test_the_field_that_says_deleted_is_that_of_either_schema(side: int) -> None:
    types = [SOFT, SOFT]
    types[side] = replace(SOFT, deleted_when=None)
    sides = [
        state(plain((1, "x", 1, 1, gone), of=of))
        for gone, of in zip((None, True), types, strict=True)
    ]
    assert brief(diff(*sides)) == [("delete", "plain[1]")]


def test_a_row_without_a_key_that_stayed_is_in_doubt_where_it_was_not_read_whole() -> None:
    world = state(plain(("a", 1, MISSED), ("b", 1, 1), of=LOG))
    (doubt,) = diff(world, world).doubts
    assert (doubt.path, doubt.cause) == ("", "not UTF-8")
    assert doubt.key in [key for key, _ in world.tables["log"].rows()]


def test_a_row_without_a_key_that_may_be_another_is_in_doubt_on_both_sides() -> None:
    before = state(plain(("a", 1, MISSED), ("b", 1, 1), of=LOG))
    after = state(plain(("a", 1, 5), ("c", 1, 1), of=LOG))
    found = diff(before, after)
    assert {d.op.value: (d.raw_before, d.raw_after) for d in found.deltas} == {
        "delete": (Entity.of({"what": "b", "size": 1, "at": 1}), ABSENT),
        "create": (ABSENT, Entity.of({"what": "c", "size": 1, "at": 1})),
    }
    assert [(d.path, d.cause) for d in found.doubts] == [("", "not UTF-8")] * 2


def test_paired_rows_without_a_key_are_updated_in_place() -> None:
    before = state(plain(("a", 1, 1), of=LOG))
    after = state(plain(("a", 2, 1), of=LOG))
    (key,) = (key for key, _ in before.tables["log"].rows())
    (row,) = (row for _, row in after.tables["log"].rows())
    store = MemoryChunks()
    paired = replace(
        after.tables["log"], chunks=(store.put(encode_rows(LOG, [(key, row)])),), store=store
    )
    found = diff(before, replace(after, tables={"log": paired}))
    assert [(d.op.value, d.path, d.before, d.after) for d in found.deltas] == [
        ("update", "size", 1, 2)
    ]
    rules = rule_book(
        before.schema, (Canonicalize(use="ignore@1", on=("log.size",), because="a test"),)
    )
    found = diff(before, replace(after, tables={"log": paired}), rules)
    assert (found.deltas, [h.delta.path for h in found.hidden]) == ((), ["size"])


def test_the_boundary_and_the_rules_that_hide_a_difference_are_named_once() -> None:
    before, after = state(plain(("a", 1, 7), of=LOG)), state(plain(("A", 1, 8), of=LOG))
    rules = rule_book(
        before.schema,
        (
            Canonicalize(use="casefold@1", on=("log.what",), because="a test"),
            Canonicalize(use="ignore@1", on=("log.at",), because="a clock"),
        ),
    )
    found = diff(before, after, rules)
    assert {h.rule for h in found.hidden} == {"casefold@1 (a test); ignore@1 (a clock)"}
    assert sorted(h.delta.op.value for h in found.hidden) == ["create", "delete"]
    later = state(plain(("a", 1, 8), of=LOG))
    found = diff(before, later, rules)
    assert {h.rule for h in found.hidden} == {"ignore@1 (a clock)"}


@pytest.mark.parametrize("most", [0, 1, 2, 3, 4])
def test_places_inside_values_are_bounded_for_a_type(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diff_stage, "MAX_PLACES_OF_TYPE", most)
    holder = EntityType("holder", ("id",), (Field("id", Kind.INT), Field("v", Kind.LIST)))
    before = state({holder: [{"id": key, "v": (1, 2)} for key in (1, 2)]})
    after = state({holder: [{"id": key, "v": (3, 4)} for key in (1, 2)]})
    places = [delta.place for delta in diff(before, after).deltas]
    one = ["v[0]", "v[1]"]
    assert places == [*(one if most >= 2 else ["v"]), *(one if most >= 4 else ["v"])]
