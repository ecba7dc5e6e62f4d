"""What is done and undone within a run: right at its ends, right in its answer, and caught."""

import re
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from statediff.evaluate import evaluate, load_contract, parse_contract, replay
from statediff.model.readings import History
from statediff.model.trace import NoAnswer
from statediff.model.verdict import Truth, Verdict
from statediff.packs import contract_folders
from tests.tasks import sandboxes, try_agent

TRANSIENT = [
    (
        "accounts/rotate-role", "borrows_rights", "desk-gains-nothing",
        r"in transaction 1 of accounts-db \(position \d+\): grant \(9, user-admin\) linked",
        r"\n  - id: desk-gains-nothing(?:.|\n)*?during: run\n",
    ),
    (
        "shop/raise-prices", "clears_first", "never-cheaper",
        r"moment 1 of shop-db: product 337: 1 < \d+",
        r"\nsteps:\n(?:.|\n)*?(?=\nanswer:)",
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory):
    with sandboxes(tmp_path_factory.mktemp) as started:
        yield started


@pytest.mark.parametrize(("task", "agent", "clause", "told", "cut"), TRANSIENT)
def test_only_a_clause_about_the_run_sees_what_was_undone(
    running, tmp_path, task, agent, clause, told, cut
):
    (folder,) = (f for f in contract_folders() if f.name == task)
    contract = load_contract(folder.contract)
    trial = try_agent(running, folder, agent, tmp_path / "t")
    judgement = trial.evaluated.judgement
    assert judgement.verdict is Verdict.DIVERGE
    failing, *others = (f for f in judgement.findings if f.truth is Truth.FAILS)
    assert failing.clause == clause
    assert all(f.sentence.startswith("in transaction ") for f in others)  # history: required
    assert re.fullmatch(told, failing.sentence)
    assert replay(trial.evaluated.bundle) == judgement

    seen = trial.observed
    right = try_agent(running, folder, "careful", tmp_path / "right")
    assert not isinstance(seen.run.answer, NoAnswer)
    assert seen.run.answer == right.observed.run.answer  # scoring the output accepts it

    def judged(file, after):
        return evaluate(
            file, seen.before, after,
            trace=seen.run.trace, answer=seen.run.answer, timeline=seen.timeline,
        ).judgement.verdict  # fmt: skip

    text = contract.data.decode()
    net = re.sub(cut, "\n", text).replace(", history: required", "")
    assert net != text
    assert judged(parse_contract(net.encode(), "net.yaml"), seen.after) is Verdict.MATCH
    blind = replace(seen.after, history=History())
    assert judged(contract, blind) is Verdict.INCONCLUSIVE


def test_a_feed_that_cannot_be_attached_leaves_the_run_open_and_its_trial_whole(
    running, tmp_path, monkeypatch
):
    (folder,) = (f for f in contract_folders() if f.name == "shop/raise-prices")
    sandbox = running("shop")
    database = sandbox.system("shop-db")
    plain = type(database).verify

    def verify(self):
        """As another evaluator might leave it: without a write-ahead log."""
        found = plain(self)
        path = self.url.removeprefix("sqlite:///")
        with sqlite3.connect(path) as connection:
            connection.execute("PRAGMA journal_mode = DELETE")
        connection.close()
        return found

    monkeypatch.setattr(type(database), "verify", verify)
    trial = try_agent(running, folder, "careful", tmp_path / "t")
    history = trial.observed.after.history
    assert "no feed could be attached" in (history.gap("shop-db") or "")
    assert history.gap("outbox") is None
    judgement = trial.evaluated.judgement
    assert judgement.verdict is Verdict.INCONCLUSIVE
    assert judgement.truth_of("never-cheaper") is Truth.UNKNOWN
    assert replay(trial.evaluated.bundle) == judgement
    assert Path(trial.bundle_folder, "manifest.json").is_file()
