"""The page of a contract in words: what its owner would sign, and what is judged of each source."""

from __future__ import annotations

from typing import Final

from statediff.contract.authoring.explain import Explanation, Role, TypeBox
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


def explain_html(of: Explanation) -> str:
    """One page: the clauses in English, and the boundary as a table for each source.

    No clause mentions the types of a source that are `silent`, nor its `quiet` kinds of schema.
    """
    still = _SHOWN if of.frame_is_open else ROLES[Role.STILL]
    boxes = [box for source in of.sources for box in source.types]
    used = {sign for source in of.sources for box in source.shown for sign in _signs(box)}
    used |= {still} if any(source.quiet or source.silent for source in of.sources) else set()
    view = {
        "of": of,
        "legend": [sign for sign in (*ROLES.values(), _SHOWN) if sign in used],
        "sections": [(f"part-{at}", each) for at, each in enumerate(of.sections, start=1)],
        "sources": [
            (source, [(box, _signs(box)) for box in source.shown]) for source in of.sources
        ],
        "still": still,
        "excluded": [
            (f"{box.name}.{field}" if field else box.name, rule)
            for box in boxes
            for field, rule in box.excluded
        ],
    }
    return render("explain.html", view)


def _signs(box: TypeBox) -> tuple[Sign, ...]:
    return tuple(ROLES[role] for role in box.roles) or (_SHOWN,)
