"""PostgreSQL servers as processes of this machine: put back, proven, followed, and gone after."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psycopg")

import psycopg
from statediff_containers import local
from statediff_containers.local import LocalServer, place
from statediff_postgres import machines
from statediff_postgres import sandbox as postgres_sandbox
from statediff_postgres.machines import VARIABLE, EmbeddedPostgres, programs_in
from statediff_postgres.sandbox import PostgresSystem

from sandboxes.containers.tests.docker.cases import cases_of, check
from sandboxes.postgres.tests.docker.postgres_worlds import agrees, now, run, world
from sandboxes.postgres.tests.docker.test_postgres_history import STILL, UNDONE, judged
from statediff.errors import SandboxError
from statediff.model.state import MemoryChunks
from statediff.model.verdict import Verdict
from statediff.packs import PackSource, sandbox_pack
from statediff.systems.base.folders import inhabitants
from statediff.systems.base.owner import Owner
from statediff.systems.base.sandbox import EmbeddedSandbox
from tests.cli.conftest import PROGRAM, environment
from tests.needs import package_programs
from tests.tasks import try_agent
from tests.test_docs import CHECKOUT, make_program
from tests.test_docs import check as check_shown

SECONDS = 60.0


@pytest.fixture(scope="module", autouse=True)
def programs() -> Iterator[Path | None]:
    """Those of the package, whatever else this machine has."""
    found = package_programs()
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = str(found)
    yield found
    os.environ.pop(VARIABLE)
    if before is not None:
        os.environ[VARIABLE] = before


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresSystem]:
    made = world(tmp_path_factory.mktemp("embedded"))
    made.start()
    yield made
    made.stop()


def box_of(system: PostgresSystem) -> LocalServer:
    box = system._running().container
    assert isinstance(box, LocalServer)
    return box


def drifted(system: PostgresSystem) -> set[str]:
    proof, drift = system.verify()
    assert (proof.expected == proof.found) == (not drift)
    return {entry.what.partition(" (")[0] for entry in drift}


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


# ---------------------------------------------------------------- the server is a sandbox's


@pytest.mark.postgres
def test_what_an_agent_changes_is_found_by_the_proof_and_gone_after_a_reset(system) -> None:
    system.reset()
    assert drifted(system) == set()
    with psycopg.connect(system.url, autocommit=True) as agent:
        agent.execute("UPDATE item SET name = 'x' WHERE id = 7")
        agent.execute("ALTER ROLE agent SET search_path = evil")
    assert drifted(system) >= {"table item", "setting of role agent in"}
    system.reset()
    assert drifted(system) == set()


@pytest.mark.postgres
def test_an_agent_has_its_own_database_and_nothing_beside_it(system) -> None:
    system.reset()
    with psycopg.connect(system.url, autocommit=True) as agent:
        for statement in (
            "SELECT pg_read_file('pg_hba.conf')", "COPY item TO PROGRAM 'true'",
            "SELECT rolpassword FROM pg_authid", "CREATE ROLE mine", "CREATE DATABASE mine",
        ):  # fmt: skip
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                agent.execute(statement)
    folder = str(box_of(system).socket("")).replace("/", "%2F")
    for account in ("agent:guessed", "postgres", "postgres:postgres", "statediff_reader"):
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(f"postgresql://{account}@{folder}/postgres")


@pytest.mark.postgres
def test_nobody_else_enters_its_folder_and_no_root_runs_it(system) -> None:
    box = box_of(system)
    folder = box.written.parent.stat()
    user = os.geteuid() or machines.SERVER_USER
    assert (folder.st_mode & 0o777, folder.st_uid) == (0o700, user)
    running = [pid for pid in inhabitants(str(box.written.parent)) if pid == box.pid]
    assert [Path(f"/proc/{pid}").stat().st_uid for pid in running] == [user]


FORGED = (
    "rmgr: Transaction len (rec/tot):     34/    34, tx:        999, lsn: 0/01000028,"
    " prev 0/01000000, desc: COMMIT 2026-01-01 00:00:00.000000 UTC"
)
GATES = {
    "rows": ("UPDATE item SET name = 'x' WHERE id < 9", "DELETE FROM note WHERE n = 1"),
    "undone": ("UPDATE item SET ok = false", "UPDATE item SET ok = id % 2 = 0"),
    "parts": (
        "BEGIN; INSERT INTO base VALUES (9); SAVEPOINT a; DELETE FROM part; ROLLBACK TO a; COMMIT",
        "BEGIN; INSERT INTO base VALUES (8); SAVEPOINT b; UPDATE wide SET n = 0; RELEASE b; COMMIT",
    ),
    "made": ("CREATE TABLE fresh (id int PRIMARY KEY)", "INSERT INTO fresh VALUES (1)"),
    "late": ("SET synchronous_commit = off; UPDATE sums SET c = 'z'",),
    "forged": (
        f"SELECT pg_logical_emit_message(true, E'x\\n{FORGED}\\n', 'y')",
        f"SELECT pg_logical_emit_message(false, E'first record is after 0/1\\n{FORGED}', 'y')",
        "INSERT INTO base VALUES (3, 'c')",
    ),
}  # fmt: skip


@pytest.mark.postgres
@pytest.mark.parametrize("name", GATES)
def test_the_feed_tells_what_a_scan_shows_without_an_extension_that_reads_the_log(
    system, name: str
) -> None:
    began = now()
    told, scan = run(system, GATES[name])
    assert agrees(told, scan)
    assert told.seen.gap is None
    committed = [each.committed_at for each in told.seen.transactions]
    assert all(began <= at <= now() for at in committed)
    assert len(committed) >= len(GATES[name]) - (name == "forged")


FIRST = "UPDATE item SET name = 'x' WHERE id < 9"
IN_ORDER = {
    "made anew": (
        "VACUUM FULL item",
        "UPDATE item SET name = 'y' WHERE id < 9",
        "VACUUM FULL item",
    ),
    "clustered": ("CLUSTER item USING item_pkey", "ALTER TABLE item SET WITHOUT CLUSTER"),
    "temporary tables": (
        "CREATE TEMP TABLE t (id serial PRIMARY KEY, n int CHECK (n > 0))",
        "INSERT INTO t (n) VALUES (1); COMMENT ON TABLE t IS 'x'",
        "CREATE RULE r AS ON DELETE TO t DO INSTEAD NOTHING; CREATE POLICY p ON t USING (true)",
        "CREATE TEMP TABLE u () INHERITS (item)",
        "DROP TABLE t, u",
    ),
    "temporary objects": (
        "CREATE TEMP VIEW v AS SELECT * FROM item; CREATE TEMP SEQUENCE s",
        "CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "CREATE TYPE pg_temp.kind AS ENUM ('a'); CREATE DOMAIN pg_temp.word AS text",
    ),
}


@pytest.mark.postgres
@pytest.mark.parametrize("name", IN_ORDER)
def test_what_keeps_tables_in_order_or_is_temporary_hides_no_moment(system, name: str) -> None:
    told, scan = run(system, (FIRST, *IN_ORDER[name]))
    assert agrees(told, scan)
    assert told.seen.gap is None
    moments = [each.state.tables for each in told.seen.transactions]
    unknown = {
        (name, table.enumeration.cause)
        for moment in moments
        for name, table in moment.items()
        if name != "quick" and not table.enumeration.is_complete  # no log tells of that one
    }
    assert not unknown
    names = [{row["name"] for _, row in moment["item"].rows()} for moment in moments]
    assert [("x" in each, "y" in each) for each in (names[0], names[-1])] == [
        (True, False),
        (name != "made anew", name == "made anew"),
    ]


@pytest.mark.postgres
@pytest.mark.parametrize(
    "anew",
    [
        "ALTER TABLE item ALTER price TYPE numeric USING price + 0",
        "CREATE TEMP TABLE kept AS TABLE item; TRUNCATE item; INSERT INTO item TABLE kept",
    ],
)
def test_a_new_file_without_the_earlier_rows_leaves_the_moments_before_it_unknown(
    system, anew: str
) -> None:
    told, scan = run(system, (FIRST, anew))
    assert agrees(told, scan)
    first = told.seen.transactions[0].state.tables["item"]
    assert not first.enumeration.is_complete


@pytest.mark.postgres
def test_indexes_that_need_a_check_that_is_not_there_are_unobserved(tmp_path: Path) -> None:
    files = {"ddl": tmp_path / "ddl.sql", "seed": tmp_path / "seed.sql"}
    files["ddl"].write_text(
        "CREATE FUNCTION slug(t text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT lower(t)';"
        "CREATE TABLE page (id int PRIMARY KEY, title text);"
        "CREATE INDEX by_slug ON page (slug(title));"
    )
    files["seed"].write_text("INSERT INTO page VALUES (1, 'A')")
    system = PostgresSystem(PackSource("store", "postgres", None, files), (), tmp_path / "own")
    system.start()
    try:
        system.reset()
        (source,) = system.sources()
        found = source.read(MemoryChunks(), now, None).state.tables["db.structure"].enumeration
        assert not found.is_complete
        assert "by_slug calls functions, and amcheck cannot be asked" in str(found.cause)
    finally:
        system.stop()


# ---------------------------------------------------------------- the packs


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], EmbeddedSandbox]]:
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


SAMPLE = [
    case
    for pack in ("shop", "accounts")
    for case in cases_of(pack, every=False)
    if case.values[0].name in ("shop/correct-address", "accounts/access-review")
]
"""All tasks are tried by `STATEDIFF_POSTGRES=FOLDER make variants`."""


@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.parametrize(("folder", "case"), SAMPLE)
def test_agents_get_their_verdicts(running, tmp_path, folder, case: dict[str, Any]) -> None:
    check(try_agent(running, folder, case["agent"], tmp_path / "t"), case)


FOR_A_MOMENT = {
    **{name: UNDONE[name] for name in UNDONE if name != "a truncation"},
    "an index": ("CREATE INDEX i ON users (name)", "DROP INDEX i"),
    "a constraint": (
        "ALTER TABLE settings ADD CONSTRAINT c CHECK (name <> '')",
        "ALTER TABLE settings DROP CONSTRAINT c",
    ),
    "a sequence": ("CREATE SEQUENCE s", "DROP SEQUENCE s"),
    "row security": (
        "ALTER TABLE settings ENABLE ROW LEVEL SECURITY",
        "ALTER TABLE settings DISABLE ROW LEVEL SECURITY",
    ),
    "a rule": (
        "CREATE RULE r AS ON DELETE TO settings DO INSTEAD NOTHING",
        "DROP RULE r ON settings",
    ),
    "rows, and a new file": (
        "DELETE FROM settings",
        "INSERT INTO settings SELECT * FROM kept",
        "VACUUM FULL settings",
    ),
}


@pytest.mark.postgres
@pytest.mark.parametrize("name", FOR_A_MOMENT)
def test_what_was_there_for_a_moment_is_a_change(running, tmp_path: Path, name: str) -> None:
    judged_trial = judged(running("accounts"), tmp_path, STILL, FOR_A_MOMENT[name])
    judgement = judged_trial.evaluated.judgement
    assert judgement.verdict is Verdict.DIVERGE, judgement.doubts


SHOWN = re.compile(r"^```console postgres\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.slow
@pytest.mark.postgres
def test_what_the_page_shows_of_it_is_run(tmp_path: Path, forked: Path) -> None:
    make_program(tmp_path, forked)
    (block,) = SHOWN.findall((CHECKOUT / "docs" / "docker.md").read_text())
    chosen = f"$ {VARIABLE}={os.environ[VARIABLE]} statediff"
    check_shown(block.replace("$ statediff", chosen), tmp_path)


# ---------------------------------------------------------------- how it ends


@pytest.mark.postgres
def test_a_killed_server_or_process_of_it_is_nobodys_fault_and_a_reset_begins_anew(system) -> None:
    def killed(pid: int) -> str | None:
        os.kill(pid, signal.SIGKILL)
        return system.failure()

    system.reset()
    assert system.failure() is None
    with psycopg.connect(system.url) as agent:
        assert killed(agent.info.backend_pid) == "a process of its server was killed"
    system.reset()
    assert drifted(system) == set()
    box = box_of(system)
    assert segments_of(box.pid)
    assert killed(box.pid) == "its server ended"
    system.reset()
    assert (drifted(system), box_of(system) is box) == (set(), False)
    assert not inhabitants(str(box.written.parent))
    assert not segments_of(box.pid)


def segments_of(pid: int) -> list[str]:
    """Pieces of shared memory that this process made and nobody removed."""
    made = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    return [line for line in made if int(line.split()[4]) == pid]


@pytest.mark.postgres
def test_servers_at_once_share_no_folder_socket_or_port(tmp_path: Path, monkeypatch) -> None:
    shelf = postgres_sandbox.Shelf[postgres_sandbox.Made]()
    monkeypatch.setattr(postgres_sandbox, "SHELF", shelf)
    systems = []
    for name in "abc":
        (tmp_path / name).mkdir()
        systems.append(world(tmp_path / name))
    try:
        with ThreadPoolExecutor(3) as several:
            list(several.map(lambda each: (each.start(), each.reset()), systems))
        assert any(each.kept is not None for each in shelf._places.values())
        assert len({each.url for each in systems}) == 3
        with psycopg.connect(systems[0].url, autocommit=True) as agent:
            agent.execute("DELETE FROM item")
        assert [bool(drifted(each)) for each in systems] == [True, False, False]
    finally:
        for each in systems:
            each.stop()


@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.parametrize("strike", [signal.SIGKILL, signal.SIGINT])
def test_nothing_of_a_sandbox_outlives_its_evaluator(tmp_path: Path, strike: int) -> None:
    command = [*PROGRAM, "sandbox", "up", "shop", "--variant", "postgres", "--json"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment({VARIABLE: os.environ[VARIABLE], "TMPDIR": "/tmp"}),
        stdout=subprocess.PIPE, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        facts = json.loads(process.stdout.readline())
        assert "PostgreSQL 16.2" in facts["servers"]["shop-db"]
        (folder,) = [
            each.parent
            for each in Path("/tmp").glob("statediff-servers-*/owner")
            if each.read_text().startswith(f"{facts['pid']}-")
        ]
        assert inhabitants(str(folder))
        os.killpg(process.pid, strike)  # as Ctrl-C in a terminal
    until(lambda: not folder.exists() and not inhabitants(str(folder)))


def test_what_a_dead_owner_left_is_removed_by_the_next(tmp_path: Path, monkeypatch) -> None:
    tmp_path.chmod(0o755)
    monkeypatch.setattr(local, "_roots", lambda: [tmp_path])
    me = Owner.current()
    for name, owner in (("dead", replace(me, started=me.started - 1)), ("mine", me)):
        folder = tmp_path / f"statediff-servers-{name}"
        folder.mkdir()
        (folder / "owner").write_text(owner.label)
    (tmp_path / "statediff-servers-strange").symlink_to(tmp_path / "statediff-servers-mine")
    left = subprocess.Popen(
        ["env", "--default-signal=QUIT", "sleep", "60"], cwd=tmp_path / "statediff-servers-dead"
    )
    while Path(f"/proc/{left.pid}/comm").read_text() != "sleep\n":  # it may be asked from then on
        time.sleep(0.01)
    local._remove_of_the_dead()
    assert left.wait() == -signal.SIGQUIT
    assert not (tmp_path / "statediff-servers-dead").exists()
    assert (tmp_path / "statediff-servers-mine" / "owner").exists()


# ---------------------------------------------------------------- which programs


def programs_of(folder: Path, release: str, extensions: tuple[str, ...] = ()) -> Path:
    """A folder of programs that say so of themselves."""
    share = folder / "share"
    (share / "extension").mkdir(parents=True)
    for name in extensions:
        (share / "extension" / f"{name}.control").touch()
    for name in ("postgres", "initdb", "pg_waldump"):
        (folder / name).touch()
    (folder / "pg_config").write_text(f"#!/bin/sh\necho 'PostgreSQL {release}'\necho {share}\n")
    (folder / "pg_config").chmod(0o755)
    return folder


def test_those_that_see_more_come_first_then_newer_ones(tmp_path: Path, monkeypatch) -> None:
    both = ("amcheck", "pg_walinspect")
    folders = [
        programs_of(tmp_path / "old", "14.2", both),
        programs_of(tmp_path / "plain", "16.2"),
        programs_of(tmp_path / "whole", "15.18 (Debian)", both),
        programs_of(tmp_path / "best", "16.9", both),
        programs_of(tmp_path / "broken", "unknown"),
    ]
    (folders[-1] / "initdb").unlink()
    monkeypatch.setattr(machines, "_folders", lambda: [(f, f.name) for f in folders])
    assert [p.folder.name for p in machines.programs()] == ["best", "whole", "plain"]
    title = EmbeddedPostgres(machines.programs()[1]).title
    assert title == "PostgreSQL 15.18 (whole), a process of this machine"


def test_where_there_is_nothing_the_message_says_how_to_get_it(monkeypatch) -> None:
    def no_engine() -> None:
        raise SandboxError("no Docker engine answers")

    monkeypatch.setattr(machines, "_containers", no_engine)
    monkeypatch.setattr(machines, "_folders", list)
    with pytest.raises(
        SandboxError, match=r"no Docker engine.*pip install statediff\[postgres-server\]"
    ):
        machines._chosen("", "", 0)
    with pytest.raises(SandboxError, match="names /nowhere"):
        machines._chosen("/nowhere", "", 0)
    with pytest.raises(SandboxError, match=r"no Docker engine answers$"):
        machines._chosen("docker", "", 0)


@pytest.mark.postgres
@pytest.mark.skipif(os.geteuid() != 0, reason="as root: only root becomes another user")
def test_programs_that_no_other_user_reaches_are_copied(tmp_path, monkeypatch, programs) -> None:
    package = tmp_path / "pgserver"
    package.parent.chmod(0o700)
    for name in ("pgserver", "pgserver.libs"):
        (tmp_path / name).symlink_to(programs.parents[1].with_name(name))
    monkeypatch.setattr(machines, "_package", lambda: package)
    monkeypatch.setattr(machines, "may_enter", lambda _path: False)
    found = programs_in(package / "pginstall" / "bin", "here")
    copied = machines._reachable(found, "store")
    assert copied.folder.is_relative_to(place().folder)
    said = subprocess.run(
        [str(copied / "initdb"), "--version"], user=65534, capture_output=True, check=True
    ).stdout
    assert b"16.2" in said


AS_OTHERS = {
    "root, who can be nobody else": (["--map-root-user"], "PostgreSQL refuses to run as root"),
    "a user without an account": (["--map-user=4711", "--map-group=4711"], "and 4711 has none"),
    "any user": (["--map-user=65534", "--map-group=65534"], "it is up as 65534"),
}


@pytest.mark.postgres
@pytest.mark.parametrize("who", AS_OTHERS)
def test_a_server_runs_as_any_user_or_the_message_says_what_to_do(who: str) -> None:
    options, expected = AS_OTHERS[who]
    apart = ["unshare", "--user", *options]
    if subprocess.run([*apart, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs user namespaces")
    program = (
        "from statediff_postgres.machines import chosen; box = chosen().run('store');"
        "box.await_ready(box.socket('.s.PGSQL.5432').exists); stat = box.written.stat();"
        "box.remove(); raise SystemExit(f'it is up as {stat.st_uid}')"
    )
    ran = subprocess.run(
        [*apart, sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": "/tmp"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert expected in ran.stderr
