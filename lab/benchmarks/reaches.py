"""How long `reaches` takes over 100,000 memberships: for one user, for many, and along a chain.

`python lab/benchmarks/reaches.py` prints milliseconds of the processor, the least and the median of
several runs. Each run begins with nothing kept: the columns are read and the walk is made.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import Final

from statediff.contract.evaluation.evaluate import outcomes
from statediff.contract.language.context import TRUE, EvalContext
from statediff.contract.language.names import Scope
from statediff.contract.language.parser import parse
from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.model.state import MemoryChunks, State, build_table
from statediff.model.trace import NoAnswer
from statediff.model.view import StateView

MEMBERSHIPS: Final = 100_000
GROUPS: Final = 2_000
RUNS: Final = 7
VIA: Final = (
    "[(membership.user, membership.group), (nesting.child, nesting.parent), "
    "(grant.group, grant.role)]"
)


def _type(name: str, *references: str) -> EntityType:
    fields = [
        Field(f, Kind.INT, is_nullable=False, reference=to)
        for f, _, to in (r.partition(":") for r in references)
    ]
    return EntityType(name, ("id",), (Field("id", Kind.INT, is_nullable=False), *fields))


SCHEMA: Final = Schema(
    "benchmark",
    "1",
    (
        _type("grant", "group:group", "role:role"),
        _type("group"),
        _type("membership", "user:user", "group:group", "after:membership"),
        _type("nesting", "child:group", "parent:group"),
        _type("role"),
        _type("user"),
    ),
)


def view(memberships: int) -> StateView:
    """Users in groups, groups in a chain of ten after each other, and a role at its end."""
    users = memberships // 2
    tables = {
        "user": [{"id": n} for n in range(users)],
        "group": [{"id": n} for n in range(GROUPS)],
        "role": [{"id": 1}],
        "membership": [
            {"id": n, "user": n % users, "group": n * 7919 % GROUPS, "after": max(n - 1, 0)}
            for n in range(memberships)
        ],
        "nesting": [{"id": n, "child": n, "parent": n // 2} for n in range(1, GROUPS)],
        "grant": [{"id": 1, "group": 0, "role": 1}],
    }
    store = MemoryChunks()
    built = {t.name: build_table(t, tables[t.name], store) for t in SCHEMA.types}
    return StateView(State(SCHEMA, built))


def measure(state: StateView, text: str) -> list[float]:
    """Milliseconds of each run of the expression, which holds."""
    node = parse(text, Scope(SCHEMA))
    found = []
    for _ in range(RUNS):
        context = EvalContext(
            state, state, NoAnswer("none"), fields_of=lambda t: tuple(SCHEMA.by_name[t].by_name)
        )
        begin = time.process_time()
        mask = outcomes(node, context, {})
        found.append((time.process_time() - begin) * 1_000)
        if mask != TRUE:
            raise SystemExit(f"not what was built: {text}")
    return found


def main() -> None:
    """Print both figures."""
    state = view(MEMBERSHIPS)
    many = f"all(reaches(u, after.role[1], via={VIA}) for u in after.user if u.id < 1000)"
    for what, text in (
        ("one user", f"reaches(after.user[49999], after.role[1], via={VIA})"),
        ("1,000 of 50,000 users", many),
        (
            "a chain of 100,000 hops",
            "reaches(after.membership[99999], after.membership[0], via=[membership.after])",
        ),
    ):
        times = measure(state, text)
        least, median = min(times), statistics.median(times)
        found = f"{least:.0f} ms least, {median:.0f} ms median"
        sys.stdout.write(f"{what} over {MEMBERSHIPS:,} memberships: {found}\n")


if __name__ == "__main__":
    main()
