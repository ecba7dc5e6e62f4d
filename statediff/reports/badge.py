"""A badge of an audit: an SVG, or the JSON that shields.io reads from an endpoint. No network."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from markupsafe import escape

from statediff.meta.audit.measures import DomainAudit

_LABEL: Final = "verifier audit"
_GREEN, _ORANGE, _RED, _GREY = "#2a7d4f", "#b06a00", "#b3261e", "#6b7280"
_COLORS: Final = {_GREEN: "green", _ORANGE: "orange", _RED: "red", _GREY: "lightgrey"}
_LETTER: Final = 6.6
"""Pixels of a letter at 11 px; the text is fitted to what that gives."""


def badge(domains: Sequence[DomainAudit], *, is_svg: bool) -> str:
    """The badge's file."""
    message, color = _message(domains)
    if is_svg:
        return _svg(message, color)
    endpoint = {"schemaVersion": 1, "label": _LABEL, "message": message, "color": _COLORS[color]}
    return f"{json.dumps(endpoint, ensure_ascii=False)}\n"


def _message(domains: Sequence[DomainAudit]) -> tuple[str, str]:
    audited = sum(domain.audited for domain in domains)
    lost = sum(domain.tasks for domain in domains) - audited
    blind, false = (sum(getattr(d, n) for d in domains) for n in ("blind", "false_fails"))
    if not audited:
        return "nothing could be audited", _GREY
    tasks = f"{audited} task{'s' * (audited != 1)}" + (f", {lost} not audited" if lost else "")
    if blind:
        return f"{blind} hole{'s' * (blind != 1)} in {tasks}", _RED
    if false:
        return f"{false} right run{'s' * (false != 1)} not passed in {tasks}", _ORANGE
    return f"no hole found in {tasks}", _ORANGE if lost else _GREEN


def _svg(message: str, color: str) -> str:
    left, right = (round(_LETTER * len(text) + 12) for text in (_LABEL, message))
    whole = left + right
    title = escape(f"{_LABEL}: {message}")

    def text(words: str, start: int, width: int) -> str:
        return f'<text x="{start + 6}" y="14" textLength="{width - 12}">{escape(words)}</text>'

    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole}" height="20" role="img" '
        f'aria-label="{title}"><title>{title}</title>'
        f'<rect width="{whole}" height="20" rx="3" fill="#3b4252"/>'
        f'<path d="M{left} 0h{right - 3}a3 3 0 0 1 3 3v14a3 3 0 0 1-3 3H{left}z" fill="{color}"/>'
        f'<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">'
        f"{text(_LABEL, 0, left)}{text(message, left, right)}</g></svg>\n"
    )
