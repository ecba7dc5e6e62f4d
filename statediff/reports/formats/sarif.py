"""SARIF 2.1.0, the form in which code review tools take remarks about lines.

A clause of a trial is one result at its line of the contract, of kind `fail`, `open` or `pass`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from statediff._version import __version__
from statediff.reports.formats.exports import Exported, Told, address
from statediff.reports.formats.format import ReportFormat, Takes

_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_KINDS: Final = {"FAILS": "fail", "UNKNOWN": "open", "HOLDS": "pass"}

Json = Any


def trials_sarif(trials: Sequence[Exported]) -> dict[str, Json]:
    """The clauses of the trials as SARIF results; trials without a verdict are notifications.

    The rules are the codes that occur, sorted.
    """
    told = [(each, entry) for each in trials for entry in each.told]
    codes = sorted({entry.code for _, entry in told})
    number = {code: at for at, code in enumerate(codes)}
    errors = [f"{each.trial} has no verdict: {each.why}" for each in trials if not each.verdict]
    driver = {
        "name": "statediff",
        "semanticVersion": __version__,
        "rules": [{"id": code} for code in codes],
    }
    notifications = [{"level": "error", "message": {"text": text}} for text in errors]
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {"executionSuccessful": not errors, "toolExecutionNotifications": notifications}
        ],
        "results": [_result(each, entry, number[entry.code]) for each, entry in told],
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(each: Exported, entry: Told, rule: int) -> dict[str, Json]:
    place = {
        "artifactLocation": {"uri": f"{address(each.contract)}/contract.yaml"},
        "region": {"startLine": entry.line},
    }
    return {
        "ruleId": entry.code,
        "ruleIndex": rule,
        "kind": _KINDS[entry.truth],
        "level": "error" if entry.truth == "FAILS" else "none",
        "message": {"text": f"{each.trial}: {entry.clause}: {entry.text}"},
        "locations": [{"physicalLocation": place}],
        "properties": {"trial": each.trial, "clause": entry.clause, "verdict": each.verdict},
    }


def _written(trials: Sequence[Exported], _not_run: int) -> str:
    return json.dumps(trials_sarif(trials), indent=1, ensure_ascii=True) + "\n"


FORMAT: Final = ReportFormat(name="sarif", takes=Takes.TRIALS, write=_written)
