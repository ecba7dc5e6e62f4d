"""Settings that hold for every test.

Hypothesis runs under one of two profiles, chosen with ``HYPOTHESIS_PROFILE``:

``ci``    the default: the same examples on every machine and run, so that a red test is a change;
``fuzz``  many random examples, for `make fuzz`; what it finds becomes a fixture.

Tests marked ``docker(image, …)`` use real servers in containers. Where there is no engine, or the
images have not been built, they are skipped and the summary says so; with
``STATEDIFF_REQUIRE_DOCKER=1`` they fail instead.

The meta-tests judge what a seed draws. It is another one in every run, which says it at its head;
``STATEDIFF_SEED`` gives it.
"""

import gc
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from statediff.errors import StatediffError

NOT_RUN = "needs Docker: "
# Workers inherit what whoever starts them has drawn.
os.environ.setdefault("STATEDIFF_SEED", str(secrets.randbelow(1_000_000)))

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


@cache
def why_no_docker(*images: str) -> str:
    """Why tests with containers of these images cannot run; empty if they can."""
    try:
        from statediff.sandbox.containers import connect  # noqa: PLC0415 - an extra
        from statediff.sandbox.images import missing_images  # noqa: PLC0415 - an extra

        missing = missing_images(connect(), images)
    except ModuleNotFoundError as error:
        return f"{error.name} is not installed; `pip install statediff[docker]`"
    except StatediffError as error:
        return str(error)
    return f"run `statediff sandbox build {' '.join(missing)}`" if missing else ""


def pytest_collection_finish() -> None:
    """What thousands of tests are made of is looked at by no collection of garbage any more."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    marker = item.get_closest_marker("docker")
    why = "" if marker is None else why_no_docker(*marker.args)
    if why and os.environ.get("STATEDIFF_REQUIRE_DOCKER"):
        pytest.fail(NOT_RUN + why, pytrace=False)
    if why:
        pytest.skip(NOT_RUN + why)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = [str(report.longrepr) for report in terminalreporter.stats.get("skipped", ())]
    reasons = [text.rpartition(NOT_RUN)[2].rstrip("')\"") for text in skipped if NOT_RUN in text]
    if reasons:
        terminalreporter.section("NOT RUN: real servers in containers", yellow=True)
        terminalreporter.line(
            f"{len(reasons)} tests of real servers were not run, because: {reasons[0]}. "
            "Everything without Docker was."
        )
