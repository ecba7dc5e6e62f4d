"""Tasks and runs as the files hold them, parsed: calls turn by turn, and the states they left."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

from statediff.errors import InputError
from statediff.model.strictjson import Flaw, Limits, read_tree
from statediff.model.values import printable
from statediff_lab.importers.bfcl.layout import Document, documents_of
from statediff_lab.importers.recorded import expect

MAX_MESSAGE = 20_000
_RESULT = Limits(1 << 24, 64, 400, 308)


@dataclass(frozen=True)
class Made:
    """One call as it was made, with what came of it."""

    text: str
    result: str
    writes: bool
    """Something public changed."""
    moves: bool
    """The agent is in another place of the file system: no state, and nothing that was asked."""

    @cached_property
    def parts(self) -> tuple[str, dict[str, Any]]:
        """The tool and its arguments; those without a name are numbered. No call: no tool."""
        try:
            tree = ast.parse(self.text, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return "", {}
        if not isinstance(tree, ast.Call):
            return "", {}
        found = {f"_{n}": _literal(each) for n, each in enumerate(tree.args, 1)}
        found |= {each.arg: _literal(each.value) for each in tree.keywords if each.arg}
        return ast.unparse(tree.func), found

    @property
    def tool(self) -> str:
        return self.parts[0]

    @cached_property
    def is_error(self) -> bool:
        """True if the system refused it."""
        told = self.told
        is_map = isinstance(told, dict) and "error" in told
        return is_map or self.result.startswith("Error during execution")

    @cached_property
    def told(self) -> Any:
        """The result, parsed where it is JSON."""
        try:
            return read_tree(self.result.encode("utf-8", "replace"), _RESULT)
        except Flaw:
            return self.result


def _literal(node: ast.expr) -> Any:
    try:
        found = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return ast.unparse(node)
    return found if isinstance(found, str | bool | int | list | type(None)) else str(found)


def atoms(value: Any) -> Iterator[str]:
    """Every text and number in a result or in arguments, as it is spelled; words of long texts."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from (str(name), *atoms(each))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from atoms(each)
    elif isinstance(value, str):
        yield value
        yield from value.split()
    elif value is not None and not isinstance(value, bool):
        yield str(value)


@dataclass(frozen=True)
class Course:
    """A run's course: the calls of each turn, and the systems before the first and after each."""

    turns: tuple[tuple[Made, ...], ...]
    systems: tuple[Mapping[str, Any], ...]

    @cached_property
    def documents(self) -> tuple[Document, ...]:
        """The records before the first turn and after each."""
        return tuple(documents_of(each) for each in self.systems)


def course_of(raw: Mapping[str, Any]) -> Course:
    """The `turns` and `states` of a task or a run. `InputError` where they are none."""
    turns = tuple(
        tuple(_made(each) for each in expect(turn, list, "turns", "a list of calls"))
        for turn in expect(raw.get("turns"), list, "turns", "a list")
    )
    states = expect(raw.get("states"), list, "states", "a list")
    if len(states) != len(turns) + 1:
        raise InputError("states: expected one before the first turn, and one after each")
    systems: list[dict[str, Any]] = []
    for changed in states:
        each = expect(changed, dict, "states", "objects")
        for name, held in each.items():
            expect(held, dict, f"states: {printable(str(name)[:80])}", "an object")
        systems.append({**(systems[-1] if systems else {}), **each})
    return Course(turns, tuple(systems))


def _made(raw: Any) -> Made:
    call = expect(raw, dict, "a call", "an object")
    texts = [expect(call.get(name), str, f"a call's {name}", "text") for name in ("call", "result")]
    is_so = [
        expect(call.get(n), bool, f"a call's {n}", "true or false") for n in ("writes", "moves")
    ]
    return Made(*texts, *is_so)


class Rules(Enum):
    """The rules by which a contract is generated, as the version that it gets.

    Contracts are registered before runs are seen, so rules that came later leave the first alone.
    """

    FIRST = "1.0.0"
    LOOKS_IN_THEIR_TURN = "1.1.0"
    """What a look shows is owed in the turn that asks for it."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """One task, with its ground truth carried out."""

    name: str
    category: str
    messages: tuple[str, ...]
    truth: Course
    drawn: frozenset[str]
    """What the simulators drew by chance, as it is spelled."""
    rules: Rules = Rules.FIRST

    @property
    def systems(self) -> tuple[str, ...]:
        return tuple(sorted(self.truth.systems[0]))


def task_of(raw: Mapping[str, Any]) -> Task:
    """The task in a parsed line. `InputError` where it is none."""
    messages = _texts(raw, "messages")
    truth = course_of(raw)
    if len(messages) != len(truth.turns):
        raise InputError("messages: expected one for each turn")
    rules = raw.get("rules", Rules.FIRST.value)
    if rules not in [each.value for each in Rules]:
        raise InputError(f"rules: expected one of {', '.join(each.value for each in Rules)}")
    return Task(
        name=expect(raw.get("id"), str, "id", "text"),
        category=expect(raw.get("category"), str, "category", "text"),
        messages=tuple(text[:MAX_MESSAGE] for text in messages),
        truth=truth,
        drawn=frozenset(_texts(raw, "drawn")),
        rules=Rules(rules),
    )


def _texts(raw: Mapping[str, Any], name: str) -> Sequence[str]:
    listed: Iterable[Any] = expect(raw.get(name), list, name, "a list")
    return [expect(each, str, name, "texts") for each in listed]
