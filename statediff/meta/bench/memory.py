"""One capture in a process of its own, and how much memory it took: `peak` starts the process."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from statediff.capture.source import Source
from statediff.capture.store import DiskChunks
from statediff.meta.bench.registry import NotRun, Wrong

_STATUS = Path("/proc/self/status")


@dataclass(frozen=True)
class Peak:
    """What one base capture took."""

    rows: int
    bytes: int
    """The rise of peak resident memory over what the loaded program has."""
    seconds: float


def peak(kind: str, where: str, rows: int, folder: Path) -> Peak:
    """The capture of `where` (a SQLite file or a PostgreSQL URL) in a process of its own."""
    if not _STATUS.exists():
        raise NotRun("peak memory is read from /proc, which this system does not have")
    with tempfile.TemporaryDirectory(dir=folder) as chunks:
        done = subprocess.run(
            [sys.executable, "-m", "statediff.meta.bench.memory", kind, chunks],
            input=where, check=False, capture_output=True, text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )  # fmt: skip
    if done.returncode:
        raise Wrong(f"the capture of {rows:,} rows failed: {done.stderr.strip()[-300:]}")
    found = Peak(**json.loads(done.stdout))
    if found.rows != rows:
        raise Wrong(f"the capture found {found.rows:,} rows of {rows:,}")
    return found


def _source(kind: str, where: str) -> Source:
    from statediff.meta.bench.orders import only_orders  # noqa: PLC0415 - after the fork

    if kind == "sqlite":
        from statediff.systems.sqlite.source import SqliteSource  # noqa: PLC0415 - one or the other

        return SqliteSource("bench", where, only_orders)
    from statediff.systems.postgres.source import PostgresSource  # noqa: PLC0415 - an extra

    return PostgresSource("bench", where, only_orders)


def _resident(line: str) -> int:
    (found,) = (x for x in _STATUS.read_text(encoding="ascii").splitlines() if x.startswith(line))
    return int(found.split()[1]) * 1024


def _main() -> None:
    kind, chunks = sys.argv[1:]
    source = _source(kind, sys.stdin.read())
    source.schema()  # loads all that has to be loaded
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # resets the peak
    before, started = _resident("VmRSS"), time.perf_counter()
    part = source.read(DiskChunks(chunks), lambda: datetime.now(UTC), None)
    taken = time.perf_counter() - started
    table = part.state.tables["order"]
    rows = table.row_count if table.enumeration.is_complete else -1
    found = {"rows": rows, "bytes": _resident("VmHWM") - before, "seconds": taken}
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    _main()
