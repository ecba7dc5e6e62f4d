"""A closed contract for a task of Agent-Diff: its assertions as clauses, and a closed frame.

`added`, `removed` and `changed` become require clauses over creations, deletions and updates, with
the same conditions and counts; an expected count of zero, and `unchanged`, become forbid clauses.
Fields whose changes the suite ignores may change along with a matched row, and nowhere else. What
else the system does beside the agent, the pack has to say; the frame holds for all the rest.

Conditions mean what they mean to the benchmark, but for two things: they are read over net changes,
not over entries of a journal, and text without regard to case is compared letter by letter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from statediff.contract.file import ContractFile, parse_contract
from statediff.errors import UsageError
from statediff.model.schema import EntityType, Field, Kind
from statediff.model.values import printable
from statediff_lab.importers.agentdiff.domain import Domain
from statediff_lab.importers.agentdiff.format import Assertion, Json, RawRow, Test
from statediff_lab.importers.agentdiff.rules import bounds
from statediff_lab.importers.pack import DomainPack, compose_yaml

MAX_INTENT: Final = 4000
MAX_LITERAL: Final = 300
"""Texts longer than that become inputs, so that conditions stay readable."""
ACTING_USER: Final = "acting_user"
TIGHTEN: Final = "tighten"
"""Setting of a task: {number of the assertion: {and: EXPRESSION, count: COUNT, created: true}}.

`created`: the changed row was made in the run, so that its net change is a creation.
"""
IGNORED: Final = "ignored"
"""Setting of a pack: fields that may change beside what is expected, in place of the suite's."""


class NotExpressible(UsageError):
    """An assertion that the contract language has no word for."""


@dataclass
class _Writer:
    """Writes the conditions of one assertion; `inputs` collects the values it names."""

    entity: EntityType
    prefix: str
    inputs: dict[str, Any]
    excluded: frozenset[str] = frozenset()
    """Fields outside the boundary: no clause may name them."""
    ignored: frozenset[str] | None = None
    """The only fields that may be ignored; None: whichever the suite ignores."""

    def condition(self, where: Iterable[tuple[str, RawRow]], subject: str) -> list[str]:
        """The predicates of a `where`, as conditions over `subject`."""
        return [
            text
            for path, predicate in where
            for text in self.predicate(subject, path, predicate)
            if text != "true"
        ]

    def predicate(self, subject: str, path: str, predicate: RawRow) -> list[str]:
        """One condition for each operator of the predicate on the field at `path`."""
        name, *steps = path.split(".")
        spec = self.entity.by_name.get(name)
        if spec is None or not all(
            re.fullmatch(r"[A-Za-z_]\w*", s, re.ASCII) for s in (name, *steps)
        ):
            raise NotExpressible(
                f"no condition can name {printable(self.entity.name)}.{printable(path)}"
            )
        if steps:
            spec = Field(name, Kind.ANY)
        return [
            self._operator(".".join((subject, name, *steps)), spec, operator, expected)
            for operator, expected in predicate.items()
        ]

    def _operator(self, at: str, spec: Field, operator: str, expected: Json) -> str:
        match operator:
            case "eq":
                return self._equals(at, spec, expected)
            case "ne" | "not_eq":
                return f"not ({self._equals(at, spec, expected)})"
            case "exists":
                return f"{at} {'!=' if expected else '=='} null"
            case "in" | "not_in" if isinstance(expected, list):
                found = " or ".join(self._equals(at, spec, item) for item in expected) or "false"
                return f"({found})" if operator == "in" else f"not ({found})"
            case "gt" | "gte" | "lt" | "lte":
                return self._ordering(at, spec, operator, expected)
            case "has_any" | "has_all" if isinstance(expected, list | None):
                return self._holding(at, spec, operator, expected or [])
            case "regex" | "contains" | "not_contains" | "i_contains" | "starts_with" | "ends_with":
                return self._text(at, spec, operator, expected)
            case "i_starts_with" | "i_ends_with":
                return self._text(at, spec, operator, expected)
            case _:
                raise NotExpressible(
                    f"no condition for the operator {printable(str(operator)[:40])}"
                )

    def _equals(self, at: str, spec: Field, expected: Json) -> str:
        if expected is None:
            return f"{at} == null"
        if spec.kind is Kind.BOOL and expected in (0, 1):
            return f"{at} == {str(bool(expected)).lower()}"
        if isinstance(expected, bool) and spec.kind in (Kind.INT, Kind.DECIMAL):
            expected = int(expected)
        return f"{at} == {self._value(expected)}" if _fits(expected, spec.kind) else "false"

    def _ordering(self, at: str, spec: Field, operator: str, expected: Json) -> str:
        sign = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}[operator]
        is_plain = isinstance(expected, int | Decimal | str) and not isinstance(expected, bool)
        if not is_plain or not _fits(expected, spec.kind):
            return "false"
        return f"({at} != null and {at} {sign} {self._value(expected)})"

    def _holding(self, at: str, spec: Field, operator: str, items: Json) -> str:
        if spec.kind is Kind.TEXT:
            parts = [f"contains({at}, {self._value(item)})" for item in items]
        elif spec.kind in (Kind.LIST, Kind.ANY):
            parts = [f"{self._value(item)} in {at}" for item in items]
        else:
            return "false"
        if not parts:
            return f"{at} != null" if operator == "has_all" else "false"
        joint = " or " if operator == "has_any" else " and "
        return f"({at} != null and ({joint.join(parts)}))"

    def _text(self, at: str, spec: Field, operator: str, expected: Json) -> str:
        if not isinstance(expected, str) or spec.kind not in (Kind.TEXT, Kind.ANY):
            return "false"
        anything, literal = "(?s:.*)", _any_case(expected)
        match operator:
            case "contains" | "starts_with" | "ends_with":
                test = f"{operator}({at}, {self._value(expected)})"
            case "not_contains":
                test = f"not contains({at}, {self._value(expected)})"
            case "i_contains":
                test = f"matches({at}, {_quote(anything + literal + anything)})"
            case "i_starts_with":
                test = f"matches({at}, {_quote(literal + anything)})"
            case "i_ends_with":
                test = f"matches({at}, {_quote(anything + literal)})"
            case _:
                test = f"matches({at}, {_quote(f'{anything}(?:{expected}){anything}')})"
        return f"({at} != null and {test})"

    def _value(self, value: Json) -> str:
        """The value as a literal, or as an input where it is long or has parts."""
        if isinstance(value, str) and len(value) <= MAX_LITERAL:
            return _quote(value)
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, int | Decimal):
            return format(Decimal(value), "f")
        name = f"{self.prefix}_{len(self.inputs) + 1}"
        self.inputs[name] = value
        return f"input.{name}"


def _fits(expected: Json, kind: Kind) -> bool:
    """True if a field of the kind can ever equal the value; timestamps are compared as such."""
    match expected:
        case _ if kind is Kind.ANY:
            return True
        case bool():
            return kind is Kind.BOOL
        case int() | Decimal():
            return kind in (Kind.INT, Kind.DECIMAL)
        case str():
            return kind is Kind.TEXT
        case list():
            return kind is Kind.LIST
        case _:
            return kind is Kind.MAP


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _any_case(text: str) -> str:
    """An expression for the text in upper or lower case, letter by letter."""
    return "".join(
        f"(?:{'|'.join(re.escape(form) for form in sorted({c, c.lower(), c.upper()}))})"
        if c.lower() != c.upper()
        else re.escape(c)
        for c in text
    )


# --- clauses -------------------------------------------------------------------------------------


def contract_for(domain: Domain, test: Test, pack: DomainPack) -> ContractFile:
    """The closed contract of a task. `ContractError` or `NotExpressible` where there is none."""
    notes = pack.notes(test.id)
    inputs: dict[str, Any] = {}
    if test.acting_user is not None:
        inputs[ACTING_USER] = test.acting_user
    sections: dict[str, list[Any]] = {"forbid": [], "require": [], "allow": []}
    excluded = _excluded_fields(pack.sections, notes.sections)
    told = pack.settings.get(IGNORED)
    ignored = None if told is None else frozenset(told)
    tighten = notes.settings.get(TIGHTEN, {})
    types = domain.ground(test.seed).types
    for number, assertion in enumerate(test.assertions, start=1):
        entity = types.get(assertion.entity)
        if entity is None:
            raise NotExpressible(f"{test.id}: no table {printable(assertion.entity)}")
        outside = excluded.get(entity.name, frozenset())
        writer = _Writer(entity, f"a{number}", inputs, outside, ignored)
        more = tighten.get(number, {})
        for section, clause in _clauses(writer, assertion, f"assertion-{number}", more):
            sections[section].append(clause)
    head = {
        "contract": _contract_name(domain.name, test.id),
        "version": pack.version,
        "owner": "the suite and its pack",
        "intent": _shorten(" ".join(f"{test.name}: {test.prompt}".split())),
        **({"inputs": inputs} if inputs else {}),
        **({} if any(_must_act(a) for a in test.assertions) else {"noop": True}),
    }
    stated = {name: clauses for name, clauses in sections.items() if clauses}
    data = compose_yaml(head, stated, pack.sections, notes.sections)
    return parse_contract(data, f"the contract of {domain.name} {printable(test.id)}")


def _excluded_fields(*sections: Mapping[str, Any]) -> dict[str, frozenset[str]]:
    """The fields that the sections exclude, by type."""
    places = [str(e["what"]).rpartition(".") for part in sections for e in part.get("exclude", ())]
    return {t: frozenset(f for of, _, f in places if of == t) for t, _, _ in places}


def _must_act(assertion: Assertion) -> bool:
    return bool(bounds(assertion)[0]) and assertion.diff_type != "unchanged"


def _contract_name(domain: str, test: str) -> str:
    parts = (re.sub(r"[^a-z0-9_.-]+", "-", part.lower()) for part in (domain, test))
    return "/".join(("agent-diff", *parts))[:200]


def _shorten(text: str) -> str:
    text = text if len(text) <= MAX_INTENT else text[: MAX_INTENT - 1] + "…"
    return text if len(text) >= len("0123456789") else f"The task {text!r}"


def _clauses(
    writer: _Writer, assertion: Assertion, name: str, more: Mapping[str, Any]
) -> Iterable[tuple[str, dict[str, Any]]]:
    """The clauses that one assertion becomes, with their sections."""
    table = writer.entity.name
    further = [f"({more['and']})"] if "and" in more else []
    match assertion.diff_type:
        case "added" | "removed":
            operation = "create" if assertion.diff_type == "added" else "delete"
            where = [*writer.condition(assertion.where, "it"), *further]
            yield _with_count(assertion, {"id": name, operation: table, **_where(where)}, more)
        case "changed" if more.get("created"):
            became = [(c.field, c.new) for c in assertion.changes if c.new is not None]
            where = [*writer.condition([*assertion.where, *became], "it"), *further]
            yield _with_count(assertion, {"id": name, "create": table, **_where(where)}, more)
        case "changed":
            either = _either(writer, assertion)
            moves = [
                text
                for change in assertion.changes
                for subject, predicate in (("it", change.old), ("new", change.new))
                if predicate is not None
                for text in writer.predicate(subject, change.field, predicate)
            ]
            if len(assertion.changes) > 1:
                moves += [f"it.{c.field} != new.{c.field}" for c in assertion.changes]
            fields = [change.field for change in assertion.changes]
            yield _with_count(
                assertion,
                {
                    "id": name,
                    "update": table,
                    **_where([*either, *moves, *further]),
                    **({"fields": fields} if fields else {}),
                },
                more,
            )
            named = {change.field for change in assertion.changes} | writer.excluded
            ignored = assertion.ignore if writer.ignored is None else writer.ignored
            beside = sorted(ignored & writer.entity.by_name.keys() - named)
            if beside:
                yield (
                    "allow",
                    {"id": f"{name}-beside", "update": table, **_where(either), "fields": beside},
                )
        case _:
            if assertion.count is not None and bounds(assertion) != (0, 0):
                raise NotExpressible(f"{name}: `unchanged` with a count of its own")
            where = writer.condition(assertion.where, "it")
            yield "forbid", {"id": f"{name}-create", "create": table, **_where(where)}
            yield "forbid", {"id": f"{name}-delete", "delete": table, **_where(where)}
            either = _either(writer, assertion)
            yield "forbid", {"id": f"{name}-update", "update": table, **_where(either)}


def _either(writer: _Writer, assertion: Assertion) -> list[str]:
    """The condition that the row before or the row after satisfies `where`."""
    old = " and ".join(writer.condition(assertion.where, "it"))
    new = " and ".join(writer.condition(assertion.where, "new"))
    if all(path in writer.entity.key for path, _ in assertion.where):  # a key does not change
        return [old] if old else []
    return [f"({old} or {new})"] if old else []


def _where(conditions: list[str]) -> dict[str, str]:
    return {"where": " and ".join(conditions)} if conditions else {}


def _with_count(
    assertion: Assertion, clause: dict[str, Any], more: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """The clause in its section, with the count the assertion expects."""
    if "count" in more:
        return "require", {**clause, "count": more["count"]}
    low, high = bounds(assertion)
    if low == high == 0:
        return "forbid", clause
    if low == high:
        return "require", {**clause, "count": low}
    limits = {"min": low or 0} | ({} if high is None else {"max": high})
    return "require", {**clause, "count": limits}
