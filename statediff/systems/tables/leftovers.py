"""The rest of a sheet beside its cells, by named part, so that an unknown part is a change as well.

A part is what stands right in the sheet's XML: its protection, merged cells, filters, validations,
or what nobody here knows. Each is one digest under its name, but for `PRESENTATION`, which only
says how the sheet looks and which every program writes anew. Rows and columns that are hidden,
links and comments have fields of their own, because people hide work in them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final
from zipfile import ZipFile

from openpyxl.comments.comment_sheet import CommentSheet
from openpyxl.packaging.relationship import get_dependents, get_rels_path
from openpyxl.xml.functions import fromstring, tostring

PRESENTATION: Final = frozenset(
    (
        *("cellWatches", "colBreaks", "conditionalFormatting", "customSheetViews", "dimension"),
        *("drawing", "drawingHF", "headerFooter", "ignoredErrors", "legacyDrawing", "pageMargins"),
        *("legacyDrawingHF", "pageSetup", "phoneticPr", "picture", "printOptions", "rowBreaks"),
        *("sheetCalcPr", "sheetFormatPr", "sheetPr", "sheetViews"),
    )
)
"""Parts that say how a sheet looks or is printed, or name a picture; they are not looked at."""
_READ: Final = re.compile(
    r"\[Content_Types\]\.xml|(xl/)?_rels/.*|xl/(workbook|sharedStrings|calcChain)\.xml"
    r"|xl/(worksheets|threadedComments|persons|tables|comments)/(_rels/)?[^/]*\.(xml|rels)"
    r"|xl/comments[^/]*\.xml|docProps/(core|app)\.xml|docProps/thumbnail\..*"
)
"""Members of the archive that are read as sheets, or that each program writes anew."""
_LOOKS: Final = re.compile(r"xl/(styles\.xml|(theme|drawings|media|charts|printerSettings)/.*)")
"""Members that say how it looks."""
_BOOK: Final = "xl/workbook.xml"
_FILTERED: Final = "_xlnm._FilterDatabase"
_OF_BOOKS: Final = frozenset(
    ("bookViews", "calcPr", "extLst", "fileRecoveryPr", "fileVersion", "sheets", "workbookPr")
)
"""What stands in a workbook's own part and is read as sheets, or says by what it was written."""


def beside(archive: ZipFile) -> tuple[dict[str, str], str]:
    """Place → digest of what a workbook says beside its sheets; and the digest of its looks."""
    found, looks, seen = dict[str, str](), hashlib.sha256(), set[str]()
    for member in sorted(archive.infolist(), key=lambda each: each.filename):
        name, digest = member.filename, hashlib.sha256(archive.read(member)).hexdigest()
        if name in seen:  # programs differ in which of two they read
            found[f"{name} again"] = digest
        elif _LOOKS.fullmatch(name):
            looks.update(f"{name} {digest}\n".encode())
        elif not _READ.fullmatch(name):
            found[name] = digest
        seen.add(name)
    own = archive.read(_BOOK) if _BOOK in archive.namelist() else b"<workbook/>"
    for part in fromstring(own):
        for each in list(part):
            if each.get("name") == _FILTERED:  # of a filter, which its sheet says
                part.remove(each)
        if local(part.tag) not in _OF_BOOKS and (len(part) or part.attrib):
            digest = hashlib.sha256(repr(tostring(part)).encode()).hexdigest()
            found[f"{_BOOK} {local(part.tag)}"] = digest
    return found, looks.hexdigest()


_CELLS: Final = "sheetData"
_TOLD: Final = frozenset({_CELLS, "cols", "hyperlinks"})
_REFERENCE: Final = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_NO: Final = frozenset({"", "0", "false"})


def local(tag: str) -> str:
    """An element's name without its namespace."""
    return tag.rpartition("}")[2]


@dataclass
class Leftovers:
    """The rest of one sheet beside its cells; `see` and `end` get its elements in their order."""

    archive: ZipFile
    path: str
    take: Callable[[int], None]
    hidden_rows: list[int] = field(default_factory=list)
    hidden_columns: list[str] = field(default_factory=list)
    links: dict[str, str] = field(default_factory=dict)
    _parts: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rels = get_rels_path(self.path)  # type: ignore[no-untyped-call]
        is_there = rels in self.archive.namelist()
        found = get_dependents(self.archive, rels) if is_there else ()
        self._related = {each.Id: each for each in found}

    def row(self, element: Any, number: int) -> None:
        """A row; only whether it is hidden."""
        if _is_set(element, "hidden"):
            self.hidden_rows.append(number)

    def see(self, part: str, element: Any) -> None:
        """Note the content of a part, before it is forgotten."""
        if part == "cols" and _is_set(element, "hidden"):
            self.hidden_columns.append(f"{element.get('min')}:{element.get('max')}")
        elif part == "hyperlinks":
            said = dict(self._said(element)[1])
            self.links[str(element.get("ref"))] = json.dumps(said, sort_keys=True)
        elif part not in _TOLD | PRESENTATION:
            self._hashed(part).update(_text(self._said(element)))

    def end(self, element: Any) -> None:
        """A part is over: its own attributes."""
        part = local(element.tag)
        if part not in _TOLD | PRESENTATION:
            self._hashed(part).update(_text(sorted(element.attrib.items())))

    def record(self) -> dict[str, Any]:
        """All of it, for the record of the sheet."""
        return {
            "hidden_rows": self.hidden_rows,
            "hidden_columns": self.hidden_columns,
            "links": self.links,
            "comments": self._comments(),
            "residue": {name: each.hexdigest() for name, each in sorted(self._parts.items())},
        }

    def _hashed(self, part: str) -> Any:
        return self._parts.setdefault(part, hashlib.sha256())

    def _comments(self) -> dict[str, str]:
        """Cell → who says what about it."""
        found: dict[str, str] = {}
        for each in self._related.values():
            kind = local(each.Type.replace("/", "}"))
            if kind == "comments":
                content = self._content(each.target)
                tree: Any = fromstring(content)
                comments: Any = CommentSheet.from_tree(tree)
                found |= {ref: f"{said.author}: {said.text}" for ref, said in comments.comments}
            elif kind.startswith("threadedComment"):
                self._hashed(kind).update(_text(self._said(fromstring(self._content(each.target)))))
        return found

    def _content(self, target: str) -> bytes:
        content = self.archive.read(target)
        self.take(len(content))
        return content

    def _said(self, element: Any) -> tuple[str, list[tuple[str, str]], str, list[Any]]:
        """Name, attributes, text and content.

        A reference is what it leads to: each program that writes the file numbers them anew.
        """
        attributes = []
        for name, value in sorted(element.attrib.items()):
            related = self._related.get(value) if name == _REFERENCE else None
            if related is None:
                attributes.append((local(name), value))
            elif related.TargetMode == "External":
                attributes.append(("target", related.target))
            else:
                content = self._content(related.target)
                attributes.append(("content", hashlib.sha256(content).hexdigest()))
        inside = [self._said(each) for each in element]
        return local(element.tag), attributes, (element.text or "").strip(), inside


def _is_set(element: Any, name: str) -> bool:
    return element.get(name, "") not in _NO


def _text(said: Any) -> bytes:
    return json.dumps(said).encode() + b"\n"
