"""The words for verdicts, truths and stages where no programmer reads them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from statediff.reports.covered import UNREVIEWED, covered
from statediff.reports.damage import leading

Json = Any


@dataclass(frozen=True)
class Sign:
    """A word with a shape and a style of its own: never distinguished by colour alone."""

    style: str
    mark: str
    word: str
    meaning: str = ""


VERDICTS: Final = {
    "MATCH": Sign(
        "match", "✓", "MATCH",
        "The run did what its task required and nothing else.",
    ),
    "DIVERGE": Sign(
        "diverge", "✗", "DIVERGE", "The run broke its contract.",
    ),
    "INCONCLUSIVE": Sign(
        "inconclusive", "?", "INCONCLUSIVE",
        "Undecided: some evidence is missing.",
    ),
}  # fmt: skip
FAULT: Final = Sign("fault", "!", "FAULT", "The trial ended without a bundle, so nothing is known.")
NOT_RUN: Final = Sign("fault", "–", "NOT RUN", "The trial was scheduled and never begun.")
NO_CLAUSE: Final = Sign("none", "–", "not checked", "No clause of the contract is about it.")
TRUTHS: Final = {
    "HOLDS": Sign("match", "✓", "holds"),
    "FAILS": Sign("diverge", "✗", "fails"),
    "UNKNOWN": Sign("inconclusive", "?", "unknown"),
}
CALLS: Final = "Tool calls"
RESULTS: Final = (
    ("outcome", "State", "the systems after the run"),
    ("task", "Answer", "what the agent said"),
    ("tool", CALLS, "how the agent called its tools"),
)
STAGES: Final = (
    ("forbid", "Forbidden", "judged first: changes that nothing can excuse"),
    ("frame", "Nothing else may change", "a clause must explain every change"),
    ("require", "Required", "what the task asked for"),
    ("steps", "Along the way", "what must hold during the run"),
    ("actions", "Actions", "how the agent called its tools"),
    ("answer", "The answer", "what the agent claims, beside the state"),
    ("access", "Access", "what the agent looked at"),
)
NUMBERS: Final = (
    ("precision", "Precision", "of the changes that count, how many were required"),
    ("recall", "Recall", "of the required changes, how many happened"),
    (
        "forbidden_effect_rate", "Forbidden effects",
        "the weight of forbidden and unexplained changes among all changes",
    ),
)  # fmt: skip
LEADS: Final = {
    "forbid": "Something forbidden happened",
    "frame": "Something changed that no clause explains",
    "require": "A required change did not happen as required",
    "steps": "What had to hold along the way did not",
    "actions": "A tool was not called as it must be",
    "answer": "The agent's answer is wrong or missing",
    "access": "The agent looked at what it may not, or not at what it must",
}


def verdict(name: object) -> Sign:
    """The sign of a verdict; an unknown one raises KeyError."""
    return VERDICTS[str(name)]


def verdict_of(name: object, contract: bytes) -> Sign:
    """The sign of a verdict by the contract, which may cover less than all, or be unread."""
    sign, known = verdict(name), covered(contract)
    meaning = sign.meaning
    if known.limit and sign.style == "match":
        meaning = f"{meaning.removesuffix('.')}{known.limit}."
    if not known.is_reviewed:
        meaning += f" {UNREVIEWED.capitalize()}."
    return replace(sign, meaning=meaning)


def result(name: object) -> Sign:
    """The sign of one of the three results, None where no clause speaks of it."""
    return NO_CLAUSE if name is None else VERDICTS[str(name)]


def truth(name: object) -> Sign:
    """The sign of a truth; an unknown one raises KeyError."""
    return TRUTHS[str(name)]


@dataclass(frozen=True)
class Reason:
    """The first reason of a verdict: in general, as found, and as asked."""

    lead: str = ""
    found: str = ""
    asked: str = ""
    clause: str = ""


def reason(judgement: Json) -> Reason:
    """The first reason of the verdict; empty on MATCH."""
    asked = {c["clause"]: str(c["sentence"]) for c in judgement["clauses"]}
    told = leading(judgement)
    if told is None:
        return Reason()
    failed = told["truth"] == "FAILS"
    lead = LEADS[told["stage"]] if failed else "Something needed was not observed"
    found = str(told["sentence"])
    if origin := told.get("origin"):
        found += f" (cause: {origin})"
    return Reason(lead, found, asked.get(told["clause"], ""), str(told["clause"]))


def tally(clauses: Json) -> str:
    """`2 of 8 clauses fail`, `1 of 8 clauses is unknown`, `All 8 clauses hold`."""
    truths = [clause["truth"] for clause in clauses]
    total = f"{len(truths)} clause" + ("s" if len(truths) != 1 else "")
    told = []
    if number := truths.count("FAILS"):
        told.append(f"{number} {'fails' if number == 1 else 'fail'}")
    if number := truths.count("UNKNOWN"):
        told.append(f"{number} cannot be decided")
    if not told:
        return f"All {total} hold." if len(truths) != 1 else "The one clause holds."
    return f"Of {total}, {' and '.join(told)}."
