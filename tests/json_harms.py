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
