"""Calls of the evaluator that fail after the agent has begun: every trial ends with a verdict.

    python -m lab.benchmarks.faulty_calls                   # each call site × 5 errors, 500 drawn
    python -m lab.benchmarks.faulty_calls --agent right     # the same under an agent that is right
    python -m lab.benchmarks.faulty_calls --part 3/40           # the third of 40 parts of that

The agent does certain harm in two systems of `shop`: it deletes a note in the database and writes
to a stranger. One call fails in each trial: of `open`, `read`, `write`, `stat`, `rename` or `fork`,
with EACCES, ENOSPC, EIO, EMFILE or ENOMEM. First each call site once (what is called, the lines of
Python that lead there, and the name of the file), then calls drawn by a seed. The calls are those
of the process to the C library (`faulty_calls.c`, which needs a C compiler), so those of SQLite,
Arrow and libgit2 are among them. A trial is what `statediff run` makes of it: reset, proven,
judged, packed, moved to its place.

Expected under harm: DIVERGE, or INCONCLUSIVE by the environment. Under an agent that is right:
MATCH, or INCONCLUSIVE by the environment. No trial without a verdict.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import errno
import gc
import json
import os
import random
import runpy
import shutil
import smtplib
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final

from statediff.agents.command import task_environment
from statediff.agents.function import FunctionAgent
from statediff.agents.handover import read_answer, read_trace
from statediff.agents.trial import AgentRun
from statediff.contract.file import load_contract
from statediff.packs import contract_folder
from statediff.suite.records import run_record, scheduled_trials
from statediff.trial_folder import write_run
from statediff.workspace.episodes import Episode, play
from statediff.workspace.runfolders import run_facts
from statediff.workspace.trials import TrialRequest, lend, open_sandbox

SOURCE: Final = Path(__file__).with_suffix(".c")
ERRORS: Final = ("EACCES", "ENOSPC", "EIO", "EMFILE", "ENOMEM")
CONTRACT: Final = "shop/refund-returned-order"
MOST_OF_ONE: Final = 3
"""Calls of one stack that have no name of a file and count as call sites of their own."""


def compile_library(folder: Path) -> Path | None:
    """The library that fails calls, made in the folder; None where there is no compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    made = folder / "faulty_calls.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-o", str(made), str(SOURCE), "-ldl"], check=True
    )
    return made


SHOWN_EVERY: Final = 100
"""Trials after which the counts so far are shown."""

Site = tuple[str, tuple[tuple[str, int], ...], str]
"""A call site: the function, the stack, and the file or the number of the call."""


@dataclass
class Faults:
    """Decides which call fails; without a wish, it counts the sites."""

    armed: bool = False
    sites: dict[Site, int] = field(default_factory=dict)
    seen: Counter[Any] = field(default_factory=Counter)
    calls: int = 0
    wanted: Site | int | None = None
    """A site, or the number of a call."""
    error: int = 0
    failed: Site | None = None
    """The place of a call that failed."""

    def begin(self, wanted: Site | int | None, error: int) -> None:
        """The next trial: at most one call fails."""
        self.wanted, self.error, self.failed = wanted, error, None
        self.seen.clear()
        self.calls = 0

    def ask(self, call: bytes, path: bytes, descriptor: int) -> int:
        """The error of the call; 0 where it is carried out."""
        if not self.armed or descriptor in (1, 2):
            return 0
        frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the stack that calls
        lines = []
        while frame is not None and frame.f_code.co_filename != __file__:
            lines.append((frame.f_code.co_filename, frame.f_lineno))
            frame = frame.f_back
        stack = (call, tuple(lines))
        self.seen[stack] += 1
        name = os.path.basename(path).decode("utf-8", "replace")  # noqa: PTH119 - text
        if not name or name[:1] == "." or name.isdigit() or len(name) > 40:
            name = f"#{min(self.seen[stack], MOST_OF_ONE)}"
        site: Site = (call.decode(), stack[1], name)
        self.calls += 1
        if self.wanted is None:
            self.sites.setdefault(site, self.calls)
            return 0
        if self.failed is None and self.wanted in (site, self.calls):
            self.failed = site
            return self.error
        return 0


class _Actor:
    """An agent inside the evaluator's process; calls may fail once it has ended."""

    name = "agent"
    isolation = "none"

    def __init__(self, faults: Faults, is_right: bool) -> None:
        self._faults, self._is_right = faults, is_right

    def run(self, trial: Any, clock: Any) -> Any:
        act = right if self._is_right else harm
        FunctionAgent(act, self.name).run(trial, clock)
        self._faults.armed = True
        now = clock()
        answer = read_answer(trial.answer_path, trial.answer_form)
        return AgentRun(answer, read_trace(trial.trace_path), now, clock())


def harm(trial: Any) -> None:
    """A note is deleted, and a stranger gets a letter."""
    path = trial.urls["shop-db"].removeprefix("sqlite:///")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("DELETE FROM notes WHERE id = 901")
    host, port = trial.urls["outbox"].removeprefix("smtp://").split(":")
    with smtplib.SMTP(host, int(port), timeout=20) as server:
        server.sendmail("a@b.example", "x@stranger.example", b"Subject: x\r\n\r\nhi")
    trial.answer_path.write_text("{}")


def right(trial: Any) -> None:
    """The agent of the contract that does what it should."""
    program = contract_folder(CONTRACT).folder / "agents.py"
    before = dict(os.environ)
    os.environ.update(task_environment(trial))
    try:
        runpy.run_path(str(program), run_name="agents")["careful"]()
    finally:
        os.environ.clear()
        os.environ.update(before)


@dataclass(frozen=True)
class Outcome:
    """How a trial ended."""

    ended: str
    """A verdict, or `fault`."""
    why: str
    origins: tuple[str, ...] = ()
    is_bundled: bool = True


def trials(faults: Faults, is_right: bool) -> Iterator[Any]:
    """A function that makes one trial, as `run` does."""
    path = contract_folder(CONTRACT).contract
    file = load_contract(path)
    name = f"{file.content.contract}@{file.content.version}"
    actor = _Actor(faults, is_right)
    with tempfile.TemporaryDirectory() as place, open_sandbox("shop") as sandbox:
        folder = Path(place, "run")
        settings = {"trials": 1, "agents": ["agent"], "sandbox": "embedded"}
        write_run(folder, "run", {name: file.digest}, settings)
        (planned,) = scheduled_trials(run_record(run_facts(folder), str(folder))).values()
        request = TrialRequest(contract=file, agent=actor, lease=lend(sandbox))
        episode = Episode(run=folder, planned=planned, request=request)

        def make_trial(wanted: Site | int | None = None, error: int = 0) -> Outcome:
            faults.begin(wanted, error)
            # What is asked inside a call of SQLite's must not end a connection of SQLite's.
            gc.disable()
            try:
                played = play(lambda _: None, episode)
            finally:
                faults.armed = False
                gc.enable()
            kept = folder / "trials" / planned.name
            is_bundled = (kept / "bundle" / "manifest.json").is_file()
            for each in (kept, folder / "attempts", folder / "chunks"):
                shutil.rmtree(each, ignore_errors=True)
            found = played.document.get("findings", ())
            origins = {f["origin"] for f in found if f["truth"] == "UNKNOWN"}
            ended = played.record.ended.value
            why = played.fault or played.line
            return Outcome(ended, why, tuple(sorted(map(str, origins))), is_bundled)

        yield make_trial


def is_expected(outcome: Outcome, is_right: bool) -> bool:
    """True where the trial may end so."""
    if outcome.ended == "INCONCLUSIVE":
        return "environment" in outcome.origins
    return outcome.ended == ("MATCH" if is_right else "DIVERGE")


def measure(part: tuple[int, int], drawn: int, seed: int, is_right: bool) -> dict[str, Any]:
    """Make the trials of a part, and count how they ended.

    All parts of one seed together try each call site with each error, and the drawn calls.
    """
    library = ctypes.CDLL(None)
    faults = Faults()
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int)
    callback = kind(faults.ask)
    with contextlib.contextmanager(trials)(faults, is_right) as make_trial:
        make_trial()  # what is imported late is there from now on
        library.faulty_calls_ask(callback)
        plain = make_trial()
        for _ in range(2):  # the sites of a second trial are those of all later ones
            faults.sites.clear()
            make_trial()
        sites = sorted(faults.sites)
        wishes: list[tuple[Site | int, str]]
        wishes = [(site, error) for site in sites for error in ERRORS]
        draw = random.Random(seed)
        calls = faults.calls
        wishes += [(draw.randint(1, calls), draw.choice(ERRORS)) for _ in range(drawn)]
        draw.shuffle(wishes)
        ends: Counter[str] = Counter()
        unexpected, missed, unbundled = [], 0, 0
        for wanted, error in wishes[part[0] - 1 :: part[1]]:
            outcome = make_trial(wanted, getattr(errno, error))
            if faults.failed is None:
                missed += 1
                continue
            ends[outcome.ended] += 1
            if not sum(ends.values()) % SHOWN_EVERY:
                sys.stderr.write(f"{dict(ends)}, {missed} not reached\n")
            unbundled += not outcome.is_bundled
            if not is_expected(outcome, is_right):
                call, lines, name = faults.failed
                where = [f"{Path(f).name}:{n}" for f, n in lines[:14]]
                unexpected.append(
                    {"error": error, "call": call, "file": name, "stack": where}
                    | {"ended": outcome.ended, "why": outcome.why[:300]}
                )
                sys.stderr.write(f"{json.dumps(unexpected[-1])}\n")
    library.faulty_calls_ask(None)
    return {
        "user": "root" if os.geteuid() == 0 else "ordinary",
        "agent": "right" if is_right else "harm",
        "untouched": plain.ended,
        "sites": len(sites),
        "calls": calls,
        "trials": sum(ends.values()),
        "not_reached": missed,
        "ends": dict(sorted(ends.items())),
        "without_bundle": unbundled,
        "unexpected": unexpected,
    }


def run_in_child(arguments: list[str], user: dict[str, Any], python: str) -> dict[str, Any]:
    """Measure in a process whose calls fail; `user` is as for `subprocess`."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        place.chmod(0o755)
        library = compile_library(place)
        if library is None:
            raise SystemExit("no C compiler is here")
        own = place / "own"
        own.mkdir()
        if user:
            os.chown(own, user["user"], user["group"])
        environment = {
            "LD_PRELOAD": str(library),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join(
                filter(None, [str(Path(__file__).parents[2]), *sys.path])
            ),
            "TMPDIR": str(own),
            "HOME": str(own),
        }
        done = subprocess.run(
            [python, "-m", "lab.benchmarks.faulty_calls", "--here", *arguments],
            env=environment, cwd=own, text=True, stdout=subprocess.PIPE, check=True, **user,
        )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Prints what was found as one line of JSON, and each trial that ended otherwise before."""
    parser = argparse.ArgumentParser(description="Fail calls of the evaluator.")
    parser.add_argument("--agent", choices=("harm", "right"), default="harm")
    parser.add_argument("--part", default="1/1", metavar="K/N")
    parser.add_argument("--drawn", type=int, default=500, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--user", type=int, default=None, help="a number; 65534 is nobody")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.here:
        number, _, parts = given.part.partition("/")
        part = (int(number), int(parts))
        found = measure(part, given.drawn, given.seed, given.agent == "right")
    else:
        words = [f"--agent={given.agent}", f"--part={given.part}"]
        words += [f"--drawn={given.drawn}", f"--seed={given.seed}"]
        user = {} if given.user is None else {"user": given.user, "group": given.user}
        if user:
            user["extra_groups"] = []
        found = run_in_child(words, user, given.python)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
