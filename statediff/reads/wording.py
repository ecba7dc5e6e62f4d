"""How a question is put into words: neutral as to its answer, whoever writes it [GE §5.4].

A writer is given a `Scaffold`, which holds no label and nothing that depends on one. What it writes
is checked, and after `ATTEMPTS` refusals a fixed template stands in.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from statediff.reads.questions import Track

ATTEMPTS: Final = 3
MAX_WORDS: Final = 120
_NORMATIVE: Final = re.compile(
    r"\b(?:should(?:n't| not)? have|failed to|forgot to|neglected|obviously|clearly|of course|"
    r"despite|correct(?:ly)? answer|in fact|actually|never)\b",
    re.IGNORECASE,
)
_TEMPLATES: Final = {
    Track.PERSPECTIVE: (
        "Based only on what {actor} had access to as of {date}, could {actor} have known about "
        "this: {what}?"
    ),
    Track.COUNTERFACTUAL: (
        "Suppose that {premise}. Would {outcome} all the same? Name the mechanism, and the events "
        "of cause and effect."
    ),
    Track.SILENCE: "Acting for {actor}, as of {date}: {what}",
}


@dataclass(frozen=True)
class Scaffold:
    """All that a writer may use: what the question is about, never what its answer is."""

    track: Track
    actor: str
    date: str
    what: str
    premise: str = ""
    outcome: str = ""


Writer = Callable[[Scaffold, int], str]
"""Words for a scaffold, at the given attempt (from 0)."""


def template(scaffold: Scaffold) -> str:
    """The fixed words."""
    return _TEMPLATES[scaffold.track].format(
        actor=scaffold.actor, date=scaffold.date, what=scaffold.what, premise=scaffold.premise,
        outcome=scaffold.outcome,
    )  # fmt: skip


def refused(text: str, scaffold: Scaffold, secrets: frozenset[str]) -> str | None:
    """Why the words may not be used; None if they may. `secrets` belong to the truth."""
    folded = text.casefold()
    if not text.strip() or len(text.split()) > MAX_WORDS or not text.rstrip().endswith(("?", ".")):
        return f"expected a question of at most {MAX_WORDS} words"
    for secret in sorted(secrets):
        if re.search(rf"(?<!\w){re.escape(secret.casefold())}(?!\w)", folded):
            return f"it names {secret!r}, which belongs to the answer"
    if found := _NORMATIVE.search(text):
        return f"it leans towards an answer: {found[0]!r}"
    if scaffold.track is Track.COUNTERFACTUAL and _circular(folded, scaffold):
        return "it states premise and outcome as one, so that it answers itself"
    if scaffold.actor.casefold() not in folded and scaffold.track is not Track.COUNTERFACTUAL:
        return f"it does not say who is asked about, {scaffold.actor!r}"
    return None


def worded(scaffold: Scaffold, secrets: frozenset[str], writer: Writer | None = None) -> str:
    """The words of a question: the writer's if they pass, else the template."""
    if writer is not None:
        for attempt in range(ATTEMPTS):
            text = writer(scaffold, attempt)
            if refused(text, scaffold, secrets) is None:
                return text.strip()
    return template(scaffold)


def _circular(folded: str, scaffold: Scaffold) -> bool:
    premise, outcome = scaffold.premise.casefold(), scaffold.outcome.casefold()
    return bool(premise) and (premise == outcome or folded.count(premise) > 1)
