"""Every citation in docstrings, comments and pages leads somewhere in the repository.

Cited are the texts of `docs/bibliography.md` by tag and place, sections of the design and of the
facts, decisions by number, RFCs, and files by their paths.
"""

from __future__ import annotations

import ast
import io
import re
import runpy
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]
THIS = Path(__file__)
PROGRAMS = ("statediff", "sandboxes", "hosts", "lab", "gate", "tests", "docs", "contracts")

TAGGED = re.compile(r"(?<!\w)\[([A-Z][A-Za-z]+)((?:[ ;,][^\]]*)?)\](?:,? (§[\w.]*\w))?")
PLACE = re.compile(r"§[\w.]*\w|eqs?\. \d+(?:–\d+)?|Fig\. \d+|Table \w+")
SECTION = re.compile(
    r"(?<![\w.])(?:docs/)?(design|facts)(?:\.md)?(?:\]\([^)]*\))?,?\s+§(\w+)"
    r"((?:(?:,| and)\s+(?:§\w+|[A-Z][a-z]+(?: (?!and\b)[a-z]+)*))*)"
)
SHOUTED_PAGE = re.compile(r"(?<![\w/[-])(?:DESIGN|FACTS)(?![\w-])")
"""Pages are `docs/design.md` and `docs/facts.md`; by other names nobody finds them."""
SHOUTED = re.compile(r"(?<![\w/])([A-Z]{3,}\.md)\b")
DECISION = re.compile(r"\b(?:[Dd]ecisions?|ADR) (\d{1,4})\b")
RFC = re.compile(r"\bRFC ?(\d{3,5})\b")
FILE = re.compile(
    r"(?<![\w/.:<-])("
    r"(?:docs|fixtures|tests|contracts|sandboxes|benchmarks)/[\w./-]*\w/?"
    r"|statediff/[\w./-]*(?:\w\.(?:py|mjs)\b|[a-z]/(?!\w))"  # not `statediff/bundle/1`
    r")"
)
MODULE = re.compile(r"`([a-z_]+/[a-z_/]+\.py)`")
MADE = runpy.run_path(str(CHECKOUT / "docs" / "build_reference.py"))["PAGES"]
"""Pages that the site makes of the code."""
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
HINT = re.compile(r"§|\[(?:SSD|GE|STA|TV)|RFC|ecision|ADR|\.md\b|/|DESIGN|FACTS")


@dataclass(frozen=True)
class Library:
    """Sources that can be cited."""

    places: dict[str, frozenset[str]]
    """By tag: `§III`, `eq. 3`, `Fig. 1`, `Table I`."""
    sections: dict[str, dict[str, frozenset[str]]]
    """By page and section: the names of its parts."""
    rfcs: frozenset[str]
    root: Path


def read_library(root: Path) -> Library:
    docs = root / "docs"
    text = (docs / "bibliography.md").read_text("utf-8")
    places = {
        tag: frozenset(PLACE.findall(*re.findall(r"(?ms)^Places: .*?\n\n", body) or [""]))
        for tag, body in re.findall(r"(?ms)^## \[(\w+)\]\n(.*?)(?=^## |\Z)", text)
    }
    sections = {
        page: {
            number: frozenset(re.findall(r"(?m)^### (.+)$", body))
            for number, body in re.findall(
                r"(?ms)^## (\w+)\. [^\n]+\n(.*?)(?=^## |\Z)",
                (docs / f"{page}.md").read_text("utf-8"),
            )
        }
        for page in ("design", "facts")
    }
    return Library(places, sections, frozenset(RFC.findall(text)), root)


LIBRARY = read_library(CHECKOUT)


def unresolved(text: str, library: Library = LIBRARY) -> list[str]:
    """The citations of a text that lead nowhere, each with what is missing."""
    text = re.sub(r"\s*\n\s*(?:# )?", " ", text)
    return [
        *_unknown_places(text, library),
        *_unknown_sections(text, library),
        *(f"{found[0]}: no page has this name" for found in SHOUTED_PAGE.finditer(text)),
        *(
            f"{found[0]}: no such file"
            for found in SHOUTED.finditer(text)
            if not SHOUTED_PAGE.match(found[0]) and not (library.root / found[1]).is_file()
        ),
        *(
            f"{found[0]}: no such decision"
            for found in DECISION.finditer(text)
            if not _decision(found[1], library)
        ),
        *(
            f"{found[0]}: not in docs/bibliography.md"
            for found in RFC.finditer(text)
            if found[1] not in library.rfcs
        ),
        *_unknown_files(text, library),
    ]


def _unknown_places(text: str, library: Library) -> Iterator[str]:
    for found in TAGGED.finditer(text):
        tag, rest, after = found.groups()
        if tag not in library.places:
            if PLACE.search(rest) and not tag.startswith("RFC"):
                yield f"{found[0]}: no tag {tag} in docs/bibliography.md"
            continue
        for part in f"{tag}{rest}".split(";"):
            named = re.match(r" ?([A-Z]{2,})\b,? ?", part)
            if named is None:  # a remark
                continue
            if named[1] not in library.places:
                yield f"{found[0]}: no tag {named[1]} in docs/bibliography.md"
                continue
            places = [place for place in re.split(r", ?", part[named.end() :]) if place]
            for place in [*places, *([after] if after else [])]:
                for one in _single(place):
                    if one not in library.places[named[1]]:
                        yield f"{found[0]}: no {one} under [{named[1]}]"


def _single(place: str) -> list[str]:
    """`eqs. 5–6` are two equations; whatever is no place is itself."""
    several = re.fullmatch(r"eqs\. (\d+)–(\d+)", place)
    if several:
        return [f"eq. {n}" for n in range(int(several[1]), int(several[2]) + 1)]
    return [place]


def _unknown_sections(text: str, library: Library) -> Iterator[str]:
    for found in SECTION.finditer(text):
        page, section, rest = found.groups()
        known = library.sections[page]
        for part in [f"§{section}", *re.split(r",\s+|\s?and\s+", rest)]:
            if part.startswith("§"):
                section = part[1:]
                if section not in known:
                    yield f"{found[0]}: docs/{page}.md has no {part}"
            elif part and section in known and part not in known[section]:
                yield f"{found[0]}: docs/{page}.md §{section} has no part {part!r}"


def _decision(number: str, library: Library) -> bool:
    return f"\n### {int(number)}. " in (library.root / "docs" / "decisions.md").read_text("utf-8")


def _unknown_files(text: str, library: Library) -> Iterator[str]:
    for found in FILE.finditer(text):
        path = found[1]
        if re.search(r"/[A-Z_]{3,}(?:/|$)|/[A-Z]+\.|/_packs", path):  # `contracts/DOMAIN/TASK`
            continue
        if not (library.root / path).exists() and path.removeprefix("docs/") not in MADE:
            yield f"{path}: no such file"
    for found in MODULE.finditer(text):
        path = found[1]
        tops = [library.root / top for top in (".", "statediff", "tests", "lab", "hosts", "gate")]
        tops += library.root.glob("sandboxes/*")
        if not any((top / path).is_file() for top in tops):
            yield f"{path}: no such module"


def prose_of(path: Path) -> Iterator[tuple[int, str]]:
    """The docstrings and comments of a module, or the text of a page, with their lines."""
    text = path.read_text("utf-8")
    if path.suffix == ".md":
        yield 1, FENCE.sub("", text)
        return
    if path.suffix == ".mjs":
        yield from ((1, found) for found in re.findall(r"/\*.*?\*/|//[^\n]*", text, re.DOTALL))
        return
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(found))):
                yield node.lineno, found
    first, lines = 0, list[str]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            if first + len(lines) != token.start[0]:
                yield first, "\n".join(lines)
                first, lines = token.start[0], []
            lines.append(token.string)
    yield first, "\n".join(lines)


def sources() -> list[Path]:
    modules = [path for top in PROGRAMS for path in (CHECKOUT / top).rglob("*.py")]
    scripts = list((CHECKOUT / "statediff").rglob("*.mjs"))
    pages = [*CHECKOUT.glob("*.md"), *(CHECKOUT / "docs").rglob("*.md")]
    repo = CHECKOUT / "sandboxes" / "git" / "repo"  # says what its own files are called
    found = (*modules, *scripts, *pages)
    return sorted(path for path in found if path != THIS and repo not in path.parents)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_citation_leads_somewhere() -> None:
    lost = [
        f"{path.relative_to(CHECKOUT)}:{line}: {problem}"
        for path in sources()
        if HINT.search(path.read_text("utf-8"))
        for line, text in prose_of(path)
        for problem in unresolved(text)
    ]
    assert lost == []


def test_the_library_holds_what_the_pages_say() -> None:
    assert LIBRARY.places.keys() == {"SSD", "GE", "STA", "TV"}
    assert {"§III", "eq. 6", "Fig. 1", "Table I"} <= LIBRARY.places["SSD"]
    assert LIBRARY.places["STA"] == frozenset()  # cited as a whole
    assert list(LIBRARY.sections["design"]) == [str(n) for n in range(1, 13)]
    assert list(LIBRARY.sections["facts"]) == ["H", "J"]
    assert {"Freshness", "Numbers"} <= LIBRARY.sections["design"]["3"]
    assert "8785" in LIBRARY.rfcs


@pytest.mark.parametrize(
    "text",
    [
        "by the taxonomy of [SSD §V], before",
        "[SSD §III, §VI, §VII]. [SSD §V; TV §3.4] [SSD eqs. 5–6; the text swaps two names]",
        "restricted [SSD §III,\n    Table I], as in [GE] §6.3, [GE Fig. 2], [STA]",
        "(docs/design.md §3, Freshness, Contradiction) and docs/facts.md §J",
        "docs/design.md §3 and §4; design §5; [facts.md](facts.md), §H",
        "see decision 2 and ADR 0015",
        "RFC 8785 in `capture/guard.py`, conftest.py and fixtures/bundles",
        "contracts/DOMAIN/TASK/contract.yaml, https://example.org/docs/none.md, README.md",
        "statediff/bundle/1, statediff/_packs/, statediff/capture/ and statediff/harness.py",
        "a list[T] of dict[Key, Value], Final[GE]",
    ],
)
def test_what_is_there_may_be_cited(text: str) -> None:
    assert unresolved(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "[SSD §XII]",
        "[SSD §III, §VI, Λ]",
        "[SSD eq. 7]",
        "[SSD eqs. 5–7]",
        "[SSD §V; TV §3.10]",
        "[SSD §V; XY §3]",
        "[GE] §6.4",
        "[STA §1]",
        "[GE Fig. 5]",
        "[SSD Table II]",
        "[ABC §2]",
        "[DESIGN §3]",
        "DESIGN.md §3",
        "see FACTS in the docs",
        "docs/design.md §13",
        "docs/design.md §3, Fairness",
        "docs/design.md §3 and §14",
        "docs/facts.md §K",
        "decision 9999",
        "ADR 0999",
        "RFC 1149",
        "docs/nowhere.md",
        "fixtures/nothing/here.json",
        "statediff/nowhere.py",
        "statediff/nowhere/",
        "`capture/nowhere.py`",
        "NOWHERE.md",
    ],
)
def test_what_is_not_there_may_not(text: str) -> None:
    assert len(unresolved(text)) == 1


def test_docstrings_attributes_and_comments_are_read(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        '"""First [SSD §I]."""\nX = "[SSD §XX]"\n"""Second."""\n\n# Third,\n# on two lines\n'
    )
    assert list(prose_of(module)) == [
        (1, "First [SSD §I]."), (3, "Second."), (0, ""), (5, "# Third,\n# on two lines"),
    ]  # fmt: skip
