"""Judged trials as the forms of other tools show them: JUnit XML, SARIF, Markdown, annotations.

Everything said of a trial was influenced by the agent: text is bounded, and each form escapes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from statediff.contract.yaml.reader import Document, read_document
from statediff.evidence.package import Bundle
from statediff.reports.comparability import Judge
from statediff.reports.record import Record, reading, said

Json = Any
MAX_SHOWN: Final = 20
"""The most findings that are reported of one trial; the number of the others is."""


@dataclass(frozen=True)
class Told:
    """One finding that does not hold, or one clause that does: where it stands and what it says."""

    clause: str
    code: str
    truth: str
    text: str
    line: int


@dataclass(frozen=True)
class Exported:
    """One trial as exports tell it. `verdict` is empty where it has none, and `why` says why."""

    trial: str
    contract: str
    version: str
    agent: str
    verdict: str
    told: tuple[Told, ...]
    why: str = ""
    kernel: str = ""

    @property
    def judge(self) -> Judge:
        """The contract and kernel that decided the verdict."""
        return Judge(self.contract, self.version, self.kernel)

    @property
    def loose(self) -> tuple[Told, ...]:
        """The entries that do not hold."""
        return tuple(entry for entry in self.told if entry.truth != "HOLDS")


def exported(bundle: Bundle, trial: str, where: str = "the bundle") -> Exported:
    """The trial by its bundle; `BundleError` if that contradicts itself."""
    with reading(where):
        record = Record(bundle)
        judged = record.judgement
        contract = read_document(bundle.files["contract.yaml"], "contract.yaml")
        found = {f["clause"] for f in judged["findings"] if f["truth"] != "HOLDS"}
        told = [
            _told(contract, f["clause"], f["code"], f["truth"], f["sentence"])
            for f in judged["findings"]
            if f["truth"] != "HOLDS"
        ]
        told += [
            _told(contract, c["clause"], c["stage"], c["truth"], c["sentence"])
            for c in judged["clauses"]
            if c["clause"] not in found
        ]
        return Exported(
            said(trial), said(record.manifest["contract"]),
            said(record.manifest["contract_version"]), said(record.trial["agent"]),
            str(judged["verdict"]), tuple(told), kernel=said(record.manifest["kernel"]),
        )  # fmt: skip


def without_verdict(trial: str, why: str) -> Exported:
    """A trial that has no bundle that can be read."""
    return Exported(said(trial), "", "", "", "", (), said(why))


def _told(contract: Document, clause: str, code: str, truth: str, text: str) -> Told:
    return Told(said(clause), said(code), truth, said(text), _line(contract, clause))


def _line(contract: Document, clause: str) -> int:
    """The line of the clause in the contract; 1 for one that the language itself adds."""
    for path, node in _mappings(contract.value, ()):
        if node.get("id") == clause:
            return contract.position((*path, "id")).line
    for section in (clause, clause.partition("-")[0]):
        if section in contract.value:
            return contract.position((section,)).key_line
    return 1


def _mappings(
    value: Json, path: tuple[str | int, ...]
) -> Iterator[tuple[tuple[str | int, ...], dict[str, Json]]]:
    if isinstance(value, dict):
        yield path, value
    members = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, inner in members:
        yield from _mappings(inner, (*path, key))


def address(contract: str) -> str:
    """The folder of the contract, without a letter that a form could take for more."""
    return re.sub(r"[^A-Za-z0-9/_-]", "_", contract).strip("/") or "unknown"
