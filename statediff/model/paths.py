"""Places inside a value: steps from a field down to a leaf of the objects and lists in it.

A path is written as people write it: the field, then `.key` for the member of an object and `[2]`
for the item of a list. A key that could be read in another way is a quoted JSON string:
`settings.limits.gb`, `lines[2].sku`, `settings."a.b"[0]`. `[*]` selects every item, `.*` every
member. `[sku=A1]` is the item of a keyed list whose `sku` is the text A1; `[id=7]` is a number,
`[id="7"]` a text; `[day=mon,hour=9]` is the item that two members tell apart. A field's own name is
never quoted where the path ends with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Final, TypeAlias

from statediff.model.json_values import canonical_number, write_json
from statediff.model.values import ABSENT, Map, Observed, Unordered, Value, same

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_MEMBER: Final = (
    r"""(?P<key>[A-Za-z_][A-Za-z0-9_-]*|"(?:[^"\\]|\\.)*")="""
    r"""(?P<value>[A-Za-z_][A-Za-z0-9_-]*|"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*)"""
)
"""A member of an item, and its value."""
_ONE: Final = re.sub(r"\?P<\w+>", "?:", _MEMBER)
_STEP: Final = re.compile(
    r"""\.(?P<key>[A-Za-z_][A-Za-z0-9_-]*)|\.(?P<quoted>"(?:[^"\\]|\\.)*")"""
    r"""|\[(?P<index>0|[1-9][0-9]*)\]|(?P<items>\[\*\])|(?P<members>\.\*)"""
    rf"""|\[(?P<item>{_ONE}(?:, ?{_ONE})*)\]"""
)
_MEMBERS: Final = re.compile(_MEMBER)
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,4})?")
_HEAD: Final = re.compile(r"""(?P<plain>[A-Za-z_][A-Za-z0-9_-]*)|(?P<quoted>"(?:[^"\\]|\\.)*")""")
_MAX_INDEX_DIGITS: Final = 9
_MAX_NUMBER: Final = 1000


class Every(Enum):
    """A step of a selection that stands for all at its level."""

    ITEM = "[*]"
    MEMBER = ".*"


@dataclass(frozen=True)
class Item:
    """The step to the one item of a list whose members have these values."""

    parts: tuple[tuple[str, str], ...]
    """(member, value as JSON text in its one form), by member: 1, "1" and true are three."""

    @property
    def key(self) -> tuple[str, ...]:
        """The members that tell the item apart."""
        return tuple([name for name, _ in self.parts])

    @staticmethod
    def of(members: Mapping[str, Observed]) -> Item | None:
        """The step that the members make; None where a value tells no item from another."""
        parts = [(name, _telling(value)) for name, value in sorted(members.items())]
        known = tuple([(name, text) for name, text in parts if text is not None])
        return Item(known) if known and len(known) == len(parts) else None

    @staticmethod
    def at(key: Sequence[str], item: Observed) -> Item | None:
        """The step to an item of a list, distinguished by the members of `key`."""
        return Item.of({name: item.get(name) for name in key}) if isinstance(item, Map) else None

    def __str__(self) -> str:
        return f"[{','.join(f'{_name(name)}={_shown(text)}' for name, text in self.parts)}]"


def _telling(value: Observed) -> str | None:
    """The value of a member as JSON text; None where it tells no item from another."""
    match value:
        case Decimal() if not value.is_finite():
            return None
        case int() | Decimal() if not isinstance(value, bool):
            return write_json(canonical_number(Decimal(value)))
        case bool() | str():
            return write_json(value)
        case _:
            return None


def _shown(written: str) -> str:
    text = json.loads(written) if written.startswith('"') else None
    is_plain = text is not None and _PLAIN.fullmatch(text) and text not in _WORDS
    return str(text) if is_plain else written


_WORDS: Final = ("true", "false", "null")
Step: TypeAlias = str | int | Item
"""The key of an object's member; the index of a list's item, from 0, or what tells it apart."""
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
        case Item():
            return str(step)
        case _:
            return f".{_name(step)}"


def _name(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def parse(text: str, fields: Collection[str], late: Collection[str] = ()) -> FieldPath:
    """The path that the text writes, over the fields of a type; the longest field wins.

    A text that is the name of a field is that field. What the text means without the `late` fields
    it means with them; among these the shortest wins. Raises `PathError`.
    """
    if late:
        early = [name for name in fields if name not in late]
        found = parse_or_none(text, early)
        heads = [name for name in late if _begins(text, name)]
        if (found is None or found.field not in early) and heads:
            field = min(heads, key=len)
            return FieldPath(field, _steps(text, len(field)))
        fields = early
    if text in fields:
        return FieldPath(text)
    heads = [name for name in fields if _begins(text, name)]
    if heads:
        field = max(heads, key=len)
        return FieldPath(field, _steps(text, len(field)))
    head = _HEAD.match(text)
    if head is None:
        raise PathError(f"`{text}` does not begin with a field")
    field = head["plain"] if head["quoted"] is None else _unquoted(head["quoted"])
    return FieldPath(field, _steps(text, head.end()))


def _begins(text: str, field: str) -> bool:
    """True if the text is the field or goes on inside it."""
    return text.startswith(field) and text[len(field) : len(field) + 1] in ("", ".", "[")


def parse_or_none(
    text: str, fields: Collection[str], late: Collection[str] = ()
) -> FieldPath | None:
    """The path, or None where the text is none over these fields."""
    try:
        return parse(text, fields, late)
    except PathError:
        return None


def places_inside(paths: tuple[FieldPath, ...]) -> tuple[tuple[str, Selection], ...]:
    """The selections inside each field that is not selected as a whole."""
    whole = {path.field for path in paths if not path.steps}
    return tuple((path.field, path.steps) for path in paths if path.field not in whole)


def _steps(text: str, start: int) -> Selection:
    found: list[Step | Every] = []
    while start < len(text):
        match = _STEP.match(text, start)
        if match is None:
            raise PathError(
                f"`{text[start:]}` is no step of a path: `.key`, `[2]`, `[*]`, `.*`, `[sku=A1]`;"
                ' other keys are quoted, `."a key"`'
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
        case "item":
            return _read_item(match["item"])
        case _:
            return Every.MEMBER


def _read_item(text: str) -> Item:
    members: dict[str, Observed] = {}
    for found in _MEMBERS.finditer(text):
        key, written = found["key"], found["value"]
        name = _unquoted(key) if key.startswith('"') else key
        if name in members:
            raise PathError(f"`{text}` names `{name}` twice")
        members[name] = _read_value(written)
    step = Item.of(members)
    if step is None:
        raise PathError(f"`{text}` tells no item apart")
    return step


def _read_value(written: str) -> Value:
    if written.startswith('"'):
        return _unquoted(written)
    if written in ("true", "false"):
        return written == "true"
    if _PLAIN.fullmatch(written) and written != "null":
        return written
    if _NUMBER.fullmatch(written) and len(written) <= _MAX_NUMBER:
        return Decimal(written)
    raise PathError(f"`{written}` tells no item apart: a text is quoted, a number is plain")


def _unquoted(quoted: str) -> str:
    try:
        name: str = json.loads(quoted)
        name.encode()
    except ValueError as error:
        raise PathError(f"{quoted} is no quoted key: write it as a JSON string") from error
    return name


def selects(selection: Selection, steps: Selection) -> bool:
    """True if the place is the selected one, or inside it."""
    return len(selection) <= len(steps) and all(map(_is, selection, steps))


def _is(wanted: Step | Every, step: Step | Every) -> bool:
    match wanted:
        case Every.ITEM:
            return step is Every.ITEM or isinstance(step, int | Item)
        case Every.MEMBER:
            return step is Every.MEMBER or isinstance(step, str)
        case _:
            return wanted == step


def may_meet(one: Selection, other: Selection) -> bool:
    """True if a place of one selection may be, or be in, a place of the other."""
    return all(map(_may_be, one, other))


def _may_be(one: Step | Every, other: Step | Every) -> bool:
    tells_otherwise = isinstance(one, Item) ^ isinstance(other, Item) and not (
        isinstance(one, str) or isinstance(other, str) or Every.MEMBER in (one, other)
    )
    return _is(one, other) or _is(other, one) or tells_otherwise


def covers(selections: Iterable[Selection], steps: Steps, *sides: Observed) -> bool:
    """True if all that is at the place, on each side, is selected.

    What came or went as a whole is covered leaf by leaf: `settings.limits` that comes as
    `{gb: 5}` is covered by `limits.gb`; as `{gb: 5, tb: 1}` it is not.
    """
    wanted = tuple(selections)
    if any(selects(selection, steps) for selection in wanted):
        return True
    deeper = _below(wanted, steps)
    if not deeper:
        return False
    present = [side for side in sides if side is not ABSENT]
    return len(present) == 1 and all(
        any(selects(selection, inner) for selection in deeper) for inner, _ in leaves(present[0])
    )


def touches(
    selections: Iterable[Selection], steps: Steps, before: Observed, after: Observed
) -> bool:
    """True if something selected changed, where the place changed from one value to the other."""
    wanted = tuple(selections)
    return any(selects(selection, steps) for selection in wanted) or any(
        not same(at(before, inner), at(after, inner))
        for selection in _below(wanted, steps)
        for side in (before, after)
        for inner in places(side, selection)
    )


def _below(selections: Iterable[Selection], steps: Steps) -> list[Selection]:
    """The part of the selections that is about the inside of the place."""
    return [s[len(steps) :] for s in selections if len(s) > len(steps) and all(map(_is, s, steps))]


def leaves(value: Observed, steps: Steps = ()) -> Iterator[tuple[Steps, Observed]]:
    """Every place inside the value that holds nothing further: scalars, empty objects and lists."""
    inside = list(members(value))
    for step, inner in inside:
        yield from leaves(inner, (*steps, step))
    if not inside:
        yield steps, value


def members(value: Observed) -> Iterator[tuple[Step, Value]]:
    """The members directly inside an object or a list, with the step to each."""
    if isinstance(value, Map):
        yield from value.items
    elif isinstance(value, Unordered) and value.key:
        for item in value:
            if step := Item.at(value.key, item):
                yield step, item
    elif isinstance(value, tuple):
        yield from enumerate(value)


Indexes: TypeAlias = dict[tuple[int, tuple[str, ...]], dict[Item, int | None]]
"""By a list, as its id, and members of its items: item → its index; None where several are it."""


def at(value: Observed, steps: Steps, known: Indexes | None = None) -> Observed:
    """The value at the place; absent where the way to it ends, or no one item is meant.

    `known` serves many places of one value, which its caller keeps: each list is read through once.
    """
    for step in steps:
        if isinstance(value, Map) and isinstance(step, str):
            value = value.get(step)
        elif isinstance(value, tuple) and isinstance(step, Item):
            index = _index(value, step, {} if known is None else known)
            value = ABSENT if index is None else value[index]
        elif isinstance(value, tuple) and isinstance(step, int) and 0 <= step < len(value):
            value = value[step]
        else:
            return ABSENT
    return value


def is_ambiguous(value: Observed, step: Step) -> bool:
    """True if more than one item of a list is what the step says."""
    return (
        isinstance(value, tuple)
        and isinstance(step, Item)
        and sum(Item.at(step.key, item) == step for item in value) > 1
    )


def _index(items: tuple[Value, ...], step: Item, known: Indexes) -> int | None:
    found = known.get((id(items), step.key))
    if found is None:
        found = known[id(items), step.key] = {}
        for index, item in enumerate(items):
            if (name := Item.at(step.key, item)) is not None:
                found[name] = None if name in found else index
    return found.get(step)


def places(value: Observed, selection: Selection, steps: Steps = ()) -> Iterator[Steps]:
    """The places in the value that the selection stands for, in order."""
    if not selection:
        yield steps
        return
    wanted, rest = selection[0], selection[1:]
    if isinstance(wanted, Item):
        if isinstance(value, tuple) and (index := _index(value, wanted, {})) is not None:
            yield from places(value[index], rest, (*steps, wanted))
        return
    for step, inner in members(value):
        if _is(wanted, step):
            yield from places(inner, rest, (*steps, step))


def replaced(value: Value, selection: Selection, change: Callable[[Value], Value]) -> Value:
    """The value with each selected place changed. Lists keep the order that they have."""
    if not selection:
        return change(value)
    wanted, rest = selection[0], selection[1:]
    if isinstance(value, Map):
        return Map(
            tuple(
                (name, replaced(inner, rest, change) if _is(wanted, name) else inner)
                for name, inner in value.items
            )
        )
    if isinstance(value, tuple):
        only = _index(value, wanted, {}) if isinstance(wanted, Item) else None
        return tuple(
            replaced(inner, rest, change) if index == only or _is(wanted, index) else inner
            for index, inner in enumerate(value)
        )
    return value
