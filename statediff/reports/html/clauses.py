"""The clauses in the order of judgement, each with what was found and its witness."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from statediff.contract.binding.bound import Contract
from statediff.evidence.documents import fields_from, key_from
from statediff.model.codes import meaning_of
from statediff.model.delta import delta_id
from statediff.model.values import ABSENT, Absent, Observed, Unobserved, same
from statediff.reports.attribution import Makers, listing
from statediff.reports.html import words
from statediff.reports.html.cells import both_cells, cell, cut, first, name, place, rest
from statediff.reports.html.changes import (
    RuleOf,
    Standings,
    View,
    anchor_of,
    anchor_of_clause,
    captured,
)

Json = Any
Canonical = Callable[[str, dict[str, Observed]], dict[str, Observed]]
"""(type, row as captured) → the row as it was judged."""

MAX_FINDINGS: Final = 25
"""Findings of one clause that are shown; the changes of all of them are in the list of changes."""
MAX_FIELDS: Final = 40
MAX_NAMED: Final = 20


def effects(contract: Contract) -> list[View]:
    """The contract's declarations of each kind of effect [SSD Table I]."""
    retry = {True: "safe to repeat", False: "not safe to repeat", None: "not declared"}
    return [
        {
            "on": e.on,
            "reversibility": e.reversibility or "by default",
            "compensation": e.compensation or "none",
            "retry": retry[e.retry_safe],
        }
        for e in contract.document.effects
    ]


def allowed(contract: Contract, standings: Standings) -> list[tuple[str, str, int]]:
    """The clauses that permit: id, sentence, and how many changes each explains."""
    explained = [clause for by in standings.by.values() for clause in by]
    return [(p.id, p.sentence, explained.count(p.id)) for p in contract.allow]


def stages(judgement: Json, witnesses: Witnesses, makers: Makers) -> list[View]:
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
            clauses = [
                _clause(c, by_clause.get(c["clause"], []), witnesses, makers, shown) for c in own
            ]
            found.append({"name": key, "title": title, "meaning": meaning, "clauses": clauses})
    return found


def _urgency(clause: Json) -> int:
    return ("FAILS", "UNKNOWN", "HOLDS").index(clause["truth"])


def _clause(
    clause: Json,
    findings: list[Json],
    witnesses: Witnesses,
    makers: Makers,
    shown: dict[tuple[str, ...], str],
) -> View:
    return {
        "id": name(clause["clause"]),
        "sentence": cut(clause["sentence"], 1500),
        "sign": words.truth(clause["truth"]),
        "findings": [
            _finding(f, at, witnesses, makers, shown)
            for at, f in enumerate(first(findings, MAX_FINDINGS), start=1)
        ],
        "more": rest(findings, MAX_FINDINGS, "findings of this clause"),
        "is_open": clause["truth"] != "HOLDS",
        "anchor": anchor_of_clause(name(clause["clause"])),
    }


def _finding(
    finding: Json,
    number: int,
    witnesses: Witnesses,
    makers: Makers,
    shown: dict[tuple[str, ...], str],
) -> View:
    """A finding; `above` is the clause whose finding has shown the same entities already."""
    at = tuple(map(str, finding["deltas"]))
    clause = name(finding["clause"])
    above = "" if not at else shown.setdefault(at, clause)
    above = "" if above == clause else above
    anchor = f"finding-{anchor_of_clause(clause).removeprefix('clause-')}-{number}"
    entities = () if above else witnesses.entities(finding["witness"]["rows"])
    return {
        **found_words(finding),
        "sign": words.truth(finding["truth"]),
        "entities": [
            {**entity, "anchor": f"{anchor}-{each}"}
            for each, entity in enumerate(
                sorted(entities, key=lambda e: bool(e["is_unchanged"])), start=1
            )
        ],
        "anchor": anchor,
        "above": above,
        "place_above": anchor_of_clause(above),
        "deltas": [(name(at), anchor_of(at)) for at in first(finding["deltas"], MAX_NAMED)],
        "more_deltas": rest(finding["deltas"], MAX_NAMED, "changes"),
        "done_by": cut(listing(makers.at(finding)), 1500),
    }


def found_words(finding: Json) -> View:
    """The sentence, the code, the comparisons and the evidence of a finding, bounded."""
    return {
        "sentence": cut(finding["sentence"]),
        "code": name(finding["code"]),
        "meaning": meaning_of(finding["code"]),
        "component": name(finding.get("component") or "policy"),
        "origin": name(finding.get("origin") or ""),
        "missing": [cut(cause) for cause in first(finding["missing"], MAX_NAMED)],
        "comparisons": [
            {
                "operator": name(c["operator"]),
                **{side: cut(c[side]) for side in ("text", "left", "right")},
            }
            for c in finding["witness"]["comparisons"]
        ],
        "evidence": listing(map(name, finding["evidence"]), MAX_NAMED),
    }


class Witnesses:
    """The entities of witnesses, with the raw values that the bundle's fragments hold of them."""

    def __init__(self, fragments: Json, rule_of: RuleOf, canonical: Canonical) -> None:
        self._rule_of = rule_of
        self._canonical = canonical
        self._kept = {
            (entry["side"], delta_id(entry["type"], key_from(entry["key"]), "")): entry
            for entry in fragments["rows"]
        }

    def entities(self, rows: Json) -> Iterator[View]:
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
            fields = [_field(field, sides) for field in names[:MAX_FIELDS]]
            yield {
                "name": place(row),
                "sides": [name(side) for side in sides],
                "fields": fields,
                "fate": fate,
                "is_unchanged": not fate and not any(field["differs"] for field in fields),
                "more": rest(names, MAX_FIELDS, "fields"),
                "captured": list(self._captured(at, row["type"], sides, names[:MAX_FIELDS])),
            }

    def _both(
        self, at: str, type_name: str, seen: dict[str, dict[str, Observed]]
    ) -> dict[str, dict[str, Observed]]:
        """The witness's fields, and the same fields of a side that it did not look at."""
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
    ) -> Iterator[View]:
        for side, fields in sides.items():
            kept = self._kept.get((side, at))
            if kept is None or kept["fields"] is None:
                continue
            raw = fields_from(kept["fields"])
            for field in names:
                if field in fields and field in raw and not same(raw[field], fields[field]):
                    rule = self._rule_of(type_name, field)
                    yield captured(field, side, raw[field], fields[field], rule)


def _field(field: str, sides: Mapping[str, dict[str, Observed]]) -> View:
    values = [fields.get(field, ABSENT) for fields in sides.values()]
    is_whole = not any(isinstance(value, Absent) for value in values)
    cells = tuple(cell(value) for value in values)
    if len(values) == 2:
        cells = both_cells(values[0], values[1])
    return {"name": field, "cells": cells, "differs": is_whole and _differ(values)}


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
