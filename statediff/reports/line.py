"""One trial in one line: its verdict and the one thing about it worth knowing first."""

from __future__ import annotations

from statediff.evidence.package import Bundle
from statediff.model.codes import FindingCode
from statediff.model.trace import NoAnswer
from statediff.reports.damage import leading
from statediff.reports.ending import Ending, changed_nothing
from statediff.reports.record import Record, reading, reservations, said


def trial_line(bundle: Bundle, ending: Ending | None = None) -> str:
    """`6 of 6 clauses`, or the first clause that fails, or what was not observed.

    It begins with what keeps the trial from being as others are, and with the agent's failure where
    it changed nothing. Any other failure of the agent is at the end.
    """
    line = _judged_line(bundle)
    if ending is None:
        return line
    if changed_nothing(bundle):
        return f"changed nothing, {ending.sentence}; {line}"
    return f"{line}; {ending.sentence}"


def _judged_line(bundle: Bundle) -> str:
    with reading("the bundle"):
        record = Record(bundle)
        return "; ".join([*reservations(record.trial), _said(record)])


def _said(record: Record) -> str:
    clauses = record.judgement["clauses"]
    finding = leading(record.judgement)
    if finding is not None and finding["truth"] == "FAILS":
        return f"{said(finding['clause'], 60)}: {said(finding['sentence'], 240)}"
    if finding is not None:
        origin = said(finding["origin"] or "unknown")
        return f"{said(finding['sentence'], 200)} (cause: {origin})"
    return f"{len(clauses)} of {len(clauses)} clauses"


def answer_note(bundle: Bundle) -> str:
    """Says so when the answer claims what the state refutes; else empty."""
    with reading("the bundle"):
        record = Record(bundle)
        refuted = any(
            f["stage"] == "answer" and f["code"] == FindingCode.CLAIM_REFUTED
            for f in record.judgement["findings"]
        )
        if isinstance(record.answer, NoAnswer) or not refuted:
            return ""
        return "its answer claims success"
