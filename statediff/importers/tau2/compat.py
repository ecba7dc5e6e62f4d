"""τ²'s own deterministic rules, exactly as it has them, with their blind spots.

* DB: the whole state after is the state that the reference actions leave, list order and spelling
  included.
* COMMUNICATE: each text is found, in lower case, somewhere in a message of the agent from which
  the commas were removed, so that "327" is found in "$1327.00".
* ACTION: for each reference action some call has its name and the arguments that count.

What rests on code or language that is not in the files (ENV_ASSERTION, NL_ASSERTION) is not
computed: `reward` is then None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from statediff.importers.tau2.format import (
    Criteria,
    Expectation,
    Operation,
    Tree,
    applied,
    same_json,
)
from statediff.model.values import printable

COMPUTED: Final = frozenset({"DB", "ACTION", "COMMUNICATE"})


@dataclass(frozen=True)
class Components:
    """What the deterministic rules find of one run."""

    db: bool
    communicate: tuple[bool, ...]
    actions: tuple[bool, ...]
    differs_at: tuple[str, ...] = ()
    """Where the states differ, the first few."""

    def parts(self) -> dict[str, float]:
        """The parts of the reward that the files decide, as the benchmark counts them."""
        return {
            "DB": float(self.db),
            "COMMUNICATE": float(all(self.communicate)),
            "ACTION": float(all(self.actions)),
        }

    def reward(self, basis: Sequence[str]) -> float | None:
        """The product of the parts of the basis; None where one of them is not decided here."""
        if not set(basis) <= COMPUTED:
            return None
        parts = self.parts()
        return float(all(parts[name] == 1.0 for name in basis))


def components(
    before: Tree,
    delta: Sequence[Operation],
    gold: Sequence[Operation],
    criteria: Criteria,
    trace: Sequence[Mapping[str, Any]],
    texts: Sequence[Mapping[str, Any]],
) -> Components:
    """The parts of the reward, from what a run did and said."""
    reached, wanted = applied(before, delta), applied(before, gold)
    said = [
        str(text.get("text")).lower().replace(",", "")
        for text in texts
        if text.get("role") == "assistant" and text.get("text")
    ]
    return Components(
        same_json(reached, wanted),
        tuple(any(info.lower() in text for text in said) for info in criteria.communicate),
        tuple(any(_is_call(one, call) for call in trace) for one in criteria.actions or ()),
        tuple(_differences(reached, wanted, ())[:6]),
    )


def _is_call(wanted: Expectation, call: Mapping[str, Any]) -> bool:
    if call.get("name") != wanted.name:
        return False
    made = call.get("args")
    made = made if isinstance(made, dict) else {}
    counted = made.keys() if wanted.compare is None else wanted.compare
    if not counted:
        return True
    # As the benchmark compares arguments: 2 and 2.0 are one here.
    return {name: value for name, value in made.items() if name in counted} == {
        name: value for name, value in wanted.arguments.items() if name in counted
    }


def _differences(a: Any, b: Any, path: tuple[str, ...]) -> list[str]:
    if same_json(a, b):
        return []
    if not (isinstance(a, dict) and isinstance(b, dict)):
        return [printable("/".join(path)[:200])]
    return [
        place
        for name in sorted({*a, *b})
        if name not in a or name not in b or not same_json(a[name], b[name])
        for place in (
            _differences(a[name], b[name], (*path, name))
            if name in a and name in b
            else [printable("/".join((*path, name))[:200])]
        )
    ]
