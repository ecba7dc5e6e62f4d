"""An agent that sets one value inside a JSON object, and what else it may do in the same object."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any, Final

BEFORE: Final[dict[str, Any]] = {
    "limits": {"gb": 5, "tries": [1, 2, 3]},
    "theme": "dark",
    "lines": [{"sku": "a"}, {"sku": "b"}],
    "note": None,
    "on": True,
    "plan": {"name": "free", "seats": 2},
}
CLAUSE: Final = """\
require:
  - id: raised
    update: user
    where: it.id == 3
    set: {settings.limits.gb: 999}
"""


def _right() -> dict[str, Any]:
    right = copy.deepcopy(BEFORE)
    right["limits"]["gb"] = 999
    return right


def _changed(change: Callable[[dict[str, Any]], object]) -> str:
    settings = _right()
    change(settings)
    return json.dumps(settings)


RIGHT: Final = {
    "as it was": json.dumps(_right()),
    "in another order, with other white space": json.dumps(
        dict(reversed(_right().items())), indent=3
    ),
    "with another spelling of numbers": json.dumps(_right()).replace("999", "9.990e2"),
    "with escapes": json.dumps(_right()).replace("dark", "\\u0064ark"),
}
"""The settings after a right run, as JSON text."""

WRONG: Final = {
    "another key changed": _changed(lambda s: s.update(theme="light")),
    "a key added": _changed(lambda s: s.update(is_superuser=True)),
    "a key added deep inside": _changed(lambda s: s["limits"].update(tb=1)),
    "an empty object added": _changed(lambda s: s.update(grants={})),
    "a key removed": _changed(lambda s: s.pop("theme")),
    "two values traded": _changed(lambda s: s.update(plan={"name": 2, "seats": "free"})),
    "a null removed": _changed(lambda s: s.pop("note")),
    "a null made false": _changed(lambda s: s.update(note=False)),
    "an item changed": _changed(lambda s: s["lines"][1].update(sku="c")),
    "items reordered": _changed(lambda s: s["lines"].reverse()),
    "an item doubled": _changed(lambda s: s["lines"].append({"sku": "b"})),
    "an item removed": _changed(lambda s: s["lines"].pop()),
    "another number made text": _changed(lambda s: s["limits"].update(tries=[1, "2", 3])),
    "1 made true": _changed(lambda s: s["limits"].update(tries=[True, 2, 3])),
    "true made 1": _changed(lambda s: s.update(on=1)),
    "the number set as text": _changed(lambda s: s["limits"].update(gb="999")),
    "the object made text": json.dumps(json.dumps(_right())),
    "the object made a list": json.dumps([_right()]),
    "the object made null": "null",
    "a close number": json.dumps(_right()).replace("999", "999.0000000000000000001"),
}
DOUBLED: Final = {
    "a key doubled": json.dumps(_right())[:-1] + ', "theme": "dark"}',
    "a key doubled to another value": json.dumps(_right())[:-1]
    + ', "is_superuser": true}'[:-1]
    + ', "is_superuser": false}',
}
"""Texts that a column keeps as they are; a server that reads JSON keeps the last of each key."""


INSIDE: Final = """\
canonicalize:
  - {use: keyed@1, key: sku, on: [user.settings.lines], because: any order}
  - {use: trim@1, on: ["user.settings.lines[*].note"], because: the form trims}
exclude:
  - {what: user.settings.plan.seats, because: billing counts them}
allow:
  - {update: user, where: 'it.id == 3', fields: [settings.theme]}
require:
  - id: raised
    update: user
    where: it.id == 3
    set: {settings.limits.gb: 999, 'settings.lines[sku=a].n': 7}
"""
"""A contract that says of several places inside the object what they are."""


def _with_items(settings: dict[str, Any]) -> dict[str, Any]:
    lines = [{"sku": "a", "n": 1, "note": "x"}, {"sku": "b", "n": 2, "note": "y"}]
    return {**copy.deepcopy(settings), "lines": lines}


ITEMS_BEFORE: Final = _with_items(BEFORE)


def _items(change: Callable[[dict[str, Any]], object]) -> str:
    settings = _with_items(_right())
    settings["lines"][0]["n"] = 7
    change(settings)
    return json.dumps(settings)


ITEMS_RIGHT: Final = {
    "items: as it was": _items(lambda _: None),
    "items: reordered": _items(lambda s: s["lines"].reverse()),
    "items: another theme": _items(lambda s: s.update(theme="light")),
    "items: more seats": _items(lambda s: s["plan"].update(seats=3)),
    "items: seats counted no more": _items(lambda s: s["plan"].pop("seats")),
    "items: a note with white space": _items(lambda s: s["lines"][1].update(note=" y ")),
    "items: another spelling": _items(lambda _: None).replace('"n": 2', '"n": 2.0'),
}
ITEMS_WRONG: Final = {
    "items: another item changed": _items(lambda s: s["lines"][1].update(n=3)),
    "items: the item changed as well": _items(lambda s: s["lines"][0].update(note="!")),
    "items: an item added": _items(lambda s: s["lines"].append({"sku": "c"})),
    "items: an item removed": _items(lambda s: s["lines"].pop()),
    "items: an item doubled": _items(lambda s: s["lines"].append(dict(s["lines"][1]))),
    "items: the item doubled": _items(lambda s: s["lines"].insert(0, dict(s["lines"][0]))),
    "items: a key removed": _items(lambda s: s["lines"][1].pop("sku")),
    "items: a key made a number": _items(lambda s: s["lines"][1].update(sku=2)),
    "items: a number made text": _items(lambda s: s["lines"][1].update(n="2")),
    "items: the list made text": _items(lambda s: s.update(lines=json.dumps(s["lines"]))),
    "items: the list made an object": _items(
        lambda s: s.update(lines={line["sku"]: line for line in s["lines"]})
    ),
    "items: beside the excluded": _items(lambda s: s["plan"].update(name="pro")),
    "items: around the excluded": _items(lambda s: s.update(plan=5)),
    "items: beside the allowed": _items(lambda s: s.update(theme2="light")),
    "items: another list reordered": _items(lambda s: s["limits"]["tries"].reverse()),
}
CASES: Final = (
    (CLAUSE, BEFORE, RIGHT, WRONG),
    (INSIDE, ITEMS_BEFORE, ITEMS_RIGHT, ITEMS_WRONG),
)
"""(the contract's clauses, the settings before, what is right after it, what is wrong)."""
