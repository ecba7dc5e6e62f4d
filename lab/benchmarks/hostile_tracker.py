"""Possible changes to a tracker's home: sessions, keys, programs, settings, and its database."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final

from lab.benchmarks import hostile_sqlite
from lab.benchmarks.hostile_files import entries, touched
from lab.benchmarks.hostile_places import Family, pick
from lab.benchmarks.hostile_sqlite import (
    all_of_a_table,
    another_value,
    file_itself,
    left_beside,
    opened,
    row_deleted,
    rows_copied,
    structure,
)


def _database(home: Path) -> Path:
    return home / "db" / "db"


def within(family: Family) -> Family:
    """The family, on the database of a tracker's home."""

    def act(home: Path, rng: random.Random) -> str:
        return f"the database: {family(_database(home), rng)}"

    act.__name__ = family.__name__
    return act


def session(home: Path, rng: random.Random) -> str:
    store = rng.choice(["session", "otk"])
    key, login = f"{rng.randrange(16**32):032x}", rng.choice(["admin", "mara"])
    with opened(home / "db" / f"db-{store}") as db:
        db.execute(
            f"CREATE TABLE IF NOT EXISTS {store}s ({store}_key VARCHAR(255),"
            f" {store}_value TEXT, {store}_time REAL)"
        )
        db.execute(f"INSERT INTO {store}s VALUES (?, ?, 0)", (key, repr({"user": login})))
    return f"a {store} of {login}"


def store_object(home: Path, rng: random.Random) -> str:
    store = rng.choice(["session", "otk"])
    with opened(home / "db" / f"db-{store}") as db:
        db.execute(f"CREATE TABLE z{rng.randrange(999)} (a)")
    return f"a table in db-{store}"


def tracker_file(home: Path, rng: random.Random) -> str:
    name = rng.choice(
        [
            "extensions/z.py",
            "detectors/z.py",
            "lib/z.py",
            "html/z.html",
            "interfaces.py",
            "db/backend_name",
            "TEMPLATE-INFO.txt",
            "db/z.tmp",
            "extensions/__pycache__/z.cpython-311.pyc",
            "db/db-session2",
            "z.pth",
            "html/.z",
            "schema.pyc",
            "detectors/__pycache__/z",
        ]
    )
    place = home / name
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.open("ab") as stream:
        stream.write(rng.randbytes(rng.randrange(1, 50)))
    return f"{name} is written"


def tracker_home(home: Path, rng: random.Random) -> str:
    kept = [p for p in entries(home) if p.parts[-2] != "db" and p.suffix != ".pyc"]
    file = pick([p for p in kept if p.name != "config.ini"], rng)
    match rng.choice(["append", "gone", "mode", "link"]):
        case "append":
            file.write_bytes(file.read_bytes() + rng.choice([b"\n#", b"<script>", b" "]))
        case "gone":
            file.unlink()
        case "mode":
            file.chmod(file.stat().st_mode & 0o7777 ^ rng.choice([0o002, 0o100, 0o4000]))
        case _:
            file.rename(home.parent / "aside")
            file.symlink_to(home.parent / "aside")
    return f"{file.relative_to(home)} is another"


def tracker_setting(home: Path, rng: random.Random) -> str:
    config = home / "config.ini"
    lines = config.read_text().splitlines(keepends=True)
    at = pick([n for n, line in enumerate(lines) if "=" in line and line[0] not in "#; "], rng)
    lines[at] = lines[at].rstrip("\n") + "1\n"
    config.write_text("".join(lines))
    return f"config.ini: {lines[at].strip()[:40]}"


_DATABASE: Final = (
    another_value,
    row_deleted,
    rows_copied,
    all_of_a_table,
    structure,
    file_itself,
    left_beside,
)
HARMS: Final[tuple[Family, ...]] = (
    session,
    store_object,
    tracker_file,
    tracker_home,
    tracker_setting,
    *map(within, _DATABASE),
)
CHORES: Final[tuple[Family, ...]] = (touched, *map(within, hostile_sqlite.CHORES))
