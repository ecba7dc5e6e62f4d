"""Places inside a value: steps from a field down to a leaf of the objects and lists in it.

A path is written as people write it: the field, then `.key` for the member of an object and `[2]`
for the item of a list. A key that could be read in another way is a quoted JSON string:
`settings.limits.gb`, `lines[2].sku`, `settings."a.b"[0]`. `[*]` selects every item, `.*` every
member. A field's own name is never quoted where the path ends with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from statediff.model.values import ABSENT, Map, Observed, Value

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_STEP: Final = re.compile(
    r"""\.(?P<key>[A-Za-z_][A-Za-z0-9_-]*)|\.(?P<quoted>"(?:[^"\\]|\\.)*")"""
    r"""|\[(?P<index>0|[1-9][0-9]*)\]|(?P<items>\[\*\])|(?P<members>\.\*)"""
)
_HEAD: Final = re.compile(r"""(?P<plain>[A-Za-z_][A-Za-z0-9_-]*)|(?P<quoted>"(?:[^"\\]|\\.)*")""")
_MAX_INDEX_DIGITS: Final = 9


class Every(Enum):
    """A step of a selection that stands for all at its level."""

    ITEM = "[*]"
    MEMBER = ".*"


Step: TypeAlias = str | int
"""The key of an object's member, or the index of a list's item, from 0."""
Steps: TypeAlias = tuple[Step, ...]
Selection: TypeAlias = tuple[Step | Every, ...]


class PathError(ValueError):
    """The text is no path, or has two readings; the message says which."""


@dataclass(frozen=True)
class FieldPath:
    """A field and the way from it to a place inside its value; no steps is the whole field."""

    field: str
    steps: Selection = ()

    def __str__(self) -> str:
        return render(self.field, self.steps)

    @property
    def place(self) -> Steps:
        """The steps to its one place. Raises `PathError` where it selects several."""
        steps = tuple(step for step in self.steps if not isinstance(step, Every))
        if len(steps) < len(self.steps):
            raise PathError(f"`{self}` selects several places")
        return steps


def render(field: str, steps: Selection = ()) -> str:
    """The path as it is written; two paths are never written alike within one type's fields."""
    if not steps:
        return field
    return _name(field) + "".join(map(_step, steps))


def _step(step: Step | Every) -> str:
    match step:
        case Every():
            return step.value
        case int():
            return f"[{step}]"
        case _:
            return f".{_name(step)}"


def _name(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def parse(text: str, fields: Iterable[str]) -> FieldPath:
    """The path that the text writes, over the fields of a type; the longest field wins.

    A text that is the name of a field is that field. Raises `PathError`.
    """
    known = set(fields)
    if text in known:
        return FieldPath(text)
    heads = [name for name in known if text.startswith(name) and text[len(name)] in ".["]
    if heads:
        field = max(heads, key=len)
        return FieldPath(field, _steps(text, len(field)))
    head = _HEAD.match(text)
    if head is None:
        raise PathError(f"`{text}` does not begin with a field")
    field = head["plain"] if head["quoted"] is None else _unquoted(head["quoted"])
    return FieldPath(field, _steps(text, head.end()))


def _steps(text: str, start: int) -> Selection:
    found: list[Step | Every] = []
    while start < len(text):
        match = _STEP.match(text, start)
        if match is None:
            raise PathError(
                f"`{text[start:]}` is no step of a path: `.key`, `[2]`, `[*]`, `.*`; other keys"
                ' are quoted, `."a key"`'
            )
        found.append(_read_step(match))
        start = match.end()
    return tuple(found)


def _read_step(match: re.Match[str]) -> Step | Every:
    match match.lastgroup:
        case "key":
            return match["key"]
        case "quoted":
            return _unquoted(match["quoted"])
        case "index":
            if len(match["index"]) > _MAX_INDEX_DIGITS:
                raise PathError(f"no list has an item {match['index'][:40]}")
            return int(match["index"])
        case "items":
            return Every.ITEM
        case _:
            return Every.MEMBER


def _unquoted(quoted: str) -> str:
    try:
        name: str = json.loads(quoted)
        name.encode()
    except ValueError as error:
        raise PathError(f"{quoted} is no quoted key: write it as a JSON string") from error
    return name


def selects(selection: Selection, steps: Steps) -> bool:
    """Whether the place is the selected one, or inside it."""
    return len(selection) <= len(steps) and all(map(_is, selection, steps))


def _is(wanted: Step | Every, step: Step) -> bool:
    match wanted:
        case Every.ITEM:
            return isinstance(step, int)
        case Every.MEMBER:
            return isinstance(step, str)
        case _:
            return wanted == step


def covers(selections: Iterable[Selection], steps: Steps, *sides: Observed) -> bool:
    """Whether all that is at the place, on each side, is selected.

    What came or went as a whole is covered leaf by leaf: `settings.limits` that comes as
    `{gb: 5}` is covered by `limits.gb`; as `{gb: 5, tb: 1}` it is not.
    """
    wanted = tuple(selections)
    if any(selects(selection, steps) for selection in wanted):
        return True
    deeper = [s for s in wanted if len(s) > len(steps) and all(map(_is, s, steps))]
    if not deeper:
        return False
    present = [side for side in sides if side is not ABSENT]
    return len(present) == 1 and all(
        any(selects(selection, (*steps, *inner)) for selection in deeper)
        for inner, _ in leaves(present[0])
    )


def leaves(value: Observed, steps: Steps = ()) -> Iterator[tuple[Steps, Observed]]:
    """Every place inside the value that holds nothing further: scalars, empty objects and lists."""
    if isinstance(value, Map) and value.items:
        for name, inner in value.items:
            yield from leaves(inner, (*steps, name))
    elif isinstance(value, tuple) and value:
        for index, inner in enumerate(value):
            yield from leaves(inner, (*steps, index))
    else:
        yield steps, value


def at(value: Observed, steps: Steps) -> Observed:
    """What is at the place; absent where the way to it ends."""
    for step in steps:
        if isinstance(value, Map) and isinstance(step, str):
            value = value.get(step)
        elif isinstance(value, tuple) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return ABSENT
    return value


def places(value: Value, selection: Selection, steps: Steps = ()) -> Iterator[Steps]:
    """The places in the value that the selection stands for, in order."""
    if not selection:
        yield steps
        return
    wanted, rest = selection[0], selection[1:]
    if isinstance(value, Map):
        inside: Iterable[tuple[Step, Value]] = value.items
    elif isinstance(value, tuple):
        inside = enumerate(value)
    else:
        return
    for step, inner in inside:
        if _is(wanted, step):
            yield from places(inner, rest, (*steps, step))
