"""The words of docs, help and messages: plain ones, in sentences short enough to be read once."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.code import PACKAGES

pytestmark = pytest.mark.slow
ROOT: Final = Path(__file__).parent.parent

WORDS: Final = re.compile(r"\b(whoever|mend(?:s|ed|ing)?|told|as often as)\b", re.IGNORECASE)
"""Say: anyone who, the caller; fix; reported, shown, described, distinguished; once for each."""

PAGES: Final = (
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "hosts").glob("*.md")),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
)
SPEECH: Final = {
    "lab/statediff_lab/importers/tau2": "agents and users of these tasks do speak to each other",
}

TAUGHT: Final = ("README.md", "docs/tutorial.md", "docs/first-contract.md", "docs/own-system.md")
LONGEST: Final = 30
"""Words of a sentence in what is read first."""
LONGEST_ELSEWHERE: Final = 40
GREEK: Final = re.compile(r"[\u0391-\u03a1\u03a5-\u03c3\u03c5-\u03c9]")
"""All but tau, which is part of a benchmark's name."""
WHOLE: Final = {
    "specification.md": "a rule says all of its condition at once",
}
MAPPED: Final = {
    "bibliography.md": "maps the papers to the code, by their own letters",
    "design.md": "says which word stands for which letter of the papers",
    "reward.md": "has formulas of reinforcement learning",
}


def _prose(page: Path) -> str:
    """The page without code, front matter, links' targets and tables' rulers."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    return re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "`…`", text))


def _said(module: Path) -> Iterator[tuple[int, str]]:
    """Comments, docstrings and every other text of more than one word, with its line."""
    source = module.read_text("utf-8")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, re.sub(r"`[^`]*`", "`…`", node.value)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_uses_a_word_that_has_to_be_read_twice(page: Path) -> None:
    assert WORDS.findall(_prose(page)) == []


def test_no_module_uses_one_either() -> None:
    found = [
        f"{module.relative_to(ROOT)}:{line}: {' '.join(WORDS.findall(text))}"
        for package in PACKAGES
        for module in sorted(package.rglob("*.py"))
        if not str(module.relative_to(ROOT)).startswith(tuple(SPEECH))
        for line, text in _said(module)
        if WORDS.search(text)
    ]
    assert found == []


def _sentences(page: Path) -> Iterator[str]:
    """The sentences of paragraphs and items; tables and headings have none."""
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*+]|\d+\.) )", _prose(page)):
        if not block.lstrip().startswith(("|", "#", "---", "!!!", "<")):
            yield from re.split(r"(?<=[.!?:;])\s+", " ".join(block.split()))


@pytest.mark.parametrize("name", TAUGHT)
def test_a_sentence_that_teaches_is_short(name: str) -> None:
    long = [text for text in _sentences(ROOT / name) if len(text.split()) > LONGEST]
    assert long == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_sentence_of_any_page_can_be_read_in_one_go(page: Path) -> None:
    long = [text for text in _sentences(page) if len(text.split()) > LONGEST_ELSEWHERE]
    assert page.name in WHOLE or long == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_letter_of_the_papers_is_in_a_page_that_does_not_map_them(page: Path) -> None:
    assert page.name in MAPPED or GREEK.findall(_prose(page)) == []


def test_the_looks_see_what_they_are_for(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("It was told.\n\n```sh\n$ told\n```\n\nThe `told` clause" + " so" * 30 + ".\n")
    assert WORDS.findall(_prose(page)) == ["told"]
    assert [len(text.split()) for text in _sentences(page)][-1] > LONGEST
    module = tmp_path / "module.py"
    module.write_text('"""Whoever asks."""\n\nTOLD = "told"  # mended\n')
    assert [WORDS.findall(text) for _, text in _said(module)] == [["Whoever"], ["mended"]]
