"""The command line as people meet it: a process of its own, in a folder of its own."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from statediff.cli.main import run

PROGRAM = (sys.executable, "-c", "from statediff.cli.main import main; main()")
CHECKOUT = Path(__file__).parents[2]

CONTRACT = """\
contract: notes/close-ticket
version: 1.0.0
owner: support
intent: Close ticket 7 and change nothing else.
inputs: {ticket: 7}
forbid:
  - {id: nothing-deleted, delete: [ticket, user]}
require:
  - id: closed
    update: ticket
    where: it.id == input.ticket
    set: {status: closed}
"""
BEFORE: dict[str, Any] = {
    "ticket": [{"id": 7, "status": "open"}, {"id": 8, "status": "open"}],
    "user": [{"id": 1, "name": "Ada"}],
}


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    kept = {n: v for n, v in os.environ.items() if n not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    path = f"{CHECKOUT / 'tests' / 'lean'}{os.pathsep}{CHECKOUT}"
    return {**kept, "PYTHONPATH": path, "PYTHONUTF8": "1", **(extra or {})}


Call = Callable[..., Said]


@pytest.fixture
def statediff(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Call:
    """Runs `statediff …` in `tmp_path` and returns what it said; there is never a traceback.

    In this process, which is faster, unless the environment, the input or a limit matters.
    """
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "STATEDIFF_TRACEBACK"):
        monkeypatch.delenv(name, raising=False)

    def call(*arguments: str, env: Mapping[str, str] | None = None, **more: Any) -> Said:
        if env is None and not more:
            with monkeypatch.context() as patch:
                patch.chdir(tmp_path)
                code = run(arguments)
            captured = capsys.readouterr()
            said = Said(code, captured.out, captured.err)
        else:
            said = _process(arguments, env, {"cwd": tmp_path, **more})
        assert "Traceback" not in said.err, said.err
        return said

    return call


def _process(arguments: Sequence[str], env: Mapping[str, str] | None, more: dict[str, Any]) -> Said:
    limit_bytes = more.pop("limit_bytes", None)
    if limit_bytes is not None:  # a module compiled under the limit would be torn for all others
        env = {**(env or {}), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [*PROGRAM, *arguments],
        env=environment(env),
        capture_output=True,
        timeout=60,
        preexec_fn=None if limit_bytes is None else _limited(limit_bytes),
        check=False,
        **more,
    )
    return Said(done.returncode, done.stdout.decode(), done.stderr.decode())


def _limited(size: int) -> Callable[[], None]:
    def apply() -> None:
        import resource  # noqa: PLC0415 - in the child only

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return apply


@dataclass(frozen=True)
class Files:
    """Writes the inputs of a judgement into a folder."""

    folder: Path

    def write(self, name: str, content: Any) -> str:
        path = self.folder / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            text = content if isinstance(content, str) else json.dumps(content)
            path.write_text(text, encoding="utf-8")
        return str(path)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """A folder with `c.yaml` and the states `a.json` (before) and `b.json` (after, a MATCH)."""
    made = Files(tmp_path)
    made.write("c.yaml", CONTRACT)
    made.write("a.json", BEFORE)
    made.write("b.json", after(status="closed"))
    return made


def after(
    status: str = "open", other: str = "open", users: Sequence[dict[str, Any]] | None = None
) -> Any:
    return {
        "ticket": [{"id": 7, "status": status}, {"id": 8, "status": other}],
        "user": BEFORE["user"] if users is None else users,
    }


JUDGE = ("judge", "c.yaml", "--before", "a.json", "--after", "b.json")
