"""Judged trials in the forms that other tools read: JUnit XML, SARIF, Markdown, annotations.

A trial is one JUnit test case: MATCH passes, DIVERGE is a `failure`, INCONCLUSIVE and a trial
without a verdict are an `error`, so that no reader takes "not decided" for "passed". In SARIF a
clause is one result at its line of the contract, of kind `fail`, `open` or `pass`.

Everything said of a trial was influenced by the agent: text is bounded, and escaped for its form.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from statediff import __version__
from statediff.contract.reader import Document, read_document
from statediff.evidence.package import Bundle
from statediff.reports.judges import INCOMPARABLE, Judge, are_comparable
from statediff.reports.record import Record, reading, said
from statediff.reports.sarif import SCHEMA

Json = Any
MAX_SHOWN: Final = 20
"""Findings that are told of one trial; the number of the others is."""
_KINDS: Final = {"FAILS": "fail", "UNKNOWN": "open", "HOLDS": "pass"}
# What XML 1.0 has no way to write; `said` spells most of it out, names come as they are.
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


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
        """What decided the verdict."""
        return Judge(self.contract, self.version, self.kernel)

    @property
    def loose(self) -> tuple[Told, ...]:
        """What does not hold."""
        return tuple(entry for entry in self.told if entry.truth != "HOLDS")


def exported(bundle: Bundle, trial: str, where: str = "the bundle") -> Exported:
    """What the bundle of a trial says; `BundleError` if it contradicts itself."""
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


def junit(trials: Sequence[Exported], not_run: int = 0) -> str:
    """The trials as JUnit XML, a test suite for each contract; those never run are errors too.

    A contract that was judged in several versions, or by several kernels, has a suite for each.
    """
    root = ET.Element("testsuites", name="statediff")
    total = failures = errors = 0
    for contract, members in _by_contract(trials, not_run):
        suite = ET.SubElement(root, "testsuite", name=_xml(contract))
        failed = sum(each.verdict == "DIVERGE" for each in members)
        broken = sum(each.verdict not in ("MATCH", "DIVERGE") for each in members)
        for name, number in (("tests", len(members)), ("failures", failed), ("errors", broken)):
            suite.set(name, str(number))
        suite.set("skipped", "0")
        total, failures, errors = total + len(members), failures + failed, errors + broken
        for each in members:
            _case(suite, contract, each)
    root.attrib.update(tests=str(total), failures=str(failures), errors=str(errors))
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def sarif(trials: Sequence[Exported]) -> dict[str, Json]:
    """The clauses of the trials as SARIF results; trials without a verdict are notifications."""
    codes = sorted({entry.code for each in trials for entry in each.told})
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "statediff",
                        "semanticVersion": __version__,
                        "rules": [{"id": code} for code in codes],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "invocations": [
                    {
                        "executionSuccessful": all(each.verdict for each in trials),
                        "toolExecutionNotifications": [
                            {
                                "level": "error",
                                "message": {"text": f"{each.trial} has no verdict: {each.why}"},
                            }
                            for each in trials
                            if not each.verdict
                        ],
                    }
                ],
                "results": [
                    _result(each, entry, codes.index(entry.code))
                    for each in trials
                    for entry in each.told
                ],
            }
        ],
    }


def markdown(trials: Sequence[Exported], not_run: int = 0) -> str:
    """The trials as Markdown: counts, a table, and why those that do not match do not."""
    scheduled = len(trials) + not_run
    head = f"**{scheduled} trial{'s' * (scheduled != 1)}**"
    if are_comparable(each.judge for each in trials):
        lines = [f"{head}: {_counted(trials, not_run)}", ""]
    else:
        lines = [f"{head}, {INCOMPARABLE}", ""]
        lines += [
            f"- {_code(str(judge)) if judge != Judge() else 'without a verdict'}: "
            + _counted([each for each in trials if each.judge == judge])
            for judge in sorted({each.judge for each in trials})
        ]
        lines += [f"- never run: {not_run}"] * bool(not_run) + [""]
    lines += ["| verdict | trial | contract | agent |", "|---|---|---|---|"]
    lines += [
        f"| {each.verdict or 'none'} | {_cell(each.trial)} |"
        f" {_cell(f'{each.contract} {each.version}')} | {_cell(each.agent)} |"
        for each in trials
    ]
    for each in trials:
        if each.verdict == "MATCH":
            continue
        lines += ["", f"### {each.verdict or 'No verdict'}: {_code(each.trial)}", ""]
        if each.why:
            lines.append(f"- {_code(each.why)}")
        lines += [
            f"- {entry.truth} {_code(entry.clause)} ({entry.code}): {_code(entry.text)}"
            for entry in each.loose[:MAX_SHOWN]
        ]
        if len(each.loose) > MAX_SHOWN:
            lines.append(f"- and {len(each.loose) - MAX_SHOWN} more")
    return "\n".join(lines) + "\n"


def workflow(trials: Sequence[Exported], not_run: int = 0) -> str:
    """What does not hold as commands of a GitHub workflow, each at its line of the contract.

    A violation and a trial without a verdict are errors; what cannot be decided is a warning, and
    the exit code of `run` says that it is no pass.
    """
    lines = []
    for each in trials:
        place = f"file={_property(_address(each.contract))}/contract.yaml"
        for entry in each.loose[:MAX_SHOWN]:
            level = "error" if entry.truth == "FAILS" else "warning"
            title = _property(f"{each.verdict} {each.trial}: {entry.clause}")
            lines.append(f"::{level} {place},line={entry.line},title={title}::{_data(entry.text)}")
        if not each.verdict:
            title = _property(f"no verdict: {each.trial}")
            lines.append(f"::error title={title}::{_data(each.why)}")
    if not_run:
        lines.append(f"::error title=not run::{not_run} scheduled trials were not run")
    return "".join(f"{line}\n" for line in lines)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _counted(trials: Sequence[Exported], not_run: int = 0) -> str:
    counts = {name: sum(each.verdict == name for each in trials) for name in _VERDICTS}
    counts["without a verdict"] = sum(not each.verdict for each in trials) + not_run
    return ", ".join(f"{number} {name}" for name, number in counts.items() if number) or "none"


_VERDICTS: Final = ("MATCH", "DIVERGE", "INCONCLUSIVE")


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


def _by_contract(
    trials: Sequence[Exported], not_run: int
) -> Iterator[tuple[str, Sequence[Exported]]]:
    left = [without_verdict(f"not run {n}", "it was scheduled and not run") for n in range(not_run)]
    every = [*trials, *left]
    is_mixed = not are_comparable(each.judge for each in every)
    for judge in sorted({each.judge for each in every}):
        name = (str(judge) if is_mixed else judge.contract) or "without a verdict"
        yield name, [each for each in every if each.judge == judge]


def _case(suite: ET.Element, contract: str, each: Exported) -> None:
    case = ET.SubElement(suite, "testcase", classname=_xml(contract), name=_xml(each.trial))
    if each.verdict == "MATCH":
        return
    kind = "failure" if each.verdict == "DIVERGE" else "error"
    lines = [f"{e.truth} {e.clause} ({e.code}): {e.text}" for e in each.loose[:MAX_SHOWN]]
    if len(each.loose) > MAX_SHOWN:
        lines.append(f"and {len(each.loose) - MAX_SHOWN} more")
    lines = lines or [each.why]
    found = ET.SubElement(case, kind, type=each.verdict or "no verdict", message=_xml(lines[0]))
    found.text = _xml("\n".join(lines))


def _result(each: Exported, entry: Told, rule: int) -> dict[str, Json]:
    return {
        "ruleId": entry.code,
        "ruleIndex": rule,
        "kind": _KINDS[entry.truth],
        "level": "error" if entry.truth == "FAILS" else "none",
        "message": {"text": f"{each.trial}: {entry.clause}: {entry.text}"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": f"{_address(each.contract)}/contract.yaml"},
                    "region": {"startLine": entry.line},
                }
            }
        ],
        "properties": {"trial": each.trial, "clause": entry.clause, "verdict": each.verdict},
    }


def _address(contract: str) -> str:
    return re.sub(r"[^A-Za-z0-9/_-]", "_", contract).strip("/") or "unknown"


def _xml(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)


def _code(text: str) -> str:
    """The text as a Markdown code span: no markup, HTML, link, mention or new line comes of it."""
    line = " ".join(text.split()) or " "
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    pad = " " if "`" in (line[0], line[-1]) else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def _cell(text: str) -> str:
    """The same in a table, where a bar would end the cell."""
    return _code(text.replace("|", "\u00a6")) if text.strip() else ""
