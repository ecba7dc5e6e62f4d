"""Which call made a change on a real server: the tool and the feed know one name for it."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from statediff.contract.file import parse_contract
from statediff.harness import JudgedTrial, TrialPlan, run_trial
from statediff.model.state import MemoryChunks
from statediff.packs import sandbox_pack
from statediff.systems.base.sandbox import EmbeddedSandbox
from tests.agents.by_tools import COLUMNS, Call, Toolsmith

CONTRACT = b"""
contract: tests/who
version: 1.0.0
owner: tests
intent: Whatever is done, it is known who did it.
sandbox: shop
noop: true
frame: {open: only attribution is looked at}
forbid:
  - {id: no-customer-deleted, delete: customer}
"""
GOOD = f"INSERT INTO refunds ({COLUMNS}) VALUES (1009, 117, 1, 'a', 2, '2026-03-16 10:30:00')"
TWICE = [GOOD, "INSERT INTO settings VALUES ('business_time', 'again')"]
"""The second breaks a key, so that nothing holds."""
RENAME = "UPDATE customers SET name = 'Nora L.' WHERE id = (SELECT min(id) FROM customers)"
LATER = "UPDATE orders SET status = status, updated_at = '2026-03-16 10:31:00' WHERE id = 1009"


@pytest.fixture(
    scope="module",
    params=[pytest.param(v, marks=pytest.mark.docker(v)) for v in ("postgres", "mariadb")],
)
def sandbox(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedSandbox]:
    work = tmp_path_factory.mktemp("who") / "work"
    with EmbeddedSandbox(sandbox_pack("shop", request.param), work) as running:
        yield running


def makers(sandbox: EmbeddedSandbox, folder: Path, *calls: list[str]) -> dict[str, set[Any]]:
    """Type → the numbers of the calls that made its changes, as statediff has it; None: nobody."""

    def act(call: Call, _: Any) -> None:
        for statements in calls:
            if statements is TWICE:
                with pytest.raises(AssertionError):
                    call("shop_db_execute", statements=statements)
            else:
                call("shop_db_execute", statements=statements)

    done: JudgedTrial = run_trial(
        sandbox, parse_contract(CONTRACT, "c.yaml"), Toolsmith(act), TrialPlan("t", folder / "t"),
        clock=lambda: datetime.now(UTC), store=MemoryChunks(),
    )  # fmt: skip
    ids = [action.id for action in done.observed.run.trace.actions]
    assert len(ids) == len(calls)
    found: dict[str, set[Any]] = {}
    for delta in done.evaluated.judgement.deltas:
        maker = None if delta.action is None else ids.index(delta.action)
        found.setdefault(delta.type, set()).add(maker)
    return found


def test_each_change_is_its_calls(sandbox, tmp_path):
    found = makers(sandbox, tmp_path, TWICE, [GOOD], ["SELECT 1"], [RENAME], [LATER])
    assert (found["refund"], found["customer"], found["order"]) == ({1}, {3}, {4})


def test_the_only_transaction_of_a_run_is_its_calls(sandbox, tmp_path):
    found = makers(sandbox, tmp_path, [GOOD, RENAME])
    assert (found["refund"], found["customer"]) == ({0}, {0})


def test_a_number_is_nobodys_where_it_is_not_surely_somebodys(sandbox, tmp_path):
    is_postgres = "postgres" in sandbox.access().urls["shop-db"]
    kind = "SERIAL" if is_postgres else "INT AUTO_INCREMENT"
    found = makers(
        sandbox, tmp_path, [f"CREATE TABLE mine (id {kind} PRIMARY KEY, v INT)"], [RENAME]
    )
    assert found["customer"] == {1}
    assert found["db.table"] <= {0, None}
    assert found["db.sequence"] <= {0, None}


def test_a_call_that_shadows_a_function_names_no_transaction_of_another(sandbox, tmp_path):
    if "postgres" not in sandbox.access().urls["shop-db"]:
        pytest.skip("PostgreSQL looks functions up by a path that a session may set")
    forged = [
        "CREATE FUNCTION public.pg_current_xact_id_if_assigned() RETURNS text RETURN '1'",
        "SET search_path = public, pg_catalog",
        RENAME,
    ]
    found = makers(sandbox, tmp_path, [GOOD], forged)
    assert (found["refund"], found["customer"]) == ({0}, {1})
