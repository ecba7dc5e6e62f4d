"""One self-contained page: rendered, escaped, and closed to everything but itself.

Whatever a page says may come from the run. Three walls, each enough by itself:

1. every expression of a template passes `visible` and then HTML escaping, without exception;
2. the Content-Security-Policy allows exactly our style sheet and our script, by digest, and no
   request to anywhere;
3. no attribute that acts (`href`, `style`, `on…`) is ever made from the run.

The same view gives the same bytes: nothing says when it was rendered.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from statediff.model.values import printable

TEMPLATES: Final = Path(__file__).parent / "templates"
MARK: Final = "<!doctype html>\n<!-- statediff report 1 -->\n"
"""How every report begins: a file that begins so may be replaced by a newer report."""
_HIDING: Final = re.compile("[\u200b\u200c\u200d\u2060\ufeff]")


def visible(value: Any) -> Any:
    """The text of an expression, with what hides or reorders text spelled out."""
    if isinstance(value, Markup):
        return value
    text = str(value)
    # A page has tens of thousands of texts; nearly all need nothing.
    return text if text.isprintable() and not _HIDING.search(text) else printable(text)


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined,
        finalize=visible, trim_blocks=True, lstrip_blocks=True, auto_reload=False,
    )  # fmt: skip


@cache
def _asset(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def policy() -> str:
    """The Content-Security-Policy of every page."""
    style, script = _digest(_asset("report.css")), _digest(_asset("report.js"))
    return (
        f"default-src 'none'; style-src '{style}'; script-src '{script}'; "
        "base-uri 'none'; form-action 'none'"
    )


def render(template: str, view: Any) -> str:
    """The page of a view."""
    return _environment().get_template(template).render(
        mark=Markup(MARK),  # noqa: S704 - a constant of ours, as are the next three
        policy=Markup(policy()),  # noqa: S704
        css=Markup(_asset("report.css")),  # noqa: S704
        script=Markup(_asset("report.js")),  # noqa: S704
        view=view,
    )  # fmt: skip
