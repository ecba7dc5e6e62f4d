"""The English of explanations: one template a reason, and the only place that words them.

A template is a text with the reason's arguments in braces, or a function of these arguments. What
it says may change at any time: bundles hold explanations, and no replay reads a sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Final, TypeAlias

from statediff.model.codes import FindingCode, Truth
from statediff.model.delta import Op
from statediff.model.explanation import Argument, Explanation, Reason, explanation_from
from statediff.model.values import decode, printable, show

Template: TypeAlias = str | Callable[..., str]

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
    template = TEMPLATES[explanation.reason]
    arguments = zip(explanation.reason.arguments, explanation.arguments, strict=True)
    if isinstance(template, str):
        return template.format_map({name: _words(part) for name, part in arguments})
    return template(**dict(arguments))


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


def _more(number: int) -> str:
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


def _not_changed(entity: Any, more: int) -> str:
    return f"{_words(entity)}{_more(more)} not changed as required"


def _call_number(number: int) -> str:
    return f"{number or 'no'} call{'s' * (number > 1)} {'match' if number > 1 else 'matches'}"


def _too_many_calls(number: int, most: int, calls: Any) -> str:
    return f"{_call_number(number)}, at most {most} may: {_words(calls)}"


def _too_few_calls(number: int, least: int) -> str:
    return f"{_call_number(number)}, {least} required"


def _call_judged(word: str) -> Template:
    def text(call: Any, action_class: str, more: int) -> str:
        rest = f", and {more} more" if more else ""
        return f"{_words(call)}, of class {action_class}, {word}{rest}"

    return text


# ---------------------------------------------------------------- reads


def _artifact(name: str) -> str:
    return printable(name)[:_ARTIFACT_LIMIT]


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


TEMPLATES: Final[Mapping[Reason, Template]] = {
    Reason.VALUE: value_text,
    Reason.BYTES: "{size} bytes",
    Reason.FRACTION: _fraction,
    Reason.LIST: "[{items}]",
    Reason.ENTITY: _entity,
    Reason.ENTITIES: lambda entities, more: _words(entities) + _more(more),
    Reason.KEYS: '"keys of {entity_type}"',
    Reason.UNOBSERVED: _unobserved,
    Reason.AT_LEAST: "at least {least}",
    Reason.AT_MOST: "at most {greatest}",
    Reason.BETWEEN: "{least} to {greatest}",
    Reason.NO_VALUE: "undefined ({reason})",
    Reason.CHANGE: _change,
    Reason.UPDATE: _update,
    Reason.CHANGES: lambda first, more: _words(first) + _more(more),
    Reason.CALL: "{id} ({tool})",
    Reason.CALLS: lambda calls, more: _words(calls) + _more(more),
    Reason.NAMES: _artifact_names,
    Reason.WRITTEN: "{text}",
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
    Reason.AT: "{place}: {what}",
    Reason.SIDE: "{side}",
    Reason.BEFORE_RUN: "already before the run",
    Reason.AFTER_RUN: "after the run",
    Reason.IN_TRANSACTION: lambda number, source, position: (
        f"in {_position(number, source, position)}"
    ),
    Reason.AFTER_TRANSACTION: lambda number, source, position: (
        f"after {_position(number, source, position)}"
    ),
    Reason.AFTER_CALL: "after {call}",
    Reason.AFTER_LAST_CALL: "after the last call",
    Reason.IN_TURN: "turn {number} of {of}, {message}",
    Reason.FIRST_FAILING_TURN: "the first turn to fail, turn {number} of {of}, {message}",
    Reason.AS_ASKED: "as the clause asks",
    Reason.NO_SUCH_CHANGE: "no such change",
    Reason.ALL_AUTHORIZED: "every such effect is authorized",
    Reason.NO_RETRY: "no retried call left two such effects",
    Reason.ALL_EXPLAINED: "all {number} changes are explained",
    Reason.ALL_TRANSACTIONS_EXPLAINED: "all transactions are explained",
    Reason.HISTORY_BROKEN: "the run broke the history that is required: {cause}",
    Reason.READINGS_PARTED: "{place}: {cause}",
    Reason.ENOUGH: "enough",
    Reason.AS_REQUIRED: "as required",
    Reason.FIELD_KEPT: "the field is kept",
    Reason.BRANCHES_HOLD: "all of {names} holds",
    Reason.IN_ALL_STATES: "in all {number} states of the run",
    Reason.AT_EACH_CALL: "at each of {number} such calls",
    Reason.AFTER_EACH_CALL: "after each of {number} calls",
    Reason.CALLS_MATCH: _call_number,
    Reason.NEITHER_HAPPENED: "neither happened",
    Reason.IN_ORDER: "in that order",
    Reason.TURN_HOLDS: "turn {number}: all of its predicates hold",
    Reason.TURN_REPAIRED: "turn {number}: all of its predicates hold (repairs: {repairs})",
    Reason.NO_FORBIDDEN_CALL: "none of {number} calls",
    Reason.ALL_CALLS_ALLOWED: "all {number} calls",
    Reason.NOTHING_ADMITTED: "none of {number} recorded calls; the log may not say all",
    Reason.ALL_CALLS_RIGHT: "all {number} calls are right",
    Reason.ANSWER_HAS_FORM: "the answer has the form asked for",
    Reason.ALL_READS: "all {number} reads",
    Reason.DOES_NOT_APPLY: "it does not apply to this answer",
    Reason.ALL_FETCHED: "all of {number} artifacts were fetched",
    Reason.ALL_CITED: "all {number} citations",
    Reason.NOT_AUTHORIZED: _not_authorized,
    Reason.REPEATED: _repeated,
    Reason.COMPENSATED: "{what}; {call} called {tool} to undo it",
    Reason.TOO_MANY: _too_many,
    Reason.TOO_FEW: _too_few,
    Reason.NOT_MATCHED: _not_matched,
    Reason.NOT_CHANGED: _not_changed,
    Reason.THAT_FAILS: lambda over: f"`that` fails over {_words(over) or 'nothing'}",
    Reason.THAT_UNDEFINED: lambda over: f"`that` is undefined over {_words(over) or 'nothing'}",
    Reason.WRONG_FIELD: "{entity}: {because}",
    Reason.NO_BRANCH: lambda branches: "; ".join(map(_words, branches)),
    Reason.NOT_BRANCH: "not {clause}: {what}",
    Reason.READINGS_DIFFER: "right by {right}, but {wrong}; {because}",
    Reason.TOO_MANY_CALLS: _too_many_calls,
    Reason.TOO_FEW_CALLS: _too_few_calls,
    Reason.NEVER_FIRST: "{then} came, {first} never did",
    Reason.CAME_FIRST: "in transaction {number} of {source}: {then} came first",
    Reason.CALL_FORBIDDEN: _call_judged("is forbidden"),
    Reason.CALL_OUTSIDE: _call_judged("is not among what is allowed"),
    Reason.NOT_REPAIRED: "{call} failed at attempt {attempt} and was not repaired within {most}",
    Reason.NO_ANSWER: "there is no answer: {words}",
    Reason.NO_MOMENT: "nobody recorded when the run began and ended (`run.start`, `run.end`)",
    Reason.NO_ENDING: "nobody recorded how the run ended (`run.ended`, `run.exit_code`)",
    Reason.ANSWER_LACKS: "the answer lacks `{name}`",
    Reason.ANSWER_KIND: "`{name}` of the answer is not {kind}",
    Reason.INVALIDLY_REACHED: "what was asked for is right, and was not validly reached: {codes}",
    Reason.SUBSYSTEM_CLOSED: _subsystem_closed,
    Reason.ARTIFACT_CLOSED: _artifact_closed,
    Reason.ARTIFACT_LATER: _artifact_later,
    Reason.NEVER_FETCHED: "{missed} of {of} never fetched: {artifacts}",
    Reason.NOTHING_SEARCHED: "{subsystem} (nothing in it was searched for)",
    Reason.ANYTHING_MEANT: "anything of {subsystem} that is meant",
    Reason.SO_MANY_OF: "{number} of {subsystem}",
    Reason.NOT_CITED: _not_cited,
    Reason.CITED_UNKNOWN: _cited_unknown,
    Reason.CITED_CLOSED: lambda artifact, actor: (
        f"{_artifact(artifact)} is cited, which {actor} may not read"
    ),
    Reason.CITED_LATER: lambda artifact: f"{_artifact(artifact)} is cited, which was not there yet",
    Reason.CITED_UNFETCHED: lambda artifact: (
        f"{_artifact(artifact)} is cited, and was never fetched"
    ),
    Reason.NO_END: "{entity_type} is absent, so no path begins or ends there",
    Reason.ABSENT_ENTITY: "{entity_type} is absent, so it has no {field}",
    Reason.NO_PART: "{field} has no part {part}",
    Reason.NO_PARTS: "what has no parts has no {part}",
    Reason.NO_NUMBER: "arithmetic on null, absent or something that is not a number",
    Reason.DIVISION_BY_ZERO: "division by zero",
    Reason.NO_LENGTH: "len of null, absent or a value without length",
    Reason.NO_TEST: "{function}(…) of null, absent or another kind of value",
    Reason.ANSWER_UNCLEAR: "{words}",
    Reason.NO_JOIN: "+ joins texts or lists, and this is null, absent or another value",
    Reason.NO_INDEX: "an index that is no whole number",
    Reason.NO_EMPTY_PART: "count of the empty text",
    Reason.NO_INSTANT: "{function}(…) of a text that is not in its form",
    Reason.OVER_NOTHING: "{function} over null or absent",
    Reason.OF_NOTHING: "{function} of nothing",
    Reason.SUM_OF_OTHERS: "sum over something that is not a number",
    Reason.NO_COMMON_ORDER: "{function} over values without a common order",
    Reason.NO_ORDER_OF_NULL: "null or absent has no order",
    Reason.NO_ORDER: "null, absent or values of different kinds have no order",
    Reason.NO_MEMBERSHIP: "`in` on something that is not a list",
    Reason.NO_CONDITION: "null or absent is used as a condition",
    Reason.NO_LIST: "ranging over null or absent",
    Reason.NOTHING_LISTED: "null or absent",
    Reason.LIST_MAY_BE_NULL: "the list may be null",
    Reason.ELEMENT_MAY_BE_UNDEFINED: "an element may be undefined",
    Reason.CONDITION_UNDEFINED: "an undefined condition",
    Reason.CLAUSE_UNDEFINED: "a condition of the clause is undefined",
    Reason.UNDEFINED_BY_RUN: lambda because: f"the run left it undefined: {_words(because)}",
    Reason.NEEDED: _needed,
    Reason.RECORDED: _recorded,
    Reason.ALL_OF: lambda causes: "; ".join(map(_words, causes)),
    Reason.IN: "{place}: {cause}",
    Reason.ON_SIDE: "{entity_type} {side}: {cause}",
    Reason.FIELD: "{entity_type}.{field} {side}: {cause}",
    Reason.EXCLUDED: "{entity_type}.{field} is excluded: {rule}",
    Reason.OF_CHANGE: "{change}: {cause}",
    Reason.SOME_VALUE: "a value the clause needs",
    Reason.SOME_CONDITION: "a condition of the clause",
    Reason.ROW_UNKNOWN: "its row is not known",
    Reason.ELEMENT_DOUBTED: "whether an element counts is not known",
    Reason.CHANGES_BY_THEN: "{side}: what the run had changed by then is not worked out",
    Reason.WHETHER_EXPLAINED: "whether {clause} explains it",
    Reason.WHETHER_THAT: "`that` of {clause}",
    Reason.WHETHER_THAT_OF_ALL: "whether it holds of all that match",
    Reason.WHETHER_CHANGED: "whether it is changed",
    Reason.WHETHER_TO_CHANGE: "whether it has to change",
    Reason.WHICH_READING: "which reading is meant: {names}",
    Reason.NO_HISTORY: "no history: {cause}",
    Reason.ORDER_OF_SOURCES: (
        "no history: the order of the commits of several sources is not known"
    ),
    Reason.ORDER_OF: lambda sources: (
        f"no history: the order of the commits of {' and '.join(sources)} is not known"
    ),
    Reason.NOBODY_TELLS: "no history: nobody tells of it",
    Reason.STATES_AFTER_CALLS: "no history: it does not tell what each call left",
    Reason.NOT_ALL_OBSERVED: "{first} and {then}: not all of them were observed",
    Reason.CLASS_UNKNOWN: "in {call}, the log does not say its class",
    Reason.CLASS_MAY_BE_FORBIDDEN: (
        "in {call}, the log does not say the class: it may be a forbidden one"
    ),
    Reason.ARGUMENTS_UNKNOWN: (
        "in {call}, the log does not say its arguments: it may repeat another call"
    ),
    Reason.CALLS_GAP: "calls: {cause}",
    Reason.TURN_UNKNOWN: "turn {number}: {cause}",
    Reason.TURNS_UNTOLD: "unrecorded: the log does not tell turns apart",
    Reason.TURNS_FEWER: "unrecorded: the log has {number} of {of} turns",
    Reason.TURNS_UNHEARD: "unrecorded: the agent heard {number} of {of} turns, no more",
    Reason.TURN_OTHER: "unrecorded: the user said something else, {message}",
    Reason.READ_UNCITED: (
        "unrecorded: a window was offered, and what was relied upon without citation is not known"
    ),
    Reason.MAY_HAVE_SHOWN: "unrecorded: what {call} may have shown",
    Reason.WHICH_ARTIFACTS: "unrecorded: which artifacts {call} read",
    Reason.WHETHER_READABLE: lambda artifact: f"whether {_artifact(artifact)} may be read",
    Reason.WHETHER_APPLIES: "the condition of the clause",
    Reason.CONDITION_OF_IT: "a condition over `it`",
    Reason.ITS_TIME: "its time",
    Reason.UNATTRIBUTED: "attribution: no history says who made the change",
    Reason.WHICH_CALL: "attribution: no history says which call left which effect",
    Reason.NOBODY_CHANGED: "attribution: no call says that it changed {place}",
    Reason.CHANGED_BY: _changed_by,
    Reason.SOMEBODY: "somebody unknown",
    Reason.NOT_FOLLOWED: "attribution: {cause}",
    Reason.HISTORY_GAP: "attribution: {source}: {cause}",
    Reason.NO_TRANSACTION: "attribution: no transaction of {source} changed it",
    Reason.NO_CALL_MADE: "no recorded call made transaction {number} of {source}",
    Reason.CALLS_MISSING: "the log may lack calls: {cause}",
    Reason.INSTANT_UNKNOWN: "its instant is not known",
    Reason.NO_CALL_AT_WORK: "no call was at work then",
    Reason.SEVERAL_NAME_IT: lambda calls, more: (
        f"several calls name it: {_words(calls)}{_more(more)}"
    ),
    Reason.SEVERAL_AT_WORK: lambda calls, more: (
        f"several calls were at work then: {_words(calls)}{_more(more)}"
    ),
    Reason.MUST_REPORT: "{source} {side}: {cause}",
    Reason.MISSING_REPORT: "{source} {side}",
}

_KNOWN: Final = {reason.value for reason in Reason}
