"""Several sources, and identity: conservative, by key first, never by likeness."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import statediff.kernel.resolve as resolving
from statediff.kernel import replay
from statediff.kernel.resolve import resolve
from statediff.model.lookalikes import skeleton
from statediff.model.readings import Capture
from statediff.model.schema import EntityType, Field, Kind
from statediff.model.values import Observed, same
from tests.judging import (
    CUT,
    DARK,
    DIVERGE,
    FAILS,
    HIDDEN,
    HOLDS,
    INCONCLUSIVE,
    ITEM,
    MATCH,
    UNKNOWN,
    capture,
    finding,
    judged,
    part,
    run,
    state,
    truths,
    user,
)

NOTHING: dict[str, Any] = {}
PERSON = EntityType(
    "person",
    (),
    (Field("email", Kind.TEXT), Field("role", Kind.TEXT)),
)
IDENTIFY = "identify: [{type: person, match_on: {email: null}, version: 1, because: no key}]\n"


def people(*rows: tuple[Observed, Observed], coverage: Any = None) -> Any:
    members = [{"email": email, "role": role} for email, role in rows]
    return state({"person": members}, coverage, types=(PERSON,))


# ---------------------------------------------------------------- several sources


def both(moment: str, one: Any, two: Any, **overrides: Any) -> Capture:
    known = [
        entry if not isinstance(entry, list) else state({"user": entry}) for entry in (one, two)
    ]
    return capture(
        moment, part(moment, known[0], "crm"), part(moment, known[1], "ldap", **overrides)
    )


BODY = "require: [{id: r, update: user, set: {role: admin}}]\n"
OLD, NEW = [user(1)], [user(1, "admin")]


def test_sources_that_agree_are_one() -> None:
    found = run(BODY, both("before", OLD, OLD), both("after", NEW, NEW))
    assert found.judgement.verdict is MATCH
    assert set(found.judgement.deltas[0].evidence) == {
        "before/crm", "before/ldap", "after/crm", "after/ldap"
    }  # fmt: skip


def test_sources_that_differ_leave_the_value_unobserved_unless_one_has_the_authority() -> None:
    sides = both("before", OLD, OLD), both("after", NEW, OLD)
    found = judged(BODY, *sides)
    # Who read nothing of what it wrote is not asked what it is: it is not what was required.
    assert finding(found, "r").code == "missing-change"
    assert "readings-parted" in {each.code for each in found.findings}
    assert found.verdict is DIVERGE
    for source, verdict in (("crm", MATCH), ("ldap", DIVERGE)):
        trust = f"evidence: {{crm: {{}}, ldap: {{}}, {source}: {{authority: [user]}}}}\n"
        trust = trust.replace(f"{source}: {{}}, ", "", 1)
        assert judged(BODY + trust, *sides).verdict is verdict, source


def test_an_entity_that_one_source_lacks_is_neither_there_nor_absent() -> None:
    sides = both("before", OLD, OLD), both("after", OLD, [])
    found = judged("forbid: [{id: f, delete: user}]\n", *sides)
    assert truths(found)["f"] is UNKNOWN
    assert finding(found, "frame").code == "readings-parted"


LOOSE = "allow: [{any: user}]\n"
OPEN = "frame: {open: the law}\n"
SEES_ROLES = "forbid: [{id: f, update: user, set: {role: root}}]\n"


@pytest.mark.parametrize("body", [BODY, LOOSE, SEES_ROLES + OPEN])
def test_readings_that_part_in_the_run_are_a_change_that_no_clause_explains(body: str) -> None:
    """Whatever is allowed: nobody can say which of the two changes it was."""
    done = run(body, both("before", OLD, OLD), both("after", NEW, [user(1, "root")]))
    assert done.judgement.verdict is DIVERGE
    parted = finding(done.judgement, "frame")
    assert (parted.code, parted.truth) == ("readings-parted", FAILS)
    place = 'user[1].role: contradiction since the run: crm says "admin", ldap says "root"'
    assert parted.sentence == place
    assert [row.side for row in parted.witness.rows] == ["before", "after"]
    assert replay(done.bundle) == done.judgement


def test_what_parts_where_no_clause_looks_is_not_judged_by_an_open_frame() -> None:
    body = "forbid: [{id: f, delete: item}]\n" + OPEN
    apart = both("after", NEW, [user(1, "root")])
    assert judged(body, both("before", OLD, OLD), apart).verdict is MATCH


ROLES = st.lists(
    st.builds(user, st.integers(1, 3), st.sampled_from(["user", "admin"])),
    unique_by=lambda row: row["id"],
    max_size=3,
)


@given(ROLES, ROLES, ROLES, st.sampled_from([LOOSE, SEES_ROLES]))
def test_no_run_makes_an_open_question_of_readings_that_agreed(
    old: list[Any], one: list[Any], other: list[Any], body: str
) -> None:
    """One of two readings that parted is another one than before, whichever is right."""
    found = run(body, both("before", old, old), both("after", one, other))
    is_apart = {row["id"]: row for row in one} != {row["id"]: row for row in other}
    assert is_apart <= (found.judgement.verdict is DIVERGE)
    assert found.judgement.verdict is not INCONCLUSIVE
    assert replay(found.bundle) == found.judgement
    # What contradicted itself before the run is not the run's doing.
    still = judged(body, both("before", one, other), both("after", one, other)).verdict
    assert still is (INCONCLUSIVE if is_apart and body != LOOSE else MATCH)


@pytest.mark.parametrize("silent", [[user(1, HIDDEN)], state({}, {"user": CUT}),
                                    state({}, {"user": DARK})])  # fmt: skip
def test_a_source_that_falls_silent_does_not_make_the_other_right(silent: Any) -> None:
    contradicted = judged(BODY, both("before", NEW, OLD), both("after", NEW, OLD))
    assert contradicted.verdict is INCONCLUSIVE
    found = judged(BODY, both("before", OLD, OLD), both("after", NEW, silent))
    assert found.verdict is INCONCLUSIVE
    assert truths(found)["r"] is UNKNOWN


def test_a_source_that_must_report_blocks_what_others_say_and_another_does_not() -> None:
    before = both("before", OLD, OLD)
    after = both("after", NEW, NEW, digest=None, cause="down")
    assert truths(judged(BODY, before, after))["r"] is UNKNOWN
    listed = "evidence: {crm: {}, ldap: {}}\n"
    assert truths(judged(BODY + listed, before, after))["r"] is UNKNOWN
    assert judged(BODY + "evidence: {crm: {}}\n", before, after).verdict is MATCH


def test_a_forgeable_reading_neither_establishes_nor_contradicts() -> None:
    before = both("before", OLD, OLD)
    lie = both("after", OLD, NEW, is_agent_influenced=True)
    only = BODY + "evidence: {crm: {}}\n"
    assert judged(only, before, lie).verdict is DIVERGE
    denial = both("after", NEW, OLD, is_agent_influenced=True)
    assert judged(only, before, denial).verdict is MATCH


def test_what_a_missing_source_delivered_before_is_unobserved_after() -> None:
    before, after = (
        both("before", OLD, OLD),
        capture("after", part("after", state({"user": NEW}), "crm")),
    )
    assert truths(judged(BODY, before, after))["r"] is UNKNOWN


def test_an_incomplete_reading_that_names_no_gap_is_incomplete_throughout() -> None:
    after = capture("after", part("after", state({}), is_complete=False))
    found = judged("forbid: [{id: f, delete: user}]\n", {"user": OLD}, after)
    assert truths(found)["f"] is UNKNOWN


# ---------------------------------------------------------------- keys


def test_keys_that_python_takes_for_one_are_different_principals() -> None:
    loose = EntityType("thing", ("id",), (Field("id", Kind.ANY), Field("n", Kind.INT)))
    keys: list[Observed] = [1, Decimal("1.0"), True, "1", Decimal(1)]
    rows = {"thing": [{"id": key, "n": 1} for key in keys]}
    made = run("require: [{create: thing, count: 5}]\n", state({}, types=(loose,)),
               state(rows, types=(loose,)))  # fmt: skip
    assert made.judgement.verdict is MATCH
    assert len({d.id for d in made.judgement.deltas}) == 5
    for key in keys:
        rest = {"thing": [row for row in rows["thing"] if not same(row["id"], key)]}
        found = judged("require: [{delete: thing}]\n", state(rows, types=(loose,)),
                       state(rest, types=(loose,)))  # fmt: skip
        assert found.verdict is MATCH
        assert same(found.deltas[0].key[0], key)


@given(st.lists(st.text(min_size=1, max_size=80), min_size=2, max_size=2, unique=True))
def test_two_keys_never_have_one_id(keys: list[str]) -> None:
    named = EntityType("thing", ("id",), (Field("id", Kind.TEXT),))
    keys[1] = keys[0] + keys[1] if len(keys[0]) > 60 else keys[1]
    rows = {"thing": [{"id": key} for key in keys]}
    made = judged("require: [{create: thing, count: 2}]\n", state({}, types=(named,)),
                  state(rows, types=(named,)))  # fmt: skip
    assert len({d.id for d in made.deltas}) == 2


def test_two_stable_keys_are_never_joined_however_alike() -> None:
    named = EntityType("thing", ("id",), (Field("id", Kind.TEXT),))
    old = state({"thing": [{"id": "alice"}]}, types=(named,))
    new = state({"thing": [{"id": "\u0430lice"}]}, types=(named,))
    found = judged("forbid: [{id: f, delete: thing}]\n", old, new)
    assert truths(found)["f"] is FAILS


# ---------------------------------------------------------------- natural keys


def test_without_a_rule_rows_without_a_key_have_only_their_content() -> None:
    found = judged(
        "forbid: [{id: f, delete: person}]\n", people(("a", "user")), people(("a", "admin"))
    )
    assert truths(found)["f"] is FAILS


def test_a_natural_key_pairs_what_has_no_other_and_its_change_is_an_update() -> None:
    sides = people(("a", "user"), ("b", "user")), people(("b", "user"), ("a", "admin"))
    body = IDENTIFY + "forbid: [{id: f, delete: person}]\n"
    found = judged(body, *sides)
    assert truths(found) == {"f": HOLDS, "frame": FAILS}
    assert [(d.path, d.before, d.after) for d in found.deltas] == [("role", "user", "admin")]
    wanted = judged(IDENTIFY + "require: [{update: person, set: {role: admin}}]\n", *sides)
    assert wanted.verdict is MATCH


def test_the_natural_key_is_compared_under_its_own_rule_or_raw() -> None:
    sides = people(("A", "user")), people(("a", "admin"))
    folded = IDENTIFY.replace("null", "casefold@1")
    body = "forbid: [{id: f, delete: person}]\nallow: [{any: person}]\n"
    assert judged(folded + body, *sides).verdict is MATCH
    assert judged(IDENTIFY + body, *sides).verdict is not MATCH


def test_rows_created_in_the_run_are_counted_never_merged() -> None:
    body = IDENTIFY + "require: [{id: r, create: person, count: 2}]\n"
    old = people(("a", "user"))
    assert judged(body, old, people(("a", "user"), ("b", "x"), ("b", "x"))).verdict is MATCH
    assert truths(judged(body, old, people(("a", "user"), ("b", "x"))))["r"] is FAILS


def test_unchanged_rows_without_a_natural_key_are_no_deltas() -> None:
    body = IDENTIFY + "forbid: [{id: f, any: person}]\n"
    sides = people((None, "x"), (None, "x"), ("a", "y"))
    assert judged(body, sides, sides).verdict is MATCH
    assert judged(body, sides, sides).hidden == ()


def test_a_tie_is_decided_only_where_every_pairing_agrees() -> None:
    sides = people(("a", "user"), ("a", "boss")), people(("a", "admin"), ("a", "boss"))
    body = (
        IDENTIFY + "forbid:\n  - {id: any, update: person}\n"
        "  - {id: one, update: person, where: 'it.role == \"user\"'}\n"
        "  - {id: two, update: person, where: 'it.role == \"boss\"'}\n"
    )
    found = judged(body, *sides)
    assert truths(found) == {"any": FAILS, "one": FAILS, "two": UNKNOWN, "frame": FAILS}
    assert finding(found, "two").code == "identity-ambiguous"


ALIKE = tuple(("a", str(n)) for n in range(6)), tuple(("a", str(n)) for n in range(3, 9))
"""Too many ways to pair."""
OTHER = ("b", "user")


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ((OTHER, OTHER), UNKNOWN),
        ((OTHER, ("b", "admin")), UNKNOWN),
        ((OTHER,), FAILS),  # an entity that is told apart was deleted
        ((OTHER, ("c", "user")), FAILS),
    ],
)
def test_rows_that_nobody_tells_apart_leave_the_others_of_the_type_judged(
    others: Any, expected: Any
) -> None:
    first, *last = others
    body = IDENTIFY + "forbid: [{id: f, delete: person}]\nallow: [{update: person}]\n"
    found = run(body, people(*ALIKE[0], first), people(*ALIKE[1], *last))
    assert truths(found.judgement)["f"] is expected
    if expected is UNKNOWN:
        assert finding(found.judgement, "f").code == "identity-ambiguous"
    assert replay(found.bundle) == found.judgement


NAMESAKES = st.lists(
    st.tuples(st.sampled_from(["a", "b", "\u0430"]), st.sampled_from(["x", "y", "z"])), max_size=4
)
BODIES = (
    "forbid: [{id: f, delete: person}]\nallow: [{any: person}]\n",
    "forbid: [{id: f, update: person, where: 'it.email == \"b\"'}]\nallow: [{any: person}]\n",
    "require: [{id: r, create: person, where: 'it.role == \"z\"'}]\n",
    "require: [{id: r, that: 'count(p for p in after.person if p.role == \"x\") < 2'}]\n",
)


@pytest.mark.slow
@given(NAMESAKES, NAMESAKES, st.sampled_from(BODIES), st.sampled_from([1, 2, 6]))
def test_what_stays_open_decides_nothing_that_pairing_it_would_decide_otherwise(
    old: Any, new: Any, body: str, most: int
) -> None:
    sides = people(*old), people(*new)
    whole = judged(IDENTIFY + body, *sides)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resolving, "MAX_MATCHINGS", most)
        some = judged(IDENTIFY + body, *sides)
    assert some.verdict in (whole.verdict, INCONCLUSIVE)
    for clause, truth in truths(some).items():
        assert truth in (truths(whole)[clause], UNKNOWN)


@pytest.mark.parametrize("likeness", ["\u0430lice", "alice\u200b", "Alice", "\uff41lice"])
def test_text_that_only_looks_alike_makes_identity_ambiguous(likeness: str) -> None:
    body = IDENTIFY + "forbid: [{id: f, delete: person}]\nallow: [{any: person}]\n"
    gone = judged(body, people(("alice", "user")), people((likeness, "user")))
    assert truths(gone)["f"] is UNKNOWN
    beside = judged(body, people(("alice", "user")), people(("alice", "user"), (likeness, "user")))
    assert beside.verdict is INCONCLUSIVE
    both_before = people(("alice", "user"), (likeness, "user"))
    assert judged(body, both_before, both_before).verdict is MATCH
    other = judged(body, people(("alice", "user")), people(("bob", "user")))
    assert truths(other)["f"] is FAILS


@pytest.mark.parametrize("side", [0, 1])
def test_a_natural_key_that_was_not_observed_pairs_with_nobody_and_decides_nothing(
    side: int,
) -> None:
    sides = [people(("a", "user")), people(("a", "user"))]
    sides[side] = people((HIDDEN, "user"))
    body = IDENTIFY + "forbid: [{id: f, delete: person}]\n"
    assert truths(judged(body, *sides))["f"] is UNKNOWN
    sides = [people(("a", "user")), people(("a", "user"))]
    sides[side] = people((HIDDEN, "admin"))
    assert truths(judged(body, *sides))["f"] is UNKNOWN
    cut = [people(("a", "user")), people(("a", "user"))]
    cut[side] = people(("a", "user"), coverage={"person": CUT})
    assert truths(judged(body, *cut))["f"] is UNKNOWN


def test_a_namesake_that_nobody_saw_may_be_the_one_that_changed() -> None:
    body = IDENTIFY + "forbid: [{id: f, update: person}]\n"
    old, new = people(("a", "user")), people(("a", "admin"))
    assert truths(judged(body, old, new))["f"] is FAILS
    cut = people(("a", "admin"), coverage={"person": CUT})
    assert truths(judged(body, old, cut))["f"] is UNKNOWN


def test_the_frame_is_open_where_identity_is_however_all_is_explained() -> None:
    body = IDENTIFY + "forbid: [{id: f, create: person}]\nallow: [{any: person}]\n"
    tied = judged(body, people(("a", "x"), ("a", "y")), people(("a", "y"), ("a", "z")))
    assert truths(tied) == {"f": UNKNOWN, "frame": UNKNOWN}


def test_an_effect_on_a_type_of_ambiguous_identity_is_open() -> None:
    # The authorization reads items only; what is ambiguous is which person was updated.
    body = (
        IDENTIFY
        + "effects:\n  - {on: update person, authorized_by: 'count(i for i in after.item) == 0'}\n"
        "forbid: [{delete: item}]\nallow: [{any: person}]\n"
    )
    sides = [
        state({"person": [{"email": "a", "role": role} for role in roles]}, types=(PERSON, ITEM))
        for roles in ("xy", "yz")
    ]
    found = judged(body, *sides)
    assert truths(found)["authorized-update-person"] is UNKNOWN


@pytest.mark.parametrize(
    ("text", "shape"),
    [("alice", "alice"), ("\u0430lice", "alice"), ("al\u200bice", "alice"), ("ALICE", "alice"),
     ("\uff42ob", "bob"), ("\u4e2d", "\u4e2d")],
)  # fmt: skip
def test_a_skeleton_is_what_a_reader_sees(text: str, shape: str) -> None:
    assert skeleton(text) == shape


def test_the_state_of_a_lone_source_that_read_all_is_the_resolved_state() -> None:
    one, two = state({"item": [{"id": 1}]}), state({})
    found = resolve(capture("before", part("before", one)), capture("after", part("after", two)))
    assert found.matchings[0].before is one
    assert found.matchings[0].after == two
    cut = part("before", one, is_complete=False, cause="the line went dead")
    found = resolve(capture("before", cut), capture("after", part("after", two)))
    assert not found.matchings[0].before.tables["item"].enumeration.is_complete
