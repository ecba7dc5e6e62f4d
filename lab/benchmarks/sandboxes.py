"""What real servers cost a trial: reset and proof beside recreating the container, in one run.

`python -m lab.benchmarks.sandboxes [--large]`. Each row is one variant of a pack: start (an image
to a system that was proven once), reset, proof, both together after a trial's change, the trial
of a reference agent, and, for comparison, stopping the system and making its container anew. Then
PostgreSQL with 40 MB and, with `--large`, 1 GB of rows; then twenty sandboxes at once.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from statediff_containers.engine import SOCKETS, Container, Spec, connect
from statediff_containers.images import image_tag

from lab.benchmarks.packs import clock
from statediff.agents.command import CommandAgent
from statediff.contract.file import load_contract
from statediff.harness import TrialPlan, run_trial
from statediff.model.state import MemoryChunks
from statediff.packs import (
    PackSource,
    contract_folder,
    sandbox_names,
    sandbox_pack,
)
from statediff.suite.campaign import SandboxPool
from statediff.systems.base.protocol import System
from statediff.systems.base.registry import system_of
from statediff.systems.base.sandbox import EmbeddedSandbox

TASKS = {
    "accounts": "accounts/rotate-role",
    "erp": "erp/close-period",
    "helpdesk": "helpdesk/close-case",
    "office": "office/move-meeting",
    "repo": "repo/clean-merged-branches",
    "shop": "shop/refund-returned-order",
}
ROUNDS = 7
AT_ONCE = 20
ONE_BY_ONE = {"redmine"}
"""To load its program takes seconds of a core, twenty times."""
ROW_BYTES = 300
FILL = "INSERT INTO filler SELECT g, repeat(md5(g::text), 7) FROM generate_series(1, {rows}) g;\n"
HEAD = ("system", "start", "reset", "proof", "both", "trial", "recreate")


def elapsed_ms(action: Callable[[], object]) -> float:
    """How long it took, once."""
    began = time.perf_counter()
    action()
    return 1000 * (time.perf_counter() - began)


def row(name: str, *cells: float | None) -> str:
    """A line of the table."""
    return f"{name:<22}" + "".join(f"{'' if c is None else f'{c:.0f}':>10}" for c in cells)


def proven(system: System) -> None:
    """Its base state was proven, or this is no measurement."""
    proof, drift = system.verify()
    assert not drift, "; ".join(map(str, drift[-3:]))[:600]
    assert proof.expected == proof.found


def anew(system: System) -> None:
    """The system has ended and begun again."""
    system.stop()
    system.start()
    system.reset()
    proven(system)


def variant_row(pack: str, variant: str, work: Path) -> str:
    """The row of one variant of a pack; reset and proof of its whole sandbox."""
    folder = contract_folder(TASKS[pack])
    contract = load_contract(folder.contract)
    agent = CommandAgent((sys.executable, "-B", str(folder.agent("careful"))), 60.0)
    described = sandbox_pack(pack, variant)
    sandbox = EmbeddedSandbox(described, work / f"{pack}-{variant}")
    kinds = {source.kind for source in sandbox_pack(pack).sources}
    name = next(s.name for s in described.sources if s.of is None and s.kind not in kinds)
    try:
        started = elapsed_ms(sandbox.start)
        resets, proofs, trials = [], [], []
        for _ in range(ROUNDS):
            plan = TrialPlan("t", Path(tempfile.mkdtemp(dir=work)) / "t")
            trials.append(
                elapsed_ms(
                    lambda plan=plan: run_trial(  # type: ignore[misc]  # bound at once
                        sandbox, contract, agent, plan, clock=clock, store=MemoryChunks()
                    )
                )
            )
            time.sleep(0.5)  # the next clone of a database is made meanwhile, as between trials
            resets.append(elapsed_ms(sandbox.reset))
            proofs.append(elapsed_ms(lambda: proven(sandbox.system(name))))
        both = [one + other for one, other in zip(resets, proofs, strict=True)]
        recreate = elapsed_ms(lambda: anew(sandbox.system(name)))
        cells = [sorted(times)[len(times) // 2] for times in (resets, proofs, both, trials)]
        return row(f"{pack}/{variant}", started, *cells, recreate)
    finally:
        sandbox.stop()


def sized_row(megabytes: int, work: Path) -> str:
    """The row of a PostgreSQL database of that size, of which a trial changed a little."""
    rows = megabytes * 1024 * 1024 // ROW_BYTES
    ddl, seed = work / f"{megabytes}.ddl.sql", work / f"{megabytes}.seed.sql"
    ddl.write_text("CREATE TABLE filler (id bigint PRIMARY KEY, content text NOT NULL);\n")
    seed.write_text(FILL.format(rows=rows))
    source = PackSource("filler-db", "postgres", None, {"ddl": ddl, "seed": seed})
    system = system_of(source, (), work / f"pg-{megabytes}")
    try:
        started = elapsed_ms(system.start)
        system.reset()
        resets, proofs = [], []
        for _ in range(ROUNDS):
            change(system.url)
            time.sleep(
                2 + megabytes / 200
            )  # a trial takes so long; the next clone is made meanwhile
            resets.append(elapsed_ms(system.reset))
            proofs.append(elapsed_ms(lambda: proven(system)))
        both = [one + other for one, other in zip(resets, proofs, strict=True)]
        cells = [sorted(times)[len(times) // 2] for times in (resets, proofs, both)]
        recreate = elapsed_ms(lambda: anew(system))
        return row(f"PostgreSQL, {megabytes} MB", started, *cells, None, recreate)
    finally:
        system.stop()


def change(url: str) -> None:
    """What a trial's agent did."""
    import psycopg  # noqa: PLC0415 - an extra

    with psycopg.connect(url) as connection:
        connection.execute("UPDATE filler SET content = 'mine' WHERE id <= 100")


def containers_at_once() -> float:
    """Seconds until twenty containers, shut in and each with its own server, answer."""
    engine = connect()
    program = (
        f'use IO::Socket::UNIX; IO::Socket::UNIX->new(Local => "{SOCKETS}/up", Listen => 1);'
        " sleep 600"
    )
    spec = Spec(image_tag("git"), "idle", ("perl", "-e", program))
    made: list[Container] = []

    def one(_: int) -> None:
        container = engine.run(spec)
        made.append(container)
        container.await_ready(lambda: container.socket("up").exists())

    began = time.perf_counter()
    try:
        with ThreadPoolExecutor(AT_ONCE) as several:
            list(several.map(one, range(AT_ONCE)))
        return time.perf_counter() - began
    finally:
        with ThreadPoolExecutor(AT_ONCE) as several:
            list(several.map(Container.remove, made))


def sandboxes_at_once(pack: str, variant: str) -> float:
    """Seconds until twenty whole sandboxes have started and every one is proven."""
    standing, all_there = SandboxPool(), threading.Barrier(AT_ONCE)

    def one(_: int) -> None:
        try:
            with standing.lease(pack, variant) as sandbox:
                assert sandbox.verify(clock).ok
                all_there.wait()  # until then nobody gets one that another has put back
        except BaseException:
            all_there.abort()
            raise

    began = time.perf_counter()
    try:
        with ThreadPoolExecutor(AT_ONCE) as several:
            list(several.map(one, range(AT_ONCE)))
        return time.perf_counter() - began
    finally:
        standing.close()


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table and the seconds for twenty."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="PostgreSQL with 1 GB too")
    options = parser.parse_args(arguments)
    variants = [(p, v) for p in sandbox_names() for v in sandbox_pack(p).variants[1:]]
    print(f"milliseconds, medians of {ROUNDS}")
    print(f"{HEAD[0]:<22}" + "".join(f"{name:>10}" for name in HEAD[1:]))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as work:
        for pack, variant in variants:
            print(variant_row(pack, variant, Path(work)), flush=True)
        if any(variant == "postgres" for _, variant in variants):
            for megabytes in (40, 1024) if options.large else (40,):
                print(sized_row(megabytes, Path(work)), flush=True)
        print(f"{AT_ONCE} containers at once: {containers_at_once():.1f} s", flush=True)
        for pack, variant in variants:
            if variant not in ONE_BY_ONE:
                seconds = sandboxes_at_once(pack, variant)
                print(f"{AT_ONCE} × {pack}/{variant} at once: {seconds:.1f} s", flush=True)


if __name__ == "__main__":
    main()
