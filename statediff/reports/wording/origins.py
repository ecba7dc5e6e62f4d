"""The cause of an undecided clause: the agent, the environment or the contract.

A cause that lies with the agent mostly says so (`is_by_agent`). Of a value or a type that is not
known after the run, for what is there now, the two states tell: where it was known before, or was
not there, the run made it so. A cause with a word of its own (`CAUSE_CODES`) is no matter of what
is there: nobody read it, or not in time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from statediff.errors import BundleError, InputError
from statediff.evidence.package import Bundle
from statediff.model.codes import Origin, Truth, origin_of
from statediff.model.explanation import CAUSE_CODES, Reason, explanation_from, is_by_agent
from statediff.model.state import Coverage
from statediff.model.values import ABSENT, Digested, Unobserved, decode
from statediff.reports.wording.naming import FRAGMENTS

Json: TypeAlias = Any
_Written: TypeAlias = tuple[str, str | None, str]
"""Type, field (None: the type as a whole) and cause of what the run made unknown."""


def origins_in(bundle: Bundle) -> Callable[[Json], str | None]:
    """A function from a finding of the bundle to the cause of its undecided clause, or None."""
    made: _Made | None = None

    def origin(finding: Json) -> str | None:
        nonlocal made
        if finding["truth"] != Truth.UNKNOWN.value:
            return None
        if "explanation" in finding:
            made = _made(bundle) if made is None else made
            for part in (finding["explanation"], *finding["missing"]):
                if _lies_with_agent(part, made):
                    return Origin.AGENT.value
        return origin_of(finding["code"])

    return origin


@dataclass(frozen=True)
class _Made:
    """Values that the run made unknown, and those not known before it, with their causes."""

    written: frozenset[_Written] = frozenset()
    before: frozenset[str] = frozenset()
    calls: frozenset[str] = frozenset()
    """The calls whose arguments no log keeps."""

    def is_of(self, explanation: Json) -> bool:
        """True if something of it is among what was not known."""
        if isinstance(explanation, list):
            return any(map(self.is_of, explanation))
        if isinstance(explanation, str):
            return explanation not in self.before and any(
                explanation == cause for _, _, cause in self.written
            )
        if not isinstance(explanation, dict):
            return False
        why = explanation.get("is")
        if why in (Reason.FIELD, Reason.ON_SIDE) and explanation["side"] != "before":
            place = explanation["entity_type"], explanation.get("field"), explanation["cause"]
            if place in self.written:
                return True
        if why == Reason.ARGUMENTS_UNKNOWN and explanation["call"] in self.calls:
            return True
        return any(self.is_of(explanation[name]) for name in _PARTS if name in explanation)


_PARTS: Final = ("cause", "causes", "over", "because", "left", "right")
"""The arguments in which causes are."""
_UNOBSERVED: Final = "UNOBSERVED"


def _made(bundle: Bundle) -> _Made:
    written: set[_Written] = set()
    before: set[str] = set()
    calls: frozenset[str] = frozenset()
    try:
        if FRAGMENTS in bundle.files:
            for matching in bundle.document(FRAGMENTS):
                _add_values(matching, written, before)
        for covers in bundle.document("captures.json")["enumerations"]:
            _add_types(covers, written, before)
        calls = frozenset(_unkept(bundle.document("trace.json")))
    except (BundleError, AttributeError, KeyError, TypeError, ValueError):
        pass  # of a damaged bundle, or of another version's
    return _Made(frozenset(w for w in written if _is_of_content(w[2])), frozenset(before), calls)


def _is_of_content(cause: str) -> bool:
    return cause.partition(": ")[0] not in CAUSE_CODES


def _add_values(matching: Json, written: set[_Written], before: set[str]) -> None:
    sides: dict[str, dict[str, Json]] = {"before": {}, "after": {}}
    for row in matching["rows"]:
        if row["side"] in sides:
            sides[row["side"]][row["id"].partition(":")[2]] = row
    for entity, row in sides["after"].items():
        was = sides["before"].get(entity)
        if row["fields"] is None or was is None or was["presence"] == _UNOBSERVED:
            continue
        old = {name: decode(value) for name, value in was["fields"] or ()}
        before.update(v.cause for v in old.values() if isinstance(v, Unobserved))
        for name, value in row["fields"]:
            seen, earlier = decode(value), old.get(name, ABSENT)
            was_known = isinstance(earlier, Digested) or not isinstance(earlier, Unobserved)
            if isinstance(seen, Unobserved) and was_known and seen != earlier:
                written.add((row["type"], name, seen.cause))


def _add_types(covers: Json, written: set[_Written], before: set[str]) -> None:
    ends = {(side, name): entry for side, name, entry in covers}
    for (side, name), (coverage, cause) in ends.items():
        if coverage == Coverage.COMPLETE.value:
            continue
        if side == "before":
            before.add(cause)
        elif side == "after":
            was, _ = ends.get(("before", name), (Coverage.COMPLETE.value, ""))
            if was == Coverage.COMPLETE.value:
                written.add((name, None, cause))


def _unkept(trace: Json) -> Iterator[str]:
    for action in trace["actions"]:
        arguments = decode(action["arguments"])
        if isinstance(arguments, Unobserved) and is_by_agent(explanation_from(arguments.cause)):
            yield action["id"]


def _lies_with_agent(explanation: Json, made: _Made) -> bool:
    """True if its words say so; those of a version that this one does not know say nothing."""
    try:
        return is_by_agent(explanation_from(explanation)) or made.is_of(explanation)
    except InputError:
        return False
