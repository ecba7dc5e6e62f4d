"""The duties of a system and of a source."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final
from urllib.parse import urlsplit

import pytest

from statediff.capture.source import Source, clock
from statediff.capture.take import take
from statediff.errors import SandboxError, UsageError
from statediff.model.readings import Capture
from statediff.model.state import MemoryChunks
from statediff.packs import SandboxPack
from statediff.systems.base.protocol import Drift, SourceProof, System
from statediff.systems.base.registry import system_of, tools_of
from statediff.systems.base.tool import tool_name

SETTLE_SECONDS: Final = 5.0


@dataclass(frozen=True)
class Way:
    """A way in which an agent can leave a system, by the means an agent has."""

    apply: Callable[[System], object]
    is_state: bool = True
    """The sources show it. Otherwise only the proof does: a mode, a password, a setting."""


class RunningSystem:
    """A system of one kind. The tests share one that runs, and put it back before each."""

    source: ClassVar[str]
    """The pack's source that is tried, with all that look at its system."""
    traces: ClassVar[frozenset[str]] = frozenset()
    """Traces that a reading leaves as drift, e.g. the log of an interface that it has to go
    through.
    """

    @classmethod
    def pack(cls) -> SandboxPack:
        """The pack that has the source."""
        raise NotImplementedError("say which pack has the source, e.g. by `read_pack`")

    @classmethod
    def make(cls, folder: Path) -> System:
        """A system that is not started yet; by default the one its kind's entry point names."""
        sources = {source.name: source for source in cls.pack().sources}
        looks = tuple(source for source in sources.values() if source.of == cls.source)
        return system_of(sources[cls.source], looks, folder)

    @pytest.fixture(scope="class")
    @classmethod
    def running(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
        """The system of all tests."""
        made = cls.make(tmp_path_factory.mktemp("conformance") / cls.source)
        try:
            made.start()
            yield made
        finally:
            made.stop()

    @pytest.fixture
    def system(self, running: System) -> System:
        """The system, started and put back."""
        running.start()
        running.reset()
        return running


class SystemSuite(RunningSystem):
    """The duties of a system, whatever it is."""

    ways: ClassVar[Mapping[str, Way]]
    """At least one; a good suite has one for each thing that an agent can reach."""
    secrets: ClassVar[frozenset[tuple[str, str]]] = frozenset()
    """(type, field) whose values are new with every reset, e.g. of the account of one trial."""
    has_tools: ClassVar[bool] = True
    """Its plug-in has tools for agents that speak no protocol of the system's own."""

    def test_there_are_ways_to_leave_it_and_one_of_them_is_seen(self) -> None:
        assert any(way.is_state for way in self.ways.values())

    def test_a_reset_is_proven_by_digests(self, system: System) -> None:
        proof, drift = system.verify()
        assert_proven((proof, drift))
        assert proof.source == self.source
        assert proof.method
        assert len(proof.expected) >= 32, f"{proof.expected!r} is no digest"

    def test_a_reset_and_a_start_may_be_done_again(self, system: System) -> None:
        system.start()
        system.reset()
        system.reset()
        assert_proven(system.verify())

    def test_every_way_is_drift_that_is_told_not_mended_and_gone_after_a_reset(
        self, system: System
    ) -> None:
        for name, way in self.ways.items():
            way.apply(system)
            assert_settles(system, name)
            for look in ("the first look", "a second look"):
                proof, drift = system.verify()
                assert drift, f"{name}: not shown by {look}"
                assert proof.expected != proof.found or drift, name
                assert all(entry.expected != entry.found for entry in drift), name
                assert all(entry.what and entry.source for entry in drift), name
            system.reset()
            assert_proven(system.verify(), name)

    def test_the_sources_are_named_and_have_one_schema(self, system: System) -> None:
        sources = system.sources()
        assert self.source in {source.name for source in sources}
        for source in sources:
            assert source.schema() == source.schema()

    def test_a_reading_says_when_and_is_the_same_twice(self, system: System) -> None:
        began = clock()
        one, two = captured(system.sources()), captured(system.sources())
        for part in one.parts:
            assert began <= part.reading.as_of <= clock()
            assert part.reading.is_complete, part.reading.cause
            assert part.reading.digest
        assert states(one) == states(two)

    def test_a_reading_cut_like_an_earlier_one_is_equal_to_it(self, system: System) -> None:
        before = captured(system.sources())
        assert states(captured(system.sources(), before)) == states(before)

    def test_reading_changes_nothing(self, system: System) -> None:
        captured(system.sources())
        assert {entry.what for entry in system.verify()[1]} <= self.traces

    def test_the_base_that_is_captured_is_the_same_after_a_reset(self, system: System) -> None:
        before = captured(system.sources())
        for name, way in self.ways.items():
            way.apply(system)
            system.reset()
            again = captured(system.sources())
            assert states(again, self.secrets) == states(before, self.secrets), name

    def test_the_sources_show_every_change_of_state(self, system: System) -> None:
        before = captured(system.sources())
        for name, way in self.ways.items():
            if way.is_state:
                way.apply(system)
                assert_settles(system, name)
                assert states(captured(system.sources(), before)) != states(before), name
                system.reset()

    def test_at_rest_it_is_settled_at_once(self, system: System) -> None:
        began = time.monotonic()
        assert system.unsettled(began + SETTLE_SECONDS) is None
        assert time.monotonic() - began < SETTLE_SECONDS

    def test_an_unplugged_source_is_unobserved_with_a_cause_and_never_empty(
        self, system: System
    ) -> None:
        for name in [source.name for source in system.sources()]:
            before = captured(system.sources())
            system.unplug(name)
            after = captured(system.sources(), before)
            [part] = [part for part in after.parts if part.reading.source == name]
            assert not part.reading.is_complete
            assert part.reading.cause
            tables = part.state.tables.items()  # `source.NAME` says that a run ruined it
            gaps = [
                t for t, each in tables if each.enumeration.is_complete and t != f"source.{name}"
            ]
            assert not gaps, f"{name}: unplugged, and yet all of {gaps[0]} is known"
            assert not is_proven(system), f"{name}: unplugged, and yet its reset is proven"
            system.reset()
            assert_proven(system.verify(), f"{name} was unplugged")
            assert all(reading.is_complete for reading in captured(system.sources()).readings)

    def test_its_url_says_by_which_means_it_is_reached(self, system: System) -> None:
        assert urlsplit(system.url).scheme

    def test_an_agent_gets_its_tools_by_its_url(self, system: System) -> None:
        if not self.has_tools:
            with pytest.raises(UsageError):
                tools_of(self.source, system.url)
            return
        tools = tools_of(self.source, system.url)
        assert tools
        names = [tool.name for tool in tools]
        assert len(set(names)) == len(names), f"two tools have one name: {names}"
        for tool in tools:
            assert tool.name.startswith(tool_name(self.source, ""))
            assert tool.description
            assert tool.schema()["additionalProperties"] is False

    def test_two_at_once_keep_apart(self, system: System, tmp_path: Path) -> None:
        other = self.make(tmp_path / "other")
        try:
            other.start()
            other.reset()
            assert other.url != system.url
            next(iter(self.ways.values())).apply(system)
            assert_proven(other.verify(), "another was changed")
        finally:
            other.stop()

    def test_after_a_stop_nothing_is_read_and_a_start_makes_it_anew(self, tmp_path: Path) -> None:
        made = self.make(tmp_path / "own")
        try:
            made.stop()
            made.start()
            made.reset()
            next(iter(self.ways.values())).apply(made)
            made.stop()
            made.stop()
            made.start()
            made.reset()
            assert_proven(made.verify(), "stopped and started")
        finally:
            made.stop()


class AccountSuite(SystemSuite):
    """A system whose agent signs in: its account is for one trial."""

    def lets_in(self, url: str) -> bool:
        """True if anyone who has this URL can use the system now."""
        raise NotImplementedError("say how an agent signs in")

    def test_an_account_is_for_one_trial(self, system: System) -> None:
        earlier = system.url
        assert self.lets_in(earlier)
        system.reset()
        assert self.lets_in(system.url)
        assert system.url != earlier
        assert not self.lets_in(earlier)


class SourceSuite:
    """A source that stands alone: whatever can be read without statediff running it."""

    def make(self, folder: Path) -> Source:
        """The source of a system that was just made in `folder`, which is empty."""
        raise NotImplementedError("say how the system and its source are made")

    def change(self, folder: Path) -> None:
        """The system has changed, visibly."""
        raise NotImplementedError("say how the system changes")

    def end(self, folder: Path) -> None:
        """The system cannot be read any more."""
        raise NotImplementedError("say how the system becomes unreadable")

    def test_a_reading_is_complete_says_when_and_is_the_same_twice(self, tmp_path: Path) -> None:
        source = self.make(tmp_path)
        began = clock()
        one, two = captured((source,)), captured((source,))
        [part] = one.parts
        assert part.reading.is_complete, part.reading.cause
        assert part.reading.source == source.name
        assert began <= part.reading.as_of <= clock()
        assert states(one) == states(two)
        assert states(captured((source,), one)) == states(one)

    def test_a_change_is_seen_beside_the_earlier_reading(self, tmp_path: Path) -> None:
        source = self.make(tmp_path)
        before = captured((source,))
        self.change(tmp_path)
        assert states(captured((source,), before)) != states(before)

    def test_what_cannot_be_read_is_unobserved_with_a_cause_and_never_empty(
        self, tmp_path: Path
    ) -> None:
        source = self.make(tmp_path)
        before = captured((source,))
        self.end(tmp_path)
        [part] = captured((source,), before).parts
        assert not part.reading.is_complete
        assert part.reading.cause
        tables = (part.state.tables[name] for name in before.parts[0].state.tables)
        assert not any(table.enumeration.is_complete for table in tables)


def captured(sources: tuple[Source, ...], like: Capture | None = None) -> Capture:
    """The sources as they are, cut like an earlier capture."""
    moment = "before" if like is None else "after"
    return take(sources, MemoryChunks(), clock, like, moment)


def states(
    capture: Capture, without: frozenset[tuple[str, str]] = frozenset()
) -> dict[str, object]:
    """Source → what tells its state from any other, leaving out some fields (type, name)."""
    if not without:
        return {part.reading.source: part.state.digest() for part in capture.parts}
    return {
        part.reading.source: {
            name: [
                (key, [(f, value) for f, value in row.items() if (name, f) not in without])
                for key, row in table.rows()
            ]
            for name, table in part.state.tables.items()
        }
        for part in capture.parts
    }


def assert_proven(found: tuple[SourceProof, tuple[Drift, ...]], when: str = "") -> None:
    """The look found nothing that is not as in the base."""
    proof, drift = found
    assert not drift, f"{when}: {'; '.join(map(str, drift))}"
    assert proof.expected == proof.found, f"{when}: the digests differ, and no drift says how"


def assert_settles(system: System, when: str) -> None:
    """Nothing is in flight any more."""
    cause = system.unsettled(time.monotonic() + SETTLE_SECONDS)
    assert cause is None, f"{when}: {cause}"


def is_proven(system: System) -> bool:
    """True if the system's look finds its base; one that cannot look proves nothing."""
    try:
        proof, drift = system.verify()
    except SandboxError:
        return False
    return not drift and proof.expected == proof.found
