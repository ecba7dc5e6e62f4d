"""A trial without anything that statediff thinks of it, for a reviewer who is blind [SSD §V].

What is hidden is taken out of the documents before a page is made of them, so no template can show
it: the verdict, the truth of clauses, the findings, what explains a change, the labels and the
numbers. What stays is what was asked, what was read and what changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from statediff.evaluate.worded import worded_judgement
from statediff.evidence.package import Bundle
from statediff.reports.html.changes import STANDINGS, Standings
from statediff.reports.html.words import Sign
from statediff.reports.record import Parsed, reading

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


def unjudged(bundle: Bundle, where: str) -> Parsed:
    """The bundle as if nobody had judged it; `BundleError` if it contradicts itself."""
    with reading(where):
        documents: Mapping[str, Json] = {
            "judgement.json": _without_judgement(worded_judgement(bundle)),
            # The names of an agent and of a trial often tell what was expected of them.
            "trial.json": {**bundle.document("trial.json"), "agent": _HIDDEN, "id": _HIDDEN},
        }
        manifest = {**bundle.manifest, "verdict": "INCONCLUSIVE", "trial": _HIDDEN}
        files = {name: data for name, data in bundle.files.items() if name not in documents}
        return Parsed(manifest, files, dict(documents))


def _without_judgement(judged: Json) -> Json:
    return {
        "verdict": "INCONCLUSIVE", "findings": [], "explained_by": [],
        "clauses": [{**clause, "truth": "UNKNOWN"} for clause in judged["clauses"]],
        "results": dict.fromkeys(judged["results"]), "metrics": dict.fromkeys(judged["metrics"]),
        "deltas": [{**delta, "label": ""} for delta in judged["deltas"]],
        "during": [{**delta, "label": ""} for delta in judged["during"]],
        "hidden": [{**each, "delta": {**each["delta"], "label": ""}} for each in judged["hidden"]],
        "doubts": judged["doubts"],
    }  # fmt: skip
