"""pytest: contracts as tests, and tests whose verdict a contract decides.

    @pytest.mark.statediff("shop/refund-returned-order")
    def test_my_agent(statediff_run):
        statediff_run(my_agent)                     # fails on DIVERGE, with the report

    @pytest.mark.statediff("shop/refund-returned-order")
    def test_by_hand(statediff_sandbox):            # the body of the test is the agent
        database = sqlite3.connect(statediff_sandbox.path("shop-db"))
        …

MATCH passes and DIVERGE fails. INCONCLUSIVE is an outcome of its own, "1 passed, 1 inconclusive":
it fails the session unless `--statediff-inconclusive=report` says otherwise, and never passes. A
trial that could not be made is an error. Files that match the option `statediff_contracts` (default
`*.contract.yaml`) are collected.

Every session of pytest with statediff installed loads this module, and under xdist every worker
does: nothing else of statediff is imported before a test asks for it, and every sandbox belongs to
one process.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from statediff.integrations.pytest_trials import Body, Runner, Trials

MARKER: Final = "statediff"
CATEGORY: Final = "inconclusive"
LINTED: Final = "linted"
_KIND: Final = "statediff_verdict"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options and settings of the plugin are known."""
    group = parser.getgroup("statediff")
    group.addoption(
        "--statediff-agent",
        metavar="MODULE:FUNCTION",
        help="The agent of collected contracts: a function, or a name in the contract's folder.",
    )
    group.addoption(
        "--statediff-agent-cmd", metavar="CMD", help="The agent of collected contracts: a program."
    )
    group.addoption(
        "--statediff-trials",
        metavar="K",
        type=int,
        default=1,
        help="Trials of each collected contract.",
    )
    group.addoption(
        "--statediff-inconclusive",
        choices=("fail", "report"),
        default="fail",
        help="Whether INCONCLUSIVE fails the session (default), or is only reported.",
    )
    group.addoption(
        "--statediff-out", metavar="DIR", help="Keep the bundle of every trial in this folder."
    )
    parser.addini(
        "statediff_contracts",
        type="args",
        default=["*.contract.yaml"],
        help="Which files are contracts to be collected; `contract.yaml` for folders like a pack's",
    )
    parser.addini("statediff_agent", help="As --statediff-agent.", default="")
    parser.addini("statediff_agent_cmd", help="As --statediff-agent-cmd.", default="")


def pytest_configure(config: pytest.Config) -> None:
    """The marker is known; options that contradict each other are refused at once."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}(contract, variant='embedded', case=None): the contract that decides the test, "
        "for the fixtures statediff_run and statediff_sandbox",
    )
    if config.getoption("--statediff-trials") < 1:
        raise pytest.UsageError("--statediff-trials: expected 1 or more")
    if config.getoption("--statediff-agent") and config.getoption("--statediff-agent-cmd"):
        raise pytest.UsageError("give either --statediff-agent or --statediff-agent-cmd")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """A contract's file is a collection of tests."""
    patterns = parent.config.getini("statediff_contracts")
    if not any(file_path.match(pattern) for pattern in patterns):
        return None
    from statediff.integrations import pytest_trials  # noqa: PLC0415 - only where there is one

    found: pytest.Collector = pytest_trials.ContractTests.from_parent(parent, path=file_path)
    return found


# ---------------------------------------------------------------- fixtures


@pytest.fixture
def statediff_run(request: pytest.FixtureRequest) -> Runner:
    """Runs an agent under the test's contract and requires MATCH, or another `expect`."""
    return _trials(request.config).runner(request.node)


@pytest.fixture
def statediff_sandbox(request: pytest.FixtureRequest) -> Iterable[Body]:
    """A sandbox that was reset and proven; what the test does in it is judged at its end."""
    from statediff.errors import UsageError  # noqa: PLC0415 - as said above

    with ExitStack() as stack:
        try:
            body = stack.enter_context(_trials(request.config).body(request.node))
        except UsageError as error:
            raise pytest.fail.Exception(str(error), pytrace=False) from None
        request.node.stash[_BODY] = body
        yield body


def _trials(config: pytest.Config) -> Trials:
    from statediff.integrations.pytest_trials import trials_of  # noqa: PLC0415 - as said above

    return trials_of(config)


_BODY: Final = pytest.StashKey[Any]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """A test that acts in a sandbox passes if its contract says so, too."""
    result = yield
    body = item.stash.get(_BODY, None)
    if body is not None:
        body.end()
    return result


# ---------------------------------------------------------------- outcomes


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the kind of the failed trial to the test's report, for other processes as well."""
    report = yield
    if call.excinfo is None or call.when != "call":
        return report
    from statediff.errors import HarnessError  # noqa: PLC0415 - as said above
    from statediff.integrations.verdicts import Inconclusive  # noqa: PLC0415 - as said above

    if call.excinfo.errisinstance(HarnessError) and report.failed:
        setattr(report, _KIND, "error")
    if call.excinfo.errisinstance(Inconclusive):
        # An expected failure is one that was seen; this one was not decided.
        vars(report).pop("wasxfail", None)
        setattr(report, _KIND, CATEGORY)
        report.outcome = "failed"
        if item.config.getoption("--statediff-inconclusive") == "report":
            report.outcome = "skipped"
            path, line, _ = item.location
            text = item.repr_failure(call.excinfo)
            report.sections.append(("INCONCLUSIVE", str(text)))
            report.longrepr = (path, line or 0, f"INCONCLUSIVE: {_first(call.excinfo.value)}")
        elif not report.longrepr:
            report.longrepr = item.repr_failure(call.excinfo)
    return report


def pytest_report_teststatus(
    report: pytest.CollectReport | pytest.TestReport,
) -> tuple[str, str, str | tuple[str, dict[str, bool]]] | None:
    """INCONCLUSIVE is counted as such, and so is a contract that was only linted.

    A trial that could not be made is an error.
    """
    if report.passed and report.when == "call" and (_KIND, LINTED) in report.user_properties:
        return LINTED, "l", (LINTED.upper(), {"green": True})
    kind = getattr(report, _KIND, None)
    if kind == CATEGORY:
        return CATEGORY, "I", (CATEGORY.upper(), {"yellow": True})
    return ("error", "E", ("ERROR", {"red": True})) if kind == "error" else None


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Every trial that was not decided is listed, with its report."""
    undecided = terminalreporter.stats.get(CATEGORY, [])
    if not undecided:
        return
    terminalreporter.section("INCONCLUSIVE", yellow=True)
    for report in undecided:
        terminalreporter.line(f"INCONCLUSIVE {report.nodeid}", yellow=True)
        terminalreporter.line(dict(report.sections).get("INCONCLUSIVE") or str(report.longrepr))


def _first(error: BaseException) -> str:
    return str(error).partition("\n")[0]
