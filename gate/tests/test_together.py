"""Several systems behind one gate, the tutorial page, and what the log of a server may say."""

import contextlib
import multiprocessing
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from statediff_gate import Decision, Gate
from statediff_gate.decoding import UNCHANGED, Ended, Logged, Unreadable, rows_of, transactions
from statediff_gate.journal import Journal
from statediff_gate.mariadb import MariaDbGate
from statediff_gate.postgres import PostgresGate
from statediff_gate.sqlite import SqliteGate
from statediff_mariadb.session import connected, fetched

from gate.tests.conftest import CONTRACT, MADE, rows
from gate.tests.servers import agent_of, programs, server
from gate.tests.test_adapters import LOG
from statediff.cli.main import run
from statediff.errors import UsageError
from tests.servers import mariadb
from tests.test_docs import CHECKOUT

BOTH = """
contract: gate/both
version: 1.0.0
owner: us
intent: A payment and its receipt are written together, and nothing else.
noop: true
allow:
  - {id: paid, create: payment, where: any(r.id == it.id for r in created.receipt)}
  - {id: receipt, create: receipt, where: any(p.id == it.id for p in created.payment)}
"""
OPEN = """
contract: gate/open
version: 1.0.0
owner: us
intent: Numbers are written to both systems, and nothing else.
noop: true
allow: [{id: here, create: here}, {id: there, create: there}]
"""
needs_server = pytest.mark.skipif(programs() is None, reason="no PostgreSQL with test_decoding")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with server() as url:
        yield url


@needs_server
def test_two_systems_commit_together_or_not_at_all(url: str, keys: Path) -> None:
    import psycopg  # noqa: PLC0415 - of servers alone

    file = keys / "receipts.sqlite"
    with sqlite3.connect(file) as made:
        made.execute("CREATE TABLE receipt (id INTEGER PRIMARY KEY)")
    made.close()
    with psycopg.connect(url, autocommit=True) as server_:
        server_.execute("CREATE TABLE payment (id int PRIMARY KEY)")
    pay, receive = ("pg", "INSERT INTO payment VALUES (1)", ()), (
        "file", "INSERT INTO receipt VALUES (1)", ()
    )  # fmt: skip
    broken = ("file", "INSERT INTO receipt VALUES ('x')", ())
    made_table = ("file", "CREATE TABLE more (id INTEGER)", ())
    systems = {"pg": url, "file": str(file)}
    accounts = {"pg": agent_of(url)}
    with pytest.raises(UsageError, match="everything on the server"):
        Gate(BOTH, systems, folder=keys / "records", key=keys / "gate.pem")
    with Gate(
        BOTH, systems, accounts=accounts, folder=keys / "records", key=keys / "gate.pem"
    ) as gate:
        alone = [gate.execute([each]) for each in (pay, receive)]
        failed, structure = gate.execute([pay, broken]), gate.execute([made_table])
        assert [each.decision for each in (*alone, failed)] == [Decision.DENY] * 3
        assert structure.decision is not Decision.ALLOW
        assert rows(file, "SELECT * FROM receipt") == []
        both = gate.execute([pay, receive])
    assert both.is_committed
    assert rows(file, "SELECT * FROM receipt") == [(1,)]
    with psycopg.connect(url, autocommit=True) as server_:
        assert server_.execute("SELECT id FROM payment").fetchall() == [(1,)]
        assert server_.execute("SELECT gid FROM pg_prepared_xacts").fetchall() == []
    assert not any((keys / "records" / "decided").iterdir())


def killed(url: str, file: Path, keys: Path, moment: str) -> None:
    """A gate's process that dies at this moment of a commit of two systems."""

    def die(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    systems, accounts = {"pg": url, "file": str(file)}, {"pg": url.replace("owner@", "agent@")}
    gate = Gate(OPEN, systems, accounts=accounts, folder=keys / "records", key=keys / "gate.pem")
    if moment == "before the file's commit":
        SqliteGate.commit = die  # type: ignore[method-assign]  # in a process that dies of it
    elif moment == "after the file's commit":
        Journal.decide = die  # type: ignore[method-assign]  # as above
    else:
        PostgresGate.commit = die  # type: ignore[method-assign]  # as above
    gate.execute([("pg", "INSERT INTO there VALUES (7)", ()),
                  ("file", "INSERT INTO here VALUES (7)", ())])  # fmt: skip


@needs_server
@pytest.mark.parametrize("moment", [
    "before the file's commit", "after the file's commit", "after the decision",
])  # fmt: skip
def test_a_gate_that_dies_in_a_commit_of_two_systems_leaves_no_half(
    url: str, keys: Path, moment: str
) -> None:
    import psycopg  # noqa: PLC0415 - of servers alone

    file = keys / "here.sqlite"
    with sqlite3.connect(file) as made:
        made.execute("CREATE TABLE here (n INTEGER)")
        made.execute("INSERT INTO here VALUES (7)")
    made.close()
    with psycopg.connect(url, autocommit=True) as server_:
        server_.execute("DROP TABLE IF EXISTS there")
        server_.execute("CREATE TABLE there (n int)")
    accounts = {"pg": agent_of(url)}
    process = multiprocessing.get_context("fork").Process(
        target=killed, args=(url, file, keys, moment)
    )
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    systems = {"pg": url, "file": str(file)}
    Gate(OPEN, systems, accounts=accounts, folder=keys / "records", key=keys / "gate.pem").close()
    with psycopg.connect(url, autocommit=True) as server_:
        there = server_.execute("SELECT n FROM there").fetchall()
        assert server_.execute("SELECT gid FROM pg_prepared_xacts").fetchall() == []
    assert len(there) == len(rows(file, "SELECT n FROM here")) - 1
    assert len(there) == (moment != "before the file's commit")


@needs_server
def test_two_servers_of_a_gate_that_died_after_the_decision_both_commit(url, keys: Path) -> None:
    import psycopg  # noqa: PLC0415 - of servers alone

    with mariadb(*LOG) as (port, _), psycopg.connect(url, autocommit=True) as pg:
        place = f"mysql://root@127.0.0.1:{port}/shop"
        maria, _ = connected(place, 60)
        for each in ("CREATE DATABASE shop", "CREATE TABLE shop.here (n int)",
                     "DELETE FROM mysql.db", "FLUSH PRIVILEGES", "CREATE USER agent@localhost",
                     "GRANT ALL ON shop.* TO agent@localhost"):  # fmt: skip
            maria.query(each)
        pg.execute("DROP TABLE IF EXISTS there")
        pg.execute("CREATE TABLE there (n int)")
        accounts = {"pg": agent_of(url), "maria": place.replace("root@", "agent@")}

        opened = partial(Gate, OPEN, {"pg": url, "maria": place}, accounts=accounts,
                         folder=keys / "records", key=keys / "gate.pem")  # fmt: skip
        if (pid := os.fork()) == 0:
            with contextlib.suppress(BaseException):
                PostgresGate.commit = MariaDbGate.commit = lambda _: os.kill(os.getpid(), 9)  # type: ignore[method-assign,assignment]
                opened().execute([("pg", "INSERT INTO there VALUES (7)", ()),
                                  ("maria", "INSERT INTO here VALUES (7)", ())])  # fmt: skip
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
        opened().close()
        assert pg.execute("SELECT n FROM there").fetchall() == [(7,)]
        assert fetched(maria, "SELECT n FROM shop.here") == [("7",)]
        assert not any((keys / "records" / "decided").iterdir())


def make_shop(server_: Any) -> None:
    for each in ("DROP TABLE IF EXISTS customer, orders, log", *MADE):
        server_.execute(each)


@needs_server
def test_operators_of_the_agents_own_hide_nothing(url: str, keys: Path) -> None:
    import psycopg  # noqa: PLC0415 - of servers alone

    with psycopg.connect(url, autocommit=True) as made:
        make_shop(made)
        account = agent_of(url)
        made.execute("CREATE SCHEMA evil AUTHORIZATION agent")
        for kind, name in (('"char"', "="), ("int8", ">"), ("int8", "<>"), ("name", "=")):
            function = f"evil.never_{kind.strip(chr(34))}"
            made.execute(
                f"CREATE OR REPLACE FUNCTION {function}({kind}, {kind}) RETURNS boolean"
                " LANGUAGE sql AS 'SELECT false'"
            )
            made.execute(
                f"CREATE OPERATOR evil.{name} (FUNCTION = {function}, LEFTARG = {kind},"
                f" RIGHTARG = {kind})"
            )
    with Gate(
        CONTRACT, {"db": url}, accounts={"db": account}, folder=keys / "records",
        key=keys / "gate.pem",
    ) as gate:  # fmt: skip
        path = "SET search_path TO evil, pg_catalog, public"
        assert gate.execute([path]).is_committed
        for statements in (
            ["CREATE TABLE evil.more (id int)"], [path, "CREATE TABLE evil.more (id int)"],
            [path, "TRUNCATE public.customer"], [path, "DELETE FROM public.customer"],
            ["CREATE FUNCTION evil.f() RETURNS int LANGUAGE sql AS 'SELECT 1'"],
        ):  # fmt: skip
            assert gate.execute(statements).decision is Decision.DENY, statements
        assert gate.execute([path, "UPDATE orders SET note = 'x' WHERE id = 7"]).is_committed


ON_COPY = """
import os, sys, psycopg
assert "owner" not in os.environ["STATEDIFF_PG_URL"]
with psycopg.connect(os.environ["STATEDIFF_PG_URL"]) as db:
    for statement in sys.argv[1:]:
        db.execute(statement)
"""


@needs_server
def test_a_run_on_a_copy_of_a_server_is_done_to_it_where_it_is_a_match(
    url: str, keys: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import psycopg  # noqa: PLC0415 - of servers alone

    with psycopg.connect(url, autocommit=True) as made:
        make_shop(made)
    (keys / "agent.py").write_text(ON_COPY)
    (keys / "contract.yaml").write_text(CONTRACT)
    monkeypatch.chdir(keys)
    given = ("--state", f"pg={url}", "--account", f"pg={agent_of(url)}", "--key", "gate.pem")
    agent = ("--", sys.executable, "agent.py")
    right = "UPDATE orders SET status = 'refunded', note = 'it''s' WHERE id = 7"
    codes = [run(["gate", "contract.yaml", *given[:2], *given[4:], *agent, right])]
    codes += [
        run(["gate", "contract.yaml", *given, *agent, each])
        for each in ("DELETE FROM customer", "UPDATE orders SET cents = 1 WHERE id = 7", right)
    ]
    assert codes == [2, 1, 1, 0], capsys.readouterr()
    with psycopg.connect(url) as reading:
        found = reading.execute("SELECT status, cents, note FROM orders WHERE id = 7").fetchall()
        assert found == [("refunded", 70, "it's")]
        assert reading.execute("SELECT count(*) FROM customer").fetchall() == [(3,)]
        left = "SELECT count(*) FROM pg_database WHERE datname LIKE 'statediff%'"
        assert reading.execute(left).fetchall() == [(0,)]


@needs_server
@pytest.mark.slow
def test_every_command_of_the_tutorial_runs_on_a_real_server(tmp_path: Path) -> None:
    page = (CHECKOUT / "docs" / "gate-postgres.md").read_text("utf-8")
    blocks = re.findall(r"(?ms)^```sh\n(.*?)^```$", page)
    with server() as url:
        env = {
            **os.environ, "URL": url, "AGENT_URL": url.replace("owner@", "agent@"),
            "PATH": f"{Path(sys.executable).parent}:{programs()}:{os.environ['PATH']}",
        }  # fmt: skip
        said = [
            subprocess.run(
                ["bash", "-ec", each], cwd=tmp_path, env=env, check=True, capture_output=True,
                text=True,
            ).stdout
            for each in blocks
        ]  # fmt: skip
    assert len(blocks) == 5
    lines = said[3].splitlines()
    assert lines[0].startswith("allow True")
    assert [line.split()[:2] for line in lines[1:]] == [["deny", "False"]] * 3
    assert said[4].count("deny ") >= 3


# ---------------------------------------------------------------- the log

LINES = [
    "BEGIN 7",
    "table public.t: INSERT: id[integer]:1 v[text]:'it''s' \"odd \"\"[\"[character varying]:null",
    'table "S 1"."T.x": UPDATE: old-key: id[integer]:1 new-tuple: id[integer]:2 b[boolean]:true',
    "table public.t: DELETE: (no-tuple-data)",
    "table public.t: TRUNCATE: (no-flags)",
    "table public.t: UPDATE: id[integer]:1 v[text]:unchanged-toast-datum a[text[]]:'{\"a\",NULL}'",
    "PREPARE TRANSACTION 'it''s', txid 7",
    "BEGIN 8",
    "COMMIT 8",
    "COMMIT PREPARED 'it''s', txid 7",
    "ROLLBACK PREPARED 'x', txid 9",
]


def test_lines_of_the_log_are_read_as_the_server_writes_them() -> None:
    found = list(transactions(LINES))
    assert [type(each) for each in found] == [Logged, Logged, Ended, Ended]
    first: Any = found[0]
    assert (first.xid, first.prepared) == (7, "it's")
    insert, update, gone, all_gone, large = first.rows
    assert insert.new == {"id": "1", "v": "it's", 'odd "[': None}
    assert (update.schema, update.table) == ("S 1", "T.x")
    assert (update.old, update.new) == ({"id": "1"}, {"id": "2", "b": "t"})
    assert (gone.op, gone.old, gone.new) == ("DELETE", None, None)
    assert all_gone.op == "TRUNCATE"
    assert large.new == {"id": "1", "v": UNCHANGED, "a": '{"a",NULL}'}
    assert found[2:] == [Ended("it's", is_committed=True), Ended("x", is_committed=False)]


@pytest.mark.parametrize("line", [
    "table public.t: MERGE: id[integer]:1", "nonsense", "table public.t: INSERT: id[integer]",
    "table public.t: INSERT: id[integer]:'1", "message: transactional: 1",
])  # fmt: skip
def test_a_line_of_another_form_is_never_skipped(line: str) -> None:
    with pytest.raises(Unreadable):
        rows_of(line)
