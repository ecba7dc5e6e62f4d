"""The JSON Schema (draft 2020-12) of `statediff/judgement/1`, what `judge --json` prints."""

from __future__ import annotations

from typing import Any, Final

from statediff.reports.plain import JUDGEMENT

_TEXT: Final = {"type": "string"}
_TEXTS: Final = {"type": "array", "items": _TEXT}
_ORIGIN: Final = {"enum": ["agent", "environment", "contract", None]}
_TRUTH: Final = {"enum": ["HOLDS", "FAILS", "UNKNOWN"]}
_VERDICT: Final = {"enum": ["MATCH", "DIVERGE", "INCONCLUSIVE"]}
_STAGE: Final = {
    "enum": ["forbid", "frame", "require", "steps", "actions", "answer", "access"],
}
_RESULT: Final = {"enum": ["MATCH", "DIVERGE", "INCONCLUSIVE", None]}
_NUMBER: Final = {"type": ["number", "null"]}
_VALUE: Final = {
    "description": (
        "plain JSON; a number that a double cannot hold is text; {absent: true}, {excluded: rule} "
        "and {unobserved: cause} are no values; bytes are {bytes: base64}; a map whose only "
        "member has one of these names is {map: …}"
    )
}


def _closed(members: dict[str, Any], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": members,
        "required": [name for name in members if name not in optional],
        "additionalProperties": False,
    }


def _list(of: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": of}


def _finding_schema() -> dict[str, Any]:
    row = _closed({
        "side": _TEXT, "type": _TEXT, "key": {}, "fields": {"type": "object"},
    })  # fmt: skip
    comparison = _closed({"text": _TEXT, "left": _TEXT, "right": _TEXT, "operator": _TEXT})
    return _closed({
        "code": _TEXT, "clause": _TEXT, "stage": _STAGE, "truth": _TRUTH, "sentence": _TEXT,
        "component": _TEXT, "origin": _ORIGIN, "deltas": _TEXTS, "evidence": _TEXTS,
        "missing": _TEXTS,
        "witness": _closed({"rows": _list(row), "comparisons": _list(comparison)}),
    })  # fmt: skip


def judgement_schema() -> dict[str, Any]:
    """The JSON Schema of a judgement as `--json` prints it."""
    delta: dict[str, Any] = {
        "id": _TEXT,
        "op": {"enum": ["create", "update", "delete", "link", "unlink"]},
        "type": _TEXT,
        "key": {"description": "the value of a one-field key, a list for any other"},
        "path": {
            "type": "string",
            "description": "the field and the place inside it; empty for a whole entity",
        },
        "before": _VALUE,
        "after": _VALUE,
        "raw_before": {**_VALUE, "description": "as captured, where ν changed it"},
        "raw_after": {**_VALUE, "description": "as captured, where ν changed it"},
        "label": {"enum": ["reversible", "conditional", "irreversible"]},
    }
    attributed = {
        "evidence": _TEXTS,
        "transaction": {"type": ["string", "null"]},
        "action": {"type": ["string", "null"]},
    }
    raw = ("raw_before", "raw_after")
    finding = _finding_schema()
    clause = _closed({"clause": _TEXT, "stage": _STAGE, "truth": _TRUTH, "sentence": _TEXT})
    by = {"enum": ["boundary", "canonicalization"]}
    doubt = _closed({
        "type": _TEXT, "key": {}, "path": {"type": ["string", "null"]}, "cause": _TEXT,
        "stage": _TEXT, "source": _TEXT,
    })  # fmt: skip
    asked = {"enum": [*_TRUTH["enum"], None]}
    call = _closed({
        "call": _TEXT, "tool": _TEXT, "truth": _TRUTH, "valid": _TRUTH, "permitted": asked,
        "authorized": asked, "matched": asked, "breaks": _TEXTS,
    })  # fmt: skip
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:statediff:schema:judgement:1",
        "title": "statediff judgement",
        **_closed({
            "schema": {"const": JUDGEMENT},
            "contract": _TEXT,
            "version": _TEXT,
            "verdict": _VERDICT,
            "tool": _RESULT,
            "task": _RESULT,
            "outcome": _RESULT,
            "findings": _list(finding),
            "clauses": _list(clause),
            "metrics": _closed({
                "precision": _NUMBER, "recall": _NUMBER, "forbidden_effect_rate": _NUMBER,
            }),
            "deltas": _list(_closed({**delta, "explained_by": _TEXTS, **attributed}, raw)),
            "during": _list(_closed({**delta, **attributed}, raw)),
            "excluded": _list(_closed({**delta, "rule": _TEXT, "by": by, **attributed}, raw)),
            "calls": _list(call),
            "doubts": _list(doubt),
            "bundle": _TEXT,
        }),
    }  # fmt: skip
