"""Every compensation of the packs undoes its effect on every server that a pack can be behind."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from statediff.contract.file import load_contract
from statediff.meta.cases import read_cases
from statediff.packs import contract_folders, sandbox_pack
from statediff.suite.campaign import SandboxPool
from statediff.workspace.undoing import undone_runs
from tests.test_compensation import CLAIMED

IMAGES = {"git": "git", "mariadb": "mariadb", "postgres": "postgres", "redmine": "redmine"}
CASES = [
    pytest.param(folder, variant, id=f"{folder.name}:{variant}", marks=pytest.mark.docker(image))
    for folder in contract_folders()
    if CLAIMED[folder.name]
    for variant, image in IMAGES.items()
    if variant in sandbox_pack(folder.name.partition("/")[0]).variants
]


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with closing(SandboxPool()) as opened:
        yield opened


@pytest.mark.parametrize(("folder", "variant"), CASES)
def test_a_compensation_undoes_on_servers_too(pool, folder, variant):
    file = load_contract(folder.contract)
    agents = read_cases(folder.folder).references[:1]
    [(_, undone)] = undone_runs(file, folder.folder, agents, variant, pool)
    assert [failed for _, failed in undone.calls if failed] == []
    assert undone.left == ()
    done = {" ".join(call.effect.split()[:2]) for call, _ in undone.calls}
    assert done == CLAIMED[folder.name]
