"""The kinds `forbid`, `require` and `allow`; their clauses are those of `patterns.py`.

A kind of another name whose clauses are bound to a `Pattern` or a `Condition` needs no judging of
its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

from statediff.contract.clauses.kind import RELATIONS, Binder, ClauseKind, JudgedAs
from statediff.contract.clauses.patterns import Clauses, Condition, Pattern, bind_clauses
from statediff.model.verdict import Stage


def _bind(
    section: str, stage: Stage | None, binder: Binder, clauses: Clauses
) -> Iterable[Pattern | Condition]:
    return bind_clauses(binder, (section,), stage, clauses)


def _kind(section: str, stage: Stage | None, judged: JudgedAs, heading: str) -> ClauseKind:
    operations = ("create", "update", "delete", *RELATIONS, "any")
    which = ("by", "where", "from", "set", "fields")
    counted = ("count", "min", "max", "that", "during", "distinct", "cascade")
    return ClauseKind(
        name=section,
        sections=(section,),
        judged=judged,
        bind=partial(_bind, section, stage),
        keys=("id", *operations, *which, *counted),
        heading=heading,
        listed=(section,),
        attributes={"node": "that", "sets": "set", "froms": "from"},
        can_fail=stage is not None,
        must_hold=stage is Stage.REQUIRE,
    )


FORBID: Final = _kind("forbid", Stage.FORBID, JudgedAs.FORBIDDEN, "Forbidden")
REQUIRE: Final = _kind("require", Stage.REQUIRE, JudgedAs.REQUIRED, "Required")
ALLOW: Final = _kind("allow", None, JudgedAs.ALLOWED, "Everything else")
