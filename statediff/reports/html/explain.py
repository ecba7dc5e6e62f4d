"""The page of a contract in words: what its owner would sign, and what is judged of each source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from statediff.contract.authoring.explain import Explanation, Role, Section, SourceBox, TypeBox
from statediff.reports.html.page import render
from statediff.reports.html.words import Sign

ROLES: Final = {
    Role.FORBIDDEN: Sign("forbidden", "✗", "forbidden", "some change of it is forbidden"),
    Role.REQUIRED: Sign("required", "✓", "required", "some change of it is required"),
    Role.ALLOWED: Sign("allowed", "○", "allowed", "some change of it is allowed"),
    Role.READ: Sign("read", "·", "read", "a clause reads it"),
    Role.STILL: Sign("still", "=", "must not change", "no clause allows a change of it"),
    Role.EXCLUDED: Sign("excluded", "–", "not judged", "a rule excludes it"),
}
_SHOWN: Final = Sign("read", "·", "shown, not judged", "the frame is open")


@dataclass(frozen=True)
class Box:
    """One entity type: what the contract says of it, and in which clauses."""

    name: str
    signs: tuple[Sign, ...]
    clauses: tuple[str, ...]


@dataclass(frozen=True)
class Source:
    """One source with its types; no clause mentions the `silent`, nor `quiet` kinds of schema."""

    name: str
    duty: str
    boxes: tuple[Box, ...]
    silent: tuple[str, ...]
    quiet: int


@dataclass(frozen=True, kw_only=True)
class Page:
    """An explanation as its page shows it."""

    of: Explanation
    legend: tuple[Sign, ...]
    sections: tuple[tuple[str, Section], ...]
    """With the place of each on the page."""
    sources: tuple[Source, ...]
    still: Sign
    excluded: tuple[tuple[str, str], ...]


def explain_html(of: Explanation) -> str:
    """One page: the clauses in English, and the boundary as a table for each source."""
    still = _SHOWN if of.frame_is_open else ROLES[Role.STILL]
    boxes = [box for source in of.sources for box in source.types]
    sources = tuple(_source(source) for source in of.sources)
    used = {sign for source in sources for box in source.boxes for sign in box.signs}
    used |= {still} if any(source.quiet or source.silent for source in sources) else set()
    page = Page(
        of=of,
        legend=tuple(sign for sign in (*ROLES.values(), _SHOWN) if sign in used),
        sections=tuple((f"part-{at}", each) for at, each in enumerate(of.sections, start=1)),
        sources=sources,
        still=still,
        excluded=tuple(
            (f"{box.name}.{field}" if field else box.name, rule)
            for box in boxes
            for field, rule in box.excluded
        ),
    )
    return render("explain.html", page)


def _source(source: SourceBox) -> Source:
    return Source(
        source.name, source.duty, tuple(map(_box, source.shown)), source.silent, source.quiet
    )


def _box(box: TypeBox) -> Box:
    return Box(box.name, tuple(ROLES[role] for role in box.roles) or (_SHOWN,), box.clauses)
