"""A contract explained: what its owner would sign, in the order of judgement, and the boundary.

Explaining decides nothing and words nothing anew: sentences come from the typed clauses
(`english.py`), reasons from the document. Rendering is in `reports/contracts.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from statediff.contract.binding.bound import Contract
from statediff.contract.clauses.answer import Answer
from statediff.contract.clauses.derive import Derived
from statediff.contract.clauses.kind import JudgedAs
from statediff.contract.clauses.patterns import REQUIRE, Pattern
from statediff.contract.document.contract import KINDS
from statediff.contract.language.english import words
from statediff.contract.lint.subject import Subject, bound_parts, branch_of
from statediff.contract.yaml.reader import Document
from statediff.model.boundary import locate
from statediff.model.paths import render
from statediff.model.schema import SCHEMA_OBJECT_PREFIXES
from statediff.model.values import show
from statediff.model.verdict import Stage

_ORDERED: Final = sorted(
    (kind for kind in KINDS if kind.heading), key=lambda kind: list(JudgedAs).index(kind.judged)
)
"""The kinds in the order of judgement."""


class Role(Enum):
    """The part that a type's entities have in a contract, gravest first."""

    FORBIDDEN = "forbidden"
    REQUIRED = "required"
    ALLOWED = "allowed"
    READ = "read"
    STILL = "must not change"
    EXCLUDED = "not judged"


@dataclass(frozen=True)
class Line:
    """One clause: its id, its sentence, and its author's reason if there is one."""

    id: str
    sentence: str
    because: str = ""


@dataclass(frozen=True)
class Section:
    """Clauses of one kind, in the order of the document."""

    heading: str
    lines: tuple[Line, ...]


_SILENT_LINES: Final = 12


@dataclass(frozen=True)
class TypeBox:
    """One entity type in the picture. `excluded` are (field or "", rule with its reason)."""

    name: str
    roles: tuple[Role, ...]
    clauses: tuple[str, ...]
    excluded: tuple[tuple[str, str], ...]

    @property
    def is_inside(self) -> bool:
        """True if it lies inside the boundary Ω."""
        return Role.EXCLUDED not in self.roles

    @property
    def is_silent(self) -> bool:
        """True if it lies inside and no clause speaks of it."""
        return not self.clauses and set(self.roles) <= {Role.STILL}


@dataclass(frozen=True)
class SourceBox:
    """One source: whether it must report, how fresh, and what it delivers."""

    name: str
    duty: str
    types: tuple[TypeBox, ...]
    quiet: int
    """How many further types of it, all inside, no clause speaks of."""

    @property
    def silent(self) -> tuple[str, ...]:
        """The types that no clause speaks of, where they are too many for a line each."""
        found = tuple(box.name for box in self.types if box.is_silent)
        return found if len(found) > _SILENT_LINES else ()

    @property
    def shown(self) -> tuple[TypeBox, ...]:
        """The types with a line of their own."""
        return tuple(box for box in self.types if not (self.silent and box.is_silent))


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """A whole contract in words; everything in it is plain text, nothing is escaped yet."""

    name: str
    version: str
    owner: str
    intent: str
    digest: str
    inputs: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]
    rules: tuple[str, ...]
    sources: tuple[SourceBox, ...]
    frame_is_open: bool


def explain(source: Document, contract: Contract) -> Explanation:
    """The contract in words. Deterministic: the same contract, the same words."""
    subject = Subject(source, contract)
    document = contract.document
    return Explanation(
        name=document.contract,
        version=document.version,
        owner=document.owner,
        intent=" ".join(document.intent.split()),
        digest=contract.digest,
        inputs=tuple(
            (words(name), "nothing" if value is None else str(value))
            for name, value in document.inputs.items()
        ),
        sections=tuple(_sections(subject)),
        rules=tuple(_rules(contract)),
        sources=tuple(_sources(subject)),
        frame_is_open=contract.frame_is_open,
    )


def _sections(subject: Subject) -> Iterator[Section]:
    grouped, branches, whole = _lines(subject)
    known = [kind.name for kind in _ORDERED]
    others = [name for name in grouped if name not in known]
    for kind in _ORDERED:
        heading, lines = kind.heading, tuple(grouped.get(kind.name, ()))
        if kind.judged is JudgedAs.ALLOWED:
            lines = (_frame(subject.contract, has_more=bool(lines)), *lines)
        elif kind.judged is JudgedAs.CLAIM:
            yield from (Section(words(n).capitalize(), tuple(grouped[n])) for n in others)
            lines = (*_answer(subject.contract), *lines)
        if lines:
            yield Section(heading, lines)
        if kind is REQUIRE:
            if whole:
                yield Section("Which outcomes are right", tuple(whole))
            for branch, own in branches.items():
                yield Section(f"In the outcome “{words(branch)}”", tuple(own))


def _lines(subject: Subject) -> tuple[dict[str, list[Line]], dict[str, list[Line]], list[Line]]:
    """The clauses by their lists, those of branches by their branch, and those in no list."""
    grouped: dict[str, list[Line]] = {}
    branches: dict[str, list[Line]] = {}
    whole: list[Line] = []
    kinds = {kind.name: kind for kind in KINDS}
    for clause in bound_parts(subject.contract):
        if not hasattr(clause, "sentence"):
            continue
        name = str(clause.id)
        if subject.path(name) == ():
            whole.append(Line(name, clause.sentence, str(getattr(clause, "because", ""))))
            continue
        section = subject.section(name)
        sentence = kinds[section].describe(clause) if section in kinds else clause.sentence
        line = Line(name, sentence, str(subject.written(name).get("because", "")))
        branch = branch_of(name)
        (branches if branch else grouped).setdefault(branch or section, []).append(line)
    return grouped, branches, whole


def _frame(contract: Contract, *, has_more: bool) -> Line:
    if not contract.frame_is_open:
        text = "Nothing else may change"
        watched = [rule.source for rule in contract.evidence if rule.needs_history]
        if watched:
            text += f", not for a moment in {' and '.join(watched)} either"
        return Line("frame", f"{text}{', except for this' if has_more else ''}.")
    frame = contract.document.frame
    because = frame if isinstance(frame, str) else frame.open
    return Line("frame", "Changes that no clause names are shown and not judged.", because)


def _answer(contract: Contract) -> tuple[Line, ...]:
    asked = contract.document.answer
    if asked.extract is not None:
        return (Line("answer", f"The answer is prose{_extracted(asked)}."),)
    schema = asked.schema_
    if not schema:
        return ()
    listed = ", ".join(f"{words(name)} ({kind})" for name, kind in schema.items())
    return (Line("answer", f"The answer states: {listed}."),)


def _extracted(asked: Answer) -> str:
    """The values that are read from an answer in prose."""
    said = []
    for name, each in asked.extractors.items():
        what = {"number": "the one number", "quoted": "the one quoted text", "name": "one of "}
        text = f"{words(name)} is {what[each.read]}{', '.join(map(show, each.of))}"
        text += f" after {show(each.after)}" if each.after else ""
        said.append(text + (f" before {show(each.before)}" if each.before else ""))
    read = f", read where they are there in one way only: {'; '.join(said)}"
    return read if said else ""


def _rules(contract: Contract) -> Iterator[str]:
    for rule in contract.document.canonicalize:
        places = ", ".join(
            place if isinstance(place, str) else " with ".join(place) for place in rule.on
        )
        settings = "".join(f", {k} {v}" for k, v in sorted(rule.parameters.items()))
        yield f"{places}: compared by {rule.use}{settings}, because {rule.because}."
    for identity in contract.document.identify:
        fields = ", ".join(words(name) for name in identity.match_on)
        yield f"{words(identity.type)}: distinguished by {fields}, because {identity.because}."


def _sources(subject: Subject) -> Iterator[SourceBox]:
    contract = subject.contract
    duties = {rule.source: rule for rule in contract.evidence}
    for source, names in contract.schema.sources:
        boxes = [_type(subject, name) for name in sorted(names)]
        assumed = {name for name in names if contract.schema.by_name[name].is_assumed}
        boxes = [
            box for box in boxes if box.name not in assumed or not box.is_silent or box.excluded
        ]
        if not boxes and source not in duties:
            continue
        shown = [
            box
            for box in boxes
            if box.clauses or box.excluded or not box.name.startswith(SCHEMA_OBJECT_PREFIXES)
        ]
        rule = duties.get(source)
        if duties and rule is None:
            duty = "need not report"
        elif rule is not None and rule.max_age_seconds is not None:
            duty = f"must report, at most {rule.max_age_seconds} s old"
        else:
            duty = "must report"
        yield SourceBox(
            source, duty + _keeping(contract, source), tuple(shown), len(boxes) - len(shown)
        )
    for source in sorted(set(duties) - {name for name, _ in contract.schema.sources}):
        yield SourceBox(source, "must report; not at hand here", (), 0)


def _keeping(contract: Contract, source: str) -> str:
    rule = contract.document.evidence.get(source)
    if rule is None:
        return ""
    kept = "" if rule.retain is None else f", kept for {rule.retain}"
    return kept if rule.disclose == "auditor" else f"{kept}, shown to the {rule.disclose} tier"


def _type(subject: Subject, name: str) -> TypeBox:
    contract = subject.contract
    entity = contract.schema.by_name[name]
    whole = contract.excluded(name, "")
    fields = [(f.name, contract.excluded(name, f.name)) for f in entity.fields]
    fields += [(place, rule) for place, rule in _excluded_inside(contract, name)]
    excluded = (
        [("", whole)]
        if whole is not None
        else [(f, rule) for f, rule in fields if rule is not None]
    )
    told = [(clause.id, _role(clause, name)) for clause in subject.clauses()]
    roles = {role for _, role in told if role is not None}
    if whole is not None:
        roles = {Role.EXCLUDED}
    elif roles & {Role.FORBIDDEN, Role.REQUIRED, Role.ALLOWED}:
        roles.discard(Role.READ)
    elif not contract.frame_is_open:
        roles.add(Role.STILL)
    return TypeBox(
        name,
        tuple(role for role in Role if role in roles),
        tuple(dict.fromkeys(clause for clause, role in told if role is not None)),
        tuple((f, _reason(str(rule))) for f, rule in excluded),
    )


def _role(clause: Any, name: str) -> Role | None:
    """The part that the type has in the clause, if it has any."""
    if isinstance(clause, Pattern) and name in clause.types:
        if clause.section is None:
            return Role.ALLOWED
        return Role.FORBIDDEN if clause.section is Stage.FORBID else Role.REQUIRED
    if isinstance(clause, Derived) and clause.type == name:
        return Role.ALLOWED
    return Role.READ if any(read.type == name for read in clause.reads) else None


def _excluded_inside(contract: Contract, name: str) -> Iterator[tuple[str, str]]:
    for rule in contract.document.exclude:
        entity, field, steps = locate(contract.schema, rule.what, 0)
        if entity.name == name and field is not None and steps:
            yield render(field.name, steps), f"exclude: {rule.what} ({rule.because})"


def _reason(rule: str) -> str:
    """The author's reason out of `exclude: WHAT (reason)` or `ignore@1 (reason)`."""
    found = re.fullmatch(r"(?:(?:exclude|default): .+?|[\w-]+@\d+) \((.*)\)", rule, re.DOTALL)
    return found[1] if found else rule
