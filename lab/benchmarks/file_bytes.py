"""Bytes of a state changed at random, judged beside an independent look at the same files.

    python -m lab.benchmarks.file_bytes [--kind sqlite|git|csv|json] [-n 500] [--seed 0]

Nothing may change. A mutant that the look (SQLite's own queries and checks, git's own commands, a
parser of the standard library) finds different has to be no MATCH, no mutant may end the judgement,
and a kept judge has to say what a judgement of the pair says. Exit code 1 where one of these fails.
A mutant that looks the same and is DIVERGE is counted only: much of what is damaged shows later.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import statediff

CONTRACT: Final = """\
contract: bench/nothing
version: 1.0.0
owner: bench
intent: Change nothing at all.
noop: true
"""
_ODD: Final = (0, 1, 2, 9, 10, 13, 32, 34, 35, 44, 48, 97, 127, 128, 195, 255)
_EVERY: Final = 20
"""Of so many mutants one is judged as a pair, too."""
_GIT_SECONDS: Final = 20


@dataclass(frozen=True)
class Kind:
    """A kind of state: how the one before is made, what looks at one, and which files change."""

    make: Callable[[Path, random.Random], None]
    look: Callable[[Path], object]
    files: Callable[[Path], list[Path]]
    suffix: str = ""


@dataclass(frozen=True)
class Suspect:
    """A mutant that was not judged as it should be."""

    what: str
    file: str
    how: str


def tried(kind: Kind, number: int, seed: int, place: Path) -> Iterator[tuple[bool, str, Suspect]]:
    """Yields for each mutant whether it looks the same, the verdict, and what it was."""
    chance = random.Random(seed)
    before, after = place / f"before{kind.suffix}", place / f"after{kind.suffix}"
    kind.make(before, chance)
    contract = statediff.load_contract(CONTRACT)
    usual, judge = kind.look(before), statediff.Judge(contract, f"state={before}")
    for n in range(number):
        _copied(before, after)
        file = chance.choice(kind.files(after))
        how = _changed(file, chance)
        shown = file.relative_to(after).as_posix() if after.is_dir() else file.name
        try:
            verdict = judge.score(f"state={after}").verdict.value
            if n % _EVERY == 0:
                pair = statediff.judge(contract, f"state={before}", f"state={after}").verdict.value
                verdict = verdict if pair == verdict else f"{verdict}, as a pair {pair}"
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            verdict = f"{type(error).__name__}: {error}"
        yield kind.look(after) == usual, verdict, Suspect(verdict, shown, how)


def is_suspect(looks_alike: bool, verdict: str) -> bool:
    """True if the verdict is none, or MATCH of what differs."""
    return verdict not in ("MATCH", "DIVERGE", "INCONCLUSIVE") or (
        verdict == "MATCH" and not looks_alike
    )


def _copied(before: Path, after: Path) -> None:
    if after.is_dir():
        shutil.rmtree(after)
    if before.is_dir():
        shutil.copytree(before, after, symlinks=True)
    else:
        shutil.copyfile(before, after)


def _changed(file: Path, chance: random.Random) -> str:
    """One change of the bytes of the file, in words."""
    content = bytearray(file.read_bytes() or b"\n")
    at, other = chance.randrange(len(content)), chance.randrange(len(content))
    how = chance.choice(("byte", "bit", "swap", "copy", "insert", "line", "end"))
    match how:
        case "byte":
            content[at] = chance.choice((*_ODD, chance.randrange(256)))
        case "bit":
            content[at] ^= 1 << chance.randrange(8)
        case "swap":
            content[at], content[other] = content[other], content[at]
        case "copy":
            size = min(chance.choice((1, 2, 4, 30, 512)), len(content) - max(at, other))
            content[at : at + size] = content[other : other + size]
        case "insert":
            content[at:at] = bytes([chance.choice(_ODD)])
        case "line":
            lines = bytes(content).split(b"\n")
            lines[at % len(lines)], lines[other % len(lines)] = (
                lines[other % len(lines)],
                lines[at % len(lines)],
            )
            content = bytearray(b"\n".join(lines))
        case _:
            content = content[:at] if chance.random() < 0.5 else content + bytes(512)
    file.chmod(0o644 | file.stat().st_mode & 0o111)
    file.write_bytes(content)
    return f"{how} at {at}"


# ---------------------------------------------------------------- SQLite

_SCHEMA: Final = """
CREATE TABLE a (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, n REAL, b BLOB);
CREATE TABLE w (x TEXT, y INTEGER, z NUMERIC, PRIMARY KEY (x, y)) WITHOUT ROWID;
CREATE TABLE p (aid INTEGER REFERENCES a (id), v, t TIMESTAMP);
CREATE INDEX pi ON p (aid, v DESC) WHERE v IS NOT NULL;
CREATE INDEX pe ON p (lower(v));
CREATE VIEW vw AS SELECT * FROM a JOIN p ON p.aid = a.id;
CREATE TRIGGER tr AFTER INSERT ON p BEGIN UPDATE a SET n = n + 1 WHERE id = new.aid; END;
CREATE VIRTUAL TABLE ft USING fts5(body);
PRAGMA user_version = 7;
"""
_QUERIES: Final = (
    "SELECT *, rowid FROM a NOT INDEXED",
    "SELECT * FROM w NOT INDEXED",
    "SELECT *, rowid FROM p NOT INDEXED",
    "SELECT rowid, * FROM ft",
    "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name",
    "SELECT * FROM sqlite_sequence",
    "SELECT aid, v FROM p INDEXED BY pi WHERE v IS NOT NULL ORDER BY aid, v DESC",
    "SELECT lower(v) FROM p INDEXED BY pe ORDER BY lower(v)",
    "SELECT name FROM a ORDER BY name",
    "SELECT rowid FROM ft WHERE ft MATCH 'row'",
    "PRAGMA integrity_check",
    "PRAGMA user_version",
    "PRAGMA application_id",
    "PRAGMA encoding",
    "PRAGMA auto_vacuum",
    "PRAGMA page_size",
)


def _make_database(file: Path, chance: random.Random) -> None:
    with closing(sqlite3.connect(file)) as db:
        db.execute(f"PRAGMA page_size = {chance.choice((512, 1024, 4096))}")
        db.execute(f"PRAGMA auto_vacuum = {chance.choice((0, 0, 1, 2))}")
        db.executescript(_SCHEMA)
        for i in range(1, 61):
            db.execute(
                "INSERT INTO a (name, n, b) VALUES (?, ?, ?)",
                (f"name {i} {'é' * (i % 7)}", None if i % 3 else i * 1.5, bytes([i]) * (i * 20)),
            )
            db.execute("INSERT INTO w VALUES (?, ?, ?)", (f"w{i % 9}", i, i * 10 ** (i % 12)))
            stored = chance.choice((None, i, f"v{i}", "x" * 300))
            db.execute("INSERT INTO p VALUES (?, ?, ?)", (i % 40 + 1, stored, f"2024-01-{i:02d}"))
            db.execute("INSERT INTO ft VALUES (?)", (f"row {i} of all",))
        db.execute("DELETE FROM a WHERE id % 11 = 0")
        db.commit()


def _look_at_database(file: Path) -> object:
    try:
        with closing(sqlite3.connect(f"file:{file}?immutable=1", uri=True)) as db:
            db.text_factory = bytes
            return [db.execute(query).fetchall() for query in _QUERIES]
    except (sqlite3.Error, UnicodeDecodeError) as error:
        return str(error)


# ---------------------------------------------------------------- git

_COMMANDS: Final = (
    "for-each-ref --format=%(refname)%20%(objectname)%20%(*objectname)%20%(symref)",
    "symbolic-ref HEAD",
    "fsck --full --strict --no-dangling",
    "status --porcelain=v2 --ignored",
    "config -l",
    "log --all --format=%H%T%P%an%ae%ad%s --name-status",
    "stash list",
    "ls-files -s -v",
    "log --format=%H -- f2.txt",
    "write-tree",
    "rev-list --all --objects",
    "show-ref -d",
    "cat-file --batch-all-objects --batch-check",
)


def _git(folder: Path, *words: str) -> tuple[int, bytes, bytes]:
    own = {"GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@x.example", "GIT_CONFIG_NOSYSTEM": "1"}
    own |= {"GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@x.example", "HOME": "/nonexistent"}
    own |= {"GIT_OPTIONAL_LOCKS": "0"}
    done = subprocess.run(
        ["git", "-C", str(folder), *words],  # noqa: S607 - the git on the PATH
        capture_output=True,
        env={**os.environ, **own},
        stdin=subprocess.DEVNULL,
        timeout=_GIT_SECONDS,
        check=False,
    )
    place = str(folder).encode()
    return done.returncode, done.stdout.replace(place, b"."), done.stderr.replace(place, b".")


def _make_repository(folder: Path, chance: random.Random) -> None:
    folder.mkdir()

    def git(*words: str) -> None:
        code, _, said = _git(folder, *words)
        if code:
            raise SystemExit(said.decode())

    git("init", "-q", "-b", "main")
    for i in range(4):
        (folder / f"f{i}.txt").write_text(f"line {i}\n" * (i + 1), encoding="utf-8")
        git("add", "-A")
        git("commit", "-q", "-m", f"c{i}")
    for words in ("branch dev", "tag -a v1 -m one", "tag light"):
        git(*words.split())
    for words in ("pack-refs --all", "gc -q", "commit-graph write --reachable --changed-paths"):
        if chance.random() < 0.6:
            git(*words.split())
    (folder / "f1.txt").write_text("put away\n", encoding="utf-8")
    git("stash", "-q")
    git("notes", "add", "-m", "a note", "HEAD")
    hook = folder / ".git" / "hooks" / "post-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho done\n", encoding="utf-8")
    hook.chmod(0o755)
    git("config", "alias.x", "status")
    git("status")


def _look_at_repository(folder: Path) -> object:
    try:
        return [_git(folder, *(w.replace("%20", " ") for w in c.split())) for c in _COMMANDS]
    except subprocess.TimeoutExpired:
        return "no end"


def _files_of_repository(folder: Path) -> list[Path]:
    """All but samples, and what reflogs say, of which the source says that it is not observed."""
    files = (each for each in sorted(folder.rglob("*")) if each.is_file() and not each.is_symlink())
    return [each for each in files if "logs" not in each.parts and each.suffix != ".sample"]


# ---------------------------------------------------------------- tables

_RECORDS: Final = tuple(
    {"id": i, "name": f"name {i}", "cents": i * 125, "note": note, "at": f"2024-01-{i:02d}T10:00Z"}
    for i, note in enumerate(("", "x, y", 'says "hi"', "a\nb", "ünï", "0012", " in", "true"), 1)
)


def _make_csv(file: Path, _: random.Random) -> None:
    with file.open("w", newline="", encoding="utf-8") as written:
        writer = csv.DictWriter(written, list(_RECORDS[0]))
        writer.writeheader()
        writer.writerows(_RECORDS)


def _look_at_csv(file: Path) -> object:
    try:
        text = file.read_bytes().decode("utf-8-sig")
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        return str(error)
    read = [[int(c) if c.isascii() and c.isdigit() else c for c in row] for row in rows]
    return [*read[:1], *sorted(read[1:], key=repr)]  # rows of a table have no order


def _make_json(file: Path, _: random.Random) -> None:
    user = {"id": 1, "tags": ["a", "b"], "own": {"k": 1.5, "z": None}}
    file.write_text(json.dumps({"item": _RECORDS, "user": [user]}, indent=1), encoding="utf-8")


def _look_at_json(file: Path) -> object:
    def pairs(found: list[tuple[str, Any]]) -> object:
        return sorted(found, key=repr)

    try:
        return repr(json.loads(file.read_bytes(), object_pairs_hook=pairs))
    except (ValueError, RecursionError) as error:
        return str(error)


def _itself(file: Path) -> list[Path]:
    return [file]


KINDS: Final[Mapping[str, Kind]] = {
    "sqlite": Kind(_make_database, _look_at_database, _itself),
    "git": Kind(_make_repository, _look_at_repository, _files_of_repository),
    "csv": Kind(_make_csv, _look_at_csv, _itself, ".csv"),
    "json": Kind(_make_json, _look_at_json, _itself, ".json"),
}


def run(name: str, number: int, seed: int) -> tuple[Counter[tuple[str, str]], list[Suspect]]:
    """How many mutants looked how and got which verdict, and those that are suspect."""
    counted: Counter[tuple[str, str]] = Counter()
    suspects: list[Suspect] = []
    with tempfile.TemporaryDirectory(prefix="statediff-bytes-") as folder:
        for alike, verdict, suspect in tried(KINDS[name], number, seed, Path(folder)):
            counted["alike" if alike else "different", verdict[:40]] += 1
            if is_suspect(alike, verdict):
                suspects.append(suspect)
    return counted, suspects


def main() -> int:
    """Every kind that was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kind", choices=KINDS, action="append")
    parser.add_argument("-n", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    failed = False
    for name in given.kind or KINDS:
        counted, suspects = run(name, given.n, given.seed)
        for (looks, verdict), number in sorted(counted.items()):
            print(f"{name}: {number} {looks}, {verdict}")
        for suspect in suspects:
            print(f"  {suspect.file}, {suspect.how}: {suspect.what}")
        failed |= bool(suspects)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
