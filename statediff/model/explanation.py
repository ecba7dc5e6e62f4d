"""Why a finding is as it is, as data: registered reasons with typed arguments, and no English.

A reason names what was found, and declares the arguments that it takes: text and numbers, encoded
values, further explanations, and tuples of these. Bundles hold explanations; a replay gives the
same ones. `statediff.model.sentences` has one template a reason, and nothing else knows English.

A *cause* says why something is not known. What a source, or the admission of its reading, recorded
is text: it may begin with a word of `CAUSE_CODES` and a colon, and the code of a finding follows
from that word. What the judgement itself adds is an explanation around it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
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
    """Everything an explanation can say, with the names of the arguments that it needs."""

    arguments: tuple[str, ...]
    code: FindingCode | None
    """The code of a finding that waits for this; None where what is inside decides, or nothing."""

    def __new__(cls, value: str, arguments: str = "", code: FindingCode | None = None) -> Self:
        """The member with this text, these arguments in their order, and this code."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.arguments = tuple(arguments.split())
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
    VALUE = "value", "value"
    BYTES = "bytes", "size"
    FRACTION = "fraction", "number"
    LIST = "list", "items"
    ENTITY = "entity", "entity_type key"
    ENTITIES = "entities", "entities more"
    KEYS = "keys", "entity_type"
    UNOBSERVED = "unobserved", "causes"
    AT_LEAST = "at-least", "least"
    AT_MOST = "at-most", "greatest"
    BETWEEN = "between", "least greatest"
    NO_VALUE = "no-value", "reason"
    CHANGE = "change", "operation entity_type key"
    UPDATE = "update", "entity_type key path before after"
    CHANGES = "changes", "first more"
    CALL = "call", "id tool"
    CALLS = "calls", "calls more"
    NAMES = "names", "names more"
    WRITTEN = "written", "text"
    COMPARED = "compared", "left operator right truth"
    FIELD_IS = "field-is", "path left right truth"
    EXISTS = "exists", "what truth"
    TWICE = "twice", "value entities"
    TEST = "test", "left test right truth"
    HOP = "hop", "relation key entity"
    WAY = "way", "goal hops more"
    REACHES = "reaches", "start way truth"
    NONE_OF = "none-of", "number more entity_type nearest"
    BROKEN_BY = "broken-by", "entities because"

    # Where in the run.
    AT = "at", "place what"
    SIDE = "side", "side"
    BEFORE_RUN = "before-run"
    AFTER_RUN = "after-run"
    IN_TRANSACTION = "in-transaction", "number source position"
    AFTER_TRANSACTION = "after-transaction", "number source position"
    AFTER_CALL = "after-call", "call"
    AFTER_LAST_CALL = "after-last-call"
    IN_TURN = "in-turn", "number of message"
    FIRST_FAILING_TURN = "first-failing-turn", "number of message"

    # Clauses that hold.
    AS_ASKED = "as-asked"
    NO_SUCH_CHANGE = "no-such-change"
    ALL_AUTHORIZED = "all-authorized"
    NO_RETRY = "no-retry"
    ALL_EXPLAINED = "all-explained", "number"
    ALL_TRANSACTIONS_EXPLAINED = "all-transactions-explained"
    ENOUGH = "enough"
    AS_REQUIRED = "as-required"
    FIELD_KEPT = "field-kept"
    BRANCHES_HOLD = "branches-hold", "names"
    IN_ALL_STATES = "in-all-states", "number"
    AT_EACH_CALL = "at-each-call", "number"
    AFTER_EACH_CALL = "after-each-call", "number"
    CALLS_MATCH = "calls-match", "number"
    NEITHER_HAPPENED = "neither-happened"
    IN_ORDER = "in-order"
    TURN_HOLDS = "turn-holds", "number"
    TURN_REPAIRED = "turn-repaired", "number repairs"
    NO_FORBIDDEN_CALL = "no-forbidden-call", "number"
    ALL_CALLS_ALLOWED = "all-calls-allowed", "number"
    NOTHING_ADMITTED = "nothing-admitted", "number"
    ALL_CALLS_RIGHT = "all-calls-right", "number"
    ANSWER_HAS_FORM = "answer-has-form"
    ALL_READS = "all-reads", "number"
    DOES_NOT_APPLY = "does-not-apply"
    ALL_FETCHED = "all-fetched", "number"
    ALL_CITED = "all-cited", "number"

    # Clauses that fail: changes.
    HISTORY_BROKEN = "broken-history", "cause"
    READINGS_PARTED = "parted-readings", "place cause"
    NOT_AUTHORIZED = "not-authorized", "changes because"
    REPEATED = "repeated", "entity_type keys times again first tool"
    COMPENSATED = "compensated", "what call tool"
    TOO_MANY = "too-many", "number types most entities"
    TOO_FEW = "too-few", "number types least most nearest"
    NOT_MATCHED = "not-matched", "entity because"
    NOT_CHANGED = "not-changed", "entity more"
    THAT_FAILS = "that-fails", "over"
    THAT_UNDEFINED = "that-undefined", "over"
    WRONG_FIELD = "wrong-field", "entity because"
    NO_BRANCH = "no-branch", "branches"
    NOT_BRANCH = "not-branch", "clause what"
    READINGS_DIFFER = "readings-differ", "right wrong because"

    # Clauses that fail: calls, answers and reads.
    TOO_MANY_CALLS = "calls-too-many", "number most calls"
    TOO_FEW_CALLS = "calls-too-few", "number least"
    NEVER_FIRST = "never-first", "then first"
    CAME_FIRST = "came-first", "number source then"
    CALL_FORBIDDEN = "call-forbidden", "call action_class more"
    CALL_OUTSIDE = "call-outside", "call action_class more"
    NOT_REPAIRED = "not-repaired", "call attempt most"
    NO_ANSWER = "no-answer", "words"
    NO_ENDING = "no-ending"
    NO_MOMENT = "no-moment"
    ANSWER_LACKS = "answer-lacks", "name"
    ANSWER_KIND = "answer-kind", "name kind"
    INVALIDLY_REACHED = "invalidly-reached", "codes"
    SUBSYSTEM_CLOSED = "subsystem-closed", "call subsystem actor outcome more"
    ARTIFACT_CLOSED = "artifact-closed", "call is_search artifact actor outcome more"
    ARTIFACT_LATER = "artifact-later", "call is_search artifact outcome more"
    NEVER_FETCHED = "never-fetched", "missed of artifacts"
    NOTHING_SEARCHED = "nothing-searched", "subsystem"
    ANYTHING_MEANT = "anything-meant", "subsystem"
    SO_MANY_OF = "so-many-of", "number subsystem"
    NOT_CITED = "not-cited", "artifacts number"
    CITED_UNKNOWN = "cited-unknown", "artifact was_offered"
    CITED_CLOSED = "cited-closed", "artifact actor"
    CITED_LATER = "cited-later", "artifact"
    CITED_UNFETCHED = "cited-unfetched", "artifact"

    ANSWER_UNCLEAR = "answer-unclear", "words"

    # Why an expression has no value.
    ABSENT_ENTITY = "absent-entity", "entity_type field"
    NO_END = "no-end", "entity_type"
    NO_PART = "no-part", "field part"
    NO_PARTS = "no-parts", "part"
    NO_NUMBER = "no-number"
    FIELD_NO_NUMBER = "field-no-number", "entity_type key field side value"
    DIVISION_BY_ZERO = "division-by-zero"
    NO_LENGTH = "no-length"
    NO_TEST = "no-test", "function"
    NO_JOIN = "no-join"
    NO_INDEX = "no-index"
    NO_EMPTY_PART = "no-empty-part"
    NO_INSTANT = "no-instant", "function"
    OVER_NOTHING = "over-nothing", "function"
    OF_NOTHING = "of-nothing", "function"
    SUM_OF_OTHERS = "sum-of-others"
    NO_COMMON_ORDER = "no-common-order", "function"
    NO_ORDER_OF_NULL = "no-order-of-null"
    NO_ORDER = "no-order"
    NO_MEMBERSHIP = "no-membership"
    NO_CONDITION = "no-condition"
    NO_LIST = "no-list"
    NOTHING_LISTED = "nothing-listed"
    LIST_MAY_BE_NULL = "list-may-be-null"
    ELEMENT_MAY_BE_UNDEFINED = "element-may-be-undefined"
    CONDITION_UNDEFINED = "condition-undefined"
    CLAUSE_UNDEFINED = "clause-undefined"
    UNDEFINED_BY_RUN = "undefined-by-run", "because"

    # Why something is not known.
    NEEDED = "needed", "cause clause"
    RECORDED = "recorded", "code words"
    ALL_OF = "all-of", "causes"
    IN = "in", "place cause"
    ON_SIDE = "on-side", "entity_type side cause"
    FIELD = "field", "entity_type field side cause"
    EXCLUDED = "excluded", "entity_type field rule"
    OF_CHANGE = "of-change", "change cause"
    SOME_VALUE = "some-value"
    SOME_CONDITION = "some-condition"
    ROW_UNKNOWN = "row-unknown"
    ELEMENT_DOUBTED = "whether-element-counts"
    CHANGES_BY_THEN = "changes-by-then", "side"
    WHETHER_EXPLAINED = "whether-explained", "clause"
    WHETHER_THAT = "whether-that", "clause"
    WHETHER_THAT_OF_ALL = "whether-that-of-all"
    WHETHER_CHANGED = "whether-changed"
    WHETHER_TO_CHANGE = "whether-to-change"
    WHICH_READING = "which-reading", "names"
    NO_HISTORY = "no-history", "cause", FindingCode.HISTORY_UNOBSERVED
    ORDER_OF_SOURCES = "no-history-order-of-sources", "", FindingCode.HISTORY_UNOBSERVED
    ORDER_OF = "no-history-order", "sources", FindingCode.HISTORY_UNOBSERVED
    NOBODY_TELLS = "no-history-of-it", "", FindingCode.HISTORY_UNOBSERVED
    STATES_AFTER_CALLS = "no-history-after-calls", "", FindingCode.HISTORY_UNOBSERVED
    NOT_ALL_OBSERVED = "not-all-observed", "first then"
    CLASS_UNKNOWN = "in-call-class", "call"
    CLASS_MAY_BE_FORBIDDEN = "in-call-class-forbidden", "call"
    ARGUMENTS_UNKNOWN = "in-call-arguments", "call"
    CALLS_GAP = "calls-gap", "cause"
    TURN_UNKNOWN = "turn-unknown", "number cause"
    TURNS_UNTOLD = "unrecorded-turns", "", FindingCode.TRACE_UNOBSERVED
    TURNS_FEWER = "unrecorded-some-turns", "number of", FindingCode.TRACE_UNOBSERVED
    TURNS_UNHEARD = "unrecorded-hearing", "number of", FindingCode.TRACE_UNOBSERVED
    TURN_OTHER = "unrecorded-message", "message", FindingCode.TRACE_UNOBSERVED
    READ_UNCITED = "unrecorded-citing", "", FindingCode.TRACE_UNOBSERVED
    MAY_HAVE_SHOWN = "unrecorded-showing", "call", FindingCode.TRACE_UNOBSERVED
    WHICH_ARTIFACTS = "unrecorded-artifacts", "call", FindingCode.TRACE_UNOBSERVED
    WHETHER_READABLE = "whether-readable", "artifact"
    WHETHER_APPLIES = "whether-applies"
    CONDITION_OF_IT = "condition-of-it"
    ITS_TIME = "its-time"
    UNATTRIBUTED = "attribution-unknown"
    WHICH_CALL = "attribution-which-call"
    NOBODY_CHANGED = "attribution-nobody", "place"
    CHANGED_BY = "attribution-by", "place principals because"
    SOMEBODY = "somebody"
    NOT_FOLLOWED = "attribution-not-followed", "cause"
    HISTORY_GAP = "attribution-gap", "source cause"
    NO_TRANSACTION = "attribution-no-transaction", "source"
    NO_CALL_MADE = "no-call-made", "number source"
    CALLS_MISSING = "calls-missing", "cause"
    INSTANT_UNKNOWN = "instant-unknown"
    NO_CALL_AT_WORK = "no-call-at-work"
    SEVERAL_NAME_IT = "several-name-it", "calls more"
    SEVERAL_AT_WORK = "several-at-work", "calls more"
    MUST_REPORT = "must-report", "source side cause", FindingCode.EVIDENCE_MISSING
    MISSING_REPORT = "missing-report", "source side", FindingCode.EVIDENCE_MISSING


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
