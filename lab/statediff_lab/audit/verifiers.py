"""Whatever says pass or fail of a run, asked by files: commands, functions and SQL.

A verifier passes a run only where it says so. One that fails, breaks or takes too long passes
nothing; which of these it was is kept.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import os
import shlex
import sqlite3
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from statediff.errors import UsageError
from statediff.model.values import printable
from statediff.systems.external.commands import end_of
from statediff.systems.sqlite.loading import statements
from statediff_lab.importers.taxonomy import Cause

STATE: Final = "STATEDIFF_STATE"
BEFORE: Final = "STATEDIFF_BEFORE"
ANSWER: Final = "STATEDIFF_ANSWER"
MAX_SQL_BYTES: Final = 1024 * 1024
_STEPS: Final = 10_000
"""Instructions of SQLite between two looks at the clock."""


class Said(StrEnum):
    """What a verifier says of a run."""

    PASS = "pass"  # noqa: S105 - no password
    FAIL = "fail"
    NOTHING = "nothing"
    """It broke, took too long, or has no verdict that can be known: no pass, and no fail."""


@dataclass(frozen=True)
class Opinion:
    """What was said, and the verifier's own words on it."""

    said: Said
    why: str = ""
    causes: tuple[Cause, ...] = ()
    """What a suite says of its own rules that do not pass the run."""


Place = Path | str
"""Where a state is: its path, or the URL of a database that runs."""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What a verifier may look at, each state by the name of its source."""

    before: Mapping[str, Place]
    state: Mapping[str, Place]
    """A state that was taken away is named, and not there."""
    answer: Path | None = None


Verifier = Callable[[Shown], Opinion]


def command(text: str, seconds: float) -> Verifier:
    """A program that ends with 0 for a pass. `UsageError`.

    The paths are in its environment, and stand for `{state}`, `{before}` and `{answer}` in its
    words: `env DIR={state} python verify.py`, `env -C {state} pytest tests`. Of a database that
    runs they are URLs, `{state.host}`, `.port`, `.user`, `.password` and `.database` their parts.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"--verifier {printable(text)}: cannot be split: {error}") from error
    if not words:
        raise UsageError("--verifier: expected a command, found nothing")

    def ask(shown: Shown) -> Opinion:
        try:
            own = [_placed(word, shown) for word in words]
            ended = end_of(own, Path.cwd(), seconds, {**os.environ, **variables(shown)})
        except OSError as error:
            raise UsageError(
                f"--verifier {printable(text)}: cannot be started: {error.strerror}"
            ) from error
        if ended.code is None:
            return Opinion(Said.NOTHING, f"took more than {seconds:g} s")
        return Opinion(Said.FAIL if ended.code else Said.PASS, ended.said)

    return ask


def _placed(word: str, shown: Shown) -> str:
    """The word, with the paths for their names; of several sources each has its own."""
    states = {"state": shown.state, "before": shown.before}
    places: dict[str, object] = {"answer": shown.answer or ""}
    for name, held in states.items():
        for source, place in held.items():
            names = (f"{name}.{source}", *((name,) if len(held) == 1 else ()))
            for each in names:
                places[each] = place
                places |= {f"{each}.{part}": value for part, value in _parts(place).items()}
    for name, value in places.items():
        word = word.replace(f"{{{name}}}", str(value))
    return word


def _parts(place: Place) -> dict[str, object]:
    """The parts of a URL that programs ask for one by one."""
    if isinstance(place, Path):
        return {}
    url = urlsplit(place)
    return {
        "host": url.hostname or "localhost",
        "port": url.port or "",
        "user": unquote(url.username or ""),
        "password": unquote(url.password or ""),
        "database": unquote(url.path.removeprefix("/")),
    }


def variables(shown: Shown) -> dict[str, str]:
    """The paths by variable: of one source also without its name."""
    found = {}
    for name, states in ((STATE, shown.state), (BEFORE, shown.before)):
        for source, path in states.items():
            letters = "".join(c if c.isalnum() else "_" for c in source).upper()
            found[f"{name}_{letters}"] = str(path)
        if len(states) == 1:
            found[name] = str(next(iter(states.values())))
    return found if shown.answer is None else {**found, ANSWER: str(shown.answer)}


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
    """Queries over one SQLite file, each of which must return one row of one true value.

    The state before is attached as `before`. Nothing can be written. `UsageError` where the file
    holds no query.
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
        if len(shown.state) != 1 or isinstance(_one(shown.state), str):
            raise UsageError(f"--verifier sql:{file}: expected one SQLite file as the state")
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


def _read_only(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(_uri(path), uri=True)
    connection.execute("PRAGMA query_only = ON")
    return connection


def _uri(path: Path) -> str:
    return f"{path.absolute().as_uri()}?mode=ro"
