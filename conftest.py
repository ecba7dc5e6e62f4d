"""Settings that hold for every test.

Hypothesis runs under one of two profiles, chosen with ``HYPOTHESIS_PROFILE``:

``ci``    the default: the same examples on every machine and run, so that a red test is a change;
``fuzz``  many random examples, for `make fuzz`; what it finds becomes a fixture.

A mark says what a test needs beyond Python: ``docker(image, …)`` real servers in containers,
``browser`` a Chromium, ``node`` Node.js with npm, ``clients(program, …)`` git, clients of databases
and the like, ``postgres`` a PostgreSQL server without Docker, ``host(name)`` a program that has an
environment of its own in ``.hosts``, ``pack(extra)`` the servers of packs, which extras bring,
``servers(module, …)`` servers and drivers in Python that only tests use.
Where a need is not met the test is skipped, and the summary says so in one line a need. A need that
``STATEDIFF_REQUIRE`` names (``"docker browser node clients postgres host pack servers"``) fails its
tests.

The meta-tests judge what a seed draws. It is another one in every run, which says it at its head;
``STATEDIFF_SEED`` gives it.

``STATEDIFF_PART=2/3`` runs the second third of the tests that are chosen, the same on each machine.
"""

import ast
import atexit
import gc
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.needs import NEEDS

# Workers inherit what whoever starts them has drawn.
os.environ.setdefault("STATEDIFF_SEED", str(secrets.randbelow(1_000_000)))
# What a user's commands keep is none of the tests'.
if "STATEDIFF_TESTS_STATE" not in os.environ:
    os.environ["STATEDIFF_TESTS_STATE"] = tempfile.mkdtemp(prefix="statediff-tests-state-")
    atexit.register(shutil.rmtree, os.environ["STATEDIFF_TESTS_STATE"], ignore_errors=True)
os.environ["XDG_STATE_HOME"] = os.environ["STATEDIFF_TESTS_STATE"]

# A shell ignores Ctrl-C for what it runs in the background, `nohup` the end of the terminal, and so
# would all that the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# No deadline anywhere: a loaded machine is not a finding. pytest-timeout catches what hangs.
settings.register_profile(
    "ci", derandomize=True, deadline=None, max_examples=60, print_blob=True, database=None
)
settings.register_profile(
    "fuzz",
    derandomize=False,
    deadline=None,
    max_examples=2_000,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="write the golden files anew")


def pytest_report_header() -> str:
    seed = os.environ["STATEDIFF_SEED"]
    return f"meta-tests: seed {seed}, again with STATEDIFF_SEED={seed}"


@pytest.fixture(scope="session")
def drawn_seed() -> int:
    """The seed of this run."""
    return int(os.environ["STATEDIFF_SEED"])


@pytest.fixture(scope="session")
def forked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a server of `tests/forked.py`."""
    folder = tmp_path_factory.mktemp("forked")
    checkout = Path(__file__).parent
    server = subprocess.Popen(
        [sys.executable, str(checkout / "tests" / "forked.py"), "serve", str(folder)],
        stdin=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(checkout), "PYTHONUTF8": "1"},
    )  # fmt: skip
    while not (folder / "ready").exists():
        assert server.poll() is None
        time.sleep(0.01)
    yield folder
    server.communicate()
    assert server.returncode == 0


@pytest.fixture
def in_memory(tmp_path: Path) -> Iterator[Path]:
    """A folder of a file system without a disk, where there is one."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as place:
        yield Path(place)


@pytest.hookimpl(tryfirst=True)  # before `-m` selects by mark
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A test that uses the browser's fixture has its mark; one of another part is left out."""
    for item in items:
        if "chromium" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.browser)
    part, _, parts = os.environ.get("STATEDIFF_PART", "1/1").partition("/")
    others = [i for i in items if zlib.crc32(i.nodeid.encode()) % int(parts) != int(part) - 1]
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in {*others}]


def pytest_collection_finish() -> None:
    """What thousands of tests are made of is looked at by no collection of garbage any more."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    required = os.environ.get("STATEDIFF_REQUIRE", "").split()
    for name, (title, why_not) in NEEDS.items():
        for marker in item.iter_markers(name):
            why = why_not(*marker.args)
            if why and name in required:
                pytest.fail(f"needs {title}: {why}", pytrace=False)
            if why:
                pytest.skip(f"needs {title}: {why}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says what was not run: a line a need, with the reason most tests have; then other reasons."""
    why: dict[str, Counter[str]] = {}
    for report in terminalreporter.stats.get("skipped", ()):
        text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        need, _, reason = text.removeprefix("Skipped: ").partition("\n")[0].partition(": ")
        why.setdefault(need, Counter())[reason] += 1
    if why:
        terminalreporter.section("NOT RUN", yellow=True)
    for need, reasons in sorted(why.items()):
        count = reasons.total()
        # Names are all said, of reasons the one that most have.
        are_names = not any(" " in each for each in reasons)
        reason = ", ".join(sorted(reasons)) if are_names else reasons.most_common(1)[0][0]
        terminalreporter.line(
            f"{count} test{'s' * (count != 1)}, {need}{': ' * bool(reason)}{reason}"
        )


def _parse_again(parse: Callable[..., Any]) -> Callable[..., Any]:
    """The parser that rewrites imports for pytest, asked anew where Python 3.11 lost its count.

    What is collected in the middle of a parse may parse as well; then the first raises SystemError
    (python/cpython#106905), and the module could never be imported.
    """

    def parsed(*arguments: Any, **named: Any) -> Any:
        try:
            return parse(*arguments, **named)
        except SystemError:
            return parse(*arguments, **named)

    return parsed


ast.parse = _parse_again(ast.parse)
