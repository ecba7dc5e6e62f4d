"""Reset with its proof, and a fork, over the copy that the system makes of itself."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from sqlite3 import connect

from statediff.packs import PackSource
from statediff.systems.base.protocol import Forkable, System
from statediff.systems.base.registry import system_of
from statediff_lab.bench.capturing import postgres
from statediff_lab.bench.registry import (
    BenchPlan,
    BenchRow,
    NotRun,
    Wrong,
    measure,
    time_in_turn,
    time_row,
)

_FILES = 2000
_ROWS = """
CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, pad BLOB);
INSERT INTO item WITH RECURSIVE s(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM s WHERE n < {rows})
SELECT n, printf('item %d', n), randomblob(950) FROM s;
"""


@measure("reset-sqlite", "reset")
def sqlite_reset(plan: BenchPlan) -> Iterator[BenchRow]:
    """A SQLite file of a kilobyte a row, over `cp --reflink=auto`."""
    folder = _folder(plan, "sqlite")
    file = folder / "base.sqlite"
    with closing(connect(file)) as made:
        made.executescript(_ROWS.format(rows=plan.rows))
    source = PackSource("db", "sqlite", None, {"file": file})
    place = folder / "own" / "db.sqlite"

    def change() -> None:
        with closing(connect(place)) as agent, agent:
            agent.execute("UPDATE item SET name = 'other' WHERE id = 7")

    def copy() -> None:
        _do("cp", "--reflink=auto", str(file), str(folder / "copy"))

    note = f"{file.stat().st_size / 1e6:,.0f} MB; the floor is `cp --reflink=auto`"
    system = system_of(source, (), folder / "own")
    yield from _taken(plan, "SQLite", system, change, copy, note)


@measure("reset-checkout", "reset")
def checkout_reset(plan: BenchPlan) -> Iterator[BenchRow]:
    """A checkout of git, over `git worktree add`."""
    if shutil.which("git") is None:
        raise NotRun("git is not installed")
    folder = _folder(plan, "checkout")
    work, other = folder / "repository", folder / "copy"
    for number in range(_FILES):
        at = work / f"part{number % 40}" / f"file{number}.txt"
        at.parent.mkdir(parents=True, exist_ok=True)
        at.write_text(f"line {number}\n" * 100)
    git = ("git", "-C", str(work), "-c", "user.name=b", "-c", "user.email=b@example.org")
    _do(*git, "init", "-q")
    _do(*git, "add", ".")
    _do(*git, "commit", "-qm", "all")
    source = PackSource("work", "git-checkout", None, {"repository": work})

    def copy() -> None:
        _do(*git, "worktree", "add", "-fq", "--detach", str(other))
        _do("rm", "-r", str(other))

    def change() -> None:
        (folder / "own" / "work" / "part7" / "file7.txt").write_text("other\n")

    note = f"{_FILES:,} files; the floor is `git worktree add` and `rm -r`"
    yield from _taken(plan, "checkout", system_of(source, (), folder / "own"), change, copy, note)


@measure("reset-postgres", "reset")
def postgres_reset(plan: BenchPlan) -> Iterator[BenchRow]:
    """A PostgreSQL database, over `CREATE DATABASE … TEMPLATE`."""
    with postgres(plan, plan.rows) as server:

        def copy() -> None:
            with server._running().apart() as admin:  # noqa: SLF001 - as the sandbox does
                admin.execute("CREATE DATABASE copied TEMPLATE pristine STRATEGY file_copy")
                admin.execute("DROP DATABASE copied")

        def change() -> None:
            with server.as_owner() as agent:
                agent.execute("UPDATE public.orders SET quantity = 77 WHERE id = 8")

        note = f"{plan.rows:,} rows; the floor is `CREATE DATABASE … TEMPLATE`, and its drop"
        yield from _taken(plan, "PostgreSQL", server, change, copy, note)


def _taken(
    plan: BenchPlan,
    name: str,
    system: System,
    change: Callable[[], object],
    copy: Callable[[], object],
    note: str,
) -> Iterator[BenchRow]:
    system.start()
    system.reset()

    def reset() -> object:
        system.reset()
        return system.verify()[1]

    def fork(forked: Forkable) -> object:
        kept = plan.folder / f"kept-{name}"
        forked.keep(kept)
        forked.begin_at(kept)
        shutil.rmtree(kept, ignore_errors=True)
        return reset()

    def check(contender: str, found: object) -> None:
        if contender in ("reset", "fork") and found:
            raise Wrong(f"the {contender} of {name} is not proven: {found}")

    contenders = {"copy": copy, "changed": change, "reset": reset}
    if isinstance(system, Forkable):
        contenders |= {"changed again": change, "fork": partial(fork, system)}
    taken = time_in_turn(contenders, plan.repeats, check)
    system.stop()
    for done in ("reset", "fork"):
        if done in taken:
            words = f"{done} and its proof, {name}"
            yield time_row(words, "reset", taken[done], floor=taken["copy"], note=note)


def _folder(plan: BenchPlan, name: str) -> Path:
    folder = plan.folder / f"reset-{name}"
    folder.mkdir(exist_ok=True)
    return folder


def _do(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
