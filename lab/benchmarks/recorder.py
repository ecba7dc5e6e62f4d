"""What recording costs a call: begin and end, and reading the log back.

    python -m lab.benchmarks.recorder [--calls 10000] [--json]

Arguments and results of a few hundred bytes, as tools have them; one thread, then four.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from statediff.agents.recorder import Recorder, read_calls
from statediff.model.trace import Mark


def now() -> datetime:
    """The clock of the log."""
    return datetime.now(UTC)


def record(recorder: Recorder, calls: int) -> None:
    """So many calls, one after the other."""
    for number in range(calls):
        call = recorder.begin("issue_refund", {"order": number, "note": "x" * 200})
        recorder.end(call, result={"refund": number}, transactions=[Mark("shop-db", str(number))])


def measure(calls: int, threads: int) -> dict[str, Any]:
    """Microseconds a call, bytes a call, and how long it takes to read all back."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "calls.jsonl")
        start, worked = time.perf_counter(), time.process_time()
        with Recorder(log, now) as recorder:
            work = [
                threading.Thread(target=record, args=(recorder, calls // threads))
                for _ in range(threads)
            ]
            for thread in work:
                thread.start()
            for thread in work:
                thread.join()
        written, worked = time.perf_counter(), time.process_time() - worked
        size = log.stat().st_size
        trace = read_calls(log)
        done = time.perf_counter()
    assert trace.gap is None
    assert len(trace.actions) == calls // threads * threads
    return {
        "calls": len(trace.actions),
        "threads": threads,
        "microseconds_a_call": round(1e6 * (written - start) / calls, 1),
        "cpu_microseconds_a_call": round(1e6 * worked / calls, 1),
        "bytes_a_call": size // calls,
        "seconds_to_read_back": round(done - written, 2),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def main() -> None:
    """Prints what a call costs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    for threads in (1, 4):
        found = measure(given.calls, threads)
        if given.json:
            print(json.dumps(found))
        else:
            print(
                f"{found['calls']} calls, {threads} threads: {found['microseconds_a_call']} µs "
                f"({found['cpu_microseconds_a_call']} µs of CPU) and "
                f"{found['bytes_a_call']} bytes a call; read back in "
                f"{found['seconds_to_read_back']} s; {found['peak_mib']} MiB at most"
            )


if __name__ == "__main__":
    main()
