"""One engine behind every door: the same trial gets the same verdict, bytes and kind of failure."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

import pytest

from statediff import Verdict, api
from statediff.agents.function import FunctionAgent, as_answer
from statediff.capture.guard import Scans
from statediff.contract.file import ContractFile, load_contract
from statediff.errors import HarnessError, SandboxError, UsageError
from statediff.evidence.package import load
from statediff.harness import Hooks, TrialPlan
from statediff.suite import campaign
from statediff.suite.campaign import POOL, SandboxPool
from statediff.suite.records import fault_kind
from statediff.systems.base.folders import inhabitants
from statediff.systems.base.protocol import Sandbox
from statediff.systems.base.sandbox import EmbeddedSandbox
from statediff.workspace import trials
from statediff.workspace.agents import AgentOptions
from statediff.workspace.trials import HeldTrial, TrialRequest, lend, make_trial, open_sandbox
from tests.cli.conftest import Call, environment

pytest_plugins = "pytester"
CONTRACT = """\
contract: t/raise
version: 1.0.0
owner: t
intent: Raise the price of product 314.
sandbox: shop
answer:
  schema: {done: bool}
  claims:
    - answer.done
require:
  - id: raised
    update: product
    where: it.id == 314
    fields: [price_cents]
"""
AGENTS = """\
import contextlib, sqlite3, time
from pathlib import Path


def _do(trial, statement):
    with contextlib.closing(sqlite3.connect(path_of(trial), isolation_level=None)) as shop:
        shop.execute(statement)
    return {"done": True}


def path_of(trial):
    return trial.urls["shop-db"].removeprefix("sqlite:///")


def right(trial):
    return _do(trial, "UPDATE products SET price_cents = 1 WHERE id = 314")


def wrong(trial):
    return _do(trial, "UPDATE products SET price_cents = price_cents + 1")


def blinding(trial):
    right(trial)
    Path(path_of(trial)).write_bytes(b"no database any more")
    return {"done": True}


def waits(trial):
    (trial.folder / "is-waiting").touch()
    time.sleep(120)


def interrupts(trial):
    raise KeyboardInterrupt
"""
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
Judged: TypeAlias = tuple[str, Mapping[str, bytes]]
"""The verdict, and the files of the bundle."""
Door: TypeAlias = Callable[[str], Judged]


@pytest.fixture
def contract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A contract whose agents are functions of the module `engine_agents`."""
    (tmp_path / "engine_agents.py").write_text(AGENTS)
    (tmp_path / "raise.yaml").write_text(CONTRACT)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "engine_agents", raising=False)
    return tmp_path / "raise.yaml"


@pytest.fixture
def doors(
    contract: Path,
    tmp_path: Path,
    statediff: Call,
    pytester: pytest.Pytester,
    options: tuple[str, ...],
) -> dict[str, Door]:
    """The functions that make one trial of an agent of the contract, by the name of the door."""

    def by_command(agent: str) -> Judged:
        said = statediff("run", str(contract), "--agent", agent, "--sample-scans", "0", "--json")
        line = said.lines[0]
        return line["verdict"], load(tmp_path / line["bundle"]).files

    def by_api(agent: str) -> Judged:
        [judged] = api.run(contract, agent)
        return judged.verdict.value, judged.bundle.files

    def by_pytest(agent: str) -> Judged:
        pytester.makepyfile(f"""
            import pytest

            @pytest.mark.statediff({str(contract)!r})
            def test_it(statediff_run):
                statediff_run({agent!r})
            """)
        pytester.runpytest_inprocess(*options, f"--statediff-out={tmp_path / 'by-pytest'}")
        [kept] = (tmp_path / "by-pytest").iterdir()
        judged = api.load(kept)
        return judged.verdict.value, judged.bundle.files

    def held(agent: str) -> Judged:
        """As the body of a test and a solver of Inspect do it."""
        with (
            open_sandbox("shop") as sandbox,
            HeldTrial(
                load_contract(contract), tmp_path / "t-raise-1", agent=agent, lease=lend(sandbox)
            ) as trial,
        ):
            answer = FunctionAgent.load(agent).function(trial.trial)
            judged = api.Judged(trial.finish(as_answer(answer)))
            return judged.verdict.value, judged.bundle.files

    return {"run": by_command, "api": by_api, "pytest": by_pytest, "held": held}


@pytest.mark.parametrize(
    ("agent", "verdict"),
    [("right", "MATCH"), ("wrong", "DIVERGE"), ("blinding", "DIVERGE")],
)
def test_every_door_gives_the_same_trial_the_same_verdict_and_the_same_bytes(
    doors: dict[str, Door], agent: str, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "clock", lambda: NOON)
    found = {name: door(f"engine_agents:{agent}") for name, door in doors.items()}
    assert {name: judged[0] for name, judged in found.items()} == dict.fromkeys(doors, verdict)
    by_run = found["run"][1]
    assert found["api"][1] == by_run
    assert found["pytest"][1] == by_run
    # Who holds a trial open says no seed; nothing else of it is another.
    held = found["held"][1]
    assert {name for name in by_run if held[name] != by_run[name]} == {"trial.json"}


# ---------------------------------------------------------------- what fails around a trial


class Leaky(EmbeddedSandbox):
    """A sandbox that can be reset twice; from then on something is left behind."""

    resets = 0

    def reset(self) -> None:
        super().reset()
        self.resets += 1
        if self.resets > 2:
            (self.agent_folder / "left").touch()


@pytest.mark.usefixtures("leaky")
def test_a_faulty_environment_is_the_same_failure_at_every_door(
    statediff: Call,
    contract: Path,
    tmp_path: Path,
    pytester: pytest.Pytester,
    options: tuple[str, ...],
) -> None:
    right = "engine_agents:right"
    run = ("run", str(contract), "--agent", right, "-k", "2", "--json")
    first, second, last = statediff(*run, "--retries", "0").lines
    assert (first["verdict"], second["verdict"]) == ("MATCH", None)
    assert (second["cause"], last["summary"]["causes"]) == ("environment", {"environment": 1})
    assert "agent/left" in second["fault"]

    with pytest.raises(SandboxError) as raised:
        api.run(contract, right, trials=2)
    assert (fault_kind(raised.value), str(raised.value)) == (second["cause"], second["fault"])

    with api.open_sandbox("shop") as sandbox:
        [judged] = api.run(contract, right, sandbox=sandbox)
        assert judged.verdict is Verdict.MATCH
        with (
            pytest.raises(SandboxError, match="agent/left"),
            hold(load_contract(contract), tmp_path / "t", lend(sandbox)),
        ):
            raise AssertionError("it never begins")

    pytester.makepyfile(f"""
        import pytest

        @pytest.mark.parametrize("number", [1, 2, 3])
        @pytest.mark.statediff({str(contract)!r})
        def test_it(statediff_run, number):
            statediff_run({right!r})
        """)
    result = pytester.runpytest_inprocess(*options, "-v")
    # What failed in a sandbox costs one trial: the next one has another sandbox.
    assert result.parseoutcomes() == {"passed": 2, "errors": 1}
    result.stdout.fnmatch_lines(["*1? PASSED*", "*2? ERROR*", "*3? PASSED*"])


@pytest.mark.usefixtures("leaky")
def test_a_run_tries_again_what_failed_around_the_agent(statediff: Call, contract: Path) -> None:
    run = ("run", str(contract), "--agent", "engine_agents:right", "-k", "2", "--json")
    first, second, last = statediff(*run).lines
    assert (first["verdict"], second["verdict"], second["attempts"]) == ("MATCH", "MATCH", 2)
    assert last["summary"]["tried_again"] == 1


@pytest.fixture
def leaky(monkeypatch: pytest.MonkeyPatch) -> None:
    assert POOL.close()
    monkeypatch.setattr(campaign, "EmbeddedSandbox", Leaky)


def test_an_agent_that_cannot_start_is_the_same_failure_at_every_door(
    statediff: Call,
    contract: Path,
    tmp_path: Path,
    pytester: pytest.Pytester,
    options: tuple[str, ...],
) -> None:
    program = tmp_path / "broken"
    program.write_bytes(b"\x7fELF and nothing else")
    program.chmod(0o755)
    said = statediff("run", str(contract), "--agent-cmd", str(program), "--json")
    assert (said.code, said.lines[0]["cause"]) == (4, "adapter")
    with pytest.raises(HarnessError) as raised:
        api.run(contract, [str(program)])
    assert fault_kind(raised.value) == "adapter"
    assert str(raised.value) == said.lines[0]["fault"]
    pytester.makepyfile(f"""
        import pytest

        @pytest.mark.statediff({str(contract)!r})
        def test_it(statediff_run):
            statediff_run([{str(program)!r}])
        """)
    result = pytester.runpytest_inprocess(*options)
    assert result.parseoutcomes() == {"errors": 1}
    result.stdout.fnmatch_lines([f"*{said.lines[0]['fault'][:45]}*"])


def test_a_folder_that_is_taken_is_refused_and_stays_as_it_is(
    contract: Path, tmp_path: Path
) -> None:
    [judged] = api.run(contract, "engine_agents:right", out=tmp_path / "kept")
    with pytest.raises(HarnessError, match="nothing in it is overwritten") as raised:
        api.run(contract, "engine_agents:wrong", out=tmp_path / "kept")
    assert fault_kind(raised.value) == "storage"
    kept = tmp_path / "kept" / "t-raise-1"
    assert load(kept / "bundle").digest == judged.bundle.digest
    assert not (kept / "fault.txt").exists()


# ---------------------------------------------------------------- nothing is left behind


def test_an_interrupt_leaves_no_sandbox_at_any_door(
    statediff: Call,
    contract: Path,
    begun: Path,
    pytester: pytest.Pytester,
    options: tuple[str, ...],
) -> None:
    waits = "engine_agents:waits"
    with ctrl_c(begun):
        said = statediff("run", str(contract), "--agent", waits, "--json")
    assert (said.code, left_in(begun)) == (130, [])
    with pytest.raises(KeyboardInterrupt), ctrl_c(begun):
        api.run(contract, waits)
    assert left_in(begun) == []
    with (
        pytest.raises(KeyboardInterrupt),
        open_sandbox("shop") as sandbox,
        hold(load_contract(contract), begun / "t", lend(sandbox)),
    ):
        raise KeyboardInterrupt
    assert not [thread for thread in threading.enumerate() if thread.name == "held-trial"]
    pytester.makepyfile(f"""
        import pytest

        @pytest.mark.statediff({str(contract)!r})
        def test_it(statediff_run):
            statediff_run({waits!r})

        @pytest.mark.statediff({str(contract)!r})
        def test_body(statediff_sandbox):
            raise KeyboardInterrupt
        """)
    for name in ("test_it", "test_body"):
        with ctrl_c(begun):
            result = pytester.runpytest_inprocess(*options, "-k", name, no_reraise_ctrlc=True)
        assert result.ret == pytest.ExitCode.INTERRUPTED
    assert left_in(begun, besides="t") == []


@contextmanager
def ctrl_c(folder: Path) -> Iterator[None]:
    """Ctrl-C once an agent waits below the folder."""
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(0.05):
            # A trial's folder may be gone before it was listed, which is no trouble to this.
            if any("is-waiting" in names for _, _, names in os.walk(folder)):
                os.kill(os.getpid(), signal.SIGINT)
                return

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield
    finally:
        is_over.set()
        watching.join()


def test_an_agent_cannot_end_the_run_of_others(statediff: Call, contract: Path) -> None:
    agents = ("--agent", "engine_agents:interrupts", "--agent", "engine_agents:right")
    first, second, _ = statediff("run", str(contract), *agents, "--json").lines
    assert (first["verdict"], second["verdict"]) == ("DIVERGE", "MATCH")


def left_in(folder: Path, besides: str = "") -> list[str]:
    """The leftovers there: files and processes."""
    return [
        *(path.name for path in folder.iterdir() if path.name != besides),
        *map(str, inhabitants(str(folder))),
    ]


KILLED = """
import sys
import statediff
with statediff.open_sandbox("shop") as sandbox:
    print(sandbox.work.parent, flush=True)
    sys.stdin.read()
"""


def test_a_program_that_is_killed_leaves_no_sandbox_that_it_opened(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", KILLED],
        env=environment({"TMPDIR": str(tmp_path)}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        root = process.stdout.readline().strip()
        assert Path(root).parent == tmp_path
        process.send_signal(signal.SIGKILL)
        process.wait(30)
    until = time.monotonic() + 60
    while Path(root).exists() or inhabitants(root):
        assert time.monotonic() < until, "left behind"
        time.sleep(0.05)


# ---------------------------------------------------------------- what the engine is given


def test_a_contract_and_an_agent_are_named_or_given_and_the_sandbox_leased(
    contract: Path, tmp_path: Path
) -> None:
    used: list[Sandbox] = []
    hooks = Hooks(before_capture_after=used.append)
    named = TrialRequest(
        contract=contract, agent=AgentOptions(named="engine_agents:right"), hooks=hooks
    )
    agent = FunctionAgent.load("engine_agents:right")
    given = replace(named, contract=load_contract(contract), agent=agent)
    pool = SandboxPool()
    try:
        requests = {"named": named, "given": given, "leased": replace(given, lease=pool.lease)}
        for name, request in requests.items():
            done = make_trial(request, TrialPlan(name, tmp_path / name))
            assert done.evaluated.judgement.verdict is Verdict.MATCH
        assert used[0] is used[1] is not used[2]
    finally:
        assert pool.close()
        assert POOL.close()


def test_a_trial_is_scanned_as_often_as_the_request_says(contract: Path, tmp_path: Path) -> None:
    agent = FunctionAgent.load("engine_agents:right")
    with open_sandbox("shop") as sandbox:
        for rate, ways in ((0.0, (True, False)), (1.0, (True, True))):
            request = TrialRequest(
                contract=contract,
                agent=agent,
                lease=lend(sandbox),
                scans=Scans(rate, by_pages=True),
            )
            done = make_trial(request, TrialPlan("t", tmp_path / str(rate)))
            [shop] = [check for check in done.observed.checks if check.source == "shop-db"]
            assert (shop.by_pages, shop.by_scan) == ways


def test_a_request_of_names_can_be_sent_to_another_process(contract: Path) -> None:
    options = AgentOptions(named="engine_agents:right")
    request = TrialRequest(contract=contract, agent=options, scans=Scans(0.5, by_pages=True))
    assert pickle.loads(pickle.dumps(request)) == request


def test_a_held_trial_ends_once(contract: Path, tmp_path: Path) -> None:
    file = load_contract(contract)
    with open_sandbox("shop") as sandbox:
        with hold(file, tmp_path / "one", lend(sandbox)) as trial:
            assert not trial.is_over
            bundle = trial.finish()
            assert trial.is_over
            assert trial.finish(as_answer({"done": True})) is bundle
        with hold(file, tmp_path / "two", lend(sandbox)) as trial:
            pass
        with pytest.raises(UsageError, match="two is over and was not judged"):
            trial.finish()


def hold(file: ContractFile, folder: Path, lease: trials.Lease) -> HeldTrial:
    return HeldTrial(file, folder, agent="a test", lease=lease)
