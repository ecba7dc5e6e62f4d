"""Changes that an `allow` permits and that no reference needs: how much of them the clause pins.

An allow clause that some reference uses is tried by the faults around that use. One that none uses
permits something all the same. For each of its types and operations a change is made that the
clause covers, by its own equalities first and else by what the state holds; it is what a careful
author means, and must MATCH. Then one thing of it after the other is made otherwise:

1. each value that the change writes is another one of the same column;
2. the change is made twice: to another entity that the clause covers, or to one more.

What still gets MATCH shows the clause too loose; what does not is pinned, by this clause or by
another one. A clause that pins all it permits leaves nothing to survive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import Final, cast

from statediff.contract.clauses.patterns import Pattern
from statediff.contract.evaluation.evaluate import evaluate, outcomes
from statediff.contract.evaluation.operations import settle
from statediff.contract.language.context import (
    TRUE,
    EntityRef,
    EntitySet,
    EvalContext,
    Undefined,
    Unknown,
)
from statediff.contract.language.syntax import (
    Compare,
    EntityT,
    FieldOf,
    Follow,
    Items,
    Node,
    Or,
    Read,
    Variable,
    walk,
)
from statediff.contract.language.written import conjuncts
from statediff.contract.lint.truth import conditions
from statediff.errors import ContractError
from statediff.kernel import context_of
from statediff.meta.reference import Change
from statediff.meta.world import (
    Fault,
    World,
    drop,
    fresh_key,
    in_turn,
    invent_row,
    put,
    value_elsewhere,
    with_key,
)
from statediff.model.batches import Row
from statediff.model.delta import Op, key_name
from statediff.model.schema import EntityType, Field
from statediff.model.values import ABSENT, Key, Observed, Value, same
from statediff.model.verdict import Verdict

MAX_ROWS: Final = 200
"""Rows of a type that are asked for one that the clause covers."""
MAX_LIKES: Final = 10
"""Rows that a created one is made like."""
MAX_WAYS: Final = 32
"""Ways to satisfy the alternatives of a condition."""
MAX_VALUES: Final = 50
"""Values of a column that are tried for a condition that no equality satisfies."""
NEEDLESS: Final = "allow clauses that no reference needs"
BY: Final = "the clause asks who made the change"
UNMADE: Final = "no change was found that it permits and that the rest of the contract lets pass"
INSIDE: Final = "the clause selects places inside a value"
_VERBS: Final = {Op.UPDATE: "updates", Op.CREATE: "creates", Op.LINK: "links"}


def permitted_changes(world: World) -> Iterator[Fault]:
    """The changes that allow clauses which no reference needs let through."""
    run = world.reference
    context = context_of(world.compiled, run.before, run.after) if world.unused else None
    for pattern in world.unused:
        if context is None or pattern.places or pattern.by is not None:
            world.leave(NEEDLESS, INSIDE if pattern.places else BY)
            continue
        is_made = False
        for entity in (each for each in world.types if each.name in pattern.types):
            for operation in _operations(pattern, entity):
                seeder = _Permitted(world, pattern, entity, operation, context.eval_context)
                edits = seeder.edits()
                is_made |= bool(edits)
                yield from seeder.faults(*edits[:1], others=edits[1:])
        if not is_made:
            world.leave(NEEDLESS, UNMADE)


def _operations(pattern: Pattern, entity: EntityType) -> tuple[Op, ...]:
    come, go = (Op.LINK, Op.UNLINK) if entity.is_association else (Op.CREATE, Op.DELETE)
    return tuple(op for op in (come, Op.UPDATE, go) if op in pattern.operations)


@dataclass(frozen=True)
class _Edit:
    """One entity that the clause covers being changed; a side None where it is not there."""

    key: Key
    before: Row | None
    after: Row | None

    @property
    def change(self) -> Change:
        return drop(self.key) if self.after is None else put(self.key, self.after)


@dataclass(frozen=True)
class _Permitted:
    """One operation of one clause on one type."""

    world: World
    pattern: Pattern
    entity: EntityType
    operation: Op
    fresh: Callable[[frozenset[Read]], EvalContext]

    def edits(self) -> tuple[_Edit, ...]:
        """A change that the clause covers and the contract lets pass, and another it covers."""
        found = list(islice(self._covered(), 2))
        passing = [edit for edit in found if self._passes(edit)][:1]
        return (*passing, *(edit for edit in found if edit not in passing)) if passing else ()

    def faults(self, *plain: _Edit, others: tuple[_Edit, ...]) -> Iterator[Fault]:
        """The change with one thing of it made otherwise; none where there is no change."""
        for edit in plain:
            name = f"{self.entity.name} {key_name(edit.key)}"
            verb = _VERBS.get(self.operation, "deletes")
            said = f"the run {verb} {name}, as `{self.pattern.id}` permits; "
            row = edit.after or {}
            for field in self._written(edit):
                value = value_elsewhere(self.world, self.entity, field, row, edit.before)
                if value is None:
                    self.world.leave("values that an allow clause permits", "there is no other")
                    continue
                altered = replace(edit, after={**row, field.name: value})
                target = f"{self.entity.name}.{field.name}"
                sentence = f"{said}{field.name} has another value"
                yield self._fault("permitted-value", target, sentence, altered)
            for other in others:
                sentence = f"{said}{key_name(other.key)} as well"
                yield self._fault("permitted-again", self.entity.name, sentence, edit, other)

    def _fault(self, operator: str, target: str, sentence: str, *edits: _Edit) -> Fault:
        change = in_turn(*(edit.change for edit in edits))
        made = self.world.faulty(operator, target, sentence, {self.entity.name: change})
        return replace(made, clause=self.pattern.id)

    def _passes(self, edit: _Edit) -> bool:
        """True if the clause explains the change, and the whole contract lets it pass."""
        try:
            judgement = self._fault("", "", "", edit).mutant.judged()
        except ContractError:
            return False
        return judgement.verdict is Verdict.MATCH and any(
            self.pattern.id in clauses for _, clauses in judgement.explained_by
        )

    def _written(self, edit: _Edit) -> Iterator[Field]:
        """The values that the change writes: all of a created entity, else the new ones."""
        for field in self.world.fields(self.entity) if edit.after is not None else ():
            if field.name == self.entity.deleted_when:
                continue
            written = (edit.after or {})[field.name]
            if edit.before is not None and same(written, edit.before[field.name]):
                continue
            if written is not ABSENT:
                yield field

    # ---------------------------------------------------------------- what the clause covers

    def _covered(self) -> Iterator[_Edit]:
        """Changes that the clause's own conditions hold of, as far as they are found."""
        world, entity = self.world, self.entity
        rows = world.untouched(entity)
        taken = world.reference.rows(entity.name)
        if self.operation in (Op.CREATE, Op.LINK):
            likes = [dict(rows[key]) for key in sorted(rows, key=repr)[:MAX_LIKES]]
            keys = set(taken)
            for like in (likes or [dict(invent_row(entity))]) * 2:
                made = self._solved(None, like)
                made = None if made is None else self._under_a_free_key(made, keys)
                if made is not None:
                    key = (len(keys), "permitted") if entity.is_keyless else self._key(made)
                    keys.add(key)
                    yield _Edit(key, None, made)
            return
        for key in sorted(rows, key=repr)[:MAX_ROWS]:
            row = rows[key]
            if self.operation is not Op.UPDATE:
                if self._holds(row, None):
                    yield _Edit(key, row, None)
                continue
            after = self._updated(row)
            if after is not None:
                yield _Edit(key, row, after)

    def _key(self, row: Row) -> Key:
        return tuple(cast(Value, row[name]) for name in self.entity.key)

    def _under_a_free_key(
        self, row: dict[str, Observed], taken: set[Key]
    ) -> dict[str, Observed] | None:
        """The row under a key that no entity has; of a link, between entities that there are."""
        entity = self.entity
        if entity.is_keyless:
            return row
        if self.operation is Op.CREATE:
            return dict(with_key(entity, row, fresh_key(entity, taken, self._key(row))))
        columns = [(row[name], *self._column(entity.by_name[name])) for name in entity.key]
        for parts in islice(product(*columns), MAX_ROWS):
            made = {**row, **dict(zip(entity.key, parts, strict=True))}
            if self._key(made) not in taken and self._holds(None, made):
                return made
        return None

    def _updated(self, row: Row) -> Row | None:
        """The row with a change that the clause selects and covers."""
        made = self._solved(row, dict(row))
        if made is not None:
            return made
        relation, _, own = (self.pattern.relation or "").partition(":")
        for field in self.world.fields(self.entity):
            selected = self.pattern.fields is None or field.name in self.pattern.fields
            if not selected or field.name == self.entity.deleted_when or field.is_immutable:
                continue
            value = value_elsewhere(self.world, self.entity, field, row)
            if relation and (field.name != own or (relation != "link" and row[own] is None)):
                continue
            if value is None and relation != "unlink":
                continue
            made = {**row, field.name: None if relation == "unlink" else value}
            if self._holds(row, made):
                return made
        return None

    def _solved(self, before: Row | None, start: dict[str, Observed]) -> dict[str, Observed] | None:
        """The row after, made from `start`, of which every condition holds; None if none is."""
        every = conditions(self.pattern, self.entity.name)
        given = [n for n in every if not any(self._own_field(part, before) for part in walk(n))]
        if not all(self._is_true(node, before, start) for node in given):
            return None
        choices = [_choices(node) for node in every]
        for way in islice(product(*choices), MAX_WAYS):
            row = self._searched(before, self._fixed(before, dict(start), way), every)
            is_changed = row is not None and not (before and _alike(before, row))
            if row is not None and is_changed and self._selects(before, row):
                return row
        return None

    def _fixed(
        self, before: Row | None, row: dict[str, Observed], way: tuple[Node, ...]
    ) -> dict[str, Observed]:
        """The row with what the conditions say it equals."""
        for node in (inner for part in way for inner in conjuncts(part)):
            if not isinstance(node, Compare) or node.op not in ("==", "in"):
                continue
            sides = [(node.left, node.right)]
            sides += [(node.right, node.left)] if node.op == "==" else []
            for subject, other in sides:
                field = self._own_field(subject, before)
                if field is None or any(self._own_field(n, before) for n in walk(other)):
                    continue
                value = self._value(other, before, row)
                if value is not ABSENT:
                    row[field] = value
                break
        return row

    def _own_field(self, node: Node, before: Row | None) -> str | None:
        """The field of the version after that the node is; None if it is anything else."""
        if isinstance(node, Follow):
            node = node.reference
        if not isinstance(node, FieldOf) or node.part or not isinstance(node.entity, Variable):
            return None
        is_after = node.entity.name == "new" or (node.entity.name == "it" and before is None)
        is_free = self.operation is Op.LINK or node.field not in self.entity.key
        is_own = isinstance(node.entity.type, EntityT) and is_free
        return node.field if is_after and is_own else None

    def _searched(
        self, before: Row | None, row: dict[str, Observed], every: tuple[Node, ...]
    ) -> dict[str, Observed] | None:
        """The row with values of the columns where a condition does not hold yet."""
        for node in every:
            if self._is_true(node, before, row):
                continue
            named = dict.fromkeys(
                name for n in walk(node) if (name := self._own_field(n, before)) is not None
            )
            tries = (
                {**row, name: value}
                for name in named
                for value in self._column(self.entity.by_name[name])
            )
            better = next((each for each in tries if self._is_true(node, before, each)), None)
            if better is None:
                return None
            row = better
        return row if all(self._is_true(node, before, row) for node in every) else None

    def _selects(self, before: Row | None, row: Row) -> bool:
        """True if the clause selects every field that the update writes."""
        fields = self.pattern.fields
        if before is None or fields is None:
            return True
        return all(n in fields or same(row[n], before[n]) for n in row)

    def _column(self, field: Field) -> tuple[Value, ...]:
        """Values that the field may have: entities it may refer to, or what the column holds."""
        if field.reference in self.world.reference.types:
            keys = self.world.reference.rows(field.reference or "")
            return tuple(key[0] for key in sorted(keys, key=repr)[:MAX_VALUES] if len(key) == 1)
        return self.world.column(self.entity, field)[:MAX_VALUES]

    # ---------------------------------------------------------------- evaluation

    def _holds(self, before: Row | None, after: Row | None) -> bool:
        every = conditions(self.pattern, self.entity.name)
        return all(self._is_true(node, before, after) for node in every)

    def _is_true(self, node: Node, before: Row | None, after: Row | None) -> bool:
        return outcomes(node, self._context, self._env(before, after)) == TRUE

    def _value(self, node: Node, before: Row | None, after: Row | None) -> Observed:
        """The value of the expression; absent where nobody can say."""
        if isinstance(node, Items):
            node = node.items[0] if node.items else node
        found = evaluate(node, self._context, self._env(before, after))
        if isinstance(found, EntityRef):
            return found.key[0] if len(found.key) == 1 else ABSENT
        if isinstance(found, Unknown | Undefined | EntitySet):
            return ABSENT
        return settle(found)

    def _env(self, before: Row | None, after: Row | None) -> Mapping[str, EntityRef]:
        """`it` and `new`, as a clause sees them."""
        whole = self.world.compiled.book.row
        sides = []
        for side, row in (("before", before), ("after", after)):
            if row is not None:
                made = whole(self.entity.name, row)
                sides.append(EntityRef(side, self.entity.name, self._key(row), made))
        return {"it": sides[0], "new": sides[-1]}

    @property
    def _context(self) -> EvalContext:
        """A fresh one: each evaluation has steps of its own."""
        return self.fresh(self.pattern.reads)


def _choices(node: Node) -> tuple[Node, ...]:
    """The conditions of which one satisfies the node."""
    return node.parts if isinstance(node, Or) else (node,)


def _alike(one: Row, other: Row) -> bool:
    return all(same(one[name], other[name]) for name in one)
