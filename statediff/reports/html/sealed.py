"""A sealed copy in a page: the bytes to be verified, and what a copy that withholds parts shows.

A page shows a sealed copy only after it was verified. It carries the copy's three files and the
second verifier, so that its reader can verify it again, with a trust file of their own.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup

from statediff.evidence import verify as v
from statediff.evidence.documents import fields_from, key_from
from statediff.evidence.seal import Sealed
from statediff.model.codes import meaning_of
from statediff.reports.copies import change_lines, files_of_copy
from statediff.reports.html import words
from statediff.reports.html.cells import Cell, cell, cut, entity, first, name
from statediff.reports.html.clauses import Comparison
from statediff.reports.html.page import Kind
from statediff.reports.html.words import Sign
from statediff.reports.record import reading
from statediff.reports.wording.worded import clause_sentence, worded_finding

Json = Any
VERIFIER: Final = Path(v.__file__).with_name("verify.mjs")
"""The second verifier, as it is shipped."""
SEALED: Final = Kind(("report.css", "seal.css"), "report.js", (str(VERIFIER), "check.mjs"))
MAX_ROWS: Final = 20


@dataclass(frozen=True)
class Seal:
    """What a page says of the copy in it, and the copy."""

    keys: tuple[str, ...]
    """The ids of the keys that signed: SHA-256 of the public halves, in hex."""
    sealed_at: str
    leaves: int
    disclosed: int
    files: tuple[tuple[str, Markup], ...]
    """Name → base64, which needs no escaping."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the files."""
        return tuple(name for name, _ in self.files)


@dataclass(frozen=True)
class Stage:
    """The clauses of one stage, by truth and id."""

    title: str
    meaning: str
    clauses: tuple[tuple[Sign, str], ...]


@dataclass(frozen=True, kw_only=True)
class Counterexample:
    """The finding that shows why the run was not right."""

    clause: str
    code: str
    meaning: str
    sentence: str
    asked: str
    missing: tuple[str, ...]
    comparisons: tuple[Comparison, ...]
    rows: tuple[tuple[str, str, tuple[tuple[str, Cell], ...]], ...]
    evidence: str


@dataclass(frozen=True, kw_only=True)
class Copy:
    """A copy that withholds something, as its page shows it."""

    title: str
    verdict: Sign
    results: tuple[tuple[str, Sign, str], ...]
    stages: tuple[Stage, ...]
    codes: tuple[tuple[str, str], ...]
    counterexample: Counterexample | None
    changes: tuple[str, ...]
    """The changes that a review shows, in lines."""
    withheld: tuple[tuple[str, tuple[tuple[str, int], ...]], ...]
    """Tier → (kind, number of leaves)."""
    facts: tuple[tuple[str, str], ...]
    seal: Seal


def seal_of(sealed: Sealed, verified: v.Verified) -> Seal:
    """The copy, for a page; `verified` is what `verify` found in it."""
    envelope = v.parse(sealed.files["envelope.json"], "envelope.json")
    return Seal(
        tuple(str(entry["keyid"]) for entry in envelope["signatures"]),
        str(verified.manifest["sealed_at"]), int(verified.manifest["tree"]["leaves"]),
        len(verified.leaves),
        tuple(
            (name, Markup(base64.b64encode(data).decode("ascii")))  # noqa: S704 - an alphabet of 65
            for name, data in sorted(sealed.files.items())
        ),
    )  # fmt: skip


def copy_view(sealed: Sealed, verified: v.Verified, where: str) -> Copy:
    """What the page of a copy shows, from its disclosed leaves alone; `BundleError`."""
    with reading(where):
        manifest = verified.manifest
        at = {leaf.path: leaf.value for leaf in verified.leaves}
        summary = at[v.SUMMARY]
        return Copy(
            title=f"{name(manifest['contract'])} {name(manifest['contract_version'])}",
            verdict=words.verdict(manifest["verdict"]),
            results=tuple(
                (title, words.result(summary["results"][key]), meaning)
                for key, title, meaning in words.RESULTS
            ),
            stages=tuple(_stages(summary["clauses"])),
            codes=tuple((name(code), meaning_of(code)) for code in summary["codes"]),
            counterexample=_counterexample(at, _first_found(at)),
            changes=tuple(map(cut, change_lines(at.get(v.REVIEW)))),
            withheld=tuple(_withheld(verified.withheld)),
            facts=(
                ("Trial", name(manifest["trial"])), ("Sealed", str(manifest["sealed_at"])),
                ("Judged by statediff", name(manifest["statediff"])),
                ("Kernel", name(manifest["kernel"])),
                ("Root of the tree", str(manifest["tree"]["root"])),
            ),
            seal=seal_of(sealed, verified),
        )  # fmt: skip


def _withheld(
    tags: Mapping[str, int],
) -> Iterator[tuple[str, tuple[tuple[str, int], ...]]]:
    for tier in v.TIERS:
        own = [(tag.partition("/")[2], n) for tag, n in tags.items() if tag.startswith(f"{tier}/")]
        if own:
            yield tier, tuple(own)


def _stages(clauses: Sequence[Json]) -> Iterator[Stage]:
    for key, title, meaning in words.STAGES:
        own = [(words.truth(c["truth"]), name(c["clause"])) for c in clauses if c["stage"] == key]
        if own:
            yield Stage(title, meaning, tuple(own))


def _first_found(at: Mapping[str, Json]) -> Json | None:
    """The counterexample, or the first finding of a review, of which no evidence is named."""
    if v.COUNTEREXAMPLE in at:
        return at[v.COUNTEREXAMPLE]
    found = at.get(v.REVIEW, {"findings": []})["findings"]
    return {**found[0], "evidence": []} if found else None


def _counterexample(at: Mapping[str, Json], recorded: Json | None) -> Counterexample | None:
    """The finding in words; what its clause asks is known where the contract is disclosed too."""
    if recorded is None:
        return None
    asked = clause_sentence(files_of_copy(at), str(recorded["clause"]))
    found = worded_finding(recorded, asked)
    witness = found["witness"]
    return Counterexample(
        clause=name(found["clause"]),
        code=name(found["code"]),
        meaning=meaning_of(found["code"]),
        sentence=cut(found["sentence"]),
        asked=cut(asked),
        missing=tuple(cut(each) for each in found["missing"]),
        comparisons=tuple(
            Comparison(cut(c["text"]), cut(c["left"]), name(c["operator"]), cut(c["right"]))
            for c in witness["comparisons"]
        ),
        rows=tuple(
            (
                name(row["side"]),
                entity(row["type"], key_from(row["key"])),
                tuple((name(f), cell(x)) for f, x in fields_from(row["fields"]).items()),
            )
            for row in first(witness["rows"], MAX_ROWS)
        ),
        evidence=", ".join(name(each) for each in first(found["evidence"], MAX_ROWS)),
    )
