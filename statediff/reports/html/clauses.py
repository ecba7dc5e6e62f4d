"""The clauses in the order of judgement, each with what was found and its witness."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from statediff.contract.binding.bound import Contract
from statediff.evidence.documents import fields_from, key_from
from statediff.model.codes import meaning_of
from statediff.model.delta import delta_id
from statediff.model.values import ABSENT, Absent, Observed, Unobserved, same
from statediff.reports.attribution import Makers, listing
from statediff.reports.html import words
from statediff.reports.html.cells import Cell, both_cells, cell, cut, first, name, place, rest
from statediff.reports.html.changes import (
    Captured,
    RuleOf,
    Standings,
    anchor_of,
    anchor_of_clause,
    captured,
)
from statediff.reports.html.words import Sign

Json = Any
Canonical = Callable[[str, dict[str, Observed]], dict[str, Observed]]
"""(type, row as captured) → the row as it was judged."""

MAX_FINDINGS: Final = 25
"""Findings of one clause that are shown; the changes of all of them are in the list of changes."""
MAX_FIELDS: Final = 40
MAX_NAMED: Final = 20


@dataclass(frozen=True)
class Field:
    """One field of a witness, before and after."""

    name: str
    cells: tuple[Cell, ...]
    differs: bool


@dataclass(frozen=True)
class Entity:
    """An entity of a witness: its sides as columns, its fields as rows, changed ones first."""

    name: str
    sides: tuple[str, ...]
    fields: tuple[Field, ...]
    fate: str
    """What became of it as a whole: created, deleted, or nothing to say."""
    more: str
    captured: tuple[Captured, ...]
    anchor: str = ""

    @property
    def is_unchanged(self) -> bool:
        """Whether the clause only looked it up."""
        return not self.fate and not any(field.differs for field in self.fields)


@dataclass(frozen=True)
class Comparison:
    """Both sides of a comparison that decided a clause."""

    text: str
    left: str
    operator: str
    right: str


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What a clause yielded."""

    sign: Sign
    sentence: str
    code: str
    meaning: str
    component: str
    origin: str
    missing: tuple[str, ...]
    comparisons: tuple[Comparison, ...]
    entities: tuple[Entity, ...]
    evidence: str
    deltas: tuple[tuple[str, str], ...]
    """The changes that it is about, each with its place on the page."""
    more_deltas: str
    done_by: str
    """The calls that it is about."""
    anchor: str
    """Its place on the page."""
    above: str
    """The clause whose finding has shown the same entities already; empty where none has."""

    @property
    def place_above(self) -> str:
        """The place of that clause on the page."""
        return anchor_of_clause(self.above)


@dataclass(frozen=True)
class Clause:
    """One clause with its truth; open where it does not hold."""

    id: str
    sentence: str
    sign: Sign
    findings: tuple[Finding, ...]
    more: str
    is_open: bool

    @property
    def anchor(self) -> str:
        """Its place on the page."""
        return anchor_of_clause(self.id)


@dataclass(frozen=True)
class Stage:
    """The clauses of one stage of judgement."""

    name: str
    title: str
    meaning: str
    clauses: tuple[Clause, ...]


@dataclass(frozen=True)
class Allowed:
    """A clause that permits: it explains changes and never fails by itself."""

    id: str
    sentence: str
    explains: int


@dataclass(frozen=True)
class Effect:
    """What the contract declares of one kind of effect [SSD Table I]."""

    on: str
    reversibility: str
    compensation: str
    retry: str


def effects(contract: Contract) -> tuple[Effect, ...]:
    """Every declared effect."""
    retry = {True: "safe to repeat", False: "not safe to repeat", None: "not declared"}
    return tuple(
        Effect(
            name(f"{e.on}"), e.reversibility or "by default", name(e.compensation or "none"),
            retry[e.retry_safe],
        )
        for e in contract.document.effects
    )  # fmt: skip


def stages(judgement: Json, witnesses: Witnesses, makers: Makers) -> tuple[Stage, ...]:
    """The stages that have clauses, in the order of judgement; in each, what fails first."""
    by_clause: dict[str, list[Json]] = {}
    for finding in judgement["findings"]:
        by_clause.setdefault(finding["clause"], []).append(finding)
    found = []
    shown: dict[tuple[str, ...], str] = {}
    for key, title, meaning in words.STAGES:
        own = [c for c in judgement["clauses"] if c["stage"] == key]
        own.sort(key=_urgency)
        if own:
            listed = (
                _clause(c, by_clause.get(c["clause"], []), witnesses, makers, shown) for c in own
            )
            found.append(Stage(key, title, meaning, tuple(listed)))
    return tuple(found)


def _urgency(clause: Json) -> int:
    return ("FAILS", "UNKNOWN", "HOLDS").index(clause["truth"])


def _clause(
    clause: Json,
    findings: list[Json],
    witnesses: Witnesses,
    makers: Makers,
    shown: dict[tuple[str, ...], str],
) -> Clause:
    return Clause(
        name(clause["clause"]), cut(clause["sentence"], 1500), words.truth(clause["truth"]),
        tuple(
            _finding(f, at, witnesses, makers, shown)
            for at, f in enumerate(first(findings, MAX_FINDINGS), start=1)
        ),
        rest(findings, MAX_FINDINGS, "findings of this clause"), clause["truth"] != "HOLDS",
    )  # fmt: skip


def _finding(
    finding: Json,
    number: int,
    witnesses: Witnesses,
    makers: Makers,
    shown: dict[tuple[str, ...], str],
) -> Finding:
    witness = finding["witness"]
    at = tuple(map(str, finding["deltas"]))
    clause = name(finding["clause"])
    above = "" if not at else shown.setdefault(at, clause)
    above = "" if above == clause else above
    place = anchor_of_clause(clause).removeprefix("clause-")
    anchor = f"finding-{place}-{number}"
    return Finding(
        sign=words.truth(finding["truth"]),
        sentence=cut(finding["sentence"]),
        code=name(finding["code"]),
        meaning=meaning_of(finding["code"]),
        component=name(finding["component"]),
        origin=name(finding.get("origin") or ""),
        missing=tuple(cut(cause) for cause in first(finding["missing"], MAX_NAMED)),
        comparisons=tuple(
            Comparison(cut(c["text"]), cut(c["left"]), name(c["operator"]), cut(c["right"]))
            for c in witness["comparisons"]
        ),
        entities=()
        if above
        else tuple(
            replace(entity, anchor=f"{anchor}-{each}")
            for each, entity in enumerate(
                sorted(witnesses.entities(witness["rows"]), key=lambda e: e.is_unchanged), start=1
            )
        ),
        anchor=anchor,
        above=above,
        evidence=_named(finding["evidence"]),
        deltas=tuple((name(at), anchor_of(at)) for at in first(finding["deltas"], MAX_NAMED)),
        more_deltas=rest(finding["deltas"], MAX_NAMED, "changes"),
        done_by=cut(listing(makers.at(finding)), 1500),
    )


def _named(names: Json) -> str:
    told = ", ".join(name(n) for n in first(names, MAX_NAMED))
    return told + (f" and {len(names) - MAX_NAMED:,} more" if len(names) > MAX_NAMED else "")


def allowed(contract: Contract, standings: Standings) -> tuple[Allowed, ...]:
    """What the contract permits, and how many changes each of it explains."""
    explained = [clause for by in standings.by.values() for clause in by]
    return tuple(
        Allowed(name(p.id), cut(p.sentence, 1500), explained.count(p.id)) for p in contract.allow
    )


class Witnesses:
    """The entities of witnesses, with the raw values that the bundle's fragments hold of them."""

    def __init__(self, fragments: Json, rule_of: RuleOf, canonical: Canonical) -> None:
        self._rule_of = rule_of
        self._canonical = canonical
        self._kept = {
            (entry["side"], delta_id(entry["type"], key_from(entry["key"]), "")): entry
            for entry in fragments["rows"]
        }

    def entities(self, rows: Json) -> Iterator[Entity]:
        """Each entity once, its sides beside each other."""
        found: dict[str, tuple[Json, dict[str, dict[str, Observed]]]] = {}
        for row in rows:
            at = delta_id(row["type"], key_from(row["key"]), "")
            _, sides = found.setdefault(at, (row, {}))
            sides[str(row["side"])] = fields_from(row["fields"])
        for at, (row, seen) in found.items():
            sides = self._both(at, row["type"], seen)
            names, fate = _ordered(sides), _fate(sides)
            if fate:  # the other side has nothing to show
                sides = {side: fields for side, fields in sides.items() if not _is_gone(fields)}
            yield Entity(
                place(row), tuple(name(side) for side in sides),
                tuple(_field(field, sides) for field in names[:MAX_FIELDS]), fate,
                rest(names, MAX_FIELDS, "fields"),
                tuple(self._captured(at, row["type"], sides, names[:MAX_FIELDS])),
            )  # fmt: skip

    def _both(
        self, at: str, type_name: str, seen: dict[str, dict[str, Observed]]
    ) -> dict[str, dict[str, Observed]]:
        """What the witness saw, with the same fields of the sides where it did not look at them."""
        names = list(dict.fromkeys(field for fields in seen.values() for field in fields))
        sides = dict(seen)
        for side in ("before", "after"):
            kept = self._kept.get((side, at))
            if kept is None:
                continue
            if kept["fields"] is not None:
                row = self._canonical(type_name, fields_from(kept["fields"]))
                same_fields = {field: row[field] for field in names if field in row}
                sides[side] = same_fields | sides.get(side, {})
            elif side not in sides:
                is_absent = kept["presence"] == "ABSENT"
                gap: Observed = ABSENT if is_absent else Unobserved("the bundle does not hold it")
                sides[side] = dict.fromkeys(names, gap)
        order = ("before", "after")
        return dict(sorted(sides.items(), key=lambda e: order.index(e[0]) if e[0] in order else 2))

    def _captured(
        self, at: str, type_name: str, sides: Mapping[str, dict[str, Observed]], names: list[str]
    ) -> Iterator[Captured]:
        for side, fields in sides.items():
            kept = self._kept.get((side, at))
            if kept is None or kept["fields"] is None:
                continue
            raw = fields_from(kept["fields"])
            for field in names:
                if field in fields and field in raw and not same(raw[field], fields[field]):
                    rule = self._rule_of(type_name, field)
                    yield captured(field, side, raw[field], fields[field], rule)


def _field(field: str, sides: Mapping[str, dict[str, Observed]]) -> Field:
    values = [fields.get(field, ABSENT) for fields in sides.values()]
    is_whole = not any(isinstance(value, Absent) for value in values)
    cells = tuple(cell(value) for value in values)
    if len(values) == 2:
        cells = both_cells(values[0], values[1])
    return Field(name(field), cells, is_whole and _differ(values))


def _fate(sides: Mapping[str, dict[str, Observed]]) -> str:
    there = {side: not _is_gone(fields) for side, fields in sides.items()}
    match there.get("before"), there.get("after"):
        case False, True:
            return "created in the run"
        case True, False:
            return "deleted in the run"
        case _:
            return ""


def _is_gone(fields: Mapping[str, Observed]) -> bool:
    return all(isinstance(value, Absent) for value in fields.values())


def _ordered(sides: Mapping[str, dict[str, Observed]]) -> list[str]:
    """The fields that differ first; those that are null everywhere never."""
    names = list(dict.fromkeys(field for fields in sides.values() for field in fields))
    values = {field: [fields.get(field, ABSENT) for fields in sides.values()] for field in names}
    differ = [field for field in names if _differ(values[field])]
    return differ + [
        field for field in names
        if field not in differ and any(value is not None for value in values[field])
    ]  # fmt: skip


def _differ(values: list[Observed]) -> bool:
    return any(not same(values[0], value) for value in values[1:])
