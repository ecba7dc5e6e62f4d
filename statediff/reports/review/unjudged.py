"""A trial without anything that statediff thinks of it, for a reviewer who is blind [SSD §V].

What is hidden is taken out of the documents before a page is made of them, so no template can show
it: the verdict, the truth of clauses, the findings, what explains a change, the labels and the
numbers. What stays is what was asked, what was read and what changed.
"""

from __future__ import annotations

from typing import Any, Final

from statediff.evidence.canonical import write
from statediff.evidence.package import Bundle
from statediff.reports.html.changes import STANDINGS, Standings
from statediff.reports.html.words import Sign

Json = Any
_OPEN: Final = next(sign for sign in STANDINGS if sign.style == "open")
_HIDDEN: Final = "not shown"
CHANGED: Final = Sign(_OPEN.style, _OPEN.mark, "changed")


class Unjudged(Standings):
    """Every change is a change, and a place nobody saw is one, and nothing else."""

    doubt = Sign("unknown", "?", "not observed")

    def of(self, delta: Json) -> Sign:
        """That it is a change."""
        return CHANGED


def unjudged(bundle: Bundle) -> Bundle:
    """The bundle as if nobody had judged it; it keeps the form of a bundle, not its digests."""
    judged = bundle.document("judgement.json")
    clauses = [{**clause, "truth": "UNKNOWN"} for clause in judged["clauses"]]
    scrubbed = {
        "verdict": "INCONCLUSIVE", "clauses": clauses, "findings": [], "explained_by": [],
        "results": dict.fromkeys(judged["results"]), "metrics": dict.fromkeys(judged["metrics"]),
        "deltas": [{**delta, "label": ""} for delta in judged["deltas"]],
        "hidden": judged["hidden"], "doubts": judged["doubts"],
    }  # fmt: skip
    # The names of an agent and of a trial often tell what was expected of them.
    trial = {**bundle.document("trial.json"), "agent": _HIDDEN, "id": _HIDDEN}
    manifest = {**bundle.manifest, "verdict": "INCONCLUSIVE", "trial": _HIDDEN}
    changed = {"judgement.json": write(scrubbed), "trial.json": write(trial)}
    return Bundle(manifest, {**bundle.files, **changed})
