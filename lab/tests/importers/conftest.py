"""The samples in `fixtures/imported`, copies to damage, and the whole cases if they are here."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SAMPLES = ROOT / "fixtures" / "imported"
WHOLE = ROOT.parent / "shared" / "cases"


@pytest.fixture
def samples() -> Path:
    return SAMPLES


@pytest.fixture
def whole() -> Path:
    if not WHOLE.is_dir():
        pytest.skip("the recorded runs are not beside this checkout")
    return WHOLE


@pytest.fixture
def altered(tmp_path: Path) -> Callable[[str, Callable[[list[bytes]], bytes]], Path]:
    """A copy of a sample whose file of runs is what the function makes of its lines."""

    def alter(name: str, change: Callable[[list[bytes]], bytes]) -> Path:
        folder = tmp_path / name
        shutil.copytree(SAMPLES / name, folder)
        [runs] = folder.glob("runs-*") if name == "agent-diff" else folder.glob("runs_*")
        content = change(gzip.decompress(runs.read_bytes()).splitlines(keepends=True))
        runs.write_bytes(content if content[:2] == b"\x1f\x8b" else gzip.compress(content))
        return folder

    return alter


def stripped(line: bytes) -> bytes:
    """The line without any word on its verdict but for the gold key."""
    run = json.loads(line)
    gold = run.get("labels", {}).get("recorded_task", {}).get("gold_key")
    for name in ("passed", "score", "failures", "status", "official", "labels"):
        run.pop(name, None)
    if gold is not None:
        run["labels"] = {"recorded_task": {"gold_key": gold}}
    return json.dumps(run).encode() + b"\n"
