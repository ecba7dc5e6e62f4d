"""Every task of `shop` and `accounts` on a real PostgreSQL: each agent gets its verdict."""

from typing import Any

import pytest

from sandboxes.containers.tests.docker.cases import cases_of, check
from statediff.packs import sandbox_pack
from statediff.systems.base.sandbox import EmbeddedSandbox
from tests.tasks import try_agent

pytestmark = pytest.mark.docker("postgres")

# PostgreSQL keeps no text of a table's definition. What on SQLite is a change of that text, which
# the contract does not allow, the added column itself shows here: another clause, the same verdict.
NO_TEXT_OF_A_TABLE = {"stage": "require", "clause": "column-added", "code": "requirement-failed"}
OTHERWISE = {
    ("shop/add-and-backfill-column", "as_text"): NO_TEXT_OF_A_TABLE,
    ("shop/add-and-backfill-column", "default_masks"): NO_TEXT_OF_A_TABLE,
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory):
    started: dict[str, EmbeddedSandbox] = {}

    def sandbox(name: str) -> EmbeddedSandbox:
        if name not in started:
            work = tmp_path_factory.mktemp(name) / "work"
            started[name] = EmbeddedSandbox(sandbox_pack(name, "postgres"), work)
            started[name].start()
        return started[name]

    yield sandbox
    for entry in started.values():
        entry.stop()


@pytest.mark.parametrize(("folder", "case"), [*cases_of("shop"), *cases_of("accounts")])
def test_every_agent_gets_the_same_verdict_on_postgresql(
    running, tmp_path, folder, case: dict[str, Any]
):
    trial = try_agent(running, folder, case["agent"], tmp_path / "t", case.get("unplug", ""))
    check(trial, {**case, **OTHERWISE.get((folder.name, case["agent"]), {})})
