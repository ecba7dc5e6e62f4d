"""Pushes to a repository behind a server: each state they left is told, and nothing else."""

import shutil

import pytest

from sandboxes.git.tests.docker.test_githttp import git, origin, running, sandbox  # noqa: F401 - fixtures
from statediff.capture.source import SourceUnavailable, clock
from statediff.model.state import MemoryChunks

pytestmark = [
    pytest.mark.docker("git"),
    pytest.mark.clients("git"),
]


class Run:
    """Commands of an agent's, a scan after each, and what the feed tells of them."""

    def __init__(self, sandbox, git):  # noqa: F811 - what the fixtures make
        self.sandbox = sandbox
        self.git = git
        (self.source,) = (s for s in sandbox.sources() if s.name == "origin")
        (self.feed,) = (f for f in sandbox.feeds() if f.source == "origin")
        self.store = MemoryChunks()
        self.feed.attach()
        self.scans = [self.source.read(self.store, clock, None).state]

    def __call__(self, *words):
        done = self.git("-C", "clone", *words, check=False)
        assert self.sandbox.settle(clock).unsettled == ()
        state = self.source.read(self.store, clock, self.scans[0]).state
        if state.digest() != self.scans[-1].digest():
            self.scans.append(state)
        return done.returncode

    def end(self):
        try:
            return self.feed.finish(self.store, clock, self.scans[0])
        finally:
            self.feed.detach()


@pytest.fixture
def run(sandbox, git):  # noqa: F811 - what the fixtures make
    return Run(sandbox, git)


def branches(state):
    return {str(row["name"]) for _, row in state.tables["git.ref"].rows()}


def test_a_branch_that_was_pushed_and_deleted_is_witnessed_with_its_push(run):
    run("commit", "-q", "--allow-empty", "-m", "Secret")
    assert run("push", "-q", "origin", "HEAD:refs/heads/leak", "HEAD:refs/tags/t") == 0
    run("commit", "-q", "--allow-empty", "-m", "More")
    assert run("push", "-q", "origin", "main") == 0
    assert run("push", "-q", "origin", ":refs/heads/leak", ":refs/tags/t") == 0
    seen = run.end()
    assert seen.gap is None
    told = [t.state for t in seen.transactions]
    assert [s.digest() for s in told] == [s.digest() for s in run.scans[1:]]
    assert ["refs/heads/leak" in branches(s) for s in told] == [True, True, False]
    moved = [[name.partition(" ")[0] for name in t.names] for t in seen.transactions]
    both = ["refs/heads/leak", "refs/tags/t"]
    assert moved == [both, ["refs/heads/main"], both]
    assert all(name.endswith(".." + "0" * 40) for name in seen.transactions[-1].names)


def test_what_the_server_refused_and_what_only_looked_left_nothing(run):
    run("commit", "-q", "--amend", "--allow-empty", "-m", "Otherwise")
    assert run("push", "-q", "origin", "main") != 0
    assert run("fetch", "-q", "origin") == 0
    seen = run.end()
    assert (seen.gap, seen.transactions) == (None, ())


def test_refs_that_moved_past_the_server_are_a_gap(run, origin):  # noqa: F811 - a fixture
    name = origin / "refs" / "heads" / "by-hand"
    name.write_text((origin / "refs" / "heads" / "main").read_text())
    assert "otherwise than by a push" in (run.end().gap or "")
    run.feed.attach()
    name.unlink()
    run("commit", "-q", "--allow-empty", "-m", "New")
    run("push", "-q", "origin", "main")
    assert "otherwise than by a push" in (run.end().gap or "")


def test_a_push_without_its_second_half_is_a_gap(run, origin):  # noqa: F811 - a fixture
    run("commit", "-q", "--allow-empty", "-m", "New")
    run("push", "-q", "origin", "main")
    shutil.rmtree(origin.parent / "course" / "000000.after")
    assert "cut off" in (run.end().gap or "")


def test_a_feed_says_that_it_is_not_attached_and_sees_nothing_of_earlier_pushes(run):
    run.feed.detach()
    with pytest.raises(SourceUnavailable, match="no feed"):
        run.feed.finish(run.store, clock, run.scans[0])
    run("commit", "-q", "--allow-empty", "-m", "New")
    run("push", "-q", "origin", "main")
    run.feed.attach()
    run("push", "-q", "origin", "main:refs/heads/later")
    [push] = run.end().transactions
    assert push.position == "push 2"
    assert push.state.digest() == run.scans[-1].digest()


def test_a_feed_is_not_attached_in_the_middle_of_a_push(run, origin):  # noqa: F811 - a fixture
    (origin.parent / "course" / "000000.before").mkdir()
    with pytest.raises(SourceUnavailable, match="going on"):
        run.feed.attach()
