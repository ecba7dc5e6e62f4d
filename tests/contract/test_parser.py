"""What each text parses to, and which texts are refused: in which words, at which place."""

from __future__ import annotations

import ast
import gc
import json
import sys
import threading
import warnings
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff.contract.language.kinds import ExpressionError
from statediff.contract.language.names import FUNCTIONS, Scope
from statediff.contract.language.parser import (
    MAX_NESTING,
    MAX_NODES,
    MAX_SHOWN,
    MAX_TEXT,
    parse,
    parse_python,
)
from statediff.contract.language.syntax import (
    ANY,
    TEXT,
    And,
    AnswerOf,
    Arithmetic,
    Call,
    Canonical,
    CollectionT,
    Compare,
    Comprehension,
    Const,
    Entities,
    EntityT,
    FieldOf,
    Follow,
    InputOf,
    Items,
    ListT,
    Lookup,
    Node,
    Not,
    Or,
    PartOf,
    ScalarT,
    Type,
    Variable,
    walk,
)
from statediff.contract.language.written import text_of
from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.model.values import Value

ITEM = EntityType(
    "item",
    ("id",),
    (
        Field("id", Kind.INT, is_nullable=False),
        Field("n", Kind.INT),
        Field("d", Kind.DECIMAL),
        Field("f", Kind.FLOAT),
        Field("t", Kind.TEXT),
        Field("rule", Kind.TEXT),
        Field("amount", Kind.DECIMAL),
        Field("b", Kind.BOOL),
        Field("at", Kind.TIMESTAMP),
        Field("day", Kind.DATE),
        Field("raw", Kind.BYTES),
        Field("any", Kind.ANY),
        Field("list", Kind.LIST),
        Field("map", Kind.MAP),
        Field("next", Kind.INT, reference="item"),
    ),
)
PAIR = EntityType("pair", ("a", "b"), (Field("a", Kind.INT), Field("b", Kind.INT)))
SCOPE = Scope(
    Schema("parsing", "1", (ITEM, PAIR)),
    {"n": 5, "t": "2026-01-31", "list": (1, 2), "none": None},
    {"n": "int", "any": "any"},
    {"it": EntityT("item"), "them": CollectionT("item"), "texts": ListT(TEXT), "odd": ANY},
    literal=lambda _, name, steps: (
        str.lower if name in ("rule", "map", "amount") and not steps else None
    ),  # type: ignore[return-value, arg-type]
)


def kind(of: Type) -> str:
    """A type in one word: `number`, `item`, `item*` (a collection), `[number]` (a list)."""
    match of:
        case ScalarT(kind=Kind.DECIMAL, reference=None):
            return "number"
        case ScalarT(kind=found, reference=reference):
            return (found.value if found else "null") + (f">{reference}" if reference else "")
        case EntityT(type=name):
            return name
        case CollectionT(type=name):
            return f"{name}*"
        case ListT(item=item):
            return f"[{kind(item)}]"


def tree(node: Node) -> str:
    """The typed form as nested brackets, the operation before its operands."""
    match node:
        case Const(value=value) if isinstance(value, str):
            return f"'{value}'"
        case Const(value=value):
            return str(value)
        case InputOf(name=name):
            return f"input.{name}"
        case AnswerOf(name=name):
            return f"answer.{name}"
        case Entities(root=root, entity=entity):
            return f"{root}.{entity}"
        case Variable(name=name):
            return name
        case FieldOf(entity=entity, field=name, part=part):
            return ".".join((tree(entity), name, *part))
        case PartOf(whole=whole, step=name):
            return f"{tree(whole)}.{name}"
        case Follow(reference=reference):
            return f"{tree(reference)}>"
        case Lookup(collection=collection, keys=keys):
            return f"{tree(collection)}[{', '.join(map(tree, keys))}]"
        case Canonical(child=child, entity_type=entity, field=name):
            return f"{tree(child)}~{entity}.{name}"
        case Compare(op=op, left=left, right=right) | Arithmetic(op=op, left=left, right=right):
            return f"({op} {tree(left)} {tree(right)})"
        case And(parts=parts) | Or(parts=parts):
            return f"({'and' if isinstance(node, And) else 'or'} {' '.join(map(tree, parts))})"
        case Not(child=child):
            return f"(not {tree(child)})"
        case Items(items=items):
            return f"[{', '.join(map(tree, items))}]"
        case Comprehension(element=element, loops=loops):
            ranges = [
                f" for {loop.name} in {tree(loop.source)}"
                + "".join(f" if {tree(condition)}" for condition in loop.conditions)
                for loop in loops
            ]
            return tree(element) + "".join(ranges)
        case Call(name=name, arguments=arguments):
            return f"{name}({', '.join(map(tree, arguments))})"
        case _:
            raise TypeError(node)


def of(text: str) -> Node:
    return parse(text, SCOPE, boolean=False)


@pytest.mark.parametrize(
    ("text", "form", "type_"),
    [
        # literals, names, fields
        ("1", "1", "number"), ("1.50", "1.50", "number"), ("-1", "-1", "number"),
        ("-1.5", "-1.5", "number"), ("1_000.2_5", "1000.25", "number"), ("'a'", "'a'", "text"),
        ("null", "None", "null"), ("true", "True", "bool"),
        ("input.n", "input.n", "number"), ("input.list", "input.list", "[number]"),
        ("answer.n", "answer.n", "number"), ("it", "it", "item"), ("it.n", "it.n", "number"),
        ("it.f", "it.f", "float"), ("it.next", "it.next", "decimal>item"),
        ("it.next.t", "it.next>.t", "text"), ("it.map.a.b", "it.map.a.b", "any"),
        ("odd.a", "odd.a", "any"), ("before.item", "before.item", "item*"),
        ("before.item[1]", "before.item[1]", "item"),
        ("after.pair[1, it.n].a", "after.pair[1, it.n].a", "number"),
        # arithmetic
        ("it.n + 1", "(+ it.n 1)", "number"), ("it.n - 1", "(- it.n 1)", "number"),
        ("it.n * 2", "(* it.n 2)", "number"), ("it.n / 2", "(/ it.n 2)", "number"),
        ("1 + 2 * 3", "(+ 1 (* 2 3))", "number"), ("it.f + 1", "(+ it.f 1)", "float"),
        ("1 + it.f", "(+ 1 it.f)", "float"), ("it.d + it.n", "(+ it.d it.n)", "number"),
        ("it.any + 1", "(+ it.any 1)", "number"), ("-it.n", "(- 0 it.n)", "number"),
        ("-it.f", "(- 0 it.f)", "float"), ("-input.n", "(- 0 input.n)", "number"),
        ("--1", "1", "number"),
        # lists
        ("[1, it.n]", "[1, it.n]", "[number]"), ("('a', it.t)", "['a', it.t]", "[text]"),
        ("[]", "[]", "[any]"), ("['a']", "['a']", "[text]"), ("[null, 1]", "[None, 1]", "[null]"),
        # functions of one value
        ("within(it.f, 1, 0.5)", "within(it.f, 1, 0.5)", "bool"),
        ("len(it.t)", "len(it.t)", "number"), ("len(it.any)", "len(it.any)", "number"),
        ("len(it.list)", "len(it.list)", "number"), ("len([1])", "len([1])", "number"),
        ("exists(it)", "exists(it)", "bool"),
        ("contains(it.t, 'a')", "contains(it.t, 'a')", "bool"),
        ("starts_with(it.any, it.t)", "starts_with(it.any, it.t)", "bool"),
        ("ends_with('a', it.any)", "ends_with('a', it.any)", "bool"),
        ("matches(it.t, 'a+')", "matches(it.t, 'a+')", "bool"),
        ("date('2026-01-31')", "2026-01-31", "date"), ("date(input.t)", "2026-01-31", "date"),
        ("timestamp('2026-01-31T12:00:00Z')", "2026-01-31 12:00:00+00:00", "timestamp"),
        ("timestamp('2026-01-31T12:00:00')", "2026-01-31 12:00:00", "local_timestamp"),
        ("timestamp(input.t)", "2026-01-31 00:00:00", "local_timestamp"),
        # functions of many
        ("all(x.b for x in after.item)", "all(x.b for x in after.item)", "bool"),
        ("any([x.any for x in them])", "any(x.any for x in them)", "bool"),
        ("all([true, it.b])", "all([True, it.b])", "bool"),
        ("any(it.list)", "any(it.list)", "bool"),
        ("unique(x.t for x in them)", "unique(x.t for x in them)", "bool"),
        ("unique(texts)", "unique(texts)", "bool"),
        ("count(before.item)", "count(before.item)", "number"),
        ("count(x for x in them)", "count(x for x in them)", "number"),
        ("count(texts)", "count(texts)", "number"),
        ("sum(x.n for x in them)", "sum(x.n for x in them)", "number"),
        ("sum(x.f for x in them)", "sum(x.f for x in them)", "float"),
        ("sum(it.list)", "sum(it.list)", "any"), ("sum([1, 2])", "sum([1, 2])", "number"),
        ("min(x.t for x in them)", "min(x.t for x in them)", "text"),
        ("max(x.at for x in them)", "max(x.at for x in them)", "timestamp"),
        ("max(texts)", "max(texts)", "text"),
        (
            "count(x.n for x in them if x.b if x.n > 1 for y in texts if y == x.t)",
            "count(x.n for x in them if x.b if (> x.n 1) for y in texts if (== y x.t))", "number",
        ),
        (
            "all(any(x.n == y.n for y in them) for x in them)",
            "all(any((== x.n y.n) for y in them) for x in them)", "bool",
        ),
        (
            "all(x.b for x in them) and any(x.b for x in them)",
            "(and all(x.b for x in them) any(x.b for x in them))", "bool",
        ),
        # conditions
        ("it.b and it.any and it.n == 1", "(and it.b it.any (== it.n 1))", "bool"),
        ("it.b or it.any", "(or it.b it.any)", "bool"), ("not it.b", "(not it.b)", "bool"),
        ("1 < it.n < 3", "(and (< 1 it.n) (< it.n 3))", "bool"),
        ("it.n == 1", "(== it.n 1)", "bool"), ("it.n != 1", "(!= it.n 1)", "bool"),
        ("it.n < 1", "(< it.n 1)", "bool"), ("it.n <= 1", "(<= it.n 1)", "bool"),
        ("it.n > 1", "(> it.n 1)", "bool"), ("it.n >= 1", "(>= it.n 1)", "bool"),
        ("it.t < 'a'", "(< it.t 'a')", "bool"), ("it.f < it.n", "(< it.f it.n)", "bool"),
        ("it.any < 1", "(< it.any 1)", "bool"),
        ("it.day < date('2026-01-31')", "(< it.day 2026-01-31)", "bool"),
        ("it.f == null", "(== it.f None)", "bool"), ("null != it.f", "(!= None it.f)", "bool"),
        ("it.next == before.item[1]", "(== it.next before.item[1])", "bool"),
        ("it.raw == null", "(== it.raw None)", "bool"),
        ("it.n in [1, 2]", "(in it.n [1, 2])", "bool"),
        ("it.n not in input.list", "(not in it.n input.list)", "bool"),
        ("it.t in texts", "(in it.t texts)", "bool"),
        ("it.n in it.any", "(in it.n it.any)", "bool"),
        ("it.n in before.item", "(in it.n before.item)", "bool"),
        ("it.next not in after.item", "(not in it.next after.item)", "bool"),
        # literals beside a field with rules go through them, on either side
        ("it.rule == 'A'", "(== it.rule 'A'~item.rule)", "bool"),
        ("'A' != it.rule", "(!= 'A'~item.rule it.rule)", "bool"),
        ("it.rule == input.t", "(== it.rule input.t~item.rule)", "bool"),
        ("it.rule == answer.any", "(== it.rule answer.any~item.rule)", "bool"),
        ("it.rule in ['A', input.t]", "(in it.rule ['A'~item.rule, input.t~item.rule])", "bool"),
        ("it.amount == 1 + it.n", "(== it.amount (+ 1 it.n)~item.amount)", "bool"),
        ("it.rule == it.t", "(== it.rule it.t)", "bool"),
        ("it.rule == it.rule", "(== it.rule it.rule)", "bool"),
        ("it.t == 'A'", "(== it.t 'A')", "bool"), ("'A' == 'a'", "(== 'A' 'a')", "bool"),
        ("it.map.a == 'A'", "(== it.map.a 'A')", "bool"),
        ("it.map == answer.any", "(== it.map answer.any~item.map)", "bool"),
    ],
)  # fmt: skip
def test_a_text_has_this_form(text: str, form: str, type_: str) -> None:
    node = of(text)
    assert (tree(node), kind(node.type)) == (form, type_)


KNOWN = ", ".join(FUNCTIONS)


@pytest.mark.parametrize(
    ("text", "offset", "words", "hint"),
    [
        # comparisons
        ("it == null", 0, "an entity (item) can never equal null", ""),
        ("it.n == 'a'", 0, "a number can never equal a text value", ""),
        (
            "before.item == 1", 0,
            "a collection cannot be compared; use all(…), any(…) or count(…)",
            "",
        ),
        (
            "1 == before.item", 0,
            "a collection cannot be compared; use all(…), any(…) or count(…)",
            "",
        ),
        ("them == them", 0, "a collection cannot be compared; use all(…), any(…) or count(…)", ""),
        (
            "it.f == 1", 0,
            "== on a binary floating-point number is not exact",
            "canonicalize the field with decimal@1, or write within(a, b, tol)",
        ),
        (
            "1 != it.f", 0,
            "== on a binary floating-point number is not exact",
            "canonicalize the field with decimal@1, or write within(a, b, tol)",
        ),
        (
            "it.f == it.f", 0,
            "== on a binary floating-point number is not exact",
            "canonicalize the field with decimal@1, or write within(a, b, tol)",
        ),
        (
            "it.n == it.d != it.f", 0,
            "== on a binary floating-point number is not exact",
            "canonicalize the field with decimal@1, or write within(a, b, tol)",
        ),
        ("it.n is null", 0, "`is` compares Python objects; write ==", ""),
        ("it.n is not null", 0, "`is` compares Python objects; write ==", ""),
        # order
        ("it.b < true", 0, "a bool value has no order", ""),
        ("1 < it.b", 0, "a bool value has no order", ""),
        ("it < it", 0, "an entity (item) has no order", ""),
        ("it.n < 'a'", 0, "a number and a text value have no common order", ""),
        ("it.t < 1", 0, "a text value and a number have no common order", ""),
        (
            "it.at < 'a'", 0, '"a" is not a timestamp value', "write 2026-01-31T09:00:00Z",
        ),
        (
            "it.at < it.t", 0, "a timestamp value and a text value have no common order",
            'read the text as one: `timestamp("2026-01-31T09:00:00Z")`',
        ),
        ("it.list < it.list", 0, "a list has no order", ""),
        ("null < 1", 0, "null has no order", ""),
        ("it.raw < it.raw", 0, "a bytes value has no order", ""),
        ("it.next < before.item[1]", 0, "an entity (item) has no order", ""),
        # `in`
        ("it.n in ['a']", 0, "a number cannot be in a list of which each is a text value", ""),
        ("it.n in before.pair", 0, "`in` needs the single key of pair on its left", ""),
        ("it in before.item", 0, "`in` needs the single key of item on its left", ""),
        (
            "it.n in created.item", 0,
            "`in` needs a list or before.TYPE, not a collection of item",
            "for a part of a text write contains(text, part)",
        ),
        (
            "it.n in 1", 0,
            "`in` needs a list or before.TYPE, not a number",
            "for a part of a text write contains(text, part)",
        ),
        (
            "'a' in it.t", 0,
            "`in` needs a list or before.TYPE, not a text value",
            "for a part of a text write contains(text, part)",
        ),
        (
            "1 in it", 0,
            "`in` needs a list or before.TYPE, not an entity (item)",
            "for a part of a text write contains(text, part)",
        ),
        ("it.list in before.item", 0, "`in` needs the single key of item on its left", ""),
        ("[1] in before.item", 0, "`in` needs the single key of item on its left", ""),
        # conditions
        ("not it.n", 4, "a condition is expected, this is a number", ""),
        ("it.b and it.n", 9, "a condition is expected, this is a number", ""),
        ("it.n or it.b", 0, "a condition is expected, this is a number", ""),
        ("1 == 1 and it.t", 11, "a condition is expected, this is a text value", ""),
        # numbers
        ("-it.t", 1, "a number is expected, this is a text value", ""),
        ("it.n + 'a'", 7, "a number is expected, this is a text value", ""),
        ("it.t + 1", 0, "a number is expected, this is a text value", ""),
        ("1 + null", 4, "a number is expected, this is null", ""),
        ("it.next + 1", 0, "a number is expected, this is a reference to item", ""),
        ("it + 1", 0, "a number is expected, this is an entity (item)", ""),
        ("-true", 1, "a number is expected, this is a bool value", ""),
        ("within(1, 2, 'a')", 13, "a number is expected, this is a text value", ""),
        ("1 ** 2", 0, "`BinOp` is not part of the contract language", ""),
        ("7 % 2", 0, "`BinOp` is not part of the contract language", ""),
        ("7 // 2", 0, "`BinOp` is not part of the contract language", ""),
        ("it.n + [1]", 7, "a number is expected, this is a list", ""),
        ("-it.list", 1, "a number is expected, this is a list", ""),
        # lists
        ("[1, 'a']", 0, "a list holds values of one type", ""),
        ("[1, it]", 0, "a list holds plain values only", ""),
        ("[[1], [2]]", 0, "a list holds plain values only", ""),
        ("[1, 2, 'a']", 0, "a list holds values of one type", ""),
        ("[before.item]", 0, "a list holds plain values only", ""),
        # functions, and what they take
        ("it.t.strip()", 0, "only the language's own functions can be called", KNOWN),
        ("(1)(2)", 0, "only the language's own functions can be called", KNOWN),
        ("alll(x.b for x in them)", 0, "unknown function `alll`", "did you mean `all`?"),
        ("foo(1)", 0, "unknown function `foo`", "known: " + KNOWN),
        ("len(*[1])", 0, "len(…) takes plain arguments only", ""),
        (
            "count(x for x in them, y=1)", 6,
            "not an expression: Generator expression must be parenthesized",
            "",
        ),
        ("len()", 0, "len(…) takes 1 argument, found 0", ""),
        ("len(1, 2)", 0, "len(…) takes 1 argument, found 2", ""),
        (
            'search(it.t, "\\byes\\b")', 13,
            "`\\b` in a text is a backspace, no edge of a word", 'write "\\\\byes\\\\b"',
        ),
        (
            "it.at - it.day", 8,
            "a timestamp value and a date value are no two times of one kind", "",
        ),
        (
            "within(it.at, it.at, 'soon')", 21,
            "not a duration: 'soon'; write e.g. 5s, 250ms, 2h", "",
        ),
        (
            "it.at - '2026-01-31'", 8,
            '"2026-01-31" is not a timestamp value', "write 2026-01-31T09:00:00Z",
        ),
        (
            "it.at in ['2026-01-31T09:00:00']", 0,
            '"2026-01-31T09:00:00" is not a timestamp value', "write 2026-01-31T09:00:00Z",
        ),
        ("within(1, 2)", 0, "within(…) takes 3 arguments, found 2", ""),
        ("within(1, 2, 3, 4)", 0, "within(…) takes 3 arguments, found 4", ""),
        ("matches('a')", 0, "matches(…) takes 2 arguments, found 1", ""),
        ("contains('a')", 0, "contains(…) takes 2 arguments, found 1", ""),
        ("contains('a', 'b', 'c')", 0, "contains(…) takes 2 arguments, found 3", ""),
        ("starts_with()", 0, "starts_with(…) takes 2 arguments, found 0", ""),
        ("exists()", 0, "exists(…) takes 1 argument, found 0", ""),
        ("exists(it, it)", 0, "exists(…) takes 1 argument, found 2", ""),
        # functions of many
        ("all(1)", 4, "all(…) ranges over `… for x in …`, not over a number", ""),
        ("all(it.b)", 4, "all(…) ranges over `… for x in …`, not over a bool value", ""),
        (
            "all(before.item)", 4,
            "all(…) ranges over `… for x in …`, not over a collection of item",
            "",
        ),
        (
            "all(x.n for x in them)", 3,
            "all(…) needs a condition for each element, not a number",
            "",
        ),
        ("any([1])", 4, "any(…) needs a condition for each element, not a number", ""),
        (
            "sum(before.item)", 4,
            "sum(…) ranges over `… for x in …`, not over a collection of item",
            "",
        ),
        ("count(1)", 6, "count(…) ranges over `… for x in …`, not over a number", ""),
        ("count(it)", 6, "count(…) ranges over `… for x in …`, not over an entity (item)", ""),
        ("count(it.map)", 6, "count(…) ranges over `… for x in …`, not over a map value", ""),
        ("sum(x.t for x in them)", 3, "sum(…) adds numbers, not a text value", ""),
        ("sum(x for x in them)", 3, "sum(…) adds numbers, not an entity (item)", ""),
        ("sum(texts)", 4, "sum(…) adds numbers, not a text value", ""),
        ("min(x.b for x in them)", 3, "a bool value has no order", ""),
        ("min(x for x in them)", 3, "an entity (item) has no order", ""),
        ("max([true])", 4, "a bool value has no order", ""),
        ("unique(x for x in them)", 6, "unique(…) compares plain values, not an entity (item)", ""),
        (
            "unique(before.item)", 7,
            "unique(…) ranges over `… for x in …`, not over a collection of item",
            "",
        ),
        ("unique(1)", 7, "unique(…) ranges over `… for x in …`, not over a number", ""),
        (
            "min(before.item)", 4,
            "min(…) ranges over `… for x in …`, not over a collection of item",
            "",
        ),
        # ranges
        (
            "(x.n for x in them)", 0,
            "a comprehension stands only inside a function such as all(…)",
            "",
        ),
        (
            "[x.n for x in them]", 0,
            "a comprehension stands only inside a function such as all(…)",
            "",
        ),
        ("all(x.b for x, y in them)", 3, "write `for NAME in COLLECTION`", ""),
        ("all(x.b for x.n in them)", 3, "write `for NAME in COLLECTION`", ""),
        ("all(it.b for it in them)", 13, "`it` already has a meaning; choose another name", ""),
        ("all(x.b for x in 1)", 17, "cannot range over a number", ""),
        ("all(x.b for x in it)", 17, "cannot range over an entity (item)", ""),
        ("all(x.b for x in it.t)", 17, "cannot range over a text value", ""),
        ("all(x.b for x in them if x.n)", 25, "a condition is expected, this is a number", ""),
        (
            "all(x.b for x in them for x in them)", 26,
            "`x` already has a meaning; choose another name",
            "",
        ),
        (
            "all(before.b for before in them)", 17,
            "`before` already has a meaning; choose another name",
            "",
        ),
        (
            "all(created.b for created in them)", 18,
            "`created` already has a meaning; choose another name",
            "",
        ),
        ("all(now.b for now in them)", 14, "`now` already has a meaning; choose another name", ""),
        (
            "all(call.b for call in them)", 15,
            "`call` already has a meaning; choose another name",
            "",
        ),
        (
            "all(input.b for input in them)", 16,
            "`input` already has a meaning; choose another name",
            "",
        ),
        (
            "all(answer.b for answer in them)", 17,
            "`answer` already has a meaning; choose another name",
            "",
        ),
        ("all(null for null in them)", 13, "`null` already has a meaning; choose another name", ""),
        ("all(sum.b for sum in them)", 14, "`sum` already has a meaning; choose another name", ""),
        (
            "all(x.b for x in them) and x.b", 27,
            "unknown name `x`",
            "a text is written in quotes: \"x\"",
        ),
        ("all(x.b async for x in them)", 3, "write `for NAME in COLLECTION`", ""),
        # functions of one value
        (
            "exists(1)", 0,
            "exists(…) takes an entity, not a number",
            "compare a field with null instead",
        ),
        (
            "exists(it.n)", 0,
            "exists(…) takes an entity, not a number",
            "compare a field with null instead",
        ),
        (
            "exists(before.item)", 0,
            "exists(…) takes an entity, not a collection of item",
            "compare a field with null instead",
        ),
        (
            "exists(it.next)", 0,
            "exists(…) takes an entity, not a reference to item",
            "compare a field with null instead",
        ),
        (
            "len(1)", 0,
            "len(…) takes a text or a list, not a number",
            "for a collection write count(…)",
        ),
        (
            "len(it)", 0,
            "len(…) takes a text or a list, not an entity (item)",
            "for a collection write count(…)",
        ),
        (
            "len(before.item)", 0,
            "len(…) takes a text or a list, not a collection of item",
            "for a collection write count(…)",
        ),
        (
            "len(it.map)", 0,
            "len(…) takes a text or a list, not a map value",
            "for a collection write count(…)",
        ),
        (
            "len(it.b)", 0,
            "len(…) takes a text or a list, not a bool value",
            "for a collection write count(…)",
        ),
        ("contains(it.t, 1)", 0, "contains(…) takes texts, not a number", ""),
        ("contains(1, it.t)", 0, "contains(…) takes texts, not a number", ""),
        ("starts_with(it.t, it)", 0, "starts_with(…) takes texts, not an entity (item)", ""),
        ("matches(it.n, 'a')", 0, "matches(…) takes texts, not a number", ""),
        (
            "matches(it.t, it.t)", 0,
            "the expression of matches(…) is a text literal",
            "no value of a state may become a pattern",
        ),
        ("matches(it.t, 1)", 0, "matches(…) takes texts, not a number", ""),
        (
            "matches(it.t, input.t)", 0,
            "the expression of matches(…) is a text literal",
            "no value of a state may become a pattern",
        ),
        ("matches(it.t, '(')", 0, "not an RE2 expression: b'missing ): ('", ""),
        ("it.b and matches(it.t, '(')", 9, "not an RE2 expression: b'missing ): ('", ""),
        # instants
        ("date(it.day)", 0, "date(…) takes a text, not a date value", ""),
        ("date(1)", 0, "date(…) takes a text, not a number", ""),
        ("date(input.n)", 0, "date(…) takes a text, not a number", ""),
        ("date('2026-13-01')", 0, "not an ISO 8601 date: '2026-13-01'", ""),
        ("date('x')", 0, "not an ISO 8601 date: 'x'", ""),
        ("timestamp('x')", 0, "not an ISO 8601 timestamp: 'x'", ""),
        ("timestamp(it.n)", 0, "timestamp(…) takes a text, not a number", ""),
        (
            "timestamp('2026-01-31T25:00:00Z')", 0,
            "not an ISO 8601 timestamp: '2026-01-31T25:00:00Z'",
            "",
        ),
        ("date(null)", 0, "date(…) takes a text, not null", ""),
        # Python that is not of the language
        ("lambda: 1", 0, "`Lambda` is not part of the contract language", ""),
        ("1 if true else 2", 0, "`IfExp` is not part of the contract language", ""),
        ("{1: 2}", 0, "`Dict` is not part of the contract language", ""),
        ("{1}", 0, "`Set` is not part of the contract language", ""),
        ("it.t[0]", 0, "`[key]` works on before.TYPE and after.TYPE only", ""),
        ("f'{1}'", 0, "`JoinedStr` is not part of the contract language", ""),
        ("+1", 0, "`UnaryOp` is not part of the contract language", ""),
        ("~1", 0, "`UnaryOp` is not part of the contract language", ""),
        ("it.n := 1", 5, "not an expression: invalid syntax", ""),
        ("b'a'", 0, "a bytes literal is not part of the contract language", ""),
        ("1j", 0, "a complex literal is not part of the contract language", ""),
        ("...", 0, "a ellipsis literal is not part of the contract language", ""),
        ("True", 0, "`True` is written `true`", ""),
        ("None", 0, "`None` is written `null`", ""),
        ("1e999", 0, "the number is too large or too small", ""),
        # names
        ("it.zz == 1", 0, "item has no field `zz`", ""),
        ("  it.zz == 1", 2, "item has no field `zz`", ""),
        ("'é' == 'a' and it.zz == 1", 15, "item has no field `zz`", ""),
        ("'😀' == 'a' and it.zz == 1", 15, "item has no field `zz`", ""),
        ("it.zz", 0, "item has no field `zz`", ""),
        ("itt.n", 0, "unknown name `itt`", "did you mean `it`?"),
        ("before.itm[1].n", 0, "unknown entity type `itm`", "did you mean `item`?"),
        ("bofore.item[1]", 0, "unknown name `bofore`", "did you mean `before`?"),
        ("input.m", 0, "the contract has no input `m`", "add it, with its value, under `inputs`"),
        ("answer.m", 0, "the answer's schema has no `m`", "name it under `answer: schema:`"),
        ("before", 0, "`before` needs a name after it, e.g. `before.order`", ""),
        ("sum", 0, "`sum` is a function; write sum(…)", ""),
        ("now.item[1]", 0, "`now` belongs to steps and turns, not to this kind of clause", ""),
        (
            "new.n", 0,
            "`new` has no meaning here",
            "`it` and `new` need an operation in the clause, `them` stands in `that`",
        ),
        ("'é' == x", 7, "unknown name `x`", "a text is written in quotes: \"x\""),
        # texts that are none, and comments
        ("1 ==", 0, "not an expression: invalid syntax", ""),
        (")", 0, "not an expression: unmatched ')'", ""),
        ("(", 0, "not an expression: '(' was never closed", ""),
        ("1 == 1)", 6, "not an expression: unmatched ')'", ""),
        ("  1 == 1)", 8, "not an expression: unmatched ')'", ""),
        ("'é' == 1)", 8, "not an expression: unmatched ')'", ""),
        (
            "1 == 2 # one", 7,
            "an expression holds no comment: nothing after `#` would be read",
            "write it on a line of its own above the key, or under `because`",
        ),
        (
            "1 == 1 # and it.b", 7,
            "an expression holds no comment: nothing after `#` would be read",
            "write it on a line of its own above the key, or under `because`",
        ),
        (
            "  (it.b)  # é", 10,
            "an expression holds no comment: nothing after `#` would be read",
            "write it on a line of its own above the key, or under `because`",
        ),
        ("# nothing", 0, "not an expression: invalid syntax", ""),
        (
            "'a#b' == 'c' # d", 13,
            "an expression holds no comment: nothing after `#` would be read",
            "write it on a line of its own above the key, or under `because`",
        ),
        ("1 1", 2, "not an expression: invalid syntax", ""),
        ("'a", 0, "not an expression: unterminated string literal (detected at line 1)", ""),
        ("1 == 1; 2", 6, "not an expression: invalid syntax", ""),
        (
            "'\\\\N{x}'", 0,
            "a condition is expected here, this is a text value",
            "compare it with something",
        ),
        # keys, and what is no condition
        ("before.item[1, 2].n", 0, "the key of item is (id): 1 values, not 2", ""),
        ("before.pair[1]", 0, "the key of pair is (a, b): 2 values, not 1", ""),
        ("before.item['a']", 12, "the key of item is a number, this is a text value", ""),
        ("created.item[1]", 0, "`[key]` works on before.TYPE and after.TYPE only", ""),
        ("it[1]", 0, "`[key]` works on before.TYPE and after.TYPE only", ""),
        ("it.n", 0, "a condition is expected here, this is a number", "compare it with something"),
        (
            "before.item", 0,
            "a condition is expected here, this is a collection of item",
            "compare it with something",
        ),
        (
            "'a'", 0,
            "a condition is expected here, this is a text value",
            "compare it with something",
        ),
        ("null", 0, "a condition is expected here, this is null", "compare it with something"),
        ("it.list", 0, "a condition is expected here, this is a list", "compare it with something"),
    ],
)  # fmt: skip
def test_a_text_is_refused_where_it_is_wrong(text: str, offset: int, words: str, hint: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text, SCOPE)
    assert (caught.value.offset, str(caught.value), caught.value.hint) == (offset, words, hint)


@pytest.mark.parametrize("text", ["alll(it.b)", "it.zz", "itt.n", "input.m", "answer.m"])
def test_a_name_that_nothing_has_has_a_code_of_its_own(text: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        of(text)
    assert caught.value.code == "unknown-name"


@pytest.mark.parametrize(
    ("text", "offsets"),
    [
        ("it.n == 2", [0, 0, 0, 8]),
        ("not it.b", [0, 4, 4]),
        ("it.b and true", [0, 0, 0, 9]),
        ("-it.n", [0, 0, 1, 1]),
        ("1 == -input.n", [0, 0, 5, 5, 6]),
        ("1 == -2", [0, 0, 5]),
        ("1 <= 2 < 3", [0, 0, 0, 5, 0, 5, 9]),
        ("1 in [2, 3]", [0, 0, 5, 6, 9]),
        ("any(x.b for x in them if x.b)", [0, 3, 4, 4, 17, 25, 25]),
        ("it.day == date('2026-01-31')", [0, 0, 0, 10]),
        ("it.rule == 'A'", [0, 0, 0, 11, 11]),
        ("it.rule in ['A']", [0, 0, 0, 11, 12, 12]),
        ("exists(it)", [0, 7]),
        # characters, not bytes; from the first character of the text, whatever stands there
        ("'é' == it.t", [0, 0, 7, 7]),
        ("'\U0001f600é' == it.t", [0, 0, 8, 8]),
        ("  1 == 2 ", [2, 2, 7]),
        ("(1 ==\n2)", [1, 1, 6]),
        ("(1 ==\r2)", [1, 1, 6]),
    ],
)
def test_every_node_begins_at_its_character(text: str, offsets: list[int]) -> None:
    assert [node.offset for node in walk(of(text))] == offsets


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("it.n==1", ["it.n == 1"]),
        (" 1 < it.n  <=  3 ", ["1 < it.n", "it.n <= 3"]),
        ("'é' not   in ['é', 'è']", ["'é' not in ['é', 'è']"]),
        (f"it.t == '{'a' * (MAX_SHOWN - 2)}'", [f"it.t == '{'a' * (MAX_SHOWN - 2)}'"]),
        (f"it.t == '{'a' * (MAX_SHOWN - 1)}'", [f"it.t == '{'a' * (MAX_SHOWN - 1)}"]),
    ],
)
def test_a_comparison_keeps_how_it_is_written(text: str, shown: list[str]) -> None:
    assert [node.text for node in walk(of(text)) if isinstance(node, Compare)] == shown


def test_lines_of_a_text_are_one() -> None:
    assert of("it.b\nand\r\nit.b") == of("it.b and  it.b")
    assert tree(of("'a\nb'")) == "'a b'"


def test_what_a_text_looks_like_to_python_is_not_said() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tree(of(r"'\d'")) == r"'\d'"


def test_a_text_is_bounded_in_length_in_size_and_in_depth() -> None:
    at_most = f"it.t == {'a' * 10!r}".ljust(MAX_TEXT)
    assert kind(of(at_most).type) == "bool"
    values = MAX_NODES - 4  # the text, the comparison, its left and the list are four
    assert kind(of(f"1 in [{', '.join('1' * values)}]").type) == "bool"
    depth = MAX_NESTING - 3  # the text, the comparison and its sides are three
    assert kind(of("not " * depth + "1 == 1").type) == "bool"
    for text, words in (
        (at_most + " ", f"the expression is longer than {MAX_TEXT} characters"),
        (f"1 in [{', '.join('1' * (values + 1))}]", "the expression is too large"),
        ("not " * (depth + 1) + "1 == 1", "the expression is too large"),
        ("\0", "not an expression: it holds a null character"),
        ("-" * 3000 + "1", "not an expression: too deeply nested or not text"),
        ("'\ud800' == it.t", "not an expression: too deeply nested or not text"),
    ):
        with pytest.raises(ExpressionError, match=words) as caught:
            of(text)
        assert caught.value.offset == 0
    with pytest.raises(ExpressionError, match="too many nested parentheses"):
        of("(" * 300 + "1" + ")" * 300)


def test_only_a_condition_stands_where_one_is_expected() -> None:
    assert kind(of("it.n").type) == "number"
    assert kind(parse("it.b", SCOPE).type) == "bool"
    assert kind(parse("it.any", SCOPE).type) == "any"


def test_a_variable_of_a_range_lives_as_long_as_the_range() -> None:
    both = "all(x.b for x in them) and all(x.b for x in before.item)"
    assert tree(of(both)) == "(and all(x.b for x in them) all(x.b for x in before.item))"


def test_a_literal_goes_through_the_rules_of_the_field_beside_it() -> None:
    (found,) = (node for node in walk(of("it.rule == 'A'")) if isinstance(node, Canonical))
    value: Value = "ABC"
    assert found.apply(value) == "abc"


class Garbage:
    """Its end gives another thread the turn, in the middle of whatever this one was doing."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        for _ in range(50):
            pass


@pytest.fixture
def many_turns() -> Iterator[None]:
    was, interval = gc.get_threshold(), sys.getswitchinterval()
    gc.set_threshold(50, 5, 5)
    sys.setswitchinterval(1e-6)
    yield
    gc.set_threshold(*was)
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("many_turns")
def test_threads_that_take_turns_while_they_parse_all_get_their_trees() -> None:
    text = "all(x.b == y.c + 1 for x in before.item if x.d in [1, 2, 3, (4 + 5)])"
    trees: list[str] = []

    def parse_often() -> None:
        for _ in range(300):
            [Garbage() for _ in range(20)]
            trees.append(type(parse_python(text).body).__name__)

    threads = [threading.Thread(target=parse_often) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert trees == ["Call"] * 2400


@given(st.text(min_size=1, max_size=12))
def test_every_name_can_be_said_in_quotes_and_is_read_as_it_is(name: str) -> None:
    entity = EntityType(name, ("id",), (Field("id", Kind.INT), Field(name, Kind.INT)))
    scope = Scope(Schema("names", "1", (entity,)), variables={"it": EntityT(name)})
    quoted = json.dumps(name, ensure_ascii=False)
    text = (
        f"any(c.{quoted} == it.{quoted} for c in after.{quoted} if c.id != before.{quoted}[1].id)"
    )
    read = parse(text, scope)
    fields = {(p.entity_type, p.field) for p in walk(read) if isinstance(p, FieldOf)}
    assert fields == {(name, name), (name, "id")}
    assert {p.entity for p in walk(read) if isinstance(p, Entities)} == {name}
    assert text_of(parse(text_of(read), scope)) == text_of(read)


@pytest.mark.parametrize("name", ["donne\u0301es", "données", "ﬁn", "Straße"])
def test_letters_are_read_as_they_are_written(name: str) -> None:
    read = parse_python(f"it.{name} == 'é' and it.class").body
    assert {n.attr for n in ast.walk(read) if isinstance(n, ast.Attribute)} == {name, "class"}


@pytest.mark.parametrize("text", ['it."\\ud800" == 1', 'it."\\q" == 1'])
def test_a_quoted_name_is_a_json_string(text: str) -> None:
    with pytest.raises(ExpressionError, match="not an expression"):
        parse(text, SCOPE)
