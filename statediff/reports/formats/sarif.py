"""SARIF 2.1.0, the form in which code review tools take remarks about lines: of lint, of trials.

Of a trial a clause is one result at its line of the contract, of kind `fail`, `open` or `pass`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from statediff._version import __version__
from statediff.contract.lint import CATALOGUE
from statediff.errors import Problem
from statediff.reports.formats.exports import Exported, Told, address
from statediff.reports.formats.format import ReportFormat, Takes

_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: Final = {"error": "error", "warning": "warning", "advice": "note"}
_KINDS: Final = {"FAILS": "fail", "UNKNOWN": "open", "HOLDS": "pass"}

Json = Any


@dataclass(frozen=True, kw_only=True)
class Result:
    """One remark at a line of a file; `kind` and `properties` are left out where they are empty."""

    code: str
    level: str
    message: str
    uri: str
    line: int
    column: int | None = None
    kind: str = ""
    properties: Mapping[str, str] | None = None


def _only_id(code: str) -> dict[str, Json]:
    return {"id": code}


def log(
    results: Sequence[Result],
    rule: Callable[[str], dict[str, Json]] = _only_id,
    errors: Sequence[str] | None = None,
) -> dict[str, Json]:
    """One run of statediff; its rules are the codes that occur, sorted.

    `errors` say why the run could not be completed; None where nothing is said of that.
    """
    codes = sorted({result.code for result in results})
    number = {code: at for at, code in enumerate(codes)}
    driver = {
        "name": "statediff",
        "semanticVersion": __version__,
        "rules": [rule(code) for code in codes],
    }
    run: dict[str, Json] = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints"}
    if errors is not None:
        notifications = [{"level": "error", "message": {"text": text}} for text in errors]
        run["invocations"] = [
            {"executionSuccessful": not errors, "toolExecutionNotifications": notifications}
        ]
    run["results"] = [_written(result, number[result.code]) for result in results]
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _written(result: Result, rule: int) -> dict[str, Json]:
    region = {"startLine": result.line}
    if result.column is not None:
        region["startColumn"] = result.column
    place = {"artifactLocation": {"uri": result.uri}, "region": region}
    return {
        "ruleId": result.code,
        "ruleIndex": rule,
        **({"kind": result.kind} if result.kind else {}),
        "level": result.level,
        "message": {"text": result.message},
        "locations": [{"physicalLocation": place}],
        **({} if result.properties is None else {"properties": dict(result.properties)}),
    }


def sarif(problems: Sequence[Problem]) -> dict[str, Json]:
    """One run of `statediff check`; its rules say what to write instead."""
    return log([_remark(problem) for problem in problems], _rule)


def _remark(problem: Problem) -> Result:
    instead = f" Instead: {problem.hint}" if problem.hint else ""
    return Result(
        code=problem.code,
        level=_LEVELS[problem.severity],
        message=problem.message + instead,
        uri=_uri(problem.file),
        line=problem.line,
        column=problem.column,
    )


def _rule(code: str) -> dict[str, Any]:
    entry = CATALOGUE.get(code)
    if entry is None:  # of a schema file; those are documented with their format
        return {"id": code}
    return {
        "id": code,
        "shortDescription": {"text": entry.meaning},
        "help": {"text": entry.instead},
        "defaultConfiguration": {"level": _LEVELS[entry.severity]},
    }


def _uri(file: str) -> str:
    path = Path(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())


def trials_sarif(trials: Sequence[Exported]) -> dict[str, Json]:
    """The clauses of the trials as SARIF results; trials without a verdict are notifications."""
    return log(
        [_clause(each, entry) for each in trials for entry in each.told],
        errors=[f"{each.trial} has no verdict: {each.why}" for each in trials if not each.verdict],
    )


def _clause(each: Exported, entry: Told) -> Result:
    return Result(
        code=entry.code,
        level="error" if entry.truth == "FAILS" else "none",
        message=f"{each.trial}: {entry.clause}: {entry.text}",
        uri=f"{address(each.contract)}/contract.yaml",
        line=entry.line,
        kind=_KINDS[entry.truth],
        properties={"trial": each.trial, "clause": entry.clause, "verdict": each.verdict},
    )


def _written_trials(trials: Sequence[Exported], _not_run: int) -> str:
    return json.dumps(trials_sarif(trials), indent=1, ensure_ascii=True) + "\n"


FORMAT: Final = ReportFormat(name="sarif", takes=Takes.TRIALS, write=_written_trials)
