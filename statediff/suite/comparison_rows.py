"""What `compare` reads of two runs: their trials, or those of which there is something to say.

Most cases of two runs passed in both, under the same contract and kernel, with nothing that does
not hold: all there is to say of them is how many there are. The store's database counts those.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from statediff.suite.records import Ended, Loose, Side
from statediff.suite.store import ENDS, Store, loose_by_trial
from statediff.suite.tables import FINDINGS, TRIALS

_COLUMNS: Final = Side._fields[:-1]
_CONTRACT: Final = _COLUMNS.index("contract")


@dataclass(frozen=True)
class Part:
    """The trials of a run, or those of them that one agent made."""

    run: str
    agent: str | None = None

    def of(self, table: sa.FromClause) -> sa.ColumnElement[bool]:
        """Whether a row of trials is one of its."""
        mine = table.c.run == self.run
        return mine if self.agent is None else mine & (table.c.agent == self.agent)


@dataclass(frozen=True)
class Sides:
    """Two parts, without the cases that passed in both and of which nothing else is to be said."""

    a: list[Side]
    b: list[Side]
    alike: Mapping[str, int]
    """By contract, how many such cases were left out."""


def agents(store: Store, run: str) -> list[str]:
    """Who made the run's trials, as far as that was told, in order."""
    wanted = sa.select(TRIALS.c.agent).distinct().where(TRIALS.c.run == run, TRIALS.c.agent != "")
    return sorted(agent for (agent,) in store.rows(wanted))


def whole(store: Store, part: Part) -> list[Side]:
    """Every trial of the part, in no order, with what does not hold in it."""
    rows, loose = store.at_once(sa.select(*_columns(TRIALS)).where(part.of(TRIALS)), _loose(part))
    return _sides(rows, loose)


def apart(store: Store, a: Part, b: Part, kept: int) -> Sides:
    """The two parts, as they were at one moment.

    The first `kept` cases, by contract and number, that could be left out are not. Nothing is
    left out where a part has a case twice: it is the comparison that refuses that.
    """
    one, other = TRIALS.alias("one"), TRIALS.alias("other")
    partners = sa.and_(
        b.of(other), one.c.contract == other.c.contract, one.c.number == other.c.number
    )  # fmt: skip
    alike = sa.and_(_is_passed(one), _is_passed(other), _is_like(one, other))
    pair = sa.select(*_columns(one), *_columns(other))
    number, unlike, lone, first, my_loose, its_loose, *twice = store.at_once(
        sa.select(one.c.contract, sa.func.count()).where(a.of(one)).group_by(one.c.contract),
        pair.select_from(one.outerjoin(other, partners))
        .where(a.of(one), sa.or_(other.c.name.is_(None), ~alike)),
        sa.select(*_columns(other)).where(b.of(other), ~sa.exists().where(a.of(one), partners)),
        pair.where(a.of(one), partners, alike)
        .order_by(store.in_order(one.c.contract), one.c.number).limit(kept),
        _loose(a), _loose(b), _twice(a), _twice(b),
    )  # fmt: skip
    if any(twice):
        return Sides(whole(store, a), whole(store, b), {})
    pairs, middle = [*unlike, *first], len(_COLUMNS)
    left = Counter(dict(number))
    left.subtract(row[_CONTRACT] for row in pairs)
    return Sides(
        _sides((row[:middle] for row in pairs), my_loose),
        _sides([*lone, *(row[middle:] for row in pairs if row[middle] is not None)], its_loose),
        {contract: count for contract, count in left.items() if count},
    )


def _columns(table: sa.FromClause) -> list[sa.ColumnElement[Any]]:
    return [table.c[name] for name in _COLUMNS]


def _is_like(one: sa.FromClause, other: sa.FromClause) -> sa.ColumnElement[bool]:
    # Not as three equations: by these SQLite would look through all trials of a contract.
    return ~sa.or_(*(one.c[name] != other.c[name] for name in ("version", "digest", "kernel")))


def _is_passed(trial: sa.FromClause) -> sa.ColumnElement[bool]:
    """Whether it passed, and nothing is to be told of it."""
    told = sa.exists().where(FINDINGS.c.run == trial.c.run, FINDINGS.c.trial == trial.c.name)
    # Of the trial that is asked about, however deep the question stands in another one.
    return sa.and_(trial.c.ended == Ended.MATCH.value, ~told.correlate(trial))


def _twice(part: Part) -> sa.Select[Any]:
    """Whether a case is there twice."""
    return (
        sa.select(sa.literal(1)).select_from(TRIALS)
        .where(part.of(TRIALS), TRIALS.c.number.is_not(None))
        .group_by(TRIALS.c.contract, TRIALS.c.number).having(sa.func.count() > 1).limit(1)
    )  # fmt: skip


def _loose(part: Part) -> sa.Select[Any]:
    wanted = sa.select(*FINDINGS.c).where(FINDINGS.c.run == part.run)
    return wanted.order_by(FINDINGS.c.trial, FINDINGS.c.at)


def _sides(rows: Iterable[Sequence[Any]], found: Iterable[Sequence[Any]]) -> list[Side]:
    loose: Mapping[str, tuple[Loose, ...]] = loose_by_trial(found)
    return [Side._make((row[0], ENDS[row[1]], *row[2:], loose.get(row[0], ()))) for row in rows]
