"""What a trial of each pack costs: start, reset with its proof, one capture, a whole trial.

`python -m lab.benchmarks.packs [PACK …]`; without names, of the packs whose servers are installed.
The floor beside it is a trial's own agent: an interpreter that starts and does nothing.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from statediff.agents.command import CommandAgent
from statediff.capture.take import take
from statediff.contract.file import load_contract
from statediff.harness import TrialPlan, run_trial
from statediff.model.state import MemoryChunks
from statediff.packs import contract_folder, sandbox_pack
from statediff.systems.base.registry import missing_extra
from statediff.systems.base.sandbox import EmbeddedSandbox

TASKS = {
    "accounts": "accounts/rotate-role",
    "chat": "chat/announce-change",
    "cloud": "cloud/expire-logs",
    "erp": "erp/price-from-date",
    "helpdesk": "helpdesk/close-case",
    "office": "office/move-meeting",
    "payments": "payments/refund-once",
    "repo": "repo/fix-failing-test",
    "shop": "shop/refund-returned-order",
}
ROUNDS = 5


def clock() -> datetime:
    """The machine's, UTC."""
    return datetime.now(UTC)


def median_ms(action: Callable[[], object], rounds: int = ROUNDS) -> float:
    """The median of some rounds, in milliseconds."""
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        action()
        times.append(time.perf_counter() - began)
    return 1000 * statistics.median(times)


def measure(pack: str, task: str, work: Path) -> str:
    """One row: pack, start, reset and proof, capture, trial."""
    folder = contract_folder(task)
    contract = load_contract(folder.contract)
    agent = CommandAgent(folder.agent("careful"), 60.0)
    began = time.perf_counter()
    with EmbeddedSandbox(sandbox_pack(pack), work / pack) as sandbox:
        started = 1000 * (time.perf_counter() - began)

        def back() -> None:
            sandbox.reset()
            assert sandbox.verify(clock).ok

        def trial() -> None:
            plan = TrialPlan("t", Path(tempfile.mkdtemp(dir=work)) / "t")
            run_trial(sandbox, contract, agent, plan, clock=clock, store=MemoryChunks())

        trial()  # imports, and what is cached of the base
        reset = median_ms(back)
        captured = median_ms(lambda: take(sandbox.sources(), MemoryChunks(), clock, None, "before"))
        return f"{pack:<10}{started:>10.0f}{reset:>12.1f}{captured:>12.1f}{median_ms(trial):>12.0f}"


def main() -> None:
    """Prints the table."""
    floor = median_ms(lambda: subprocess.run([sys.executable, "-c", ""], check=True))
    print(f"an interpreter that does nothing: {floor:.0f} ms")
    print(f"{'pack':<10}{'start ms':>10}{'reset ms':>12}{'capture ms':>12}{'trial ms':>12}")
    with tempfile.TemporaryDirectory() as work:
        installed = [pack for pack in TASKS if missing_extra(sandbox_pack(pack)) is None]
        for pack in sys.argv[1:] or installed:
            print(measure(pack, TASKS[pack], Path(work)))


if __name__ == "__main__":
    main()
