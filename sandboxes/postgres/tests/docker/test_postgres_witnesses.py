"""Changes that a run undid are witnessed with their transaction: PostgreSQL."""

import re

import pytest

psycopg = pytest.importorskip("psycopg")

from statediff_postgres.sandbox import PostgresSystem  # noqa: E402

from statediff.packs import PackSource  # noqa: E402
from tests.witnessing import DELETED, QUEUED, ROWS, TABLES, run, witnessed  # noqa: E402

pytestmark = pytest.mark.docker("postgres")


def test_what_was_undone_is_witnessed_with_its_transaction(tmp_path):
    files = {"ddl": tmp_path / "ddl.sql", "seed": tmp_path / "seed.sql"}
    files["ddl"].write_text(";\n".join((*TABLES, "")))
    files["seed"].write_text(";\n".join((*ROWS, "")))
    system = PostgresSystem(PackSource("store", "postgres", None, files), (), tmp_path / "own")
    system.start()
    try:
        system.reset()
        (source,), (feed,) = system.sources(), system.feeds()
        granted = "GRANT SELECT ON note TO PUBLIC", "REVOKE SELECT ON note FROM PUBLIC"
        with psycopg.connect(system.url, autocommit=True) as agent:
            sides = run(source, feed, agent.execute, (*granted, *DELETED, *QUEUED))
    finally:
        system.stop()
    told = [
        witnessed(source, what, sides)
        for what in ("create: db.grant", "delete: note", "create: queue")
    ]
    found = [re.match(r"in transaction (\d+) of store \(position [0-9A-F]+/[0-9A-F]+\)", each)
             for each in told]  # fmt: skip
    assert [each and each[1] for each in found] == ["1", "3", "5"], told
