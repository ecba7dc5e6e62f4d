"""Recorded runs of Agent-Diff: the door to a folder of its suites, seeds and runs.

A task belongs to the half its number says: the first whole number in its name, even ones were
developed on (`test_6b` is even). A task without a number is held out.

A recorded diff is put as net changes over a seed. A diff is a journal: one entity may stand in it
several times, and rows that were inserted may be updated afterwards. What is known of an entity is
chained, before to after, into what it was when the run began and what it was when the run ended;
the journal's word on either beats the seed's, which other runs' set-up has moved on. A journal
whose entries contradict each other has no reading: `InputError` names the entity and field.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from statediff.contract.file import ContractFile
from statediff.errors import InputError, UsageError
from statediff.model.batches import Row
from statediff.model.values import ABSENT, Map, Observed, Value, printable, same, show, show_key
from statediff.systems.tables.shape import Record
from statediff_lab.importers.agentdiff.contract import contract_for
from statediff_lab.importers.agentdiff.domain import Domain, Ground
from statediff_lab.importers.agentdiff.format import (
    Journal,
    RawRow,
    TaskSuite,
    Test,
    Update,
    diff_of,
    journal_from,
    read_seed,
    read_suite,
)
from statediff_lab.importers.agentdiff.minimal import minimal
from statediff_lab.importers.agentdiff.rules import satisfies, score
from statediff_lab.importers.pack import DomainPack, open_pack
from statediff_lab.importers.recorded import (
    Compat,
    Half,
    Labels,
    NotARun,
    Prepared,
    RecordedRun,
    RunFile,
    SeededChange,
    TaskId,
)
from statediff_lab.importers.states import Edit
from statediff_lab.importers.taxonomy import Cause

NAME: Final = "agent-diff"
_RUNS: Final = re.compile(r"runs-(.+)\.jsonl(?:\.gz)?")
_KINDS: Final = (
    ("no match", re.compile(r"expected .* but got 0")),
    ("another number", re.compile(r"expected .* but got \d+")),
    ("other fields changed", re.compile(r"changed fields .* not subset")),
)
"""What an assertion that failed says, by kind."""


def open_cases(folder: Path) -> AgentDiff:
    """The folder of suites, seeds and runs. `UsageError` where it holds no suite."""
    return AgentDiff(folder)


class AgentDiff:
    """One folder: every `suite-*.json` in it is a domain."""

    name = NAME

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        found = sorted(folder.glob("suite-*.json"))
        if not found:
            raise UsageError(f"{printable(str(folder))}: expected suite-NAME.json, found none")
        self._suites = {suite.name: suite for suite in map(read_suite, found)}
        self._by_prompt: dict[str, dict[str, list[Test]]] = {}
        for suite in self._suites.values():
            prompts = self._by_prompt.setdefault(suite.name, {})
            for test in suite.tests:
                prompts.setdefault(test.prompt, []).append(test)
        self._tests = {
            TaskId(suite.name, test.id): test
            for suite in self._suites.values()
            for test in suite.tests
        }
        self._domains: dict[str, Domain] = {}
        self._packs: dict[str, DomainPack] = {}
        self._contracts: dict[TaskId, ContractFile] = {}

    @cached_property
    def files(self) -> Sequence[RunFile]:
        """The files of runs whose name is that of a suite, sorted by domain."""
        named = ((path, _RUNS.fullmatch(path.name)) for path in sorted(self._folder.iterdir()))
        return [RunFile(p, f[1]) for p, f in named if f is not None and f[1] in self._suites]

    def run(self, domain: str, line: Mapping[str, Any]) -> tuple[RecordedRun, Labels]:
        """The run in a parsed line and, apart, its labels."""
        run_id, prompt, passed = line.get("run_id"), line.get("prompt"), line.get("passed")
        if not isinstance(run_id, str) or not isinstance(prompt, str):
            raise NotARun("expected `run_id` and `prompt` as text")
        if not isinstance(line.get("diff"), dict):
            raise NotARun("expected `diff` as an object")
        if passed is not None and not isinstance(passed, bool):
            raise NotARun("expected `passed` as true or false")
        test = self._test_of(domain, prompt, line.get("test_id"))
        task = TaskId(domain, test.id)
        return (
            RecordedRun(run_id, task, str(line.get("model") or ""), line),
            Labels(compat=passed, official=passed, failed=_failed_kinds(line.get("failures"))),
        )

    def _test_of(self, domain: str, prompt: str, test_id: object) -> Test:
        tests = self._by_prompt.get(domain, {}).get(prompt, [])
        if len(tests) > 1 and test_id is not None:
            tests = [test for test in tests if test.id == test_id]
        if len(tests) == 1:
            return tests[0]
        how_many = "no task" if not tests else f"{len(tests)} tasks"
        raise NotARun(f"{how_many} of {printable(domain)} with the prompt {printable(prompt[:60])}")

    def tasks(self) -> Sequence[TaskId]:
        """Every task of every suite, sorted."""
        return sorted(self._tests)

    def half(self, task: TaskId) -> Half:
        """Tasks with an even number were used in development; all others are held out."""
        number = re.search(r"[0-9]+", task.name)
        is_even = number is not None and int(number[0]) % 2 == 0
        return Half.DEVELOPED if is_even else Half.HELD_OUT

    def contract(self, task: TaskId) -> ContractFile:
        """The closed contract of the task; made once."""
        if task not in self._contracts:
            test, domain = self._tests[task], self._domain(task.domain)
            self._contracts[task] = contract_for(domain, test, self.pack(task.domain))
        return self._contracts[task]

    def pack(self, domain: str) -> DomainPack:
        """The pack with what is known of the domain beside its files."""
        if domain not in self._packs:
            self._packs[domain] = open_pack(NAME, domain)
        return self._packs[domain]

    def _domain(self, name: str) -> Domain:
        if name not in self._domains:
            suite = self._suites[name]
            templates = sorted({test.seed for test in suite.tests})
            for seed in templates:
                if not re.fullmatch(r"[\w.-]+", seed):  # a name from a file must not lead elsewhere
                    raise UsageError(f"{name}: not the name of a seed: {printable(seed[:60])!r}")
            seeds = {seed: read_seed(self._folder / f"seed-{seed}.json") for seed in templates}
            self._domains[name] = Domain(suite, seeds, self.pack(name))
        return self._domains[name]

    def _suite(self, task: TaskId) -> tuple[TaskSuite, Test]:
        return self._suites[task.domain], self._tests[task]

    def compat(self, run: RecordedRun, seeded: Sequence[SeededChange] = ()) -> Compat:
        """The outcome by Agent-Diff's own assertions, each over the entries of the diff."""
        suite, test = self._suite(run.task)
        journal = _with(journal_from(run.raw["diff"]), seeded)
        found = score(suite, test, journal)
        causes = (Cause.OVER_SPECIFICATION,) if found.failures else ()
        return Compat(found.passes is True, found.failures, found.passes is not None, causes=causes)

    def reward(self, run: RecordedRun, seeded: Sequence[SeededChange] = ()) -> bool | None:
        """True if all assertions pass the run's net changes; None where one is undecided."""
        suite, test = self._suite(run.task)
        ground = self._domain(run.task.domain).ground(test.seed)
        journal = journal_from(run.raw["diff"])
        return score(suite, test, _rewrite(ground, journal, seeded) if seeded else journal).passes

    def strip(self, run: RecordedRun, *, acts: bool, speaks: bool) -> RecordedRun:
        """The run without its diff; what it said was not recorded."""
        return run if acts else replace(run, raw={**run.raw, "diff": diff_of(Journal())})

    def prepare(self, run: RecordedRun) -> Prepared:
        """The run as a trial: the seed, moved to where the run found it, and what it made of it."""
        _, test = self._suite(run.task)
        ground = self._domain(run.task.domain).ground(test.seed)
        fold = fold_journal(ground, journal_from(run.raw["diff"]))
        before, after = ground.base.pair(fold.moved, fold.made)
        return Prepared(self.contract(run.task), before, after)

    def still(self, task: TaskId) -> Prepared:
        """The trial in which nothing happens, on the seed as it is."""
        _, test = self._suite(task)
        before, after = self._domain(task.domain).ground(test.seed).base.pair((), ())
        return Prepared(self.contract(task), before, after)

    def minimal(self, task: TaskId) -> RecordedRun | None:
        """The least run that passes the assertions; None where none could be made."""
        suite, test = self._suite(task)
        ground = self._domain(task.domain).ground(test.seed)
        journal = minimal(suite, test, ground, self.pack(task.domain))
        if journal is None:
            return None
        line = {"run_id": f"minimal:{task.domain}:{task.name}", "prompt": test.prompt}
        return RecordedRun(line["run_id"], task, "", {**line, "diff": diff_of(journal)})

    def is_named(self, run: RecordedRun, change: SeededChange) -> bool:
        """True if an assertion of the task is about such a change of such a row."""
        _, test = self._suite(run.task)
        rows = [_raw(row) for row in (change.before, change.after) if row is not None]
        kind = "changed" if len(rows) > 1 else "removed" if change.after is None else "added"
        return any(
            a.diff_type in (kind, "unchanged")
            and a.entity == change.type
            and any(satisfies(row, a.where) for row in rows)
            for a in test.assertions
        )


def _rewrite(ground: Ground, journal: Journal, seeded: Sequence[SeededChange]) -> Journal:
    """The journal as if the run itself had left the seeded rows so.

    What it says of such a row is replaced by one entry: the row as the run found it, and as it is.
    """
    for change in seeded:
        journal = _rewrite_row(ground, journal, change)
    return journal


def _rewrite_row(ground: Ground, journal: Journal, change: SeededChange) -> Journal:
    table, domain = change.type, ground.domain
    seen = change.before or change.after or {}
    place = ground.place(table, domain.record(table, _raw(seen)))

    def is_other(named: str, row: RawRow) -> bool:
        return named != table or ground.place(table, domain.record(table, row)) != place

    made = [row for named, row in journal.inserts if not is_other(named, row)]
    moved = [u for u in journal.updates if not is_other(u.table, u.after)]
    gone = [row for named, row in journal.deletes if not is_other(named, row)]
    if not ground.keys.get(table) or not (made or moved or gone):
        return _with(journal, [change])
    rest = Journal(
        tuple(e for e in journal.inserts if is_other(*e)),
        tuple(u for u in journal.updates if is_other(u.table, u.after)),
        tuple(e for e in journal.deletes if is_other(*e)),
    )
    found = None if made else moved[0].before if moved else gone[0]
    left = moved[-1].after if moved else (made or gone)[0]
    after = None if change.after is None else _as_journalled(ground, change, left)
    if after is None:
        return rest if found is None else replace(rest, deletes=(*rest.deletes, (table, found)))
    if found is None:
        return replace(rest, inserts=(*rest.inserts, (table, after)))
    if _equal(domain.record(table, found), domain.record(table, after)):
        return rest
    return replace(rest, updates=(*rest.updates, Update(table, found, after)))


def _as_journalled(ground: Ground, change: SeededChange, left: RawRow) -> RawRow:
    """The seeded row as the journal would spell it: what was not altered stays as it is there."""
    known = ground.domain.record(change.type, left)
    new = ground.domain.record(change.type, _raw(change.after or {}))
    altered = {n for n in new if not same(known.get(n), new.get(n))}
    raw = _raw(change.after or {})
    return {**left, **{name: raw[name] for name in altered}}


def _with(journal: Journal, seeded: Sequence[SeededChange]) -> Journal:
    """The journal with further changes at its end, each an entry of its own."""
    inserts, updates, deletes = list(journal.inserts), list(journal.updates), list(journal.deletes)
    for change in seeded:
        if change.before is not None and change.after is not None:
            updates.append(Update(change.type, _raw(change.before), _raw(change.after)))
        elif change.after is not None:
            inserts.append((change.type, _raw(change.after)))
        elif change.before is not None:
            deletes.append((change.type, _raw(change.before)))
    return Journal(tuple(inserts), tuple(updates), tuple(deletes))


def _raw(row: Row) -> dict[str, Any]:
    return {name: _json(value) for name, value in row.items() if value is not ABSENT}


def _json(value: Observed) -> Any:
    match value:
        case datetime() | date():
            return value.isoformat()
        case tuple():
            return [_json(item) for item in value]
        case Map(items):
            return {name: _json(item) for name, item in items}
        case _:
            return value


@dataclass(frozen=True)
class FoldedJournal:
    """The edits that a seed needs before the run, and those that the run then made."""

    moved: tuple[Edit, ...]
    made: tuple[Edit, ...]


@dataclass
class _Entries:
    """All that the journal says of one entity, in its order."""

    inserts: list[Record] = field(default_factory=list)
    updates: list[tuple[Record, Record]] = field(default_factory=list)
    deletes: list[Record] = field(default_factory=list)


def fold_journal(ground: Ground, journal: Journal) -> FoldedJournal:
    """The journal over a seed, as net changes in the order of the journal."""
    domain = ground.domain
    entries: dict[tuple[str, tuple[str, ...]], _Entries] = {}
    keyless: list[Edit] = []

    def place(table: str, record: Record) -> _Entries:
        return entries.setdefault((table, ground.place(table, record)), _Entries())

    for table, row in journal.inserts:
        record = domain.record(table, row)
        if ground.keys.get(table):
            place(table, record).inserts.append(record)
        else:
            keyless.append(Edit(table, None, record))
    for update in journal.updates:
        table = update.table
        before, after = domain.record(table, update.before), domain.record(table, update.after)
        if not ground.keys.get(table):
            keyless.append(Edit(table, before, after))
            continue
        if not _same_key(ground, table, before, after):
            raise InputError(f"an update of {printable(table)} changes the key of its row")
        place(table, after).updates.append((before, after))
    for table, row in journal.deletes:
        record = domain.record(table, row)
        if ground.keys.get(table):
            place(table, record).deletes.append(record)
        else:
            keyless.append(Edit(table, record, None))
    seed = ground.by_key
    moved, made = _keyless(ground, keyless)
    for (table, key), found in entries.items():
        name = _name(ground, table, found)
        was = seed.get(table, {}).get(key)
        ends = _ends(name, found, was is not None)
        began, ended = _as_wide(ends[0], ends[1]), _as_wide(ends[1], ends[0])
        if not _equal(was, began) or (was and began and began.keys() - was.keys()):
            moved.append(Edit(table, was, began))
        if not _equal(began, ended):
            made.append(Edit(table, began, ended))
    return FoldedJournal(tuple(moved), tuple(made))


def _ends(name: str, found: _Entries, is_in_seed: bool) -> tuple[Record | None, Record | None]:
    """The row when the run began and when it ended; None where there was none."""
    for rows, what in ((found.inserts, "inserted"), (found.deletes, "deleted")):
        if len(rows) > 1:
            raise InputError(f"{name} is {what} {len(rows)} times")
    chain = list(found.updates)
    for (_, after), (before, _) in pairwise(chain):
        _require_same(name, after, before)
    first = chain[0][0] if chain else None
    last = chain[-1][1] if chain else None
    inserted = found.inserts[0] if found.inserts else None
    deleted = found.deletes[0] if found.deletes else None
    if inserted is None:
        if deleted is None:
            return first, last
        if last is not None:
            _require_same(name, last, deleted)
        return first or deleted, None
    if deleted is None:
        # An insert holds the row as it was made, or as it was at the end.
        if first is not None and not _equal(inserted, last):
            _require_same(name, inserted, first)
        return None, last or inserted
    if chain:
        raise InputError(f"{name} is inserted, updated and deleted, in an order nobody recorded")
    # In the seed: deleted, and made again. Else made and deleted within the run.
    return (deleted, inserted) if is_in_seed else (None, None)


def _as_wide(row: Record | None, other: Record | None) -> Record | None:
    """The row with every column of the other: a missing one is null."""
    return row if row is None or other is None else {**dict.fromkeys(other), **row}


def _require_same(name: str, left: Record, right: Record) -> None:
    for column in sorted({*left, *right}):
        values = left.get(column), right.get(column)
        if not same(*values):
            raise InputError(
                f"{name}: one entry of the diff leaves {printable(column)} at {show(values[0])}, "
                f"the next finds {show(values[1])}"
            )


def _same_key(ground: Ground, table: str, before: Record, after: Record) -> bool:
    pairs = zip(ground.key(table, before), ground.key(table, after), strict=True)
    return all(same(left, right) for left, right in pairs)


def _equal(left: Record | None, right: Record | None) -> bool:
    """True if two rows say the same; a missing column is null."""
    if left is None or right is None:
        return left is right
    return all(same(left.get(name), right.get(name)) for name in {*left, *right})


def _name(ground: Ground, table: str, found: _Entries) -> str:
    rows = [*found.inserts, *found.deletes, *(after for _, after in found.updates)]
    key: tuple[Value, ...] = ground.key(table, rows[0])
    return f"{printable(table)} {show_key(key)}"


def _keyless(ground: Ground, made: Sequence[Edit]) -> tuple[list[Edit], list[Edit]]:
    """Rows without a key: each that the run found and the seed lacks was there all the same."""
    there = {table: list(rows) for table, rows in ground.records.items()}
    moved: list[Edit] = []
    for edit in made:
        rows = there.setdefault(edit.type, [])
        if edit.before is not None:
            if edit.before in rows:
                rows.remove(edit.before)
            else:
                moved.append(Edit(edit.type, None, edit.before))
        if edit.after is not None:
            rows.append(edit.after)
    return moved, list(made)


def _failed_kinds(failures: object) -> tuple[str, ...]:
    """The kinds of assertions that a published result lists as failed, each once."""
    texts = [f for f in failures if isinstance(f, str)] if isinstance(failures, list) else []
    return tuple(
        dict.fromkeys(
            next((kind for kind, form in _KINDS if form.search(each)), "other") for each in texts
        )
    )
