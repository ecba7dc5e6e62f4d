import contextlib
import mmap
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from statediff.agents.command import CommandAgent
from statediff.capture.source import SourceUnavailable, clock
from statediff.capture.take import take
from statediff.contract.file import load_contract
from statediff.errors import SandboxError
from statediff.evidence.package import load
from statediff.harness import TrialPlan, run_trial
from statediff.kernel import replay
from statediff.model.state import MemoryChunks
from statediff.model.verdict import Truth
from statediff.packs import PackSource, contract_folder, sandbox_pack
from statediff.systems.base.sandbox import EmbeddedSandbox
from statediff.systems.files.leaves import held
from statediff.systems.files.sandbox import EmbeddedDirectory

ROOT = Path(__file__).parents[3]
SWAP = "import ctypes, os, sys\nwhile True: ctypes.CDLL(None).renameat2(-100, os.fsencode(sys.argv[1]), -100, os.fsencode(sys.argv[2]), 2)"  # noqa: E501


@contextlib.contextmanager
def swapping(one: Path, other: Path) -> Iterator[None]:
    with subprocess.Popen([sys.executable, "-c", SWAP, str(one), str(other)]) as process:
        yield
        process.kill()


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    tree = tmp_path / "pack"
    (tree / "sub" / "deep").mkdir(parents=True)
    (tree / "a.txt").write_text("a\n")
    (tree / "sub" / "run").write_text("#!/bin/sh\n")
    (tree / "sub" / "run").chmod(0o755)
    return tree


def system_of(tree: Path | None, folder: Path) -> EmbeddedDirectory:
    files = {} if tree is None else {"tree": tree}
    made = EmbeddedDirectory(PackSource("exports", "files", None, files), (), folder)
    made.start()
    made.reset()
    return made


@pytest.fixture
def directory(pack: Path, tmp_path: Path) -> EmbeddedDirectory:
    return system_of(pack, tmp_path / "work" / "exports")


def drift_of(directory: EmbeddedDirectory) -> list[str]:
    proof, drift = directory.verify()
    assert (proof.expected == proof.found) == (not drift)
    return [str(entry) for entry in drift]


def names(directory: EmbeddedDirectory) -> list[str]:
    (source,) = directory.sources()
    state = source.read(MemoryChunks(), clock, None).state
    return [str(key[0]) for key, _ in state.tables["file"].rows()]


def test_a_fresh_folder_is_the_packs_and_is_proven(directory):
    assert names(directory) == [".", "a.txt", "sub", "sub/deep", "sub/run"]
    assert drift_of(directory) == []
    assert directory.verify()[0].entities == 5
    assert os.access(directory.folder / "sub" / "run", os.X_OK)
    assert not os.access(directory.folder / "a.txt", os.X_OK)
    assert Path(directory.url.removeprefix("file://")) == directory.folder


def test_without_a_tree_the_base_is_an_empty_folder(tmp_path):
    empty = system_of(None, tmp_path / "work")
    assert names(empty) == ["."]
    assert drift_of(empty) == []
    (empty.folder / "new").touch()
    assert len(drift_of(empty)) == 1


def test_the_base_is_the_same_whatever_the_umask_and_wherever_it_lies(pack, tmp_path):
    proofs = []
    for umask, name in ((0o022, "one"), (0o077, "two"), (0o000, "three")):
        earlier = os.umask(umask)
        try:
            made = system_of(pack, tmp_path / name)
        finally:
            os.umask(earlier)
        assert drift_of(made) == []
        proofs.append(made.verify()[0].found)
    assert len(set(proofs)) == 1


def _link_in_place_of(path: Path) -> None:
    path.rename(path.with_name("aside"))
    path.symlink_to("aside")


CHANGES: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "content": (lambda at: (at / "a.txt").write_text("b\n"), ["a.txt"]),
    "mode": (lambda at: (at / "a.txt").chmod(0o666), ["a.txt"]),
    "folder mode": (lambda at: (at / "sub").chmod(0o777), ["sub"]),
    "own mode": (lambda at: at.chmod(0o755), ["."]),
    "removed": (lambda at: (at / "sub" / "run").unlink(), ["sub/run"]),
    "added": (lambda at: (at / "sub" / "new").touch(), ["sub/new"]),
    "added folder": (lambda at: (at / "new").mkdir(), ["new"]),
    "pipe": (lambda at: os.mkfifo(at / "pipe"), ["pipe"]),
    "link": (lambda at: (at / "link").symlink_to("/etc/passwd"), ["link"]),
    "file by link": (lambda at: _link_in_place_of(at / "a.txt"), ["a.txt", "aside"]),
    "name of bytes": (lambda at: Path(os.fsdecode(bytes(at) + b"/\xe9")).touch(), ["\\xe9"]),
    "bidi name": (lambda at: (at / "a\u202eb").touch(), ["a\\u202eb"]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_is_drift_that_names_its_entry_and_reset_mends_it(directory, change):
    make, expected = CHANGES[change]
    make(directory.folder)
    assert [entry.split(": ")[1] for entry in drift_of(directory)] == [
        f"file {path}" for path in expected
    ]
    directory.reset()
    assert drift_of(directory) == []


def test_drift_says_what_was_expected_and_what_was_found(directory):
    (directory.folder / "a.txt").unlink()
    (directory.folder / "a.txt").symlink_to("/etc/passwd")
    (directory.folder / "sub" / "deep").rmdir()
    first, second = drift_of(directory)
    assert first.startswith("exports: file a.txt: expected file of mode 0600, sha256 ")
    assert first.endswith("found a link to '/etc/passwd'")
    assert second == "exports: file sub/deep: expected folder of mode 0700, found nothing"


def test_a_folder_exchanged_for_a_link_is_mended_and_its_target_survives(directory, tmp_path):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "keep").write_text("keep me")
    directory.unplug("exports")
    directory.folder.symlink_to(precious)
    assert drift_of(directory)
    directory.reset()
    assert drift_of(directory) == []
    (directory.folder / "sub" / "deep").rmdir()
    (directory.folder / "sub" / "deep").symlink_to(precious)
    directory.reset()
    assert drift_of(directory) == []
    assert (precious / "keep").read_text() == "keep me"


def test_reset_ends_folders_nested_beyond_any_path_and_those_nobody_may_enter(directory):
    bottom = os.open(directory.folder, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=bottom)
        deeper = os.open("d", os.O_RDONLY, dir_fd=bottom)
        os.close(bottom)
        bottom = deeper
    os.close(bottom)
    (directory.folder / "locked" / "in").mkdir(parents=True)
    (directory.folder / "locked" / "in").chmod(0o000)
    (directory.folder / "locked").chmod(0o000)
    assert drift_of(directory)
    directory.reset()
    assert drift_of(directory) == []


def test_no_reset_removes_what_a_swapped_link_or_a_mount_leads_to(directory, tmp_path):
    (precious := tmp_path / "precious").mkdir()
    link, at = tmp_path / "link", directory.folder / "d"
    with swapping(at, link):
        for number in range(3000):
            (precious / f"f{number % 50}").touch()
            with contextlib.suppress(OSError):
                at.mkdir(exist_ok=True)
                (at / f"f{number % 50}").touch()
                link.symlink_to(precious)
            with contextlib.suppress(SandboxError):  # it goes on swapping
                _ = number % 50 == 49 and directory.reset()
        assert len(list(precious.iterdir())) >= 50
    directory.reset()
    at.mkdir()
    mount = ("mount", "--bind", precious, at)
    if os.geteuid() == 0 and subprocess.run(mount, check=False).returncode == 0:
        with pytest.raises(SandboxError, match="something else is mounted there"):
            directory.reset()
        subprocess.run(["umount", at], check=True)
    assert len(list(precious.iterdir())) >= 50


def test_a_write_through_a_mapping_is_drift_whatever_times_say(pack, in_memory):
    directory = system_of(pack, in_memory / "exports")
    assert drift_of(directory) == []
    with (directory.folder / "a.txt").open("r+b") as file, mmap.mmap(file.fileno(), 2) as found:
        assert found[:1] == b"a"  # what was read is written without a fault
        found[:1] = b"E"
    assert len(drift_of(directory)) == 1


def test_what_a_fork_keeps_is_what_was_looked_at_and_no_link_is_followed(directory, tmp_path):
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    with swapping(directory.folder / "a.txt", tmp_path / "link"):
        for _ in range(300):
            with contextlib.suppress(OSError):  # it changed meanwhile
                assert all(leaf.content != b"secret" for leaf in held(directory.folder).values())


def test_an_unplugged_folder_is_gone_until_the_next_reset(directory):
    directory.unplug("exports")
    (source,) = directory.sources()
    with pytest.raises(SourceUnavailable, match="not there"):
        source.read(MemoryChunks(), clock, None)
    assert len(drift_of(directory)) == 5
    directory.reset()
    assert drift_of(directory) == []


@pytest.mark.parametrize("odd", ["link", "pipe"])
def test_a_pack_holds_files_and_folders_and_nothing_else(pack, tmp_path, odd):
    if odd == "link":
        (pack / "odd").symlink_to("../outside.txt")
    else:
        os.mkfifo(pack / "odd")
    with pytest.raises(SandboxError, match=r"holds odd, a (link|fifo); expected"):
        system_of(pack, tmp_path / "work")


def test_a_quiet_folder_is_settled_at_once(directory):
    began = time.monotonic()
    assert directory.unsettled(time.monotonic() + 2) is None
    assert time.monotonic() - began < 1


@pytest.fixture
def writer(directory: EmbeddedDirectory) -> Iterator[threading.Event]:
    """Something that goes on writing to `a.txt` until the event is set."""
    is_done = threading.Event()

    def write() -> None:
        with (directory.folder / "a.txt").open("ab", buffering=0) as file:
            while not is_done.wait(0.001):
                file.write(b"x")

    thread = threading.Thread(target=write)
    thread.start()
    yield is_done
    is_done.set()
    thread.join()


@pytest.mark.usefixtures("writer")
def test_a_file_that_still_grows_is_waited_for_and_then_named(directory):
    assert directory.unsettled(time.monotonic() + 0.1) == "a.txt is still changing"


def test_settling_ends_as_soon_as_the_writing_does(directory, writer):
    threading.Timer(0.1, writer.set).start()
    began = time.monotonic()
    assert directory.unsettled(began + 10) is None
    assert time.monotonic() - began < 5


@pytest.fixture(scope="module")
def accounts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedSandbox]:
    work = tmp_path_factory.mktemp("accounts") / "work"
    with EmbeddedSandbox(sandbox_pack("accounts"), work) as running:
        yield running


def test_accounts_prove_what_capture_finds_in_three_sources(accounts):
    accounts.reset()
    receipt = accounts.verify(clock)
    assert receipt.ok
    assert [proof.source for proof in receipt.proofs] == ["accounts-db", "exports", "outbox"]
    capture = take(accounts.sources(), MemoryChunks(), clock, None, "before")
    assert receipt.entities == sum(
        table.row_count
        for part in capture.parts
        for name, table in part.state.tables.items()
        if not name.startswith("db.")
    )
    assert receipt.entities == 480


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE audit_log SET detail = 'x' WHERE id = 1", "only grows"),
        ("DELETE FROM audit_log WHERE id = 1", "only grows"),
    ],
)
def test_the_audit_log_of_the_accounts_refuses_to_be_changed(accounts, statement, message):
    accounts.reset()
    file = accounts.access().urls["accounts-db"].removeprefix("sqlite:///")
    connection = sqlite3.connect(file)
    with pytest.raises(sqlite3.IntegrityError, match=message):
        connection.execute(statement)
    connection.close()


def test_a_role_that_is_given_is_logged_by_the_database_and_is_drift(accounts):
    accounts.reset()
    file = accounts.access().urls["accounts-db"].removeprefix("sqlite:///")
    connection = sqlite3.connect(file)
    with connection:
        connection.execute(
            "INSERT INTO grants VALUES (31, 'db-admin', NULL, 9, '2026-04-20 09:00:00')"
        )
    entry = connection.execute("SELECT * FROM audit_log ORDER BY id DESC LIMIT 1").fetchone()
    connection.close()
    assert entry[1:] == ("2026-04-20 09:00:00", "role-granted", 31, "db-admin")
    drift = accounts.verify(clock).drift
    assert [entry.what for entry in drift] == ["table audit_log", "table grants"]


def test_the_seed_of_the_accounts_is_what_its_generator_writes():
    script = ROOT / "fixtures" / "build_accounts.py"
    assert subprocess.run([sys.executable, str(script), "--check"], check=False).returncode == 0


WRITER = """
import os, sys, time
end = time.time() + 60
with open(sys.argv[1], "ab", 0) as file:
    while os.fstat(file.fileno()).st_nlink and time.time() < end:  # it ends when it is removed
        file.write(b"x")
        time.sleep(.001)
"""
HOSTILE = {
    "a pipe": "os.mkfifo(exports + '/pipe')",
    "a folder nested without end": (
        "os.chdir(exports)\nfor _ in range(1500): os.mkdir('d'); os.chdir('d')"
    ),
    "a file of a terabyte": "open(exports + '/huge', 'wb').truncate(1 << 40)",
    "a name of bytes": "open(exports.encode() + b'/\\xe9.csv', 'w')",
    "a name that turns around": "open(exports + '/a\\u202evsc.txt', 'w')",
    "a link for the folder": ("import shutil; shutil.rmtree(exports); os.symlink('/etc', exports)"),
    "a link for the folder above": (
        "above = os.path.dirname(exports); os.rename(above, above + '2');"
        " os.symlink(above + '2', above)"
    ),
    "a report that is a link": "os.symlink('/etc/hosts', exports + '/access-review.csv')",
    "the database as a report": (
        "os.link(os.environ['STATEDIFF_ACCOUNTS_DB_URL'][10:], exports + '/access-review.csv')"
    ),
    "a program that goes on writing": (
        "import subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-c', {WRITER!r}, exports + '/growing'],"
        " start_new_session=True)\n"
        "while not os.path.exists(exports + '/growing'): time.sleep(.01)"
    ),
}


@pytest.mark.parametrize("hostile", HOSTILE)
def test_whatever_an_agent_leaves_in_the_folder_is_judged_and_gone_after_a_reset(
    accounts, tmp_path, hostile
):
    program = f"import os\nexports = os.environ['STATEDIFF_EXPORTS_URL'][7:]\n{HOSTILE[hostile]}"
    folder = contract_folder("accounts/access-review")
    trial = run_trial(
        accounts,
        load_contract(folder.contract),
        CommandAgent((sys.executable, "-c", program), 30.0),
        TrialPlan("t", tmp_path / "t"),
        clock=clock,
        store=MemoryChunks(),
    )
    assert trial.observed.run.error is None, trial.observed.run.stderr.text
    findings = trial.evaluated.judgement.findings
    frame = next(f for f in findings if f.clause == "frame")
    assert frame.truth is Truth.FAILS
    assert replay(load(trial.bundle_folder)).verdict is trial.evaluated.judgement.verdict
    accounts.reset()
    assert accounts.verify(clock).ok
