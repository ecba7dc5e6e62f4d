"""Trials as JUnit XML: a trial is one test case.

MATCH passes, DIVERGE is a `failure`, INCONCLUSIVE and a trial without a verdict are an `error`, so
that no reader takes "not decided" for "passed".
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from typing import Final

from statediff.reports.comparability import are_comparable
from statediff.reports.formats.exports import MAX_SHOWN, Exported, without_verdict
from statediff.reports.formats.format import ReportFormat, Takes

# What XML 1.0 has no way to write; `said` spells most of it out, names come as they are.
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


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


def _xml(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)


FORMAT: Final = ReportFormat(name="junit", takes=Takes.TRIALS, write=junit)
