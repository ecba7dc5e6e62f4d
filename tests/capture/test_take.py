from datetime import UTC, datetime

import pytest

from statediff.capture.source import SourceUnavailable
from statediff.capture.take import take
from statediff.errors import AdapterError, InputError
from statediff.model.readings import Capture
from statediff.model.state import Coverage, MemoryChunks
from statediff.systems.tables.source import TablesSource

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


def clock() -> datetime:
    return NOON


class Down:
    """A source that cannot be read, and perhaps not even asked for its schema."""

    def __init__(self, inner: TablesSource, *, knows_schema: bool) -> None:
        self._inner = inner
        self._knows_schema = knows_schema

    @property
    def name(self):
        return self._inner.name

    def schema(self):
        if self._knows_schema:
            return self._inner.schema()
        raise SourceUnavailable("connection refused")

    def read(self, store, clock, like):
        raise SourceUnavailable("connection refused")


def tables(name: str, content: bytes = b'{"user": [{"id": 1}]}') -> TablesSource:
    return TablesSource(name, content)


def test_sources_are_read_in_the_order_of_their_names_and_evidence_names_the_moment():
    capture = take([tables("z"), tables("a")], MemoryChunks(), clock, None, "before")
    assert [r.id for r in capture.readings] == ["before/a", "before/z"]
    after = take([tables("a"), tables("z")], MemoryChunks(), clock, capture, "after")
    assert [r.id for r in after.readings] == ["after/a", "after/z"]
    assert [r.digest for r in after.readings] == [r.digest for r in capture.readings]


def check_unobserved(capture: Capture) -> None:
    (part,) = capture.parts
    assert part.reading.id == "after/a"
    assert (part.reading.is_complete, part.reading.digest) == (False, None)
    assert (part.reading.cause, part.reading.as_of) == ("connection refused", NOON)
    for table in part.state.tables.values():
        assert table.enumeration.coverage is Coverage.UNOBSERVED
        assert table.enumeration.cause == "connection refused"
        assert table.row_count == 0


def test_an_unavailable_source_leaves_every_type_of_the_state_before_unobserved():
    before = take([tables("a")], MemoryChunks(), clock, None, "before")
    down = Down(tables("a"), knows_schema=False)
    after = take([down], MemoryChunks(), clock, before, "after")
    check_unobserved(after)
    assert set(after.parts[0].state.tables) == {"user"}
    assert after.parts[0].state.tables["user"].chunks != before.parts[0].state.tables["user"].chunks


def test_without_a_state_before_the_declared_schema_or_nothing_is_unobserved():
    known = take([Down(tables("a"), knows_schema=True)], MemoryChunks(), clock, None, "after")
    check_unobserved(known)
    assert set(known.parts[0].state.tables) == {"user"}
    unknown = take([Down(tables("a"), knows_schema=False)], MemoryChunks(), clock, None, "after")
    check_unobserved(unknown)
    assert not unknown.parts[0].state.tables


def test_one_source_that_is_down_does_not_touch_the_others():
    capture = take(
        [tables("b"), Down(tables("a"), knows_schema=True)], MemoryChunks(), clock, None, "before"
    )
    assert [r.is_complete for r in capture.readings] == [False, True]


def test_two_sources_of_one_name_are_refused():
    with pytest.raises(AdapterError, match="two sources are named 'a'"):
        take([tables("a"), tables("a")], MemoryChunks(), clock, None, "before")


def test_nothing_but_unavailability_is_caught():
    with pytest.raises(InputError):
        take([tables("a", b"[]")], MemoryChunks(), clock, None, "before")
