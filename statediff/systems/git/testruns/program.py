"""The program that runs tests: started by path, `python -I -S -B`, never imported by statediff.

It is given one JSON order and writes JSON lines to one descriptor. It shuts itself off from what it
can (network, other processes), becomes another user where it may, and runs each test module in a
process of its own with limits. What the tested code does to these processes is its own loss: the
reader of the lines believes nothing that is not complete and in order.

1. `main` probes whether the other user could run at all, leaves the machine's namespaces, forks.
2. `_supervise` gives up all rights, then forks once a module and says how each ended.
3. `_run_module` imports the module and reports each test when it starts and when it ends.
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
import unittest
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

Send = Callable[[dict[str, Any]], None]

_NEW_USER, _NEW_PID, _NEW_NET, _NEW_IPC = 0x10000000, 0x20000000, 0x40000000, 0x08000000
_PARENT_DEATH_SIGNAL: Final = 1
_MAX_DETAIL: Final = 300
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

    send({"ran_as": "nobody" if user is not None else "evaluator", "network": network})
    supervisor = os.fork()
    if supervisor == 0:
        try:
            _supervise(order, user, processes, send)
        finally:
            os._exit(0)
    os.waitpid(supervisor, 0)


def _supervise(order: dict[str, Any], user: int | None, processes: int, send: Send) -> None:
    os.chdir(order["folder"])
    os.umask(0o077)
    if user is not None:
        _become(user)
    _call("prctl", _PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    # Behind the standard library: a file of the repository called json.py shadows nothing.
    sys.path += [str(Path(order["folder"], entry)) for entry in order["import_from"]]
    bounds = (
        ("RLIMIT_CPU", order["cpu_seconds"], order["cpu_seconds"] + 1),
        ("RLIMIT_AS", order["memory_bytes"], order["memory_bytes"]),
        ("RLIMIT_FSIZE", order["file_bytes"], order["file_bytes"]),
        ("RLIMIT_NPROC", processes, processes),
        ("RLIMIT_NOFILE", 128, 128),
        ("RLIMIT_CORE", 0, 0),
    )
    for module in order["modules"]:
        runner = os.fork()
        if runner == 0:
            try:
                for name, soft, hard in bounds:
                    # A system may lack one of them, or have a lower ceiling already.
                    with contextlib.suppress(AttributeError, ValueError, OSError):
                        resource.setrlimit(getattr(resource, name), (soft, hard))
                _run_module(module, send)
            finally:
                os._exit(0)
        _, status, used = os.wait4(runner, 0)
        spent = used.ru_utime + used.ru_stime >= order["cpu_seconds"] * 0.95
        send({"left": module, "status": os.waitstatus_to_exitcode(status), "spent": spent})


def _run_module(name: str, send: Send) -> None:
    try:
        module = importlib.import_module(name)
        suite = unittest.defaultTestLoader.loadTestsFromModule(module)
    except BaseException as error:  # noqa: BLE001 - whatever importing raises is the result
        send({"unimportable": name, "detail": _describe_error(error)})
        return
    send({"module": name, "tests": [test.id() for test in _tests(suite)]})
    suite.run(_Reporter(send))
    send({"ended": name})


def _tests(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for entry in suite:
        if isinstance(entry, unittest.TestSuite):
            yield from _tests(entry)
        else:
            yield entry


class _Reporter(unittest.TestResult):
    """Says when each test starts and, once, how it ended: with the first thing that went wrong."""

    def __init__(self, send: Send) -> None:
        super().__init__()
        self._send = send
        self._outcome: tuple[str, str | None] = ("passed", None)

    def startTest(self, test: unittest.TestCase) -> None:  # noqa: N802 - unittest's name
        super().startTest(test)
        self._outcome = ("passed", None)
        self._send({"start": test.id()})

    def stopTest(self, test: unittest.TestCase) -> None:  # noqa: N802 - unittest's name
        super().stopTest(test)
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
    """Whether that user can read the copy and the standard library; tried, in a process."""
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
