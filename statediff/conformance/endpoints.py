"""The duties of a reader of a running service: one that nobody here started or resets."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, Final, NamedTuple

import pytest

from statediff.capture.source import SourceUnavailable, clock
from statediff.capture.take import take
from statediff.contract.file import load_contract
from statediff.kernel import TrialFacts, comparison, evaluate
from statediff.model.codes import FindingCode
from statediff.model.readings import Capture
from statediff.model.state import MemoryChunks
from statediff.model.verdict import Judgement, Verdict
from statediff.systems.base.live import LiveSource
from statediff.systems.base.plugin import StateInput
from statediff.systems.base.registry import open_state, state_url_reader

START_SECONDS: Final = 120.0


class Watched(NamedTuple):
    """Two captures of a service, and what was done between them."""

    before: Capture
    after: Capture

    @property
    def changes(self) -> int:
        """How many changes there are; nothing may be unknown."""
        found = comparison(self.before, self.after).diff
        assert not found.doubts, found.doubts
        return len(found.deltas)

    def judged(self, contract: Path) -> Judgement:
        """The judgement under a contract of the state `service`."""
        facts = TrialFacts("trial")
        return evaluate(load_contract(contract), self.before, self.after, facts=facts).judgement


def watched(url: str, act: Callable[[], object]) -> Watched:
    """The changes that an act makes to the service at the URL, read as `watch` reads them."""
    place = StateInput(Path(), url, url=url)
    source, store = LiveSource("service", state_url_reader(url), lambda: place), MemoryChunks()
    before = take([source], store, clock, None, "before")
    act()
    return Watched(before, take([source], store, clock, before, "after"))


def free_port() -> int:
    """A port of this machine at which nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def serving(command: Sequence[str], port: int, folder: Path) -> Iterator[int]:
    """A server that listens at the port, started in the folder and ended with the block."""
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + START_SECONDS
        while server.poll() is None and time.monotonic() < deadline:
            with socket.socket() as asked:
                if asked.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        assert server.poll() is None, (folder / "server.log").read_text()[-2000:]
        yield port
    finally:
        server.terminate()
        server.wait()


class EndpointSuite:
    """A service at a URL: captured, changed by its own client, captured again, and judged.

    The class has a fixture `url`, of a service that was started as its own documentation says.
    """

    contract: ClassVar[str]
    """A contract that asks for what `right` does, of the state `service`."""
    gone: ClassVar[str]
    """A URL of the same kind at which nothing answers."""

    def right(self, url: str) -> None:
        """Do what the contract asks for, by the service's own client."""
        raise NotImplementedError

    def more(self, url: str) -> None:
        """One more change, which the contract does not allow."""
        raise NotImplementedError

    def ways(self, url: str) -> Mapping[str, Callable[[], object]]:
        """Further changes by the service's own client, each of which has to be seen."""
        raise NotImplementedError

    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        """The contract as a file."""
        path = tmp_path / "contract.yaml"
        path.write_text(self.contract)
        return path

    def test_reading_is_whole_and_changes_nothing(self, url: str) -> None:
        done = watched(url, lambda: None)
        for part in (*done.before.parts, *done.after.parts):
            assert part.reading.is_complete, part.reading.cause
            assert any(table.row_count for table in part.state.tables.values())
        assert done.changes == 0

    def test_the_right_change_matches_and_one_more_diverges(self, url: str, file: Path) -> None:
        nothing = watched(url, lambda: None).judged(file)
        assert nothing.verdict is Verdict.DIVERGE  # what is required was not done
        right = watched(url, lambda: self.right(url)).judged(file)
        assert right.verdict is Verdict.MATCH, right.findings
        more = watched(url, lambda: self.more(url)).judged(file)
        assert more.verdict is Verdict.DIVERGE
        codes = {each.code.value for each in more.findings}
        assert FindingCode.UNEXPLAINED_CHANGE in codes, more.findings

    def test_every_way_is_seen(self, url: str) -> None:
        for name, way in self.ways(url).items():
            assert watched(url, way).changes, name

    def test_where_nothing_answers_nothing_is_known(self) -> None:
        place = StateInput(Path(), self.gone, url=self.gone)
        source = open_state(state_url_reader(self.gone), "service", place, None)
        with pytest.raises(SourceUnavailable):
            source.read(MemoryChunks(), clock, None)
