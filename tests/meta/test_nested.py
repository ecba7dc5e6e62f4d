"""Faults inside JSON: seeded beside what a run wrote, and passed by a clause that is too wide."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

from statediff.contract.file import parse_contract
from statediff.kernel import lint
from statediff.meta.mutate import MutationReport, mutate
from statediff.model.schema import EntityType, Field, Kind
from statediff.model.values import Map, Value
from tests.json_harms import BEFORE, CLAUSE, RIGHT
from tests.judging import contract, state
from tests.meta.test_mutate import reference

NESTED = {
    "nested-value", "nested-type", "nested-added", "nested-removed", "nested-duplicated",
    "nested-reordered", "nested-swapped",
}  # fmt: skip
LOOSE = """\
require:
  - id: raised
    update: user
    where: it.id == 3
    fields: [settings]
    that: new.settings.limits.gb == 999
"""


def value(tree: object) -> Value:
    match tree:
        case dict():
            return Map.of({name: value(inner) for name, inner in tree.items()})
        case list():
            return tuple(map(value, tree))
        case float():
            return Decimal(str(tree))
        case _:
            return tree  # type: ignore[return-value]


def report(body: str, kind: Kind) -> MutationReport:
    user = EntityType("user", ("id",), (Field("id", Kind.INT), Field("settings", kind)))

    def settings(text: str) -> Value:
        return text if kind is Kind.JSON else value(json.loads(text))

    text = json.dumps(BEFORE)
    before, after = (
        {"user": [{"id": 1, "settings": settings(text)}, {"id": 3, "settings": settings(third)}]}
        for third in (text, RIGHT["as it was"])
    )
    return mutate([reference(body, after, types=[user], before=before)], 0, {})


@pytest.mark.parametrize("kind", [Kind.JSON, Kind.MAP])
def test_a_contract_that_pins_one_path_catches_what_else_is_written(kind: Kind) -> None:
    found = report(CLAUSE, kind)
    seeded = {outcome.fault.operator for outcome in found.outcomes}
    assert seeded >= NESTED
    assert found.survivors == ()
    assert found.diverged == ()


@pytest.mark.parametrize("kind", [Kind.JSON, Kind.MAP])
def test_a_contract_that_selects_the_whole_field_has_survivors(kind: Kind) -> None:
    found = report(LOOSE, kind)
    assert {survivor.id.partition(" ")[0] for survivor in found.survivors} >= NESTED
    closing = {survivor.id: survivor.closing for survivor in found.survivors}
    assert "    update: user\n" in closing["nested-added user.settings"]
    assert "    set:\n      settings: " in closing["nested-added user.settings"]


@pytest.mark.parametrize("kind", [Kind.JSON, Kind.MAP])
@pytest.mark.parametrize("body", [CLAUSE, LOOSE])
def test_lint_names_the_clause_that_selects_the_whole_object(body: str, kind: Kind) -> None:
    user = EntityType("user", ("id",), (Field("id", Kind.INT), Field("settings", kind)))
    file = parse_contract(contract(body, noop=False).encode(), "c.yaml")
    schema = state({"user": []}, types=[user]).schema
    found = [problem.message for problem in lint(file, schema)]
    loose = "`raised` explains every change inside user.settings"
    assert (loose in found) is (body == LOOSE)


KEYED_BY_SKU = """\
canonicalize:
  - {use: keyed@1, key: sku, on: [user.settings.lines], because: any order}
  - {use: trim@1, on: [user.settings.theme], because: the form trims}
exclude: [{what: user.settings.plan, because: billing writes it}]
"""


@pytest.mark.parametrize("kind", [Kind.JSON, Kind.MAP])
def test_what_rules_inside_values_allow_is_a_twin_and_all_else_a_fault(kind: Kind) -> None:
    found = report(KEYED_BY_SKU + CLAUSE, kind)
    assert found.survivors == ()
    assert found.diverged == ()
    harmless = [o.fault for o in found.outcomes if o.fault.is_twin]
    twins = {each.sentence.partition(": ")[2].partition(" is ")[0] for each in harmless}
    assert twins >= {"settings.lines", "settings.theme", "settings.plan"}
    seeded = {o.fault.operator for o in found.outcomes if not o.fault.is_twin}
    assert seeded >= {"nested-value", "nested-added", "nested-removed", "nested-duplicated"}
