"""A reading says what its source could not show, and by which clock it was made."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff.capture.source import replayed, scanned, unread
from statediff.model.readings import ReadingKind
from statediff.model.state import COMPLETE, Coverage, Enumeration, State
from tests.judging import TYPES, state

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)

causes = st.text(min_size=1, max_size=12)
enumerations = st.one_of(
    st.just(COMPLETE),
    st.builds(Enumeration, st.sampled_from([Coverage.INCOMPLETE, Coverage.UNOBSERVED]), causes),
)


@st.composite
def states(draw: st.DrawFn) -> State:
    types = draw(st.lists(st.sampled_from(TYPES), unique=True))
    return state({}, {t.name: draw(enumerations) for t in types}, types)


@given(states())
def test_a_scan_is_complete_where_every_type_is_and_names_the_others_in_order(found: State) -> None:
    reading = scanned("db", NOON, found).reading
    gaps = [
        f"{name}: {found.tables[name].enumeration.cause}"
        for name in sorted(found.tables)
        if not found.tables[name].enumeration.is_complete
    ]
    assert reading.is_complete == (not gaps)
    assert reading.cause == ("; ".join(gaps) if gaps else None)
    assert (reading.id, reading.source, reading.kind) == ("db", "db", ReadingKind.SCAN)
    assert (reading.clock, reading.as_of, reading.position) == ("trial", NOON, None)
    assert reading.digest == found.digest()


@given(states(), st.lists(causes, max_size=3))
def test_gaps_that_a_source_names_itself_are_all_it_says(found: State, gaps: list[str]) -> None:
    reading = scanned("db", NOON, found, gaps=gaps).reading
    assert (reading.is_complete, reading.cause) == (not gaps, "; ".join(gaps) or None)


def test_a_gap_without_a_cause_is_a_gap() -> None:
    reading = scanned("db", NOON, state({}), gaps=[""]).reading
    assert (reading.is_complete, reading.cause) == (False, None)


def test_a_log_has_a_position() -> None:
    reading = replayed("db", NOON, state({}), position="0/16B3748").reading
    assert (reading.kind, reading.position) == (ReadingKind.FEED, "0/16B3748")


@pytest.mark.parametrize("kind", list(ReadingKind))
def test_a_source_that_showed_nothing_has_no_digest(kind: ReadingKind) -> None:
    reading = unread("after/db", "db", NOON, "it is gone", kind=kind, clock="recording")
    assert (reading.id, reading.source, reading.kind) == ("after/db", "db", kind)
    assert (reading.is_complete, reading.digest, reading.cause) == (False, None, "it is gone")
    assert (reading.clock, reading.as_of) == ("recording", NOON)
