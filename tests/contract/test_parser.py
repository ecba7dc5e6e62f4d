"""The result of parsing each text, and the texts refused: in which words, at which place."""

from __future__ import annotations

import ast
import gc
import json
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff.contract.language.kinds import ExpressionError
from statediff.contract.language.names import Policy, Scope
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
from tests.golden import held

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
    policy=Policy(
        literal=lambda _, name, steps: (
            str.lower if name in ("rule", "map", "amount") and not steps else None
        )  # type: ignore[return-value, arg-type]
    ),
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


def test_a_text_has_this_form(request: pytest.FixtureRequest) -> None:
    held(request, "forms", lambda text: [tree(of(text)), kind(of(text).type)])


def test_a_text_is_refused_where_it_is_wrong(request: pytest.FixtureRequest) -> None:
    def said(text: str) -> list[Any]:
        with pytest.raises(ExpressionError) as caught:
            parse(text, SCOPE)
        return [caught.value.offset, str(caught.value), caught.value.hint]

    held(request, "refused", said)


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
