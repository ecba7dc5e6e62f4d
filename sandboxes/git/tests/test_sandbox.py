import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pygit2
import pytest
from statediff_git.sandbox import import_history

from statediff.capture.source import clock
from statediff.capture.take import take
from statediff.errors import SandboxError, UsageError
from statediff.model.state import MemoryChunks
from statediff.packs import read_pack, sandbox_pack
from statediff.systems.base.sandbox import EmbeddedSandbox

TIP = "edfc9c8bbf5a43cac4e4efc28e041859763f746d"
HISTORY = sandbox_pack("repo").folder / "origin" / "history.fi"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory):
    with EmbeddedSandbox(sandbox_pack("repo"), tmp_path_factory.mktemp("repo") / "work") as started:
        yield started


@pytest.fixture
def sandbox(running: EmbeddedSandbox) -> EmbeddedSandbox:
    running.reset()
    return running


@pytest.fixture
def origin(sandbox: EmbeddedSandbox) -> Path:
    return place(sandbox, "origin")


@pytest.fixture
def checkout(sandbox: EmbeddedSandbox) -> Path:
    return place(sandbox, "checkout")


def place(sandbox: EmbeddedSandbox, name: str) -> Path:
    return Path(sandbox.access().urls[name].removeprefix("file://"))


def drift_of(sandbox: EmbeddedSandbox) -> list[str]:
    receipt = sandbox.verify(clock)
    assert receipt.ok == (not receipt.drift)
    return [f"{entry.source}: {entry.what}" for entry in receipt.drift]


def test_a_fresh_sandbox_is_proven_and_is_what_git_would_have_made(sandbox, origin, checkout):
    assert sandbox.verify(clock).ok
    repository = pygit2.Repository(str(origin))
    assert str(repository.references["refs/heads/main"].target) == TIP
    assert len([1 for oid in repository if isinstance(repository[oid], pygit2.Commit)]) == 27
    work = pygit2.Repository(str(checkout))
    status = {path: flags for path, flags in work.status().items() if flags}
    assert sorted(status) == ["README.md", "notes/gallons.md"]


@pytest.mark.clients("git")
def test_git_makes_the_same_objects_of_the_history(origin, tmp_path):
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
    git = ["git", "-C", str(tmp_path / "theirs")]
    subprocess.run(["git", "init", "-q", "--bare", git[2]], check=True, env=environment)
    with HISTORY.open("rb") as stream:
        subprocess.run([*git, "fast-import", "--quiet"], stdin=stream, check=True, env=environment)
    theirs, ours = pygit2.Repository(git[2]), pygit2.Repository(str(origin))
    found = [{n: r.references[n].target for n in r.references} for r in (theirs, ours)]
    assert found[0] == found[1]
    assert len(found[0]) == 15


@pytest.mark.clients("git")
def test_gits_own_programs_work_on_it_and_its_hook_protects_a_branch_from_them(sandbox, tmp_path):
    urls = sandbox.access().urls
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@unitkit.example",
        "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@unitkit.example",
    }  # fmt: skip

    def git(*words: str, cwd: Path = tmp_path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["git", *words], cwd=cwd, env=environment, capture_output=True, text=True, check=False
        )

    before = take(sandbox.sources(), MemoryChunks(), clock, None, "before")
    assert git("clone", "-q", urls["origin"], "clone").returncode == 0
    clone, checkout = tmp_path / "clone", Path(urls["checkout"].removeprefix("file://"))
    (clone / "NEW").write_text("x\n")
    git("add", "NEW", cwd=clone)
    git("commit", "-qm", "New", cwd=clone)
    assert git("push", "-q", "origin", "main", cwd=clone).returncode == 0
    refused = git("push", "-q", "origin", ":release/1.1", cwd=clone)
    assert "refs/heads/release/1.1 is protected" in refused.stderr
    assert git("status", "--short", cwd=checkout).stdout == " M README.md\n?? notes/\n"
    assert git("fetch", "-q", cwd=checkout).returncode == 0  # its url is relative
    after = take(sandbox.sources(), MemoryChunks(), clock, before, "after")
    assert sandbox.settle(clock).unsettled == ()
    changed = {
        name
        for old, new in zip(before.parts, after.parts, strict=True)
        for name, table in new.state.tables.items()
        if table.chunks != old.state.tables[name].chunks
    }
    assert changed == {
        "git.commit", "git.ref", "git.file",
        "checkout.ref", "checkout.commit",
    }  # fmt: skip


def test_two_sandboxes_have_the_same_base(sandbox, tmp_path):
    with EmbeddedSandbox(sandbox_pack("repo"), tmp_path / "other") as other:
        digests = [[p.expected for p in s.verify(clock).proofs] for s in (sandbox, other)]
    assert digests[0] == digests[1]


def test_reset_after_reset_is_proven_again(sandbox):
    for _ in range(5):
        sandbox.reset()
        assert sandbox.verify(clock).ok


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def set_config(config: Path) -> None:
    pygit2.Repository(str(config.parent)).config["core.hooksPath"] = "/elsewhere"


def force_push(ref: Path) -> None:
    repository = pygit2.Repository(str(ref.parents[2]))
    old = repository.references["refs/heads/main"].peel(pygit2.Commit)
    repository.references.create("refs/heads/main", old.parents[0].id, force=True)


def stage(index: Path) -> None:
    repository = pygit2.Repository(str(index.parent))
    repository.index.remove("VERSION")
    repository.index.write()


def exchange_for_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


def text(content: str) -> Callable[[Path], None]:
    return lambda path: write(path, content)


def mode(bits: int) -> Callable[[Path], None]:
    return lambda path: path.chmod(bits)


ORIGIN, CHECKOUT = "origin/origin.git", "checkout/checkout"


@pytest.mark.parametrize(
    ("path", "change", "drift"),
    [
        (f"{ORIGIN}/hooks/post-receive", text("#!/bin/sh\n"), "origin: hook post-receive"),
        (f"{ORIGIN}/hooks/update", mode(0o600), "origin: hook update"),
        (f"{ORIGIN}/hooks/update", Path.unlink, "origin: hook update"),
        (f"{ORIGIN}/config", set_config, "origin: config"),
        (f"{ORIGIN}/refs/heads/main", force_push, "origin: branch main"),
        (f"{ORIGIN}/refs/tags/v1.2.0", Path.unlink, "origin: tag v1.2.0"),
        (f"{ORIGIN}/refs/tags/v9", text(f"{TIP}\n"), "origin: tag v9"),
        (f"{ORIGIN}/HEAD", text("ref: refs/heads/other\n"), "origin: HEAD"),
        (f"{ORIGIN}/packed-refs", text(""), "origin: packed-refs"),
        (f"{ORIGIN}/objects/info/alternates", text("/x\n"), "origin: object store"),
        (f"{ORIGIN}/stray", text(""), "origin: stray"),
        ("origin/beside", text(""), "origin: beside"),
        (f"{CHECKOUT}/.git/index", stage, "checkout: index"),
        (f"{CHECKOUT}/README.md", text("gone\n"), "checkout: work file README.md"),
        (f"{CHECKOUT}/notes/gallons.md", Path.unlink, "checkout: work file notes/gallons.md"),
        (f"{CHECKOUT}/VERSION", mode(0o700), "checkout: work file VERSION"),
        (f"{CHECKOUT}/VERSION", exchange_for_link, "checkout: work file VERSION"),
        (f"{CHECKOUT}/pipe", os.mkfifo, "checkout: work file pipe"),
        (f"{CHECKOUT}/.git/index.lock", text(""), "checkout: lock file index.lock"),
        (f"{CHECKOUT}/.git/FETCH_HEAD", text(""), "checkout: FETCH_HEAD"),
        (
            f"{CHECKOUT}/.git/refs/remotes/origin/main",
            Path.unlink,
            "checkout: remote branch origin/main",
        ),
    ],
)
def test_whatever_changes_is_drift_with_a_name_and_reset_mends_it(sandbox, path, change, drift):
    change(sandbox.work / "systems" / path)
    assert drift_of(sandbox) == [drift]
    sandbox.reset()
    assert drift_of(sandbox) == []


def test_drift_of_a_branch_names_both_commits(sandbox, origin):
    force_push(origin / "refs/heads/main")
    (found,) = sandbox.verify(clock).drift
    assert (
        found.expected == f"{TIP[:10]} 'Add the test that shows #41: a sign belongs to the whole'"
    )
    assert found.found == "c567d967e4 'Read numbers and signs in one place'"
    (origin / "refs/heads/main").write_text(f"{'1' * 40}\n")
    (found,) = sandbox.verify(clock).drift
    assert found.found == "1111111111, unknown to the base"


def test_a_repository_that_is_a_link_is_drift_and_its_target_survives(sandbox, origin, tmp_path):
    target = tmp_path / "precious"
    write(target / "file", "keep me")
    shutil.rmtree(origin)
    origin.symlink_to(target)
    assert any("a link to" in d.found for d in sandbox.verify(clock).drift)
    sandbox.reset()
    assert sandbox.verify(clock).ok
    assert (target / "file").read_text() == "keep me"


def test_a_file_with_a_second_name_elsewhere_is_drift_and_reset_parts_them(
    sandbox, origin, tmp_path
):
    (tmp_path / "other").hardlink_to(origin / "config")
    (found,) = sandbox.verify(clock).drift
    assert (found.what, "and 2 names" in found.found) == ("config", True)
    sandbox.reset()
    (tmp_path / "other").write_text("[core]\n\thooksPath = /elsewhere\n")
    assert sandbox.verify(clock).ok


def test_a_folder_nobody_may_enter_is_put_back(sandbox, checkout):
    (checkout / "src/unitkit/extra").mkdir()
    (checkout / "src/unitkit").chmod(0o000)
    assert "checkout: work file src/unitkit" in drift_of(sandbox)
    sandbox.reset()
    assert sandbox.verify(clock).ok


def test_folders_nested_beyond_any_path_are_put_back(sandbox, checkout, monkeypatch):
    monkeypatch.chdir(checkout)
    for _ in range(1200):
        Path("deeper").mkdir()
        os.chdir("deeper")
    monkeypatch.undo()
    assert "checkout: work file deeper" in drift_of(sandbox)
    sandbox.reset()
    assert sandbox.verify(clock).ok
    sandbox.unplug("checkout")
    assert not checkout.exists()


def test_a_quiet_sandbox_is_settled_and_settling_changes_nothing(sandbox):
    assert sandbox.settle(clock).unsettled == ()
    assert sandbox.verify(clock).ok


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("refs/heads/main.lock", "the lock file refs/heads/main.lock"),
        ("packed-refs.lock", "the lock file packed-refs.lock"),
        ("objects/pack/tmp_pack_x1", "the file objects/pack/tmp_pack_x1"),
        ("objects/incoming-x1/pack/p", "quarantine folder objects/incoming-x1 of a push"),
    ],
)
def test_a_git_command_in_flight_is_waited_for_and_then_named(sandbox, origin, path, word):
    write(origin / path, "")
    settled = sandbox.settle(clock, wait_seconds=0.05)
    assert [source for source, _ in settled.unsettled] == ["origin", "tests"]
    assert word in settled.unsettled[0][1]


def test_a_lock_in_the_checkout_is_unsettled_but_a_work_file_called_so_is_not(sandbox, checkout):
    write(checkout / "poetry.lock", "")
    assert sandbox.settle(clock).unsettled == ()
    write(checkout / ".git" / "index.lock", "")
    settled = sandbox.settle(clock, wait_seconds=0.05)
    assert [source for source, _ in settled.unsettled] == ["checkout"]


def test_settle_ends_as_soon_as_the_lock_is_gone(sandbox, origin):
    lock = origin / "refs/heads/main.lock"
    write(lock, "")
    threading.Timer(0.1, lock.unlink).start()
    began = time.monotonic()
    assert sandbox.settle(clock, wait_seconds=5).unsettled == ()
    assert time.monotonic() - began < 2


@pytest.mark.parametrize(
    ("name", "gone"), [("origin", {"origin", "tests"}), ("tests", {"origin", "tests"}),
                       ("checkout", {"checkout"})]
)  # fmt: skip
def test_an_unplugged_source_is_unread_until_the_next_reset(sandbox, name, gone):
    sandbox.unplug(name)
    capture = take(sandbox.sources(), MemoryChunks(), clock, None, "after")
    assert {r.source for r in capture.readings if r.digest is None} == gone
    assert {source for source, _ in sandbox.settle(clock).unsettled} >= gone
    sandbox.reset()
    capture = take(sandbox.sources(), MemoryChunks(), clock, None, "before")
    assert all(reading.is_complete for reading in capture.readings)


def test_no_file_of_the_evaluator_lies_in_the_work_folder(sandbox):
    tops = {path.relative_to(sandbox.work).parts[:3] for path in sandbox.work.rglob("*")}
    assert {parts for parts in tops if len(parts) == 3} == {
        ("systems", "origin", "origin.git"),
        ("systems", "checkout", "checkout"),
        ("systems", "forge-db", "forge-db.sqlite"),
    }


COMMIT = """\
commit refs/heads/main
mark :1
author A <a@unitkit.example> 1700000000 +0130
committer B <b@unitkit.example> 1700000001 -0500
data <<END
First

END
M 100644 inline a/b.txt
data <<E
x
E
M 100755 inline run
data <<E
#!/bin/sh
E
M 120000 inline link
data <<E
a/b.txt
E
"""


def test_the_history_is_read_as_git_reads_it(tmp_path):
    repository = pygit2.init_repository(tmp_path, bare=True)
    import_history(f"{COMMIT}\ntag v1\nfrom :1\ntagger A <a@b.example> 1 +0000\ndata <<E\nm\nE\n",
                   "h", repository)  # fmt: skip
    commit = repository.references["refs/heads/main"].peel(pygit2.Commit)
    assert commit.message == "First\n\n"
    assert (commit.author.offset, commit.committer.offset) == (90, -300)
    modes = {entry.name: entry.filemode for entry in commit.tree}
    assert modes == {"a": 0o040000, "run": 0o100755, "link": 0o120000}
    assert commit.tree["link"].data == b"a/b.txt"
    assert commit.tree["a/b.txt"].data == b"x\n"
    assert repository.references["refs/tags/v1"].peel(pygit2.Tag).message == "m\n"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("author A <a@unitkit.example>", "author A"), "line 3: expected `author NAME"),
        (("author A", "writer A"), "line 3: expected `author"),
        (("data <<END", "data 7"), "line 5: expected `data <<END`, found `data 7`"),
        (("First\n\nEND", "First"), "ends the data, found none"),
        (("inline a/b.txt", "inline ../b.txt"), "a path inside the repository"),
        (("inline a/b.txt", "inline .git/config"), "a path inside the repository"),
        (("100644 inline", "100666 inline"), "expected `M 100644 inline PATH`"),
        (("refs/heads/main", "refs/heads/ma..in"), "the name of a ref"),
        (("M 100755 inline run\ndata <<E\n#!/bin/sh\nE\n", "D nothing\n"), "a file to delete"),
        (("M 100755 inline run\ndata <<E\n#!/bin/sh\nE\n", "R a b\n"), "line 13: expected `tag"),
        (("M 100755 inline run\ndata <<E\n#!/bin/sh\nE\n", "tag v1\nfrom :7\n"), "found ':7'"),
    ],
)
def test_a_history_that_is_wrong_says_where(tmp_path, change, message):
    repository = pygit2.init_repository(tmp_path, bare=True)
    with pytest.raises(SandboxError, match=r"history\.fi, line [0-9]+: ") as raised:
        import_history(COMMIT.replace(*change), "history.fi", repository)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ((", history: h.fi", ""), UsageError, "made of `history` or of a `repository`"),
        (("kind: git-tests", "kind: git-what"), UsageError, "kinds that look at a git system"),
        ((", plan: tests.yaml", ""), UsageError, "needs `plan`"),
        (("history: h.fi", "history: empty.fi"), SandboxError, "expected a branch `main`"),
    ],
)
def test_a_pack_that_cannot_be_built_says_why(tmp_path, change, error, message):
    pack = tmp_path / "pack"
    pack.mkdir()
    (pack / "h.fi").write_text(COMMIT)
    (pack / "empty.fi").write_text("")
    (pack / "tests.yaml").write_text("branches: [main]\ntests: tests\nimport_from: [src]\n")
    text = (
        "sandbox: tiny\nversion: 1.0.0\nabout: Tiny.\nreal: []\nsimulated: []\nsources:\n"
        "  hub: {kind: git, history: h.fi}\n"
        "  results: {kind: git-tests, of: hub, plan: tests.yaml}\n"
    )
    (pack / "pack.yaml").write_text(text.replace(*change))
    with pytest.raises(error, match=message):
        EmbeddedSandbox(read_pack(pack), tmp_path / "work").start()
