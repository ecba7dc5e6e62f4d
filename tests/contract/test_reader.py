"""Reading documents: what is refused, where, and that nothing else ever happens."""

from __future__ import annotations

import json
import re
import string
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from ruamel.yaml import YAML
from ruamel.yaml.compat import StringIO
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from statediff.contract.yaml.composer import (
    NotAScalar,
    hidden_character,
    quote,
    resolve,
)
from statediff.contract.yaml.reader import MAX_BYTES, Document, NodePath, Position, read_document
from statediff.errors import ContractError


def read(text: str | bytes) -> Document:
    return read_document(text if isinstance(text, bytes) else text.encode(), "c.yaml")


def problems(text: str | bytes) -> list[tuple[str, int, int]]:
    with pytest.raises(ContractError) as caught:
        read(text)
    return [(p.code, p.line, p.column) for p in caught.value.problems]


def test_every_key_and_value_has_its_line_and_column():
    document = read("# first\nrequire:\n  - id: a\n    where: |\n      x\n  - {b: [1, 2]}\n")
    places = {
        path: (p.key_line, p.key_column, p.line, p.column) for path, p in document.positions.items()
    }
    assert places == {
        (): (2, 1, 2, 1),
        ("require",): (2, 1, 3, 3),
        ("require", 0): (3, 5, 3, 5),
        ("require", 0, "id"): (3, 5, 3, 9),
        ("require", 0, "where"): (4, 5, 4, 12),
        ("require", 1): (6, 5, 6, 5),
        ("require", 1, "b"): (6, 6, 6, 9),
        ("require", 1, "b", 0): (6, 10, 6, 10),
        ("require", 1, "b", 1): (6, 13, 6, 13),
    }
    assert document.position(("require", 0, "nowhere", 5)) == document.position(("require", 0))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%YAML 1.1\n---\na: no\n", [("directive", 1, 1)]),
        ("# c\n%FOO bar\n%TAG ! x\n---\na: 1\n", [("directive", 2, 1), ("directive", 3, 1)]),
        ("a: 1\nb: &x 2\n", [("anchor", 2, 4)]),
        ("a: &x 1\nb: *x\n", [("anchor", 1, 4), ("anchor", 2, 4)]),
        ("&k a: 1\n", [("anchor", 1, 1)]),
        ("a: [&x [1]]\n", [("anchor", 1, 5)]),
        ("*x\n", [("anchor", 1, 1)]),
        ("a: !!str 1\n", [("tag", 1, 4)]),
        ("a: ! 1\n", [("tag", 1, 4)]),
        ("a: !!python/object:os.system {b: 1}\n", [("tag", 1, 4)]),
        ("a:\n  <<: {b: 1}\n", [("merge-key", 2, 3)]),
        ("a: 1\nb: 2\na: 3\n", [("duplicate-key", 3, 1)]),
        ('a: {b: 1, "b": 2}\n', [("duplicate-key", 1, 11)]),
        ("1: x\n1.5: x\ntrue: y\n~: z\n007: a\n", [("key-not-text", n, 1) for n in range(1, 6)]),
        (": x\n", [("key-not-text", 1, 1)]),
        ("? [a]\n: 1\n", [("key-not-text", 1, 3)]),
        ("a: {[b]: 1}\n", [("key-not-text", 1, 5)]),
        ("a: 1\n---\nb: 2\n", [("several-documents", 2, 1)]),
        ("a: 1\n...\n%YAML 1.1\n---\nb: 2\n", [("several-documents", 4, 1)]),
        ("", [("empty-document", 1, 1)]),
        ("# only a comment\n", [("empty-document", 1, 1)]),
        ("---\n", [("empty-document", 2, 1)]),
        ("- a\n", [("not-a-mapping", 1, 1)]),
        ("\n  word\n", [("not-a-mapping", 2, 3)]),
        (b"a: 1\nb: \xc3\xa9\xff\n", [("not-utf-8", 2, 5)]),
        (b"SQLite format 3\0\x10\0\0\0\xff", [("not-utf-8", 1, 21)]),
        ("a: 1".encode("utf-16"), [("not-utf-8", 1, 1)]),
        ("a: \x1b[31m\n", [("control-character", 1, 4)]),
        ("a: x\x00\n", [("control-character", 1, 5)]),
        ("a: b\rc: d\n", [("control-character", 1, 5)]),
        ("a: 1\n# \u202e\n", [("control-character", 2, 3)]),
        ("a: x\u2028b: y\n", [("control-character", 1, 5)]),
        ("a\u200bb: 1\n", [("hidden-character", 1, 1)]),
        ('"a\\u202e": 1\n', [("hidden-character", 1, 1)]),
        ("a\u00a0b: 1\n", [("hidden-character", 1, 1)]),
        ("where: it.x == 'a\u200d'\n", [("hidden-character", 1, 8)]),
        ('a: "\\ud800"\n', [("syntax", 1, 4)]),
        ('a: 1\nb: "x\\UFFFFFFFF"\n', [("syntax", 2, 6)]),
        ('a: "\\U00110000"\n', [("syntax", 1, 5)]),
        ("a: .nan\nb: [-.inf]\n", [("number", 1, 4), ("number", 2, 5)]),
        ("a: 007\n", [("number", 1, 4)]),
        (
            "a: 1e401\nb: 1e99999999999999999999\nc: 1e-401\n",
            [("number", 1, 4), ("number", 2, 4), ("number", 3, 4)],
        ),
        ("a: " + "9" * 101 + "\n", [("number", 1, 4)]),
        ("a: " + "9" * 200_000 + "\n", [("number", 1, 4)]),
        ("a: 0x" + "f" * 200_000 + "\n", [("number", 1, 4)]),
        ("a:\n\tb: 1\n", [("syntax", 2, 1)]),
        ("a: 'b\n", [("syntax", 1, 4)]),
        ("a: [1, 2\n", [("syntax", 2, 1)]),
        ("a: b: c\n", [("syntax", 1, 5)]),
        ("a: 1\n b: 2\n", [("syntax", 2, 3)]),
    ],
)
def test_what_contracts_do_not_use_is_refused_where_it_stands(text, expected):
    assert problems(text) == expected


def test_depth_is_bounded_before_anything_recurses():
    assert read("a: " + "[" * 29 + "]" * 29).value
    for text, column in (
        ("a: " + "[" * 30 + "]" * 30, 33),
        ("a: " + "[" * 200_000, 33),
        ("a: " + "{b: " * 60_000, 4 + 4 * 29),
    ):
        assert problems(text) == [("too-deep", 1, column)]
    assert problems("a:\n" + "".join(" " * n + "-\n" for n in range(1, 400)))[0][0] == "too-deep"


def test_size_and_number_of_values_are_bounded():
    fill = "a: 1\n#" + "x" * (MAX_BYTES - 6)
    assert read(fill).value == {"a": 1}
    assert problems(fill + "x") == [("too-large", 1, 1)]
    assert problems("a:\n" + "- 1\n" * 20_000) == [("too-many-nodes", 19_999, 3)]


def test_an_expression_in_flow_style_is_read_where_it_reads_only_one_way():
    clauses = read(
        "require:\n"
        "  - {id: renamed, update: user, where: it.id == 1, set: {name: A}}\n"
        "  - {id: f, update: user, where: contains(it.t) and it.u == 'x', that: not it.b}\n"
        "answer: {claims: [a == b, 'c == d', {that: e == f}]}\n"
    ).value
    assert clauses["require"][0] == {
        "id": "renamed",
        "update": "user",
        "where": "it.id == 1",
        "set": {"name": "A"},
    }
    assert clauses["require"][1]["where"] == "contains(it.t) and it.u == 'x'"
    assert clauses["answer"]["claims"] == ["a == b", "c == d", {"that": "e == f"}]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("{create: r, that: count(x, y) == 2}", "unknown key `y) == 2`: the comma before it cuts"),
        ('{create: r, where: it.t == "a, b"}', 'unknown key `b"`: the comma before it cuts'),
        ("{create: r, set: {n: {is: f(a, b)}}}", "unknown key `b)`: the comma before it cuts"),
        ("{create: r, where: f(it}", "found `f(it`, which `,` or a bracket cut short"),
    ],
)
def test_what_a_comma_makes_of_an_expression_says_so(written, said):
    with pytest.raises(ContractError) as caught:
        read(f"require: [{written}]\n")
    assert said in str(caught.value)


def test_an_expression_that_flow_style_cuts_is_refused():
    assert problems(
        "require:\n"
        "  - {create: refund, that: count(x, y) == 2}\n"
        "effects:\n"
        "  - {on: create refund, authorized_by: f(x}\n"
        "answer: {claims: [f(a, b) == 1, {that: f(e, f)}]}\n"
    ) == [
        ("flow-expression", 2, 37),
        ("flow-expression", 4, 40),
        ("flow-expression", 5, 24),
        ("flow-expression", 5, 45),
    ]


def test_quoted_and_block_expressions_and_inputs_of_the_same_name_are_read():
    document = read(
        "inputs: {where: here, that: [x]}\n"
        "require:\n"
        "  - {create: refund, that: 'count(x, y) == 2'}\n"
        "  - update: order\n"
        "    where: it.id == f(x, y)[0]\n"
        "    set: {where: here}\n"
        "answer:\n  claims:\n    - f(a, b) == {c}\n"
    )
    assert document.value["require"][1]["where"] == "it.id == f(x, y)[0]"
    assert document.value["answer"]["claims"] == ["f(a, b) == {c}"]


@pytest.mark.parametrize(
    "line",
    [
        'that: "a" == b',
        "that: [x for x in y] == 2",
        'that: a == "b: c"',
        "- 'a' == b",
        "where: {a} == b",
    ],
)
def test_an_expression_that_yaml_cannot_hold_gets_the_way_out(line):
    with pytest.raises(ContractError) as caught:
        read(line)
    assert "below `key: >-`" in caught.value.problems[0].hint


def test_a_comment_inside_an_expression_of_several_lines_is_named_as_the_cause():
    with pytest.raises(ContractError) as caught:
        read('that: a == "issue #4" and\n  b == c\n')
    assert "at ` #`" in caught.value.problems[0].hint


@pytest.mark.parametrize(
    ("text", "word", "place"),
    [
        ("that: aa and bb", "bb", (1, 14)),
        ("that: aa and\n   bb or\n   cc", "cc", (3, 4)),
        ("that: 'aa and bb'", "bb", (1, 15)),
        ('that: "aa\n  bb"', "bb", (2, 3)),
        ("that: >-\n   aa and\n   bb", "bb", (3, 4)),
        ("that: |\n   aa and\n   bb\n", "bb", (3, 4)),
        ('that: "a\\u0061 bb"', "bb", (1, 7)),  # an escape hides where: the start of the value
    ],
)
def test_a_place_inside_an_expression_is_found_in_the_file(text, word, place):
    document = read(text)
    offset = document.value["that"].index(word)
    assert document.place(("that",), offset) == place
    assert document.locate(("that", "nowhere", 3), offset) == ("c.yaml", *place)


def test_several_problems_are_reported_at_once_in_the_order_of_the_file():
    assert [code for code, _, _ in problems("b: &x 1\na: !t 2\nb: .inf\n1: {where: x(}\n")] == [
        "anchor",
        "tag",
        "duplicate-key",
        "number",
        "key-not-text",
        "flow-expression",
    ]
    assert len(problems("a: [" + "&x 1, " * 1_000 + "]")) == 50


def test_a_byte_order_mark_and_windows_line_ends_are_read():
    document = read("\ufeffa: 1\r\nb:\r\n  - 2\r\n")
    assert document.value == {"a": 1, "b": [2]}
    assert document.position(("b", 0)).column == 5
    assert document.data.startswith(b"\xef\xbb\xbf")


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.text(
        st.characters(blacklist_categories=("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")), max_size=20
    )
    | st.sampled_from(["no", "1.5", "~", "", "true", "a: b", "- x", "&a", "#", "<<", "0o7", "{a}"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(string.ascii_letters + "0.-#: ", max_size=8), inner, max_size=4)
    ),
    max_leaves=20,
)


documents = st.dictionaries(
    st.text(string.ascii_letters, min_size=1), plain, min_size=1, max_size=5
)


@given(documents)
def test_plain_values_written_as_yaml_are_read_back(value):
    writer = YAML(typ="safe", pure=True)
    writer.default_flow_style = False
    writer.representer.ignore_aliases = lambda _: True
    out = StringIO()
    writer.dump({"inputs": value}, out)
    assert read(out.getvalue()).value == {"inputs": value}


@given(documents, st.sampled_from([None, 2]))
def test_json_is_read_as_json(value, indent):
    text = json.dumps({"inputs": value}, ensure_ascii=False, indent=indent)
    assert read(text).value == {"inputs": value}


ROOT = Path(__file__).resolve().parents[2]
CORPUS = [
    path.read_bytes()
    for folder in ("contracts", "docs", "fixtures", "sandboxes", "statediff")
    for path in sorted((ROOT / folder).rglob("*.y*ml"))
] + [
    block.encode()
    for path in sorted((ROOT / "docs").rglob("*.md"))
    for block in re.findall(r"```ya?ml\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)
]
INSERTED = (
    b"# c", b" # c\n", b"\n", b"  ", b"- ", b"x: 1\n", b"[", b"]", b"{", b"}", b", ", b"'", b'"',
    b"|\n", b">-\n", b"? ", b": ", b"~", b"007", b"&a ", b"---\n", b"\xc3\xa9",
)  # fmt: skip


def nodes_of(node: Node, path: NodePath, key: Node | None) -> Iterator[tuple[NodePath, Any, Any]]:
    """Every node of ruamel.yaml's own graph: its path, its place and key's place, its span."""
    at, where = node.start_mark, (key or node).start_mark
    is_scalar = isinstance(node, ScalarNode)
    if is_scalar and at.index == node.end_mark.index:
        at = where
    place = Position(at.line + 1, at.column + 1, where.line + 1, where.column + 1)
    span = (node.start_mark.index, node.end_mark.index, node.style or "") if is_scalar else None
    yield path, place, span
    if isinstance(node, SequenceNode):
        for index, item in enumerate(node.value):
            yield from nodes_of(item, (*path, index), None)
    elif isinstance(node, MappingNode):
        for name, item in node.value:
            yield from nodes_of(item, (*path, name.value), name)


def agrees_with_the_node_graph_of_ruamel(data: bytes) -> bool:
    try:
        document = read(data)
    except ContractError:
        return False
    top = YAML(typ="safe", pure=True).compose(document.text)
    expected = list(nodes_of(top, (), None))
    assert document.positions == {path: place for path, place, _ in expected}
    spans = {path: (span.start, span.end, span.style) for path, span in document.spans.items()}
    assert spans == {path: span for path, _, span in expected if span is not None}
    return True


@pytest.mark.slow
def test_every_document_there_is_agrees_with_the_node_graph_of_ruamel():
    assert sum(agrees_with_the_node_graph_of_ruamel(data) for data in CORPUS) > 80


@given(st.sampled_from(CORPUS), st.data())
def test_documents_with_insertions_agree_with_the_node_graph_of_ruamel(text, data):
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        text = text[:at] + data.draw(st.sampled_from(INSERTED)) + text[at:]
    agrees_with_the_node_graph_of_ruamel(text)


def test_reading_takes_time_in_proportion_to_the_document():
    def seconds(entries: int) -> float:
        text = "a:\n" + "".join(f"  k{i}: [x y, {{b: 2}}, 'q']\n" for i in range(entries))
        spent = []
        for _ in range(3):
            started = time.process_time()
            read(text)
            spent.append(time.process_time() - started)
        return min(spent)

    # 8 times the text: 8 on an idle machine; in proportion to its square it would be 64.
    assert seconds(2400) < 24 * seconds(300)


def only_typed_errors_and_fast(data: bytes) -> None:
    """Anything but a ContractError goes through."""
    started = time.process_time()
    problems = ()
    try:
        assert isinstance(read_document(data, "f").value, dict)
    except ContractError as error:
        problems = error.problems
    assert time.process_time() - started < 1
    last = data.decode("utf-8", "replace").count("\n") + 1
    assert all(1 <= p.line <= last and p.column >= 1 for p in problems)


@given(st.binary(max_size=300))
@example(b"\xef\xbb\xbf")
@example(b"? ")
def test_any_bytes_give_a_document_or_a_contract_error(data):
    only_typed_errors_and_fast(data)


@given(st.text("abc:- \n[]{}?,#&*!|>'\"%@`\t\\~0<.=xuU", max_size=80))
def test_any_punctuation_gives_a_document_or_a_contract_error(text):
    only_typed_errors_and_fast(text.encode())


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    [
        "[",
        "{",
        "- ",
        "? ",
        "a: ",
        "[,",
        '"',
        "'",
        "! ",
        "&a ",
        "*a ",
        "::",
        "# \n",
        "a\n\n",
        "\t",
        "a      b ",
        "a: b\n",
        " x\n",
        "{a: [",
        "%a\n",
        "\\u0041",
        "x" * 1500 + ": ",
        "\r\n",
        "0",
        "\u202e",
        "\x01",
        "a: |\n\n",
        "&a [",
        "!<a",
    ],
)
@pytest.mark.parametrize("before", ["", 'a: "', "a: |\n  ", "a: [\n"])
def test_a_quarter_of_a_megabyte_of_anything_is_answered_at_once(unit, before):
    data = (before + unit * (MAX_BYTES // len(unit))).encode()[:MAX_BYTES]
    started = time.process_time()
    said = ""
    try:
        read_document(data, "f")
    except ContractError as error:
        said = str(error)
    assert len(said) < 20_000
    assert time.process_time() - started < 30  # 0.7 s on an idle machine


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None), ("~", None), ("null", None), ("NULL", None), ("nil", "nil"),
        ("true", True), ("FALSE", False), ("tRUE", "tRUE"), ("no", "no"), ("on", "on"),
        ("0", 0), ("-0", 0), ("+7", 7), ("-12", -12), ("0o17", 15), ("0x1F", 31), ("0b1", "0b1"),
        ("0o8", "0o8"), ("0x", "0x"), ("1_000", "1_000"), ("2026-01-01", "2026-01-01"),
        ("1.50", Decimal("1.50")), (".5", Decimal("0.5")), ("1.", Decimal(1)),
        ("0.5", Decimal("0.5")),
        ("-1e3", Decimal("-1e3")), ("1e400", Decimal("1e400")), ("1e-400", Decimal("1e-400")),
        ("1e", "1e"), (".", "."), ("-.nan", "-.nan"), (".infinite", ".infinite"),
        ("9" * 100, int("9" * 100)), ("x" * 101, "x" * 101), ("01x", "01x"),
    ],
)  # fmt: skip
def test_a_plain_scalar_is_what_the_core_rules_say(text: str, value: object) -> None:
    found = resolve(text)
    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize(
    "text",
    ["01", "-01", "+007", "00", "01.5", ".inf", "-.Inf", ".nan", ".NaN", "9" * 101, "." + "1" * 100,
     "1e401", "1e-401", "1e0400", "1e99999999999999999999"],
)  # fmt: skip
def test_a_number_that_readers_understand_differently_is_refused(text: str) -> None:
    with pytest.raises(NotAScalar) as caught:
        resolve(text)
    assert caught.value.args == (str(caught.value),)
    assert "quote it if it is text" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "in_text", "in_key"),
    [
        ("a b", None, None), ("größe", None, None), ("\U0001f600", None, None),
        ("a\tb", None, "U+0009"), ("a\nb", None, "U+000A"),
        ("a\rb", "U+000D", "U+000D"), ("\x7f", "U+007F", "U+007F"),
        ("a\xa0b", None, "U+00A0 NO-BREAK SPACE"),
        ("\u2028", "U+2028 LINE SEPARATOR", "U+2028 LINE SEPARATOR"),
        ("\u2029", "U+2029 PARAGRAPH SEPARATOR", "U+2029 PARAGRAPH SEPARATOR"),
        ("é\u200b\u2028", "U+200B ZERO WIDTH SPACE", "U+200B ZERO WIDTH SPACE"),
        ("\u3164", "U+3164 HANGUL FILLER", "U+3164 HANGUL FILLER"),
    ],
)  # fmt: skip
def test_the_first_character_that_nobody_sees_is_named(
    text: str, in_text: str | None, in_key: str | None
) -> None:
    assert hidden_character(text, is_key=False) == in_text
    assert hidden_character(text, is_key=True) == in_key


@pytest.mark.parametrize(
    ("text", "limit", "shown"),
    [
        ("a  b", 40, "`a  b`"), ("a  b\n   c", 40, "`a b c`"), ("a\u202eb", 40, "`a\\u202eb`"),
        ("x" * 40, 40, f"`{'x' * 40}`"), ("x" * 41, 40, f"`{'x' * 39}…`"), ("abcd", 3, "`ab…`"),
    ],
)  # fmt: skip
def test_a_quotation_is_one_short_line_with_nothing_hidden(
    text: str, limit: int, shown: str
) -> None:
    assert quote(text, limit) == shown
    if limit == 40:
        assert quote(text) == shown
