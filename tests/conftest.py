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
import hashlib
import importlib.util
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
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings
from packaging.requirements import Requirement

from statediff.errors import StatediffError

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
    checkout = Path(__file__).parents[1]
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


def chromium_path() -> str | None:
    """The Chromium that tests of pages use, if there is one."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    found = (path for name in names if (path := shutil.which(name)))
    return os.environ.get("STATEDIFF_CHROMIUM") or next(found, None)


@cache
def why_no_docker(*images: str) -> str:
    """Why tests with containers of these images cannot run; empty if they can."""
    try:
        from statediff.systems.containers.engine import connect  # noqa: PLC0415 - an extra
        from statediff.systems.containers.images import missing_images  # noqa: PLC0415 - an extra

        missing = missing_images(connect(), images)
    except ModuleNotFoundError as error:
        return f"{error.name} is not installed; `pip install statediff[docker]`"
    except StatediffError as error:
        return str(error)
    return f"run `statediff sandbox build {' '.join(missing)}`" if missing else ""


def why_no_browser() -> str:
    """Why tests of pages cannot run; empty if they can."""
    return (
        ""
        if chromium_path()
        else "no Chromium on PATH; install it or name it in STATEDIFF_CHROMIUM"
    )


def why_no_node() -> str:
    """Why tests with an editor's language server cannot run; empty if they can."""
    return why_no_clients("node", "npm")


def why_no_clients(*programs: str) -> str:
    """Which of the programs is not on PATH; empty if all are."""
    missing = [program for program in programs if shutil.which(program) is None]
    return f"not on PATH: {', '.join(missing)}" if missing else ""


def why_no_postgres() -> str:
    """Why tests of PostgreSQL servers without Docker cannot run; empty if they can."""
    return "" if package_programs() else "no package pgserver; `pip install statediff[postgres]`"


@cache
def package_programs() -> Path | None:
    """The folder of the PostgreSQL programs that the package `pgserver` brings, if it is here."""
    spec = importlib.util.find_spec("pgserver")
    if spec is None or spec.origin is None or not sys.platform.startswith("linux"):
        return None
    return Path(spec.origin).parent / "pginstall" / "bin"


def hosts_folder() -> Path:
    """Where the environments of hosts are."""
    return Path(os.environ.get("STATEDIFF_HOSTS") or Path(__file__).parents[1] / ".hosts")


def why_no_host(name: str) -> str:
    """The host, whose environment is not there; empty if it is."""
    checkout = Path(__file__).parents[1]
    needed = [checkout / "requirements" / "hosts" / f"{name}.txt", checkout / "pyproject.toml"]
    wanted = hashlib.sha256(b"".join(path.read_bytes() for path in needed)).hexdigest()
    stamp = hosts_folder() / name / "stamp"
    is_made = stamp.is_file() and stamp.read_text().strip() == wanted
    return "" if is_made else name


def why_no_pack(extra: str) -> str:
    """The extra of a pack, where not all servers of packs are installed."""
    return extra if has_no_servers() else ""


@cache
def has_no_servers() -> bool:
    """Whether something that the extra `packs` brings is not installed."""
    needs = [Requirement(each) for each in metadata.requires("statediff") or ()]
    return any(
        _is_missing(need.name)
        for need in needs
        if need.marker and need.marker.evaluate({"extra": "packs"})
    )


def _is_missing(distribution: str) -> bool:
    try:
        metadata.distribution(distribution)
    except metadata.PackageNotFoundError:
        return True
    return False


def why_no_servers(*modules: str) -> str:
    """Which of the modules is not installed; empty if all are."""
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    return f"{', '.join(missing)} not installed; `make setup`" if missing else ""


NEEDS: Final[dict[str, tuple[str, Callable[..., str]]]] = {
    "docker": ("Docker", why_no_docker),
    "browser": ("a browser", why_no_browser),
    "node": ("Node.js", why_no_node),
    "clients": ("clients", why_no_clients),
    "postgres": ("a PostgreSQL without Docker", why_no_postgres),
    "host": ("environments of hosts, see `make hosts`", why_no_host),
    "pack": ("servers of packs, see `make packs`", why_no_pack),
    "servers": ("servers that only tests use", why_no_servers),
}
"""Mark → its name in the summary, and what says why a test with the mark's arguments cannot run."""


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
