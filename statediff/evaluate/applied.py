"""What ν was given and what it made of it, rule by rule, as digests for the manifest [SSD §VII].

Values stay in the bundle in both forms; the digests fix which of them each rule stood between, so
that a reviewer who may see neither can still hold two judgements of one run beside each other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from statediff.canonicalize import BoundRule
from statediff.evidence.canonical import write
from statediff.evidence.documents import delta_document
from statediff.model.delta import Delta
from statediff.model.verdict import Judgement


def applied(uses: Sequence[BoundRule], judgement: Judgement) -> list[dict[str, Any]]:
    """Each rule, where it stands, and SHA-256 of the sides of its differences before and after it.

    Differences that a rule hides are among them.
    """
    hidden = [entry.delta for entry in judgement.hidden if not entry.by_boundary]
    every = sorted((*judgement.deltas, *hidden), key=lambda delta: delta.id)
    return [_applied(use, every) for use in uses]


def _applied(use: BoundRule, every: Iterable[Delta]) -> dict[str, Any]:
    here = [
        delta_document(delta)
        for delta in every
        if delta.type == use.type and (not delta.path or delta.path in use.fields)
    ]
    return {
        "rule": use.rule.id,
        "type": use.type,
        "fields": list(use.fields),
        "inputs": _digest(here, "raw_before", "raw_after"),
        "outputs": _digest(here, "before", "after"),
    }


def _digest(deltas: Iterable[dict[str, Any]], *sides: str) -> str:
    content = [[delta["id"], *(delta[side] for side in sides)] for delta in deltas]
    return hashlib.sha256(write(content)).hexdigest()
