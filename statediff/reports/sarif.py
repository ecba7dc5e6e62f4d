"""Lint's findings as SARIF 2.1.0, the form in which code review tools take remarks about lines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from statediff import __version__
from statediff.contract.lint import CATALOGUE
from statediff.errors import Problem

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: Final = {"error": "error", "warning": "warning", "advice": "note"}


def sarif(problems: Sequence[Problem]) -> dict[str, Any]:
    """One run of `statediff lint`; its rules are the codes that occur, sorted."""
    codes = sorted({problem.code for problem in problems})
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "statediff",
                        "semanticVersion": __version__,
                        "rules": [_rule(code) for code in codes],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": [_result(problem, codes.index(problem.code)) for problem in problems],
            }
        ],
    }


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


def _result(problem: Problem, rule: int) -> dict[str, Any]:
    instead = f" Instead: {problem.hint}" if problem.hint else ""
    return {
        "ruleId": problem.code,
        "ruleIndex": rule,
        "level": _LEVELS[problem.severity],
        "message": {"text": problem.message + instead},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": _uri(problem.file)},
                    "region": {"startLine": problem.line, "startColumn": problem.column},
                }
            }
        ],
    }


def _uri(file: str) -> str:
    path = Path(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())
