"""The faults below the rows of a live file get DIVERGE, each by the structure and nothing else."""

from contextlib import closing

from statediff.evaluate import load_contract
from statediff.meta.structure_faults import OPERATORS, structure_cases
from statediff.packs import contract_folder
from statediff.suite.campaign import SandboxPool
from statediff.workspace.references import damaged_references


def test_every_way_to_damage_a_live_file_diverges_by_its_structure():
    path = contract_folder("shop/correct-address").contract
    with closing(SandboxPool()) as pool:
        cases = list(
            structure_cases(damaged_references(load_contract(path), path, ["careful"], pool))
        )
    assert {case.kind for case in cases} == {f"structure:{name}" for name in OPERATORS}
    assert [case.kind for case in cases if not (case.is_right and case.is_named)] == []


def test_without_a_sqlite_file_there_is_no_such_fault():
    path = contract_folder("repo/fix-failing-test").contract
    with closing(SandboxPool()) as pool:
        assert (
            list(structure_cases(damaged_references(load_contract(path), path, ["careful"], pool)))
            == []
        )
