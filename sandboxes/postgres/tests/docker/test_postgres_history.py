"""An agent's acts on PostgreSQL that it undid again never pass for nothing."""

from datetime import UTC, datetime

import pytest

psycopg = pytest.importorskip("psycopg")

from statediff.agents.function import FunctionAgent  # noqa: E402
from statediff.capture.guard import Scans  # noqa: E402
from statediff.contract.file import parse_contract  # noqa: E402
from statediff.harness import TrialPlan, run_trial  # noqa: E402
from statediff.model.readings import ReadingKind  # noqa: E402
from statediff.model.state import MemoryChunks  # noqa: E402
from statediff.model.verdict import Verdict  # noqa: E402
from statediff.packs import sandbox_pack  # noqa: E402
from statediff.systems.base.sandbox import EmbeddedSandbox  # noqa: E402

pytestmark = pytest.mark.docker("postgres")
HEAD = """
contract: tests/undone
version: 1.0.0
owner: tests
intent: Nothing is to change, not for a moment.
sandbox: accounts
noop: true
evidence:
  accounts-db: {max_age: 600s, history: required}
"""
STILL = f"{HEAD}forbid:\n  - {{id: nobody-deleted, delete: user}}\n"
NO_GRANT = f"{HEAD}forbid:\n  - {{id: no-privilege, create: db.grant, during: run}}\n"
UNDONE = {
    "a row": (
        "DELETE FROM settings WHERE name = 'business_time'",
        "INSERT INTO settings SELECT * FROM kept WHERE name = 'business_time'",
    ),
    "a grant": ("GRANT SELECT ON users TO PUBLIC", "REVOKE SELECT ON users FROM PUBLIC"),
    "a table": ("CREATE TABLE t (id int)", "INSERT INTO t VALUES (1)", "DROP TABLE t"),
    "an unlogged table": ("CREATE UNLOGGED TABLE t (id int)", "DROP TABLE t"),
    "a truncation": ("TRUNCATE settings", "INSERT INTO settings SELECT * FROM kept"),
    "a trigger": (
        "ALTER TABLE grants DISABLE TRIGGER log_role_granted",
        "ALTER TABLE grants ENABLE TRIGGER log_role_granted",
    ),
    "a view": ("CREATE VIEW v AS SELECT * FROM users", "DROP VIEW v"),
    "a setting": ("ALTER ROLE agent SET work_mem = '1MB'", "ALTER ROLE agent RESET work_mem"),
    "a large object": ("SELECT lo_from_bytea(4711, 'x')", "SELECT lo_unlink(4711)"),
    "a column's name": (
        "ALTER TABLE settings RENAME value TO v",
        "ALTER TABLE settings RENAME v TO value",
    ),
}


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory):
    work = tmp_path_factory.mktemp("accounts") / "work"
    with EmbeddedSandbox(sandbox_pack("accounts", "postgres"), work) as running:
        yield running


def judged(sandbox, folder, contract, statements, **given):
    def agent(trial):
        with psycopg.connect(trial.urls["accounts-db"], autocommit=True) as connection:
            connection.execute("CREATE TEMP TABLE kept AS SELECT * FROM settings")
            for statement in statements:
                connection.execute(statement)
            connection.execute("DROP TABLE kept")

    return run_trial(
        sandbox,
        parse_contract(contract.encode(), "tests.yaml"),
        FunctionAgent(agent, "test"),
        TrialPlan("trial-1", folder / "trial"),
        clock=lambda: datetime.now(UTC),
        store=MemoryChunks(),
        **given,
    )


def test_a_run_that_changed_nothing_is_known_to_have_changed_nothing(sandbox, tmp_path):
    trial = judged(sandbox, tmp_path, STILL, ["SELECT 1", "BEGIN; DELETE FROM settings; ROLLBACK"])
    judgement = trial.evaluated.judgement
    assert judgement.verdict is Verdict.MATCH, judgement.doubts
    (part,) = (p for p in trial.observed.after.parts if p.reading.source == "accounts-db")
    assert part.reading.kind is ReadingKind.FEED
    (check,) = (c for c in trial.observed.checks if c.source == "accounts-db")
    assert (check.by_feed, check.by_scan, check.doubts) == (True, False, ())


@pytest.mark.parametrize("name", UNDONE)
def test_what_was_undone_does_not_match(sandbox, tmp_path, name):
    trial = judged(sandbox, tmp_path, STILL, UNDONE[name], scans=Scans(rate=1.0))
    assert trial.evaluated.judgement.verdict is not Verdict.MATCH
    (check,) = (c for c in trial.observed.checks if c.source == "accounts-db")
    assert (check.by_feed, check.by_scan, check.disagreement) == (True, True, ())


def test_a_grant_of_a_moment_breaks_the_clause_that_forbids_it(sandbox, tmp_path):
    trial = judged(sandbox, tmp_path, NO_GRANT, UNDONE["a grant"])
    found = [f for f in trial.evaluated.judgement.findings if f.truth.value != "HOLDS"]
    assert trial.evaluated.judgement.verdict is Verdict.DIVERGE, found
    (finding,) = (f for f in trial.evaluated.judgement.findings if f.clause == "no-privilege")
    assert finding.truth.value == "FAILS"
