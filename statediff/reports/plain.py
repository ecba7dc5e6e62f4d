"""The plain JSON of `--json`: what a bundle records, in values that any program reads.

Values are plain JSON: null, true, 5, "text". A number that a double could not hold exactly is
text, as are instants (ISO 8601) and dates. What is no value is an object with one reserved
member: `{"absent": true}`, `{"excluded": rule}`, `{"unobserved": cause}`; bytes are
`{"bytes": base64}`. A map whose only member has such a name stands inside `{"map": …}`, so that
no state value passes for a marker. The exact, type-tagged form is in the bundle.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from statediff.errors import BundleError, InputError, Problem
from statediff.evidence.documents import fields_from, key_from
from statediff.evidence.package import Bundle
from statediff.model.delta import Delta, Diff, Doubt, Entity, HiddenDelta
from statediff.model.values import (
    Absent,
    Excluded,
    Key,
    Map,
    Observed,
    Unobserved,
    decode,
    encode,
)
from statediff.reports.wording.origins import origins_in
from statediff.reports.wording.worded import worded_judgement
from statediff.suite.spans import spans

Json = Any
JUDGEMENT: Final = "statediff/judgement/1"
DIFF: Final = "statediff/kernel/diff/1"
_RESERVED: Final = frozenset({"absent", "excluded", "unobserved", "bytes", "map"})
_EXACT: Final = 2**53


def dumps(document: Json) -> str:
    """One line of ASCII JSON; a `Decimal` is written as the number it is, digit for digit."""
    parts: list[str] = []
    _write(document, parts.append)
    return "".join(parts)


def _write(document: Json, put: Callable[[str], Any]) -> None:
    if isinstance(document, Mapping):
        put("{")
        for at, (name, value) in enumerate(document.items()):
            put((", " if at else "") + json.dumps(str(name)) + ": ")
            _write(value, put)
        put("}")
    elif isinstance(document, (list, tuple)):
        put("[")
        for at, value in enumerate(document):
            if at:
                put(", ")
            _write(value, put)
        put("]")
    elif isinstance(document, Decimal):
        put(str(document))
    else:
        put(json.dumps(document, allow_nan=False))


def json_lines(objects: Iterable[Any], _not_run: int) -> str:
    """Each object as a line of JSON."""
    return "".join(dumps(each) + "\n" for each in objects)


def plain(observed: Observed) -> Json:
    """An observation as plain JSON (a `Decimal` only where it is a number to write)."""
    match observed:
        case None | bool() | str():
            return observed
        case Absent():
            return {"absent": True}
        case Excluded(rule):
            return {"excluded": rule}
        case Unobserved(cause):
            return {"unobserved": cause}
        case int():
            return observed if abs(observed) <= _EXACT else str(observed)
        case Decimal():
            return observed if _is_exact(observed) else str(observed)
        case float():
            return observed if math.isfinite(observed) else str(observed)
        case bytes():
            return {"bytes": base64.b64encode(observed).decode("ascii")}
        case datetime() | date():
            return encode(observed)[1]
        case tuple():
            return [plain(item) for item in observed]
        case Map(items):
            shown = {name: plain(value) for name, value in items}
            return {"map": shown} if len(shown) == 1 and _RESERVED & set(shown) else shown


def _is_exact(number: Decimal) -> bool:
    """True if reading the number as a double gives the number that was meant."""
    if not number.is_finite():
        return False
    nearest = float(number)
    return math.isfinite(nearest) and Decimal(repr(nearest)) == number


def plain_key(key: Key) -> Json:
    """A one-field key as the value itself, a composite key as a list."""
    return plain(key[0]) if len(key) == 1 else [plain(part) for part in key]


def plain_side(side: Observed | Entity) -> Json:
    """One side of a delta: a value, or the entity that came or went as an object."""
    if isinstance(side, Entity):
        return {name: plain(value) for name, value in side.fields}
    return plain(side)


def plain_problem(problem: Problem) -> Json:
    """A problem with its place."""
    return {
        "file": problem.file,
        "line": problem.line,
        "column": problem.column,
        "message": problem.message,
        "hint": problem.hint,
        "code": problem.code,
    }


# ---------------------------------------------------------------- a diff without a contract


def plain_diff(diff: Diff) -> Json:
    """Every delta of a comparison, what ν or Ω hides, and where nothing is known."""
    return {
        "schema": DIFF,
        "deltas": [_delta(delta) for delta in diff.deltas],
        "excluded": [_hidden(hidden) for hidden in diff.hidden],
        "doubts": [_doubt(doubt) for doubt in diff.doubts],
    }


def _delta(delta: Delta) -> Json:
    return {
        "id": delta.id,
        "op": delta.op.value,
        "type": delta.type,
        "key": plain_key(delta.key),
        "path": _path(delta),
        "before": plain_side(delta.before),
        "after": plain_side(delta.after),
        "label": delta.label.value,
        "evidence": list(delta.evidence),
    }


def _path(delta: Delta) -> str:
    """The place; a field that came is quoted if its name might be a way into another one."""
    came = isinstance(delta.before, Absent) and not delta.steps
    if came and ("." in delta.path or "[" in delta.path):
        return json.dumps(delta.path, ensure_ascii=False)
    return delta.place


def _hidden(hidden: HiddenDelta) -> Json:
    by = "boundary" if hidden.by_boundary else "canonicalization"
    return {**_delta(hidden.delta), "rule": hidden.rule, "by": by}


def _doubt(doubt: Doubt) -> Json:
    return {
        "where": doubt.where,
        "type": doubt.type,
        "key": None if doubt.key is None else plain_key(doubt.key),
        "path": doubt.path,
        "cause": doubt.cause,
        "stage": doubt.stage,
        "source": doubt.source,
    }


# ---------------------------------------------------------------- a judged bundle


def side_of(document: Json) -> Observed | Entity:
    """One side of a delta as a bundle records it."""
    if "entity" in document:
        return Entity.of(fields_from(document["entity"]))
    return decode(document["value"])


@contextmanager
def reading(where: str) -> Iterator[None]:
    """Within it, documents that do not have the expected shape are a `BundleError`.

    A replay checks the shape of what it reads (`evidence.shapes`). Nobody checks `judgement.json`,
    which a replay only compares, and reports read bundles that nobody replayed.
    """
    try:
        yield
    except (
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        IndexError,
        ArithmeticError,
        RecursionError,
        InputError,
    ) as error:
        raise BundleError(f"{where}: the bundle contradicts itself: {error!r}") from error


def plain_judgement(bundle: Bundle, where: str) -> Json:
    """The judgement in a bundle that lies at `where`; `BundleError` if it makes no sense."""
    with reading(where):
        return _judgement(bundle, where)


def _judgement(bundle: Bundle, where: str) -> Json:
    judged = worded_judgement(bundle)
    explained = {name: list(by) for name, by in judged["explained_by"]}
    return {
        "schema": JUDGEMENT,
        "contract": bundle.manifest["contract"],
        "version": bundle.manifest["contract_version"],
        "verdict": judged["verdict"],
        **{name: judged["results"][name] for name in ("tool", "task", "outcome")},
        "findings": [_finding(finding) for finding in judged["findings"]],
        "clauses": judged["clauses"],
        "metrics": {name: _number(text) for name, text in judged["metrics"].items()},
        "deltas": [
            _recorded_delta(d, {"explained_by": explained.get(d["id"], [])})
            for d in judged["deltas"]
        ],
        "during": [_recorded_delta(d, {}) for d in judged["during"]],
        "excluded": [
            _recorded_delta(h["delta"], {"rule": h["rule"], "by": h["by"]})
            for h in judged["hidden"]
        ],
        "calls": _calls(bundle, judged),
        "doubts": [
            {**doubt, "key": None if doubt["key"] is None else plain_key(key_from(doubt["key"]))}
            for doubt in judged["doubts"]
        ],
        "bundle": where,
    }


def _calls(bundle: Bundle, judged: Json) -> Json:
    """Each recorded call, judged by itself; null where no clause asks."""
    history = bundle.document("captures.json")["history"]
    return [
        {
            "call": span.call,
            "tool": span.tool,
            "truth": span.truth,
            **dict(span.truths),
            "breaks": list(span.breaks),
        }
        for span in spans(judged, bundle.document("trace.json"), history)
    ]


def brief_findings(bundle: Bundle) -> Json:
    """The findings that do not hold, by name only: for one line a trial."""
    whose = origins_in(bundle)
    return [
        {
            **{name: finding[name] for name in ("code", "clause", "truth", "stage")},
            "origin": whose(finding),
        }
        for finding in bundle.document("judgement.json")["findings"]
        if finding["truth"] != "HOLDS"
    ]


def _number(text: str | None) -> float | int | None:
    if text is None:
        return None
    number = Fraction(text)
    return number.numerator if number.denominator == 1 else float(number)


def _finding(finding: Json) -> Json:
    names = (
        "code", "clause", "stage", "truth", "sentence", "component", "origin", "deltas",
        "evidence",        "missing",
    )  # fmt: skip
    witness = finding["witness"]
    return {
        **{name: finding[name] for name in names},
        "witness": {
            "rows": [
                {
                    "side": row["side"],
                    "type": row["type"],
                    "key": plain_key(key_from(row["key"])),
                    "fields": _fields(fields_from(row["fields"]).items()),
                }
                for row in witness["rows"]
            ],
            "comparisons": witness["comparisons"],
        },
    }


def _fields(fields: Iterable[tuple[str, Observed]]) -> Json:
    return {name: plain(value) for name, value in fields}


def _recorded_delta(delta: Json, more: Mapping[str, Json]) -> Json:
    """A delta, with the values as captured where canonicalization changed them."""
    sides = {
        name: plain_side(side_of(delta[name]))
        for name in ("before", "after", "raw_before", "raw_after")
    }
    for name in ("before", "after"):
        if delta[name] == delta[f"raw_{name}"]:
            del sides[f"raw_{name}"]
    return {
        **{name: delta[name] for name in ("id", "op", "type")},
        "key": plain_key(key_from(delta["key"])),
        "path": delta["path"],
        **sides,
        "label": delta["label"],
        **more,
        **{name: delta[name] for name in ("evidence", "transaction", "action")},
    }
