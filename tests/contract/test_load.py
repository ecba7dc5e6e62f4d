"""Contracts from files: shape errors in our words, ids, and files that are none."""

import os
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML
from ruamel.yaml.compat import StringIO

from statediff.contract.document.contract import ContractDocument
from statediff.contract.document.jsonschema import contract_schema
from statediff.contract.document.load import clause_ids, fixed, parse_document
from statediff.contract.document.schemafile import parse_schema_file
from statediff.contract.file import load_contract
from statediff.contract.language.kinds import ExpressionError
from statediff.contract.language.names import Scope
from statediff.contract.language.parser import GONE, parse
from statediff.contract.yaml.shape import INSTEAD
from statediff.errors import ContractError, Problem, UsageError
from statediff.model.schema import Schema
from tests.contract.mutants import damaged
from tests.golden import held
from tests.judging import contract

HEAD = "contract: a/b\nversion: 1.0.0\nowner: me\nintent: change one thing\n"
VALID = """\
contract: shop/refund-returned-order
version: 1.0.0
owner: billing-operations
intent: >
  Refund the returned lines of one order to the payment method that paid for it,
  and tell the customer once.
sandbox: shop
inputs: {order: 1009, cents: 3900, rate: 1.50, list: [1, [2, ~]]}
frame: {open: the tracker is shared}
exclude:
  - {what: message.message_id, because: random per delivery}
canonicalize:
  - use: timestamp@1
    on: [order.updated_at, [order.items, order.new_items]]
    resolution: 1s
    because: the shop truncates to seconds
identify:
  - {type: message, match_on: {email: nfc@1, name: }, version: 1, because: mail has no key}
forbid:
  - {id: no-customer-deleted, delete: customer}
  - {any: [db.role, db.grant, db.membership]}
require:
  - id: refunded
    create: refund
    where: it.order == input.order and it.to == before.order[input.order].paid_with
    count: {min: 1}
    that: sum(r.cents for r in them) == input.cents
  - update: order
    set: {status: refunded, note: ~}
    from: {status: paid}
    count: every
allow:
  - {update: order, fields: [status, updated_at], by: agent, count: 3}
effects:
  - on: create refund
    reversibility: irreversible
    authorized_by: any(a.order == input.order for a in before.approval)
    compensation: void_refund
    retry_safe: false
evidence:
  shop-db: {max_age: 5s}
  outbox: {max_age: 0.5m, authority: [message]}
answer:
  schema: {refunded_cents: int}
  claims:
    - answer.refunded_cents == sum(r.cents for r in created.refund)
    - id: twice
      that: answer.refunded_cents > 0
"""


def problems(text: str) -> list[tuple[str, int, int]]:
    with pytest.raises(ContractError) as caught:
        parse_document(text.encode(), "c.yaml")
    return [(p.code, p.line, p.column) for p in caught.value.problems]


def only_problem(text: str) -> str:
    with pytest.raises(ContractError) as caught:
        parse_document(text.encode(), "c.yaml")
    (problem,) = caught.value.problems
    for jargon in ("Input", "pydantic", "http", "valid ", "dict", "tuple", "str"):
        assert jargon not in str(problem).replace("state", "")
    return str(problem)


OLD = """answer:
  schema: {n: int, sources: list}
access:
  actor: ann
  allow: [notes]
  as_of: 2026-03-05
  subsystems:
    notes: {type: doc, at: it.at, participation: it.by == "ann"}
  citations: sources
turns:
  - user: Go on.   # as the desk says it
    then: ['true']
steps:
  - {id: few, where: call.tool == "x", count: 1}
actions: {forbid: {tools: [drop]}}
"""


def test_keys_that_have_another_name_now_are_written_so_and_nothing_else_changes() -> None:
    new = fixed(contract(OLD).encode(), "c.yaml").decode()
    names = {"as_of": "at", "participation": "authorized_by", "citations": "cite", "user": "prompt"}
    names |= {"then": "require", "calls": "where", "tools": "tool"}
    expected = OLD
    for old, name in names.items():
        expected = expected.replace(f"{old}:", f"{name}:")
    assert new == contract(expected)
    assert fixed(new.encode(), "c.yaml").decode() == new
    for other in (b"contract: \xff", b"", b"a: [", contract("stps: []\n").encode()):
        assert fixed(other, "c.yaml") == other


def test_a_contract_with_every_section_is_read(tmp_path):
    path = tmp_path / "contract.yaml"
    path.write_text(VALID)
    found = load_contract(path)
    document, contract = found.source, found.content
    assert document.file == str(path)
    assert contract.inputs == {
        "order": 1009,
        "cents": 3900,
        "rate": Decimal("1.50"),
        "list": (1, (2, None)),
    }
    assert contract.require[1].set == {"status": "refunded", "note": None}
    assert contract.canonicalize[0].parameters == {"resolution": "1s"}
    assert contract.identify[0].match_on == {"email": "nfc@1", "name": None}
    assert clause_ids(contract) == {
        "forbid": ("no-customer-deleted", "forbid-2"),
        "require": ("refunded", "require-2"),
        "allow": ("allow-1",),
        "claims": ("claim-1", "twice"),
        "steps": (),
        "turns": (),
    }


def test_a_wrong_value_is_explained_where_it_stands(request: pytest.FixtureRequest) -> None:
    def said(text: str) -> str:
        own = {line.split(":")[0] for line in text.split("\n")}
        rest = [x for x in HEAD.splitlines(keepends=True) if x.split(":")[0] not in own]
        return only_problem(text + "".join(rest) + "forbid:\n  - delete: x\n")

    held(request, "wrong_values", said)


@pytest.mark.parametrize(
    ("clause", "code", "line", "column"),
    [
        ("create: r\n    count: true", "invalid", 7, 12),
        ("create: r\n    count: '5'", "invalid", 7, 12),
        ("create: r\n    count: 1.0", "invalid", 7, 12),
        ("create: r\n    count: -1", "invalid", 7, 12),
        ("create: r\n    count: {min: 3, max: 1}", "invalid", 7, 12),
        ("create: r\n    count: {mn: 3}", "unknown-key", 7, 13),
        ("create: r\n    count: {max: '3'}", "invalid", 7, 18),
        ("create: [r, 1]", "invalid", 6, 17),
        ("create: ''", "invalid", 6, 13),
        ("crate: r", "unknown-key", 6, 5),
        ("id: x", "invalid", 6, 5),
        ("create: r\n    delete: r", "invalid", 6, 5),
        ("where: it.x == 1", "invalid", 6, 5),
        ("create: r\n    where:", "invalid", 7, 5),
        ("create: r\n    where: true", "invalid", 7, 12),
        ("create: r\n    cascade: {x: {max: 0}}", "unknown-key", 7, 5),
        ("create: r\n    by: me", "invalid", 7, 9),
        ("create: r\n    set: [a]", "invalid", 7, 10),
        ("create: r\n    fields: status", "invalid", 7, 13),
        ("create: r\n    fields: [status, 5]", "invalid", 7, 22),
        ("update: r\n    fields: []", "invalid", 7, 13),
        ("fields: []\n    update: [r, s]", "invalid", 6, 13),
        ("create: r\n    because: a", "invalid", 7, 14),
        ("id: a b\n    create: r", "invalid", 6, 9),
    ],
)
def test_a_wrong_clause_is_refused_where_it_stands(clause, code, line, column):
    assert problems(HEAD + "forbid:\n  - " + clause + "\n") == [(code, line, column)]


@pytest.mark.parametrize("key", sorted(INSTEAD))
@pytest.mark.parametrize("place", ["{}: 1\n", "forbid: [{{delete: x, {}: 1}}]\n"])
def test_a_key_that_is_gone_is_one_error_that_says_what_to_write(key, place):
    text = HEAD + place.format(key) + ("" if "forbid" in place else "forbid: [{delete: x}]\n")
    with pytest.raises(ContractError) as caught:
        parse_document(text.encode(), "c.yaml")
    [problem] = caught.value.problems
    assert (problem.code, problem.hint) == ("unknown-key", INSTEAD[key])


@pytest.mark.parametrize("name", sorted(GONE))
def test_a_function_that_is_gone_is_one_error_that_says_what_to_write(name):
    with pytest.raises(ExpressionError) as caught:
        parse(f"{name}(1) == 1", Scope(Schema("none", "1", ())))
    assert (str(caught.value), caught.value.hint) == (f"unknown function `{name}`", GONE[name])


def test_a_contract_without_a_clause_is_an_error():
    assert "would match anything" in only_problem(HEAD + "allow:\n  - create: x\n")


def test_missing_keys_are_all_named():
    with pytest.raises(ContractError) as caught:
        parse_document(b"contract: a\nvresion: 1.0.0\n", "c")
    assert [(p.code, p.line) for p in caught.value.problems] == [
        ("missing-key", 1),
        ("missing-key", 1),
        ("unknown-key", 2),
    ]
    assert {"`intent`" in str(caught.value), "`owner`" in str(caught.value)} == {True}


def test_a_misspelt_key_of_a_claim_is_one_problem():
    assert problems(HEAD + "answer:\n  claims:\n    - tht: a == b\n    - 5\n") == [
        ("unknown-key", 7, 7),
        ("invalid", 8, 7),
    ]


def test_ids_are_unique_over_all_sections_and_the_written_one_gives_way():
    assert problems(
        HEAD + "forbid:\n"
        "  - delete: a\n"
        "  - {id: forbid-1, delete: b}\n"
        "require:\n"
        "  - {id: x, create: a}\n"
        "answer:\n"
        "  claims:\n"
        "    - id: x\n"
        "      that: b == c\n"
    ) == [("duplicate-id", 7, 10), ("duplicate-id", 12, 11)]


@pytest.mark.slow
def test_twenty_thousand_wrong_values_are_answered_at_once():
    for item in ("5", "{a: 1}", "{x: y}", "~"):
        count = 19_000 if item in "5~" else 6_000
        started = time.process_time()
        assert len(problems(HEAD + "forbid: [" + f"{item}, " * count + "]\n")) <= 200
        assert time.process_time() - started < 10


def test_what_is_no_readable_file_is_a_usage_error_and_never_waited_for(tmp_path):
    fifo, loop = tmp_path / "fifo", tmp_path / "loop"
    os.mkfifo(fifo)
    loop.symlink_to(loop)
    for path, words in (
        (tmp_path / "none.yaml", "found nothing"),
        (tmp_path, "a directory"),
        (fifo, "FIFO"),
        (Path("/dev/zero"), "device"),
        (loop, "cannot be read"),
        (tmp_path / "a\0b", "cannot be read"),
        (tmp_path / ("x" * 300), "cannot be read"),
    ):
        with pytest.raises(UsageError, match=words) as caught:
            load_contract(path)
        assert not isinstance(caught.value, ContractError)


def test_a_huge_file_is_refused_unread(tmp_path):
    path = tmp_path / "huge.yaml"
    with path.open("wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(ContractError, match="at most 262144 bytes, found 1099511627776"):
        load_contract(path)


def contract_or_problems(text: str) -> ContractDocument | tuple[Problem, ...]:
    """Whichever it is; anything but a ContractError goes through."""
    try:
        return parse_document(text.encode(), "f")[1]
    except ContractError as error:
        problems = error.problems
    assert all(p.line >= 1 and p.column >= 1 and p.message for p in problems)
    assert not any("Input should" in p.message for p in problems)
    return problems


@given(damaged(VALID, "\x00", "\n  x: y\n"))
def test_a_mutated_contract_gives_a_contract_or_a_typed_error(text: str) -> None:
    started = time.process_time()
    contract = contract_or_problems(text)
    assert time.process_time() - started < 1
    if isinstance(contract, ContractDocument):
        ids = [clause_id for own in clause_ids(contract).values() for clause_id in own]
        assert len(set(ids)) == len(ids)


@given(
    st.sampled_from([path for path in parse_document(VALID.encode(), "f")[0].positions if path]),
    st.sampled_from([None, True, 5, -1, Decimal("1.5"), "x", "", [], {}, [5], {"x": 1}, [[]]]),
)
def test_any_value_put_anywhere_gives_a_contract_or_problems_at_places_of_the_file(path, value):
    document = parse_document(VALID.encode(), "f")[0]
    parent = document.value
    for step in path[:-1]:
        parent = parent[step]
    parent[path[-1]] = value
    out = StringIO()
    writer = YAML(typ="safe", pure=True)
    writer.representer.add_representer(
        Decimal, lambda r, d: r.represent_scalar("tag:yaml.org,2002:float", str(d))
    )
    writer.default_flow_style = False
    writer.dump(document.value, out)
    assert contract_or_problems(out.getvalue())


def test_the_published_json_schema_accepts_what_is_accepted_and_no_null():
    value = parse_document(VALID.encode(), "f")[0].value
    value["inputs"]["rate"] = 1.5
    validator = jsonschema.Draft202012Validator(contract_schema())
    assert list(validator.iter_errors(value)) == []
    assert list(validator.iter_errors({**value, "prompt": None}))


@pytest.mark.parametrize(
    ("parse", "text", "said"),
    [
        (parse_document, "schema: notes\nversion: 1.0.0\nentities: {a: {key: b}}\n",
         "this is a state schema: expected a contract, with `contract: NAME`"),
        (parse_document, "sandbox: shop\nversion: 1.0.0\nsources: {}\n",
         "this is a sandbox: expected a contract, with `contract: NAME`"),
        (parse_document, '{"user": [{"id": 1}]}',
         "this is not a contract: expected a contract, with `contract: NAME`"),
        (parse_schema_file, "contract: a/b\nversion: 1.0.0\nowner: me\n",
         "this is a contract: expected a state schema, with `schema: NAME`"),
        (parse_document, "version: 1.0.0\nowner: me\nintent: Change nothing at all.\n",
         "missing key `contract`: expected a name in lower case, e.g. shop/refund-returned-order"),
    ],
)  # fmt: skip
def test_another_kind_of_file_is_one_problem(
    parse: Callable[[bytes, str], object], text: str, said: str
) -> None:
    with pytest.raises(ContractError) as raised:
        parse(text.encode(), "a.yaml")
    assert [problem.message for problem in raised.value.problems] == [said]
