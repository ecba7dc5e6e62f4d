"""The kit: what any system, source, sandbox and importer must do, as pytest classes to inherit.

    from statediff.conformance import SystemSuite, Way

    class TestNotes(SystemSuite):
        source = "notes"
        ways = {"a note is added": Way(add_note), "its mode is changed": Way(chmod, is_state=False)}

        @classmethod
        def pack(cls):
            return read_pack(Path(__file__).parent / "pack")

Each test says what would go wrong if it failed: a reset that is only claimed, a drift that is
repaired in silence, a source that shows an empty system where it could not look. `SystemSuite`
makes the system by its kind and the tools by its URL, so it also proves the plug-in object. A
system with a feed inherits `FeedSuite` too; `ImporterSuite` opens a sample by the format's name.
The kit needs pytest: `statediff[test]`. One file, so that an author reads from top to bottom what
the own part must do.
"""

from __future__ import annotations

import gc
import gzip
import json
import random
import shutil
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Final, Self
from urllib.parse import urlsplit

import pytest

from statediff.capture.feed import Feed, Seen
from statediff.capture.source import Source, SourceUnavailable
from statediff.capture.take import take
from statediff.errors import SandboxError, StatediffError, UsageError
from statediff.evaluate import evaluate
from statediff.importers.lines import LABELS, MAX_LINE_BYTES, Line, read_lines, without_labels
from statediff.importers.recorded import BadLine, Labels, Prepared, Suite
from statediff.importers.registry import open_suite
from statediff.importers.rejudge import (
    Chunk,
    Judged,
    Mode,
    Outcome,
    Wanted,
    chunks,
    judged_chunk,
    read_run,
)
from statediff.model.readings import Capture
from statediff.model.state import MemoryChunks, State
from statediff.model.verdict import Verdict
from statediff.packs import SandboxPack
from statediff.systems.base.protocol import Sandbox
from statediff.systems.base.receipt import Drift, SourceProof
from statediff.systems.base.registry import system_of, tools_of
from statediff.systems.base.system import System
from statediff.systems.base.tool import tool_name

SETTLE_SECONDS: Final = 5.0
GZIP: Final = b"\x1f\x8b"


def clock() -> datetime:
    """This machine's, in UTC."""
    return datetime.now(UTC)


@dataclass(frozen=True)
class Way:
    """A way in which an agent can leave a system, by the means an agent has."""

    apply: Callable[[System], object]
    is_state: bool = True
    """The sources show it. Otherwise only the proof does: a mode, a password, a setting."""


@dataclass(frozen=True)
class Change:
    """A change of a system with a feed, by the means an agent has."""

    apply: Callable[[System], object]
    undo: Callable[[System], object] | None = None
    """Puts the state back as it was before `apply`. A change that nothing can undo, such as a
    message that is sent, can be made again and again."""
    commits: int = 1
    """How many commits `apply` makes, and `undo`."""


@dataclass(frozen=True)
class SandboxWay:
    """A way in which an agent can leave a sandbox, and the source whose proof must tell it."""

    apply: Callable[[Sandbox], object]
    source: str


class RunningSystem:
    """A system of one kind. The tests share one that runs, and put it back before each."""

    source: ClassVar[str]
    """The pack's source that is tried, with all that look at its system."""
    traces: ClassVar[frozenset[str]] = frozenset()
    """What a reading leaves as drift, e.g. the log of an interface that it has to go through."""

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
    """What a system must do, whatever it is."""

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
                assert drift, f"{name}: not told by {look}"
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
            gaps = [t for t, table in part.state.tables.items() if table.enumeration.is_complete]
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
        """Whether whoever has this URL can use the system now."""
        raise NotImplementedError("say how an agent signs in")

    def test_an_account_is_for_one_trial(self, system: System) -> None:
        earlier = system.url
        assert self.lets_in(earlier)
        system.reset()
        assert self.lets_in(system.url)
        assert system.url != earlier
        assert not self.lets_in(earlier)


class FeedSuite(RunningSystem):
    """The feed of a system: its history is every commit of the run, or says that it is not.

    Scans are the measure: what the feed shows is compared with the states that the source shows
    after each change.
    """

    changes: ClassVar[Mapping[str, Change]]
    """At least one; a good suite has one for each kind of commit that the feed tells apart."""
    losses: ClassVar[Mapping[str, Callable[[System], object]]]
    """Ways to take from the feed what it saw or is to see, e.g. its log is cut off; at least one.
    Each also works on a system that was changed."""
    only_adds: ClassVar[bool] = False
    """Nothing that is done to the system can be undone, as in an outbox."""
    walks: ClassVar[int] = 6
    """How many random runs of changes are tried, each one step longer than the last."""

    def test_there_are_changes_and_losses_and_one_change_is_undone(self) -> None:
        assert self.changes
        assert self.losses
        assert self.only_adds != any(change.undo for change in self.changes.values())

    def test_a_run_without_a_commit_has_an_empty_history(self, system: System) -> None:
        with FeedRun(system, self.source) as run:
            run.check()

    def test_every_commit_is_seen_once_in_order_and_together_they_are_the_scan_after(
        self, system: System
    ) -> None:
        for seed in range(self.walks):
            system.reset()
            assert_proven(system.verify(), f"walk {seed}")
            with FeedRun(system, self.source) as run:
                self._walk(run, random.Random(seed), 2 + seed)  # noqa: S311 - no secret
                run.check()

    def test_a_change_that_is_undone_within_the_run_is_in_the_history(self, system: System) -> None:
        for name, change in self.changes.items():
            if change.undo is None:
                continue
            system.reset()
            with FeedRun(system, self.source) as run:
                run.make(name, change)
                run.make(name, change, is_undone=True)
                was = run.before.digest()
                assert run.scan().digest() == was, f"{name}: its undo puts another state there"
                between = [t.state.digest() for t in run.check().transactions]
                assert set(between) - {was}, f"{name}: the history shows nothing of it"

    def test_nothing_that_was_done_before_it_was_attached_is_seen(self, system: System) -> None:
        for name, change in self.changes.items():
            system.reset()
            change.apply(system)
            assert_settles(system, name)
            with FeedRun(system, self.source) as run:
                run.check()
                if change.undo is None:
                    run.make(name, change)
                else:
                    run.make(name, change, is_undone=True)
                run.check()

    def test_after_a_reset_it_sees_nothing_of_an_earlier_run(self, system: System) -> None:
        name, change = next(iter(self.changes.items()))
        for _ in range(2):
            with FeedRun(system, self.source) as run:
                run.make(name, change)
                run.check()
            system.reset()
            assert_proven(system.verify(), f"{name} was seen by a feed")
        with FeedRun(system, self.source) as run:
            run.check()

    def test_a_feed_that_lost_something_says_so(self, system: System) -> None:
        name, change = next(iter(self.changes.items()))
        for loss, lose in self.losses.items():
            system.reset()
            with FeedRun(system, self.source) as run:
                run.make(name, change)
                lose(system)
                assert run.gap(), f"{loss}: the history is shown as complete"

    def test_of_an_unplugged_source_no_complete_history_is_shown_but_the_true_one(
        self, system: System
    ) -> None:
        name, change = next(iter(self.changes.items()))
        with FeedRun(system, self.source) as run:
            run.make(name, change)
            system.unplug(self.source)
            if not run.gap():
                run.check_states()
        system.reset()
        assert_proven(system.verify(), f"{self.source} was unplugged")

    def test_a_reset_under_it_is_never_a_run_in_which_nothing_was_put_back(
        self, system: System
    ) -> None:
        name, change = next(iter(self.changes.items()))
        with FeedRun(system, self.source) as run:
            run.make(name, change)
            system.reset()
            if not run.gap():
                run.expected.append(run.scan().digest())
                run.check()

    def test_watching_and_reading_change_nothing(self, system: System) -> None:
        alone = captured(system.sources())
        with FeedRun(system, self.source) as run:
            assert states(captured(system.sources(), alone)) == states(alone), "it was attached"
            first = run.check()
            assert run.check() == first, "it was read twice"
            assert states(captured(system.sources(), alone)) == states(alone), "it was read"
        assert states(captured(system.sources(), alone)) == states(alone), "it was detached"
        assert {entry.what for entry in system.verify()[1]} <= self.traces

    def test_it_is_read_while_it_is_attached_and_never_else(self, system: System) -> None:
        feed = feed_of(system, self.source)
        before = captured(system.sources())
        [state] = [part.state for part in before.parts if part.reading.source == self.source]
        for _ in ("before it was attached", "after it was detached"):
            feed.detach()
            feed.detach()
            with pytest.raises(SourceUnavailable):
                feed.finish(MemoryChunks(), clock, state)
            feed.attach()
            assert feed.finish(MemoryChunks(), clock, state) == Seen(())
            feed.detach()

    def _walk(self, run: FeedRun, draw: random.Random, steps: int) -> None:
        """Changes in any order, each undone at some time or not, with a look in between."""
        is_made = dict.fromkeys(self.changes, False)
        for _ in range(steps):
            name = draw.choice(list(self.changes))
            change = self.changes[name]
            run.make(name, change, is_undone=is_made[name])
            is_made[name] = change.undo is not None and not is_made[name]
            if draw.random() < 0.25:
                run.check()


@dataclass
class FeedRun:
    """What happens to a system while its feed watches, as scans show it. A context manager."""

    system: System
    name: str
    steps: list[str] = field(default_factory=list)
    expected: list[str | None] = field(default_factory=list)
    """The digest after each commit; None between the commits of one change."""

    def __enter__(self) -> Self:
        self.feed = feed_of(self.system, self.name)
        self.store = MemoryChunks()
        self.feed.attach()
        try:
            self.before = self.scan()
        except BaseException:
            self.feed.detach()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.feed.detach()

    def scan(self) -> State:
        """What the source shows now, cut like the state before."""
        [source] = [source for source in self.system.sources() if source.name == self.name]
        read = source.read(self.store, clock, getattr(self, "before", None))
        assert read.reading.is_complete, read.reading.cause
        return read.state

    def make(self, name: str, change: Change, *, is_undone: bool = False) -> None:
        """The change is made, or undone, and the state that it leaves is known."""
        act = change.undo if is_undone and change.undo is not None else change.apply
        act(self.system)
        self.steps.append(f"not {name}" if act is change.undo else name)
        assert_settles(self.system, str(self))
        self.expected += [*[None] * (change.commits - 1), self.scan().digest()]

    def gap(self) -> str | None:
        """Why there may have been more than the feed shows, as it says itself."""
        try:
            return self.feed.finish(self.store, clock, self.before).gap
        except SourceUnavailable as error:
            return str(error)

    def check(self) -> Seen:
        """The feed shows the states that the scans showed, and ends in what a scan shows now."""
        seen = self.check_states()
        last = seen.transactions[-1].state if seen.transactions else self.before
        assert last.digest() == self.scan().digest(), f"{self}: it ends in another state"
        return seen

    def check_states(self) -> Seen:
        """The feed shows the states that the scans showed: all, each once, in their order."""
        try:
            seen = self.feed.finish(self.store, clock, self.before)
        except SourceUnavailable as error:
            raise AssertionError(f"{self}: it cannot be read: {error}") from error
        assert seen.gap is None, f"{self}: nothing was lost, and yet: {seen.gap}"
        told = seen.transactions
        assert len(told) == len(self.expected), f"{self}: {len(told)} transactions"
        for number, (transaction, digest) in enumerate(zip(told, self.expected, strict=True), 1):
            assert transaction.source == self.name, f"{self}: {number} is of another source"
            found = transaction.state.digest()
            assert digest in (None, found), f"{self}: the state after commit {number} is another"
        assert len({transaction.id for transaction in told}) == len(told), f"{self}: one id twice"
        return seen

    def __str__(self) -> str:
        return f"after {', '.join(self.steps) or 'nothing'}"


def feed_of(system: System, name: str) -> Feed:
    """The one feed of the source."""
    found = [feed for feed in system.feeds() if feed.source == name]
    assert len(found) == 1, f"{len(found)} feeds of {name}"
    return found[0]


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
        assert not any(table.enumeration.is_complete for table in part.state.tables.values())


class SandboxSuite:
    """A whole sandbox, however it is made."""

    ways: ClassVar[Mapping[str, SandboxWay]]

    @classmethod
    def make(cls, work: Path) -> Sandbox:
        """A sandbox that is not started yet."""
        raise NotImplementedError("say how the sandbox is made")

    @pytest.fixture(scope="class")
    @classmethod
    def running(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
        """The sandbox of all tests."""
        with cls.make(tmp_path_factory.mktemp("conformance") / "work") as made:
            yield made

    @pytest.fixture
    def sandbox(self, running: Sandbox) -> Sandbox:
        """The sandbox, started and put back."""
        running.start()
        running.reset()
        return running

    def test_a_reset_is_proven_for_every_system(self, sandbox: Sandbox) -> None:
        receipt = sandbox.verify(clock)
        assert receipt.ok, receipt.drift
        names = {source.name for source in sandbox.sources()}
        assert {proof.source for proof in receipt.proofs} <= names
        assert set(sandbox.access().urls) == {proof.source for proof in receipt.proofs}

    def test_every_way_is_drift_of_its_source_and_gone_after_a_reset(
        self, sandbox: Sandbox
    ) -> None:
        for name, way in self.ways.items():
            way.apply(sandbox)
            sandbox.settle(clock, SETTLE_SECONDS)
            receipt = sandbox.verify(clock)
            assert not receipt.ok, name
            assert way.source in {entry.source for entry in receipt.drift}, name
            sandbox.reset()
            assert sandbox.verify(clock).ok, name

    def test_the_agents_folder_is_empty_after_a_reset(self, sandbox: Sandbox) -> None:
        folder = sandbox.access().folder
        (folder / "left").write_text("by an earlier agent", encoding="utf-8")
        assert not sandbox.verify(clock).ok
        sandbox.reset()
        assert list(sandbox.access().folder.iterdir()) == []
        assert sandbox.verify(clock).ok

    def test_sources_are_sorted_and_all_are_read_at_rest(self, sandbox: Sandbox) -> None:
        settled = sandbox.settle(clock, SETTLE_SECONDS)
        assert settled.unsettled == ()
        names = [source.name for source in sandbox.sources()]
        assert names == sorted(names)
        assert all(reading.is_complete for reading in captured(sandbox.sources()).readings)

    def test_an_unplugged_source_is_unobserved_and_back_after_a_reset(
        self, sandbox: Sandbox
    ) -> None:
        for name in [source.name for source in sandbox.sources()]:
            before = captured(sandbox.sources())
            sandbox.unplug(name)
            after = {r.source: r for r in captured(sandbox.sources(), before).readings}
            assert not after[name].is_complete, name
            sandbox.reset()
            assert sandbox.verify(clock).ok, name

    def test_an_unknown_source_is_refused(self, sandbox: Sandbox) -> None:
        with pytest.raises(SandboxError):
            sandbox.unplug("no such source")

    def test_it_can_be_stopped_at_any_time_and_says_when_it_does_not_run(
        self, tmp_path: Path
    ) -> None:
        made = self.make(tmp_path / "work")
        made.stop()
        with pytest.raises(SandboxError):
            made.reset()
        made.start()
        made.stop()
        made.stop()
        with pytest.raises(SandboxError):
            made.verify(clock)


class ImporterSuite:
    """A format of recorded runs. The tests read copies of the sample, most of them damaged."""

    reader: ClassVar[str | Callable[[Path], Suite]]
    """The format by the name of its entry point, or the function that opens a folder."""
    sample: ClassVar[Path]
    """A small folder of the format, all of it sound, with at least two runs in every file."""
    labels: ClassVar[frozenset[str]] = LABELS
    """Members of a line that tell its verdict."""
    has_labels: ClassVar[bool] = True
    """Some run of the sample has a recorded verdict."""

    @classmethod
    def open(cls, folder: Path) -> Suite:
        """The folder, opened anew."""
        reader = cls.reader
        return open_suite(reader, folder) if isinstance(reader, str) else reader(folder)

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        """A copy of the sample."""
        made = tmp_path / "sample"
        shutil.copytree(self.sample, made, copy_function=shutil.copyfile)
        return made

    def test_every_line_of_the_sample_is_a_run_of_a_known_task(self) -> None:
        suite = self.open(self.sample)
        reader = type(self).reader
        assert not isinstance(reader, str) or suite.name == reader
        assert suite.files
        tasks = list(suite.tasks())
        assert tasks == sorted(set(tasks))
        outcomes = judge_all(suite)
        for outcome in outcomes:
            assert isinstance(outcome, Judged), f"line {outcome.number}: {outcome.why}"
            assert outcome.task in tasks
            assert not outcome.fault, f"{outcome.run_id}: {outcome.fault}"
        ids = [outcome.run_id for outcome in outcomes if isinstance(outcome, Judged)]
        assert len(ids) == 2 * len(set(ids)), "two runs have one id"  # in each of two modes

    def test_reading_again_gives_the_same_runs_in_whatever_order(self, folder: Path) -> None:
        first = judge_all(self.open(self.sample))
        suite = self.open(folder)
        assert judge_all(suite, backwards=True) == first
        assert judge_all(suite) == first, "a run's outcome depends on the runs before it"

    def test_nothing_in_the_folder_is_changed(self, folder: Path) -> None:
        before = fingerprint(folder)
        suite = self.open(folder)
        judge_all(suite)
        for task in suite.tasks():
            suite.half(task)
            suite.contract(task)
            suite.still(task)
            suite.minimal(task)
        assert fingerprint(folder) == before

    def test_a_damaged_line_is_reported_with_its_place_and_the_others_are_judged(
        self, folder: Path
    ) -> None:
        sound = judge_all(self.open(folder))
        places = []
        for file in self.open(folder).files:
            first, *rest = lines_of(file.path)
            damaged = [b"[1]", b"{}", b'{"a": 1, "a": 2}', b"\xff", first[: len(first) // 2]]
            too_long = b'{"a": "' + b"x" * MAX_LINE_BYTES + b'"}'
            write_lines(file.path, [first, *damaged, too_long, *rest])
            places += [(file.path.name, number) for number in range(2, 8)] * 2
        found = judge_all(self.open(folder))
        bad = [outcome for outcome in found if isinstance(outcome, BadLine)]
        assert sorted((line.file, line.number) for line in bad) == sorted(places)
        assert all(line.why for line in bad)
        assert [outcome for outcome in found if isinstance(outcome, Judged)] == sound

    def test_a_file_of_runs_that_breaks_off_is_reported_where_it_does(self, folder: Path) -> None:
        for file in self.open(folder).files:
            lines = lines_of(file.path)
            file.path.write_bytes(gzip.compress(b"\n".join(lines))[:-9])
            found = judge_file(self.open(folder), file.path, Mode.COMPAT)
            last = found[-1]
            assert isinstance(last, BadLine)
            assert (last.file, last.number) == (file.path.name, len(found))

    def test_a_member_of_any_other_shape_is_an_outcome_and_no_crash(self, folder: Path) -> None:
        for file in self.open(folder).files:
            first, *_ = lines_of(file.path)
            variants = list(misshapen(json.loads(first)))
            write_lines(file.path, [json.dumps(line).encode() for line in variants])
            suite = self.open(folder)
            for mode in Mode:
                assert len(judge_file(suite, file.path, mode)) == len(variants)

    def test_damage_to_any_other_file_is_reported_by_its_name(self, folder: Path) -> None:
        sound = judge_all(self.open(folder))
        runs = {file.path for file in self.open(folder).files}
        for path in sorted(set(folder.rglob("*")) - runs):
            if not path.is_file():
                continue
            whole = path.read_bytes()
            for damaged in damages(whole):
                path.write_bytes(damaged)
                found = complaints(self.open, folder, sound)
                assert all(path.name in why for why in found), f"{path.name} is damaged: {found}"
            path.write_bytes(whole)

    def test_a_folder_without_runs_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError):
            self.open(tmp_path)

    def test_no_judge_sees_a_recorded_verdict(self, folder: Path) -> None:
        suite = self.open(self.sample)
        has_labels = False
        for file in suite.files:
            for number, data in enumerate(lines_of(file.path), start=1):
                line = Line(file.path.name, number, data)
                run, labels = read_run(suite, file.domain, line)
                bare = Line(file.path.name, number, self.without_labels(data))
                assert read_run(suite, file.domain, bare)[0] == run, "a run holds its verdict"
                has_labels |= labels.compat is not None or labels.official is not None
        assert has_labels == self.has_labels
        sound = judge_all(suite)
        for change in (self.without_labels, self.with_verdicts_turned):
            for file in suite.files:
                lines = [change(line) for line in lines_of(file.path)]
                write_lines(folder / file.path.relative_to(self.sample), lines)
            found = judge_all(self.open(folder))
            assert [unlabelled(outcome) for outcome in found] == list(map(unlabelled, sound))
            if change == self.without_labels:
                assert {o.labels.compat for o in found if isinstance(o, Judged)} == {None}
                assert {o.labels.official for o in found if isinstance(o, Judged)} == {None}

    def test_runs_that_were_judged_are_not_kept(self, folder: Path) -> None:
        [file, *_] = self.open(folder).files
        first, *_ = lines_of(file.path)
        bulk = [
            Line(file.path.name, number, json.dumps({**json.loads(first), "bulk": text}).encode())
            for number, text in enumerate((f"{n} " * 16384 for n in range(100, 124)), start=1)
        ]
        suite = self.open(folder)

        def judge(line: Line) -> None:
            run, _ = read_run(suite, file.domain, line)
            suite.compat(run)
            suite.prepare(run)

        judge(bulk[0])  # what runs share is made
        tracemalloc.start()
        try:
            for line in bulk:
                judge(line)
            gc.collect()
            kept, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert kept < sum(len(line.data) for line in bulk) / 2, (
            "the reader keeps the runs it has read"
        )

    def test_a_run_that_does_nothing_matches_only_where_the_contract_says_so(self) -> None:
        suite = self.open(self.sample)
        for task in suite.tasks():
            trial = suite.still(task)
            is_match = verdict_of(trial) is Verdict.MATCH
            assert not is_match or trial.contract.content.noop, f"{task}: doing nothing is right"

    def test_the_least_run_passes_the_benchmarks_own_rules(self) -> None:
        suite = self.open(self.sample)
        for task in suite.tasks():
            run = suite.minimal(task)
            assert run is None or suite.compat(run).passes, f"{task}: {suite.compat(run).reasons}"

    @classmethod
    def without_labels(cls, line: bytes) -> bytes:
        """The line without a word on its verdict."""
        kept = without_labels(json.loads(line))
        return json.dumps({n: v for n, v in kept.items() if n not in cls.labels - LABELS}).encode()

    @classmethod
    def with_verdicts_turned(cls, line: bytes) -> bytes:
        """The line with every true and false among its labels the other way round."""
        tree = json.loads(line)
        return json.dumps(
            {n: turned(v) if n in cls.labels else v for n, v in tree.items()}
        ).encode()


def captured(sources: tuple[Source, ...], like: Capture | None = None) -> Capture:
    """What the sources show, cut like an earlier capture."""
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
    """Whether the system's look finds its base; one that cannot look proves nothing."""
    try:
        proof, drift = system.verify()
    except SandboxError:
        return False
    return not drift and proof.expected == proof.found


def judge_all(suite: Suite, *, backwards: bool = False) -> list[Outcome]:
    """Every run under both modes, in the order of files and lines, whichever is judged first."""
    outcomes: list[Outcome] = []
    for mode in Mode:
        pieces = [
            Chunk(domain, [line], Wanted(mode))
            for domain, lines in chunks(suite, None)
            for line in lines
        ]
        order = -1 if backwards else 1
        found = [judged_chunk(suite, piece) for piece in pieces[::order]][::order]
        outcomes += [outcome for each in found for outcome in each]
    return outcomes


def judge_file(suite: Suite, path: Path, mode: Mode) -> list[Outcome]:
    """Every run of one file, in order."""
    [domain] = [file.domain for file in suite.files if file.path == path]
    return judged_chunk(suite, Chunk(domain, list(read_lines(path)), Wanted(mode)))


def verdict_of(trial: Prepared) -> Verdict:
    """The trial, judged under its contract."""
    return evaluate(
        trial.contract, trial.before, trial.after, trace=trial.trace, answer=trial.answer
    ).judgement.verdict


def fingerprint(folder: Path) -> list[tuple[str, int, int, bytes]]:
    """Path, mode, instant of change and content of all in the folder."""
    return [
        (
            path.relative_to(folder).as_posix(),
            path.stat().st_mode,
            path.stat().st_mtime_ns,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in sorted([folder, *folder.rglob("*")])
    ]


def lines_of(path: Path) -> list[bytes]:
    """The lines of a sound file of runs."""
    return [line.data for line in read_lines(path) if isinstance(line, Line)]


def write_lines(path: Path, lines: Iterable[bytes]) -> None:
    """The file holds these lines, gzipped if it was."""
    content = b"\n".join(lines) + b"\n"
    is_gzip = path.read_bytes()[:2] == GZIP
    path.write_bytes(gzip.compress(content, 1) if is_gzip else content)


def damages(whole: bytes) -> Iterator[bytes]:
    """The file cut off in the middle; a gzip also around a content that is."""
    yield whole[: len(whole) // 2]
    if whole[:2] == GZIP:
        content = gzip.decompress(whole)
        yield gzip.compress(content[: len(content) // 2])


def misshapen(tree: dict[str, Any], depth: int = 2) -> Iterator[dict[str, Any]]:
    """The object with each member, and each of theirs, gone or something else."""
    for name, value in tree.items():
        yield {other: kept for other, kept in tree.items() if other != name}
        for odd in (None, "x", [5], {"x": 5}):
            yield {**tree, name: odd}
        if isinstance(value, dict) and depth > 1:
            for inside in misshapen(value, depth - 1):
                yield {**tree, name: inside}


def turned(tree: Any) -> Any:
    """The JSON value with true for false and false for true."""
    if isinstance(tree, dict):
        return {name: turned(value) for name, value in tree.items()}
    if isinstance(tree, list):
        return [turned(value) for value in tree]
    return not tree if isinstance(tree, bool) else tree


def complaints(
    open_cases: Callable[[Path], Suite], folder: Path, sound: Sequence[Outcome]
) -> list[str]:
    """What a damaged folder's error says, or each outcome that is not as in the sound folder."""
    try:
        found = judge_all(open_cases(folder))
    except StatediffError as error:
        return [str(error)]
    return [
        outcome.why if isinstance(outcome, BadLine) else outcome.fault
        for outcome, other in zip(found, sound, strict=True)
        if outcome != other
    ]


def unlabelled(outcome: Outcome) -> Outcome:
    """The outcome without what others said of the run."""
    return outcome if isinstance(outcome, BadLine) else replace(outcome, labels=Labels())
