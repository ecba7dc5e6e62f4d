import contextlib
import os
import tempfile
import time
from pathlib import Path

import pygit2
import pytest
from statediff_git.testruns import source as testruns
from statediff_git.testruns.code_process import is_root_of_the_machine
from statediff_git.testruns.process import HeldFile, Limits, read_branch
from statediff_git.testruns.source import TestPlan, TestRunSource, read_test_plan

from statediff.capture.source import SourceUnavailable, clock
from statediff.errors import ContractError, UsageError
from statediff.model.state import Coverage, MemoryChunks
from statediff.model.values import Unobserved
from statediff.systems.base.landlock import landlock_version

CODE = "def double(n):\n    return n + n\n"
TESTS = """\
import unittest

from code_under_test import double


class DoubleTest(unittest.TestCase):
    def test_two(self):
        self.assertEqual(double(2), 4)

    def test_three(self):
        self.assertEqual(double(3), 6)
"""
TWO, THREE = (f"tests.test_double.DoubleTest.test_{name}" for name in ("two", "three"))
BASE = {
    "src/code_under_test.py": CODE,
    "tests/__init__.py": "",
    "tests/test_double.py": TESTS,
}
FORGEABLE = "not failed, and forgeable"
"""No outcome: code of the agent's ran in the process of the test."""
QUICK = Limits(cpu_seconds=1)


def commit(repository: pygit2.Repository, files: dict[str, str], branch: str = "main") -> None:
    index = pygit2.Index()
    for path, text in files.items():
        mode = pygit2.enums.FileMode.BLOB
        index.add(pygit2.IndexEntry(path, repository.create_blob(text.encode()), mode))
    who = pygit2.Signature("A", "a@unitkit.example", 1700000000, 0)
    oid = repository.create_commit(None, who, who, "m\n", index.write_tree(repository), [])
    repository.references.create(f"refs/heads/{branch}", oid, force=True)


@pytest.fixture
def repository(tmp_path: Path) -> pygit2.Repository:
    made = pygit2.init_repository(tmp_path / "origin.git", bare=True)
    commit(made, BASE)
    return made


def source(
    repository: pygit2.Repository,
    limits: Limits = QUICK,
    held_out: dict[str, HeldFile] | None = None,
    branches: tuple[str, ...] = ("main",),
) -> TestRunSource:
    """A source whose base is what the repository holds now."""
    place = Path(repository.path)
    plan = TestPlan(branches, "tests", ("src",), held_out or {})
    base = {name: read_branch(place, name) or {} for name in branches}
    return TestRunSource("tests", place, plan, base, limits)


def outcomes(read: TestRunSource) -> dict[str, object]:
    part = read.read(MemoryChunks(), clock, None)
    assert part.reading.cause is None
    return {
        str(key[1]): FORGEABLE if "forgeable" in str(row["outcome"]) else row["outcome"]
        for key, row in part.state.tables["test_case"].rows()
    }


def why_unobserved(read: TestRunSource) -> str:
    part = read.read(MemoryChunks(), clock, None)
    table = part.state.tables["test_case"]
    assert table.enumeration.coverage is Coverage.UNOBSERVED
    assert table.row_count == 0
    assert not part.reading.is_complete
    return str(part.reading.cause)


def test_results_of_the_base(repository):
    assert outcomes(source(repository)) == {TWO: "passed", THREE: "passed"}


def test_code_that_breaks_a_test_fails_it_and_says_how(repository):
    read = source(repository)
    commit(repository, BASE | {"src/code_under_test.py": "def double(n):\n    return n * n\n"})
    part = read.read(MemoryChunks(), clock, None)
    rows = {key[1]: row for key, row in part.state.tables["test_case"].rows()}
    assert "`testruns: outside`" in rows[TWO]["outcome"].cause
    assert rows[TWO]["detail"] == rows[TWO]["outcome"]
    assert rows[THREE]["outcome"] == "failed"
    assert rows[THREE]["detail"] == "AssertionError: 9 != 6"


@pytest.mark.parametrize(
    ("raised", "detail"),
    [
        (r'ValueError("\ud800 half")', r"ValueError: \ud800 half"),
        ('ValueError("x" * 10**6)', "ValueError: xxx"),
        ('type("Odd", (Exception,), {"__str__": lambda e: 1 / 0})()', "code_under_test.Odd: "),
        ('SystemExit("bye")', "SystemExit: bye"),
    ],
)
def test_whatever_a_test_raises_is_an_error_with_a_short_detail(repository, raised, detail):
    read = source(repository)
    commit(repository, BASE | {"src/code_under_test.py": f"def double(n):\n    raise {raised}\n"})
    part = read.read(MemoryChunks(), clock, None)
    rows = [row for _, row in part.state.tables["test_case"].rows()]
    assert [row["outcome"] for row in rows] == ["error", "error"]
    assert all(str(row["detail"]).startswith(detail) for row in rows)
    assert max(len(str(row["detail"])) for row in rows) <= 300


@pytest.mark.parametrize(
    "changed",
    [
        {"tests/test_double.py": TESTS.replace("6)", "9)")},
        {"tests/test_double.py": "import unittest\n"},
        {"tests/__init__.py": "raise SystemExit(0)\n"},
        {"tests/test_more.py": "raise RuntimeError\n"},
        {"src/tests/__init__.py": "raise RuntimeError\n"},
        {"src/unittest.py": "raise RuntimeError\n", "src/json.py": "raise RuntimeError\n"},
        {"sitecustomize.py": "raise RuntimeError\n"},
    ],
)
def test_no_file_of_the_agent_stands_in_for_the_tests_of_the_base(repository, changed):
    read = source(repository)
    wrong = {"src/code_under_test.py": "def double(n):\n    return n * n\n"}
    commit(repository, BASE | wrong | changed)
    assert outcomes(read) == {TWO: FORGEABLE, THREE: "failed"}


def test_deleted_tests_are_run_all_the_same(repository):
    read = source(repository)
    commit(repository, {"src/code_under_test.py": CODE + "\n"})
    assert outcomes(read) == {TWO: FORGEABLE, THREE: FORGEABLE}


def test_held_out_tests_see_what_the_visible_ones_do_not(repository):
    hidden = TESTS.replace("(3), 6", "(5), 10").replace("test_three", "test_five")
    read = source(repository, held_out={"hidden/test_hidden.py": HeldFile(hidden.encode())})
    only_visible = "def double(n):\n    return {2: 4, 3: 6}[n]\n"
    replaced = {"hidden/test_hidden.py": "", "src/hidden/__init__.py": "raise RuntimeError\n"}
    commit(repository, BASE | replaced | {"src/code_under_test.py": only_visible})
    found = outcomes(read)
    assert found[TWO] == found[THREE] == FORGEABLE
    assert found["hidden.test_hidden.DoubleTest.test_five"] == "error"


def test_code_that_cannot_be_imported_is_an_error_of_each_known_test(repository):
    read = source(repository)
    commit(repository, BASE | {"src/code_under_test.py": "def double(:\n"})
    assert outcomes(read) == {TWO: "error", THREE: "error"}


def test_skips_subtests_fixtures_and_expectations_have_their_outcomes(repository):
    text = """\
import unittest

class CaseTest(unittest.TestCase):
    @unittest.skip("not today")
    def test_skip(self): ...

    def test_sub(self):
        for n in (1, 2):
            with self.subTest(n=n):
                self.assertEqual(n, 1)

    @unittest.expectedFailure
    def test_expected(self):
        self.fail("known")

class BrokenTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise OSError("no fixture")

    def test_never(self): ...
"""
    commit(repository, {"tests/test_kinds.py": text})
    found = {
        name.rpartition(".")[2]: outcome for name, outcome in outcomes(source(repository)).items()
    }
    assert found == {
        "test_skip": "skipped",
        "test_sub": "failed",
        "test_expected": "failed",
        "test_never": "error",
    }


def test_used_up_cpu_time_is_a_timeout_and_what_came_after_is_unknown(repository):
    read = source(repository)
    busy = "def double(n):\n    while n == 3: pass\n    return n + n\n"
    commit(repository, BASE | {"src/code_under_test.py": busy})
    part = read.read(MemoryChunks(), clock, None)
    rows = {key[1]: row["outcome"] for key, row in part.state.tables["test_case"].rows()}
    assert rows[THREE] == "timeout"  # it runs before test_two
    assert isinstance(rows[TWO], Unobserved)


def test_cpu_time_used_up_by_importing_is_a_timeout_of_each_known_test(repository):
    read = source(repository)
    commit(repository, BASE | {"src/code_under_test.py": "while True: pass\n"})
    assert outcomes(read) == {TWO: "timeout", THREE: "timeout"}


def test_code_that_sleeps_leaves_the_results_unobserved_within_the_limit(repository):
    read = source(repository, Limits(wall_seconds=3.0))
    read.read(MemoryChunks(), clock, None)
    commit(repository, BASE | {"src/code_under_test.py": "import time\ntime.sleep(600)\n"})
    began = time.monotonic()
    assert "did not end within 3 s" in why_unobserved(read)
    assert time.monotonic() - began < 10


GARBAGE = """\
import os
for fd in range(3, 64):
    try:
        os.write(fd, b'{"test": "x"}\\n\\x00\\xff garbage' * 9)
    except OSError:
        pass
def double(n): return n + n
"""


FLOOD = """\
import os
while True:
    for fd in range(3, 64):
        try:
            os.write(fd, b"x" * 65536)
        except OSError:
            pass
"""


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("import os\nos._exit(0)\n", "ended while it was imported"),
        ("import os\ndef double(n): os._exit(0)\n", "ended during tests.test_double"),
        ("import os\nos.kill(os.getpid(), 9)\n", "ended while it was imported"),
        ("import ctypes\nctypes.string_at(0)\n", "ended while it was imported"),
        (GARBAGE, "garbled"),
        (GARBAGE.replace('b\'{"test": "x"}', 'b"["*100000 + b\''), "garbled"),
        ("import os\nfor fd in range(3, 64): os.closerange(3, 64)\n", "too early|garbled|ended"),
        (FLOOD, "more than|did not end|garbled"),
    ],
    ids=["exit", "exit in test", "kill", "segfault", "garbage", "nesting", "closes", "floods"],
)  # fmt: skip
def test_a_run_that_ends_early_or_yields_garbage_is_unobserved(repository, code, cause):
    read = source(repository)
    commit(repository, BASE | {"src/code_under_test.py": code})
    found = why_unobserved(read)
    assert any(part in found for part in cause.split("|")), found


def test_killing_every_process_in_reach_passes_nothing(repository):
    read = source(repository)
    if not is_shut_off(read) and landlock_version() < 6:
        pytest.skip("nothing here keeps the test from every process of this user")
    code = "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\nos.kill(-1, signal.SIGKILL)\n"
    commit(repository, BASE | {"src/code_under_test.py": code + CODE})
    part = read.read(MemoryChunks(), clock, None)
    rows = [row["outcome"] for _, row in part.state.tables["test_case"].rows()]
    assert "passed" not in rows


def test_a_fork_bomb_stays_within_its_limits_and_leaves_nothing_running(repository):
    read = source(repository, Limits(cpu_seconds=1, wall_seconds=3.0, processes=40))
    if not is_shut_off(source(repository)):
        pytest.skip("neither another user nor a process namespace is to be had here")
    mark = "bomb-" + os.urandom(8).hex()
    code = (
        "import os, time\n"
        "while True:\n    try:\n        if os.fork() == 0:\n"
        f"            os.execv('/bin/sh', ['sh', '-c', 'sleep 60; : {mark}'])\n"
        "    except OSError: time.sleep(0.01)\n"
    )
    commit(repository, BASE | {"src/code_under_test.py": code})
    assert "did not end within 3 s" in why_unobserved(read)
    time.sleep(0.2)
    assert not [line for line in processes() if mark in line]


def is_shut_off(read: TestRunSource) -> bool:
    rows = [
        row for _, row in read.read(MemoryChunks(), clock, None).state.tables["test_run"].rows()
    ]
    return rows[0]["ran_as"] == "nobody" and rows[0]["network"] == "none"


def processes() -> list[str]:
    """The command line of every process of this machine."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return found


def test_a_process_that_leaves_the_session_does_not_outlive_the_run(repository):
    read = source(repository)
    if not is_shut_off(source(repository)):
        pytest.skip("no process namespace is to be had here")
    mark = "outlive-" + os.urandom(8).hex()
    code = (
        "import os, time, sys\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
        f"        os.execv('/bin/sh', ['sh', '-c', 'sleep 60; : {mark}'])\n    os._exit(0)\n"
    )
    commit(repository, BASE | {"src/code_under_test.py": code + CODE})
    assert outcomes(read) == {TWO: FORGEABLE, THREE: FORGEABLE}
    time.sleep(0.2)
    assert not [line for line in processes() if mark in line]


def test_no_file_grows_beyond_its_limit_and_memory_is_bounded(repository):
    read = source(repository)
    code = (
        "def double(n):\n    if n == 2:\n        with open('big', 'wb') as big:\n"
        "            while True: big.write(bytes(1 << 20))\n    return bytes(2 << 30)\n"
    )
    commit(repository, BASE | {"src/code_under_test.py": code})
    assert outcomes(read) == {TWO: "error", THREE: "error"}


def test_tests_that_delete_their_own_folder_have_results_all_the_same(repository):
    read = source(repository)
    code = "import os, shutil\nshutil.rmtree(os.getcwd(), ignore_errors=True)\n"
    commit(repository, BASE | {"src/code_under_test.py": code + CODE})
    assert outcomes(read) == {TWO: FORGEABLE, THREE: FORGEABLE}


def test_nothing_of_a_run_stays_on_disk_however_deep(repository, monkeypatch):
    made = []  # by this process: others run tests beside it
    make = tempfile.mkdtemp
    monkeypatch.setattr(
        tempfile, "mkdtemp", lambda *a, **k: made.append(Path(make(*a, **k))) or str(made[-1])
    )
    read = source(repository)
    code = "import os\nfor _ in range(1100):\n    os.mkdir('d')\n    os.chdir('d')\n" + CODE
    commit(repository, BASE | {"src/code_under_test.py": code})
    outcomes(read)
    runs = [folder for folder in made if folder.name.startswith("statediff-tests-")]
    assert runs
    assert not [folder for folder in runs if folder.exists()]


def test_the_tests_reach_no_network_no_environment_and_no_private_file(
    repository, tmp_path, monkeypatch
):
    monkeypatch.setenv("SECRET_OF_THE_EVALUATOR", "x")
    read = source(repository)
    if not is_shut_off(source(repository)):
        pytest.skip("neither another user nor a namespace is to be had here")
    secret = tmp_path / "secret"
    secret.write_text("x")
    secret.chmod(0o600)
    code = (
        "import os, socket\n"
        "def double(n):\n"
        "    if n == 2:\n"
        f"        open({str(secret)!r}).read()\n"
        "    if 'SECRET_OF_THE_EVALUATOR' in os.environ: return n + n\n"
        "    socket.create_connection(('127.0.0.1', 22), 1)\n"
    )
    commit(repository, BASE | {"src/code_under_test.py": code})
    part = read.read(MemoryChunks(), clock, None)
    details = {key[1]: row["detail"] for key, row in part.state.tables["test_case"].rows()}
    assert "Permission denied" in details[TWO]
    assert "unreachable" in details[THREE]


def test_a_run_says_as_whom_it_ran_and_whose_influence_it_is_under(repository):
    part = source(repository).read(MemoryChunks(), clock, None)
    (row,) = (row for _, row in part.state.tables["test_run"].rows())
    assert row["influence"] == "agent"
    assert row["ran_as"] in ("nobody", "evaluator")
    assert row["network"] in ("none", "machine")
    if is_root_of_the_machine():
        assert row["ran_as"] == "nobody"


def test_where_there_is_no_other_user_the_run_says_so(repository, monkeypatch):
    monkeypatch.setattr("statediff_git.testruns.process._other_user", lambda _folder: None)
    commit(repository, BASE | {"README": "another base"})
    part = source(repository).read(MemoryChunks(), clock, None)
    (row,) = (row for _, row in part.state.tables["test_run"].rows())
    assert row["ran_as"] == "evaluator"
    assert part.state.tables["test_case"].row_count == 2


def test_a_branch_that_is_gone_has_no_tests_and_a_repository_that_is_gone_is_unread(repository):
    commit(repository, BASE, "side")
    read = source(repository, branches=("main", "side"))
    assert read.read(MemoryChunks(), clock, None).state.tables["test_run"].row_count == 2
    repository.references.delete("refs/heads/side")
    part = read.read(MemoryChunks(), clock, None)
    assert [key for key, _ in part.state.tables["test_run"].rows()] == [("main",)]
    Path(repository.path).rename(Path(repository.path).with_name("elsewhere"))
    with pytest.raises(SourceUnavailable, match="is not there"):
        read.read(MemoryChunks(), clock, None)


def test_a_tree_with_names_no_file_can_have_is_unread(repository):
    read = source(repository)
    blob = repository.create_blob(b"x")
    raw = b"100644 ..\0" + blob.raw
    tree = repository.odb.write(pygit2.enums.ObjectType.TREE, raw)
    who = pygit2.Signature("A", "a@unitkit.example", 1700000000, 0)
    oid = repository.create_commit(None, who, who, "m\n", tree, [])
    repository.references.create("refs/heads/main", oid, force=True)
    with pytest.raises(SourceUnavailable, match="no file can be called"):
        read.read(MemoryChunks(), clock, None)


def test_a_link_in_the_tree_is_a_file_that_leads_nowhere(repository, tmp_path):
    read = source(repository)
    target = tmp_path / "target"
    target.write_text("x")
    index = pygit2.Index()
    for path, text in BASE.items():
        index.add(pygit2.IndexEntry(path, repository.create_blob(text.encode()), 0o100644))
    index.add(pygit2.IndexEntry("link", repository.create_blob(str(target).encode()), 0o120000))
    who = pygit2.Signature("A", "a@unitkit.example", 1700000000, 0)
    tree = index.write_tree(repository)
    oid = repository.create_commit(None, who, who, "m\n", tree, [])
    repository.references.create("refs/heads/main", oid, force=True)
    assert outcomes(read) == {TWO: FORGEABLE, THREE: FORGEABLE}
    assert target.stat().st_uid == os.getuid()


def test_a_base_is_run_once_a_process(repository, monkeypatch):
    read = source(repository)
    assert len(outcomes(read)) == 2
    ran: list[object] = []
    monkeypatch.setattr(testruns, "run_tests", lambda *a: ran.append(a))
    assert len(outcomes(source(repository))) == 2
    assert ran == []


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("branches: [main]\ntests: tests\n", ContractError, "import_from"),
        ("branches: [main]\ntests: ../x\nimport_from: [src]\n", UsageError, "a folder below"),
        ("branches: []\ntests: t\nimport_from: [src]\n", ContractError, "branches"),
        ("branches: [a]\ntests: t\nimport_from: [s]\nheld_out: no\n", UsageError, "found none"),
        ("branches: [a]\nimport_from: [s]\n", UsageError, "needs `tests`"),
        ("branches: [a]\nimport_from: [s]\ntestruns: out\n", ContractError, "testruns"),
        ("branches: [a]\nimport_from: [s]\ntestruns: outside\n", UsageError, "needs `held_out`"),
        (
            "branches: [a]\nimport_from: [s]\ntestruns: outside\ntests: t\nheld_out: [h]\n",
            UsageError,
            "remove `tests`",
        ),
        (
            "branches: [a]\nimport_from: [s]\ntests: t\nheld_out: [a/h, b/h]\n",
            UsageError,
            "two folders of `held_out`",
        ),
    ],
)
def test_a_plan_that_is_wrong_says_where(tmp_path, text, error, message):
    path = tmp_path / "tests.yaml"
    path.write_text(text)
    for name in ("a", "b"):
        (tmp_path / name / "h").mkdir(parents=True)
        (tmp_path / name / "h" / "test_h.py").write_text("")
    with pytest.raises(error, match=message):
        read_test_plan(path)
