"""Agent-Diff's own rules, reproduced: what its assertions say of a recorded diff.

Its world is open: rows that no assertion matches are not looked at. Entries of the journal are
read one by one, as recorded. An assertion about additions or removals counts the rows that satisfy
its `where`; one about changes counts the updates whose row before or after satisfies it and whose
changed fields are as expected. Fields that change beside those expected fail it, unless ignored.

Where Agent-Diff's answer cannot be given safely and exactly, the assertion is *undecided* and says
why: a regular expression that RE2 refuses or that might read a text differently than Python's (the
benchmark's own could run for hours), or a comparison that raises in the original.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

from statediff.contract.language.kinds import ExpressionError, compile_regex
from statediff.model.values import printable
from statediff_lab.importers.agentdiff.format import (
    Assertion,
    Journal,
    Json,
    RawRow,
    TaskSuite,
    Test,
)

MAX_PATTERN: Final = 1000


@dataclass(frozen=True)
class Outcome:
    """One assertion's outcome. `holds` is None where it is undecided; `reason` says why not."""

    holds: bool | None
    reason: str = ""


@dataclass(frozen=True)
class Score:
    """The benchmark's verdict on a run: `passes` is None where an assertion is undecided."""

    passes: bool | None
    outcomes: tuple[Outcome, ...]

    @property
    def failures(self) -> tuple[str, ...]:
        """Why each assertion that does not hold does not, in the order of the test."""
        return tuple(o.reason for o in self.outcomes if not o.holds)


class Undecided(ValueError):
    """The benchmark's answer cannot be given; the message says why."""


def score(suite: TaskSuite, test: Test, journal: Journal) -> Score:
    """The test's assertions over a run's journal."""
    outcomes = tuple(
        _outcome(number, assertion, journal, suite.strict)
        for number, assertion in enumerate(test.assertions, start=1)
    )
    if any(o.holds is False for o in outcomes):
        return Score(False, outcomes)
    return Score(None if any(o.holds is None for o in outcomes) else True, outcomes)


def _outcome(number: int, assertion: Assertion, journal: Journal, strict: bool) -> Outcome:
    name = f"assertion {number} ({assertion.diff_type} {printable(assertion.entity)})"
    try:
        found, surplus = _count(assertion, journal, strict)
    except Undecided as error:
        return Outcome(None, f"{name}: undecided: {error}")
    if surplus:
        fields = ", ".join(printable(field) for field in sorted(surplus))
        return Outcome(False, f"{name}: also changed: {fields}")
    low, high = bounds(assertion)
    if (low is None or found >= low) and (high is None or found <= high):
        return Outcome(True)
    return Outcome(False, f"{name}: expected {_spell(low, high)}, found {found}")


def bounds(assertion: Assertion) -> tuple[int | None, int | None]:
    """The least and greatest number of matches an assertion accepts; None: no bound."""
    match assertion.count:
        case None:
            return (None, 0) if assertion.diff_type == "unchanged" else (1, None)
        case int():
            return assertion.count, assertion.count
        case low, high:
            return low, high


def _spell(low: int | None, high: int | None) -> str:
    if low == high:
        return f"exactly {low}"
    parts = [("at least", low), ("at most", high)]
    return " and ".join(f"{word} {bound}" for word, bound in parts if bound is not None)


def _count(assertion: Assertion, journal: Journal, strict: bool) -> tuple[int, set[str]]:
    """How many entries match, and the fields that changed beside those expected."""
    entity, where = assertion.entity, assertion.where
    inserted = [row for table, row in journal.inserts if table == entity]
    removed = [row for table, row in journal.deletes if table == entity]
    updated = [update for update in journal.updates if update.table == entity]
    match assertion.diff_type:
        case "added":
            return sum(satisfies(row, where) for row in inserted), set()
        case "removed":
            return sum(satisfies(row, where) for row in removed), set()
        case _:
            pass
    concerned = [u for u in updated if satisfies(u.after, where) or satisfies(u.before, where)]
    if assertion.diff_type == "unchanged":
        rows = sum(satisfies(row, where) for row in (*inserted, *removed))
        return rows + len(concerned), set()
    found, surplus = 0, set[str]()
    expected = {change.field for change in assertion.changes}
    for update in concerned:
        changed = changed_fields(update.before, update.after) - assertion.ignore
        if strict and not changed <= expected:
            surplus |= changed - expected
        elif all(
            change.field in changed
            and (change.old is None or holds(update.before.get(change.field), change.old))
            and (change.new is None or holds(update.after.get(change.field), change.new))
            for change in assertion.changes
        ):
            found += 1
    return found, surplus


def changed_fields(before: RawRow, after: RawRow) -> set[str]:
    """The fields whose values differ; a missing field is null to this benchmark."""
    return {
        name
        for name in before.keys() | after.keys()
        if before.get(name) != after.get(name)
        and _plain(before.get(name)) != _plain(after.get(name))
    }


def satisfies(row: RawRow, where: Iterable[tuple[str, RawRow]]) -> bool:
    """True if a row satisfies every predicate of a `where`."""
    return all(holds(_at(row, path), predicate) for path, predicate in where)


def _at(row: RawRow, path: str) -> Json:
    found: Json = row
    for step in path.split("."):
        if not isinstance(found, Mapping) or step not in found:
            return None
        found = found[step]
    return found


def holds(value: Json, predicate: RawRow) -> bool:
    """True if a value satisfies all operators of a predicate. Raises `Undecided`."""
    return all(
        operator in OPERATORS and OPERATORS[operator](_plain(value), _plain(expected))
        for operator, expected in predicate.items()
    )


def _plain(value: Json) -> Json:
    """The value as the benchmark's own parser reads it: numbers with a fraction are doubles."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return value


# --- operators -----------------------------------------------------------------------------------


def _texts(test: Callable[[str, str], bool]) -> Callable[[Any, Any], bool]:
    """The test for two texts; whatever is no text does not satisfy it."""
    return lambda value, expected: (
        isinstance(value, str) and isinstance(expected, str) and test(value, expected)
    )


def _any_case(test: Callable[[str, str], bool]) -> Callable[[Any, Any], bool]:
    return _texts(lambda value, expected: test(value.lower(), expected.lower()))


def _ordering(test: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """The comparison; values that have no order do not satisfy it."""

    def compare(value: Any, expected: Any) -> bool:
        try:
            return test(value, expected)
        except TypeError:
            return False

    return compare


def _sequence(test: Callable[[Iterable[bool]], bool]) -> Callable[[Any, Any], bool]:
    def compare(value: Any, expected: Any) -> bool:
        if not isinstance(value, Sequence):
            return False
        try:
            return test(item in value for item in (expected or []))
        except TypeError as error:
            raise Undecided(f"the benchmark itself stumbles: {error}") from error

    return compare


def _matches(value: Any, pattern: Any) -> bool:
    if not isinstance(value, str):
        return False
    if not isinstance(pattern, str):
        raise Undecided("a regular expression that is no text stops the benchmark itself")
    compiled, loose = _compile(pattern)
    if compiled is None:
        return False
    if not _read_alike(value, loose):
        raise Undecided(
            f"{_quote(pattern)} may mean another thing in RE2 than in Python for {_quote(value)}"
        )
    return compiled.search(value) is not None


@lru_cache(maxsize=1024)
def _compile(pattern: str) -> tuple[Any, bool]:
    """The expression in RE2, None where Python refuses it: then it matches nothing.

    Beside it, whether it has parts that the two read differently beyond ASCII.
    """
    if len(pattern) > MAX_PATTERN:
        raise Undecided(f"a regular expression of {len(pattern)} characters; at most {MAX_PATTERN}")
    if "[:" in pattern or "{," in pattern:
        raise Undecided(f"{_quote(pattern)} means another thing in RE2 than in Python")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return None, False
    try:
        return compile_regex(pattern), re.search(r"\\[A-Za-z]|\(\?", pattern) is not None
    except ExpressionError as error:
        raise Undecided(f"RE2 refuses {_quote(pattern)}: {error}") from error


_ALIKE: Final = re.compile(r"[\t\n\f\r -~]*")


def _read_alike(value: str, loose: bool) -> bool:
    """True if RE2 and Python see the same in the text.

    They differ beyond ASCII in classes and case, and at a final line feed in what `$` means.
    """
    if value.endswith("\n"):
        return False
    return not loose or _ALIKE.fullmatch(value) is not None


def _quote(text: str) -> str:
    return f'"{printable(text[:60])}"'


OPERATORS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "eq": lambda value, expected: bool(value == expected),
    "ne": lambda value, expected: bool(value != expected),
    "not_eq": lambda value, expected: bool(value != expected),
    "in": _ordering(lambda value, expected: value in expected),
    "not_in": _ordering(lambda value, expected: value not in expected),
    "contains": _texts(lambda value, expected: expected in value),
    "not_contains": _texts(lambda value, expected: expected not in value),
    "i_contains": _any_case(lambda value, expected: expected in value),
    "starts_with": _texts(str.startswith),
    "ends_with": _texts(str.endswith),
    "i_starts_with": _any_case(str.startswith),
    "i_ends_with": _any_case(str.endswith),
    "regex": _matches,
    "gt": _ordering(lambda value, expected: bool(value > expected)),
    "gte": _ordering(lambda value, expected: bool(value >= expected)),
    "lt": _ordering(lambda value, expected: bool(value < expected)),
    "lte": _ordering(lambda value, expected: bool(value <= expected)),
    "exists": lambda value, expected: bool(expected) is (value is not None),
    "has_any": _sequence(any),
    "has_all": _sequence(all),
}
"""Every operator of the benchmark; a predicate with any other is satisfied by nothing."""
