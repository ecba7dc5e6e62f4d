"""A log's records of a study: of its registration, and of the labels of its passes."""

from __future__ import annotations

from collections.abc import Sequence

from statediff.evidence.log import REGISTRATION, Record
from statediff.evidence.verify import Signer
from statediff_lab.study import passes, planning


def record_of(data: bytes, trust: Sequence[Signer] | None, _secret: bytes) -> Record | None:
    """The record of a study's registration, or of the labels of a pass; None of other files.

    Neither is signed: with a trust file something else is meant.
    """
    if trust is not None:
        return None
    if f'"form":"{planning.FORM}"'.encode() in data:
        found = planning.read_registration(data)
        # It makes no trials of its own: a run of the log has none that lacks its verdict.
        said = {"run": "study", "trials": "0", "runs": str(len(found.sample))}
        return Record(REGISTRATION, "study", found.digest, said)
    if f'"form":"{passes.FORM}"'.encode() in data:
        labels = passes.read_labels(data)
        kind = "adjudication" if labels.part is passes.Part.PASS else "resolution"
        said = {"by": labels.by.value, "pass": labels.name, "labels": str(len(labels.labels))}
        return Record(kind, labels.registration, labels.digest, said)
    return None
