"""Each rule of the specification is tried by a vector, and each vector is of a rule."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from fixtures import build_records, build_specification, export_vectors
from statediff.evidence.documents import DOCUMENTS
from statediff.evidence.verify import PARTS, PIECES
from tests.evidence.specified import answer
from tests.evidence.test_bundle import TRIALS
from tests.evidence.test_vectors import theirs

CHECKOUT = Path(__file__).parents[2]
PAGE = (CHECKOUT / "docs" / "specification.md").read_text(encoding="utf-8")
STATED = re.findall(r"\*\*(R-[A-Z0-9]+-[0-9]+)\*\*", PAGE)
GOOD = {"VALID", "NOT_REPLAYABLE_AT_TIER", "ACCEPTED", "REPRODUCED"}
VECTORS = list(export_vectors.read_vectors())
RULES = export_vectors.rules([vector.name for vector in VECTORS])


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported") / "all"
    export_vectors.export(folder)
    return folder


def test_each_rule_is_stated_once_and_has_vectors() -> None:
    assert len(STATED) == len(set(STATED))
    # Of links in a folder, and of what is read first, a vector of bytes says nothing.
    assert set(STATED) - {"R-BOX-2", "R-ORD-1"} == set(RULES)
    assert [rule for rule, names in RULES.items() if not names] == []


def test_each_pattern_of_a_rule_names_a_vector() -> None:
    patterns = json.loads((export_vectors.BUNDLES / "rules.json").read_text(encoding="utf-8"))
    names = [vector.name for vector in VECTORS]
    found = export_vectors.fnmatchcase
    idle = [
        (rule, each)
        for rule, listed in patterns.items()
        for each in listed
        if not any(found(name, each) for name in names)
    ]
    assert idle == []


def test_each_vector_is_of_a_rule() -> None:
    ruled = {name for names in RULES.values() for name in names}
    assert [vector.name for vector in VECTORS if vector.name not in ruled] == []
    assert len({vector.name for vector in VECTORS}) == len(VECTORS)


def test_most_rules_have_a_vector_that_must_be_refused() -> None:
    bad = {vector.name for vector in VECTORS if vector.expect not in GOOD}
    never = {rule for rule, names in RULES.items() if not bad & set(names)}
    assert never == {"R-ANS-1", "R-ANS-4", "R-LOG-9", "R-TRU-8"}


@pytest.mark.slow
def test_what_is_exported_is_answered_from_its_files_alone(exported: Path) -> None:
    index = json.loads((exported / "vectors" / "index.json").read_text(encoding="utf-8"))
    assert len(index["vectors"]) == len(VECTORS)
    assert sorted(path.name for path in exported.iterdir()) == ["specification", "vectors"]
    named = {path for each in index["vectors"] for path in (each["trust"], *each["files"].values())}
    held = {f"files/{path.name}" for path in (exported / "vectors" / "files").iterdir()}
    assert named == held
    every = list(index["vectors"])
    for each in every[:: max(1, len(every) // 40)]:
        files, trust = read(exported / "vectors", each)
        assert answer(each["kind"], files, trust, each["options"])[0] == each["expect"]


def read(place: Path, vector: Mapping[str, Any]) -> tuple[dict[str, bytes], bytes]:
    files = {role: (place / path).read_bytes() for role, path in vector["files"].items()}
    return files, (place / vector["trust"]).read_bytes()


def test_the_records_are_what_their_script_writes() -> None:
    made = json.loads(json.dumps(build_records.document()))
    assert list(export_vectors.read_records(made)) == list(
        export_vectors.read_records(json.loads(build_records.OUT.read_text(encoding="utf-8")))
    )  # compressed otherwise by another release of zlib


def test_the_tables_of_the_page_are_those_of_the_code() -> None:
    written = build_specification.written(PAGE)
    assert PAGE.count("<!-- table: ") == len(build_specification.tables())
    assert "<!-- table: " not in written
    for name in PARTS:
        assert f"`{name}`" in written


def test_the_verifiers_have_one_table_of_pieces() -> None:
    source = (CHECKOUT / "statediff" / "evidence" / "verify.mjs").read_text(encoding="utf-8")
    block = source[source.index("const PIECES = {") + len("const PIECES = ") :]
    listed = re.sub(r",(\s*})", r"\1", block[: block.index("};") + 1])
    assert json.loads(listed) == {name: list(cut) for name, cut in PIECES.items()}
    assert list(DOCUMENTS) == list(PIECES)


def test_every_document_of_a_bundle_fits_its_json_schema() -> None:
    schemas = build_specification.schemas()
    for name, document in TRIALS["DIVERGE, along"].bundle.files.items():
        if not name.endswith(".yaml"):
            Draft202012Validator(schemas[name]).validate(json.loads(document))


@pytest.mark.node
def test_the_second_verifier_agrees_on_every_copy_and_zip() -> None:
    copies = [
        x for x in VECTORS if x.kind in ("bundle", "zip") and "log" not in x.files and not x.options
    ]
    assert len(copies) > 700
    found = theirs([(vector.files, vector.trust) for vector in copies])
    assert found == [vector.expect for vector in copies]
