"""A typed expression as the text somebody would write for it: for hints, and to compare two."""

from __future__ import annotations

import json
import re
from datetime import date, datetime
from decimal import Decimal
from typing import Final

from statediff.contract.language.syntax import (
    And,
    AnswerOf,
    Arithmetic,
    Call,
    Canonical,
    Compare,
    Comprehension,
    Const,
    Entities,
    FieldOf,
    Follow,
    InputOf,
    ItemOf,
    Items,
    Lookup,
    Loop,
    Node,
    Not,
    Or,
    PartOf,
    Reaches,
    RunOf,
    Variable,
)
from statediff.model.paths import Item, Step
from statediff.model.values import Map, Value

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
UNSAID: Final = "…"
"""Stands for a kind of node that has no text here; it equals nothing, itself included."""
SOME_WORD: Final = r"[\pL\pN]"
"""The pattern for `search` of a text that says something: a letter or a digit of any script."""


def says_something(read: str, *, is_nullable: bool) -> str:
    """The condition that the text which an expression reads says something."""
    guard = f"{read} != null and " if is_nullable else ""
    return f"{guard}search({read}, {json.dumps(SOME_WORD)})"


def asks_for_words(call: Call) -> bool:
    """True if the call asks that a text says something, and not what."""
    pattern = call.arguments[-1]
    return call.name == "search" and isinstance(pattern, Const) and pattern.value == SOME_WORD


def has_words(value: object) -> bool:
    """True if it is a text that says something."""
    return isinstance(value, str) and any(map(str.isalnum, value))


def name_text(name: str) -> str:
    """The name of a field as an expression writes it after a dot: in quotes if need be."""
    return name if _PLAIN.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def type_text(name: str) -> str:
    """The name of a type as an expression writes it after a dot."""
    is_plain = all(map(_PLAIN.fullmatch, name.split(".")))
    return name if is_plain else json.dumps(name, ensure_ascii=False)


def text_of(node: Node) -> str:  # noqa: C901  (one arm a kind of node)
    """The expression in the contract language. A reference is written as its field."""
    match node:
        case Const(value=value):
            return literal(value)
        case InputOf(name=name):
            return f"input.{name}"
        case AnswerOf(name=name):
            return f"answer.{name}"
        case RunOf(name=name):
            return f"run.{name}"
        case Variable(name=name):
            return name
        case Entities(root=root, entity=entity):
            return f"{root}.{type_text(entity)}"
        case Lookup(collection=collection, keys=keys):
            return f"{text_of(collection)}[{', '.join(text_of(key) for key in keys)}]"
        case FieldOf(entity=holder, field=name, part=part):
            return f"{text_of(holder)}.{name_text(name)}" + "".join(map(step_text, part))
        case PartOf(whole=whole, step=step):
            return text_of(whole) + step_text(step)
        case ItemOf(whole=whole, index=index):
            return f"{text_of(whole)}[{text_of(index)}]"
        case Follow(reference=inner) | Canonical(child=inner):
            return text_of(inner)
        case Compare(op=op, left=left, right=right):
            return f"{text_of(left)} {op} {text_of(right)}"
        case And(parts=parts):
            return " and ".join(_bracket(part) for part in parts)
        case Or(parts=parts):
            return " or ".join(_bracket(part) for part in parts)
        case Not(child=child):
            return f"not {_bracket(child)}"
        case Arithmetic(op=op, left=left, right=right):
            return f"({text_of(left)} {op} {text_of(right)})"
        case Items(items=items):
            return f"[{', '.join(text_of(item) for item in items)}]"
        case Call(name=name, arguments=arguments):
            written = ", ".join(map(_argument if len(arguments) > 1 else text_of, arguments))
            return f"{name}({written})"
        case Reaches(start=start, goal=goal, hops=hops):
            via = ", ".join(hop.text for hop in hops)
            return f"reaches({text_of(start)}, {text_of(goal)}, via=[{via}])"
        case Comprehension(element=element, loops=loops):
            return " ".join((_bracket(element), *map(_loop, loops)))
        case _:
            return UNSAID


def _loop(loop: Loop) -> str:
    asked = "".join(f" if {_bracket(condition)}" for condition in loop.conditions)
    return f"for {loop.name} in {text_of(loop.source)}{asked}"


def _bracket(node: Node) -> str:
    return f"({text_of(node)})" if isinstance(node, (And, Or)) else text_of(node)


def literal(value: Value) -> str:
    """A value as a literal of the language."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case int() | Decimal():
            return str(value)
        case str():
            return json.dumps(value, ensure_ascii=False)
        case datetime():
            return f'timestamp("{value.isoformat()}")'
        case date():
            return f'date("{value.isoformat()}")'
        case tuple():
            return f"[{', '.join(literal(item) for item in value)}]"
        case bytes() | float() | Map():
            return UNSAID


def conjuncts(node: Node | None) -> tuple[Node, ...]:
    """The conditions that must all hold for the expression to hold."""
    if node is None:
        return ()
    if isinstance(node, And):
        return tuple(inner for part in node.parts for inner in conjuncts(part))
    return (node,)


def _argument(node: Node) -> str:
    return f"[{text_of(node)}]" if isinstance(node, Comprehension) else text_of(node)


def step_text(step: Step) -> str:
    """A step into a value as an expression writes it."""
    if isinstance(step, int):
        return f"[{step}]"
    if isinstance(step, Item):
        told = (
            f"{name if name.isidentifier() else json.dumps(name, ensure_ascii=False)} == {value}"
            for name, value in step.parts
        )
        return f"[{' and '.join(told)}]"
    return f".{step}" if step.isidentifier() else f"[{json.dumps(step, ensure_ascii=False)}]"
