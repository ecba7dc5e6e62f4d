"""Contracts as found in the wild: whatever the bytes, a typed answer within a second.

And whatever a state holds, a parsed clause stays what its author wrote.
"""

from __future__ import annotations

import hashlib
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff.contract.authoring.explain import explain
from statediff.contract.authoring.formatting import format_contract
from statediff.contract.lint import lint_contract
from statediff.contract.lint.subject import Subject, bound_clauses
from statediff.errors import ContractError, Problem
from statediff.evaluate import compile_contract, parse_contract, schema_of
from statediff.model.schema import Schema
from statediff.model.values import Unobserved
from statediff.model.verdict import Verdict
from statediff.reports.contracts import as_text
from statediff.workspace.trials import base_state, open_sandbox
from tests.judging import item, run, state, user

ROOT = Path(__file__).resolve().parents[2]
VALID = [
    path.read_bytes()
    for folder in ("contracts", "fixtures")
    for path in sorted((ROOT / folder).rglob("contract.yaml"))
]
LIBRARY = b"""\
library: fuzz/common
clauses:
  kept:
    parameters: {type: name}
    clause: {id: "kept-${type}", delete: "${type}"}
  noted:
    parameters: {field: name, note: value, also: expression}
    clause:
      update: order
      where: it.id == input.order and ${also}
      set: {"${field}": "${note}"}
      that: count(new.${field}, ${note}) == 1
"""
LANGUAGE = b"""\
contract: fuzz/language
version: 1.0.0
owner: tests
intent: Say in prose what was refunded, and note it.
prompt: Refund order {order}; write {{order}} as it is.
libraries: {common.yaml: "PIN"}
inputs: {order: 1009, tags: [a, b]}
forbid:
  - {use: common.yaml#kept, with: {type: customer}}
  - {id: none, update: product, where: 'search(lower(it.name), "b+")'}
require:
  - {use: common.yaml#noted, with: {field: status, note: paid, also: it.id != 3}, id: noted}
  - id: texts
    update: order
    that: >-
      appended(it.status, new.status) == "; " + join(input.tags, ", ") and
      same_items([o.id for o in after.order], [1, 2]) and input.tags[len(input.tags) - 1] == "b"
      and timestamp(it.status) < timestamp("2026-01-31T12:00:00Z")
answer:
  form: text
  extract: {total: {read: number, after: total}, who: {read: name, of: [Ada]}, said: quoted}
  claims: [answer.total == 39, 'mentions(answer.text, "Ada")']
"""
VALID.append(LANGUAGE.replace(b"PIN", hashlib.sha256(LIBRARY).hexdigest().encode()))
IS_FUZZ = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"
FILES_PER_EXAMPLE = 50 if IS_FUZZ else 5
"""`make fuzz` draws 2,000 examples: 100,000 files, nine of ten of them mutated from valid ones."""
SECONDS = 1.0

FRAGMENTS = [
    b"&a ", b"*a", b"<<: ", b"!!python/object:os.system ", b"%YAML 1.1\n", b"---\n", b"...\n",
    b"? ", b"- ", b": ", b" #", b"{", b"}", b"[", b"]", b"'", b'"', b"|\n", b">-\n", b"\t",
    b"\x00", b"\xff", b"\xef\xbb\xbf", b"\\U00110000", b"0x", b"1e999999999", b".nan", b"~",
    b"null", b"true", b"yes", b"999999999999999999999999999", b"it.", b"it.it.it",
    b"before.order[", b"after.", b"them", b"new.", b"((((((((((", b"))))))))))", b" and ",
    b" or not ", b" == ", b" in ", b"lambda x: x", b"__class__", b"{'a': 1}", b"f'{x}'",
    b"1 if 2 else 3", b"(x for x in before.order)", b"sum(", b"matches(it.body, ", b"'(a+)+$')",
    b"x" * 5000, b"[" * 200, b"a: " * 50, b"\xe2\x80\xae", b"\xe2\x80\x8b", b"\xed\xa0\x80",
    b"create: ", b"any_of: ", b"count: -1", b"count: 10000000000000000000000", b"input.order",
    b"${x}", b"{{ 7*7 }}", b"timestamp('x')", b"within(1, 2, 3)", b" * 9 ** 9 ** 9", b"@", b"`",
    b"\r\n", b"\r", b"use: common.yaml#closed", b"libraries: {common.yaml: '",
    b"with: {type: user}", b"answer.text", b"${type}",
    b"form: text", b"extract: {total: number, who: {read: name, of: [A]}}",
    b"appended(it.body, new.body)", b"count(it.body, 'a')", b"lower(", b"search(it.body, '(a+)+$')",
    b"join(it.tags, ', ')", b"same_items([x.id for x in before.order], [1])",
    b"it.tags[len(it.tags) - 1]",
    b"timestamp(it.body)", b"local_timestamp(", b"date(it.body)", b"mentions(answer.text, it.body)",
    b"it.body + 'x'", b"[1] + it.id", b"{{order}}", b"noop: true\n",
]  # fmt: skip


def mutated(rng: random.Random) -> bytes:
    """A file that began as a valid contract nine times of ten, with up to eight mutations."""
    if rng.random() < 0.1:
        return b"".join(rng.choice(FRAGMENTS) for _ in range(rng.randrange(1, 60)))
    data = bytearray(rng.choice(VALID))
    for _ in range(rng.choice((1, 1, 1, 1, 2, 2, 3, 8))):
        _mutate(data, rng)
    return bytes(data)


def _mutate(data: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(data) + 1)
    lines = data.split(b"\n")
    match rng.randrange(12):
        case 0:
            data[at : at + rng.randrange(1, 20)] = b""
        case 1:
            data[at:at] = rng.choice(FRAGMENTS)
        case 2 if data:
            data[min(at, len(data) - 1)] = rng.randrange(256)
        case 3:
            del lines[rng.randrange(len(lines))]
            data[:] = b"\n".join(lines)
        case 4:
            lines.insert(rng.randrange(len(lines)), rng.choice(lines))
            data[:] = b"\n".join(lines)
        case 5:
            which = rng.randrange(len(lines))
            lines[which] = b" " * rng.randrange(5) + lines[which].lstrip()
            data[:] = b"\n".join(lines)
        case 6:
            other = rng.choice(VALID).split(b"\n")
            lines[rng.randrange(len(lines))] = rng.choice(other)
            data[:] = b"\n".join(lines)
        case kind:
            words = [word for word in bytes(data).split() if len(word) > 1]
            if words:
                old = rng.choice(words)
                new = rng.choice(FRAGMENTS if kind == 7 else words)
                data[:] = bytes(data).replace(old, new, 1)


@pytest.fixture(scope="module")
def schema() -> Iterator[Schema]:
    with open_sandbox("shop") as sandbox:
        yield schema_of(base_state(sandbox))


def through(data: bytes, schema: Schema, library: bytes = LIBRARY) -> str:
    """How far a file comes; every error is one of ours."""
    problems: tuple[Problem, ...] = ()
    try:
        file = parse_contract(data, "c.yaml", lambda _name: library)
    except ContractError as error:
        problems = error.problems
    assert all(p.line >= 1 and p.column >= 1 and p.message for p in problems)
    if problems:
        return "unread"
    try:
        format_contract(data, "c.yaml", lambda _name: library)
    except ContractError as error:
        problems = error.problems
    assert {p.code for p in problems} <= {"unformattable"}
    try:
        compiled = compile_contract(file, schema)
    except ContractError:
        return "unbound"
    lint_contract(Subject(file.source, compiled.contract))
    as_text(explain(file.source, compiled.contract))
    return "bound"


@given(seed=st.integers(0, 2**48))
def test_a_mutated_contract_gets_a_typed_answer_within_a_second(seed: int, schema: Schema) -> None:
    rng = random.Random(seed)
    for number in range(FILES_PER_EXAMPLE):
        data = mutated(rng)
        start = time.process_time()
        through(data, schema)
        spent = time.process_time() - start
        assert spent < SECONDS, f"file {number} of seed {seed} took {spent:.2f} s"


@given(seed=st.integers(0, 2**48))
def test_a_mutated_library_gets_a_typed_answer_within_a_second(seed: int, schema: Schema) -> None:
    rng = random.Random(seed)
    for number in range(FILES_PER_EXAMPLE):
        library = bytearray(LIBRARY)
        for _ in range(rng.choice((1, 1, 2, 3))):
            _mutate(library, rng)
        pin = hashlib.sha256(library).hexdigest().encode()
        start = time.process_time()
        through(LANGUAGE.replace(b"PIN", pin), schema, bytes(library))
        spent = time.process_time() - start
        assert spent < SECONDS, f"library {number} of seed {seed} took {spent:.2f} s"


def test_the_words_of_the_language_are_in_the_grammar(schema: Schema) -> None:
    assert through(VALID[-1], schema) == "bound"


def test_mutation_reaches_every_depth(schema: Schema) -> None:
    rng = random.Random(1)
    reached = [through(mutated(rng), schema) for _ in range(300)]
    assert {"unread", "unbound", "bound"} == set(reached)


HOSTILE = st.one_of(
    st.sampled_from([
        "*a", "&a x", "!!python/object/apply:os.system [id]", "- a\n- b", "a: b", "{a: b}",
        "<<: x", "'; DROP TABLE user; --", "1 OR 1=1", "') UNION SELECT 1 --",
        "${jndi:ldap://x}", "{{ 7*7 }}", "{order}", "{% raw %}", "%s%n",
        "__import__('os').system('id')", "it.id == 1", "true", "null", "input.n",
        "before.user[1]", "lambda: 0", "any(x for x in y)", "\u202e", "a\u200bb", "\\x00",
        "forbid: []", "noop: true", "ignore@1", "9" * 400, "(a+)+$",
    ]),
    st.text(max_size=30),
)  # fmt: skip
BODY = """\
inputs: {n: 2}
forbid:
  - {id: f, delete: user}
  - {id: g, that: 'any(u.role == "admin" for u in after.user)'}
require:
  - id: r
    update: item
    where: it.id == 1 and it.owner.name == before.user[1].name
    set: {n: {is: input.n}}
    that: all(i.t == after.item[1].t for i in them)
allow:
  - {id: a, create: user, where: 'starts_with(it.role, "x") and matches(it.name, "[a-z]+")'}
"""


@given(name=HOSTILE, role=HOSTILE, text=HOSTILE)
def test_no_value_in_a_state_changes_a_parsed_clause(name: str, role: str, text: str) -> None:
    def before(n: str, r: str, t: str) -> dict[str, list[dict[str, object]]]:
        return {"user": [user(1, r, n)], "item": [item(1, 1, t, 1)]}  # type: ignore[dict-item]

    def judged(n: str, r: str, t: str) -> tuple[object, ...]:
        old = before(n, r, t)
        new = {**old, "item": [item(1, 2, t, 1)]}
        found = run(BODY, state(old), state(new), noop=False)  # type: ignore[arg-type]
        assert found.judgement.verdict is Verdict.MATCH
        return tuple(bound_clauses(found.contract))

    if role == "admin" or any(isinstance(v, Unobserved) for v in (name, role, text)):
        return
    assert judged(name, role, text) == judged("Ada", "user", "a")
