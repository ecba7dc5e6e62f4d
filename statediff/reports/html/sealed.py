"""A sealed copy in a page: the bytes to be verified, and what a copy that withholds parts shows.

A page shows a sealed copy only after it was verified. It carries the copy's three files and the
second verifier, so that its reader can verify it again, with a trust file of their own.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup

from statediff.evidence import verify as v
from statediff.evidence.documents import fields_from, key_from
from statediff.evidence.seal import Sealed
from statediff.model.codes import meaning_of
from statediff.reports.copies import change_lines, files_of_copy
from statediff.reports.html import words
from statediff.reports.html.cells import cell, cut, entity, first, name
from statediff.reports.html.changes import View
from statediff.reports.html.clauses import found_words
from statediff.reports.html.page import Kind
from statediff.reports.html.words import Sign
from statediff.reports.record import reading
from statediff.reports.wording.worded import clause_sentence, worded_finding

Json = Any
VERIFIER: Final = Path(v.__file__).with_name("verify.mjs")
"""The second verifier, as it is shipped."""
SEALED: Final = Kind(("report.css", "seal.css"), "report.js", (str(VERIFIER), "check.mjs"))
MAX_ROWS: Final = 20


def seal_of(sealed: Sealed, verified: v.Verified) -> View:
    """The copy, for a page; `verified` is what `verify` found in it."""
    envelope = v.parse(sealed.files["envelope.json"], "envelope.json")
    return {
        "signers": [str(entry["keyid"]) for entry in envelope["signatures"]],
        "sealed_at": str(verified.manifest["sealed_at"]),
        "leaves": int(verified.manifest["tree"]["leaves"]),
        "disclosed": len(verified.leaves),
        "files": [
            (name, Markup(base64.b64encode(data).decode("ascii")))  # noqa: S704 - an alphabet of 65
            for name, data in sorted(sealed.files.items())
        ],
    }


def copy_view(sealed: Sealed, verified: v.Verified, where: str) -> View:
    """Everything that the page of a copy shows, from its disclosed leaves alone; `BundleError`."""
    with reading(where):
        manifest = verified.manifest
        at = {leaf.path: leaf.value for leaf in verified.leaves}
        summary = at[v.SUMMARY]
        return {
            "title": f"{name(manifest['contract'])} {name(manifest['contract_version'])}",
            "verdict": words.verdict(manifest["verdict"]),
            "results": [
                (title, words.result(summary["results"][key]), meaning)
                for key, title, meaning in words.RESULTS
            ],
            "stages": list(_stages(summary["clauses"])),
            "codes": [
                (name(code), meaning_of(code)) for code in summary["codes"] if code != "holds"
            ],
            "counterexample": _counterexample(at, _first_found(at)),
            "changes": list(map(cut, change_lines(at.get(v.REVIEW)))),
            "withheld": list(_withheld(verified.withheld)),
            "facts": [
                ("Trial", name(manifest["trial"])),
                ("Sealed", str(manifest["sealed_at"])),
                ("Judged by statediff", name(manifest["statediff"])),
                ("Kernel", name(manifest["kernel"])),
                ("Root of the tree", str(manifest["tree"]["root"])),
            ],
            "seal": seal_of(sealed, verified),
        }


def _withheld(tags: Mapping[str, int]) -> Iterator[tuple[str, list[tuple[str, int]]]]:
    """Each tier, with the kinds and the number of leaves that it alone may see."""
    for tier in v.TIERS:
        own = [(tag.partition("/")[2], n) for tag, n in tags.items() if tag.startswith(f"{tier}/")]
        if own:
            yield tier, own


def _stages(clauses: Sequence[Json]) -> Iterator[tuple[str, str, list[tuple[Sign, str]]]]:
    """Each stage that has clauses: its title, its meaning, and its clauses by truth and id."""
    for key, title, meaning in words.STAGES:
        own = [(words.truth(c["truth"]), name(c["clause"])) for c in clauses if c["stage"] == key]
        if own:
            yield title, meaning, own


def _first_found(at: Mapping[str, Json]) -> Json | None:
    """The counterexample, or the first finding of a review, of which no evidence is named."""
    if v.COUNTEREXAMPLE in at:
        return at[v.COUNTEREXAMPLE]
    found = at.get(v.REVIEW, {"findings": []})["findings"]
    return {**found[0], "evidence": []} if found else None


def _counterexample(at: Mapping[str, Json], recorded: Json | None) -> View | None:
    """The finding in words; what its clause asks is known where the contract is disclosed too."""
    if recorded is None:
        return None
    asked = clause_sentence(files_of_copy(at), str(recorded["clause"]))
    found = worded_finding(recorded, asked)
    return {
        **found_words(found),
        "clause": name(found["clause"]),
        "asked": cut(asked),
        "rows": [
            (
                name(row["side"]),
                entity(row["type"], key_from(row["key"])),
                [(name(f), cell(x)) for f, x in fields_from(row["fields"]).items()],
            )
            for row in first(found["witness"]["rows"], MAX_ROWS)
        ],
    }
