"""Read signed statements: labels, resolutions, flags, erasures (R-STM, R-LAB, R-EXP)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from .basics import instant, is_number, members, need, read_canonical, signed_by, texts, unbase64
from .trust import Key, find_key

ROLES = {
    "label": "reviewer",
    "sign-off": "reviewer",
    "expiry": "evaluator",
    "release": "evaluator",
    "checkpoint": "evaluator",
}
LABELS = ("correct", "incorrect", "unresolvable")
CAUSES = (None, "agent-failure", "evaluator-failure", "contract-ambiguity", "environment-failure")
STAGES = (None, "capture", "resolve", "canonicalize", "diff", "policy", "evidence")
FAILURES = (
    "annotation-error exact-match hallucinated-completion implementation-specification-mismatch "
    "judge-variance reward-misalignment rubric-drift state-over-specification trajectory-lock-in"
).split()


@dataclass(frozen=True)
class Statement:
    """A statement whose signature counts."""

    payload: dict[str, Any]
    signer: str


def read_statement(data: bytes, sort: str, keys: list[Key]) -> Statement:
    """Return the statement of a sort, or refuse it (R-STM)."""
    if data.endswith(b"\n"):
        data = data[:-1]
    document = members(read_canonical(data), "keyid payload signature", "R-STM-1")
    texts(document, "keyid payload signature", "R-STM-1")
    content = unbase64(document["payload"])
    signature = unbase64(document["signature"])
    key = find_key(keys, document["keyid"], ROLES[sort], "R-STM-2")
    message = b"statediff " + sort.encode() + b"\0" + content
    need(signed_by(key.raw, signature, message), "R-STM-3")
    payload = read_canonical(content)
    need(isinstance(payload, dict), "R-STM-4")
    need(key.counts(instant(payload.get("at"), "R-STM-4")), "R-STM-4")
    return Statement(payload, key.name)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _one_of(value: Any, words: tuple[Any, ...]) -> bool:
    return (value is None or isinstance(value, str)) and value in words


def _check_label(payload: dict[str, Any]) -> None:
    names = "form bundle at label seconds blind note cause stage is_correctable failures"
    members(payload, names, "R-LAB-2")
    need(_one_of(payload["label"], LABELS), "R-LAB-3 label")
    need(is_number(payload["seconds"]) and 0 <= payload["seconds"] < 2**31, "R-LAB-3 seconds")
    need(_is_flag(payload["blind"]), "R-LAB-3 blind")
    need(isinstance(payload["note"], str) and len(payload["note"]) <= 4000, "R-LAB-3 note")
    correctable = payload["is_correctable"]
    need(correctable is None or _is_flag(correctable), "R-LAB-3 is_correctable")
    need(_one_of(payload["cause"], CAUSES), "R-LAB-3 cause")
    need(_one_of(payload["stage"], STAGES), "R-LAB-3 stage")
    if payload["cause"] != "evaluator-failure":
        need(payload["stage"] is None and payload["is_correctable"] is None, "R-LAB-4")
    failures = payload["failures"]
    need(isinstance(failures, list), "R-LAB-5")
    need(all(isinstance(item, str) and item in FAILURES for item in failures), "R-LAB-5")
    need(all(a < b for a, b in pairwise(failures)), "R-LAB-5 order")
    blamed = payload["cause"] in ("evaluator-failure", "contract-ambiguity")
    need(not failures or blamed, "R-LAB-5 cause")


def verify_label(data: bytes, keys: list[Key]) -> dict[str, Any]:
    """Return what a label, a resolution or a flag says, or refuse it (R-LAB)."""
    need(len(data) <= 65_536, "R-LAB-1")
    statement = read_statement(data, "label", keys)
    payload = statement.payload
    texts(payload, "bundle", "R-LAB-1")
    answer: dict[str, Any] = {
        "bundle": payload["bundle"],
        "by": statement.signer,
        "at": payload["at"],
    }
    form = payload.get("form")
    if form == "statediff/label/2":
        _check_label(payload)
    elif form == "statediff/resolution/1":
        members(payload, "form bundle at label because settles", "R-LAB-6")
        texts(payload, "label because", "R-LAB-6")
        need(payload["label"] in LABELS, "R-LAB-6")
        settles = payload["settles"]
        need(isinstance(settles, list), "R-LAB-6")
        need(all(isinstance(item, str) for item in settles), "R-LAB-6")
    else:
        need(form == "statediff/flag/1", "R-LAB form")
        members(payload, "form bundle at because is_unreliable", "R-LAB-7")
        texts(payload, "because", "R-LAB-7")
        need(_is_flag(payload["is_unreliable"]), "R-LAB-7")
        answer["is_unreliable"] = payload["is_unreliable"]
        return answer
    answer["label"] = payload["label"]
    return answer


def verify_expiry(data: bytes, keys: list[Key]) -> dict[str, Any]:
    """Return what a record of erasure says, or refuse it (R-EXP)."""
    statement = read_statement(data, "expiry", keys)
    payload = members(statement.payload, "format root because items at", "R-EXP-1")
    texts(payload, "root because", "R-EXP-1")
    need(payload["format"] == "statediff/expiry/1", "R-EXP-1")
    items = payload["items"]
    need(isinstance(items, list) and all(isinstance(item, str) for item in items), "R-EXP-1")
    return {"root": payload["root"], "items": items, "by": statement.signer}
