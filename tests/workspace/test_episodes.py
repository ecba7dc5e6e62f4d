"""Attempts at a run's scheduled trials: one counts, and what became of each is recorded."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from statediff.agents.trial import AgentRun
from statediff.capture.take import take
from statediff.contract.file import load_contract
from statediff.errors import StatediffError, UsageError
from statediff.model.readings import Capture
from statediff.suite.campaign import POOL
from statediff.suite.records import Attempt, Ended, FaultKind, read_attempt
from statediff.workspace.agents import AgentOptions
from statediff.workspace.campaigns import Entry, campaign
from statediff.workspace.episodes import Episode, find_played, lose, play
from statediff.workspace.trials import forget
from tests.cli.conftest import Call

AGENT = "def nothing(trial):\n    return None\n"


@pytest.fixture
def episode(statediff: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Episode]:
    """The next attempt at the one trial of a run, which has a verdict."""
    (tmp_path / "an_idle_agent.py").write_text(AGENT)
    monkeypatch.syspath_prepend(str(tmp_path))
    contract = tmp_path / "c.yaml"
    contract.write_text(
        "contract: t/idle\nversion: 1.0.0\nowner: t\nintent: Write once to Ada.\nsandbox: shop\n"
        'require:\n  - id: told\n    create: message\n    where: it.to == "ada@example.org"\n'
    )
    options = AgentOptions(named="an_idle_agent:nothing")
    assert statediff("run", "c.yaml", "--agent", options.named or "", "--json").code == 1
    [folder] = (tmp_path / "runs").glob("run-*")
    made = campaign(folder, [Entry(contract, load_contract(contract))], [options])
    [planned] = made.planned.values()
    place = folder / "trials" / planned.name
    assert (place / "bundle").is_dir()
    record = made.episode(planned, is_retried=False, max_cost=None)
    assert not place.exists(), "it is set aside"
    forget()
    yield record
    assert POOL.close()


def refuse(error: Exception) -> None:
    raise error


def test_a_trial_has_one_attempt_that_counts_whoever_comes_second(episode: Episode) -> None:
    assert find_played(episode) is None
    first = play(refuse, episode)
    assert (first.verdict, first.is_new, first.record.attempts) == (Ended.DIVERGE, True, 2)
    again = play(refuse, replace(episode, attempt=7))
    assert (again.verdict, again.is_new, again.record.attempts) == (Ended.DIVERGE, False, 2)
    folder = episode.run / "trials" / episode.planned.name
    assert read_attempt(folder) == Attempt(number=2)
    assert (folder / "report.html").is_file()


def test_what_failed_around_the_agent_is_recorded_and_gives_way_to_a_verdict(
    episode: Episode,
) -> None:
    chunks = episode.run / "chunks"
    chunks.rename(chunks.with_name("away"))
    chunks.write_bytes(b"no folder")
    failed = play(refuse, episode)
    assert (failed.verdict, failed.record.cause) == (None, "storage")
    folder = episode.run / "trials" / episode.planned.name
    assert read_attempt(folder).fault is FaultKind.STORAGE
    assert failed.fault in (folder / "fault.txt").read_text()
    chunks.unlink()
    chunks.with_name("away").rename(chunks)
    assert play(refuse, episode).verdict is Ended.DIVERGE
    assert read_attempt(folder).fault is None


class Broken:
    """An adapter of somebody else's, with an error of no name."""

    name = "broken"

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def run(self, _trial: object, _clock: object) -> AgentRun:
        raise self.error


@pytest.mark.parametrize("error", [MemoryError(), KeyError("a bug"), SystemExit(3)], ids=repr)
def test_an_agent_that_cannot_be_followed_is_not_blamed_for_what_it_lacks(
    episode: Episode, error: BaseException
) -> None:
    failed = play(refuse, replace(episode, request=replace(episode.request, agent=Broken(error))))
    assert (failed.verdict, failed.record.cause) == (None, "environment")
    assert type(error).__name__ in failed.fault
    folder = episode.run / "trials" / episode.planned.name
    assert read_attempt(folder).fault is FaultKind.ENVIRONMENT
    assert play(refuse, episode).verdict is Ended.DIVERGE


def test_a_page_that_cannot_be_written_takes_no_verdict_away(
    episode: Episode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> str:
        raise RuntimeError("no page")

    monkeypatch.setattr("statediff.reports.html.trial_html", fail)
    told: list[Exception] = []
    assert play(told.append, episode).verdict is Ended.DIVERGE
    assert [str(each) for each in told] == ["no page"]


def test_a_run_goes_on_after_a_trial_that_fails_in_no_foreseen_way(
    statediff: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def capture(*arguments: Any, **named: Any) -> Capture:
        calls.append(1)
        if len(calls) == 1:
            raise MemoryError
        return take(*arguments, **named)

    monkeypatch.setattr("statediff.harness.take", capture)
    command = ("run", "shop/notify-once", "--agent", "careful", "-k", "2", "--resume", "--json")
    made = statediff(*command)
    assert made.code == 4
    first, second = (json.loads(line) for line in made.out.splitlines()[:2])
    assert (first["verdict"], first["cause"]) == (None, "unforeseen")
    assert second["verdict"] == "MATCH"
    again = statediff(*command)
    assert (again.code, len(calls)) == (0, 3), "only the trial without a verdict is made again"


def test_an_attempt_whose_worker_ended_is_known_as_such(episode: Episode) -> None:
    ended = lose(episode, StatediffError("gone"))
    assert (ended.verdict, ended.record.cause) == (None, "worker-lost")


def test_a_contract_that_was_changed_since_makes_no_trial(episode: Episode) -> None:
    path = episode.request.contract
    assert isinstance(path, Path)
    path.write_text(path.read_text().replace("Ada", "Bo"))
    with pytest.raises(UsageError, match="has changed since the run was begun"):
        play(refuse, episode)
    assert not (episode.run / "trials" / episode.planned.name).exists()
