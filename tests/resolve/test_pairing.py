"""Every admissible way to pair entities by a natural key, and no other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from statediff.kernel.resolve import IdentityRule, pairing, resolve
from statediff.kernel.resolve.pairing import apply, pair, withheld
from statediff.model.lookalikes import skeleton
from statediff.model.schema import EntityType, Field, Kind
from statediff.model.state import State
from statediff.model.timelines import Matching
from statediff.model.values import Observed, key_order
from tests.judging import CUT, HIDDEN, capture, part, state

PERSON = EntityType(
    "person", (), (Field("email", Kind.ANY), Field("name", Kind.TEXT), Field("n", Kind.INT))
)
GROUP = EntityType("group", (), (Field("email", Kind.TEXT), Field("n", Kind.INT)))


def raw(value: Observed) -> Observed:
    return value


BY_EMAIL = IdentityRule("person", 1, "no key", (("email", "", raw),))
BY_BOTH = IdentityRule("person", 2, "no key", (("email", "trim@1", raw), ("name", "", raw)))
People = Sequence[tuple[Observed, int] | tuple[Observed, int, Observed]]
A, LIKE_A, BIG_A = "alice", "\u0430lice", "ALICE"


def people(*rows: Any, coverage: Any = None) -> State:
    members = [{"email": row[0], "n": row[1], "name": (*row, None)[2]} for row in rows]
    return state({"person": members}, coverage, types=(PERSON,))


def numbers(world: State) -> dict[Any, Any]:
    return {key: row["n"] for key, row in world.tables["person"].rows()}


def ways(before: State, after: State, rule: IdentityRule = BY_EMAIL) -> Any:
    """The ways to pair, each as {number before: number after}, and the cause; a text if none.

    Also a text where all that there is stays open.
    """
    found = pair(rule, Matching(before, after))
    if found.hopeless:
        return found.hopeless
    if found.open:
        keys = {key for side in (before, after) for key in numbers(side)}
        assert (set(found.open), found.options, found.cause) == (keys, ((),), "")
        return found.open_cause
    old, new = numbers(before), numbers(after)
    shown = [{old[b]: new[a] for b, a in option} for option in found.options]
    assert all(len(way) == len(option) for way, option in zip(shown, found.options, strict=True))
    return sorted(shown, key=lambda way: sorted(way.items())), found.cause


SHARE = 'ambiguous identity: {} before and {} after share [["text", "a"]]'.format
LIKE = 'ambiguous identity: [["text", "{}"]] only looks like another entity'.format


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([("a", 1)], [("a", 2)], ([{1: 2}], "")),
        ([("a", 1), ("b", 3)], [("b", 4), ("a", 2)], ([{1: 2, 3: 4}], "")),
        ([("a", 1)], [], ([{}], "")),
        ([], [("a", 1)], ([{}], "")),
        ([("a", 1)], [("b", 2)], ([{}], "")),
        ([(None, 1)], [(None, 1)], ([{}], "")),
        # The same rows are themselves, however many share the natural key.
        ([("a", 1), ("a", 2)], [("a", 2), ("a", 1)], ([{1: 1, 2: 2}], "")),
        # Values of two kinds are two natural keys.
        ([(1, 1), (True, 2), ("1", 3)], [(1, 4), (True, 5), ("1", 6)], ([{1: 4, 2: 5, 3: 6}], "")),
        ([("a", 1), ("a", 2)], [("a", 3), ("a", 4)],
         ([{1: 3, 2: 4}, {1: 4, 2: 3}], SHARE(2, 2))),
        ([("a", 1), ("a", 2)], [("a", 3)], ([{1: 3}, {2: 3}], SHARE(2, 1))),
        ([("a", 1)], [("a", 3), ("a", 4)], ([{1: 3}, {1: 4}], SHARE(1, 2))),
        ([("a", 1), ("b", 5)], [("a", 3), ("a", 4), ("b", 6)],
         ([{1: 3, 5: 6}, {1: 4, 5: 6}], SHARE(1, 2))),
        ([("a", n) for n in range(5)], [("a", 9)], SHARE(5, 1)),
        ([("a", 9)], [("a", n) for n in range(5)], SHARE(1, 5)),
        # Of what looks alike, each is itself where both were there before.
        ([(A, 1), (LIKE_A, 2)], [(A, 3), (LIKE_A, 4)], ([{1: 3, 2: 4}], "")),
        ([(A, 1), (LIKE_A, 2)], [(A, 3)], ([{1: 3}], "")),
        ([], [(A, 3), (LIKE_A, 4)], ([{}], "")),
        ([(A, 1)], [(LIKE_A, 2)], ([{}, {1: 2}], LIKE(LIKE_A))),
        ([(A, 1)], [(A, 2), (LIKE_A, 3)], ([{1: 2}, {1: 3}], LIKE(LIKE_A))),
        ([(A, 1), (LIKE_A, 2)], [(A, 3), (BIG_A, 4)], (
            [{1: 3}, {1: 3, 2: 4}, {1: 4, 2: 3}],
            LIKE(BIG_A),
        )),
        ([(A, n) for n in range(5)], [(LIKE_A, 9)], LIKE(LIKE_A)),
        ([(A, 9)], [(LIKE_A, n) for n in range(5)], LIKE(LIKE_A)),
        ([(A, 1), (A, 2), (LIKE_A, 3)], [(A, 4), (A, 5), (LIKE_A, 6)],
         SHARE(3, 3).replace('"a"', '"alice"')),
    ],
)  # fmt: skip
def test_every_admissible_way_is_found(before: People, after: People, expected: Any) -> None:
    assert ways(people(*before), people(*after)) == expected


def test_a_part_of_a_natural_key_that_is_null_makes_it_none() -> None:
    before, after = people(("a", 1, "x"), ("a", 2)), people(("a", 3, "x"), ("a", 4))
    assert ways(before, after, BY_BOTH) == ([{1: 3}], "")


@pytest.mark.parametrize("side", [0, 1])
def test_nobody_is_paired_where_not_all_are_known(side: int) -> None:
    known = people(("a", 1))
    absent = state({}, types=(GROUP,))
    for other, cause in (
        (people(("a", 1), coverage={"person": CUT}), "not all are known: cut short"),
        (absent, "not all are known: it was not read"),
        (people((HIDDEN, 1)), "person.email was not observed: hidden"),
    ):
        sides = (known, other) if side else (other, known)
        assert ways(*sides) == f"ambiguous identity: {cause}"


def test_as_many_ways_are_tried_as_may_be_and_no_more() -> None:
    four = people(*(("a", n) for n in range(4))), people(*(("a", n) for n in range(4, 8)))
    options, cause = ways(*four)
    assert len(options) == math.factorial(4) == pairing.MAX_MATCHINGS
    assert cause == SHARE(4, 4)
    more = [
        people(*(("a", n + 4 * side) for n in range(4)), *(("b", n + 2 * side) for n in (20, 21)))
        for side in (0, 1)
    ]
    found = pair(BY_EMAIL, Matching(more[0], more[1]))
    assert (len(found.options), found.cause) == (pairing.MAX_MATCHINGS, SHARE(4, 4))
    assert found.open_cause == SHARE(2, 2).replace('"a"', '"b"')
    named = [numbers(side).get(key) for key in found.open for side in more]
    assert sorted(n for n in named if n is not None) == [20, 21, 22, 23]


def resolved(before: Any, after: Any, *rules: IdentityRule) -> Any:
    types = (GROUP, PERSON)
    sides = [
        capture(moment, part(moment, state(rows, types=types)))
        for moment, rows in (("before", before), ("after", after))
    ]
    return resolve(sides[0], sides[1], rules)


def emails(kind: str, *members: tuple[str, int]) -> dict[str, Any]:
    return {kind: [{"email": email, "n": n} for email, n in members]}


BY_GROUP = IdentityRule("group", 1, "no key", (("email", "", raw),))


def test_ambiguities_of_two_types_multiply_up_to_the_limit() -> None:
    tie = [[("a", 1), ("a", 2)], [("a", 3), ("a", 4)]]
    four = [[("a", n) for n in range(4)], [("a", n) for n in range(4, 8)]]
    three = [[("a", n) for n in range(3)], [("a", n) for n in range(4, 7)]]

    def found(persons: Any, groups: Any) -> Any:
        sides = [emails("person", *persons[n]) | emails("group", *groups[n]) for n in (0, 1)]
        return resolved(*sides, BY_EMAIL, BY_GROUP)

    two = found(tie, tie)
    assert len(two.matchings) == 4
    assert two.ambiguous == (("person", SHARE(2, 2)), ("group", SHARE(2, 2)))
    assert not two.differ_only_in_opaque_ids
    assert len(found(four, [[("a", 1)], [("a", 2)]]).matchings) == 24
    many = found(four, three)
    assert len(many.matchings) == 24
    assert [name for name, _ in many.ambiguous] == ["person", "group"]
    for matching in many.matchings:
        for side in (matching.before, matching.after):
            assert side.tables["person"].enumeration.is_complete
            gap = side.tables["group"].enumeration
            assert (gap.coverage.name, gap.cause) == ("INCOMPLETE", SHARE(3, 3))
            assert side.tables["group"].row_count == 0


def test_rows_with_too_many_ways_stay_open_and_others_are_paired() -> None:
    found = resolved(
        emails("person", *(("a", n) for n in range(6)), ("b", 7)) | emails("group", ("a", 1)),
        emails("person", ("a", 9), ("b", 8)) | emails("group", ("a", 2)),
        BY_EMAIL, BY_GROUP,
    )  # fmt: skip
    (matching,) = found.matchings
    assert found.ambiguous == (("person", SHARE(6, 1)),)
    assert not found.differ_only_in_opaque_ids
    for side, left in ((matching.before, 7), (matching.after, 8)):
        table = side.tables["person"]
        assert table.enumeration.cause == SHARE(6, 1)
        [(key, row)] = table.rows()
        assert row["n"] == left
        assert not table.enumeration.may_miss(key)
    assert [p.type for p in matching.pairs] == ["person", "group"]


def test_without_a_rule_there_is_one_matching_and_nothing_ambiguous() -> None:
    found = resolved(emails("person", ("a", 1)), emails("person", ("a", 2)))
    assert (len(found.matchings), found.matchings[0].pairs) == (1, ())
    assert (found.ambiguous, found.differ_only_in_opaque_ids) == ((), True)


def test_withholding_a_type_leaves_the_others_and_a_side_without_it() -> None:
    whole, none = people(("a", 1)), state({}, types=(GROUP,))
    found = withheld(Matching(whole, none), "person", "why")
    assert found.before.tables["person"].enumeration.cause == "why"
    assert found.after is none
    assert whole.tables["person"].enumeration.is_complete


@pytest.mark.parametrize(
    ("before", "after", "opaque", "only"),
    [
        ([("a", 1), ("a", 1)], [("a", 2)], (), True),
        ([("a", 2)], [("a", 1), ("a", 1)], (), True),
        ([("a", 1), ("a", 2)], [("a", 3)], (), False),
        ([("a", 1), ("a", 2)], [("a", 3)], ("n",), True),
        ([("a", 1), ("a", 1)], [("a", 3), ("a", 4)], (), False),
        ([("a", 1), ("a", 1), ("b", 1), ("b", 2)], [("a", 3), ("b", 3)], (), False),
        ([("a", 1), ("a", 1), ("b", 2), ("b", 2)], [("a", 3), ("b", 3)], (), True),
        ([("a", 1)], [("\u0430", 1)], (), False),
    ],
)
def test_candidates_of_one_content_differ_only_in_opaque_ids(
    before: Any, after: Any, opaque: tuple[str, ...], only: bool
) -> None:
    rule = replace(BY_EMAIL, opaque=frozenset(opaque))
    found = resolved(emails("person", *before), emails("person", *after), rule)
    assert (bool(found.ambiguous), found.differ_only_in_opaque_ids) == (True, only)


# Applying a way


def test_paired_entities_stand_under_the_keys_they_had_in_order() -> None:
    names = [f"{n}" for n in range(30)]
    before = people(*((name, n) for n, name in enumerate(names)))
    after = people(*((name, n + 100) for n, name in enumerate(names)), ("new", 7))
    (option,) = pair(BY_EMAIL, Matching(before, after)).options
    found = apply(Matching(before, after), BY_EMAIL, option)
    old, new = numbers(before), numbers(found.after)
    assert {key: new[key] - 100 for key in old} == old
    assert [n for key, n in new.items() if key not in old] == [7]
    keys = list(new)
    assert keys == sorted(keys, key=key_order)
    assert found.before is before
    assert len(found.pairs) == 30
    assert {p.rule for p in found.pairs} == {"person by email v1"}
    assert {(p.type, p.before) for p in found.pairs} == {("person", key) for key in old}
    again = numbers(after)
    assert {again[p.after] for p in found.pairs} == {n + 100 for n in range(30)}


def test_a_rule_is_named_by_its_fields_their_rules_and_its_version() -> None:
    assert BY_BOTH.name == "person by email:trim@1, name v2"


def test_a_new_row_with_the_content_that_another_had_is_a_new_entity() -> None:
    before = people(("a", 1))
    after = people(("a", 1), ("a", 1), ("a", 2))
    (old,) = numbers(before)
    seen, moved = [], []
    for option in pair(BY_EMAIL, Matching(before, after)).options:
        found = apply(Matching(before, after), BY_EMAIL, option).after
        after_numbers = numbers(found)
        assert sorted(after_numbers.values()) == [1, 1, 2]
        seen.append(after_numbers[old])
        # Under a key of its content that no row has: none is lost, and none is joined.
        fresh = set(after_numbers) - set(numbers(before)) - set(numbers(after))
        assert fresh <= {(old[0], 1 + pairing.FRESH)}
        moved.append(len(fresh))
        assert len(after_numbers) == 3
    assert (sorted(seen), sorted(moved)) == ([1, 1, 2], [0, 1, 1])


def test_pairing_nobody_changes_nothing() -> None:
    base = Matching(people(("a", 1)), people())
    assert apply(base, BY_EMAIL, ()) is base


def test_many_paired_entities_are_found_by_key_and_their_table_says_what_it_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pairing, "CHUNK_KEYS", 3)
    before = people(*((str(n), n) for n in range(10)))
    after = people(*((str(n), n + 100) for n in range(10)))
    base = Matching(before, after)
    (option,) = pair(BY_EMAIL, base).options
    table = apply(base, BY_EMAIL, option).after.tables["person"]
    assert (len(table.chunks), len(table.partition)) == (4, 3)
    for key, row in table.rows():
        assert table.row(key) == row
        assert table.lone_row(key) == row
    assert table.enumeration.is_complete


# Likeness


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("Plain", "plain"), (LIKE_A, "alice"), ("e\u0301", "\u00e9"), ("x\u0301", "x"),
        ("\u0391\u0392", "ab"), ("\u4e2d\u6587", "\u4e2d\u6587"), ("\u200b", ""),
        ("\ufb01n\u0430l", "final"), ("\u0398\u00a5", "\u03b8\u00a5"),
    ],
)  # fmt: skip
def test_a_skeleton_is_what_a_reader_sees(text: str, shape: str) -> None:
    assert skeleton(text) == shape
