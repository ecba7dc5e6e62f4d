"""Contracts as found in the wild: whatever the bytes, a typed answer within a second.

And whatever a state holds, a parsed clause stays what its author wrote.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff.contract.lint.subject import bound_clauses
from statediff.model.values import Unobserved
from statediff.model.verdict import Verdict
from tests.contract.mutants import EVERY_WORD, KINDS, mutant, run, schema, through
from tests.judging import item, state, user
from tests.judging import run as judge

IS_FUZZ = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"
SHARDS, FILES = (50, 2_000) if IS_FUZZ else (2, 150)
"""`make fuzz` tries 100,000 files, in shards that its workers share; other ones with each seed."""
SEED = int(os.environ["STATEDIFF_SEED"]) if IS_FUZZ else 1


@pytest.mark.slow
@pytest.mark.hypothesis  # `make fuzz` runs what is marked so
@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_fuzzed_contract_gets_a_typed_answer_within_a_second(shard: int) -> None:
    found = run(SEED, shard * FILES, FILES)
    assert found.wrong == []
    assert {kind for kind, _ in found.reached} == set(KINDS)
    ends = {end for _, end in found.reached}
    assert ends == {"no contract", "not of the schema", "bound"}


def test_the_words_of_the_language_are_in_the_grammar() -> None:
    assert through(EVERY_WORD, schema("shop")) == "bound"


def test_a_file_has_one_number_and_is_drawn_again_by_it() -> None:
    assert [mutant(3, n) for n in range(20)] == [mutant(3, n) for n in range(20)]
    assert mutant(3, 0) != mutant(4, 0)


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
        found = judge(BODY, state(old), state(new), noop=False)  # type: ignore[arg-type]
        assert found.judgement.verdict is Verdict.MATCH
        return tuple(bound_clauses(found.contract))

    if role == "admin" or any(isinstance(v, Unobserved) for v in (name, role, text)):
        return
    assert judged(name, role, text) == judged("Ada", "user", "a")
