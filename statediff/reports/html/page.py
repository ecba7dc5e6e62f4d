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
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any, Final

import jinja2
from jinja2 import Environment, FileSystemBytecodeCache, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket
from markupsafe import Markup

from statediff.model.values import printable
from statediff.reports.html.cells import cut, name, rest
from statediff.reports.html.cells import place as entity_of

TEMPLATES: Final = Path(__file__).parent / "templates"
MARK: Final = "<!doctype html>\n<!-- statediff report 1 -->\n"
"""How every report begins: a file that begins so may be replaced by a newer report."""
_HIDING: Final = re.compile("[\u200b\u200c\u200d\u2060\ufeff]")


def place(number: float) -> str:
    """A coordinate, to the hundredth."""
    return f"{number:.2f}".rstrip("0").rstrip(".")


def visible(value: Any) -> Any:
    """The text of an expression, with what hides or reorders text spelled out."""
    if isinstance(value, Markup):
        return value
    text = str(value)
    # A page has tens of thousands of texts; nearly all need nothing.
    return text if text.isprintable() and not _HIDING.search(text) else printable(text)


class _Compiled(FileSystemBytecodeCache):
    """Compiled templates, kept beside the compiled modules of this package, where Python may.

    Compiling takes longer than all else about a small page. Each is known by the digest of its
    source; one that is damaged or of another Python is compiled again.
    """

    def __init__(self) -> None:
        folder = Path(cache_from_source(__file__)).parent
        super().__init__(str(folder), f"%s-{_compiler()}.template")

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep the code, if Python may keep its own."""
        if not sys.dont_write_bytecode:
            with suppress(OSError):
                super().dump_bytecode(bucket)


@cache
def _compiler() -> str:
    """The compiler's digest: Jinja, and the environment made by this module."""
    made = hashlib.sha256(jinja2.__version__.encode())
    made.update(Path(__file__).read_bytes())
    return made.hexdigest()[:16]


@cache
def _environment(folder: Path) -> Environment:
    made = Environment(
        loader=FileSystemLoader((folder, TEMPLATES)),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=visible,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        bytecode_cache=_Compiled(),
    )
    made.filters |= {"place": place, "name": name, "cut": cut, "rest": rest, "entity": entity_of}
    return made


@cache
def _asset(folder: Path, name: str) -> str:
    own = folder / name
    return (own if own.exists() else TEMPLATES / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@dataclass(frozen=True)
class Kind:
    """The files that the pages of a kind are made of."""

    styles: tuple[str, ...] = ("report.css",)
    script: str = "report.js"
    modules: tuple[str, ...] = ()
    """Files that run as one ECMAScript module, in order."""
    forms: str = "'none'"
    """The places where forms may go."""
    folder: Path = TEMPLATES
    """The folder of its templates and files, searched before that of reports."""

    @cached_property
    def css(self) -> str:
        """The one style sheet."""
        return "".join(_asset(self.folder, name) for name in self.styles)

    @cached_property
    def module(self) -> str:
        """The one module; empty where there is none."""
        return "".join(_asset(self.folder, name) for name in self.modules)


REPORT: Final = Kind()


@cache
def policy(kind: Kind = REPORT) -> str:
    """The Content-Security-Policy of every page of a kind."""
    scripts = [_digest(_asset(kind.folder, kind.script))] + (
        [_digest(kind.module)] if kind.modules else []
    )
    allowed = " ".join(f"'{each}'" for each in scripts)
    return (
        f"default-src 'none'; style-src '{_digest(kind.css)}'; script-src {allowed}; "
        f"base-uri 'none'; form-action {kind.forms}"
    )


def render(template: str, view: Any, kind: Kind = REPORT) -> str:
    """The page of a view."""
    page = _environment(kind.folder).get_template(template)
    return page.render(
        mark=Markup(MARK),  # noqa: S704 - ours
        policy=Markup(policy(kind)),  # noqa: S704 - ours
        css=Markup(kind.css),  # noqa: S704 - ours
        script=Markup(_asset(kind.folder, kind.script)),  # noqa: S704 - ours
        module=Markup(kind.module),  # noqa: S704 - ours
        view=view,
    )


def draw(template: str, macro: str, *arguments: Any) -> Markup:
    """The markup that a macro makes of its arguments."""
    made: Markup = getattr(_environment(TEMPLATES).get_template(template).module, macro)(*arguments)
    return made
