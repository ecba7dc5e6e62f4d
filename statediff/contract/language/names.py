"""Names in expressions: functions, roots, fields, references, keys, inputs and the answer.

The list of functions is closed; everything else is looked up in a state schema, never in Python.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Final

from statediff.contract.language.calls import CALL, TURN
from statediff.contract.language.kinds import (
    ExpressionError,
    as_time,
    comparable,
    describe,
    how_written,
    is_time,
    suggest,
    type_of,
    type_of_field,
)
from statediff.contract.language.syntax import (
    ANY,
    BOOL,
    NULL,
    NUMBER,
    TEXT,
    AnswerOf,
    Arithmetic,
    CollectionT,
    Const,
    Entities,
    EntityT,
    FieldOf,
    Follow,
    InputOf,
    ItemOf,
    Items,
    ListT,
    Lookup,
    Node,
    PartOf,
    RunOf,
    ScalarT,
    Type,
    Variable,
)
from statediff.model.paths import Item, Selection, Step
from statediff.model.schema import EntityType, Kind, Schema
from statediff.model.values import Observed, Value


@dataclass(frozen=True)
class Function:
    """`shape` says what the checker expects: quantifier, aggregate, or scalar argument kinds."""

    name: str
    shape: str
    help: str


FUNCTIONS: Final = {
    f.name: f
    for f in (
        Function("all", "quantifier", "every element satisfies the condition; true of nothing"),
        Function("any", "quantifier", "some element satisfies the condition; false of nothing"),
        Function("unique", "elements", "no two elements are equal"),
        Function("sum", "numbers", "the exact sum; zero of nothing"),
        Function("min", "ordered", "the least element; undefined of nothing"),
        Function("max", "ordered", "the greatest element; undefined of nothing"),
        Function(
            "count",
            "entities",
            "how many elements there are; count(text, part): how often the part is in the text, "
            "without overlap",
        ),
        Function("exists", "entity", "the entity is there"),
        Function("len", "sized", "characters of a text or items of a list"),
        Function(
            "within",
            "within",
            'within(a, b, t): a and b differ by at most t, exactly; of times, t is "1s" or seconds',
        ),
        Function("matches", "regex", "the whole text matches the RE2 expression"),
        Function("contains", "text2", "the text contains the other text"),
        Function("starts_with", "text2", "the text starts with the other text"),
        Function("ends_with", "text2", "the text ends with the other text"),
        Function(
            "timestamp",
            "instant",
            'an instant: timestamp("2026-01-31T12:00:00Z"), or the one that a text writes in just '
            "this form, with its zone; undefined where it does not",
        ),
        Function(
            "date",
            "instant",
            'a day: date("2026-01-31"), or the one that a text writes in just this form; '
            "undefined where it does not",
        ),
        # Texts and lists.
        Function("search", "regex", "some part of the text matches the RE2 expression"),
        Function(
            "mentions",
            "text2",
            "the text names the other one, in whatever lines, as written, not within a longer word",
        ),
        Function("lower", "lower", "the text in lower case, by Unicode's mapping"),
        Function(
            "same_items",
            "same",
            "the two lists have the same items, each as often, in any order",
        ),
        Function("reaches", "path", "reaches(x, y, via=[…]): a chain of hops leads from x to y"),
    )
}


STATE_ROOTS: Final = ("before", "after")
DELTA_ROOTS: Final = ("created", "updated", "deleted", "linked", "unlinked")
LATER_ROOTS: Final = ("now", "call", "calls", "turns")
_OF_TRACE: Final = {CALL.name: CALL, TURN.name: TURN}
_INSTANT: Final = ScalarT(Kind.TIMESTAMP)
RUN: Final[dict[str, ScalarT]] = {
    "ended": TEXT,
    "exit_code": NUMBER,
    "start": _INSTANT,
    "end": _INSTANT,
}
"""The members of `run`, with their types."""
CONSTANTS: Final[dict[str, tuple[ScalarT, Value]]] = {
    "null": (NULL, None),
    "true": (BOOL, True),
    "false": (BOOL, False),
}
_ANSWER_TYPES: Final[dict[str, Type]] = {
    "int": NUMBER,
    "decimal": NUMBER,
    "text": TEXT,
    "bool": BOOL,
    "any": ANY,
    "map": ANY,
    "list": ListT(ANY),
}


@dataclass(frozen=True)
class Policy:
    """The rules of stage 3 and Ω about fields; the contract layer knows neither by itself."""

    literal: Callable[[str, str, Selection], Callable[[Value], Observed] | None] = (
        lambda _t, _f, _s: None
    )
    """(type, field, the way inside) → what a literal goes through that is compared with it."""
    kind_of: Callable[[str, str], Kind | None] = lambda _t, _f: None
    """(type, field) → its kind after ν."""
    excluded: Callable[[str, str], str | None] = lambda _t, _f: None
    """(type, field) → the rule that puts it outside Ω; field "" asks for the type."""
    removed: Callable[[str, str], tuple[Selection, ...]] = lambda _t, _f: ()
    """The selections that Ω or ν removes inside the values of a field."""
    misread: Callable[[str, str, Selection, bool], str | None] = lambda _t, _f, _s, _w: None
    """(type, field, the way inside, whether the whole value is read) → why nothing is read."""


@dataclass(frozen=True)
class Scope:
    """The names that an expression may use; `variables` are `it`, `new`, `them`, by their types."""

    schema: Schema
    inputs: Mapping[str, Value] = field(default_factory=dict)
    answer: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, Type] = field(default_factory=dict)
    policy: Policy = Policy()
    has_now: bool = False
    """True if the clause is judged at moments of the run, so that `now` is a state."""

    @property
    def states(self) -> tuple[str, ...]:
        """The roots that name a state."""
        return (*STATE_ROOTS, "now") if self.has_now else STATE_ROOTS

    def entity(self, name: str) -> EntityType:
        """The type of an entity in hand; what the trace has are types of their own."""
        return _OF_TRACE.get(name) or self.schema.by_name[name]


class Names:
    """Looks names up in a scope. The checker, which extends it, knows the rest of the syntax."""

    def __init__(self, text: str, scope: Scope) -> None:
        self._text = text
        self._scope = scope
        self._variables = dict(scope.variables)

    def expression(self, node: ast.expr) -> Node:
        """The typed form of any expression."""
        raise TypeError("the checker defines what an expression is")

    def error(self, node: ast.AST, message: str, hint: str = "") -> ExpressionError:
        """The error for what stands at `node`."""
        return ExpressionError(message, getattr(node, "col_offset", 0), hint)

    def unknown(self, node: ast.AST, message: str, hint: str = "") -> ExpressionError:
        """The error for a name at `node` that nothing has."""
        error = self.error(node, message, hint)
        error.code = "unknown-name"
        return error

    def _segment(self, node: ast.expr) -> str:
        """The expression as it is written."""
        return self._text[node.col_offset : node.end_col_offset]

    def _constant(self, node: ast.Constant) -> Node:
        value = node.value
        if isinstance(value, bool) or value is None:
            written = "null" if value is None else str(value).lower()
            raise self.error(node, f"`{value}` is written `{written}`")
        if isinstance(value, int):
            return Const(NUMBER, node.col_offset, value)
        if isinstance(value, float):
            exact = Decimal(self._segment(node).replace("_", ""))
            if not exact.is_finite() or abs(exact.adjusted()) > 100:
                raise self.error(node, "the number is too large or too small")
            return Const(NUMBER, node.col_offset, exact)
        if isinstance(value, str):
            return Const(TEXT, node.col_offset, value)
        raise self.error(
            node, f"a {type(value).__name__} literal is not part of the contract language"
        )

    def _name(self, node: ast.Name) -> Node:
        if node.id in CONSTANTS:
            kind, value = CONSTANTS[node.id]
            return Const(kind, node.col_offset, value)
        if node.id in self._variables:
            return Variable(self._variables[node.id], node.col_offset, node.id)
        if node.id in (*self._scope.states, *DELTA_ROOTS, "input", "answer", "run"):
            example = "ended" if node.id == "run" else "order"
            raise self.error(node, f"`{node.id}` needs a name after it, e.g. `{node.id}.{example}`")
        if node.id in LATER_ROOTS:
            raise self.error(
                node, f"`{node.id}` belongs to steps and turns, not to this kind of clause"
            )
        if node.id in FUNCTIONS:
            raise self.error(node, f"`{node.id}` is a function; write {node.id}(…)")
        if node.id in ("it", "new", "them"):
            raise self.error(
                node,
                f"`{node.id}` has no meaning here",
                "`it` and `new` need an operation in the clause, `them` stands in `that`",
            )
        roots = (*STATE_ROOTS, *DELTA_ROOTS, "input", "answer", "run")
        known = (*self._variables, *roots, *CONSTANTS)
        raise self.unknown(
            node,
            f"unknown name `{node.id}`",
            suggest(node.id, known) or f'a text is written in quotes: "{node.id}"',
        )

    def _attribute(self, node: ast.Attribute) -> Node:
        if isinstance(node.value, ast.Name) and node.value.id not in self._variables:
            root = node.value.id
            if root == "input":
                return self._input(node)
            if root == "answer":
                return self._answer(node)
            if root == "run":
                return self._run(node)
        path = self._dotted(node)
        if path is not None:
            root, name = path
            held = CollectionT(name, root in self._scope.states)
            return Entities(held, node.col_offset, root, name)
        holder = self.expression(node.value)
        return self._field(node, holder)

    def _dotted(self, node: ast.Attribute) -> tuple[str, str] | None:
        """`before.order` or `before.db.role` as (root, type), when the whole of it names a type."""
        names: list[str] = []
        at: ast.expr = node
        while isinstance(at, ast.Attribute):
            names.append(at.attr)
            at = at.value
        if not isinstance(at, ast.Name) or at.id not in (*self._scope.states, *DELTA_ROOTS):
            if isinstance(at, ast.Name) and at.id in LATER_ROOTS:
                self._name(at)
            return None
        name = ".".join(reversed(names))
        types = self._scope.schema.by_name
        if name in types:
            return at.id, name
        shorter = name.rpartition(".")[0]
        if shorter and any(t == shorter or t.startswith(shorter + ".") for t in types):
            return None
        if any(t.startswith(name + ".") for t in types):
            return None
        raise self.unknown(node, f"unknown entity type `{name}`", suggest(name, types))

    def _input(self, node: ast.Attribute) -> Node:
        if node.attr not in self._scope.inputs:
            raise self.unknown(
                node,
                f"the contract has no input `{node.attr}`",
                suggest(node.attr, self._scope.inputs) or "add it, with its value, under `inputs`",
            )
        value = self._scope.inputs[node.attr]
        return InputOf(type_of(value), node.col_offset, node.attr, value)

    def _answer(self, node: ast.Attribute) -> Node:
        if node.attr not in self._scope.answer:
            raise self.unknown(
                node,
                f"the answer's schema has no `{node.attr}`",
                suggest(node.attr, self._scope.answer) or "name it under `answer: schema:`",
            )
        return AnswerOf(_ANSWER_TYPES[self._scope.answer[node.attr]], node.col_offset, node.attr)

    def _run(self, node: ast.Attribute) -> Node:
        if node.attr not in RUN:
            raise self.unknown(
                node,
                f"of the run nothing is known as `{node.attr}`",
                suggest(node.attr, RUN) or f"there are {' and '.join(f'run.{n}' for n in RUN)}",
            )
        return RunOf(RUN[node.attr], node.col_offset, node.attr)

    def _field(self, node: ast.Attribute, holder: Node) -> Node:
        if isinstance(holder, FieldOf) and isinstance(holder.type, ScalarT):
            if holder.type.reference is not None:
                target = EntityT(holder.type.reference)
                return self._field(node, Follow(target, node.col_offset, holder))
            if holder.type.kind in (Kind.MAP, Kind.JSON, Kind.ANY):
                return _inside(holder, node.attr)
        if holder.type == ANY:
            return _inside(holder, node.attr)
        if not isinstance(holder.type, EntityT):
            what = describe(holder.type)
            hint = (
                "pick one with [key] or range over it"
                if isinstance(holder.type, CollectionT)
                else ""
            )
            raise self.error(node, f"`.{node.attr}` cannot be read from {what}", hint)
        if holder.type.type not in (*_OF_TRACE, *self._scope.schema.by_name):
            raise self.error(node, f"the schema has no type {holder.type.type!r} to refer to")
        entity = self._scope.entity(holder.type.type)
        spec = entity.by_name.get(node.attr)
        if spec is None and entity.is_open:
            return FieldOf(ANY, node.col_offset, holder, entity.name, node.attr, True)
        if spec is None:
            what = describe(holder.type) if entity.name in _OF_TRACE else entity.name
            raise self.unknown(
                node,
                f"{what} has no field `{node.attr}`",
                suggest(node.attr, entity.by_name),
            )
        self.require_inside(node, entity, spec.name)
        kind = self._scope.policy.kind_of(entity.name, spec.name) or spec.kind
        held = type_of_field(kind, spec.reference)
        return FieldOf(held, node.col_offset, holder, entity.name, spec.name, spec.is_nullable)

    def require_inside(self, node: ast.AST, entity: EntityType, name: str) -> None:
        """Raises for a field outside the boundary."""
        rule = self._scope.policy.excluded(entity.name, name)
        if rule is not None:
            raise self.error(
                node,
                f"{entity.name}.{name} lies outside the boundary ({rule})",
                "drop the exclusion or do not read the field",
            )

    def _lookup(self, node: ast.Subscript) -> Node:
        collection = self.expression(node.value)
        if isinstance(collection, _WITH_PARTS) and _may_have_parts(collection.type):
            return self._part(node, collection)
        if collection.type == CollectionT(TURN.name):
            entity = TURN
        elif isinstance(collection, Entities) and collection.root in self._scope.states:
            entity = self._scope.schema.by_name[collection.entity]
        else:
            raise self.error(node, "`[key]` works on before.TYPE and after.TYPE only")
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if entity.is_keyless and entity.is_open:
            # What a run left in it has no keys; before it nobody knew that.
            keys = tuple(map(self.expression, parts))
            return Lookup(EntityT(entity.name), node.col_offset, collection, keys)
        if entity.is_keyless:
            raise self.error(node, f"{entity.name} has no key; range over it instead")
        if len(parts) != len(entity.key):
            raise self.error(
                node,
                f"the key of {entity.name} is ({', '.join(entity.key)}): "
                f"{len(entity.key)} values, not {len(parts)}",
            )
        keys = tuple(
            self._key(entity, name, part) for name, part in zip(entity.key, parts, strict=True)
        )
        return Lookup(EntityT(entity.name), node.col_offset, collection, keys)

    def _part(self, node: ast.Subscript, holder: Node) -> Node:
        """`VALUE["a key"]`, `VALUE[2]`, `VALUE[INDEX]` or `VALUE[sku == "A1" and size == 7]`."""
        match node.slice:
            case ast.Compare():
                return _inside(holder, self._item(node.slice, [node.slice]))
            case ast.BoolOp(op=ast.And(), values=parts):
                return _inside(holder, self._item(node.slice, parts))
            case _:
                pass
        if isinstance(node.slice, ast.Constant):
            step = node.slice.value
            if isinstance(step, bool) or not isinstance(step, int | str):
                raise self.error(
                    node,
                    "inside a value, `[…]` takes the index of an item, a key in quotes, or what "
                    'tells an item apart, [sku == "A1"]',
                )
            return _inside(holder, step)
        index = self.expression(node.slice)
        if isinstance(index, Const):
            raise self.error(
                node,
                "an index counts from 0, from the beginning of the list",
                f"the last item is {self._segment(node.value)}"
                f"[len({self._segment(node.value)}) - 1]",
            )
        if not isinstance(index.type, ScalarT) or not comparable(NUMBER, index.type):
            raise self.error(node.slice, f"an index is a number, this is {describe(index.type)}")
        item = holder.type.item if isinstance(holder.type, ListT) else ANY
        return ItemOf(item, node.col_offset, holder, index)

    def _item(self, node: ast.expr, parts: Sequence[ast.expr]) -> Item:
        """The item whose members have these values."""
        members: dict[str, Observed] = {}
        for part in parts:
            key, value = self._member(part)
            if key in members:
                raise self.error(part, f"one value tells an item apart: [{key} == …]")
            members[key] = value
        step = Item.of(members)
        if step is None:
            raise self.error(node, "a text, a number, true, false or an input tells an item apart")
        return step

    def _member(self, node: ast.expr) -> tuple[str, Observed]:
        """A member and its value. The word before `==` is always the name of the member."""
        match node:
            case ast.Compare(left=ast.Name(id=key)) if key not in self._variables:
                pass
            case ast.Compare(left=ast.Constant(value=str(key))):
                pass
            case ast.Compare():
                name = self._segment(node.left)
                raise self.error(node, f"`{name}` is no name of a member; put it in quotes")
            case _:
                raise self.error(node, 'values tell an item apart: [sku == "A1" and size == 7]')
        value = self.expression(node.comparators[0])
        if len(node.ops) > 1 or not isinstance(node.ops[0], ast.Eq):
            raise self.error(node, f'one value tells an item apart: [{key} == "A1"]')
        return key, value.value if isinstance(value, Const | InputOf) else None

    def of_kind(self, node: ast.expr, side: Node, wanted: Type) -> Node:
        """The operand; a literal text beside a time is the time that it writes."""
        if not is_time(wanted):
            return side
        if isinstance(side, Items):
            return replace(side, items=tuple(self.of_kind(node, i, wanted) for i in side.items))
        read = as_time(side, ScalarT(wanted.kind) if isinstance(wanted, ScalarT) else wanted)
        if read is side and isinstance(side, Const | InputOf) and isinstance(side.value, str):
            text = json.dumps(side.value, ensure_ascii=False)
            raise self.error(node, f"{text} is not {describe(wanted)}", how_written(wanted))
        return read

    def _key(self, entity: EntityType, name: str, part: ast.expr) -> Node:
        spec = entity.by_name[name]
        wanted = ScalarT(Kind.DECIMAL if spec.kind is Kind.INT else spec.kind)
        key = self.of_kind(part, self.expression(part), wanted)
        if not isinstance(key.type, ScalarT) or not comparable(wanted, key.type):
            raise self.error(
                part,
                f"the key of {entity.name} is {describe(wanted)}, this is {describe(key.type)}",
            )
        return key


_WITH_PARTS: Final = (FieldOf, PartOf, ItemOf, AnswerOf, InputOf, Variable, Arithmetic)


def _may_have_parts(held: Type) -> bool:
    return isinstance(held, ListT) or (
        isinstance(held, ScalarT) and held.kind in (Kind.MAP, Kind.JSON, Kind.ANY)
    )


def _inside(holder: Node, step: Step) -> Node:
    if isinstance(holder, FieldOf):
        return replace(holder, type=ANY, is_nullable=True, part=(*holder.part, step))
    return PartOf(ANY, holder.offset, holder, step)
