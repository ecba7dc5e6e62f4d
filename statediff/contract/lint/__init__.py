"""Lint: what is probably wrong with a contract that is valid, with what to write instead.

1. `wording`: the document alone: reasons, inputs, prompt.
2. `truth`: clauses that can decide nothing, by themselves or over the base state.
3. `width`: what is explained and allowed.
4. `stamps`: fields that go with a mark of deletion, and that no clause explains.
5. `risk`: what is left unauthorized, labelled too lightly, or undone by no real tool.
6. `guards`: what can be undefined.
7. `observing`: what no source delivers, or ν leaves nothing of.
8. `reading`: who sees nothing, and what nobody could have looked at.
9. `prose`: tests of a part of a text, and a required text that nobody reads.
10. `products`: sets whose entities are compared pair by pair.

Every remark has a code of the `CATALOGUE`. What makes a contract invalid is said by whatever reads
or binds it; lint never decides a verdict.
"""

from __future__ import annotations

from collections.abc import Iterable

from statediff.contract.lint.base import already_there
from statediff.contract.lint.catalogue import CATALOGUE, ERROR, SEVERITIES, LintCode
from statediff.contract.lint.guards import guards
from statediff.contract.lint.observing import observing, reading
from statediff.contract.lint.pair_by_pair import products
from statediff.contract.lint.prose import prose
from statediff.contract.lint.risk import risk
from statediff.contract.lint.stamps import stamps
from statediff.contract.lint.subject import Subject
from statediff.contract.lint.truth import truth, width
from statediff.contract.lint.wording import malformed, wording
from statediff.errors import Problem

__all__ = [
    "CATALOGUE",
    "ERROR",
    "SEVERITIES",
    "LintCode",
    "Subject",
    "already_there",
    "in_order",
    "lint_contract",
    "malformed",
    "wording",
]


def lint_contract(subject: Subject) -> tuple[Problem, ...]:
    """Every remark about a bound contract, in file order, each once."""
    found: list[Problem] = list(wording(subject.source))
    for check in (truth, width, stamps, risk, guards, observing, reading, prose, products):
        found += check(subject)
    return in_order(found)


def in_order(found: Iterable[Problem]) -> tuple[Problem, ...]:
    """By place, graver first; the same thing said twice is said once."""
    return tuple(
        sorted(
            set(found),
            key=lambda p: (
                p.file,
                p.line,
                p.column,
                SEVERITIES.index(p.severity),
                p.code,
                p.message,
            ),
        )
    )
