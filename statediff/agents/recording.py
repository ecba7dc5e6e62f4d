"""Where a recorder writes while an agent runs: a folder of the evaluator's own, for one run."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from statediff.agents.recorder import Recorder
from statediff.capture.source import Clock


@contextmanager
def recording(clock: Clock, *, principal: str | None = "agent") -> Iterator[Recorder]:
    """A recorder whose file goes with the block; its trace is read before the block ends."""
    with (
        tempfile.TemporaryDirectory(
            prefix="statediff-calls-", ignore_cleanup_errors=True
        ) as folder,
        Recorder(Path(folder) / "calls.jsonl", clock, principal=principal) as recorder,
    ):
        yield recorder
