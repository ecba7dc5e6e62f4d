"""The documentation as a site: a first page, the reference, and links out.

A page links to files of the checkout (`../contracts/…`). On the site such a link is its text, since
the site is not tied to a place where the code is shown; one that leads nowhere is an error.
"""

from __future__ import annotations

import re
import runpy
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from statediff import __version__

_CHECKOUT = Path(__file__).resolve().parents[1]
_BUILD = runpy.run_path(str(_CHECKOUT / "docs" / "build_reference.py"))
_TABLES = runpy.run_path(str(_CHECKOUT / "fixtures" / "build_specification.py"))["written"]
_NAMED = re.compile(r"^```(\w+) file=(\S+)$", re.MULTILINE)
_MARKED = re.compile(r"^```(\w+) [\w-]+$", re.MULTILINE)
_FOLDER = re.compile(r"(?<!!)\[([^\]]*)\]\(([A-Za-z0-9_./-]+)\)")
_SEARCH = 'data-md-component="search" role="dialog"'
_OUTSIDE = re.compile(r"(?<!!)\[([^\]]*)\]\(((?:\.\./)+)([^)#\s]*)(#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Each page names the version that ran its commands, and may link to where it is edited."""
    config.edit_uri = "edit/main/docs/" if config.repo_url else None
    config.copyright = f"statediff {__version__}. The tests executed the commands shown with it."
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The README is the first page, and the reference is made of the code."""
    text = (_CHECKOUT / "README.md").read_text(encoding="utf-8")
    text = re.sub(r"\]\((?:docs/)([^)\s]*)\)", r"](\1)", text)
    text = re.sub(r"\[([^\]]*)\]\((?:CONTRIBUTING\.md|LICENSE|CHANGELOG\.md)\)", r"\1", text)
    files.append(File.generated(config, "index.md", content=text))
    for name, page in _BUILD["PAGES"].items():
        if (found := files.get_file_from_path(name)) is not None:
            files.remove(found)
        files.append(File.generated(config, name, content=page()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links out of the documentation, and to folders, are their text; files have their names."""
    del config, files

    def plain(found: re.Match[str]) -> str:
        here = Path("docs", page.file.src_uri).parent
        target = (_CHECKOUT / here / (found[2] + found[3])).resolve()
        if target.is_relative_to(_CHECKOUT / "docs"):
            return found[0]
        if not target.exists() or not target.is_relative_to(_CHECKOUT):
            raise PluginError(f"{page.file.src_uri}: {found[0]} leads nowhere")
        return found[1]

    def listed(found: re.Match[str]) -> str:
        folder = _CHECKOUT / "docs" / Path(page.file.src_uri).parent / found[2]
        return found[1] if folder.is_dir() else found[0]

    markdown = markdown.replace("<!-- table: labels -->", _BUILD["labels"]())
    inside = _FOLDER.sub(listed, _OUTSIDE.sub(plain, _TABLES(markdown)))
    return _MARKED.sub(r"```\1", _NAMED.sub(r'```\1 title="\2"', inside))


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """The theme's dialog for searching has a name, for whoever hears the page."""
    del page, config
    return output.replace(_SEARCH, f'{_SEARCH} aria-label="Search"', 1)


def on_post_template(output: str, template_name: str, config: MkDocsConfig) -> str:
    """The same on the page for what is not there."""
    del template_name, config
    return output.replace(_SEARCH, f'{_SEARCH} aria-label="Search"', 1)
