"""The benchmark's own checker, asked: a program in the environment that has the benchmark.

`STATEDIFF_BFCL_PYTHON` names that environment's Python. Without it nothing is known of what the
checker would say.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from statediff.errors import AdapterError
from statediff.model.strictjson import Flaw, Limits, read_tree
from statediff.model.values import printable

VARIABLE: Final = "STATEDIFF_BFCL_PYTHON"
SECONDS: Final = 60.0
_LIMITS: Final = Limits(1 << 26, 64, 400, 308)


class Checker:
    """One process of the benchmark's; it is started when it is first asked."""

    def __init__(self, python: Path) -> None:
        self.python = python
        self._process: subprocess.Popen[bytes] | None = None

    def run(
        self,
        task: str,
        turns: Sequence[Sequence[str]],
        *,
        patch: Mapping[str, Mapping[str, Any]] | None = None,
        states: bool = False,
    ) -> Mapping[str, Any]:
        """The result of a run of these calls, and what was said of it.

        `AdapterError` where it cannot be carried out.
        """
        request = {"do": "run", "task": task, "turns": turns, "states": states}
        [answer] = self._ask(request if patch is None else {**request, "patch": patch})
        return answer

    def tasks(self, category: str) -> list[Mapping[str, Any]]:
        """Every task of a category, with its ground truth carried out."""
        *found, _ = self._ask({"do": "tasks", "category": category})
        return found

    def _ask(self, request: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        process = self._started()
        if process.stdin is None or process.stdout is None:
            raise AdapterError("the checker has no pipes")
        watch = threading.Timer(SECONDS, process.kill)
        watch.start()
        try:
            process.stdin.write(json.dumps(request, default=_number).encode() + b"\n")
            process.stdin.flush()
            while line := process.stdout.readline():
                answer = read_tree(line, _LIMITS)
                if not isinstance(answer, dict) or "error" in answer:
                    raise AdapterError(f"the checker: {printable(str(answer))[:500]}")
                yield answer
                if request["do"] == "run" or "end" in answer:
                    return
            raise AdapterError(
                f"{printable(str(self.python))}: the checker ended, or took over {SECONDS:g} s"
            )
        except (OSError, Flaw) as error:
            raise AdapterError(f"the checker: {error}") from error
        finally:
            watch.cancel()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            host = Path(__file__).with_name("host.py")
            try:
                self._process = subprocess.Popen(
                    [str(self.python), "-I", str(host)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                )
            except OSError as error:
                raise AdapterError(f"{VARIABLE}: {error}") from error
            weakref.finalize(self, _end, self._process)
        return self._process


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def _number(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    raise TypeError(f"{type(value).__name__} is no JSON")


def named_checker() -> Checker | None:
    """The checker that the environment names; None where it names none."""
    python = os.environ.get(VARIABLE)
    return Checker(Path(python)) if python else None
