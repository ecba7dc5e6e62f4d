"""The registry of the kinds of clause: none is forgotten, and none lacks a part."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from statediff.contract import clauses
from statediff.contract.binding.bound import Contract
from statediff.contract.clauses.kind import ClauseKind, JudgedAs
from statediff.contract.document.contract import KINDS, ContractDocument
from statediff.contract.document.jsonschema import contract_schema
from statediff.kernel import Evaluated
from statediff.model.trace import Turn
from statediff.model.values import Map
from statediff.model.verdict import Truth
from statediff.reports.wording.worded import clause_sentences
from tests.judging import SILENT
from tests.judging import finding as finding_of
from tests.traces import call, judged, log

ROOT = Path(__file__).resolve().parents[2]
VECTORS = ROOT / "fixtures" / "clauses"
BESIDE_CLAUSES = {
    *(
        "contract",
        "version",
        "owner",
        "reviewed",
        "intent",
        "prompt",
        "sandbox",
        "use",
        "profiles",
        "inputs",
        "cases",
    ),
    "noop",
    *("frame", "exclude", "canonicalize", "identify", "evidence", "unread"),
}
ELSEWHERE = {JudgedAs.ALTERNATIVES}
"""An explanation shows these among the right outcomes."""

each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def vector(kind: ClauseKind) -> Any:
    return YAML(typ="safe").load(VECTORS / f"{kind.name}.yaml")


def tried(given: Any, run: Any) -> Evaluated:
    calls = [
        call(each["tool"], **{k: v for k, v in each.items() if k != "tool"}, result=Map.of(each))
        for each in run.get("calls", ())
    ]
    turns = tuple(Turn(said, 0, None) for said in given["says"]) if "says" in given else None
    trace = log(*calls, turns=turns)
    after = run.get("after", given["before"])
    answer = run.get("answer", SILENT)
    found: Evaluated = judged(given["contract"], trace, given["before"], after, answer=answer)
    return found


def keys_of(shape: Any, schema: Any, seen: frozenset[str] = frozenset()) -> Iterator[str]:
    """Every key that the shape allows, at any depth."""
    if isinstance(shape, list):
        for item in shape:
            yield from keys_of(item, schema, seen)
    if not isinstance(shape, dict):
        return
    if (name := str(shape.get("$ref", "")).rpartition("/")[2]) and name not in seen:
        yield from keys_of(schema["$defs"][name], schema, seen | {name})
    if isinstance(properties := shape.get("properties"), dict):
        yield from properties
    for item in shape.values():
        yield from keys_of(item, schema, seen)


def test_every_kind_that_a_module_has_is_in_the_list() -> None:
    there = {
        id(value): f"{module.name}.{name}"
        for module in pkgutil.iter_modules(clauses.__path__)
        for name, value in vars(
            importlib.import_module(f"{clauses.__name__}.{module.name}")
        ).items()
        if isinstance(value, ClauseKind)
    }
    assert set(there) == {id(kind) for kind in KINDS}, there
    assert len({kind.name for kind in KINDS}) == len(KINDS)
    assert {kind.judged for kind in KINDS} == set(JudgedAs)


def test_every_key_of_a_contract_is_a_kind_or_known_to_be_none() -> None:
    sections = [section for kind in KINDS for section in kind.sections]
    assert len(set(sections)) == len(sections)
    assert {*sections} | BESIDE_CLAUSES == set(ContractDocument.model_fields)
    assert not {*sections} & BESIDE_CLAUSES


@each_kind
def test_a_kind_has_all_of_its_parts(kind: ClauseKind) -> None:
    assert kind.judged.value in Contract.__dataclass_fields__
    assert kind.keys, "`fmt` needs the order of its keys"
    assert bool(kind.heading) is (kind.judged not in ELSEWHERE), "an explanation needs a heading"
    schema = contract_schema()
    known = {k for s in kind.sections for k in keys_of(schema["properties"][s], schema)}
    assert set(kind.keys) <= known, "`fmt` orders keys that nobody can write"


@each_kind
def test_a_kind_is_judged_and_its_must_fail_vectors_fail(kind: ClauseKind) -> None:
    given = vector(kind)
    name = given["clause"]
    passed = tried(given, given["holds"])
    assert passed.judgement.truth_of(name) is Truth.HOLDS
    assert clause_sentences(passed.contract)[name], "reports show the sentence of a clause"
    assert given["fails"]
    for run in given["fails"]:
        failed = finding_of(tried(given, run).judgement, name)
        assert (failed.truth, failed.code) == (Truth.FAILS, run["code"])


def test_every_vector_is_of_a_kind() -> None:
    assert {path.stem for path in VECTORS.iterdir()} == {kind.name for kind in KINDS}


@each_kind
def test_a_kind_stands_in_the_docs(kind: ClauseKind) -> None:
    page = "".join((ROOT / "docs" / name).read_text() for name in ("contract.md", "run.md"))
    for section in kind.sections:
        assert f"`{section}" in page or f"\n{section}:" in page
