"""Admission: which readings may be used, and the answer as the contract declares it.

An inadmissible reading makes the values of its source unobserved on that side, no matter who else
supplies them (docs/design.md §3, Contradiction and Freshness). Ages come from the trial's clock.

An answer is read strictly. Nothing is guessed: what is there once is its value, what is not there
is absent, and what is there in two ways, or in a form with two readings, is not observed.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Final

from statediff.contract.binding.bound import EvidenceRule
from statediff.contract.clauses.answer import TEXT, Answer, Extractor
from statediff.contract.evaluation.texts import joins
from statediff.kernel.policy.findings import Telling
from statediff.model.codes import FindingCode
from statediff.model.explanation import Reason
from statediff.model.readings import TRIAL_CLOCK, Reading, Timeline
from statediff.model.trace import NoAnswer
from statediff.model.values import Map, Observed, Unobserved, Value
from statediff.model.verdict import Finding, Stage

_NO_RULE = EvidenceRule("", None, (), False, False)


@dataclass(frozen=True)
class Refusal:
    """A source whose reading may not be used: `cause` begins with a stable word and a colon."""

    source: str
    side: str
    cause: str


def admit(
    before: Iterable[Reading],
    after: Iterable[Reading],
    timeline: Timeline | None,
    rules: Iterable[EvidenceRule],
    sources: Iterable[str] = (),
) -> tuple[Refusal, ...]:
    """Every reading that is not admissible, sorted. No timeline: judged offline, no ages known.

    Where no rule names a source, every source of the sandbox must report: `sources`, and whatever
    was read on either side.
    """
    by_source = {rule.source: rule for rule in rules}
    first = {reading.source: reading for reading in before}
    last = {reading.source: reading for reading in after}
    expected = by_source.keys() or {*first, *last, *sources}
    refusals: list[Refusal] = []
    for side, present in (("before", first), ("after", last)):
        for source in sorted(expected - present.keys()):
            missing = "missing: it must report, but nothing was read from it"
            refusals.append(Refusal(source, side, missing))
        for source, reading in sorted(present.items()):
            rule = by_source.get(source, _NO_RULE)
            cause = _refuse(reading, rule, side, timeline)
            if cause is not None:
                refusals.append(Refusal(source, side, cause))
    return tuple(refusals)


def _refuse(
    reading: Reading, rule: EvidenceRule, side: str, timeline: Timeline | None
) -> str | None:
    if not reading.was_read:
        return f"unread: {reading.source} not read: {reading.cause or 'no reason was given'}"
    if reading.is_agent_influenced:
        return "forgeable: the agent could have made this reading itself"
    if reading.acknowledgement and not rule.acknowledgement_suffices:
        return "acknowledgement: a system's word about an effect is not a look at its state"
    if timeline is None:
        if rule.max_age_seconds is not None:
            return "stale: its age is unknown, no timeline of the trial was given"
        return None
    if reading.clock != TRIAL_CLOCK:
        return f"stale: its age is unknown, it was read by another clock ({reading.clock})"
    disorder = _disorder(timeline)
    if disorder is not None:
        return disorder
    return (_before if side == "before" else _after)(reading, rule, timeline)


def _disorder(timeline: Timeline) -> str | None:
    steps = (
        timeline.reset_verified_at,
        timeline.agent_started_at,
        timeline.first_action_at,
        timeline.agent_finished_at,
        timeline.settled_at,
    )
    known = [step for step in steps if step is not None]
    if any(earlier > later for earlier, later in itertools.pairwise(known)):
        return "stale: the trial's clock went backwards"
    return None


def _before(reading: Reading, rule: EvidenceRule, timeline: Timeline) -> str | None:
    end = timeline.first_action_at or timeline.agent_started_at
    if timeline.reset_verified_at is None or end is None:
        return "stale: the time of the reset or of the agent's start was not recorded"
    if reading.as_of < timeline.reset_verified_at:
        return "stale: read before the reset was verified"
    if reading.as_of > end:
        return "stale: read after the agent began to act"
    return _too_old(reading.as_of, timeline.agent_started_at or end, rule)


def _after(reading: Reading, rule: EvidenceRule, timeline: Timeline) -> str | None:
    for source, cause in timeline.unsettled:
        if source == reading.source:
            return f"unsettled: {cause}"
    if timeline.settled_at is None:
        return "unsettled: the end of settling was not recorded"
    if reading.as_of < timeline.settled_at:
        return "stale: read before the systems had settled"
    return _too_old(timeline.settled_at, reading.as_of, rule)


def _too_old(start: datetime, end: datetime, rule: EvidenceRule) -> str | None:
    if rule.max_age_seconds is None:
        return None
    age = Fraction((end - start) // timedelta(microseconds=1), 1_000_000)
    if age > Fraction(rule.max_age_seconds):
        return f"stale: {float(age):.3f} s old, at most {rule.max_age_seconds} s are allowed"
    return None


_SPACES: Final = "\u00a0\u2009\u202f"
"""Spaces at which no line breaks, as they stand between groups of digits and before a unit."""
_RUN: Final = re.compile(rf"[0-9](?:[0-9.,:/'\u2019\u2013-]|[{_SPACES}](?=[0-9]))*[0-9]|[0-9]")
"""Digits with what may stand between them; whether that is a number is asked afterwards."""
_GROUPED: Final = "|".join(f"[0-9]{{1,3}}(?:{space}[0-9]{{3}})+" for space in _SPACES)
_NUMBERS: Final = {
    False: re.compile(rf"(?:[0-9]+|[0-9]{{1,3}}(?:,[0-9]{{3}})+|{_GROUPED})(?:\.[0-9]+)?"),
    True: re.compile(rf"(?:[0-9]+|[0-9]{{1,3}}(?:\.[0-9]{{3}})+|{_GROUPED})(?:,[0-9]+)?"),
}
_DATES: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?")
_QUOTED: Final = re.compile(
    r'"([^"\n]*)"|\u201c([^\u201d\n]*)\u201d|\u201e([^\u201c\u201d\n]*)[\u201c\u201d]'
    r"|\u00ab([^\u00bb\n]*)\u00bb|`([^`\n]*)`"
)
_MARKS: Final = '"\u201c\u201d\u201e\u00ab\u00bb`'
_BETWEEN: Final = f" \t\r\n{_SPACES}*_:=$\u20ac\u00a3\u00a5(~"
"""Characters that may stand between a value and the words before and after it."""
_WINDOW: Final = 400
MAX_DIGITS: Final = 100


@dataclass(frozen=True)
class _Found:
    """A value and where it is; None for what has two readings."""

    value: Value
    start: int
    end: int


def read_answer(form: Answer, answer: Value | NoAnswer) -> Mapping[str, Observed] | NoAnswer:
    """The answer as clauses read it: names to values, or why there is none."""
    if isinstance(answer, NoAnswer):
        return answer
    if form.extract is None:
        if isinstance(answer, Map):
            return dict(answer.items)
        return NoAnswer("the answer is not an object with names")
    if not isinstance(answer, str):
        return NoAnswer("the answer is not a text")
    read: dict[str, Observed] = {TEXT: answer}
    for name, extractor in form.extractors.items():
        value = _extracted(name, extractor, answer)
        if value is not None:
            read[name] = value
    return read


def _extracted(name: str, extractor: Extractor, text: str) -> Observed:
    candidates = _READERS[extractor.read](extractor, text)
    found = [each for each in candidates if _is_there(each, extractor, text)]
    values = list(dict.fromkeys(each.value for each in found))
    if not values:
        return None
    if None in values:
        return Unobserved(f"the answer has a {extractor.read} for `{name}` that reads in two ways")
    if len(values) > 1:
        return Unobserved(f"the answer has {len(values)} different {extractor.read}s for `{name}`")
    return values[0]


def _is_there(found: _Found, extractor: Extractor, text: str) -> bool:
    """True if the declared words stand directly before and after it."""
    if extractor.after:
        before = text[max(0, found.start - _WINDOW) : found.start].rstrip(_BETWEEN + _MARKS + "-+")
        words = extractor.after.rstrip(_BETWEEN)
        at = len(before) - len(words)
        if at < 0 or before[at:].casefold() != words.casefold() or joins(before, at):
            return False
    if extractor.before:
        after = text[found.end : found.end + _WINDOW].lstrip(_BETWEEN + _MARKS)
        words = extractor.before.lstrip(_BETWEEN)
        end = len(words)
        return after[:end].casefold() == words.casefold() and not joins(after, end)
    return True


def _numbers(extractor: Extractor, text: str) -> Iterator[_Found]:
    if any(c.isdecimal() and not c.isascii() for c in text):
        yield _Found(None, 0, len(text))  # digits of another script
        return
    for run in _RUN.finditer(text):
        start, end = run.span()
        if start and (text[start - 1].isalpha() or text[start - 1] == "_"):
            continue  # of a name: A12
        glued = text[end : end + 1]
        if (glued.isalpha() or glued == "_") and not extractor.before:
            continue  # of a word: 12th
        if _DATES.fullmatch(run[0]):
            continue
        fits = _NUMBERS[extractor.is_comma].fullmatch(run[0]) and len(run[0]) <= MAX_DIGITS
        before = text[max(0, start - 1) : start]
        if not fits or before in (".", ",") or any(map(_is_hidden, before + glued)):
            yield _Found(None, start, end)
            continue
        group, point = (".", ",") if extractor.is_comma else (",", ".")
        digits = "".join(each for each in run[0] if each not in _SPACES and each != group)
        number = Decimal(digits.replace(point, "."))
        signed = _SIGN.search(text, max(0, start - 2), start)
        yield _Found(-number if signed else number, start, end)


def _is_hidden(character: str) -> bool:
    """True if the character shows nothing, so that digits on both sides of it look like one."""
    return unicodedata.category(character) == "Cf"


_SIGN: Final = re.compile(r"(?<![0-9A-Za-z)])[-\u2212]\s?$")


def _quoted(_extractor: Extractor, text: str) -> Iterator[_Found]:
    last = 0
    for found in _QUOTED.finditer(text):
        if any(mark in text[last : found.start()] for mark in _MARKS):
            break
        inner = next(group for group in found.groups() if group is not None)
        yield _Found(inner, found.start(), found.end())
        last = found.end()
    rest = text[last:]
    odd = next((at for at, character in enumerate(rest) if character in _MARKS), None)
    if odd is not None:  # a mark without its partner: nobody knows what is between quotes
        yield _Found(None, last + odd, last + odd + 1)


def _names(extractor: Extractor, text: str) -> Iterator[_Found]:
    # The longest first: where "Ada Lovelace" is named, "Ada" is not.
    longest = sorted(extractor.of, key=len, reverse=True)
    any_name = "|".join(map(re.escape, longest))
    for found in re.finditer(rf"(?<!\w)(?:{any_name})(?!\w)", text):
        yield _Found(found[0], found.start(), found.end())


_READERS: Final[Mapping[str, Callable[[Extractor, str], Iterable[_Found]]]] = {
    "number": _numbers,
    "quoted": _quoted,
    "name": _names,
}


# ---------------------------------------------------------------- its form

_KINDS: Final[Mapping[str, type | tuple[type, ...]]] = {
    "int": int,
    "decimal": (int, Decimal),
    "text": str,
    "bool": bool,
    "list": tuple,
    "map": Map,
    "any": object,
}


def answer_shape(
    schema: Mapping[str, str], answer: Mapping[str, Observed] | NoAnswer, tell: Telling
) -> Finding:
    """The answer has the names and types that the contract asks for."""
    if isinstance(answer, NoAnswer):
        if answer.is_unread:
            return tell.unknown("answer", Stage.ANSWER, [answer.cause])
        none = Reason.NO_ANSWER(words=answer.cause)
        return tell.fails("answer", FindingCode.ANSWER_MISSING, Stage.ANSWER, none)
    for name, kind in schema.items():
        if name not in answer:
            lacks = Reason.ANSWER_LACKS(name=name)
            return tell.fails("answer", FindingCode.ANSWER_INVALID, Stage.ANSWER, lacks)
        value = answer[name]
        if isinstance(value, Unobserved):
            return tell.unknown("answer", Stage.ANSWER, [Reason.ANSWER_UNCLEAR(words=value.cause)])
        if not _is_kind(value, kind):
            other = Reason.ANSWER_KIND(name=name, kind=kind)
            return tell.fails("answer", FindingCode.ANSWER_INVALID, Stage.ANSWER, other)
    return tell.holds("answer", Stage.ANSWER, Reason.ANSWER_HAS_FORM)


def _is_kind(value: Observed, kind: str) -> bool:
    if isinstance(value, bool):
        return kind in ("bool", "any")
    if kind == "int" and isinstance(value, Decimal):
        return value.is_finite() and value == value.to_integral_value()
    return isinstance(value, _KINDS[kind])
