"""Why a finding is as it is, as data: registered reasons with typed arguments.

A reason names what was found, and says so in English with its arguments in braces: texts, numbers,
encoded values, further explanations, and tuples of these. Bundles hold explanations without the
English; a replay gives the same ones. `statediff.model.sentences` makes the sentences.

A *cause* says why something is not known. What a source, or the admission of its reading, recorded
is text: it may begin with a word of `CAUSE_CODES` and a colon, and the code of a finding follows
from that word. What the judgement itself adds is an explanation around it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from string import Formatter
from typing import Any, Final, Self, TypeAlias

from statediff.errors import InputError
from statediff.model.codes import FindingCode
from statediff.model.values import Digested, Key, Map, Observed, Unobserved, encode

Argument: TypeAlias = "str | int | bool | Explanation | tuple[Argument, ...]"

BY_AGENT: Final = "more than is judged"
"""The first word of a cause that lies with the agent: the run wrote so much."""
BY_RUN: Final = "caused by the run"
"""The first word of any other cause that lies with the agent."""
PARTED: Final = "contradiction since the run"
"""The first word where readings differ that were complete and agreed before the run."""
CAUSE_CODES: Final[Mapping[str, FindingCode]] = {
    "stale": FindingCode.EVIDENCE_STALE,
    "unsettled": FindingCode.EVIDENCE_UNSETTLED,
    "missing": FindingCode.EVIDENCE_MISSING,
    "unread": FindingCode.SOURCE_UNREAD,
    "forgeable": FindingCode.EVIDENCE_FORGEABLE,
    "acknowledgement": FindingCode.EVIDENCE_ACKNOWLEDGEMENT_ONLY,
    "contradiction": FindingCode.EVIDENCE_CONTRADICTORY,
    PARTED: FindingCode.EVIDENCE_CONTRADICTORY,
    "ambiguous identity": FindingCode.IDENTITY_AMBIGUOUS,
    "unrecorded": FindingCode.TRACE_UNOBSERVED,
    "no history": FindingCode.HISTORY_UNOBSERVED,
    BY_AGENT: FindingCode.UNOBSERVED,
    BY_RUN: FindingCode.UNOBSERVED,
}
"""First word of a recorded cause → the code it leads to; any other cause is `unobserved`."""


class Reason(StrEnum):
    """Everything an explanation can say, with the arguments that it needs in braces.

    Those that are no more than their arguments have a function in `statediff.model.sentences`.
    """

    text: str
    arguments: tuple[str, ...]
    code: FindingCode | None
    """The code of a finding that waits for this; None where what is inside decides, or nothing."""

    def __new__(cls, value: str, text: str = "", code: FindingCode | None = None) -> Self:
        """The member with this name, this text with the arguments in their order, and this code."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.text = text
        member.arguments = tuple(name for _, name, _, _ in Formatter().parse(text) if name)
        member.code = code
        return member

    def __call__(self, **arguments: Argument) -> Explanation:
        """The explanation with these arguments; `TypeError` unless they are those declared."""
        if tuple(arguments) == self.arguments:
            return Explanation(self, tuple(arguments.values()))
        if arguments.keys() != set(self.arguments):
            raise TypeError(f"{self} takes {self.arguments}, not {tuple(arguments)}")
        return Explanation(self, tuple(arguments[name] for name in self.arguments))

    # Values, entities and changes.
    VALUE = "value", "{value}"
    BYTES = "bytes", "{size} bytes"
    FRACTION = "fraction", "{number}"
    LIST = "list", "[{items}]"
    ENTITY = "entity", "{entity_type} {key}"
    ENTITIES = "entities", "{entities}{more}"
    KEYS = "keys", '"keys of {entity_type}"'
    UNOBSERVED = "unobserved", "{causes}"
    AT_LEAST = "at-least", "at least {least}"
    AT_MOST = "at-most", "at most {greatest}"
    BETWEEN = "between", "{least} to {greatest}"
    NO_VALUE = "no-value", "undefined ({reason})"
    CHANGE = "change", "{operation} {entity_type} {key}"
    UPDATE = "update", "{entity_type} {key} {path} {before} {after}"
    CHANGES = "changes", "{first}{more}"
    CALL = "call", "{id} ({tool})"
    CALLS = "calls", "{calls}{more}"
    NAMES = "names", "{names} {more}"
    WRITTEN = "written", "{text}"
    COMPARED = "compared", "{left} {operator} {right} {truth}"
    FIELD_IS = "field-is", "{path} {left} {right} {truth}"
    EXISTS = "exists", "{what} {truth}"
    TWICE = "twice", "{value} {entities}"
    TEST = "test", "{left} {test} {right} {truth}"
    HOP = "hop", "{relation} {key} {entity}"
    WAY = "way", "{goal} {hops} {more}"
    REACHES = "reaches", "{start} {way} {truth}"
    NONE_OF = "none-of", "{number} {more} {entity_type} {nearest}"
    BROKEN_BY = "broken-by", "{entities} {because}"

    # Where in the run.
    AT = "at", "{place}: {what}"
    SIDE = "side", "{side}"
    BEFORE_RUN = "before-run", "already before the run"
    AFTER_RUN = "after-run", "after the run"
    IN_TRANSACTION = "in-transaction", "{number} {source} {position}"
    AFTER_TRANSACTION = "after-transaction", "{number} {source} {position}"
    AFTER_CALL = "after-call", "after {call}"
    AFTER_LAST_CALL = "after-last-call", "after the last call"
    IN_TURN = "in-turn", "turn {number} of {of}, {message}"
    FIRST_FAILING_TURN = (
        "first-failing-turn",
        "the first turn to fail, turn {number} of {of}, {message}",
    )

    # Clauses that hold.
    AS_ASKED = "as-asked", "as the clause asks"
    NO_SUCH_CHANGE = "no-such-change", "no such change"
    ALL_AUTHORIZED = "all-authorized", "every such effect is authorized"
    NO_RETRY = "no-retry", "no retried call left two such effects"
    ALL_EXPLAINED = "all-explained", "all {number} changes are explained"
    ALL_TRANSACTIONS_EXPLAINED = "all-transactions-explained", "all transactions are explained"
    ENOUGH = "enough", "enough"
    AS_REQUIRED = "as-required", "as required"
    FIELD_KEPT = "field-kept", "the field is kept"
    BRANCHES_HOLD = "branches-hold", "all of {names} holds"
    IN_ALL_STATES = "in-all-states", "in all {number} states of the run"
    AT_EACH_CALL = "at-each-call", "at each of {number} such calls"
    AFTER_EACH_CALL = "after-each-call", "after each of {number} calls"
    CALLS_MATCH = "calls-match", "{number}"
    NEITHER_HAPPENED = "neither-happened", "neither happened"
    IN_ORDER = "in-order", "in that order"
    TURN_HOLDS = "turn-holds", "turn {number}: all of its predicates hold"
    TURN_REPAIRED = (
        "turn-repaired",
        "turn {number}: all of its predicates hold (repairs: {repairs})",
    )
    NO_FORBIDDEN_CALL = "no-forbidden-call", "none of {number} calls"
    ALL_CALLS_ALLOWED = "all-calls-allowed", "all {number} calls"
    NOTHING_ADMITTED = (
        "nothing-admitted",
        "none of {number} recorded calls; the log may not say all",
    )
    ALL_CALLS_RIGHT = "all-calls-right", "all {number} calls are right"
    ANSWER_HAS_FORM = "answer-has-form", "the answer has the form asked for"
    ALL_READS = "all-reads", "all {number} reads"
    DOES_NOT_APPLY = "does-not-apply", "it does not apply to this answer"
    ALL_FETCHED = "all-fetched", "all of {number} artifacts were fetched"
    ALL_CITED = "all-cited", "all {number} citations"

    # Clauses that fail: changes.
    HISTORY_BROKEN = "broken-history", "the run broke the history that is required: {cause}"
    READINGS_PARTED = "parted-readings", "{place}: {cause}"
    NOT_AUTHORIZED = "not-authorized", "{changes} {because}"
    REPEATED = "repeated", "{entity_type} {keys} {times} {again} {first} {tool}"
    COMPENSATED = "compensated", "{what}; {call} called {tool} to undo it"
    TOO_MANY = "too-many", "{number} {types} {most} {entities}"
    TOO_FEW = "too-few", "{number} {types} {least} {most} {nearest}"
    NOT_MATCHED = "not-matched", "{entity} {because}"
    NOT_CHANGED = "not-changed", "{entity}{more} not changed as required"
    THAT_FAILS = "that-fails", "{over}"
    THAT_UNDEFINED = "that-undefined", "{over}"
    WRONG_FIELD = "wrong-field", "{entity}: {because}"
    NO_BRANCH = "no-branch", "{branches}"
    NOT_BRANCH = "not-branch", "not {clause}: {what}"
    READINGS_DIFFER = "readings-differ", "right by {right}, but {wrong}; {because}"

    # Clauses that fail: calls, answers and reads.
    TOO_MANY_CALLS = "calls-too-many", "{number} {most} {calls}"
    TOO_FEW_CALLS = "calls-too-few", "{number} {least}"
    NEVER_FIRST = "never-first", "{then} came, {first} never did"
    CAME_FIRST = "came-first", "in transaction {number} of {source}: {then} came first"
    CALL_FORBIDDEN = "call-forbidden", "{call} {action_class} {more}"
    CALL_OUTSIDE = "call-outside", "{call} {action_class} {more}"
    NOT_REPAIRED = (
        "not-repaired",
        "{call} failed at attempt {attempt} and was not repaired within {most}",
    )
    NO_ANSWER = "no-answer", "there is no answer: {words}"
    NO_ENDING = "no-ending", "nobody recorded how the run ended (`run.ended`, `run.exit_code`)"
    NO_MOMENT = "no-moment", "nobody recorded when the run began and ended (`run.start`, `run.end`)"
    ANSWER_LACKS = "answer-lacks", "the answer lacks `{name}`"
    ANSWER_KIND = "answer-kind", "`{name}` of the answer is not {kind}"
    INVALIDLY_REACHED = (
        "invalidly-reached",
        "what was asked for is right, and was not validly reached: {codes}",
    )
    SUBSYSTEM_CLOSED = "subsystem-closed", "{call} {subsystem} {actor} {outcome} {more}"
    ARTIFACT_CLOSED = "artifact-closed", "{call} {is_search} {artifact} {actor} {outcome} {more}"
    ARTIFACT_LATER = "artifact-later", "{call} {is_search} {artifact} {outcome} {more}"
    NEVER_FETCHED = "never-fetched", "{missed} of {of} never fetched: {artifacts}"
    NOTHING_SEARCHED = "nothing-searched", "{subsystem} (nothing in it was searched for)"
    ANYTHING_MEANT = "anything-meant", "anything of {subsystem} that is meant"
    SO_MANY_OF = "so-many-of", "{number} of {subsystem}"
    NOT_CITED = "not-cited", "{artifacts} {number}"
    CITED_UNKNOWN = "cited-unknown", "{artifact} {was_offered}"
    CITED_CLOSED = "cited-closed", "{artifact} is cited, which {actor} may not read"
    CITED_LATER = "cited-later", "{artifact} is cited, which was not there yet"
    CITED_UNFETCHED = "cited-unfetched", "{artifact} is cited, and was never fetched"

    ANSWER_UNCLEAR = "answer-unclear", "{words}"

    # Why an expression has no value.
    ABSENT_ENTITY = "absent-entity", "{entity_type} is absent, so it has no {field}"
    NO_END = "no-end", "{entity_type} is absent, so no path begins or ends there"
    NO_PART = "no-part", "{field} has no part {part}"
    NO_PARTS = "no-parts", "what has no parts has no {part}"
    NO_NUMBER = "no-number", "arithmetic on null, absent or something that is not a number"
    FIELD_NO_NUMBER = "field-no-number", "{entity_type} {key} {field} {side} {value}"
    DIVISION_BY_ZERO = "division-by-zero", "division by zero"
    NO_LENGTH = "no-length", "len of null, absent or a value without length"
    NO_TEST = "no-test", "{function}(…) of null, absent or another kind of value"
    NO_JOIN = "no-join", "+ joins texts or lists, and this is null, absent or another value"
    NO_INDEX = "no-index", "an index that is no whole number"
    NO_EMPTY_PART = "no-empty-part", "count of the empty text"
    NO_INSTANT = "no-instant", "{function}(…) of a text that is not in its form"
    OVER_NOTHING = "over-nothing", "{function} over null or absent"
    OF_NOTHING = "of-nothing", "{function} of nothing"
    SUM_OF_OTHERS = "sum-of-others", "sum over something that is not a number"
    NO_COMMON_ORDER = "no-common-order", "{function} over values without a common order"
    NO_ORDER_OF_NULL = "no-order-of-null", "null or absent has no order"
    NO_ORDER = "no-order", "null, absent or values of different kinds have no order"
    NO_MEMBERSHIP = "no-membership", "`in` on something that is not a list"
    NO_CONDITION = "no-condition", "null or absent is used as a condition"
    NO_LIST = "no-list", "ranging over null or absent"
    NOTHING_LISTED = "nothing-listed", "null or absent"
    LIST_MAY_BE_NULL = "list-may-be-null", "the list may be null"
    ELEMENT_MAY_BE_UNDEFINED = "element-may-be-undefined", "an element may be undefined"
    CONDITION_UNDEFINED = "condition-undefined", "an undefined condition"
    CLAUSE_UNDEFINED = "clause-undefined", "a condition of the clause is undefined"
    UNDEFINED_BY_RUN = "undefined-by-run", "the run left it undefined: {because}"

    # Why something is not known.
    NEEDED = "needed", "{cause} {clause}"
    RECORDED = "recorded", "{code} {words}"
    ALL_OF = "all-of", "{causes}"
    IN = "in", "{place}: {cause}"
    ON_SIDE = "on-side", "{entity_type} {side}: {cause}"
    FIELD = "field", "{entity_type}.{field} {side}: {cause}"
    EXCLUDED = "excluded", "{entity_type}.{field} is excluded: {rule}"
    OF_CHANGE = "of-change", "{change}: {cause}"
    SOME_VALUE = "some-value", "a value the clause needs"
    SOME_CONDITION = "some-condition", "a condition of the clause"
    ROW_UNKNOWN = "row-unknown", "its row is not known"
    ELEMENT_DOUBTED = "whether-element-counts", "whether an element counts is not known"
    CHANGES_BY_THEN = (
        "changes-by-then",
        "{side}: what the run had changed by then is not worked out",
    )
    WHETHER_EXPLAINED = "whether-explained", "whether {clause} explains it"
    WHETHER_THAT = "whether-that", "`that` of {clause}"
    WHETHER_THAT_OF_ALL = "whether-that-of-all", "whether it holds of all that match"
    WHETHER_CHANGED = "whether-changed", "whether it is changed"
    WHETHER_TO_CHANGE = "whether-to-change", "whether it has to change"
    WHICH_READING = "which-reading", "which reading is meant: {names}"
    NO_HISTORY = "no-history", "no history: {cause}", FindingCode.HISTORY_UNOBSERVED
    ORDER_OF_SOURCES = (
        "no-history-order-of-sources",
        "no history: the order of the commits of several sources is not known",
        FindingCode.HISTORY_UNOBSERVED,
    )
    ORDER_OF = "no-history-order", "{sources}", FindingCode.HISTORY_UNOBSERVED
    NOBODY_TELLS = (
        "no-history-of-it",
        "no history: nobody tells of it",
        FindingCode.HISTORY_UNOBSERVED,
    )
    STATES_AFTER_CALLS = (
        "no-history-after-calls",
        "no history: it does not tell what each call left",
        FindingCode.HISTORY_UNOBSERVED,
    )
    NOT_ALL_OBSERVED = "not-all-observed", "{first} and {then}: not all of them were observed"
    CLASS_UNKNOWN = "in-call-class", "in {call}, the log does not say its class"
    CLASS_MAY_BE_FORBIDDEN = (
        "in-call-class-forbidden",
        "in {call}, the log does not say the class: it may be a forbidden one",
    )
    ARGUMENTS_UNKNOWN = (
        "in-call-arguments",
        "in {call}, the log does not say its arguments: it may repeat another call",
    )
    CALLS_GAP = "calls-gap", "calls: {cause}"
    TURN_UNKNOWN = "turn-unknown", "turn {number}: {cause}"
    TURNS_UNTOLD = (
        "unrecorded-turns",
        "unrecorded: the log does not tell turns apart",
        FindingCode.TRACE_UNOBSERVED,
    )
    TURNS_FEWER = (
        "unrecorded-some-turns",
        "unrecorded: the log has {number} of {of} turns",
        FindingCode.TRACE_UNOBSERVED,
    )
    TURNS_UNHEARD = (
        "unrecorded-hearing",
        "unrecorded: the agent heard {number} of {of} turns, no more",
        FindingCode.TRACE_UNOBSERVED,
    )
    TURN_OTHER = (
        "unrecorded-message",
        "unrecorded: the user said something else, {message}",
        FindingCode.TRACE_UNOBSERVED,
    )
    READ_UNCITED = (
        "unrecorded-citing",
        "unrecorded: a window was offered, and what was relied upon without citation is not known",
        FindingCode.TRACE_UNOBSERVED,
    )
    MAY_HAVE_SHOWN = (
        "unrecorded-showing",
        "unrecorded: what {call} may have shown",
        FindingCode.TRACE_UNOBSERVED,
    )
    WHICH_ARTIFACTS = (
        "unrecorded-artifacts",
        "unrecorded: which artifacts {call} read",
        FindingCode.TRACE_UNOBSERVED,
    )
    WHETHER_READABLE = "whether-readable", "whether {artifact} may be read"
    WHETHER_APPLIES = "whether-applies", "the condition of the clause"
    CONDITION_OF_IT = "condition-of-it", "a condition over `it`"
    ITS_TIME = "its-time", "its time"
    UNATTRIBUTED = "attribution-unknown", "attribution: no history says who made the change"
    WHICH_CALL = (
        "attribution-which-call",
        "attribution: no history says which call left which effect",
    )
    NOBODY_CHANGED = "attribution-nobody", "attribution: no call says that it changed {place}"
    CHANGED_BY = "attribution-by", "{place} {principals} {because}"
    SOMEBODY = "somebody", "somebody unknown"
    NOT_FOLLOWED = "attribution-not-followed", "attribution: {cause}"
    HISTORY_GAP = "attribution-gap", "attribution: {source}: {cause}"
    NO_TRANSACTION = (
        "attribution-no-transaction",
        "attribution: no transaction of {source} changed it",
    )
    NO_CALL_MADE = "no-call-made", "no recorded call made transaction {number} of {source}"
    CALLS_MISSING = "calls-missing", "the log may lack calls: {cause}"
    INSTANT_UNKNOWN = "instant-unknown", "its instant is not known"
    NO_CALL_AT_WORK = "no-call-at-work", "no call was at work then"
    SEVERAL_NAME_IT = "several-name-it", "several calls name it: {calls}{more}"
    SEVERAL_AT_WORK = "several-at-work", "several calls were at work then: {calls}{more}"
    MUST_REPORT = "must-report", "{source} {side}: {cause}", FindingCode.EVIDENCE_MISSING
    MISSING_REPORT = "missing-report", "{source} {side}", FindingCode.EVIDENCE_MISSING


@dataclass(frozen=True, order=True)
class Explanation:
    """A reason with its arguments, in the order that the reason declares."""

    reason: Reason
    arguments: tuple[Argument, ...]

    def __getitem__(self, name: str) -> Argument:
        return self.arguments[self.reason.arguments.index(name)]

    @property
    def code(self) -> FindingCode | None:
        """The code of a finding that waits for this: its own, or that of what is inside."""
        if self.reason is Reason.RECORDED:
            return CAUSE_CODES.get(str(self["code"]))
        if self.reason.code is not None:
            return self.reason.code
        inside = (part for part in self.arguments if isinstance(part, Explanation))
        return next((part.code for part in inside if part.code is not None), None)

    def document(self) -> Any:
        """The JSON of the explanation; a cause that was recorded is its text."""
        if self.reason is Reason.RECORDED:
            return _said(self)
        arguments = zip(self.reason.arguments, self.arguments, strict=True)
        return {"is": self.reason.value, **{name: _json(part) for name, part in arguments}}


def by_run(cause: str) -> str:
    """The cause, where what the run did is why something is not known."""
    return f"{BY_RUN}: {cause}"


_UNREAD: Final = "unread: "


def unread_because(cause: str) -> str:
    """The cause, where the reading failed and what is there is no reason."""
    return f"{_UNREAD}{cause}"


def is_unread(cause: str) -> bool:
    """True if it is a cause of that kind."""
    return cause.startswith(_UNREAD)


def is_by_agent(of: Argument) -> bool:
    """True if a cause that lies with the agent is in the explanation.

    Others may stand before it: where it is, and what was tried (`shop: caused by the run: …`).
    """
    if isinstance(of, Explanation):
        if of.reason is Reason.RECORDED:
            return not _OF_AGENT.isdisjoint(_said(of).split(": "))
        if of.reason is Reason.ANSWER_UNCLEAR:
            return True
        return any(map(is_by_agent, of.arguments))
    return isinstance(of, tuple) and any(map(is_by_agent, of))


_OF_AGENT: Final = frozenset({BY_AGENT, BY_RUN, PARTED})


def _said(recorded: Explanation) -> str:
    """A recorded cause as it was recorded."""
    code, words = recorded.arguments
    return f"{code}: {words}" if code else str(words)


Cause: TypeAlias = str | Explanation
"""Why something is not known: as recorded, or as the judgement explains it."""


def cause(of: Cause) -> Explanation:
    """The cause as an explanation: of a recorded one, the word that gives its code apart."""
    return of if isinstance(of, Explanation) else _recorded(of)


@lru_cache(maxsize=4_096)  # of many values one thing is often not known
def _recorded(text: str) -> Explanation:
    code, colon, words = text.partition(": ")
    if colon and code in CAUSE_CODES:
        return Reason.RECORDED(code=code, words=words)
    return Reason.RECORDED(code="", words=text)


def causes(of: Iterable[Cause]) -> tuple[Explanation, ...]:
    """Different causes in a fixed order, which does not depend on how they are worded."""
    return tuple(sorted({cause(each) for each in of}, key=_order))


_CAUSES: Final = ("cause", "causes")
"""Arguments that are causes, whatever the reason."""
_PLACED: Final = (
    Reason.RECORDED,
    Reason.IN,
    Reason.ON_SIDE,
    Reason.FIELD,
    Reason.EXCLUDED,
    Reason.OF_CHANGE,
    Reason.ABSENT_ENTITY,
    Reason.CHANGE,
    Reason.UPDATE,
    Reason.ENTITY,
)
"""Reasons whose first arguments say where or what."""


def _order(of: Argument) -> str:
    """A text to sort by: a place before the reason that holds there, any other argument after."""
    if isinstance(of, Explanation) and of.reason is Reason.VALUE:
        encoded = of["value"]
        return str(encoded[-1] if isinstance(encoded, tuple) else encoded)
    if isinstance(of, Explanation):
        parts = list(filter(None, map(_order, of.arguments)))
        is_placed = of.reason in _PLACED
        return " ".join([*parts, of.reason.value] if is_placed else [of.reason.value, *parts])
    return " ".join(map(_order, of)) if isinstance(of, tuple) else str(of)


def frozen(encoded: Any) -> Any:
    """Encoded JSON as an argument: lists become tuples."""
    return tuple(map(frozen, encoded)) if isinstance(encoded, list | tuple) else encoded


def _json(part: Argument) -> Any:
    if isinstance(part, Explanation):
        return part.document()
    return [_json(each) for each in part] if isinstance(part, tuple) else part


NEEDS_CONTENT: Final = "needs the content"
"""How a cause ends where a rule of ν had a digest to work on."""
ANOTHER_KEY: Final = "the key changed from"
"""How the cause begins where the sides tell a type's entities apart by other fields."""


def explanation_from(document: Any) -> Explanation:
    """The explanation that `Explanation.document` turned into this JSON; else `InputError`."""
    if isinstance(document, str):
        return cause(document)
    try:
        arguments = dict(document)
        reason = Reason(arguments.pop("is"))
        if reason is Reason.RECORDED:
            raise ValueError("a recorded cause is its text")
        return reason(**{str(name): _argument(name, part) for name, part in arguments.items()})
    except (KeyError, ValueError, TypeError) as error:
        raise InputError(f"not an explanation: {str(document)[:80]}") from error


def _argument(name: str, part: Any) -> Argument:
    if isinstance(part, dict) or (name in _CAUSES and isinstance(part, str)):
        return explanation_from(part)
    if isinstance(part, list):
        return tuple(_argument(name, each) for each in part)
    if part is None or isinstance(part, float):
        raise TypeError(f"no argument: {part!r}")
    argument: Argument = part
    return argument


_CUT: Final = 61
"""Characters of a text that an explanation keeps; reports show no more of a value."""
_ITEMS: Final = 7


def shown(observed: Observed, cut: int = _CUT) -> Explanation:
    """An observation as an argument, cut to what a report can show of it."""
    if isinstance(observed, bytes):
        return Reason.BYTES(size=len(observed))
    return Reason.VALUE(value=frozen(encode(_bounded(observed, cut))))


def _bounded(observed: Observed, cut: int) -> Observed:
    """The observation cut so that a short rendering of it comes out the same."""
    match observed:
        case str():
            return observed[:cut]
        case Unobserved(cause) if not isinstance(observed, Digested):
            return Unobserved(cause[:cut])
        case tuple():
            return tuple(_bounded(item, cut) for item in observed[:_ITEMS])  # type: ignore[misc]  # a bounded value is one
        case Map(items):
            return Map(tuple((n, _bounded(v, cut)) for n, v in items[:_ITEMS]))  # type: ignore[misc]  # a bounded value is one
        case _:
            return observed


def shown_key(key: Key) -> tuple[Explanation, ...]:
    """A key as an argument."""
    return tuple(shown(part) for part in key)
