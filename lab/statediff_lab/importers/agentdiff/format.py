"""The Agent-Diff format: suites of tests, seeds of tables, and recorded runs with their diffs.

    suite-NAME.json        {id, service, ignore_fields, tests: [{id, prompt, seed_template, …}]}
    seed-TEMPLATE.json     {table: [row, …]}
    runs-NAME.jsonl[.gz]   one run a line: {run_id, prompt, diff: {inserts, updates, deletes}, …}

A run belongs to the test with its prompt; `test_id` decides where several have it. Nothing here
knows a domain: tables and fields are whatever the files name. Rows stay plain JSON (objects,
lists, text, exact numbers); what cannot be read unambiguously is an `InputError` with its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from statediff.errors import InputError
from statediff.model.values import printable
from statediff_lab.importers.recorded import NotARun, RunLine, expect, parse

Json = Any
"""A JSON value as parsed: None, bool, int, Decimal, str, list or dict."""
RawRow = Mapping[str, Json]

MAX_BYTES: Final = 64 * 1024 * 1024
"""The largest suite or seed that is read."""
DIFF_TYPES: Final = ("added", "removed", "changed", "unchanged")
TABLE: Final = "__table__"


@dataclass(frozen=True)
class Change:
    """An assertion's demand on one field: predicates on its old and new value, or None."""

    field: str
    old: RawRow | None
    new: RawRow | None


@dataclass(frozen=True)
class Assertion:
    """One assertion, its bare values written as `eq`."""

    diff_type: str
    entity: str
    where: tuple[tuple[str, RawRow], ...] = ()
    """(path, predicate): a path may lead into objects, its steps separated by dots."""
    count: int | tuple[int | None, int | None] | None = None
    """Exactly so many, (min, max), or None: at least one."""
    changes: tuple[Change, ...] = ()
    ignore: frozenset[str] = frozenset()
    """Fields of this table whose changes do not count, those of the whole suite included."""


@dataclass(frozen=True)
class Test:
    """One task of a suite."""

    __test__ = False  # pytest would take the name for a test class

    id: str
    prompt: str
    seed: str
    acting_user: str | None
    assertions: tuple[Assertion, ...]
    name: str = ""


@dataclass(frozen=True)
class TaskSuite:
    """One suite: `name` is the file's, between `suite-` and `.json`."""

    name: str
    service: str
    tests: tuple[Test, ...]
    strict: bool = True
    """True if a matched update may change nothing but the expected fields."""


@dataclass(frozen=True)
class Update:
    """One entry of the journal of updates."""

    table: str
    before: RawRow
    after: RawRow


@dataclass(frozen=True)
class Journal:
    """A run's recorded diff, in the order recorded: (table, row) of inserts and deletes."""

    inserts: tuple[tuple[str, RawRow], ...] = ()
    updates: tuple[Update, ...] = ()
    deletes: tuple[tuple[str, RawRow], ...] = ()


# --- shapes --------------------------------------------------------------------------------------


def _text(value: Json, what: str) -> str:
    return str(expect(value, str, what, "text"))


def read_suite(path: Path) -> TaskSuite:
    """The suite in a file; `InputError` names the test and assertion that cannot be read."""
    name = path.name.removesuffix(".json").removeprefix("suite-")
    return suite_from(_document(path), name, printable(path.name))


def suite_from(document: Json, name: str, what: str) -> TaskSuite:
    """The suite that a parsed file holds."""
    tree = expect(document, dict, what, "an object with `tests`")
    tests = expect(tree.get("tests"), list, f"{what}: tests", "a list of tests")
    if not tests:
        raise InputError(f"{what}: expected at least one test, found none")
    ignored = tree.get("ignore_fields") or {}
    expect(ignored, dict, f"{what}: ignore_fields", "an object")
    by_table = {
        table: frozenset(_names(names, f"{what}: ignore_fields.{table}"))
        for table, names in ignored.items()
    }
    read = tuple(_test(test, by_table, what, at) for at, test in enumerate(tests))
    seen: set[str] = set()
    for test in read:
        if test.id in seen:
            raise InputError(f"{what}: two tests are called {printable(test.id[:60])}")
        seen.add(test.id)
    strict = tree.get("strict", True)
    return TaskSuite(
        name,
        _text(tree.get("service", name), f"{what}: service"),
        read,
        bool(expect(strict, bool, f"{what}: strict", "true or false")),
    )


def _test(tree: Json, ignored: Mapping[str, frozenset[str]], what: str, at: int) -> Test:
    where = f"{what}: tests[{at}]"
    test = expect(tree, dict, where, "an object")
    identity = _text(test.get("id"), f"{where}: id")
    where = f"{what}: test {printable(identity[:60])}"
    user = test.get("impersonate_user_id")
    assertions = expect(test.get("assertions"), list, f"{where}: assertions", "a list")
    return Test(
        identity,
        _text(test.get("prompt"), f"{where}: prompt"),
        _text(test.get("seed_template"), f"{where}: seed_template"),
        None if user is None else _text(user, f"{where}: impersonate_user_id"),
        tuple(
            _assertion(entry, ignored, f"{where}: assertion {number}")
            for number, entry in enumerate(assertions, start=1)
        ),
        str(test.get("name") or ""),
    )


def _assertion(tree: Json, ignored: Mapping[str, frozenset[str]], what: str) -> Assertion:
    entry = expect(tree, dict, what, "an object")
    kind = entry.get("diff_type")
    if kind not in DIFF_TYPES:
        raise InputError(
            f"{what}: diff_type: expected one of {', '.join(DIFF_TYPES)}, "
            f"found {printable(str(kind)[:40])}"
        )
    entity = _text(entry.get("entity"), f"{what}: entity")
    where = expect(entry.get("where") or {}, dict, f"{what}: where", "an object")
    changes = entry.get("expected_changes") or {}
    expect(changes, dict, f"{what}: expected_changes", "an object")
    ignore = frozenset(_names(entry.get("ignore") or [], f"{what}: ignore"))
    everywhere = ignored.get("global", frozenset())
    return Assertion(
        kind,
        entity,
        tuple((path, _predicate(value)) for path, value in where.items()),
        _count(entry.get("expected_count"), f"{what}: expected_count"),
        tuple(_change(name, spec) for name, spec in changes.items()),
        ignore | everywhere | ignored.get(entity, frozenset()),
    )


def _predicate(value: Json) -> RawRow:
    return value if isinstance(value, dict) else {"eq": value}


def _change(name: str, spec: Json) -> Change:
    if not isinstance(spec, dict):
        return Change(name, None, {"eq": spec})
    return Change(
        name,
        _predicate(spec["from"]) if "from" in spec else None,
        _predicate(spec["to"]) if "to" in spec else None,
    )


def _count(value: Json, what: str) -> int | tuple[int | None, int | None] | None:
    if value is None or isinstance(value, int):
        return None if value is None else int(value)
    bounds = expect(value, dict, what, "a whole number or an object with min and max")
    low, high = bounds.get("min"), bounds.get("max")
    for bound in (low, high):
        if bound is not None:
            expect(bound, int, what, "whole numbers as min and max")
    return low, high


def _names(value: Json, what: str) -> Sequence[str]:
    return [_text(name, what) for name in expect(value, list, what, "a list of field names")]


def read_seed(path: Path) -> dict[str, list[RawRow]]:
    """The state before, table by table; `InputError` names the table and row that is none."""
    what = printable(path.name)
    tree: dict[str, list[RawRow]] = _document(path)
    for table, rows in tree.items():
        for at, row in enumerate(expect(rows, list, f"{what}: {printable(table)}", "rows")):
            expect(row, dict, f"{what}: {printable(table)}[{at}]", "a row")
    return tree


def _document(path: Path) -> dict[str, Any]:
    what = printable(path.name)
    try:
        if not path.is_file():  # opening a pipe would wait for ever
            raise InputError(f"{what}: expected a file, found none; it belongs beside the suite")
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise InputError(f"{what}: {size} bytes; at most {MAX_BYTES} are read")
        return dict(parse(RunLine(what, 0, path.read_bytes())))
    except OSError as error:
        raise InputError(f"{what}: cannot be read: {error.strerror}") from error
    except NotARun as error:
        raise InputError(f"{what}: {error}") from error


def diff_of(journal: Journal) -> dict[str, Json]:
    """The journal as the `diff` of a line."""
    return {
        "inserts": [{**row, TABLE: table} for table, row in journal.inserts],
        "updates": [
            {TABLE: u.table, "before": u.before, "after": u.after} for u in journal.updates
        ],
        "deletes": [{**row, TABLE: table} for table, row in journal.deletes],
    }


def journal_from(diff: Json) -> Journal:
    """The journal in a run's `diff`. `InputError` for what is none."""
    tree = expect(diff, dict, "diff", "an object with inserts, updates and deletes")
    parts: dict[str, list[tuple[str, RawRow]]] = {}
    for part in ("inserts", "updates", "deletes"):
        rows = expect(tree.get(part) or [], list, f"diff.{part}", "a list of rows")
        parts[part] = []
        for at, row in enumerate(rows):
            place = f"diff.{part}[{at}]"
            table = _text(expect(row, dict, place, "a row").get(TABLE), f"{place}.{TABLE}")
            parts[part].append((table, {k: v for k, v in row.items() if k != TABLE}))
    updates = tuple(
        Update(
            table,
            expect(row.get("before"), dict, f"diff.updates[{at}].before", "a row"),
            expect(row.get("after"), dict, f"diff.updates[{at}].after", "a row"),
        )
        for at, (table, row) in enumerate(parts["updates"])
    )
    return Journal(tuple(parts["inserts"]), updates, tuple(parts["deletes"]))
