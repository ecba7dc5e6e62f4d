"""A contract's clauses about reads: their forms, names and words, and what is wrong."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from statediff.contract.authoring.explain import explain
from statediff.contract.authoring.formatting import format_contract
from statediff.contract.clauses.visibility import BoundAccess, Holding
from statediff.contract.document.load import parse_document
from statediff.contract.file import parse_contract
from statediff.errors import ContractError
from statediff.kernel import compile_contract
from statediff.model.schema import EntityType, Field, Kind, Schema
from tests.judging import contract

TYPES = (
    EntityType("page", ("id",), (
        Field("id", Kind.TEXT, is_nullable=False), Field("kind", Kind.TEXT),
        Field("sent", Kind.TIMESTAMP), Field("noon", Kind.LOCAL_TIMESTAMP),
    )),
    EntityType("line", ("order", "n"), (Field("order", Kind.TEXT), Field("n", Kind.INT))),
    EntityType("log", (), (Field("what", Kind.TEXT),)),
)  # fmt: skip
SCHEMA = Schema("world", "1", TYPES, (("db", ("page", "line", "log")),))
BODY = """answer:
  schema: {exists: bool, sources: list}
  claims:
    - answer.exists == true
access:
  actor: patty
  at: 2026-03-05
  allow: [wiki]
  subsystems:
    wiki: {type: page, at: it.sent}
  evidence:
    - id: looked
      on: answer.exists == false
      in:
        - in: wiki
          where: it.kind == "note"
    - in: wiki
      cite: true
  cite: sources
"""


def bound(body: str) -> BoundAccess:
    file = parse_contract(contract(body).encode(), "c.yaml")
    found = compile_contract(file, SCHEMA).contract.access
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("  actor: patty\n", "", "missing key `actor`"),
        ("at: 2026-03-05", "at: 2026-03-05T09:00:00", "an instant with its zone, or a day"),
        ("at: 2026-03-05", "at: yesterday", "an instant with its zone, or a day"),
        ("type: page", "type: pag", "unknown entity type `pag`"),
        ("type: page", "type: log", "has no key of texts or whole numbers"),
        (", at: it.sent", "", "when does what lies in `wiki` come to be?"),
        ("it.sent}", "it.kind}", "expected an instant, found"),
        ("it.sent}", "it.noon}", "declare the field's zone"),
        ("it.sent}", "it.sant}", "no field `sant`"),
        ("it.sent}", "[]}", "needs `because`, the reason why"),
        ("it.sent}", "it.sent, because: always there}", "needs `because`, the reason why"),
        ("it.sent}", "[it.sent, it.noon]}", "declare the field's zone"),
        ("- in: wiki\n      cite", "- in: wikis\n      cite", "there is no subsystem `wikis`"),
        ("- in: wiki\n          w", "- in: wikis\n          w", "there is no subsystem `wikis`"),
        ('it.kind == "note"', "it.knd == 1", "no field `knd`"),
        ("  cite: sources\n", "", "nobody says where the answer lists its sources"),
        ("cite: sources", "cite: exists", "has no list `exists`"),
        ("cite: true", "count: 0", "how many suffice, from 1"),
        ("id: looked", "id: access", "a clause that every contract has"),
        ("      in:\n", "      cite: true\n      in:\n", "evidence `in` one subsystem"),
        ("cite: sour", "actions: [{tool: a, at: result.x}]\n  cite: sour", "needs `in` and `at`"),
        ("cite: sour", "actions: [{tool: a, in: wiki, at: x}]\n  cite: sour", "a path in a call"),
        ("cite: s", "actions: [{tool: a, in: wikis, at: result}]\n  cite: s", "subsystem `wikis`"),
        ("cite: sour", "actions: [{tool: a}]\n  cite: sour", "where it shows nothing, `because`"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_said_with_its_place(old: str, new: str, message: str) -> None:
    assert old in BODY
    with pytest.raises(ContractError) as caught:
        bound(BODY.replace(old, new))
    said = str(caught.value.problems[0]) + caught.value.problems[0].hint
    assert message in said
    assert caught.value.problems[0].line > 1


def test_a_day_is_its_last_moment_and_an_instant_itself() -> None:
    assert bound(BODY).as_of == datetime(2026, 3, 5, 23, 59, 59, 999999, UTC)
    zoned = bound(BODY.replace("2026-03-05", "2026-03-05T02:00:00+02:00"))
    assert zoned.as_of == datetime(2026, 3, 5, tzinfo=UTC)


def test_the_section_is_told_in_words() -> None:
    access = bound(BODY)
    assert access.sentence == (
        "For patty the agent reads wiki, as of 2026-03-05T23:59:59.999999Z, and nothing else."
    )
    search, needed = access.searches[0].sentence, access.needed[0].sentence
    assert search.startswith("If ")
    assert "every artifact of wiki such that " in search
    assert needed == "Every artifact of wiki is fetched and cited."


def test_explain_gives_reads_a_section_of_their_own() -> None:
    file = parse_contract(contract(BODY).encode(), "c.yaml")
    told = explain(file.source, compile_contract(file, SCHEMA).contract)
    section = next(s for s in told.sections if s.heading == "Reads")
    assert [line.id for line in section.lines] == ["access", "looked", "evidence-2", "citations"]


def test_fmt_keeps_the_section_and_the_authors_order_of_names() -> None:
    untidy = contract(BODY).replace("{type: page, ", "{because: said, type: page, ")
    untidy = untidy.replace("at: it.sent}", "at: []}\n    ape: {type: line, at: it.sent}")
    once = format_contract(untidy.encode(), "c.yaml")
    assert format_contract(once, "c.yaml") == once
    assert once.index(b"wiki: {type") < once.index(b"ape: {type")
    assert parse_document(once, "c.yaml")[1] == parse_document(untidy.encode(), "c.yaml")[1]


def test_distinct_keys_have_distinct_ids_and_each_id_leads_back() -> None:
    line = Holding(
        name="lines",
        type="line",
        key_kinds=(Kind.TEXT, Kind.INT),
        where=None,
        times=(),
        authorized_by=None,
        footprint=frozenset(),
    )
    keys = [("a", 1), ("a/1", 1), ("a%2F1", 1), ("", -1), ("ä:\n", 0), ("a", 11), ("a1", 1)]
    ids = [line.id_of(key) for key in keys]
    assert len(set(ids)) == len(keys)
    assert [line.key_of(name) for name in ids] == keys
    for odd in ("lines:a", "lines:a/1/1", "lines:a/01", "lines:a/x", "line:a/1", "lines:%61/1", "",
                "lines:a/" + "9" * 5000, "lines:a/\u0661", "lines:\ud800/1"):  # fmt: skip
        assert line.key_of(odd) is None
