"""The pages on contracts say what the code knows, no more and no less."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from statediff.contract.binding.bind import bind
from statediff.contract.clauses.conduct import FORMS
from statediff.contract.clauses.effects import Effect
from statediff.contract.clauses.patterns import Clause
from statediff.contract.document.contract import ContractDocument
from statediff.contract.document.load import parse_document
from statediff.contract.language.calls import CALL
from statediff.contract.language.names import FUNCTIONS, Policy
from statediff.kernel.canonicalize.rules import RULES
from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.model.trace import ActionClass

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("contract.md", "states.md", "run.md")
CONTRACT = "".join((ROOT / "docs" / name).read_text() for name in PAGES)
EXAMPLES = re.findall(r"```yaml\n(.*?)```", CONTRACT, re.DOTALL)
FIELDS = {
    "account": {}, "product": {"stock": Kind.INT}, "order": {}, "message": {"to": Kind.TEXT},
    "approval_request": {"account": Kind.INT}, "refund": {"order": Kind.INT},
    "policy": {
        "version": Kind.TEXT, "valid_from": Kind.TIMESTAMP, "valid_until": Kind.TIMESTAMP,
    },
}  # fmt: skip
SCHEMA = Schema(
    "docs",
    "1",
    tuple(
        EntityType(
            name,
            ("id",),
            (Field("id", Kind.INT), *(Field(f, kind) for f, kind in sorted(fields.items()))),
        )
        for name, fields in sorted(FIELDS.items())
    ),
    (),
)


def table(text: str, heading: str) -> dict[str, str]:
    """First cell → rest, of the first table after `heading`; names stand in back ticks."""
    part = text[text.index(heading) :]
    rows: dict[str, str] = {}
    for line in part.splitlines()[1:]:
        if line.startswith("| `"):
            first, rest = line.strip("| ").split(" | ", 1)
            rows |= dict.fromkeys(re.findall(r"`([^`]+)`", first), rest)
        elif rows and not line.startswith("|"):
            break
    return rows


def test_every_function_stands_in_the_docs_with_its_help() -> None:
    documented = table(CONTRACT, "| function |")
    assert documented == {f.name: f.help for f in FUNCTIONS.values()}


def test_every_rule_stands_in_the_docs_with_its_parameters() -> None:
    documented = table(CONTRACT, "| rule |")
    assert documented.keys() == RULES.keys()
    for name, rule in RULES.items():
        for parameter in rule.parameters:
            assert f"`{parameter.name}`" in documented[name]


def test_every_key_of_a_contract_and_of_a_pattern_stands_in_the_docs() -> None:
    keys = {f.alias or name for name, f in ContractDocument.model_fields.items()}
    assert keys <= {k.split(":")[0] for k in table(CONTRACT, "## Keys")}
    patterns = {f.alias or name for name, f in Clause.model_fields.items()} - {"id", "because"}
    section = CONTRACT[CONTRACT.index("## Patterns") : CONTRACT.index("## Expressions")]
    assert {key for key in patterns if f"`{key}" not in section} == set()


def test_everything_one_can_say_of_the_run_and_of_effects_stands_in_the_docs() -> None:
    run = CONTRACT[CONTRACT.index("## The run itself") :]
    section = run + CONTRACT[CONTRACT.index("## Effects") : CONTRACT.index("## Rules")]
    named = {*FORMS, *(f.alias or n for n, f in Effect.model_fields.items())} - {"on"}
    assert {name for name in named if f"`{name}" not in section} == set()
    said = section[section.index("A call has `id`") : section.index("Classes:")]
    assert {f.name for f in CALL.fields} == {
        name.removesuffix(".NAME") for name in re.findall(r"`([a-zA-Z_.]+)`", said)
    }
    classes = section[section.index("Classes:") : section.index("a class, principal")]
    assert {c.value for c in ActionClass} - {"unknown"} == set(re.findall("`([a-z-]+)`", classes))


def test_the_contract_in_the_docs_is_one() -> None:
    _, contract = parse_document(EXAMPLES[0].encode(), "docs/contract.md")
    assert contract.contract == "shop/refund"


HEAD = EXAMPLES[0][: EXAMPLES[0].index("forbid:")]


@pytest.mark.parametrize("example", EXAMPLES[1:])
def test_every_example_of_a_part_is_bound_in_a_contract(example: str) -> None:
    own = "" if "forbid:" in example else "forbid: [{delete: account}]\n"
    text = HEAD.replace("{order: 1009", "{account: 7, order: 1009") + own + example
    read, document = parse_document(text.encode(), "docs/contract.md")
    if "steps" in example or "turns" in example or "actions" in example:
        contract = bind(document, "", SCHEMA, Policy(), read.locate)
        assert contract.assertions
        assert all(a.sentence.endswith(".") for a in contract.assertions)
