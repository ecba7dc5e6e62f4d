"""The program that runs tests: started by path, `python -S -P -B`, never imported by statediff.

It is given one JSON order and writes JSON lines to one descriptor. It shuts the tested code off
from what it can (network, other processes, files), makes it another user where it may, and puts
limits on it.

1. `main` probes whether the other user could run at all, leaves the machine's namespaces, forks.
2. Inside: `_supervise` gives up all rights, then forks once a module and says how each ended;
   tests and code share a process, and whatever the tested code does to it is its own loss: the
   reader of the lines believes nothing that is not complete and in order.
3. Outside: the fork serves the code (`code_process`), and has nothing of the tests, which are
   imported afterwards and run here. The code has no part in the lines.
4. `_run_module` imports a module of tests and reports each test when it starts and when it ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import resource
import signal
import sys
import traceback
import types
import unittest
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from statediff_git.testruns.outside import Code

Send = Callable[[dict[str, Any]], None]

_NEW_USER, _NEW_PID, _NEW_NET, _NEW_IPC = 0x10000000, 0x20000000, 0x40000000, 0x08000000
_PARENT_DEATH_SIGNAL: Final = 1
_MAX_DETAIL: Final = 300
_PACKAGE: Final = "statediff_git.testruns"
_BASE: Final = "statediff.systems.base"
_STDLIB: Final = str(Path(os.__file__).parent)


def main() -> None:
    """The order in the first argument is carried out; the exit code says nothing."""
    order = json.loads(sys.argv[1])
    user = order["user"]
    if user is not None and not _can_run_as(user, order["folder"]):
        user = None
    processes = order["processes"] + (0 if user is not None else _processes_of(os.getuid()))
    network = _shut_off()

    def send(line: dict[str, Any]) -> None:
        os.write(order["results"], json.dumps(line).encode("ascii") + b"\n")

    shut = _Shut(order, user, processes)
    ran_as = "nobody" if user is not None else "evaluator"
    if order["tests"] is None:
        send({"ran_as": ran_as, "network": network, "is_forgeable": True})
        _in_a_fork(lambda: _supervise(order, shut, send))
    else:
        _run_outside(order, shut, send, ran_as, network)


def _in_a_fork(serve: Callable[[], None], wait: bool = True) -> int:
    """`serve` runs in a process of its own: the first of its namespace, if there is one."""
    child = os.fork()
    if child == 0:
        try:
            serve()
        finally:
            os._exit(0)
    if wait:
        os.waitpid(child, 0)
    return child


@dataclass(frozen=True)
class _Shut:
    """How a process is shut off in which the tested code runs."""

    order: dict[str, Any]
    user: int | None
    processes: int

    def give_up(self) -> None:
        """This process is in the copy, is the other user, and dies with its parent."""
        os.chdir(self.order["folder"])
        os.umask(0o077)
        if self.user is not None:
            _become(self.user)
        else:
            _fence(self.order["base"])
        _call("prctl", _PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        # Behind the standard library: a file of the repository called json.py shadows nothing.
        sys.path += [str(Path(self.order["folder"], entry)) for entry in self.order["import_from"]]

    def limit(self) -> None:
        """This process has the limits of the order, and cannot raise them."""
        order = self.order
        for name, soft, hard in (
            ("RLIMIT_CPU", order["cpu_seconds"], order["cpu_seconds"] + 1),
            ("RLIMIT_AS", order["memory_bytes"], order["memory_bytes"]),
            ("RLIMIT_FSIZE", order["file_bytes"], order["file_bytes"]),
            ("RLIMIT_NPROC", self.processes, self.processes),
            ("RLIMIT_NOFILE", 128, 128),
            ("RLIMIT_CORE", 0, 0),
        ):
            # A system may lack one of them, or have a lower ceiling already.
            with contextlib.suppress(AttributeError, ValueError, OSError):
                resource.setrlimit(getattr(resource, name), (soft, hard))


def _supervise(order: dict[str, Any], shut: _Shut, send: Send) -> None:
    shut.give_up()
    for module in order["modules"]:
        runner = os.fork()
        if runner == 0:
            try:
                shut.limit()
                _run_module(module, send, None)
            finally:
                os._exit(0)
        _, status, used = os.wait4(runner, 0)
        spent = used.ru_utime + used.ru_stime >= order["cpu_seconds"] * 0.95
        send({"left": module, "status": os.waitstatus_to_exitcode(status), "spent": spent})


def _run_outside(order: dict[str, Any], shut: _Shut, send: Send, ran_as: str, network: str) -> None:
    """The tests run here, on code behind a pipe: see `code_process` and `outside`."""
    _find_alone(order["base"])
    from statediff.systems.base.landlock import bind_rules  # noqa: PLC0415 - found only now
    from statediff_git.testruns.code_process import (  # noqa: PLC0415 - found only now
        can_be_confined,
        hide_memory,
        is_root_of_the_machine,
        rules_for,
        serve,
        two_ends,
    )

    is_confined = can_be_confined()
    here, there = two_ends()

    def enter(rules: int | None) -> None:
        shut.give_up()
        if rules is not None:
            bind_rules(rules)
            os.close(rules)
        shut.limit()
        _look_ordinary()

    def hold_the_pipe() -> None:
        kept = sorted((there.reader, there.writer))
        for first, end in zip((2, *kept), (*kept, 1 << 16), strict=True):
            os.closerange(first + 1, end)
        _call("prctl", _PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        hide_memory()
        # Opened here: the other user may not get there by their paths.
        rules = rules_for(order["folder"], _STDLIB, sys.base_prefix) if is_confined else None
        serve(there, lambda: enter(rules), order["cpu_seconds"])

    hide_memory()
    server = _in_a_fork(hold_the_pipe, wait=False)
    there.close()
    # Another user's process, or a confined one, reaches neither the tests nor what they say.
    is_apart = shut.user is not None or (is_confined and not is_root_of_the_machine())
    send({"ran_as": ran_as, "network": network, "is_forgeable": not is_apart})
    from statediff_git.testruns.outside import connect  # noqa: PLC0415 - not in the fork

    sys.modules["outside"] = sys.modules[f"{_PACKAGE}.outside"]
    sys.path.insert(0, order["tests"])
    code = connect(here)
    for module in order["modules"]:
        code.renew()
        _run_module(module, send, code)
        send({"left": module, "status": 0, "spent": False} | (code.end or {}))
    here.close()
    os.waitpid(server, 0)


def _look_ordinary() -> None:
    """Code that does right only where tests run finds no sign of them in this interpreter."""
    for name in [name for name in sys.modules if name.startswith(("statediff", "unittest"))]:
        del sys.modules[name]
    sys.modules["__main__"] = types.ModuleType("__main__")
    sys.argv[:] = [""]


def _run_module(name: str, send: Send, code: Code | None) -> None:
    """The tests of a module are run and reported; `code` is what those outside run on."""
    try:
        module = importlib.import_module(name)
        suite = unittest.defaultTestLoader.loadTestsFromModule(module)
        if code is not None:
            suite.addTests(_functions(module))
            code.fault = None  # the module made of it what it wanted
    except BaseException as error:  # noqa: BLE001 - whatever importing raises is the result
        if code is None or code.end is None:
            send({"unimportable": name, "detail": _describe_error(error)})
        return
    send({"module": name, "tests": [test.id() for test in _tests(suite)]})
    suite.run(_Reporter(send, code))
    if code is None or code.end is None:
        send({"ended": name})


class _Function(unittest.FunctionTestCase):
    """A plain function `test_…` of a module, by its own name."""

    def __init__(self, function: Callable[[], None], name: str) -> None:
        super().__init__(function)
        self._name = name

    def id(self) -> str:
        return self._name


def _functions(module: types.ModuleType) -> Iterator[unittest.TestCase]:
    for name, found in sorted(vars(module).items()):
        if name.startswith("test") and isinstance(found, types.FunctionType):
            yield _Function(found, f"{module.__name__}.{name}")


def _tests(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for entry in suite:
        if isinstance(entry, unittest.TestSuite):
            yield from _tests(entry)
        else:
            yield entry


class _Reporter(unittest.TestResult):
    """Says when each test starts and, once, how it ended: with the first thing that went wrong."""

    def __init__(self, send: Send, code: Code | None) -> None:
        super().__init__()
        self._send = send
        self._code = code
        self._outcome: tuple[str, str | None] = ("passed", None)

    def startTest(self, test: unittest.TestCase) -> None:  # noqa: N802 - unittest's name
        super().startTest(test)
        self._outcome = ("passed", None)
        self._send({"start": test.id()})

    def stopTest(self, test: unittest.TestCase) -> None:  # noqa: N802 - unittest's name
        super().stopTest(test)
        if self._code is not None and self._code.end is not None:
            self.shouldStop = True  # the module is over, and this test has no result
            return
        if self._code is not None and self._code.fault is not None:
            # Whatever the test made of it: nothing that the test saw was the code's.
            self._outcome, self._code.fault = ("error", _shorten(self._code.fault)), None
        outcome, detail = self._outcome
        self._send({"test": test.id(), "outcome": outcome, "detail": detail})

    def _end(self, outcome: str, detail: str) -> None:
        if self._outcome[0] == "passed":
            self._outcome = (outcome, _shorten(detail))

    def addError(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802 - unittest's name
        self._end("error", _describe_error(err[1]))

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802 - unittest's name
        self._end("failed", _describe_error(err[1]))

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802 - unittest's name
        if err is not None:
            failed = issubclass(err[0], test.failureException)
            self._end("failed" if failed else "error", _describe_error(err[1]))

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:  # noqa: N802 - unittest's name
        self._end("skipped", reason)

    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802 - unittest's name
        self._end("failed", f"as expected: {_describe_error(err[1])}")

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802 - unittest's name
        """It passed; that it was expected not to is the test's own business."""


def _describe_error(error: BaseException | None) -> str:
    try:
        lines = traceback.format_exception_only(type(error), error)
        return _shorten(lines[-1].strip().partition("\n")[0])
    except BaseException:  # noqa: BLE001 - an exception whose text raises is still an exception
        return _shorten(type(error).__name__)


def _shorten(text: object) -> str:
    """The text shortened, without halves of surrogate pairs: no reader would take those."""
    return str(text)[:_MAX_DETAIL].encode("utf-8", "backslashreplace").decode()


def _become(user: int) -> None:
    """This process is the other user for good, and can still import the standard library.

    Its folder may lie where that user cannot go (e.g. in root's home). A descriptor opened before
    leads there all the same; it shows nothing but the standard library, to read.
    """
    library = os.open(_STDLIB, os.O_RDONLY | os.O_DIRECTORY)
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    if not os.access(f"{_STDLIB}/os.py", os.R_OK):
        through = f"/proc/self/fd/{library}"
        packages = [
            m for m in sys.modules.values() if isinstance(getattr(m, "__path__", None), list)
        ]
        for places in (sys.path, *(package.__path__ for package in packages)):
            places[:] = [place.replace(_STDLIB, through, 1) for place in places]


def _can_run_as(user: int, folder: str) -> bool:
    """True if that user can read the copy and the standard library; tried, in a process."""
    probe = os.fork()
    if probe == 0:
        code = 1
        try:
            _become(user)
            readable = (os.access(f"{entry}/os.py", os.R_OK) for entry in sys.path)
            code = 0 if any(readable) and os.access(folder, os.R_OK | os.X_OK) else 1
        finally:
            os._exit(code)
    return os.waitpid(probe, 0)[1] == 0


def _shut_off() -> str:
    """`none` where there is no network any more, else `machine`. Linux only, where it is allowed.

    In a process namespace of its own, nothing the tests leave behind outlives them.
    """
    mine = os.getuid(), os.getgid()
    extra = 0 if mine[0] == 0 else _NEW_USER
    for flags in (extra | _NEW_NET | _NEW_PID | _NEW_IPC, extra | _NEW_NET):
        if _call("unshare", flags) == 0:
            if extra:
                with contextlib.suppress(OSError):
                    Path("/proc/self/setgroups").write_text("deny", "ascii")
                    Path("/proc/self/uid_map").write_text(f"{mine[0]} {mine[0]} 1", "ascii")
                    Path("/proc/self/gid_map").write_text(f"{mine[1]} {mine[1]} 1", "ascii")
            return "none"
    return "machine"


def _call(name: str, *arguments: int) -> int:
    try:
        return int(getattr(ctypes.CDLL(None), name)(*arguments))
    except (AttributeError, OSError):
        return -1  # not Linux


def _find_alone(base: str) -> None:
    """Make modules beside this file and in `base` importable; nothing else of statediff is."""
    for name, folder in ((_PACKAGE, Path(__file__).parent), (_BASE, base)):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = [str(folder)]


def _fence(base: str) -> None:
    """No signal gets from here to a process outside, where Landlock knows that."""
    _find_alone(base)
    from statediff.systems.base.landlock import fence_signals  # noqa: PLC0415 - found only now

    fence_signals()
    for name in [name for name in sys.modules if name.startswith("statediff")]:
        del sys.modules[name]


def _processes_of(user: int) -> int:
    """How many threads the user has already: the limit on processes counts those too."""
    count = 0
    for entry in os.scandir("/proc") if Path("/proc").is_dir() else ():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and entry.stat().st_uid == user:
                count += len(os.listdir(f"{entry.path}/task"))  # noqa: PTH208 - a count
    return count


if __name__ == "__main__":
    main()
