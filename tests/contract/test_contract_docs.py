"""docs/contract.md and docs/findings.md say what the code knows, no more and no less."""

from __future__ import annotations

import re
from pathlib import Path

from statediff.contract.document import Clause, ContractDocument
from statediff.contract.functions import FUNCTIONS
from statediff.contract.load import parse_document
from statediff.contract.rules import RULES

ROOT = Path(__file__).resolve().parents[2]
CONTRACT = (ROOT / "docs" / "contract.md").read_text()
FINDINGS = (ROOT / "docs" / "findings.md").read_text()


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


def test_every_code_in_the_source_stands_in_the_docs() -> None:
    documented = set(re.findall(r"^\| `([a-z-]+)` \|", FINDINGS, re.MULTILINE))
    found: set[str] = set()
    for path in (ROOT / "statediff" / "policy").glob("*.py"):
        text = path.read_text()
        found |= set(re.findall(r'"([a-z]+(?:-[a-z]+)+)"', text))
        found |= {word for word in ("holds", "undefined", "unobserved") if f'"{word}"' in text}
    assert found - documented == set()
    assert documented - found == set()


def test_the_contract_in_the_docs_is_one() -> None:
    [example] = re.findall(r"```yaml\n(.*?)```", CONTRACT, re.DOTALL)
    _, contract = parse_document(example.encode(), "docs/contract.md")
    assert contract.contract == "shop/refund"
