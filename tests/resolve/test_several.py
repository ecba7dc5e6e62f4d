"""One table out of what several sources deliver: known is only what all of them know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from statediff.errors import AdapterError
from statediff.kernel.resolve import resolve
from statediff.model.readings import Capture
from statediff.model.schema import EntityType, Field, Kind
from statediff.model.state import COMPLETE, Coverage, Enumeration, State
from statediff.model.values import ABSENT, Observed, Unobserved
from tests.judging import CUT, DARK, HIDDEN, capture, part, state

THING = EntityType("thing", ("id",), (Field("id", Kind.INT), Field("n", Kind.INT)))
WIDE = EntityType("thing", ("id",), (*THING.fields, Field("m", Kind.INT)))
OTHER = EntityType("other", ("id",), (Field("id", Kind.INT),))


def things(
    *rows: tuple[Observed, ...],
    cut: Enumeration = COMPLETE,
    source: str = "crm",
    of: EntityType = THING,
) -> State:
    members = [dict(zip((f.name for f in of.fields), row, strict=True)) for row in rows]
    return state({"thing": members}, {"thing": cut}, types=(of,), source=source)


def shown(found: State, name: str = "thing") -> Any:
    """The enumeration and, per entity, its values; None where there is no table."""
    table = found.tables.get(name)
    if table is None:
        return None
    rows = {key[0]: tuple(row.values())[1:] for key, row in table.rows()}
    whole = table.enumeration
    if whole == COMPLETE:
        return rows
    return whole.coverage.name, whole.cause, rows if whole.coverage is not DARK.coverage else {}


def both(*parts: tuple[str, State], **rest: Any) -> Any:
    """The knowledge of things where these sources deliver them, before and after."""
    made = [
        capture(side, *(part(side, each, source) for source, each in parts))
        for side in ("before", "after")
    ]
    (matching,) = resolve(made[0], made[1], **rest).matchings
    before, after = shown(matching.before), shown(matching.after)
    assert before == after or rest.get("refused")
    return after


def contradiction(**said: int) -> Unobserved:
    return Unobserved("contradiction: " + ", ".join(f"{s} says {n}" for s, n in said.items()))


@pytest.mark.parametrize(
    ("one", "two", "known"),
    [
        (things((1, 5)), things((1, 5)), {1: (5,)}),
        (things((1, 5), (2, 6)), things((1, 5), (2, 7)),
         {1: (5,), 2: (contradiction(crm=6, ldap=7),)}),
        (things((1, HIDDEN)), things((1, 5)), {1: (HIDDEN,)}),
        (things((1, 5)), things((1, HIDDEN)), {1: (HIDDEN,)}),
        (things((1, 5), (2, 6)), things((1, 5)),
         ("INCOMPLETE", "contradiction: thing 2 is not in ldap", {1: (5,)})),
        (things((1, 5)), things((1, 5), (2, 6)),
         ("INCOMPLETE", "contradiction: thing 2 is not in crm", {1: (5,)})),
        (things((1, 5), cut=CUT), things((1, 5)), ("INCOMPLETE", "cut short", {1: (5,)})),
        (things((1, 5)), things((1, 5), cut=CUT), ("INCOMPLETE", "cut short", {1: (5,)})),
        (things((1, 5), cut=CUT), things((1, 5), cut=Enumeration(Coverage.INCOMPLETE, "page 2")),
         ("INCOMPLETE", "cut short", {1: (5,)})),
        (things((1, 5), cut=CUT), things((1, 5), (2, 6)),
         ("INCOMPLETE", "cut short", {1: (5,)})),
        (things((1, 5), cut=CUT), things((1, 5), cut=CUT),
         ("INCOMPLETE", "cut short", {1: (5,)})),
        (things(cut=DARK), things((1, 5)), ("UNOBSERVED", "not read", {})),
        (things((1, 5)), things(cut=DARK), ("UNOBSERVED", "not read", {})),
        (things((1, 5)), things(cut=Enumeration(Coverage.UNOBSERVED)),
         ("UNOBSERVED", "ldap could not read it", {})),
        # A field that only one of them has is as that one says.
        (things((1, 5)), things((1, 5, 7), of=WIDE), {1: (5, 7)}),
        (things((1, 5, 7), of=WIDE), things((1, 5)), {1: (5, 7)}),
        (things((1, 5, ABSENT), of=WIDE), things((1, 5, 7), of=WIDE),
         {1: (5, Unobserved("contradiction: crm says absent, ldap says 7"))}),
    ],
)  # fmt: skip
def test_known_of_two_sources_is_what_both_say(one: State, two: State, known: Any) -> None:
    assert both(("crm", one), ("ldap", two)) == known


def test_keys_that_python_takes_for_one_are_not_combined() -> None:
    loose = EntityType("thing", ("id",), (Field("id", Kind.ANY), Field("n", Kind.INT)))
    found = both(("crm", things((1, 5), of=loose)), ("ldap", things((True, 5), of=loose)))
    assert found[1] == "contradiction: thing true is not in crm"


def test_what_a_third_source_says_counts_as_much() -> None:
    three = [("crm", things((1, 5))), ("ldap", things((1, 5))), ("wiki", things((1, 6)))]
    assert both(*three) == {1: (contradiction(crm=5, wiki=6),)}
    three[1] = ("ldap", things((1, 7)))
    silent = both(*three)[1][0]
    assert isinstance(silent, Unobserved)
    assert silent.cause == "contradiction: crm says 5, ldap says 7"
    lacking = both(("crm", things()), ("ldap", things((1, 5))), ("wiki", things()))
    assert lacking[1] == "contradiction: thing 1 is not in crm"
    lacking = both(("crm", things((1, 5))), ("ldap", things((1, 5), (2, 1))), ("wiki", things()))
    assert lacking[:2] == ("INCOMPLETE", "contradiction: thing 2 is not in crm")
    lacking = both(("crm", things((1, 5))), ("ldap", things((1, 6))), ("wiki", things()))
    assert lacking[1] == "contradiction: thing 1 is not in wiki"


@pytest.mark.parametrize(("decides", "known"), [("crm", 5), ("ldap", 6), ("wiki", None)])
def test_the_source_with_the_authority_decides_and_another_does_not(
    decides: str, known: int | None
) -> None:
    found = both(
        ("crm", things((1, 5))), ("ldap", things((1, 6))), authority={"thing": decides}
    )  # fmt: skip
    assert found == {1: (contradiction(crm=5, ldap=6) if known is None else known,)}


@pytest.mark.parametrize(
    ("refused", "must", "known"),
    [
        ({("after", "ldap"): "stale"}, None, ("UNOBSERVED", "stale", {})),
        ({("after", "ldap"): "stale"}, ("ldap",), ("UNOBSERVED", "stale", {})),
        ({("after", "ldap"): "stale"}, ("crm",), {1: (5,)}),
        ({("before", "ldap"): "stale"}, None, {1: (contradiction(crm=5, ldap=6),)}),
        ({("after", "wiki"): "stale"}, None, {1: (contradiction(crm=5, ldap=6),)}),
        ({("after", "crm"): "late", ("after", "ldap"): "stale"}, (), ("UNOBSERVED", "late", {})),
    ],
)  # fmt: skip
def test_a_refused_reading_blocks_where_it_must_report_or_nobody_else_can(
    refused: Mapping[tuple[str, str], str], must: Any, known: Any
) -> None:
    sources = ("crm", things((1, 5))), ("ldap", things((1, 6)))
    assert both(*sources, refused=refused, must_report=must) == known


def test_what_is_refused_on_one_side_is_not_refused_on_the_other() -> None:
    sides = [capture(side, part(side, things((1, 5)), "crm")) for side in ("before", "after")]
    for side, other in (("before", "after"), ("after", "before")):
        (found,) = resolve(sides[0], sides[1], refused={(side, "crm"): "stale"}).matchings
        assert shown(getattr(found, side)) == ("UNOBSERVED", "stale", {})
        assert shown(getattr(found, other)) == {1: (5,)}


def test_a_refused_source_that_delivered_nothing_on_this_side_blocks_as_well() -> None:
    before = capture("before", part("before", things((1, 5)), "crm"))
    empty = state({}, types=(OTHER,), source="wiki")
    (found,) = resolve(
        before, capture("after", part("after", empty, "wiki")),
        refused={("after", "crm"): "down"},
    ).matchings  # fmt: skip
    assert shown(found.before) == {1: (5,)}
    assert shown(found.after) == ("UNOBSERVED", "down", {})


@pytest.mark.parametrize(
    ("cut", "cause", "known"),
    [
        (COMPLETE, None, ("INCOMPLETE", "the reading of crm is incomplete", {1: (5,)})),
        (COMPLETE, "timeout", ("INCOMPLETE", "timeout", {1: (5,)})),
        # The reading says itself which of its types is cut: the others are whole.
        (CUT, "timeout", {1: (5,)}),
    ],
)
def test_an_incomplete_reading_is_incomplete_where_it_does_not_say_where(
    cut: Enumeration, cause: str | None, known: Any
) -> None:
    world = state(
        {"thing": [{"id": 1, "n": 5}]}, {"other": cut}, types=(OTHER, THING), source="crm"
    )
    read = part("after", world, "crm", is_complete=False, cause=cause)
    (found,) = resolve(
        capture("before", part("before", world, "crm")), capture("after", read)
    ).matchings
    assert shown(found.after) == known
    whole = part("after", world, "crm")
    (found,) = resolve(
        capture("before", part("before", world, "crm")), capture("after", whole)
    ).matchings
    assert shown(found.after) == {1: (5,)}


@pytest.mark.parametrize("is_complete", [True, False])
@pytest.mark.parametrize("reader", ["crm", "wiki"])
def test_a_type_is_absent_only_where_its_source_read_all_it_has(
    reader: str, is_complete: bool
) -> None:
    """A table that the run made: before, the schema does not have it."""
    none = state({}, types=(OTHER,), source="crm")
    before = part("before", none, reader, is_complete=is_complete)
    (found,) = resolve(
        capture("before", before), capture("after", part("after", things((1, 5)), "crm"))
    ).matchings
    assert shown(found.before) == ({} if reader == "crm" and is_complete else None)
    assert shown(found.after) == {1: (5,)}


def test_every_source_of_a_type_must_have_read_for_it_to_be_absent() -> None:
    none = state({}, types=(OTHER,), source="crm")
    after = capture(
        "after", part("after", things((1, 5)), "crm"),
        part("after", things((1, 5), source="ldap"), "ldap"),
    )  # fmt: skip
    (found,) = resolve(capture("before", part("before", none, "crm")), after).matchings
    assert shown(found.before) is None
    both_read = capture("before", part("before", none, "crm"), part("before", none, "ldap"))
    (found,) = resolve(both_read, after).matchings
    assert shown(found.before) == {}


def test_evidence_is_named_per_type_and_side() -> None:
    world = state({}, types=(OTHER,), source="wiki")
    before = capture("before", part("before", things((1, 5)), "crm"), part("before", world, "wiki"))
    found = resolve(before, capture("after", part("after", things((1, 5)), "ldap")))
    assert found.readings_of == (
        ("other", ("before/wiki",), ()), ("thing", ("before/crm",), ("after/ldap",)),
    )  # fmt: skip


def test_captures_that_disagree_on_a_key_do_not_fit_together() -> None:
    other = EntityType("thing", ("n",), THING.fields)
    captures = [
        Capture((part(side, things((1, 5), of=of), "crm"),))
        for side, of in (("before", THING), ("after", other))
    ]
    with pytest.raises(AdapterError, match="do not fit together: sources disagree on the key"):
        resolve(*captures)
