"""ν is a book of rules: idempotent, row-local, never on keys, never merging what is distinct."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff import judge
from statediff.contract.document.contract import Canonicalize
from statediff.kernel.canonicalize.book import OPAQUE, RuleBook
from statediff.kernel.canonicalize.rules import RULES, equality_of_types, rule_book
from statediff.model.boundary import Boundary, RuleError
from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.model.values import (
    ABSENT,
    Excluded,
    Map,
    Unobserved,
    Unordered,
    encode,
    is_value,
    same,
)

ORDER = EntityType(
    "order",
    ("id",),
    (
        Field("id", Kind.INT),
        Field("customer", Kind.INT, reference="customer"),
        Field("text", Kind.TEXT),
        Field("count", Kind.INT),
        Field("price", Kind.DECIMAL),
        Field("at", Kind.TIMESTAMP),
        Field("wall", Kind.LOCAL_TIMESTAMP),
        Field("items", Kind.LIST),
        Field("new_items", Kind.LIST),
        Field("any", Kind.ANY),
        Field("watchers", Kind.LIST, reference="customer"),
    ),
)
CUSTOMER = EntityType("customer", ("id",), (Field("id", Kind.INT), Field("tags", Kind.LIST)))
ROLE = EntityType("db.role", ("name",), (Field("name", Kind.TEXT), Field("note", Kind.TEXT)))
SCHEMA = Schema("test", "1", (CUSTOMER, ROLE, ORDER))


def book(*uses: tuple[str, Any] | tuple[str, Any, dict[str, Any]]) -> RuleBook:
    rules = []
    for use, on, *rest in uses:
        extra: dict[str, Any] = rest[0] if rest else {}
        extra |= {"key": "k"} if use == "keyed@1" else {}
        places = (on,) if isinstance(on, str) else on
        rules.append(Canonicalize(use=use, on=places, because="a test", **extra))
    return rule_book(SCHEMA, tuple(rules))


markers = st.sampled_from([ABSENT, Excluded("Ω"), Unobserved("torn")])
scalars: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.decimals(allow_nan=True, allow_infinity=True),
    st.floats(),
    st.text(max_size=8),
    st.text(alphabet="ǰΐᾐ\u0343\u0345\u0313Åßﬀ \u00a8\u00a0Iİ\u1e9e", max_size=5),
    st.binary(max_size=3),
    st.datetimes(),
    st.datetimes(timezones=st.just(UTC)),
    st.dates(),
)
values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.text(max_size=2), inner, max_size=2).map(Map.of),
    ),
    max_leaves=6,
)
observed = st.one_of(values, values, values, markers)

SINGLE = [(name, "order.any") for name in sorted(RULES)]
STACKS = [
    *([single] for single in SINGLE),
    [("timestamp@1", "order.any", {"resolution": "7d"})],
    [("decimal@1", "order.any", {"scale": 0, "round": "up"})],
    [("nfc@1", "order.any"), ("casefold@1", "order.any"), ("trim@1", "order.any")],
    [("nfkc@1", "order.any"), ("casefold@1", "order.any"), ("trim@1", "order.any")],
    [("nfkc@1", "order.any"), ("decimal@1", "order.any"), ("unordered@1", "order.any")],
    [("keyed@1", "order.any"), ("trim@1", "order.any[*].k"), ("decimal@1", "order.any[*].n")],
    [
        ("keyed@1", "order.any"),
        ("unordered@1", "order.any[*].in"),
        ("trim@1", "order.any[*].in[*]"),
    ],
]


@given(st.sampled_from(STACKS), observed)
def test_canonicalizing_twice_equals_once(stack: Any, value: Any) -> None:
    rules = book(*stack)
    once = rules.value("order", "any", value)
    assert same(rules.value("order", "any", once), once)
    assert encode(once)  # still something that can be observed
    row = rules.row("order", {"id": 1, "any": value})
    assert same(row["any"], once)
    assert row["id"] == 1


def test_two_rules_take_turns_until_neither_changes_anything() -> None:
    rules = book(("nfc@1", "order.text"), ("casefold@1", "order.text"))
    once = rules.value("order", "text", "\u1f90\u0343")
    assert once == rules.value("order", "text", once) == "\u1f20\u1f30"


@given(st.sampled_from(sorted(set(RULES) - {"ignore@1"})), markers)
def test_markers_pass_through_every_rule_but_removal(name: str, marker: Any) -> None:
    assert book((name, "order.any")).value("order", "any", marker) is marker


@given(observed)
def test_ignore_removes_every_value_and_says_why(value: Any) -> None:
    assert book(("ignore@1", "order.text")).row("order", {"text": value}) == {
        "text": Excluded("ignore@1 (a test)")
    }


@given(values)
def test_opaque_keeps_only_whether_there_is_a_value(value: Any) -> None:
    assert book(("opaque@1", "order.any")).value("order", "any", value) == (
        None if value is None else OPAQUE
    )


@given(st.lists(scalars, max_size=5), st.randoms(use_true_random=False))
def test_unordered_lists_are_equal_exactly_as_multisets(items: list[Any], random: Any) -> None:
    rules = book(("unordered@1", "order.items"))
    shuffled = list(items)
    random.shuffle(shuffled)
    one, two = (rules.value("order", "items", tuple(x)) for x in (items, shuffled))
    assert same(one, two)
    assert isinstance(one, tuple)
    assert sorted(str(encode(item)) for item in one) == sorted(str(encode(i)) for i in items)


@given(st.lists(st.tuples(scalars, scalars), max_size=5), st.randoms(use_true_random=False))
def test_zipped_lists_keep_their_pairs(pairs: list[Any], random: Any) -> None:
    rules = book(("unordered@1", (("order.items", "order.new_items"),)))

    def row(of: list[Any]) -> dict[str, Any]:
        return dict(
            rules.row(
                "order", {"items": tuple(a for a, _ in of), "new_items": tuple(b for _, b in of)}
            )
        )

    shuffled = list(pairs)
    random.shuffle(shuffled)
    one, two = row(pairs), row(shuffled)
    assert all(same(one[n], two[n]) for n in one)
    together = zip(one["items"], one["new_items"], strict=True)
    assert sorted(str([encode(a), encode(b)]) for a, b in together) == sorted(
        str([encode(a), encode(b)]) for a, b in pairs
    )
    again = rules.row("order", one)
    assert all(same(one[n], again[n]) for n in one)


@pytest.mark.parametrize("other", [(1,), None, "text", ABSENT, Unobserved("torn")])
def test_lists_that_are_not_parallel_stay_as_they_are(other: Any) -> None:
    rules = book(("unordered@1", (("order.items", "order.new_items"),)))
    row = {"items": (3, 1), "new_items": other}
    assert rules.row("order", row) == row


@given(st.dictionaries(st.sampled_from([f.name for f in ORDER.fields]), observed))
def test_the_captured_row_is_never_changed(row: dict[str, Any]) -> None:
    rules = book(
        ("nfc@1", "order.text"), ("unordered@1", (("order.items", "order.new_items"),)),
        ("ignore@1", "order.any"),
    )  # fmt: skip
    kept = dict(row)
    rules.row("order", row)
    assert list(row) == list(kept)
    assert all(row[name] is kept[name] for name in kept)


@given(
    st.lists(
        st.tuples(st.text(max_size=3), st.text(max_size=3)), max_size=6, unique_by=lambda p: p[0]
    )
)
def test_distinct_keys_stay_distinct(rows: list[tuple[str, str]]) -> None:
    """No rule can be bound to a key, so canonical tables keep all their entities."""
    rules = book(("casefold@1", "db.role.note"), ("trim@1", "db.role.note"))
    keys = [rules.row("db.role", {"name": k, "note": n})["name"] for k, n in rows]
    assert keys == [k for k, _ in rows]
    for name in RULES:
        with pytest.raises(RuleError, match="part of the key"):
            book((name, "db.role.name"))


@given(st.datetimes(timezones=st.just(UTC)), st.sampled_from(["1s", "250ms", "1m", "1h", "1d"]))
def test_timestamps_are_truncated_towards_the_past(at: datetime, resolution: str) -> None:
    rules = book(("timestamp@1", ("order.at", "order.wall"), {"resolution": resolution}))
    found = rules.value("order", "at", at)
    assert isinstance(found, datetime)
    step = {"1s": 1, "250ms": 0.25, "1m": 60, "1h": 3600, "1d": 86400}[resolution]
    assert timedelta(0) <= at - found < timedelta(seconds=step)
    local = rules.value("order", "wall", at.replace(tzinfo=None))
    assert local == found.replace(tzinfo=None)


def test_timestamps_of_one_instant_are_one_value_whatever_their_zone() -> None:
    rules = book(("timestamp@1", "order.at", {"resolution": "1d"}))
    east = datetime(2026, 1, 2, 1, tzinfo=timezone(timedelta(hours=2)))
    assert rules.value("order", "at", east) == datetime(2026, 1, 1, tzinfo=UTC)
    assert rules.value("order", "at", "2026-01-02") == "2026-01-02"
    assert rules.value("order", "at", date(2026, 1, 2)) == date(2026, 1, 2)


@pytest.mark.parametrize(
    ("value", "settings", "wanted"),
    [
        (5, {}, "5.00"),
        (Decimal("2.345"), {}, "2.34"),
        (Decimal("2.345"), {"round": "half_up"}, "2.35"),
        (Decimal("2.341"), {"round": "up"}, "2.35"),
        (Decimal("-2.349"), {"round": "down"}, "-2.34"),
        (Decimal("-2.341"), {"round": "floor"}, "-2.35"),
        (Decimal("-2.349"), {"round": "ceiling"}, "-2.34"),
        (2.675, {}, "2.67"),
        (0.5, {"scale": 0}, "0"),
        (-0.0, {}, "0.00"),
        (Decimal("-0.001"), {}, "0.00"),
        (10**60, {"scale": 1}, "1" + "0" * 60 + ".0"),
    ],
)
def test_numbers_get_exactly_the_scale(value: Any, settings: Any, wanted: str) -> None:
    rules = book(("decimal@1", "order.any", settings))
    found = rules.value("order", "any", value)
    assert isinstance(found, Decimal)
    assert str(found) == wanted


@pytest.mark.parametrize("value", [True, "1.0", float("nan"), Decimal("1E+999999"), None])
def test_what_is_no_number_of_reasonable_size_keeps_its_form(value: Any) -> None:
    assert book(("decimal@1", "order.any")).value("order", "any", value) is value


def test_the_book_tells_what_stands_on_a_field() -> None:
    rules = book(
        ("nfc@1", "order.text"), ("casefold@1", "order.text"), ("decimal@1", "order.count"),
        ("opaque@1", "order.any"), ("ignore@1", "order.at"),
    )  # fmt: skip
    assert rules.rules_on("order", "text") == ("nfc@1 (a test)", "casefold@1 (a test)")
    assert rules.rules_on("order", "wall") == ()
    assert set(rules.ruled("order")) == {"text", "count", "any", "at"}
    assert not rules.ruled("customer")
    assert rules.row("customer", row := {"tags": None}) is row
    assert rules.leaves("order", ["wall", "items"])
    assert not rules.leaves("order", ["wall", "text"])
    assert rules.leaves("customer", ["tags"])
    assert rules.literal("order", "wall") is None
    literal = rules.literal("order", "text")
    assert literal is not None
    assert literal("É") == "é"
    assert rules.kind_of("order", "count") is Kind.DECIMAL
    assert rules.kind_of("order", "any") is Kind.TEXT
    assert rules.kind_of("order", "text") is None
    sorted_too = book(("decimal@1", "order.any"), ("unordered@1", "order.any"))
    assert sorted_too.kind_of("order", "any") is Kind.DECIMAL
    assert rules.ignores("order", "at") == "ignore@1 (a test)"
    assert rules.ignores("order", "text") is None


@pytest.mark.parametrize(
    ("uses", "index", "message"),
    [
        ([("nfd@1", "order.text")], 0, r"there is no rule 'nfd@1'; did you mean 'nf"),
        ([("nfc@2", "order.text")], 0, "known versions: nfc@1"),
        ([("nfc@1", "order.text"), ("nfc@1", "ordr.text")], 1, "did you mean 'order'"),
        ([("nfc@1", "order.txt")], 0, "order has no field 'txt'; did you mean 'text'"),
        ([("nfc@1", "order")], 0, "order is a type"),
        ([("ignore@1", "order.id")], 0, "part of the key of order"),
        ([("opaque@1", "order.customer")], 0, "refers to customer"),
        ([("decimal@1", "order.customer")], 0, "refers to customer"),
        ([("timestamp@1", "order.count")], 0,
         "of kind int; timestamp@1 applies to any, local_timestamp, timestamp$"),
        ([("unordered@1", "order.text")], 0, "of kind text"),
        ([("timestamp@1", "order.at", {"resolution": "1 second"})], 0, "`resolution` is a dur"),
        ([("timestamp@1", "order.at", {"resolution": "0s"})], 0, "positive whole number"),
        ([("timestamp@1", "order.at", {"resolution": "0.0000001s"})], 0, "positive whole"),
        ([("timestamp@1", "order.at", {"resolutoin": "1s"})], 0, "did you mean 'resolution'"),
        ([("nfc@1", "order.text", {"form": "C"})], 0, "no parameter 'form'; it takes none$"),
        ([("decimal@1", "order.price", {"scale": -1})], 0, "from 0 to 100"),
        ([("decimal@1", "order.price", {"scale": True})], 0, "from 0 to 100"),
        ([("decimal@1", "order.price", {"round": "half_evn"})], 0, "did you mean 'half_even'"),
        ([("nfc@1", "order.text"), ("nfc@1", "order.text")], 1, "used twice"),
        ([("nfc@1", "order.text"), ("nfkc@1", "order.text")], 1, "the same work"),
        ([("casefold@1", "order.text"), ("nfc@1", "order.text")], 1, "put nfc@1 before"),
        ([("trim@1", "order.text"), ("nfkc@1", "order.text")], 1, "put nfkc@1 before"),
        ([("nfc@1", "order.text"), ("ignore@1", "order.text")], 1, "ignore@1 leaves nothing"),
        ([("ignore@1", "order.text"), ("nfc@1", "order.text")], 1, "ignore@1 leaves nothing"),
        ([("unordered@1", ("order.items", ("order.new_items", "order.items")))], 0, "twice"),
        ([("unordered@1", (("order.items", "order.items"),))], 0, "zipped with itself"),
        ([("unordered@1", (("order.items", "customer.tags"),))], 0, "belong to one type"),
        ([("nfc@1", (("order.text", "order.any"),))], 0, "one by one"),
        ([("unordered@1", ((),))], 0, "names no field"),
    ],
)  # fmt: skip
def test_an_unsound_book_is_refused_with_the_reason(uses: Any, index: int, message: str) -> None:
    with pytest.raises(RuleError, match=message) as caught:
        book(*uses)
    assert caught.value.index == index


def test_references_may_be_ignored_or_reordered_but_not_rewritten() -> None:
    rules = book(("ignore@1", "order.customer"), ("unordered@1", "order.watchers"))
    assert rules.row("order", {"customer": 1, "watchers": (2, 1)}) == {
        "customer": Excluded("ignore@1 (a test)"), "watchers": (1, 2),
    }  # fmt: skip


def test_every_rule_says_what_it_does() -> None:
    for name, rule in RULES.items():
        assert rule.id == name
        assert rule.docs.endswith(".")
    assert [name for name, rule in RULES.items() if rule.is_removal] == ["ignore@1"]
    assert is_value(OPAQUE)


def test_a_type_nobody_has_seen_may_be_excluded_from_and_canonicalized_by_any_field() -> None:
    unseen = Schema("s", "1", (EntityType("mail", (), (), is_open=True),))
    boundary = Boundary(unseen, [("mail.message_id", "random per delivery")])
    assert boundary.excludes("mail", "message_id") is not None
    use = Canonicalize(use="nfc@1", on=("mail.subject",), because="a test")
    rules = rule_book(unseen, (use,))
    assert rules.value("mail", "subject", "e\u0301") == "\u00e9"
    assert rules.value("mail", "subject", 5) == 5


HELD = (
    Field("id", Kind.JSON),
    Field("doc", Kind.JSON),
    Field("of", Kind.JSON, reference="thing"),
    Field("map", Kind.MAP),
    Field("list", Kind.LIST),
    Field("price", Kind.DECIMAL),
    Field("any", Kind.ANY),
    Field("text", Kind.TEXT),
)
THING = EntityType("thing", ("id",), HELD)
EXPORTED = EntityType("exported", ("id",), HELD, is_json=True)
JSON = Schema("json", "1", (EXPORTED, THING))
ONE = Decimal("1.0")
OF_JSON = "json@1 (the equality of the JSON type)"


def json_book(*uses: tuple[str, str]) -> RuleBook:
    rules = (Canonicalize(use=use, on=(on,), because="a test") for use, on in uses)
    return rule_book(JSON, tuple(rules))


@pytest.mark.parametrize(
    ("name", "value", "canonical", "in_export"),
    [
        ("doc", '{"b": 1.0, "a": [1e0]}', Map.of({"a": (1,), "b": 1}), None),
        ("doc", "1.0", 1, None), ("doc", "null", "null", None), ("doc", "{", "{", None),
        ("map", Map.of({"a": ONE}), Map.of({"a": 1}), Map.of({"a": 1})),
        ("list", (ONE,), (ONE,), (1,)), ("price", ONE, ONE, 1), ("any", ONE, ONE, 1),
        ("any", '{"a": 1.0}', '{"a": 1.0}', '{"a": 1.0}'), ("text", "1.0", "1.0", "1.0"),
        ("id", "1.0", "1.0", "1.0"), ("of", "1.0", "1.0", "1.0"),
    ],
)  # fmt: skip
def test_json_has_its_own_equality_where_nothing_says_otherwise(
    name: str, value: Any, canonical: Any, in_export: Any
) -> None:
    for book_ in (json_book(), equality_of_types(JSON, JSON), equality_of_types(JSON, SCHEMA)):
        assert same(book_.value("thing", name, value), canonical)
        if in_export is not None:
            assert same(book_.value("exported", name, value), in_export)
            row = book_.row("exported", {name: value})
            assert same(row[name], in_export)
        is_ruled = not same(value, canonical) or name == "doc"
        assert book_.rules_on("thing", name) == ((OF_JSON,) if is_ruled else ())


@pytest.mark.parametrize("rule", ["raw@1", "ignore@1", "opaque@1", "json@1"])
def test_a_rule_that_stands_alone_takes_the_place_of_the_equality_of_json(rule: str) -> None:
    assert json_book((rule, "thing.doc")).rules_on("thing", "doc") == (f"{rule} (a test)",)
    beside = json_book(("unordered@1", "thing.doc")).rules_on("thing", "doc")
    assert beside == (OF_JSON, "unordered@1 (a test)")


def test_plain_numbers_of_an_export_stay_as_they_are_stored_where_they_are_only_read() -> None:
    rules = json_book()
    assert rules.ruled("exported")
    assert rules.leaves("exported", ["price", "text"])
    assert not rules.leaves("exported", ["price", "any"])
    assert not rules.leaves("exported", ["list"])
    assert rules.leaves("thing", ["price", "list", "any"])
    assert not rules.leaves("thing", ["map"])


CENTS = """
contract: shop/cents
version: 1.0.0
owner: shop
intent: Pay once what was asked for.
canonicalize: [{use: decimal@1, on: [payment.amount], because: cents are all that counts}]
forbid: [{id: twice, that: count(p for p in after.payment if p.amount == 71.96) > 1}]
require: [{id: paid, that: any(p.amount == 71.96 for p in after.payment)}]
allow: [{id: payments, create: payment}]
"""


@pytest.mark.parametrize(("paid", "verdict"), [(0, "DIVERGE"), (1, "MATCH"), (2, "DIVERGE")])
def test_conditions_over_a_type_see_its_numbers_by_their_rule(paid: int, verdict: str) -> None:
    before = {"payment": [{"id": 0, "amount": 2.5}]}
    after = [*before["payment"], *({"id": n + 1, "amount": 71.96000000000001} for n in range(paid))]
    assert judge(CENTS, before, {"payment": after}).verdict.value == verdict
    assert not json_book(("decimal@1", "exported.price")).leaves("exported", ["price"])


def test_a_list_has_no_order_where_a_rule_says_so() -> None:
    rules = json_book(("unordered@1", "thing.doc"), ("decimal@1", "thing.price"))
    assert same(rules.value("thing", "doc", "[2, 1.0]"), Unordered((1, 2)))
    assert type(rules.value("thing", "list", (2, 1))) is tuple
