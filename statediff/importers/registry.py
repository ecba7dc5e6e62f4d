"""The readers there are, by the name of their format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from statediff.errors import UsageError
from statediff.importers.recorded import Suite
from statediff.model.values import printable


def _agent_diff(folder: Path) -> Suite:
    from statediff.importers.agentdiff import open_cases  # noqa: PLC0415 - one reader a process

    return open_cases(folder)


def _tau2(folder: Path) -> Suite:
    from statediff.importers.tau2 import open_cases  # noqa: PLC0415 - one reader a process

    return open_cases(folder)


READERS: Final[dict[str, Callable[[Path], Suite]]] = {"agent-diff": _agent_diff, "tau2": _tau2}


def open_suite(name: str, folder: Path) -> Suite:
    """The folder of recorded runs, read as the format `name`. `UsageError` if it is not one."""
    if name not in READERS:
        known = ", ".join(sorted(READERS))
        raise UsageError(f"no format {printable(name)!r}; there are: {known}")
    if not folder.is_dir():
        found = "something that is no folder" if folder.exists() else "nothing"
        raise UsageError(f"{printable(str(folder))}: expected a folder of cases, found {found}")
    return READERS[name](folder)
