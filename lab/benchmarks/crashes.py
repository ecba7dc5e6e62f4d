"""What stays, and what is still right, when something is killed in the middle of trials.

`python -m lab.benchmarks.crashes --trials 200`: runs of an agent whose verdict is known, in each of
which the evaluator, a container, or the server's processes in it are killed at a random moment.
Afterwards there must be no container, volume or network of that run, every verdict that was
reported must lie on disk and replay to itself, and none may be wrong:

- an agent that does harm never MATCHes;
- an agent that does it right never DIVERGEs: where its system died under it, that is a failure of
  the environment and no verdict.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docker.errors import DockerException
from statediff_containers.engine import LABEL, Engine, connect

from statediff.evidence.package import load
from statediff.kernel import replay
from statediff.packs import sandbox_pack

TASKS = {
    "postgres": ("shop/refund-returned-order", {"careful": "MATCH", "hasty": "DIVERGE"}),
    "mariadb": ("shop/refund-returned-order", {"careful": "MATCH", "hasty": "DIVERGE"}),
    "git": ("repo/clean-merged-branches", {"careful": "MATCH", "opens_the_gate": "DIVERGE"}),
    "redmine": ("helpdesk/close-case", {"careful": "MATCH", "edits_comment": "DIVERGE"}),
}
VICTIMS = ("evaluator", "container", "server")
TRIALS_A_RUN = 3
GONE_SECONDS = 30.0
RUN_SECONDS = 600.0


@dataclass(frozen=True)
class Crash:
    """One run, and what is killed in it when."""

    variant: str
    agent: str
    victim: str
    at: float
    """As a part of the time such a run takes when nobody disturbs it."""


@dataclass(frozen=True)
class Outcome:
    """How the run's trials ended, and everything that should not have been."""

    verdicts: tuple[str, ...]
    wrong: tuple[str, ...]


def things_of(engine: Engine, pid: int) -> list[str]:
    """Every container, volume and network that the process made and that is still there."""
    api, wanted = engine.api, {"label": LABEL}
    made = [
        *api.containers(all=True, filters=wanted),
        *(api.volumes(filters=wanted)["Volumes"] or ()),
        *api.networks(filters=wanted),
    ]
    ours = [found for found in made if found["Labels"][LABEL].startswith(f"{pid}-")]
    return sorted(str(found.get("Id") or found["Name"]) for found in ours)


def strike(engine: Engine, process: subprocess.Popen[str], victim: str) -> bool:
    """The victim was there and has been killed."""
    if victim == "evaluator":
        process.send_signal(signal.SIGKILL)
        return True
    running = [
        found["Id"]
        for found in engine.api.containers(filters={"label": LABEL})
        if found["Labels"][LABEL].startswith(f"{process.pid}-")
    ]
    if not running:
        return False
    try:
        if victim == "container":
            engine.api.kill(running[0])
        else:  # all its processes but the first, which has to cope, or to end
            script = "kill -9 -1; sleep 0.2; kill -TERM 1"
            made = engine.api.exec_create(running[0], ["sh", "-c", script])
            engine.api.exec_start(made["Id"])
    except DockerException:
        return False
    return True


def run(crash: Crash, folder: Path, usual_seconds: float, trials: int = TRIALS_A_RUN) -> Outcome:
    """The outcome of one run that is disturbed once."""
    task, agents = TASKS[crash.variant]
    engine = connect()
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-c", "from statediff.cli.main import main; main()", "run", task, "--json",
         "--agent", crash.agent, "-k", str(trials), "--sandbox", crash.variant, "--timeout", "30"],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        # The faulty agents act behind the servers' back, which a program that is kept apart cannot.
        env={
            **os.environ, "TMPDIR": str(folder), "PYTHONPATH": os.pathsep.join(sys.path),
            "STATEDIFF_ISOLATION": "none",
        },
    )  # fmt: skip
    with process:
        moment = began + crash.at * usual_seconds
        while process.poll() is None and time.monotonic() < moment + usual_seconds:
            if time.monotonic() >= moment and strike(engine, process, crash.victim):
                break
            time.sleep(0.02)
        try:
            said, _ = process.communicate(timeout=RUN_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            return Outcome((), (f"{crash}: still running after {RUN_SECONDS:g} s",))
    told = [json.loads(line) for line in said.splitlines() if line.endswith("}")]
    finished = [line for line in told if "trial" in line]
    wrong = [w for line in finished for w in wrong_in(line, agents[crash.agent], folder)]
    deadline = time.monotonic() + GONE_SECONDS
    while things_of(engine, process.pid):
        if time.monotonic() > deadline:
            wrong.append(f"left behind: {things_of(engine, process.pid)}")
            break
        time.sleep(0.05)
    ended = tuple(line["verdict"] or "fault" for line in finished)
    ended += ("not reported",) * (trials - len(ended))
    return Outcome(ended, tuple(f"{crash}: {entry}" for entry in wrong))


def wrong_in(told: dict[str, Any], expected: str, folder: Path) -> list[str]:
    """The errors in one reported trial; none for a fault, which claims nothing."""
    if told["verdict"] is None:
        return []
    bundle = load(folder / told["bundle"])
    found = (
        [] if bundle.manifest["verdict"] == told["verdict"] else ["reported is not what is kept"]
    )
    if replay(bundle).verdict.value != told["verdict"]:
        found.append("its bundle does not replay to itself")
    if told["verdict"] == "MATCH" and expected != "MATCH":
        found.append("harm was not seen")
    if told["verdict"] == "DIVERGE" and expected == "MATCH":
        findings = bundle.document("judgement.json")["findings"]
        failed = sorted({f["stage"] for f in findings if f["truth"] == "FAILS"})
        found.append(f"blamed for what it did not do: {failed}")
    return found


def crashes(trials: int, variants: Sequence[str], seed: int) -> list[Crash]:
    """As many runs as hold so many trials; which and when follows from the seed."""
    chance = random.Random(seed)
    made = []
    for number in range(-(-trials // TRIALS_A_RUN)):
        variant = variants[number % len(variants)]
        agents = sorted(TASKS[variant][1])
        victim = VICTIMS[(number // len(variants)) % len(VICTIMS)]
        made.append(Crash(variant, chance.choice(agents), victim, chance.uniform(0.0, 1.0)))
    return made


def usual_seconds(variant: str, folder: Path) -> float:
    """How long an undisturbed run takes; its verdicts are checked."""
    began = time.monotonic()
    outcome = run(Crash(variant, "careful", "nobody", 1e9), folder, RUN_SECONDS)
    assert outcome.verdicts == ("MATCH",) * TRIALS_A_RUN, outcome
    assert not outcome.wrong, outcome
    return time.monotonic() - began


def offered() -> list[str]:
    """The variants that the packs have."""
    packs = {variant: task.partition("/")[0] for variant, (task, _) in TASKS.items()}
    return sorted(v for v, pack in packs.items() if v in sandbox_pack(pack).variants)


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints how the trials ended; ends with 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--variants", nargs="+", choices=sorted(TASKS), default=offered())
    options = parser.parse_args(arguments)
    wrong: list[str] = []
    ended: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as work:
        usual = {v: usual_seconds(v, Path(tempfile.mkdtemp(dir=work))) for v in options.variants}
        for crash in crashes(options.trials, options.variants, options.seed):
            outcome = run(crash, Path(tempfile.mkdtemp(dir=work)), usual[crash.variant])
            ended.setdefault(f"{crash.variant} {crash.agent}, {crash.victim}", Counter()).update(
                outcome.verdicts
            )
            wrong += outcome.wrong
            told = "; ".join(outcome.wrong) or "nothing wrong, nothing left"
            print(f"{crash}: {', '.join(outcome.verdicts)}: {told}", flush=True)
    for name, counts in sorted(ended.items()):
        print(f"{name:<32}", ", ".join(f"{n} {what}" for what, n in sorted(counts.items())))
    print(f"{sum(map(Counter.total, ended.values()))} trials, {len(wrong)} wrong")
    print("\n".join(wrong))
    if wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
