"""Every change of a trial with what the contract makes of it, worst first."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from statediff.model.delta import Entity
from statediff.model.values import ABSENT, Observed, same
from statediff.reports.html.cells import Cell, both_cells, cell, name, place, side_cell
from statediff.reports.html.words import Sign
from statediff.reports.plain import side_of
from statediff.reports.record import OPERATIONS

Json = Any
View = dict[str, Any]
"""The content for a template, by name."""
RuleOf = Callable[[str, str], str]
"""(type, field) → the canonicalization rules on it, in words."""

CHUNK: Final = 200
"""Rows that open together."""
LISTED: Final = 20_000
"""Changes that a page lists; it says how many more there are."""
SHORT: Final = 140
NO_NOTES: Final[Mapping[str, str]] = MappingProxyType({})

STANDINGS: Final = (
    Sign("forbidden", "✗", "forbidden", "a clause forbids it"),
    Sign("unexplained", "!", "unexplained", "no clause explains it"),
    Sign("unmet", "≠", "not as required", "it answers a requirement and does not meet it"),
    Sign("unknown", "?", "insufficient evidence", "what it would take to judge it is not known"),
    Sign("required", "✓", "required", "a requirement explains it"),
    Sign("allowed", "○", "allowed", "permitted, not required"),
    Sign("open", "–", "left open", "the contract's frame is open"),
)
"""The standings of a change under the contract, worst first."""

_PLAIN: Final = re.compile(r"[a-z0-9-]{1,200}")
_BY_STYLE: Final = {sign.style: sign for sign in STANDINGS}
_RANK: Final = {sign.style: rank for rank, sign in enumerate(STANDINGS)}
_FOUND: Final = {
    ("FAILS", "forbid"): "forbidden",
    ("FAILS", "frame"): "unexplained",
    ("FAILS", "require"): "unmet",
    ("UNKNOWN", "forbid"): "unknown",
    ("UNKNOWN", "frame"): "unknown",
    ("UNKNOWN", "require"): "unknown",
}


def rank(sign: Sign) -> int:
    """The place of a standing, worst first."""
    return _RANK[sign.style]


class Standings:
    """The standing of each delta under the contract, by id."""

    doubt: Sign = _BY_STYLE["unknown"]
    """The sign at a place of which nothing is known."""

    def __init__(
        self, judgement: Json, sections: Mapping[str, str], frame_is_open: bool = False
    ) -> None:
        self.by = {str(at): tuple(map(str, by)) for at, by in judgement["explained_by"]}
        self._sections = sections
        self._clauses: dict[str, list[str]] = {}
        self._found: dict[str, str] = {}
        self._is_open = frame_is_open
        self.loose: set[str] = set()
        """The changes that no clause explains, or none for certain, whatever else is said."""
        for finding in judgement["findings"]:
            if finding["stage"] == "frame" and finding["truth"] != "HOLDS":
                self.loose.update(finding["deltas"])
            style = _FOUND.get((finding["truth"], finding["stage"]))
            if style is None:
                continue
            for at in finding["deltas"]:
                self._clauses.setdefault(at, []).append(str(finding["clause"]))
                held = self._found.get(at)
                self._found[at] = style if held is None else min(style, held, key=_RANK.__getitem__)

    def of(self, delta: Json) -> Sign:
        """The worst that any clause says of the delta."""
        found = self._found.get(delta["id"])
        if found is not None:
            return _BY_STYLE[found]
        by = self.by.get(delta["id"], ())
        if not by:
            return _BY_STYLE["open" if self._is_open else "unknown"]
        is_required = any(self._sections.get(clause) == "require" for clause in by)
        return _BY_STYLE["required" if is_required else "allowed"]

    def clauses(self, delta: Json) -> tuple[str, ...]:
        """The clauses that decide the standing, each once."""
        told = (*self._clauses.get(delta["id"], ()), *self.by.get(delta["id"], ()))
        return tuple(name(clause) for clause in dict.fromkeys(told))


def change(
    delta: Json, standing: Sign, by: tuple[str, ...], rule_of: RuleOf, note: str = ""
) -> View:
    """A delta as a page shows it; `note` says what it and others are together, of one list."""
    sign, operation = OPERATIONS[delta["op"]]
    sides = {side: side_of(delta[side]) for side in ("before", "after")}
    before, after = _side_cells(sides["before"], sides["after"])
    return {
        "standing": standing,
        "sign": sign,
        "operation": operation,
        "place": place(delta),
        "path": name(delta["path"]),
        "before": before,
        "after": after,
        "by": by,
        "label": delta["label"],
        "action": name(delta["action"] or ""),
        "captured": list(_captured(delta, sides, rule_of)),
        "note": note,
        "anchor": anchor_of(delta["id"]),
    }


def anchor_of(delta: str) -> str:
    """The place of a change on a page, by the id of its delta."""
    return f"change-{_digest(delta)}"


def anchor_of_clause(clause: str) -> str:
    """The place of a clause on a page: its name, or a digest where a contract could not have it."""
    return f"clause-{clause}" if _PLAIN.fullmatch(clause) else f"clause-{_digest(clause)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _side_cells(before: Observed | Entity, after: Observed | Entity) -> tuple[Cell, Cell]:
    if isinstance(before, Entity) or isinstance(after, Entity):
        return side_cell(before, SHORT), side_cell(after, SHORT)
    return both_cells(before, after, SHORT)


def _captured(
    delta: Json, sides: Mapping[str, Observed | Entity], rule_of: RuleOf
) -> Iterator[View]:
    for side, canonical in sides.items():
        if delta[side] == delta[f"raw_{side}"]:
            continue
        raw = side_of(delta[f"raw_{side}"])
        before, after = _row(raw, delta["path"]), _row(canonical, delta["path"])
        for field in after:
            was = before.get(field, ABSENT)
            if not same(was, after[field]):
                told = rule_of(delta["type"], field)
                yield captured(field, side, was, after[field], told)


def captured(field: str, side: str, raw: Observed, canonical: Observed, rule: str) -> View:
    """A value that ν or Ω changed: as captured and as judged, with the rule between them."""
    shown = cell(canonical, SHORT)
    told = shown.note if shown.kind == "excluded" else rule
    return {
        "field": field,
        "side": side,
        "raw": cell(raw, SHORT),
        "canonical": shown,
        "rule": told,
    }


def _row(side: Observed | Entity, path: str) -> dict[str, Observed]:
    return side.as_row() if isinstance(side, Entity) else {path: side}


def groups(
    deltas: Json, standings: Standings, rule_of: RuleOf, notes: Mapping[str, str] = NO_NOTES
) -> list[View]:
    """The changes per entity type, types with the worst first; at most LISTED of them."""
    ranked = sorted(
        ((standings.of(d), at, d) for at, d in enumerate(deltas)), key=lambda e: (rank(e[0]), e[1])
    )
    by_type: dict[str, list[tuple[Sign, Json]]] = {}
    for standing, _, delta in ranked:
        by_type.setdefault(delta["type"], []).append((standing, delta))
    left = LISTED
    found = []
    for type_name, members in by_type.items():
        rows = [
            change(d, standing, standings.clauses(d), rule_of, notes.get(d["id"], ""))
            for standing, d in members[:left]
        ]
        left -= len(rows)
        found.append(
            {
                "type": type_name,
                "counts": counts(standing for standing, _ in members),
                "chunks": list(_chunks(rows)),
                "total": len(members),
                "is_open": len(by_type) <= 12 and len(rows) <= 40 and len(deltas) <= 120,
            }
        )
    return found


def counts(standings: Iterable[Sign]) -> tuple[tuple[Sign, int], ...]:
    """How many of each standing, worst first, none of those there are none of."""
    found: dict[str, int] = {}
    for sign in standings:
        found[sign.style] = found.get(sign.style, 0) + 1
    return tuple((sign, found[sign.style]) for sign in STANDINGS if sign.style in found)


def _chunks(rows: list[View]) -> Iterator[tuple[str, list[View]]]:
    for start in range(0, len(rows), CHUNK):
        part = rows[start : start + CHUNK]
        yield f"{start + 1:,}–{start + len(part):,}", part
