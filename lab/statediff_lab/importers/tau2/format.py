"""The τ² format: what a folder of its cases holds, before anybody judges anything.

    initial_DOM.json.gz      the state: {collection: {id: entity}}, or {side: {collection: …}}
    runs_DOM.jsonl.gz        one run a line: task_id, before {init_delta}, after {delta}, trace …
    gold_DOM.json.gz         by `gold_key`: the delta of the reference actions
    tasks_DOM.json.gz        optional: the tasks, in every version (`tags`)
    corrections.jsonl.gz     optional: what later reviews changed, by domain, task and version
    adjudicated.jsonl.gz     optional: by run, what the corrections say of it (labels only)

Nothing here knows a domain. A delta is a list of {op: add|remove|replace, path, old?, new?}; lists
are atomic. What cannot be read unambiguously is an `InputError` that says where.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from statediff.errors import InputError
from statediff.model.values import printable
from statediff_lab.importers.recorded import NotARun, RunLine, expect, parse

Json = Any
"""A JSON value as parsed: None, bool, int, Decimal, str, list or dict."""
Tree = Mapping[str, Any]

MAX_BYTES: Final = 64 * 1024 * 1024
"""The largest file, unpacked, that is read whole."""
MAX_STEPS: Final = 16
"""The longest path of an operation."""
OPERATIONS: Final = ("add", "remove", "replace")


@dataclass(frozen=True)
class Operation:
    """One operation of a delta."""

    op: str
    path: tuple[str, ...]
    new: Json = None


@dataclass(frozen=True)
class Expectation:
    """One reference action: `compare` are the arguments that count, None for those of the call."""

    name: str
    arguments: Tree
    requestor: str = "assistant"
    compare: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Assertion:
    """A condition on the state after, by the name of the benchmark's function that decides it."""

    name: str
    arguments: Tree
    holds: bool = True


@dataclass(frozen=True)
class Criteria:
    """The demands of one version of a task on a run."""

    basis: tuple[str, ...]
    """Which parts make the reward: DB, ACTION, COMMUNICATE, ENV_ASSERTION, NL_ASSERTION."""
    actions: tuple[Expectation, ...] | None
    """The reference actions; None where the task gives no reference at all."""
    communicate: tuple[str, ...] = ()
    assertions: tuple[Assertion, ...] = ()


@dataclass(frozen=True)
class Gold:
    """The delta of the reference actions of one version of a task."""

    key: str
    task: str
    delta: tuple[Operation, ...]
    raised: tuple[str, ...] = ()
    """Reference actions that raise: they are in the reference and change nothing."""


@dataclass(frozen=True)
class TaskVersion:
    """One version of a task. `tags` say who published it."""

    key: str
    name: str
    tags: tuple[str, ...]
    criteria: Criteria
    purpose: str = ""


@dataclass(frozen=True)
class Correction:
    """One later review (`version`) of a task: its reference, and the report it wants."""

    task: str
    version: str
    gold_before: str
    gold_after: str
    communicate: tuple[str, ...]
    why: str = ""


@dataclass(frozen=True)
class Tau2Cases:
    """The files of one domain, read."""

    domain: str
    initial: Tree
    gold: Mapping[str, Gold]
    tasks: Mapping[str, TaskVersion] = field(default_factory=dict)
    """By `task_key`."""
    corrections: Mapping[str, tuple[Correction, ...]] = field(default_factory=dict)
    """By task."""


def read_cases(folder: Path, domain: str) -> Tau2Cases:
    """The files of a domain but for its runs; `InputError` where one is missing or broken."""
    gold = [_gold(entry, at) for at, entry in _entries(folder / f"gold_{domain}.json.gz")]
    tasks = folder / f"tasks_{domain}.json.gz"
    versions = [_version(e, at) for at, e in _entries(tasks)] if tasks.exists() else []
    initial = folder / f"initial_{domain}.json.gz"
    corrections: dict[str, tuple[Correction, ...]] = {}
    for found in _corrections(folder / "corrections.jsonl.gz", domain):
        corrections[found.task] = (*corrections.get(found.task, ()), found)
    return Tau2Cases(
        domain,
        expect(read_tree(initial), dict, printable(initial.name), "an object of collections"),
        {entry.key: entry for entry in gold},
        {entry.key: entry for entry in versions},
        corrections,
    )


def read_tree(path: Path) -> Json:
    """The one JSON value of a file, gzipped or not."""
    return _parse(read_whole(path), printable(path.name))


def _parse(data: bytes, what: str) -> Json:
    # The strict reader reads objects: a list is one's only member.
    try:
        if data.lstrip()[:1] != b"[":
            return parse(RunLine(what, 1, data))
        tree = parse(RunLine(what, 1, b'{"list":' + data + b"}"))
    except NotARun as error:
        raise InputError(f"{what}: {error}") from error
    if len(tree) != 1:
        raise InputError(f"{what}: not JSON: something follows the list")
    return tree["list"]


def read_whole(path: Path) -> bytes:
    """The bytes of a file, unpacked where it is gzipped; bounded."""
    name = printable(path.name)
    try:
        with path.open("rb") as raw:
            is_packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            data = (gzip.GzipFile(fileobj=raw) if is_packed else raw).read(MAX_BYTES + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{name}: the gzip is damaged: {error}") from error
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror or error}") from error
    if len(data) > MAX_BYTES:
        raise InputError(f"{name}: more than {MAX_BYTES} bytes; no more are read")
    return data


def delta_of(tree: Json, what: str) -> tuple[Operation, ...]:
    """The operations of a delta, in order."""
    return tuple(
        _operation(entry, f"{what}[{at}]")
        for at, entry in enumerate(expect(tree, list, what, "a list of operations"))
    )


def apply(state: Tree, delta: Sequence[Operation]) -> Tree:
    """The state after the operations. What no path leads to is shared with the state before."""
    for operation in delta:
        state = _apply_one(state, operation, 0)
    return state


def same_json(a: Json, b: Json) -> bool:
    """True if two values have one JSON text, as the benchmark's hash of the database sees it.

    A whole number is not the fraction of the same size, true is not 1; 5.0 and 5.00 are one.
    """
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same_json(a[name], b[name]) for name in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(same_json(x, y) for x, y in zip(a, b, strict=True))
    return bool(float(a) == float(b) if isinstance(a, Decimal) else a == b)


def text_of(value: Json, what: str) -> str:
    """The text; `InputError` for anything else."""
    return str(expect(value, str, what, "text"))


# ---------------------------------------------------------------- shapes


def _entries(path: Path) -> list[tuple[str, Tree]]:
    name = printable(path.name)
    listed = expect(read_tree(path), list, name, "a list")
    return [
        (f"{name}[{at}]", expect(entry, dict, f"{name}[{at}]", "an object"))
        for at, entry in enumerate(listed)
    ]


def _operation(entry: Json, what: str) -> Operation:
    tree = expect(entry, dict, what, "an operation")
    if tree.get("op") not in OPERATIONS:
        raise InputError(f"{what}: op: expected one of {', '.join(OPERATIONS)}")
    path = expect(tree.get("path"), list, f"{what}: path", "a list of names")
    if not 0 < len(path) <= MAX_STEPS:
        raise InputError(f"{what}: path: expected 1 to {MAX_STEPS} names, found {len(path)}")
    if tree["op"] != "remove" and "new" not in tree:
        raise InputError(f"{what}: {tree['op']} without `new`")
    return Operation(
        tree["op"], tuple(text_of(step, f"{what}: path") for step in path), tree.get("new")
    )


def _apply_one(node: Json, operation: Operation, depth: int) -> dict[str, Json]:
    name = operation.path[depth]
    if not isinstance(node, Mapping):
        raise _astray(operation, depth, "is no object")
    last = depth == len(operation.path) - 1
    if (name not in node) != (last and operation.op == "add"):
        found = "is there already" if name in node else "is not there"
        raise _astray(operation, depth + 1, found)
    changed = dict(node)
    if not last:
        changed[name] = _apply_one(node[name], operation, depth + 1)
    elif operation.op == "remove":
        del changed[name]
    else:
        changed[name] = operation.new
    return changed


def _astray(operation: Operation, depth: int, found: str) -> InputError:
    place = "/".join(operation.path[:depth]) or "the state"
    return InputError(f"cannot {operation.op} {printable(place[:200])}: it {found}")


def _gold(tree: Tree, what: str) -> Gold:
    raised = expect(
        tree.get("gold_action_errors") or [], list, f"{what}: gold_action_errors", "a list"
    )
    return Gold(
        text_of(tree.get("gold_key"), f"{what}: gold_key"),
        text_of(tree.get("task_id"), f"{what}: task_id"),
        delta_of(tree.get("delta"), f"{what}: delta"),
        tuple(str(entry.get("action")) for entry in raised if isinstance(entry, dict)),
    )


def _version(tree: Tree, what: str) -> TaskVersion:
    task = expect(tree.get("task"), dict, f"{what}: task", "an object")
    tags = expect(tree.get("tags") or [], list, f"{what}: tags", "a list")
    described = task.get("description")
    purpose = described.get("purpose") if isinstance(described, dict) else None
    return TaskVersion(
        text_of(tree.get("task_key"), f"{what}: task_key"),
        text_of(tree.get("task_id"), f"{what}: task_id"),
        tuple(str(tag) for tag in tags),
        criteria_of(task.get("evaluation_criteria") or {}, f"{what}: evaluation_criteria"),
        purpose if isinstance(purpose, str) else "",
    )


def criteria_of(tree: Json, what: str) -> Criteria:
    """Read a task's evaluation criteria."""
    asked = expect(tree, dict, what, "an object")
    actions = asked.get("actions")
    return Criteria(
        _texts(asked.get("reward_basis"), f"{what}: reward_basis"),
        None if actions is None else expectations(actions, f"{what}: actions"),
        _texts(asked.get("communicate_info"), f"{what}: communicate_info"),
        tuple(
            Assertion(
                text_of(entry.get("func_name"), f"{what}: func_name"),
                expect(entry.get("arguments") or {}, dict, f"{what}: arguments", "an object"),
                entry.get("assert_value") is not False,
            )
            for entry in asked.get("env_assertions") or []
            if isinstance(entry, dict)
        ),
    )


def expectations(tree: Json, what: str) -> tuple[Expectation, ...]:
    """The reference actions of a task; `kwargs` is the older name of `arguments`."""
    found = []
    for at, entry in enumerate(expect(tree, list, what, "a list of actions")):
        where = f"{what}[{at}]"
        action = expect(entry, dict, where, "an action")
        arguments = action.get("arguments", action.get("kwargs")) or {}
        compare = action.get("compare_args")
        found.append(
            Expectation(
                text_of(action.get("name"), f"{where}: name"),
                expect(arguments, dict, f"{where}: arguments", "an object"),
                str(action.get("requestor") or "assistant"),
                None if compare is None else _texts(compare, f"{where}: compare_args"),
            )
        )
    return tuple(found)


def _texts(tree: Json, what: str) -> tuple[str, ...]:
    return tuple(
        text_of(entry, what) for entry in expect(tree or [], list, what, "a list of texts")
    )


def _corrections(path: Path, domain: str) -> list[Correction]:
    if not path.exists():
        return []
    found = []
    for number, line in enumerate(read_whole(path).splitlines(), start=1):
        what = f"{printable(path.name)}: line {number}"
        tree = expect(_parse(line, what), dict, what, "an object")
        if tree.get("domain") != domain:
            continue
        reasons = tree.get("why")
        found.append(
            Correction(
                text_of(tree.get("task_id"), f"{what}: task_id"),
                text_of(tree.get("version"), f"{what}: version"),
                text_of(tree.get("gold_key_before"), f"{what}: gold_key_before"),
                text_of(tree.get("gold_key_after"), f"{what}: gold_key_after"),
                _texts(tree.get("communicate_after"), f"{what}: communicate_after"),
                " ".join(str(reason) for reason in reasons) if isinstance(reasons, list) else "",
            )
        )
    return found
