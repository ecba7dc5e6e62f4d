"""`doctor`: what this machine offers."""

from __future__ import annotations

import platform
import re
import shutil
import socket
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from rich.text import Text

from statediff.cli.faults import FAULT
from statediff.cli.options import JsonFlag
from statediff.cli.output import emit, results
from statediff.errors import UsageError
from statediff.packs import contract_folders, sandbox_names, sandbox_pack
from statediff.reports.said import said
from statediff.reports.tables import grid
from statediff.systems.base.plugin import Check
from statediff.systems.base.registry import plugins
from statediff.workspace.installed import missing_servers

DOCTOR: Final = "statediff/doctor/1"
FREE_BYTES: Final = 200 * 1024 * 1024
SQLITE: Final = (3, 37, 0)
EXTRAS: Final = (
    ("agents", "tools by MCP and the loop around a model"),
    ("age", "raw captures encrypted to an auditor"),
    ("cluster", "trials over several machines"),
    ("data", "states and copies by URL of other databases and object stores"),
    ("docker", "real servers in containers"),
    ("otel", "spans in protobuf"),
    ("postgres", "PostgreSQL servers without Docker"),
    ("scitt", "seals as signed statements of SCITT"),
    ("timestamp", "tokens of time stamping authorities"),
    ("tuf", "trust that is published"),
)
"""Extra → what it is for; those for tests and development are not asked about."""


def doctor(as_json: JsonFlag = False) -> int:
    """Check this machine and say what to do about what is missing; 4 if it is not optional."""
    checks = [check for make in _CHECKS for check in make()]
    missing = [check for check in checks if not check.ok and not check.is_optional]
    if as_json:
        listed: list[dict[str, Any]] = [
            {
                "name": c.name,
                "ok": c.ok,
                "found": c.found,
                "todo": c.todo or None,
                "optional": c.is_optional,
            }
            for c in checks
        ]
        emit({"schema": DOCTOR, "ok": not missing, "checks": listed})
    else:
        _print(checks)
    return FAULT if missing else 0


def _print(checks: list[Check]) -> None:
    table = grid(3)
    # The page looks the same whatever is missing.
    table.columns[0].min_width = len("without")
    for check in checks:
        mark = Text("ok", style="green")
        if not check.ok:
            mark = Text("without", style="yellow")
            if not check.is_optional:
                mark = Text("missing", style="bold red")
        todo = f"; {check.todo}" if check.todo else ""
        table.add_row(mark, Text(check.name), Text(said(check.found + todo)))
    results().print(table)


def _python() -> Iterator[Check]:
    todo = "" if sys.version_info >= (3, 11) else "install Python 3.11 or newer"
    yield Check("python", platform.python_version(), todo)


def _packages() -> Iterator[Check]:
    """The declared requirements of the core and of each extra that a user may want."""
    found, missing = _packages_of(None)
    if missing:
        yield Check("packages", f"without {', '.join(missing)}", "pip install statediff")
    else:
        yield Check("packages", f"all {len(found)}")
    for extra, what in EXTRAS:
        found, missing = _packages_of(extra)
        if missing:
            todo = f"for {what}: pip install statediff[{extra}]"
            told = f"without {', '.join(missing)}"
            yield Check(f"extra {extra}", told, todo, is_optional=True)
        else:
            yield Check(f"extra {extra}", ", ".join(found))


def _packages_of(extra: str | None, of: str = "statediff") -> tuple[list[str], list[str]]:
    """The packages that the extra adds, with those of ours that it asks for: here, and missing."""
    found, missing = list[str](), list[str]()
    for line in metadata.requires(of) or ():
        wanted, _, marker = line.partition(";")
        asked = re.search(r"extra == ['\"]([\w.-]+)", marker)
        if (asked and asked[1]) != extra:
            continue
        name, *extras = re.findall(r"[\w.-]+", wanted.partition("]")[0])
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            missing.append(name)
            continue
        for each in extras if name.startswith("statediff-") and "[" in wanted else ():
            more, lacking = _packages_of(each, name)
            found, missing = [*found, *more], [*missing, *lacking]
    return found, missing


def _sqlite() -> Iterator[Check]:
    todo = "" if sqlite3.sqlite_version_info >= SQLITE else "use a Python with SQLite 3.37 or newer"
    yield Check("sqlite", sqlite3.sqlite_version, todo)


def _disk() -> Iterator[Check]:
    for name, folder in (("current folder", Path.cwd()), ("temporary folder", _temporary())):
        if folder is None:
            yield Check(name, "none is writable", "set TMPDIR to a folder that is")
            continue
        try:
            free = shutil.disk_usage(folder).free
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            yield Check(name, f"{folder}: {error.strerror}", "run where files may be written")
            continue
        todo = "" if free >= FREE_BYTES else "free at least 200 MB"
        yield Check(name, f"writable, {free // (1024 * 1024)} MB free", todo)


def _temporary() -> Path | None:
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError:
        return None


def _loopback() -> Iterator[Check]:
    try:
        with socket.create_server(("127.0.0.1", 0)):
            yield Check("loopback", "127.0.0.1 can be listened on")
    except OSError as error:
        yield Check("loopback", str(error.strerror), "allow listening on 127.0.0.1, for mail")


def _packs() -> Iterator[Check]:
    try:
        names = sandbox_names()
        for name in names:
            sandbox_pack(name)
        tasks = contract_folders()
    except UsageError as error:
        yield Check("packs", str(error), "reinstall statediff")
        return
    todo = "" if names and tasks else "reinstall statediff"
    yield Check("packs", f"{', '.join(names) or 'none'}; {len(tasks)} contracts", todo)
    for name, extra in missing_servers().items():
        yield Check(name, "its server is not installed", f"pip install {extra}", is_optional=True)


def _systems() -> Iterator[Check]:
    for plugin in plugins().values():
        yield from () if plugin.checks is None else plugin.checks()


_CHECKS: Final = (_python, _packages, _sqlite, _disk, _loopback, _packs, _systems)
