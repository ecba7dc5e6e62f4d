"""The published schema in the language server that editors really use: it completes and checks.

Needs node and npm, and a registry the first time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from statediff.contract.document.jsonschema import contract_schema, state_schema_schema
from tests.editors.server import CHECKOUT, HERE, PROGRAM, LanguageServer
from tests.npm import installed

pytestmark = pytest.mark.node

HEAD = """\
# yaml-language-server: $schema=contract.schema.json
contract: a/b
version: 1.0.0
owner: me
intent: change one thing only
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LanguageServer]:
    workspace = tmp_path_factory.mktemp("workspace")
    for name, made in (("contract", contract_schema()), ("state", state_schema_schema())):
        (workspace / f"{name}.schema.json").write_text(json.dumps(made), encoding="utf-8")
    program = installed(HERE, tmp_path_factory.mktemp("editors")) / PROGRAM
    with LanguageServer(program, workspace) as running:
        yield running


@pytest.fixture
def write(server: LanguageServer) -> Callable[[str], Path]:
    def written(text: str) -> Path:
        # A name of its own for each text: the server remembers documents.
        name = hashlib.sha256(text.encode()).hexdigest()[:12]
        path = server.workspace / f"{name}.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return written


def labels(result: object) -> set[str]:
    items = result["items"] if isinstance(result, dict) else result or []  # type: ignore[union-attr]
    return {item["label"] for item in items}


def test_it_completes_the_keys_of_a_contract(
    server: LanguageServer, write: Callable[[str], Path]
) -> None:
    path = write(HEAD + "re\n")
    offered = labels(server.at("textDocument/completion", path, "only\nre"))
    assert {"require", "forbid", "allow", "evidence", "effects"} <= offered
    assert "owner" not in offered  # it is there already


def test_it_completes_inside_a_clause_and_among_fixed_values(
    server: LanguageServer, write: Callable[[str], Path]
) -> None:
    path = write(HEAD + "require:\n  - id: x\n    \n")
    offered = labels(server.at("textDocument/completion", path, "id: x\n    "))
    assert {"create", "update", "where", "set", "fields", "count", "that"} <= offered
    path = write(HEAD + "effects:\n  - on: create x\n    reversibility: \n")
    offered = labels(server.at("textDocument/completion", path, "reversibility: "))
    assert {"reversible", "conditional", "irreversible"} <= offered


def test_it_shows_what_a_key_means(server: LanguageServer, write: Callable[[str], Path]) -> None:
    path = write(HEAD + "forbid:\n  - delete: x\n    because: it must not\n")
    shown = json.dumps(server.at("textDocument/hover", path, "\nowner"))
    assert "who answers for this contract" in shown
    shown = json.dumps(server.at("textDocument/hover", path, "    becau"))
    assert "a reason in words" in shown


def test_it_marks_what_is_wrong_where_it_is(
    server: LanguageServer, write: Callable[[str], Path]
) -> None:
    path = write(HEAD + "noop: maybe\nforbid:\n  - {delete: x, wher: it.id == 3}\n")
    found = server.diagnostics[server.open(path)]
    lines = {d["range"]["start"]["line"] for d in found}
    assert lines == {5, 7}, found
    assert any("wher" in d["message"] for d in found)


@pytest.mark.parametrize(
    "path", sorted((CHECKOUT / "contracts").rglob("contract.yaml")), ids=lambda p: p.parent.name
)
def test_the_contracts_that_come_with_statediff_are_clean_in_an_editor(
    server: LanguageServer, path: Path
) -> None:
    assert server.diagnostics[server.open(path)] == []


def test_a_state_schema_file_completes_too(
    server: LanguageServer, write: Callable[[str], Path]
) -> None:
    head = "# yaml-language-server: $schema=state.schema.json\nschema: s\nversion: 1.0.0\n"
    path = write(head + "entities:\n  ticket:\n    \n")
    offered = labels(server.at("textDocument/completion", path, "ticket:\n    "))
    assert {"table", "key", "fields", "source", "deleted_when"} <= offered
