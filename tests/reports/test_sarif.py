"""SARIF 2.1.0: the structure that code review tools rely on."""

from pathlib import Path
from typing import Any

import jsonschema

from statediff.contract.lint import CATALOGUE
from statediff.errors import Problem
from statediff.reports.formats.sarif import sarif

TEXT = {
    "type": "object",
    "required": ["text"],
    "properties": {"text": {"type": "string", "minLength": 1}},
}
LEVEL = {"enum": ["none", "note", "warning", "error"]}
# The part of the OASIS schema of SARIF 2.1.0 that our documents use, closed.
ESSENTIAL: dict[str, Any] = {
    "type": "object",
    "required": ["version", "runs"],
    "additionalProperties": False,
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["tool", "results"],
                "additionalProperties": False,
                "properties": {
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "tool": {
                        "type": "object",
                        "required": ["driver"],
                        "additionalProperties": False,
                        "properties": {
                            "driver": {
                                "type": "object",
                                "required": ["name"],
                                "additionalProperties": False,
                                "properties": {
                                    "name": {"type": "string", "minLength": 1},
                                    "semanticVersion": {"type": "string"},
                                    "rules": {
                                        "type": "array",
                                        "uniqueItems": True,
                                        "items": {
                                            "type": "object",
                                            "required": ["id"],
                                            "additionalProperties": False,
                                            "properties": {
                                                "id": {"type": "string"},
                                                "shortDescription": TEXT,
                                                "help": TEXT,
                                                "defaultConfiguration": {
                                                    "type": "object",
                                                    "properties": {"level": LEVEL},
                                                },
                                            },
                                        },
                                    },
                                },
                            }
                        },
                    },
                    "results": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["message"],
                            "additionalProperties": False,
                            "properties": {
                                "ruleId": {"type": "string"},
                                "ruleIndex": {"type": "integer", "minimum": 0},
                                "level": LEVEL,
                                "message": TEXT,
                                "locations": {
                                    "type": "array",
                                    "items": {
                                        "type": "object",
                                        "required": ["physicalLocation"],
                                        "properties": {
                                            "physicalLocation": {
                                                "type": "object",
                                                "required": ["artifactLocation", "region"],
                                                "properties": {
                                                    "artifactLocation": {
                                                        "type": "object",
                                                        "required": ["uri"],
                                                        "properties": {
                                                            "uri": {
                                                                "type": "string",
                                                                "pattern": r"^[!-~]+$",
                                                            }
                                                        },
                                                    },
                                                    "region": {
                                                        "type": "object",
                                                        "required": ["startLine"],
                                                        "properties": {
                                                            "startLine": {
                                                                "type": "integer",
                                                                "minimum": 1,
                                                            },
                                                            "startColumn": {
                                                                "type": "integer",
                                                                "minimum": 1,
                                                            },
                                                        },
                                                    },
                                                },
                                            }
                                        },
                                    },
                                },
                            },
                        },
                    },
                },
            },
        },
    },
}


def every_code() -> list[Problem]:
    return [
        Problem(f"contracts/ä b/{n}.yaml", n, n, "what", code, "write this", entry.severity)
        for n, (code, entry) in enumerate(CATALOGUE.items(), 1)
    ]


def test_the_document_has_the_structure_of_sarif_2_1_0() -> None:
    document = sarif(every_code())
    jsonschema.validate(document, ESSENTIAL)
    jsonschema.validate(sarif([]), ESSENTIAL)


def test_every_result_points_at_its_own_rule_and_place() -> None:
    run = sarif(every_code())["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    for problem, result in zip(every_code(), run["results"], strict=True):
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"] == problem.code
        place = result["locations"][0]["physicalLocation"]
        assert place["region"] == {"startLine": problem.line, "startColumn": problem.column}
    levels = {r["id"]: r["defaultConfiguration"]["level"] for r in rules}
    assert levels["null-run"] == "error"
    assert levels["unguarded"] == "warning"
    assert levels["undefined-fails"] == "note"


def test_a_path_is_a_uri(tmp_path: Path) -> None:
    def uri(file: str) -> str:
        result = sarif([Problem(file, 1, 1, "m")])["runs"][0]["results"][0]
        return str(result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"])

    assert uri("a b/c#.yaml") == "a%20b/c%23.yaml"
    assert uri(str(tmp_path / "c.yaml")).startswith("file:///")
