"""Whatever says pass or fail of a run, asked by files: commands, functions and SQL.

A verifier passes a run only where it says so. One that fails, breaks or takes too long passes
nothing; which of these it was is kept.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import sqlite3
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from statediff.errors import UsageError
from statediff.model.values import printable
from statediff.systems.base.registry import tools_of
from statediff.systems.base.tool import Done, ToolError
from statediff.systems.sqlite.loading import statements
from statediff_lab.audit.places import Place, Shown, run_over, words_of
from statediff_lab.importers.taxonomy import Cause

MAX_SQL_BYTES: Final = 1024 * 1024
_STEPS: Final = 10_000
"""Instructions of SQLite between two looks at the clock."""


class Said(StrEnum):
    """A verifier's result for a run."""

    PASS = "pass"  # noqa: S105 - no password
    FAIL = "fail"
    NOTHING = "nothing"
    """It broke, took too long, or has no verdict that can be known: no pass, and no fail."""


SAID: Final = {True: Said.PASS, False: Said.FAIL, None: Said.NOTHING}


@dataclass(frozen=True)
class Opinion:
    """A verifier's result, and its own words on it."""

    said: Said
    why: str = ""
    causes: tuple[Cause, ...] = ()
    """What a suite says of its own rules that do not pass the run."""


Verifier = Callable[[Shown], Opinion]


def command(text: str, seconds: float, at: str = "") -> Verifier:
    """A program that ends with 0 for a pass. `UsageError`.

    The paths are in its environment, and stand for `{state}`, `{before}` and `{answer}` in its
    words: `env DIR={state} python verify.py`, `env -C {state} pytest tests`. Of a database that
    runs they are URLs, `{state.host}`, `.port`, `.user`, `.password` and `.database` their parts.
    """
    return _ending(words_of(text, "--verifier"), seconds, at, lambda code: not code)


def tests_in(path: str, seconds: float, at: str) -> Verifier:
    """A file of tests, by pytest; says nothing where pytest finds none, or breaks."""
    words = ["pytest", "-q", "-p", "no:cacheprovider", *words_of(path, "pytest:")]
    return _ending(words, seconds, at, {0: True, 1: False, 2: False}.get)


def _ending(
    words: list[str], seconds: float, at: str, passes: Callable[[int], bool | None]
) -> Verifier:
    def ask(shown: Shown) -> Opinion:
        try:
            ended = run_over(words, shown, seconds, at)
        except OSError as error:
            said = printable(" ".join(words))
            raise UsageError(f"--verifier {said}: cannot be started: {error.strerror}") from error
        if ended.code is None:
            return Opinion(Said.NOTHING, f"took more than {seconds:g} s")
        return Opinion(SAID[passes(ended.code)], ended.said)

    return ask


def function(named: str) -> Verifier:
    """`MODULE:FUNCTION`, called with those of `state`, `before` and `answer` that it takes.

    True, 1 or the end of a function that returns None is a pass; False, 0 or an exception is none;
    any other result says nothing. `UsageError` if there is no such function.
    """
    module, _, name = named.partition(":")
    sys.path.insert(0, "")
    try:
        found = getattr(importlib.import_module(module), name)
        takes = set(inspect.signature(found).parameters)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise UsageError(
            f"--verifier python:{printable(named)}: expected MODULE:FUNCTION: {error}"
        ) from error
    finally:
        sys.path.remove("")
    if not takes <= {"state", "before", "answer"}:
        raise UsageError(
            f"--verifier python:{printable(named)}: expected parameters of state, before and "
            f"answer; found {printable(', '.join(sorted(takes)))}"
        )

    def ask(shown: Shown) -> Opinion:
        whole = {
            "state": _one(shown.state),
            "before": _one(shown.before),
            "answer": shown.answer,
        }
        try:
            result = found(**{key: value for key, value in whole.items() if key in takes})
        except Exception as error:  # noqa: BLE001 - a stranger's function raises what it likes
            return Opinion(Said.FAIL, printable(f"{type(error).__name__}: {error}")[:500])
        if result is None or (isinstance(result, bool | int | float) and result == 1):
            return Opinion(Said.PASS)
        if isinstance(result, bool | int | float) and result == 0:
            return Opinion(Said.FAIL)
        return Opinion(Said.NOTHING, printable(f"returned {result!r}")[:500])

    return ask


def _one(states: Mapping[str, Place]) -> Any:
    """The path where there is one source, else the paths by source."""
    return next(iter(states.values())) if len(states) == 1 else dict(states)


def sql(file: Path, seconds: float) -> Verifier:
    """Queries over one database, each of which must return one row of one true value.

    To a SQLite file the state before is attached as `before`. Nothing can be written. `UsageError`
    where the file holds no query.
    """
    try:
        raw = file.read_bytes()
        queries = [text for _, text in statements(raw[:MAX_SQL_BYTES].decode("utf-8"))]
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{printable(str(file))}: cannot be read as queries: {error}") from error
    if not queries or len(raw) > MAX_SQL_BYTES:
        raise UsageError(
            f"{printable(str(file))}: expected queries, of at most {MAX_SQL_BYTES} bytes"
        )

    def ask(shown: Shown) -> Opinion:
        if len(shown.state) != 1 or Path(_one(shown.state)).is_dir():
            raise UsageError(f"--verifier sql:{file}: expected one database as the state")
        if isinstance(_one(shown.state), str):
            return _served(queries, _one(shown.state))
        limit = time.monotonic() + seconds
        try:
            with contextlib.closing(_read_only(_one(shown.state))) as connection:
                connection.execute("ATTACH ? AS before", (_uri(_one(shown.before)),))
                connection.set_progress_handler(lambda: time.monotonic() > limit, _STEPS)
                for query in queries:
                    rows = connection.execute(query).fetchmany(2)
                    if len(rows) != 1 or len(rows[0]) != 1 or not rows[0][0]:
                        return Opinion(Said.FAIL, printable(" ".join(query.split()))[:500])
        except sqlite3.Error as error:
            if time.monotonic() > limit:
                return Opinion(Said.NOTHING, f"took more than {seconds:g} s")
            return Opinion(Said.FAIL, printable(str(error))[:500])
        return Opinion(Said.PASS)

    return ask


def _served(queries: Sequence[str], url: str) -> Opinion:
    """The opinion of the queries on a database that runs, in transactions that cannot write."""
    tool = next(each for each in tools_of("db", url) if each.name.endswith("_query"))
    for query in queries:
        try:
            done = tool.act(tool.arguments.model_validate({"sql": query, "max_rows": 2}))
        except (ToolError, ValueError) as error:
            return Opinion(Said.FAIL, printable(str(error))[:500])
        rows = (done.result if isinstance(done, Done) else done).get("rows", [])
        cells = [value for row in rows for value in row.values()]
        if len(rows) != 1 or len(cells) != 1 or not _is_true(cells[0]):
            return Opinion(Said.FAIL, printable(" ".join(query.split()))[:500])
    return Opinion(Said.PASS)


def _is_true(value: Any) -> bool:
    """True if a cell is a number that is true, or true; exact numbers come as text."""
    try:
        return bool(float(value))
    except (TypeError, ValueError):
        return False


def _read_only(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(_uri(path), uri=True)
    connection.execute("PRAGMA query_only = ON")
    return connection


def _uri(path: Path) -> str:
    return f"{path.absolute().as_uri()}?mode=ro"
