"""The English of explanations: the text of the reason, or a function of its arguments.

What it says may change at any time: bundles hold explanations, and no replay reads a sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Final

from statediff.model.codes import FindingCode, Truth
from statediff.model.delta import Op
from statediff.model.explanation import Argument, Explanation, Reason, explanation_from
from statediff.model.values import decode, printable, show

_SIDE_LIMIT: Final = 40
"""Characters of one side of a change."""
_KEY_LIMIT: Final = 60
_CAUSES_LIMIT: Final = 80
_ARTIFACT_LIMIT: Final = 80

_FAILED = {"==": "≠", "!=": "=", "<": "≥", "<=": ">", ">": "≤", ">=": "<", "in": "∉", "not in": "∈"}
_HELD = {"==": "=", "!=": "≠", "<": "<", "<=": "≤", ">": ">", ">=": "≥", "in": "∈", "not in": "∉"}
_PAST = {
    Op.CREATE.value: "created",
    Op.UPDATE.value: "updated",
    Op.DELETE.value: "deleted",
    Op.LINK.value: "linked",
    Op.UNLINK.value: "unlinked",
}


def sentence(explanation: Explanation) -> str:
    """The explanation in English."""
    reason = explanation.reason
    arguments = zip(reason.arguments, explanation.arguments, strict=True)
    if reason in WORDED:
        return WORDED[reason](**dict(arguments))
    return reason.text.format_map({n: _BY_NAME.get(n, _words)(part) for n, part in arguments})


def sentence_of(document: Any) -> str:
    """The sentence of an explanation that a bundle holds; its code where another version made it.

    `InputError` for what is no explanation.
    """
    if isinstance(document, dict) and document.get("is") not in _KNOWN:
        return printable(str(document.get("is")))[:_CAUSES_LIMIT]
    return sentence(explanation_from(document))


def _words(part: Argument) -> str:
    if isinstance(part, Explanation):
        return sentence(part)
    return ", ".join(map(_words, part)) if isinstance(part, tuple) else str(part)


# ---------------------------------------------------------------- values and entities


def value_text(value: Any, limit: int = 60) -> str:
    """A short rendering of an encoded value."""
    return show(decode(_lists(value)), limit)


def _lists(value: Any) -> Any:
    return [_lists(each) for each in value] if isinstance(value, tuple) else value


def _cut(part: Any, limit: int) -> str:
    """A value of a change or of a key, cut; anything else in words."""
    if isinstance(part, Explanation) and part.reason is Reason.VALUE:
        return value_text(part["value"], limit)
    return _words(part)


def fraction_text(value: Fraction) -> str:
    """The number as a decimal where it has a finite one, else as `p/q`."""
    rest = value.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    if value.denominator == 1:
        return str(value.numerator)
    if rest != 1 or value.denominator > 10**12:
        return f"{value.numerator}/{value.denominator}"
    digits = 0
    scaled = value
    while scaled.denominator != 1:
        scaled *= 10
        digits += 1
    text = str(abs(scaled.numerator)).rjust(digits + 1, "0")
    return f"{'-' if value < 0 else ''}{text[:-digits]}.{text[-digits:]}"


def _fraction(number: str) -> str:
    top, _, bottom = number.partition("/")
    return fraction_text(Fraction(int(top), int(bottom)))


def key_text(key: Any) -> str:
    """A key as a person writes it: the bare value, or the values in brackets."""
    parts = [_key_part(part) for part in key]
    text = parts[0] if len(parts) == 1 else "(" + ", ".join(parts) + ")"
    return printable(text if len(text) <= _KEY_LIMIT else text[: _KEY_LIMIT - 1] + "…")


def _key_part(part: Any) -> str:
    if part.reason is Reason.VALUE:
        value = decode(_lists(part["value"]))
        if isinstance(value, str) and value:
            return value
    return _cut(part, _KEY_LIMIT)


def _entity(entity_type: str, key: Any) -> str:
    return f"{entity_type} {key_text(key)}"


def _change(operation: str, entity_type: str, key: Any) -> str:
    return f"{_entity(entity_type, key)} {_PAST[operation]}"


def _update(entity_type: str, key: Any, path: str, before: Any, after: Any) -> str:
    sides = (_cut(side, _SIDE_LIMIT) for side in (before, after))
    return f"{_entity(entity_type, key)} {path} {' → '.join(sides)}"


def _more(number: Any) -> str:
    return f" and {number} more" if number else ""


def _and_more(number: int) -> str:
    return f"; and {number} more" if number else ""


def _unobserved(causes: Any) -> str:
    return "unobserved (" + "; ".join(map(_words, causes))[:_CAUSES_LIMIT] + ")"


def _compared(left: Any, operator: str, right: Any, truth: str) -> str:
    signs = {Truth.HOLDS.value: _HELD, Truth.FAILS.value: _FAILED}.get(truth, {})
    return f"{_words(left)} {signs.get(operator, f'? {operator} ?')} {_words(right)}"


def _field_is(path: str, left: Any, right: Any, truth: str) -> str:
    return f"{path} {_compared(left, '==', right, truth)}"


def _exists(what: Any, truth: str) -> str:
    verbs = {Truth.HOLDS.value: "exists", Truth.FAILS.value: "does not exist"}
    return f"{_words(what)} {verbs.get(truth, 'may exist')}"


_TESTED: Final = {
    "search": ("in part matches", "in no part matches"),
    "same_items": ("has the same items as", "has not the same items as"),
    "mentions": ("mentions", "does not mention"),
    "matches": ("matches", "does not match"),
    "contains": ("contains", "does not contain"),
    "starts_with": ("starts with", "does not start with"),
    "ends_with": ("ends with", "does not end with"),
    "within": ("is close enough to", "is not close enough to"),
}


def _test(left: Any, test: str, right: Any, truth: str) -> str:
    verb, no_verb = _TESTED.get(test, (test.replace("_", " "), f"not {test.replace('_', ' ')}"))
    return f"{_words(left)} {verb if truth == Truth.HOLDS.value else no_verb} {_words(right)}"


def _hop(relation: str, key: Any, entity: Any) -> str:
    return f"{relation}{' ' + key_text(key) if key else ''} → {_words(entity)}"


def _way(goal: Any, hops: Any, more: int) -> str:
    steps = "; ".join(map(_words, hops))
    return f"{_words(goal)}{' by ' + steps if steps else ''}{_and_more(more)}"


def _reaches(start: Any, way: Any, truth: str) -> str:
    verbs = {Truth.HOLDS.value: "reaches", Truth.FAILS.value: "does not reach"}
    return f"{_words(start)} {verbs.get(truth, 'may reach')} {_words(way)}"


def _twice(value: Any, entities: Any) -> str:
    where = f": {' and '.join(map(_words, entities))}" if entities else ""
    return f"{_words(value)} is not unique{where}"


def _none_of(number: int, more: bool, entity_type: str, nearest: Any) -> str:
    what = entity_type or "value"
    if not number:
        return f"there is no {what} to look at"
    count = f"more than {number}" if more else f"{number}"
    many = f"{what} entities" if entity_type else "values"
    who = f"none of {count} {many} meets" if number > 1 else f"the one {what} does not meet"
    return "; ".join((f"{who} the condition", *map(_words, nearest)))


def _broken_by(entities: Any, because: Any) -> str:
    where = " and ".join(map(_words, entities))
    why = " and ".join(map(_words, because)) or "not so"
    return f"{where}: {why}" if where else why


def _no_number(entity_type: str, key: Any, field: str, side: str, value: Any) -> str:
    when = f" {side} the run" if side in ("before", "after") else ""
    return f"{_entity(entity_type, key)}'s {field}{when} is {_words(value)}, which is not a number"


def _position(number: int, source: str, position: str) -> str:
    where = f" (position {printable(position)})" if position else ""
    return f"transaction {number} of {source}{where}"


# ---------------------------------------------------------------- clauses


def _not_authorized(changes: Any, because: Any) -> str:
    why = f": {_words(because)}" if because else ""
    return f"{_words(changes)} without authorization{why}"


def _repeated(entity_type: str, keys: Any, times: int, again: str, first: str, tool: Any) -> str:
    named = " and ".join(key_text(key) for key in keys)
    times_found = f"{entity_type} {named} are one effect {times} times"
    return f"{times_found}: {again} repeats {first} ({_words(tool)})"


def _number_of(number: int, types: Any) -> str:
    noun = " or ".join(types)
    if number > 1:
        return f"{number} {noun} entities match"
    return f"{number or 'no'} {noun} matches"


def _too_many(number: int, types: Any, most: int, entities: Any) -> str:
    return f"{_number_of(number, types)}, at most {most} may: {_words(entities)}"


def _too_few(number: int, types: Any, least: int, most: Any, nearest: Any) -> str:
    wanted = f"{least}" if most == (least,) else f"at least {least}"
    near = f"; {_words(nearest)}" if nearest else ""
    return f"{_number_of(number, types)}, {wanted} required{near}"


def _not_matched(entity: Any, because: Any) -> str:
    return f"{_words(entity)} does not" + (f": {_words(because)}" if because else "")


def _call_number(number: int) -> str:
    return f"{number or 'no'} call{'s' * (number > 1)} {'match' if number > 1 else 'matches'}"


def _too_many_calls(number: int, most: int, calls: Any) -> str:
    return f"{_call_number(number)}, at most {most} may: {_words(calls)}"


def _too_few_calls(number: int, least: int) -> str:
    return f"{_call_number(number)}, {least} required"


def _call_judged(word: str) -> Callable[..., str]:
    def text(call: Any, action_class: str, more: int) -> str:
        rest = f", and {more} more" if more else ""
        return f"{_words(call)}, of class {action_class}, {word}{rest}"

    return text


# ---------------------------------------------------------------- reads


def _artifact(name: Any) -> str:
    return printable(name)[:_ARTIFACT_LIMIT]


_BY_NAME: Final[Mapping[str, Callable[[Argument], str]]] = {"more": _more, "artifact": _artifact}
"""Arguments that are said in one way wherever they are."""


_OUTCOMES: Final = {
    "leaked": "it was delivered, a leak",
    "refused": "it was refused",
    "empty": "nothing was found there",
}
"""The outcome of a call that asked for what it may not read."""


def _subsystem_closed(call: Any, subsystem: str, actor: str, outcome: str, more: int) -> str:
    what = f"{_words(call)} searches {_artifact(subsystem)}, which is not granted to {actor}"
    return f"{what}; {_OUTCOMES[outcome]}{_and_more(more)}"


def _asked(call: Any, is_search: bool, artifact: str) -> str:
    return f"{_words(call)} {'names' if is_search else 'asks for'} {_artifact(artifact)}"


def _artifact_closed(
    call: Any, is_search: bool, artifact: str, actor: str, outcome: str, more: int
) -> str:
    what = _asked(call, is_search, artifact)
    return f"{what}, which {actor} may not read; {_OUTCOMES[outcome]}{_and_more(more)}"


def _artifact_later(call: Any, is_search: bool, artifact: str, outcome: str, more: int) -> str:
    what = _asked(call, is_search, artifact)
    return f"{what}, which was not there yet; {_OUTCOMES[outcome]}{_and_more(more)}"


def _artifact_names(names: Any, more: int) -> str:
    shown = (_artifact(n if isinstance(n, str) else sentence(n)) for n in names)
    return ", ".join(shown) + _more(more)


def _not_cited(artifacts: Any, number: int) -> str:
    return f"{_words(artifacts)} {'is' if number == 1 else 'are'} not cited"


def _cited_unknown(artifact: str, was_offered: bool) -> str:
    seen = "was offered" if was_offered else "exists"
    return f"{_artifact(artifact)} is cited, but no such artifact {seen}"


# ---------------------------------------------------------------- what is not known


def _needed(cause: Explanation, clause: str) -> str:
    return f"{_spoken(cause)}; needed by {clause}"


def _spoken(cause: Explanation) -> str:
    """A cause for a sentence: of a source that was not read, no more than its own words."""
    if cause.code is not FindingCode.SOURCE_UNREAD:
        return sentence(cause)
    while cause.reason is not Reason.RECORDED:
        inside = (part for part in cause.arguments if isinstance(part, Explanation))
        if (found := next((p for p in inside if p.code is cause.code), None)) is None:
            return sentence(cause)  # it is said with words of ours
        cause = found
    return str(cause["words"])


def _recorded(code: str, words: str) -> str:
    return f"{code}: {words}" if code else words


def _changed_by(place: str, principals: Any, because: Any) -> str:
    why = f" ({'; '.join(map(_words, because))})" if because else ""
    return f"attribution: {place} was changed by {_words(principals)}{why}"


WORDED: Final[Mapping[Reason, Callable[..., str]]] = {
    Reason.VALUE: value_text,
    Reason.FRACTION: _fraction,
    Reason.ENTITY: _entity,
    Reason.UNOBSERVED: _unobserved,
    Reason.CHANGE: _change,
    Reason.UPDATE: _update,
    Reason.NAMES: _artifact_names,
    Reason.COMPARED: _compared,
    Reason.FIELD_IS: _field_is,
    Reason.EXISTS: _exists,
    Reason.TWICE: _twice,
    Reason.TEST: _test,
    Reason.HOP: _hop,
    Reason.WAY: _way,
    Reason.REACHES: _reaches,
    Reason.NONE_OF: _none_of,
    Reason.BROKEN_BY: _broken_by,
    Reason.FIELD_NO_NUMBER: _no_number,
    Reason.IN_TRANSACTION: lambda number, source, position: (
        f"in {_position(number, source, position)}"
    ),
    Reason.AFTER_TRANSACTION: lambda number, source, position: (
        f"after {_position(number, source, position)}"
    ),
    Reason.CALLS_MATCH: _call_number,
    Reason.NOT_AUTHORIZED: _not_authorized,
    Reason.REPEATED: _repeated,
    Reason.TOO_MANY: _too_many,
    Reason.TOO_FEW: _too_few,
    Reason.NOT_MATCHED: _not_matched,
    Reason.THAT_FAILS: lambda over: f"`that` fails over {_words(over) or 'nothing'}",
    Reason.THAT_UNDEFINED: lambda over: f"`that` is undefined over {_words(over) or 'nothing'}",
    Reason.NO_BRANCH: lambda branches: "; ".join(map(_words, branches)),
    Reason.TOO_MANY_CALLS: _too_many_calls,
    Reason.TOO_FEW_CALLS: _too_few_calls,
    Reason.CALL_FORBIDDEN: _call_judged("is forbidden"),
    Reason.CALL_OUTSIDE: _call_judged("is not among what is allowed"),
    Reason.SUBSYSTEM_CLOSED: _subsystem_closed,
    Reason.ARTIFACT_CLOSED: _artifact_closed,
    Reason.ARTIFACT_LATER: _artifact_later,
    Reason.NOT_CITED: _not_cited,
    Reason.CITED_UNKNOWN: _cited_unknown,
    Reason.NEEDED: _needed,
    Reason.RECORDED: _recorded,
    Reason.ALL_OF: lambda causes: "; ".join(map(_words, causes)),
    Reason.ORDER_OF: lambda sources: (
        f"no history: the order of the commits of {' and '.join(sources)} is not known"
    ),
    Reason.CHANGED_BY: _changed_by,
}

_KNOWN: Final = {reason.value for reason in Reason}
