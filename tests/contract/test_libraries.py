"""Clauses of libraries: expanded, pinned, replayed from the bundle, and refused where hostile."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from statediff.contract.authoring.formatting import format_contract
from statediff.contract.document.load import besides
from statediff.contract.file import ContractFile, load_contract
from statediff.contract.language.names import Scope
from statediff.contract.language.parser import parse
from statediff.contract.language.syntax import EntityT, FieldOf, walk
from statediff.errors import BundleError, ContractError
from statediff.evidence.package import Bundle
from statediff.kernel import TrialFacts, compile_contract, contract_in, evaluate, replay, schema_of
from statediff.model.schema import EntityType, Field, Kind, Schema
from tests.judging import (
    DIVERGE,
    HEAD,
    INCONCLUSIVE,
    MATCH,
    Rows,
    capture,
    item,
    part,
    state,
    user,
)

LIBRARY = """\
library: tests/common
clauses:
  kept:
    parameters: {type: name}
    clause: {id: "kept-${type}", delete: "${type}"}
  renamed:
    parameters: {field: name, key: value, text: value, also: expression}
    clause:
      id: renamed
      update: item
      where: it.id == ${key} and ${also}
      set: {"${field}": "${text}"}
      that: new.${field} == ${text}
"""
USE = """\
forbid:
  - {use: lib/common.yaml#kept, with: {type: user}}
  - {use: lib/common.yaml#kept, with: {type: item}, id: items-stay}
require:
  - use: lib/common.yaml#renamed
    with: {field: t, key: 1, text: 'say "hi" #4', also: it.n == 1 or it.n == 2}
"""


def written(folder: Path, use: str = USE, library: str = LIBRARY, pin: str | None = None) -> Path:
    (folder / "lib").mkdir(exist_ok=True)
    (folder / "lib" / "common.yaml").write_text(library)
    digest = hashlib.sha256(library.encode()).hexdigest() if pin is None else pin
    path = folder / "contract.yaml"
    path.write_text(f'{HEAD}libraries: {{lib/common.yaml: "{digest}"}}\n{use}')
    return path


def evaluated(file: ContractFile, before: Rows, after: Rows) -> Bundle:
    ends = (
        capture("before", part("before", state(before))),
        capture("after", part("after", state(after))),
    )
    return evaluate(file, *ends, facts=TrialFacts("t")).bundle


BEFORE: Rows = {"item": [item(1, 1, "a")], "user": [user(1)]}
RIGHT: Rows = {"item": [item(1, 1, 'say "hi" #4')], "user": [user(1)]}
WRONG: Rows = {"item": [item(1, 1, 'say "hi" #4')], "user": []}


def test_a_contract_is_judged_as_if_its_clauses_were_written_out(tmp_path: Path) -> None:
    file = load_contract(written(tmp_path))
    bundle = evaluated(file, BEFORE, RIGHT)
    assert bundle.manifest["verdict"] == MATCH.value
    ids = [c["clause"] for c in bundle.document("judgement.json")["clauses"]]
    assert ids == ["kept-user", "items-stay", "frame", "renamed"]
    other = evaluated(file, BEFORE, WRONG)
    assert other.manifest["verdict"] == DIVERGE.value
    for each in (bundle, other):
        assert replay(each).verdict.value == each.manifest["verdict"]
        assert json.loads(each.files["libraries.yaml"]) == {"lib/common.yaml": LIBRARY}
        assert contract_in(each.files).content == file.content
    again = evaluated(load_contract(written(tmp_path)), BEFORE, RIGHT)
    assert again.files == bundle.files
    sentence = compile_contract(
        file, schema_of(capture("x", part("before", state(BEFORE))))
    ).contract
    assert "1" in sentence.require[0].sentence


def test_a_bundle_whose_library_was_changed_is_refused(tmp_path: Path) -> None:
    bundle = evaluated(load_contract(written(tmp_path)), BEFORE, RIGHT)
    for data in (b'{"lib/common.yaml":"x"}', b"{}", b"[]", b"x", b'{"a":1}'):
        files = {**bundle.files, "libraries.yaml": data}
        with pytest.raises((BundleError, ContractError)):
            contract_in(files)
    without = {name: held for name, held in bundle.files.items() if name != "libraries.yaml"}
    with pytest.raises((BundleError, ContractError)):
        contract_in(without)
    with pytest.raises(BundleError, match="names no such file"):
        contract_in(
            {"contract.yaml": (HEAD + "noop: true\n").encode(), "libraries.yaml": b'{"a":"b"}'}
        )


@pytest.mark.parametrize(
    ("use", "said"),
    [
        ("{use: lib/common.yaml#kept}", "the parameter `type` (name) is not given"),
        ("{use: lib/common.yaml#kpt, with: {type: user}}", "has no clause `kpt`"),
        ("{use: lib/common.yaml#kept, with: {typ: user}}", "has no parameter `typ`"),
        ("{use: lib/common.yaml#kept, with: {type: ''}}", "the name of a type"),
        ("{use: lib/common.yaml#kept, with: {type: 1}}", "the name of a type"),
        ("{use: lib/common.yaml#kept, with: [user]}", "expected a mapping"),
        ("{use: lib/common.yaml#kept, with: {type: user}, count: 3}", "unknown key `count`"),
        ("{use: lib/common.yaml#}", "expected FILE#NAME"),
        ("{use: other.yaml#kept, with: {type: user}}", "is not pinned"),
    ],
)
def test_a_use_that_does_not_fit_is_refused_where_it_stands(
    tmp_path: Path, use: str, said: str
) -> None:
    with pytest.raises(ContractError) as found:
        load_contract(written(tmp_path, f"forbid:\n  - {use}\n"))
    assert said in str(found.value)
    assert f"{tmp_path}/contract.yaml:7:" in str(found.value)


@pytest.mark.parametrize(
    "also", ["true) or (true", "it.n ==", "true # x", "f(", "", "it.n == 1, 2)"]
)
def test_an_expression_cannot_leave_its_place(tmp_path: Path, also: str) -> None:
    use = USE.replace("it.n == 1 or it.n == 2", json.dumps(also))
    with pytest.raises(ContractError):
        load_contract(written(tmp_path, use))


@pytest.mark.parametrize("field", ["t == 1 or new.n", 't" or "', "unit price", "données"])
def test_a_name_is_never_code_and_any_name_is_one(tmp_path: Path, field: str) -> None:
    file = load_contract(written(tmp_path, USE.replace("field: t", f"field: {json.dumps(field)}")))
    clause = file.content.require[0]
    assert list(clause.set or {}) == [field]
    entity = EntityType("item", ("id",), (Field("id", Kind.INT), Field(field, Kind.TEXT)))
    scope = Scope(Schema("names", "1", (entity,)), variables={"new": EntityT("item")})
    read = parse(clause.that or "", scope)
    assert [part.field for part in walk(read) if isinstance(part, FieldOf)] == [field]


def test_a_value_is_never_code(tmp_path: Path) -> None:
    hostile = '" or true or "'
    use = USE.replace("'say \"hi\" #4'", json.dumps(hostile))
    file = load_contract(written(tmp_path, use))
    assert evaluated(file, BEFORE, RIGHT).manifest["verdict"] == DIVERGE.value
    right = {**RIGHT, "item": [item(1, 1, hostile)]}
    assert evaluated(file, BEFORE, right).manifest["verdict"] == MATCH.value


def test_an_error_names_the_library_its_line_and_the_use(tmp_path: Path) -> None:
    library = LIBRARY.replace("it.id == ${key}", "it.idd == ${key}")
    path = written(tmp_path, library=library)
    schema = schema_of(capture("x", part("before", state(BEFORE))))
    with pytest.raises(ContractError) as found:
        compile_contract(load_contract(path), schema)
    assert f"{path}:10: lib/common.yaml:11:14: item has no field `idd`" in str(found.value)
    shape = LIBRARY.replace("update: item", "updat: item")
    with pytest.raises(ContractError) as found:
        load_contract(written(tmp_path, library=shape))
    assert f"{path}:10: lib/common.yaml:10:7: unknown key `updat`" in str(found.value)
    empty = LIBRARY.replace("where: it.id == ${key} and ${also}", "where:")
    with pytest.raises(ContractError, match="found nothing"):
        load_contract(written(tmp_path, library=empty))


@pytest.mark.parametrize(
    "clause",
    [
        "{use: 'lib/common.yaml#loop'}",
        "{use: 'lib/common.yaml#kept', with: {type: user}}",
        "{delete: user, where: '${unknown}'}",
    ],
)
def test_recursion_and_unknown_parameters_are_refused(tmp_path: Path, clause: str) -> None:
    library = f"{LIBRARY}  loop: {{clause: {clause}}}\n"
    with pytest.raises(ContractError, match=r"uses no library|is no parameter"):
        load_contract(written(tmp_path, "forbid: [{use: 'lib/common.yaml#loop'}]\n", library))


@pytest.mark.parametrize("name", ["/etc/passwd", "../secret.yaml", "lib/../../x", "lib//x", "a\\b"])
def test_a_library_outside_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path.parent / "secret.yaml").write_text(LIBRARY)
    path = tmp_path / "contract.yaml"
    path.write_text(
        f'{HEAD}libraries: {{"{name}": "{"0" * 64}"}}\nforbid: [{{use: "{name}#kept"}}]\n'.replace(
            "\\", "\\\\"
        )
    )
    with pytest.raises(ContractError):
        load_contract(path)


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path)
    secret = tmp_path.parent / "elsewhere.yaml"
    secret.write_text(LIBRARY)
    (tmp_path / "lib" / "common.yaml").unlink()
    (tmp_path / "lib" / "common.yaml").symlink_to(secret)
    with pytest.raises(ContractError, match="outside the contract's folder"):
        load_contract(path)


def test_a_library_with_another_digest_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match="has another digest"):
        load_contract(written(tmp_path, pin="0" * 64))


def test_uses_are_bounded(tmp_path: Path) -> None:
    use = "forbid:\n" + "  - {use: lib/common.yaml#kept, with: {type: user}}\n" * 201
    with pytest.raises(ContractError, match="more than 200 uses"):
        load_contract(written(tmp_path, use))


def test_fmt_keeps_uses_as_they_are(tmp_path: Path) -> None:
    path = written(tmp_path)
    formatted = format_contract(path.read_bytes(), str(path), besides(path))
    assert b"use: lib/common.yaml#renamed" in formatted
    path.write_bytes(formatted)
    assert format_contract(formatted, str(path), besides(path)) == formatted
    assert load_contract(path).content.require == load_contract(written(tmp_path)).content.require


def test_a_released_contract_covers_its_libraries(tmp_path: Path) -> None:
    one = load_contract(written(tmp_path)).digest
    two = load_contract(written(tmp_path, library=LIBRARY + "# a word more\n")).digest
    assert one != two
    assert INCONCLUSIVE is not MATCH


def test_the_library_of_the_docs_is_one(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "contract.md").read_text()
    library, use = (
        page.partition(f"```yaml file={name}.yaml\n")[2].partition("```")[0]
        for name in ("common", "uses")
    )
    (tmp_path / "common.yaml").write_text(library)
    digest = hashlib.sha256(library.encode()).hexdigest()
    path = tmp_path / "contract.yaml"
    path.write_text(HEAD + use.replace("8f0c…", digest))
    content = load_contract(path).content
    assert [clause.id for clause in (*content.forbid, *content.require)] == [
        "customer-kept",
        "noted",
    ]
