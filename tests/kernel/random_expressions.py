"""Random typed expressions over random states with nulls, unobserved cells and cut enumerations.

The specification and the judge's evaluator, by rows and by columns, must have one set of truths for
each; and the truth in every completion that is tried must be in that set.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from statediff.contract.evaluation.by_run import settled
from statediff.contract.evaluation.evaluate import outcomes
from statediff.contract.language.context import TRUE, UNDEFINED, EvalContext
from statediff.contract.language.kinds import ExpressionError
from statediff.contract.language.names import Scope
from statediff.contract.language.parser import parse
from statediff.contract.language.syntax import Call, Node, Reaches, footprint, walk
from statediff.kernel.diff import diff
from statediff.kernel.policy.matching import JudgingContext
from statediff.kernel.spec.changes import changes_of
from statediff.kernel.spec.clauses import Case
from statediff.kernel.spec.expressions import Eval
from statediff.kernel.spec.values import World
from statediff.model.delta import Diff
from statediff.model.readings import Timeline
from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.model.state import Coverage, Enumeration, MemoryChunks, State, build_table
from statediff.model.values import Digested, Key, Map, Observed, Unobserved
from statediff.model.view import StateView, View
from tests.kernel.differential import Rows

USER = EntityType(
    "user",
    ("id",),
    (
        Field("id", Kind.INT, is_nullable=False),
        Field("org", Kind.INT),
        Field("name", Kind.TEXT, is_nullable=False),
        Field("ok", Kind.BOOL, is_nullable=False),
        Field("boss", Kind.INT, reference="user"),
    ),
)
ORDER = EntityType(
    "order",
    ("id",),
    (
        Field("id", Kind.INT, is_nullable=False),
        Field("user", Kind.INT, reference="user"),
        Field("agent", Kind.INT, reference="user"),
        Field("total", Kind.INT),
        Field("status", Kind.TEXT),
        Field("data", Kind.ANY),
        Field("tags", Kind.LIST, is_nullable=False),
        Field("at", Kind.TIMESTAMP),
    ),
)
TYPES = (ORDER, USER)
SCHEMA = Schema("random", "1", TYPES, ())
ANSWERED: Mapping[str, Observed] = {"number": 1, "text": "a", "unclear": 1}
UNCLEAR: Mapping[str, Observed] = {**ANSWERED, "unclear": Unobserved("two numbers")}
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
RUN = Timeline(agent_started_at=NOON, agent_finished_at=NOON + timedelta(minutes=1))
VALUES: Mapping[str, list[Any]] = {
    "org": [0, 1, 2],
    "name": ["a", "b", "ab", "2026-01-31"],
    "ok": [True, False],
    "boss": [0, 1, 2, 7],
    "user": [0, 1, 2, 7],
    "agent": [0, 1, 2],
    "total": [-1, 0, 1, 5],
    "status": ["open", "closed", "a"],
    "data": [1, "a", Map.of({"n": 1}), Map.of({"n": None}), Map.of({"n": "a", "m": (1, 2)})],
    "tags": [(), ("a",), ("a", "b"), ("b", "a", "a")],
    "at": [NOON, NOON + timedelta(seconds=1), NOON + timedelta(minutes=5, microseconds=1)],
}
TEXT_TESTS = ("contains", "mentions", "starts_with", "ends_with")
Data = dict[str, list[dict[str, Observed]]]


class _ByRows:
    """A view that shows no columns."""

    def __init__(self, view: View) -> None:
        self._view = view

    @property
    def schema(self) -> Schema:
        return self._view.schema

    def enumeration(self, name: str) -> Enumeration:
        return self._view.enumeration(name)

    def row(self, name: str, key: Key) -> Any:
        return self._view.row(name, key)

    def rows(self, name: str, fields: tuple[str, ...]) -> Iterator[Any]:
        return self._view.rows(name, fields)


@dataclass
class Draw:
    """Draws states and expressions from one source of chance."""

    chance: random.Random
    variables: int = 0
    unseen: float = 0.13
    """The share of cells that nobody has seen, of states that have any."""
    unread: float = 0.05
    """The share of texts of which the digest alone is known."""

    def cell(self, spec: Field, odd: bool) -> Observed:
        drawn = self.chance.random()
        if odd and drawn < self.unseen:
            return Unobserved("not seen")
        if odd and drawn < self.unseen + self.unread and spec.kind is Kind.TEXT:
            return Digested.of(self.chance.choice(VALUES[spec.name]))
        if spec.is_nullable and drawn < 0.35:
            return None
        return self.chance.choice(VALUES[spec.name])

    def rows(self, entity: EntityType, number: int, odd: bool) -> list[dict[str, Observed]]:
        others = [spec for spec in entity.fields if spec.name != "id"]
        return [{"id": n, **{s.name: self.cell(s, odd) for s in others}} for n in range(number)]

    def pair(self, odd: bool) -> tuple[Data, Data]:
        """Two states that mostly agree, so that few rows change."""
        before = {e.name: self.rows(e, self.chance.randrange(4), odd) for e in TYPES}
        after: Data = {name: [dict(row) for row in rows] for name, rows in before.items()}
        for entity in TYPES:
            for row in after[entity.name]:
                if self.chance.random() < 0.4:
                    spec = self.chance.choice(entity.fields[1:])
                    row[spec.name] = self.cell(spec, odd)
            if self.chance.random() < 0.3:
                after[entity.name] = self.rows(entity, self.chance.randrange(4), odd)
        return before, after

    def completed(self, data: Data, gaps: list[str]) -> Data:
        """A state of which all is known that the other one may be."""
        found: Data = {}
        for entity in TYPES:
            found[entity.name] = [
                {name: self._known(entity.by_name[name], cell) for name, cell in row.items()}
                for row in data[entity.name]
            ]
            if entity.name in gaps:
                more = self.rows(entity, self.chance.randrange(3), odd=False)
                at = len(data[entity.name]) + self.chance.randrange(2)
                found[entity.name] += [{**row, "id": at + n} for n, row in enumerate(more)]
        return found

    def _known(self, spec: Field, cell: Observed) -> Observed:
        if isinstance(cell, Digested):
            return next(v for v in VALUES[spec.name] if Digested.of(v) == cell)
        if not isinstance(cell, Unobserved):
            return cell
        return self.chance.choice([*VALUES[spec.name], *([None] if spec.is_nullable else [])])

    # ------------------------------------------------------------ expressions

    def pick(self, *options: str) -> str:
        return self.chance.choice(options)

    def number(self, of: tuple[str, str] | None, depth: int) -> str:
        options = [str(self.chance.choice([-1, 0, 1, 2, 5])), "answer.number", "input.wanted"]
        if of is not None:
            name, kind = of
            own = ("total", "user.org") if kind == "order" else ("org", "boss.org")
            options += [f"{name}.{each}" for each in (*own, "id")] * 2
            options += [
                f"after.user[{name}.id].org",
                f"len({name}.{'tags' if kind == 'order' else 'name'})",
            ]
        if depth > 0:
            one, two = self.number(of, depth - 1), self.number(of, depth - 1)
            options += [f"({one} {self.pick('+', '-', '*', '/', '%')} {two})"]
            options += [self.aggregate(depth - 1), self.aggregate(depth - 1)]
        return self.chance.choice(options)

    def text(self, of: tuple[str, str] | None, depth: int = 0) -> str:
        options = ['"open"', '"a"', "answer.text"]
        if of is not None and of[1] == "order":
            options += [f"{of[0]}.status", f"{of[0]}.user.name", f"{of[0]}.tags[0]"]
        elif of is not None:
            options += [f"{of[0]}.name", f"{of[0]}.boss.name"]
        if depth > 0:
            options += [f"lower({self.text(of)})", f"({self.text(of)} + {self.text(of)})"]
        return self.chance.choice(options)

    def loop(self, depth: int) -> tuple[tuple[str, str], str]:
        self.variables += 1
        kind = self.pick("order", "user")
        root = self.pick("before", "after", "before", "after", "created", "updated", "deleted")
        of = (f"v{self.variables}", kind)
        test = f" if {self.condition(of, depth - 1)}" if self.chance.random() < 0.5 else ""
        if depth > 1 and self.chance.random() < 0.2:
            outer, (of, more) = of[0], self.loop(depth - 1)
            return of, f"for {outer} in {root}.{kind}{test} {more}"
        return of, f"for {of[0]} in {root}.{kind}{test}"

    def aggregate(self, depth: int) -> str:
        of, loops = self.loop(depth)
        name = self.pick("count", "sum", "max", "min")
        return (
            f"count({of[0]} {loops})"
            if name == "count"
            else f"{name}({self.number(of, 0)} {loops})"
        )

    def condition(self, of: tuple[str, str] | None, depth: int) -> str:
        drawn = self.chance.random()
        if depth <= 0 or drawn < 0.35:
            return self._leaf(of, depth)
        if drawn < 0.5:
            one, two = self.condition(of, depth - 1), self.condition(of, depth - 1)
            return f"({one} {self.pick('and', 'or')} {two})"
        if drawn < 0.57:
            return f"not ({self.condition(of, depth - 1)})"
        inner, loops = self.loop(depth)
        if drawn < 0.64:
            return f"unique({self.number(inner, 0)} {loops})"
        if drawn < 0.68:
            listed = self.pick("[1, 2]", f"(v.id for v in {self.pick('before', 'after')}.user)")
            return f"same_items(({self.number(inner, 0)} {loops}), {listed})"
        if of is not None and drawn < 0.85:
            left, right = self.pick("id", "user" if inner[1] == "order" else "boss"), "id"
            tie = f"{inner[0]}.{left} == {of[0]}.{right}"
            return (
                f"{self.pick('all', 'any')}({tie} and {self.condition(inner, depth - 1)} {loops})"
            )
        return f"{self.pick('all', 'any')}({self.condition(inner, depth - 1)} {loops})"

    def _leaf(self, of: tuple[str, str] | None, depth: int) -> str:
        compare = self.pick("==", "!=", "<", "<=", ">", ">=")
        one, two = self.number(of, depth), self.number(of, depth)
        options = [f"{one} {compare} {two}"] * 4
        options += [f"{self.text(of, 1)} {self.pick('==', '!=', '<')} {self.text(of)}"] * 2
        options += [f"within({one}, {two}, 1)", f"{one} in [{two}, 1]", "answer.unclear == 1"]
        options += [
            f"{self.pick(*TEXT_TESTS)}({self.text(of)}, {self.text(of)})",
        ]
        options += [
            f'{self.pick("matches", "search")}({self.text(of)}, "a|o.*")',
            f"count({self.text(of)}, {self.text(of)}) == 1",
        ]
        options += ["before.user[0].id in after.user", "exists(after.order[input.wanted])"]
        if of is None:
            return self.chance.choice(options)
        name, kind = of
        if kind == "user":
            options += [f"{name}.ok", f"{name}.org == null", f"exists(after.user[{name}.boss])"]
            options += [
                f"{name}.boss {self.pick('in', 'not in')} {self.pick('before', 'after')}.user"
            ]
            options += [f"reaches({name}, after.user[1], via=[user.boss])"]
            options += [f"reaches({name}, {name}.boss, via=[user.boss, (order.user, order.agent)])"]
            options += [f'date({name}.name) < date("2026-02-01")']
        else:
            options += [
                f"{name}.total {self.pick('==', '!=')} null",
                f"exists(before.user[{name}.user])",
            ]
            options += [f"reaches({name}, after.user[1], via=[order.user, user.boss])"]
            options += [f"{name}.data.n == 1", f"{name}.data.m[0] == 1", f"{name}.data == 1"]
            options += [
                f'"a" in {name}.tags',
                f'{name}.tags == ["a"]',
                f'{name}.tags[{one}] == "a"',
            ]
            other = self.pick(
                "before.order[0].at", "run.start", "run.end", '"2026-01-31T12:00:01Z"'
            )
            options += [
                f"{name}.at {compare} {other}",
                f"{name}.at - {other} {compare} {two}",
                f'within({name}.at, {other}, "{self.pick("0s", "1s", "1m")}")',
            ]
            options += [f'same_items({name}.tags, ["a", "b"])', f"{name}.user == {two}"]
            options += [f'any(t == "a" for t in {name}.tags)', f"{name} == {one}"]
        return self.chance.choice(options)


def state_of(data: Data, gaps: list[str]) -> State:
    """The rows as a state; of `gaps` there may be others."""
    store = MemoryChunks()

    def table(entity: EntityType) -> Any:
        cut = Enumeration(Coverage.INCOMPLETE, "cut") if entity.name in gaps else None
        coverage = cut or Enumeration(Coverage.COMPLETE)
        return build_table(entity, data[entity.name], store, enumeration=coverage)

    return State(SCHEMA, {entity.name: table(entity) for entity in TYPES})


@dataclass(frozen=True)
class Sides:
    """Two states and their difference."""

    before: State
    after: State
    found: Diff
    answer: Mapping[str, Observed]

    @staticmethod
    def of(pair: tuple[Data, Data], gaps: list[str], answer: Mapping[str, Observed]) -> Sides:
        before, after = (state_of(data, gaps) for data in pair)
        return Sides(before, after, diff(before, after), answer)

    def context(self, node: Node, wrap: Callable[[View], Any]) -> EvalContext:
        """The context in which the judge evaluates."""
        views = wrap(StateView(self.before)), wrap(StateView(self.after))
        changes = self.found.deltas, self.found.doubts
        judging = JudgingContext(*views, *changes, self.answer, timeline=RUN)
        return judging.eval_context(footprint(node))

    def world(self) -> World:
        """The world in which the specification evaluates."""
        states = {"before": Rows(StateView(self.before)), "after": Rows(StateView(self.after))}
        net = changes_of(self.found.deltas)
        case = Case(
            world=World(states, self.answer, timeline=RUN),
            schema=SCHEMA,
            changes=net,
            everything=net,
            doubts=self.found.doubts,
            made_by=lambda _delta, _principal: 3,
        )
        return World(states, self.answer, case.crowds(), timeline=RUN)


SCOPE = Scope(SCHEMA, {"wanted": 1}, {"number": "int", "text": "text", "unclear": "int"}, {})


@dataclass
class Figures:
    """How much was tried, and what was wrong."""

    expressions: int = 0
    decided: int = 0
    undefined: int = 0
    by_run: int = 0
    unread: int = 0
    completions: int = 0
    functions: set[str] = field(default_factory=set)
    differ: list[Any] = field(default_factory=list)
    unsound: list[Any] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.expressions} random expressions ({self.decided} decided, {self.undefined} "
            f"undefined, {self.by_run} by the run, {self.unread} of them unread), "
            f"{self.completions} completions: {len(self.differ)} differ, "
            f"{len(self.unsound)} unsound"
        )


def tried(number: int, seed: int) -> Figures:
    """So many random expressions, each over states drawn anew every tenth time."""
    draw, figures = Draw(random.Random(seed)), Figures()
    while figures.expressions < number:
        odd = draw.chance.random() < 0.6
        draw.unseen, draw.unread = draw.chance.choice(((0.0, 0.5), (0.13, 0.05)))
        gaps = [e.name for e in TYPES if odd and draw.chance.random() < 2 * draw.unseen]
        pair = draw.pair(odd)
        sides = Sides.of(pair, gaps, UNCLEAR if odd else ANSWERED)
        others = [
            Sides.of((draw.completed(pair[0], gaps), draw.completed(pair[1], gaps)), [], ANSWERED)
            for _ in range(3 * odd)
        ]
        for _ in range(10):
            text = draw.condition(None, 3)
            try:
                node = parse(text, SCOPE)
            except ExpressionError:
                continue
            figures.expressions += 1
            figures.functions |= {p.name for p in walk(node) if isinstance(p, Call)}
            figures.functions |= {"reaches" for p in walk(node) if isinstance(p, Reaches)}
            mine = Eval(sides.world()).truths(node)
            figures.decided += mine in (1, 2)
            figures.undefined += mine == UNDEFINED
            by_columns = outcomes(node, sides.context(node, lambda view: view), {})
            by_rows = outcomes(node, sides.context(node, _ByRows), {})
            alone = replace(sides.context(node, lambda view: view), trail=None)
            if not mine == by_columns == by_rows == outcomes(node, alone, {}):
                figures.differ.append((text, mine, by_columns, by_rows, pair, gaps))
            blamed = settled(mine, TRUE, node, alone, {})
            figures.by_run += blamed != mine
            figures.unread += blamed != mine != UNDEFINED
            if blamed != Eval(sides.world()).settled(node, TRUE):
                figures.differ.append((text, "by run", blamed, pair, gaps))
            for whole in others:
                figures.completions += 1
                truth = Eval(whole.world()).truths(node)
                if truth & ~mine or truth not in (1, 2, 4):
                    figures.unsound.append((text, mine, truth, pair, gaps))
    return figures
