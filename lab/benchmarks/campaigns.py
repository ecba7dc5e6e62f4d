"""A suite whose workers and client are killed at random; and what a trial in it costs more.

    python -m lab.benchmarks.campaigns --trials 1000 --jobs 2                 processes of our own
    python -m lab.benchmarks.campaigns --trials 1000 --jobs 3 --dask          a real Dask cluster
    python -m lab.benchmarks.campaigns --overhead 100                         CPU time, interleaved

The client is begun again with `--resume` until the suite is done. Afterwards every verdict that was
ever reported must be on disk as it was reported, every scheduled trial must have exactly one, the
last resume must have made exactly what was missing, and no sandbox and no process may be left.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from statediff.systems.base.folders import inhabitants

CHECKOUT = Path(__file__).parents[2]
TASK = "shop/notify-once"
QUIET_SECONDS = 60.0
"""A worker of a cluster keeps its sandbox for half of this after the last trial."""


def idle(_trial: Any) -> None:
    """An agent that does nothing, as fast as can be."""


@dataclass
class Told:
    """What was seen of a suite from outside."""

    verdicts: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Trial → verdict and the digest of its manifest, when it was reported."""
    workers_killed: int = 0
    clients_killed: list[int] = field(default_factory=list)
    """For each of them, how many verdicts had been reported until then."""
    summary: dict[str, Any] = field(default_factory=dict)
    kept: int = 0
    """Bundles that were there when the last client began."""
    faults: list[str] = field(default_factory=list)


def survived(
    trials: int, jobs: int, base: Path, *, dask: bool, kills: float, clients: int, seed: int,
    first: int = 0,
) -> Told:  # fmt: skip
    """The suite, carried through; `AssertionError` where something was lost or left.

    No client is killed before it has reported `first` verdicts.
    """
    chance, told = random.Random(seed), Told()
    temporary = base / "tmp"
    temporary.mkdir(parents=True)
    environment = {
        **os.environ, "PYTHONPATH": str(CHECKOUT), "TMPDIR": str(temporary),
        "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0", "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    with contextlib.ExitStack() as stack:
        where: list[str] = ["-j", str(jobs)]
        cluster: list[int] = []
        if dask:
            address, cluster = stack.enter_context(_cluster(base, jobs, environment))
            where = ["--scheduler", address]
        command = [
            sys.executable, "-m", "statediff", "run", TASK, "--agent",
            "lab.benchmarks.campaigns:idle", "-k", str(trials), *where, "--out", str(base / "runs"),
            "--store", f"sqlite:///{base}/store.sqlite", "--resume", "--retries", "5", "--json",
        ]  # fmt: skip
        # A trial whose workers were killed too often has no verdict yet, and a resume makes it.
        while not told.summary or told.summary["fault"] or told.summary["not_run"]:
            told.summary = {}
            told.kept = len(_bundles(base))
            client = subprocess.Popen(
                command, cwd=base, env=environment, stdout=subprocess.PIPE, start_new_session=True
            )
            end = threading.Event()
            killer = threading.Thread(
                target=_kill,
                args=(client, cluster, told, chance, kills, clients, first, end),
            )
            killer.start()
            try:
                _listen(client, base, told)
            finally:
                end.set()
                killer.join()
                client.wait()
        _check(base, trials, told)
    until = time.monotonic() + QUIET_SECONDS
    while (left := _left(temporary)) and time.monotonic() < until:
        time.sleep(0.5)
    assert not left, f"left behind: {left}"
    return told


def _listen(client: subprocess.Popen[bytes], base: Path, told: Told) -> None:
    assert client.stdout is not None
    for line in client.stdout:
        try:
            said = json.loads(line)
        except ValueError:
            continue  # the client was killed in the middle of it
        if "summary" in said:
            told.summary = said["summary"]
        elif said.get("verdict"):
            manifest = (base / said["bundle"] / "manifest.json").read_bytes()
            told.verdicts[said["trial"]] = (said["verdict"], hashlib.sha256(manifest).hexdigest())
        elif said.get("fault"):
            told.faults.append(f"{said['cause']}: {said['fault']}")
        elif "error" in said:
            raise AssertionError(said)


def _kill(
    client: subprocess.Popen[bytes], cluster: list[int], told: Told, chance: random.Random,
    every_seconds: float, clients: int, first: int, end: threading.Event,
) -> None:  # fmt: skip
    """Workers, and so many clients in all, end by `kill -9` at random moments.

    Between two workers a verdict is reported: on a loaded machine none would ever come up
    otherwise.
    """
    enough, seen = len(told.verdicts) + first, -1
    while not end.wait(chance.expovariate(1 / every_seconds) if every_seconds else None):
        has_told = len(told.verdicts) >= enough
        if has_told and len(told.clients_killed) < clients and chance.random() < 0.3:
            told.clients_killed.append(len(told.verdicts))
            client.kill()
            return
        workers = _workers_of(cluster or [client.pid], is_dask=bool(cluster))
        if workers and len(told.verdicts) != seen:
            seen = len(told.verdicts)
            with contextlib.suppress(ProcessLookupError):
                os.kill(chance.choice(workers), signal.SIGKILL)
                told.workers_killed += 1


def _workers_of(roots: list[int], *, is_dask: bool) -> list[int]:
    """The processes that make trials: what the nannies of a cluster, or our fork server, began."""
    children: dict[int, list[int]] = {}
    words: dict[int, bytes] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            pid = int(entry.name)
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(pid)
            words[pid] = (entry / "cmdline").read_bytes()
    if is_dask:
        # They change their own words once they are up; a nanny's other child never does.
        own = [p for root in roots for p in children.get(root, ())]
        return [p for p in own if b"resource_tracker" not in words.get(p, b"")]
    servers = [
        p for root in roots for p in children.get(root, ()) if b"forkserver" in words.get(p, b"")
    ]
    return [p for server in servers for p in children.get(server, ())]


@contextlib.contextmanager
def _cluster(
    base: Path, workers: int, environment: dict[str, str]
) -> Iterator[tuple[str, list[int]]]:
    """A scheduler and so many workers, each a process with a nanny; address, nannies' pids."""
    told = base / "scheduler.json"
    dask = [sys.executable, "-m", "dask"]
    begun: list[subprocess.Popen[bytes]] = []
    options = {"env": environment, "cwd": base, "stderr": (base / "dask.log").open("wb")}
    try:
        begun.append(subprocess.Popen(
            [*dask, "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard",
             "--scheduler-file", str(told)], **options,
        ))  # fmt: skip
        until = time.monotonic() + 120
        while not told.exists() or not told.read_text():
            assert time.monotonic() < until, "the scheduler does not start"
            time.sleep(0.1)
        address = json.loads(told.read_text())["address"]
        begun += [
            subprocess.Popen(
                [*dask, "worker", address, "--nthreads", "1", "--resources", "sandbox=1",
                 "--no-dashboard", "--name", str(number), "--local-directory", str(base / "dask")],
                **options,
            )
            for number in range(workers)
        ]  # fmt: skip
        yield address, [each.pid for each in begun[1:]]
    finally:
        for each in reversed(begun):
            each.terminate()
        for each in begun:
            try:
                each.wait(60)
            except subprocess.TimeoutExpired:  # a nanny whose worker was killed as it was to end
                each.kill()
                each.wait()
        options["stderr"].close()


def _bundles(base: Path) -> list[Path]:
    return sorted((base / "runs").glob("*/trials/*/bundle/manifest.json"))


def _check(base: Path, trials: int, told: Told) -> None:
    assert len(list((base / "runs").iterdir())) == 1, "a resume began another run"
    found = {path.parents[1].name: path for path in _bundles(base)}
    assert len(found) == trials, (len(found), told.summary, told.faults)
    for trial, (verdict, digest) in told.verdicts.items():
        manifest = found[trial].read_bytes()
        assert hashlib.sha256(manifest).hexdigest() == digest, f"{trial} was {verdict}, is another"
    summary = told.summary
    assert summary["scheduled"] == trials, summary
    assert sum(summary[each] for each in ("MATCH", "DIVERGE", "INCONCLUSIVE")) == trials, summary
    # What was at work on a cluster when a client was killed may have ended after it.
    assert summary.get("kept", 0) >= told.kept, (summary, told.kept)


def _left(temporary: Path) -> list[str]:
    """Folders of sandboxes, and processes that live in one."""
    return [
        *(path.name for path in temporary.glob("statediff-*")),
        *(f"process {pid}" for pid in inhabitants(f"{temporary}/statediff")),
    ]


def overhead(trials: int, base: Path) -> dict[str, float]:
    """CPU milliseconds of a trial: bare, and as one more of a suite."""
    bare, suite = [], []
    for turn in range(3):
        bare.append(_bare(trials, base / f"bare{turn}"))
        few, many = (_suite(number, base / f"suite{turn}-{number}") for number in (10, 10 + trials))
        suite.append(1000 * (many - few) / trials)
    found = {"bare": sorted(bare)[1], "in a suite": sorted(suite)[1]}
    return {**found, "overhead": found["in a suite"] - found["bare"]}


_BARE = """
import sys, time, resource
from pathlib import Path
from lab.benchmarks.campaigns import TASK, idle
from statediff.agents.function import FunctionAgent
from statediff.capture.guard import Scans
from statediff.capture.store import DiskChunks
from statediff.contract.file import load_contract
from statediff.workspace.contracts import contract_path
from statediff.workspace.trials import clock, open_sandbox
from statediff.harness import TrialPlan, run_trial
trials, base = int(sys.argv[1]), Path(sys.argv[2])
file, agent = load_contract(contract_path(TASK)), FunctionAgent(idle, "idle")
with open_sandbox("shop") as sandbox:
    for number in range(trials + 10):
        if number == 10:
            began = time.process_time()
        run_trial(sandbox, file, agent, TrialPlan(f"t-{number}", base / str(number), number),
                  clock=clock, store=DiskChunks(base / "chunks"), scans=Scans(0.05))
print(1000 * (time.process_time() - began) / trials)
"""


def _bare(trials: int, base: Path) -> float:
    base.mkdir(parents=True)
    done = subprocess.run(
        [sys.executable, "-c", _BARE, str(trials), str(base)], check=True, capture_output=True,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
    )  # fmt: skip
    return float(done.stdout)


def _suite(trials: int, base: Path) -> float:
    """CPU seconds of a whole `run` with its pages and its store, in one process.

    The processes of a fork server report their cost to nobody.
    """
    base.mkdir(parents=True)
    before = _spent()
    subprocess.run(
        [sys.executable, "-m", "statediff", "run", TASK, "--agent", "lab.benchmarks.campaigns:idle",
         "-k", str(trials), "--json"],
        check=False, cwd=base, stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
    )  # fmt: skip
    return _spent() - before


def _spent() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Prints what was killed and what was found."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("--trials", type=int, default=1000)
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--dask", action="store_true")
    options.add_argument("--kill-every", type=float, default=10.0, metavar="SECONDS")
    options.add_argument("--clients", type=int, default=4, help="how many clients are killed")
    options.add_argument(
        "--reported-first", dest="first", type=int, default=0, metavar="N",
        help="no client is killed before it has reported N verdicts",
    )  # fmt: skip
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--overhead", type=int, default=0, metavar="TRIALS")
    said = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="campaign-") as folder:
        if said.overhead:
            for name, cost in overhead(said.overhead, Path(folder)).items():
                print(f"{name:12} {cost:6.1f} ms CPU a trial")
            return
        began = time.monotonic()
        told = survived(
            said.trials, said.jobs, Path(folder), dask=said.dask, kills=said.kill_every,
            clients=said.clients, seed=said.seed, first=said.first,
        )  # fmt: skip
        kind = "Dask" if said.dask else "processes"
        print(
            f"{said.trials} trials on {said.jobs} workers ({kind}): "
            f"{told.workers_killed} workers and {len(told.clients_killed)} clients killed (after "
            f"{', '.join(map(str, told.clients_killed)) or 'no'} verdicts), "
            f"{len(told.verdicts)} verdicts reported, none lost, none twice; the last resume kept "
            f"{told.summary.get('kept', 0)} and made {said.trials - told.summary.get('kept', 0)}; "
            f"nothing left; {time.monotonic() - began:.0f} s"
        )


if __name__ == "__main__":
    main()
