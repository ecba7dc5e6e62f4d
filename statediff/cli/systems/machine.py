"""`doctor` and `bench`: what this machine offers, and what statediff costs on it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from statediff.cli.faults import FAULT
from statediff.cli.options import JsonFlag
from statediff.cli.output import emit, progress, results
from statediff.errors import SandboxError, UsageError
from statediff.reports.said import said

DOCTOR: Final = "statediff/doctor/1"
BENCH: Final = "statediff/bench/1"
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


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: what was found, and the next step where it is not enough."""

    name: str
    found: str
    todo: str = ""
    is_optional: bool = False
    """Not everybody needs it: an extra, or real servers in containers."""

    @property
    def ok(self) -> bool:
        return not self.todo


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
    from rich.text import Text

    from statediff.reports.tables import grid

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
    import platform
    import sys

    todo = "" if sys.version_info >= (3, 11) else "install Python 3.11 or newer"
    yield Check("python", platform.python_version(), todo)


def _packages() -> Iterator[Check]:
    """What is declared, for the core and for each extra that a user may want."""
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


def _packages_of(extra: str | None) -> tuple[list[str], list[str]]:
    """The packages that the extra adds, None for the core: those here with versions, and others."""
    import re
    from importlib.metadata import PackageNotFoundError, requires, version

    found, missing = [], []
    for line in requires("statediff") or ():
        name, _, marker = line.partition(";")
        asked = re.search(r"extra == ['\"]([\w.-]+)", marker)
        if (asked and asked[1]) != extra:
            continue
        name = re.split(r"[^\w.-]", name, maxsplit=1)[0]
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    return found, missing


def _sqlite() -> Iterator[Check]:
    import sqlite3

    todo = "" if sqlite3.sqlite_version_info >= SQLITE else "use a Python with SQLite 3.37 or newer"
    yield Check("sqlite", sqlite3.sqlite_version, todo)


def _disk() -> Iterator[Check]:
    import shutil
    import tempfile

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
    import tempfile

    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError:
        return None


def _loopback() -> Iterator[Check]:
    import socket

    try:
        with socket.create_server(("127.0.0.1", 0)):
            yield Check("loopback", "127.0.0.1 can be listened on")
    except OSError as error:
        yield Check("loopback", str(error.strerror), "allow listening on 127.0.0.1, for mail")


def _packs() -> Iterator[Check]:
    from statediff.packs import contract_folders, sandbox_names, sandbox_pack
    from statediff.workspace.references import missing_servers

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


def _docker() -> Iterator[Check]:
    from statediff.cli.systems.sandboxes import docker_parts
    from statediff.packs import packs_folder

    try:
        containers, images = docker_parts()
        engine = containers.connect()
        missing = images.missing_images(engine)
        version = engine.client.version()["Version"]
    except UsageError as error:
        todo = "for real servers in containers: pip install statediff[docker]"
        yield Check("docker", str(error).partition(";")[0], todo, is_optional=True)
        return
    except SandboxError as error:
        script = packs_folder("sandboxes") / "engine.sh"
        todo = (
            f"for real servers in containers install and start Docker; on Debian: bash {script} up"
        )
        yield Check("docker", str(error).partition(";")[0], todo, is_optional=True)
        return
    yield Check("docker", f"engine {version}")
    todo = f"statediff sandbox build {' '.join(missing)}" if missing else ""
    found = f"without {', '.join(missing)}" if missing else f"all {len(images.image_names())}"
    yield Check("docker images", found, todo, is_optional=True)


def _postgres() -> Iterator[Check]:
    try:
        from statediff.systems.postgres.machines import chosen

        yield Check("postgres", chosen().title)
        return
    except ModuleNotFoundError as error:
        found = f"without {error.name}"
    except SandboxError as error:
        found = str(error).partition(";")[0]
    todo = "for PostgreSQL servers without Docker: pip install statediff[postgres]"
    yield Check("postgres", found, todo, is_optional=True)


_CHECKS: Final = (_python, _packages, _sqlite, _disk, _loopback, _packs, _docker, _postgres)


def bench(
    only: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[WHAT]...",
            help="capture, delta, diff, reset, reward, verify, or a measure's name; else all.",
        ),
    ] = None,
    rows: Annotated[int, typer.Option("--rows", help="Rows of a state.")] = 1_000_000,
    slow_rows: Annotated[
        int, typer.Option("--slow-rows", help="Rows for peers that are slow.")
    ] = 100_000,
    large_rows: Annotated[
        int, typer.Option("--large-rows", help="Rows of the table for peak memory.")
    ] = 10_000_000,
    changes: Annotated[int, typer.Option("--changes", help="Changes between the states.")] = 10,
    repeats: Annotated[int, typer.Option("--repeats", help="Interleaved runs of each.")] = 5,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="A folder for bench.md and the plots, made if need be."),
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Measure capture, delta, diff, reset, reward and verify here; 4 if a target is missed.

    Peers are measured where they are installed (`pip install 'statediff[bench]'`). What needs
    Docker says so where there is none.
    """
    import tempfile

    from statediff.api import judge
    from statediff.meta.bench import BenchPlan, Judging, machine, run
    from statediff.reports.benchmarks import markdown, plots
    from statediff.scoring import Judge
    from statediff.workspace.folders import require_writable, write_file

    if out is not None:
        require_writable(out)
    here = machine()
    with tempfile.TemporaryDirectory(prefix="statediff-bench-") as folder:
        doors = Judging(Judge, judge)
        plan = BenchPlan(rows, slow_rows, large_rows, changes, repeats, Path(folder), doors)
        said = progress()
        found = tuple(run(plan, only or (), lambda name: said.print(f"measuring {name} …")))
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        write_file(out / "bench.md", markdown(here, found).encode())
        for name, chart in plots(found).items():
            write_file(out / f"{name}.svg", chart.standalone().encode())
    if as_json:
        emit({"schema": BENCH, "machine": here, "rows": [row.document() for row in found]})
    else:
        results().print(markdown(here, found), soft_wrap=True, end="")
    return FAULT if any(row.ok is False for row in found) else 0
