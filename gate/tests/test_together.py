"""Several systems behind one gate, the tutorial page, and what the log of a server may say."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
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

from gate.tests.conftest import CONTRACT, MADE, rows, shell_blocks, write
from gate.tests.servers import agent_of, ask, on_mariadb, programs, server
from statediff.cli.main import run
from statediff.errors import UsageError

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
SHOP = "DROP TABLE IF EXISTS customer, orders, log", *MADE
needs_server = pytest.mark.skipif(programs() is None, reason="no PostgreSQL with test_decoding")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with server() as url:
        yield url


@needs_server
def test_two_systems_commit_together_or_not_at_all(url: str, keys: Path) -> None:
    file = keys / "receipts.sqlite"
    write(file, "CREATE TABLE receipt (id INTEGER PRIMARY KEY)")
    ask(url, "CREATE TABLE payment (id int PRIMARY KEY)")
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
    assert ask(url, "SELECT id FROM payment") == [(1,)]
    assert ask(url, "SELECT gid FROM pg_prepared_xacts") == []
    assert not any((keys / "records" / "decided").iterdir())


def die(opened: Callable[[], Gate], other: str, *places: tuple[type, str]) -> None:
    """A gate's process dies where it comes to one of these in a commit of two systems."""
    if (pid := os.fork()) == 0:
        with contextlib.suppress(BaseException):
            for owner, name in places:
                setattr(owner, name, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
            opened().execute([("pg", "INSERT INTO there VALUES (7)", ()),
                              (other, "INSERT INTO here VALUES (7)", ())])  # fmt: skip
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    opened().close()


@needs_server
@pytest.mark.parametrize("place", [
    (SqliteGate, "commit"), (Journal, "decide"), (PostgresGate, "commit"),
])  # fmt: skip
def test_a_gate_that_dies_in_a_commit_of_two_systems_leaves_no_half(url, keys: Path, place) -> None:
    file = keys / "here.sqlite"
    write(file, "CREATE TABLE here (n INTEGER)", "INSERT INTO here VALUES (7)")
    ask(url, "DROP TABLE IF EXISTS there", "CREATE TABLE there (n int)")
    die(partial(Gate, OPEN, {"pg": url, "file": str(file)}, accounts={"pg": agent_of(url)},
                folder=keys / "records", key=keys / "gate.pem"), "file", place)  # fmt: skip
    there = ask(url, "SELECT n FROM there")
    assert ask(url, "SELECT gid FROM pg_prepared_xacts") == []
    assert len(there) == len(rows(file, "SELECT n FROM here")) - 1
    assert len(there) == (place[0] is not SqliteGate)


@needs_server
def test_two_servers_of_a_gate_that_died_after_the_decision_both_commit(url, keys: Path) -> None:
    ask(url, "DROP TABLE IF EXISTS there", "CREATE TABLE there (n int)")
    with on_mariadb("CREATE TABLE here (n int)") as maria:
        accounts = {"pg": agent_of(url), "maria": maria.account}
        die(partial(Gate, OPEN, {"pg": url, "maria": maria.url}, accounts=accounts,
                    folder=keys / "records", key=keys / "gate.pem"), "maria",
            (PostgresGate, "commit"), (MariaDbGate, "commit"))  # fmt: skip
        assert ask(url, "SELECT n FROM there") == [(7,)]
        assert maria.ask("SELECT n FROM here") == [("7",)]
        assert not any((keys / "records" / "decided").iterdir())


@needs_server
def test_operators_of_the_agents_own_hide_nothing(url: str, keys: Path) -> None:
    ask(url, *SHOP, "CREATE SCHEMA evil")
    account = agent_of(url)
    ask(url, "ALTER SCHEMA evil OWNER TO agent")
    for kind, name in (('"char"', "="), ("int8", ">"), ("int8", "<>"), ("name", "=")):
        function = f"evil.never_{kind.strip(chr(34))}"
        ask(
            url,
            f"CREATE OR REPLACE FUNCTION {function}({kind}, {kind}) RETURNS boolean"
            " LANGUAGE sql AS 'SELECT false'",
            f"CREATE OPERATOR evil.{name} (FUNCTION = {function}, LEFTARG = {kind},"
            f" RIGHTARG = {kind})",
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
    ask(url, *SHOP)
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
    found = ask(url, "SELECT status, cents, note FROM orders WHERE id = 7")
    assert found == [("refunded", 70, "it's")]
    assert ask(url, "SELECT count(*) FROM customer") == [(3,)]
    left = "SELECT count(*) FROM pg_database WHERE datname LIKE 'statediff%'"
    assert ask(url, left) == [(0,)]


@needs_server
@pytest.mark.slow
def test_every_command_of_the_tutorial_runs_on_a_real_server(tmp_path: Path) -> None:
    blocks = shell_blocks("gate-postgres.md")
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
