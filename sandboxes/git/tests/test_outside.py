"""Tests outside the code's process: what crosses, and what no code can make of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pygit2
import pytest
from statediff_git.sandbox import import_history
from statediff_git.testruns.code_process import can_be_confined, is_root_of_the_machine
from statediff_git.testruns.process import HeldFile, Limits, read_branch
from statediff_git.testruns.source import TestPlan, TestRunSource, read_test_plan

from sandboxes.git.tests.test_testruns import (
    FORGEABLE,
    QUICK,
    clock,
    commit,
    outcomes,
    why_unobserved,
)
from statediff.capture.take import take
from statediff.contract.file import load_contract
from statediff.kernel import evaluate
from statediff.model.readings import Capture
from statediff.model.state import MemoryChunks
from statediff.packs import sandbox_folders

CODE = """\
class Odd(ValueError):
    pass

class Point:
    def __init__(self, x):
        self.x = x
    def __eq__(self, other):
        return True

TWELVE = 12

def double(n):
    return n + n

def echo(value):
    return value

def refuse():
    raise Odd("not this")
"""
TESTS = """\
import unittest
from outside import outside

code = outside("code_under_test")

class DoubleTest(unittest.TestCase):
    def test_three(self):
        self.assertEqual(code.double(3), 6)

    def test_refuses(self):
        with self.assertRaises(ValueError):
            code.refuse()
"""
THREE, REFUSES = (f"held.test_held.DoubleTest.test_{name}" for name in ("three", "refuses"))


def modules_of(text: str) -> dict[str, HeldFile]:
    return {"held/test_held.py": HeldFile(text.encode())}


@pytest.fixture
def repository(tmp_path: Path) -> pygit2.Repository:
    made = pygit2.init_repository(tmp_path / "origin.git", bare=True)
    commit(made, {"src/code_under_test.py": CODE})
    return made


def source(
    repository: pygit2.Repository, tests: str = TESTS, limits: Limits = QUICK
) -> TestRunSource:
    place = Path(repository.path)
    plan = TestPlan(("main",), None, ("src",), modules_of(tests), is_outside=True)
    return TestRunSource("tests", place, plan, {"main": read_branch(place, "main") or {}}, limits)


def change(repository: pygit2.Repository, code: str) -> None:
    commit(repository, {"src/code_under_test.py": code})


def run(repository: pygit2.Repository, body: str) -> dict[str, object]:
    """outcome, or detail where there is one, of each function test of `body` on the base."""
    text = "from outside import outside\n\ncode = outside('code_under_test')\n\n" + body
    part = source(repository, text).read(MemoryChunks(), clock, None)
    assert part.reading.cause is None
    return {
        str(key[1]).rpartition(".")[2]: row["detail"] or row["outcome"]
        for key, row in part.state.tables["test_case"].rows()
    }


def test_a_pass_of_the_agents_code_is_a_pass(repository):
    read = source(repository)
    assert outcomes(read) == {THREE: "passed", REFUSES: "passed"}
    change(repository, CODE + "# another\n")
    assert outcomes(read) == {THREE: "passed", REFUSES: "passed"}
    change(repository, CODE.replace("n + n", "n * n"))
    assert outcomes(read) == {THREE: "failed", REFUSES: "passed"}


def test_code_finds_no_sign_that_it_is_tested(repository):
    """Else it could do right where tests run, and nowhere else."""
    signs = """\

def signs():
    import sys
    ours = [name for name in sys.modules if name.startswith(("unittest", "statediff"))]
    return [*ours, *sys.argv, *vars(sys.modules["__main__"]).get("order", ())]

def has_unittest():
    import unittest
    return unittest.TestCase.__name__
"""
    change(repository, CODE + signs)
    asked = "def test_first():\n    assert code.signs() == [''], code.signs()\n"
    still = "def test_then():\n    assert code.has_unittest() == 'TestCase'\n"
    assert run(repository, asked + still) == {"test_first": "passed", "test_then": "passed"}


def test_values_cross_both_ways_and_keep_their_types(repository):
    values = """\
VALUES = [None, True, False, 0, 1, -7, 2**100, 1.5, -0.0, float("inf"), "", "text", "\\ud800",
          b"\\x00\\xff", [], [1, [2]], (), (1, (2,)), {}, {"a": 1, 2: [b"x"], None: (), True: 1.0}]

def test_all():
    for value in VALUES:
        found = code.echo(value)
        assert repr(found) == repr(value), (found, value)
        assert type(found) is type(value)

def test_names():
    assert code.echo(value=[3]) == [3]
    assert code.TWELVE == 12
"""
    assert set(run(repository, values).values()) == {"passed"}


def test_an_exception_has_the_name_of_its_class_and_is_one_of_pythons_where_a_base_is(repository):
    assert run(
        repository,
        """\
import unittest

class T(unittest.TestCase):
    def test_caught(self):
        with self.assertRaisesRegex(ValueError, "^not this$") as caught:
            code.refuse()
        self.assertEqual(caught.exception.type, "code_under_test.Odd")
        with self.assertRaises(TypeError):
            code.double()
        with self.assertRaises(AttributeError):
            code.missing

    def test_uncaught(self):
        code.refuse()

    def test_other(self):
        with self.assertRaises(KeyError):
            code.refuse()
""",
    ) == {
        "test_caught": "passed",
        "test_uncaught": "code_under_test.Odd: not this",
        "test_other": "code_under_test.Odd: not this",
    }


def test_code_that_cannot_be_imported_is_an_error_whatever_the_test_expects(repository):
    read = source(repository)
    assert set(outcomes(read).values()) == {"passed"}
    change(repository, "raise ValueError\n")
    assert set(outcomes(read).values()) == {"error"}
    body = """\
import unittest

class T(unittest.TestCase):
    def test_late(self):
        with self.assertRaises(ImportError):
            outside("code_that_is_not_there").refuse()
"""
    change(repository, CODE)
    assert "cannot be imported" in str(run(repository, body)["test_late"])


def test_the_repositorys_own_tests_agree_with_those_that_the_pack_brings_on_the_base(tmp_path):
    pack = sandbox_folders()["repo"]
    made = pygit2.init_repository(tmp_path / "origin.git", bare=True)
    history = pack / "origin" / "history.fi"
    import_history(history.read_text(), str(history), made)
    place = Path(made.path)
    brought = read_test_plan(pack / "tests.yaml")
    own = TestPlan(("main",), "tests", brought.import_from, {})
    base = {"main": read_branch(place, "main") or {}}
    inside = outcomes(TestRunSource("tests", place, own, base))
    outside = outcomes(TestRunSource("tests", place, replace(brought, branches=("main",)), base))
    visible = {name: found for name, found in outside.items() if name.startswith("tests.")}
    assert visible == inside
    assert len(inside) > 20
    assert "failed" in {outside[name] for name in outside.keys() - visible.keys()}


def test_an_object_is_asked_and_never_believed(repository):
    body = """\
import operator

import unittest

class T(unittest.TestCase):
    def test_asked(self):
        point = code.Point(3)
        self.assertEqual(point.x, 3)
        self.assertIs(outside("operator").eq(point, code.echo(point)), True)
        self.assertEqual(outside("builtins").vars(point), {"x": 3})
""" + "".join(
        f"    def test_{n}(self):\n        point = code.Point(3)\n        {line}\n"
        for n, line in enumerate(
            (
                "self.assertEqual(point, point)",
                "self.assertNotEqual(point, 4)",
                "self.assertTrue(point)",
                "self.assertFalse(point)",
                "self.assertIn(point, [4])",
                "self.assertIn(4, point)",
                "self.assertLess(point, 4)",
                "self.assertAlmostEqual(point, 4)",
                "self.assertCountEqual(point, [])",
                "assert not [*point]",
                "point.x = 4",
                "{point}",
                "self.assertRaises(Exception, lambda: point + 1)",
                "self.assertRaises(Exception, code.double, object())",
            )
        )
    )
    found = run(repository, body)
    assert found.pop("test_asked") == "passed"
    assert len(found) == 14
    assert "cannot be sent" in str(found.pop("test_13"))
    assert all("proves nothing" in str(why) for why in found.values()), found


def test_what_cannot_be_sent_is_an_error_whatever_the_test_expects(repository):
    returned = [
        "[1] * 10**5",
        "'x' * 10**6",
        "(lambda l: l.append(l) or l)([])",
        "{(1, Point): 2}",
        "{Point: 2}",
    ]
    odd = [f"\ndef odd_{n}():\n    return {value}\n" for n, value in enumerate(returned)]
    change(repository, CODE + "".join(odd))
    expects = "        with self.assertRaises(Exception):\n            code.odd_{0}()\n"
    body = "import unittest\n\nclass T(unittest.TestCase):\n" + "".join(
        f"    def test_{n}(self):\n" + expects.format(n) for n in range(len(odd))
    )
    found = run(repository, body)
    assert len(found) == len(odd)
    assert "passed" not in found.values()


MENDED = """
contract: tests/mended
version: 1.0.0
owner: nobody
intent: The failing test passes, and no passing test fails.
forbid:
  - id: nothing-breaks
    update: test_case
    where: it.outcome == "passed" and new.outcome != "passed"
require:
  - id: mended
    update: test_case
    where: it.outcome == "failed"
    set: {outcome: passed}
    fields: [outcome, detail]
    count: every
"""
# What code does to be taken for right. Its `double` doubles wrongly and its `refuse` refuses
# nothing, so no outcome of theirs may be a pass.
ATTACK = "def double(n):\n    return 7\n\ndef refuse():\n    return None\n\n"
REPLY = '["ok", ["i", "6"]]'
FORGERIES = {
    "patches unittest": "import unittest\nunittest.TestCase.assertEqual = lambda *a: None\n"
    "unittest.TestCase.assertRaises = lambda *a: __import__('contextlib').nullcontext()\n",
    "patches results": "import unittest\nfor n in ('addFailure', 'addError'):\n"
    "    setattr(unittest.TestResult, n, lambda *a: None)\n",
    "patches json": "import json\njson.dumps = lambda *a, **k: '{}'\n".replace("{}", REPLY),
    "patches os": "import os\nos.kill = os.write = os._exit = os.waitpid = lambda *a: 0\n",
    "patches builtins": "import builtins\nbuiltins.type = lambda *a: int\n"
    "builtins.isinstance = lambda *a: True\n",
    "int that equals all": "class Any(int):\n    def __eq__(self, other): return True\n"
    "    __hash__ = int.__hash__\ndef double(n):\n    return Any(7)\n",
    "object that equals all": "class Any:\n    def __eq__(self, other): return True\n"
    "    def __getattr__(self, name): return self\ndef double(n):\n    return Any()\n",
    "int renamed": "class Any(int):\n    def __eq__(self, other): return True\n"
    "    __hash__ = int.__hash__\nAny.__name__ = Any.__qualname__ = 'int'\n"
    "Any.__module__ = 'builtins'\ndef double(n):\n    return Any(7)\n",
    "exits": "import os\ndef double(n):\n    os._exit(0)\nrefuse = double.__get__(3)\n",
    "exits while imported": "import os\nos._exit(0)\n",
    "raises SystemExit": "def double(n):\n    raise SystemExit(0)\ndef refuse(): double(3)\n",
    "raises SkipTest": "import unittest\ndef double(n):\n    raise unittest.SkipTest('x')\n",
    "raises at import": "raise ValueError('x')\n",
    "calls itself ValueError": "class ValueError(BaseException): pass\n"
    "def refuse(): raise ValueError\ndef double(n): raise ValueError\n",
    "stops iterations": "def double(n):\n    raise StopIteration\n",
    "registers atexit": "import atexit, sys, os\natexit.register(os._exit, 0)\nsys.exit(0)\n",
    "writes to every descriptor": "import os\nfor fd in range(256):\n    try:\n"
    f"        os.write(fd, b'R' + bytes([0, 0, 0, {len(REPLY)}]) + b'{REPLY}')\n"
    '        os.write(fd, b\'{"test": "x", "outcome": "passed"}\\n\')\n'
    "    except OSError: pass\n",
    "closes every descriptor": "import os\nos.closerange(0, 256)\n",
    "prints megabytes": "import sys\nfor _ in range(64):\n    print('x' * 10**6)\n"
    "    print('x' * 10**6, file=sys.stderr)\n",
    "starts threads": "import threading, time\ndef spin():\n    while True: time.sleep(0.001)\n"
    "for _ in range(8): threading.Thread(target=spin, daemon=True).start()\n",
    "leaves a daemon": "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(60)\n",
    "stops itself": "import os, signal\ndef double(n):\n    os.kill(os.getpid(), signal.SIGSTOP)\n"
    "    return 7\n",
    "writes the shared memory": "import gc, mmap\ndef double(n):\n"
    "    for m in gc.get_objects():\n        if isinstance(m, mmap.mmap):\n"
    f"            m[1:5] = bytes([0, 0, 0, {len(REPLY)}])\n            m[5:{5 + len(REPLY)}] = "
    f"b'{REPLY}'\n            m[:1] = b'R'\n    return 7\n",
    "rewrites files": "import os\nfor top, _, names in os.walk('..'):\n    for name in names:\n"
    "        try: open(os.path.join(top, name), 'w').write('')\n        except OSError: pass\n",
    "kills all in reach": "import os, signal\ndef double(n):\n    for p in (os.getppid(), -1):\n"
    "        try: os.kill(p, signal.SIGKILL)\n        except OSError: pass\n    return 7\n",
    "fakes the module of tests": "import sys, types\nfor n in ('outside', 'held', '__main__'):\n"
    "    sys.modules[n] = types.ModuleType(n)\n",
    "traces its callers": "import sys\nfor f in sys._current_frames().values():\n"
    "    while f:\n        f.f_locals.clear()\n        f = f.f_back\n",
}


FORGED = {name: f"forgery_{number:02}" for number, name in enumerate(sorted(FORGERIES))}
# It spoils the others, so it comes last.
FORGED["rewrites files"] = "forgery_zz"
HONEST = "forgery_y_honest"


@dataclass(frozen=True)
class Forged:
    """One trial in which every forgery was pushed, each as a module of its own."""

    before: Capture
    after: Capture

    def outcomes(self, module: str) -> list[object]:
        """Those of the tests of a module, after the push."""
        rows = self.after.parts[0].state.tables["test_case"].rows()
        return [row["outcome"] for key, row in rows if f"test_{module}" in str(key[1])]

    def verdict(self, module: str, place: Path) -> str:
        """The verdict of the contract that its tests, which failed, pass."""
        place.write_text(
            MENDED.replace(
                'it.outcome == "failed"\n',
                f'it.outcome == "failed" and starts_with(it.name, "held.test_{module}.")\n',
            ).replace("forbid:", "frame: {open: the other forgeries}\nforbid:")
        )
        return evaluate(load_contract(place), self.before, self.after).judgement.verdict.value


@pytest.fixture(scope="module")
def forged(tmp_path_factory) -> Forged:
    """All forgeries in one run, and honest code among them.

    Each module has a process of its own, under one supervisor: none spoils the next one's results.
    """
    place = tmp_path_factory.mktemp("forged") / "origin.git"
    made = pygit2.init_repository(place, bare=True)
    modules = [*FORGED.values(), HONEST]
    tests = {
        f"held/test_{module}.py": HeldFile(TESTS.replace("code_under_test", module).encode())
        for module in modules
    }
    plan = TestPlan(("main",), None, ("src",), tests, is_outside=True)
    base = {f"src/{module}.py": ATTACK for module in modules}
    commit(made, base)
    files = {"main": read_branch(place, "main") or {}}
    read = TestRunSource("tests", place, plan, files, Limits(cpu_seconds=2))
    chunks = MemoryChunks()
    before = take([read], chunks, clock, None, "before")
    written = {f"src/{module}.py": ATTACK + FORGERIES[name] for name, module in FORGED.items()}
    commit(made, written | {f"src/{HONEST}.py": CODE})
    after = take([read], chunks, clock, before, "after")
    assert after.parts[0].reading.cause is None
    return Forged(before, after)


def test_honest_code_among_forgeries_passes(forged, tmp_path):
    assert forged.outcomes(HONEST) == ["passed", "passed"]
    assert forged.verdict(HONEST, tmp_path / "c.yaml") == "MATCH"


@pytest.mark.parametrize("name", FORGERIES)
def test_no_forgery_makes_a_test_pass(forged, tmp_path, name):
    found = forged.outcomes(FORGED[name])
    assert found
    assert not {"passed", "skipped"} & {str(outcome) for outcome in found}
    assert forged.verdict(FORGED[name], tmp_path / "c.yaml") == "DIVERGE"


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("import os\nos.kill(os.getpid(), 9)\n", "ended while it was imported"),
        ("import ctypes\ndef double(n): ctypes.string_at(0)\n", "ended during held.test_held"),
        ("import time\ndef double(n): time.sleep(600)\n", "did not end within 3 s"),
    ],
    ids=["kill", "segfault", "hang"],
)
def test_an_end_that_another_could_have_made_leaves_the_results_unobserved(repository, code, cause):
    read = source(repository, limits=Limits(cpu_seconds=1, wall_seconds=3.0))
    change(repository, ATTACK + code)
    assert cause in why_unobserved(read)


def test_used_up_cpu_time_is_a_timeout(repository):
    read = source(repository)
    change(repository, ATTACK + "def refuse():\n    while True: pass\n")
    assert outcomes(read)[REFUSES] == "timeout"


LOOK = """
import glob, os

def look():
    found = []
    packages = glob.glob(os.path.dirname(os.__file__) + "/*-packages/*/*.py")[:9]
    places = ["/tmp", "/proc", *packages, PLACE, os.path.dirname(PLACE), "/etc/passwd", "/root"]
    for place in [*places, *glob.glob("/proc/[0-9]*/*"), "/proc/%d/mem" % os.getppid()]:
        for way in (os.listdir, open):
            try:
                way(place)
                found.append(place)
            except OSError:
                pass
    for fd in range(3, 256):
        try:
            found.append(str(os.fstat(fd)))
        except OSError:
            pass
    return found

def write():
    try:
        open(PLACE, "w")
    except OSError:
        return "refused"
"""


def test_the_code_sees_no_file_no_process_and_no_pipe_of_the_tests(repository, tmp_path):
    if not can_be_confined():
        pytest.skip("Landlock is not to be had here")
    secret = tmp_path / "test_secret.py"
    secret.write_text("6")
    secret.chmod(0o666)
    change(repository, LOOK.replace("PLACE", repr(str(secret))))
    body = """\
def test_nothing():
    found = code.look()
    # Where the standard library is out of the user's way, a descriptor leads to it: a folder.
    assert [each for each in found if "st_mode=16" not in each] == []
    assert code.write() == "refused"
"""
    assert run(repository, body) == {"test_nothing": "passed"}


def test_who_cannot_be_kept_apart_cannot_be_cleared(repository, monkeypatch):
    monkeypatch.setattr("statediff_git.testruns.process._other_user", lambda _folder: None)
    if not is_root_of_the_machine():
        pytest.skip("only root stays a danger to what it is confined from")
    read = source(repository)
    change(repository, CODE + "# another\n")
    assert set(outcomes(read).values()) == {FORGEABLE}
    change(repository, ATTACK)
    assert set(outcomes(read).values()) == {"failed"}


PATCH = (
    "import unittest\nunittest.TestCase.assertEqual = lambda *a: None\n\n\n"
    "def double(n):\n    return n * n\n"
)
LINES = (
    {"module": "held.test_held", "tests": [THREE]},
    {"start": THREE},
    {"test": THREE, "outcome": "passed", "detail": None},
    {"ended": "held.test_held"},
)
WRITE = (
    "import os\nfor fd in range(3, 64):\n    try:\n        os.write(fd, "
    + repr("".join(json.dumps(line) + "\n" for line in LINES).encode())
    + ")\n    except OSError: pass\nos._exit(0)\n"
)


@pytest.mark.parametrize(
    ("is_outside", "code", "verdict"),
    [
        (True, "def double(n):\n    return n + n\n", "MATCH"),
        (True, PATCH, "DIVERGE"),
        (True, WRITE, "DIVERGE"),
        (True, "def double(n):\n    return n * n\n", "DIVERGE"),
        (False, "def double(n):\n    return n + n\n", "INCONCLUSIVE"),
        (False, PATCH, "INCONCLUSIVE"),
        (False, WRITE, "INCONCLUSIVE"),
        (False, "def double(n):\n    return n * n\n", "DIVERGE"),
    ],
)
def test_only_outside_can_clear_and_both_convict(tmp_path, is_outside, code, verdict):
    made = pygit2.init_repository(tmp_path / "origin.git", bare=True)
    own = TESTS.partition("    def test_refuses")[0]
    inside = own.replace("from outside import outside", "import code_under_test as code")
    files = {"held/test_held.py": inside.replace('code = outside("code_under_test")\n', "")}
    commit(made, files | {"src/code_under_test.py": "def double(n):\n    return 2 * n + 1\n"})
    place = Path(made.path)
    plan = TestPlan(("main",), "held", ("src",), {})
    if is_outside:
        plan = TestPlan(("main",), None, ("src",), modules_of(own), is_outside=True)
    read = TestRunSource("tests", place, plan, {"main": read_branch(place, "main") or {}})
    chunks = MemoryChunks()
    before = take([read], chunks, clock, None, "before")
    commit(made, files | {"src/code_under_test.py": code})
    after = take([read], chunks, clock, before, "after")
    contract = tmp_path / "contract.yaml"
    contract.write_text(MENDED)
    judgement = evaluate(load_contract(contract), before, after).judgement
    assert judgement.verdict.value == verdict
    if verdict == "INCONCLUSIVE":
        (open_,) = (f for f in judgement.findings if f.clause == "mended")
        assert open_.code == "evidence-forgeable"
        assert "`testruns: outside`" in open_.sentence
