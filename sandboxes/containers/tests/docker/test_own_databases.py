"""A sandbox over a database by URL: copied, proven, put back, and what keeps it from that."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest

psycopg = pytest.importorskip("psycopg")
pytest.importorskip("pymysql")

from statediff_mariadb.byurl import renamed  # noqa: E402
from statediff_mariadb.session import connected  # noqa: E402
from statediff_postgres.machines import VARIABLE  # noqa: E402

from statediff.capture.source import clock  # noqa: E402
from statediff.errors import SandboxError  # noqa: E402
from statediff.packs import read_pack  # noqa: E402
from statediff.systems.base.sandbox import EmbeddedSandbox  # noqa: E402
from statediff.workspace.trials import base_state, open_sandbox  # noqa: E402
from tests.cli.conftest import statediff  # noqa: E402
from tests.integrations.conftest import options  # noqa: E402
from tests.needs import package_programs  # noqa: E402
from tests.own_sandboxes import (  # noqa: E402
    CONTRACT,
    DONE,
    RENAMED,
    project_tests,
    through_the_commands,
)

__all__ = ["options", "statediff"]
TABLES = (
    (
        "CREATE TABLE tasks (id INT PRIMARY KEY, title VARCHAR(99),"
        " n INT GENERATED ALWAYS AS (id * 2) STORED)"
    ),
    "CREATE TABLE people (id INT PRIMARY KEY, name VARCHAR(99))",
    "INSERT INTO tasks (id, title) VALUES (1, 'Water; it''s'), (2, 'B')",
    "INSERT INTO people VALUES (1, 'Ada')",
    "CREATE VIEW z AS SELECT id, title FROM tasks",
    "CREATE VIEW a AS SELECT id FROM z",
)
OWN = {
    "postgres": (
        "CREATE SEQUENCE numbers START 5",
        "SELECT nextval('numbers')",
        (
            "CREATE FUNCTION kept() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN UPDATE people SET name = NEW.title; RETURN NEW; END $$"
        ),
        "CREATE TRIGGER kept AFTER INSERT ON tasks FOR EACH ROW EXECUTE FUNCTION kept()",
    ),
    "mariadb": (
        "CREATE SEQUENCE numbers START WITH 5",
        "SELECT NEXTVAL(numbers)",
        "CREATE TRIGGER kept AFTER INSERT ON tasks FOR EACH ROW UPDATE `own`.people SET name = 'x'",
        "CREATE PROCEDURE p() SELECT 'own.tasks', COUNT(*) FROM own.tasks",
    ),
}
CHECKOUT = Path(__file__).parents[4]


@dataclass(frozen=True)
class Own:
    kind: str
    url: str

    @contextlib.contextmanager
    def session(self, url: str = "") -> Iterator[Any]:
        """A function that runs a statement."""
        if self.kind == "postgres":
            with psycopg.connect(url or self.url, autocommit=True) as connection:
                yield lambda text: connection.execute(text.encode())
            return
        connection, database = connected(url or self.url, 30)
        with connection, connection.cursor() as cursor:
            connection.select_db(database)
            yield cursor.execute

    def described(self, folder: Path, **more: str) -> Path:
        path = folder / "sandbox.yaml"
        source = {"kind": self.kind, "url": self.url, **more}
        path.write_text(json.dumps({"sources": {"db": source}}))
        return path


EMBEDDED = "postgres without Docker"


@pytest.fixture(
    scope="module",
    params=[
        *(pytest.param(name, marks=pytest.mark.docker(name)) for name in OWN),
        pytest.param(EMBEDDED, marks=[pytest.mark.postgres, pytest.mark.slow]),
    ],
)
def own(request: pytest.FixtureRequest) -> Iterator[Own]:
    """A database `own` of somebody's server, with an account that may make databases."""
    kind = request.param.partition(" ")[0]
    programs = str(package_programs()) if request.param == EMBEDDED else None
    with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as running:
        if programs is not None:
            patch.setenv(VARIABLE, programs)
        server = running.enter_context(open_sandbox("shop", kind))
        place = urlsplit(server.access().urls["shop-db"])
        with server.system("shop-db")._server.admin() as admin:
            if kind == "postgres":
                admin.execute("ALTER ROLE agent CREATEDB")
                admin.execute("GRANT CONNECT ON DATABASE postgres TO agent")
                admin.execute("CREATE DATABASE own OWNER agent TEMPLATE pristine")
                admin.execute("ALTER DATABASE own SET search_path TO public, pg_catalog")
            else:
                admin.query("GRANT ALL ON *.* TO agent@localhost")
                admin.query("CREATE DATABASE own")
        found = Own(kind, urlunsplit(place._replace(path="/own")))
        with found.session() as execute:
            for statement in (*TABLES, *OWN[kind]):
                execute(statement)
        yield found


def test_trials_have_a_copy_that_is_put_back_and_the_original_is_never_written(
    own: Own, tmp_path: Path
) -> None:
    with EmbeddedSandbox(read_pack(own.described(tmp_path)), tmp_path / "work") as sandbox:
        assert sandbox.verify(clock).ok
        url = sandbox.access().urls["db"]
        assert urlsplit(url).path.startswith("/statediff_")
        with own.session(url) as execute:
            execute("INSERT INTO tasks (id, title) VALUES (3, 'New')")
            execute("DROP VIEW a")
        found = {drift.what: drift.found for drift in sandbox.verify(clock).drift}
        assert found["tasks"] == "3 rows; 3 is new"
        assert {"people", "db.view"} <= found.keys()
        sandbox.reset()
        assert sandbox.verify(clock).ok
    with own.session() as execute:
        if own.kind == "postgres":
            left = execute("SELECT count(*) FROM pg_database WHERE datname LIKE 'statediff%'")
            assert left.fetchone() == (0,)
            assert execute("SELECT count(*) FROM tasks").fetchone() == (2,)
        else:
            assert execute("SHOW DATABASES LIKE 'statediff%'") == 0
            assert execute("SELECT * FROM tasks") == 2


AGENT = """
import os, sys
url = os.environ["STATEDIFF_DB_URL"]
sys.path[:0] = {path!r}
from sandboxes.containers.tests.docker.test_own_databases import Own
with Own({kind!r}, url).session(url) as execute:
    execute("UPDATE tasks SET title = 'Done' WHERE id = 1")
    if "wrong" in sys.argv:
        execute("UPDATE people SET name = 'Eve'")
"""


def test_four_commands_lead_to_a_contract_that_tells_a_right_agent_from_a_wrong_one(
    own: Own, tmp_path: Path, statediff: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`init`, `watch --contract`, `mutate` and `run`; nothing but the contract is edited."""
    place = urlsplit(own.url)
    monkeypatch.setenv("PGPASSWORD", place.password or "")
    monkeypatch.setenv("MYSQL_PWD", place.password or "")
    url = urlunsplit(place._replace(netloc=place.netloc.replace(f":{place.password}@", "@")))
    state = f"db={url}"
    assert statediff("init", f"db={own.url}", "--sandbox", "--out", "secret").code == 0
    written = (tmp_path / "secret" / "sandbox.yaml").read_text()
    assert "# its password is taken from " in written
    assert f":{place.password}@" not in written
    assert statediff("init", state, "--sandbox", "--out", "task").code == 0
    agent = tmp_path / "agent.py"
    agent.write_text(AGENT.format(path=[str(CHECKOUT)], kind=own.kind))
    contract = tmp_path / "task" / "contract.yaml"
    text = contract.read_text().replace("reviewed: false", "# read").partition("forbid:")[0]
    text += "require:\n  - {id: renamed, update: tasks, where: it.id == 1, set: {title: Done}}\n"
    contract.write_text(text)
    program = f"{sys.executable} {agent}"
    watched = statediff("watch", "--state", state, "--contract", "task", "--", *program.split())
    with own.session() as execute:
        execute("UPDATE tasks SET title = 'Water; it''s' WHERE id = 1")
    assert watched.code == 0, watched.out + watched.err
    mutated = statediff("mutate", "task", "--agent-cmd", program)
    assert mutated.code in (0, 1), mutated.out + mutated.err
    done = statediff(
        "run", "task", "--agent-cmd", program, "--agent-cmd", f"{program} wrong", "--json"
    )
    ended = sorted(line["verdict"] for line in done.lines if "verdict" in line)
    assert ended == ["DIVERGE", "MATCH"], done.out + done.err


def make_project(own: Own, tmp_path: Path) -> None:
    """A contract, its sandbox `app` over the database, and the agents `right` and `wrong`."""
    (tmp_path / "sandboxes" / "app").mkdir(parents=True)
    pack = read_pack(own.described(tmp_path / "sandboxes" / "app"))
    with EmbeddedSandbox(pack, tmp_path / "work") as sandbox:
        parts = base_state(sandbox).parts
    exclude = [
        {"what": name, "because": "this account does not see it"}
        for part in parts
        for name, table in part.state.tables.items()
        if not table.enumeration.is_complete
    ]
    text = CONTRACT.format(name=own.kind, require=RENAMED) + f"exclude: {json.dumps(exclude)}\n"
    if own.kind == "postgres":
        text += "unread: [{what: db.role.password, because: only a superuser is shown it}]\n"
    (tmp_path / "contract.yaml").write_text(text)
    act = textwrap.indent(AGENT.format(path=[str(CHECKOUT), *sys.path], kind=own.kind), "    ")
    agents = [
        f"def {name}():\n    import sys\n    sys.argv[1:] = [{name!r}]\n{act}\n"
        for name in ("right", "wrong")
    ]
    (tmp_path / "agents.py").write_text("\n\n".join(agents))


def test_the_commands_open_a_database_by_url(
    own: Own, tmp_path: Path, statediff: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_project(own, tmp_path)
    through_the_commands(statediff, tmp_path, DONE, monkeypatch)


def test_pytest_and_a_cluster_open_a_database_by_url(
    own: Own, options: tuple[str, ...], tmp_path: Path, statediff: Any
) -> None:
    make_project(own, tmp_path)
    (tmp_path / "test_it.py").write_text(project_tests(["contract.yaml"]))
    tests = [sys.executable, "-m", "pytest", *options, "test_it.py"]
    path = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    tried = subprocess.run(tests, cwd=tmp_path, check=False, capture_output=True, env=path)
    assert b"1 passed" in tried.stdout, tried.stdout
    done = statediff("run", "contract.yaml", "--agent", "right", "--json", "--scheduler", "local")
    ended = [line["verdict"] for line in done.lines if "verdict" in line]
    assert ended == ["MATCH"], done.out + done.err


INSPECTED = """
from inspect_ai import Task, eval
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.solver import generate
from statediff_hosts.inspect_provider import (
    contract_samples, statediff_scorer, statediff_tools)
script = [ModelOutput.for_tool_call("mockllm", *{call!r}),
          ModelOutput.from_content("mockllm", "{{}}")]
for said in script:
    said.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
task = Task(dataset=contract_samples("contract.yaml"), solver=[statediff_tools(), generate()],
            scorer=statediff_scorer(), sandbox="statediff")
[log] = eval(task, model=get_model("mockllm/model", custom_outputs=script), display="none",
             log_dir="logs", max_samples=1, max_sandboxes=1)
[sample] = log.samples
print(log.status, sample.scores["statediff_scorer"].answer)
"""


def test_a_model_of_inspect_works_in_a_database_by_url(own: Own, tmp_path: Path) -> None:
    pytest.importorskip("inspect_ai")
    make_project(own, tmp_path)
    (tmp_path / "model.py").write_text(INSPECTED.format(call=DONE))
    path = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    tried = subprocess.run(
        [sys.executable, "model.py"], cwd=tmp_path, check=False, capture_output=True, env=path
    )
    assert tried.stdout == b"success MATCH\n", tried.stdout + tried.stderr


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"path": "/nowhere"}, "does not exist|has no database|Unknown database|cannot be copied"),
        ({"netloc": "agent:wrong@{where}"}, "password|denied"),
        ({"netloc": "agent:x@127.0.0.1:1"}, "refused|reached"),
    ],
)
def test_what_is_wrong_with_the_url_is_named_without_its_password(
    own: Own, tmp_path: Path, change: dict[str, str], message: str
) -> None:
    place = urlsplit(own.url)
    where = place.netloc.rpartition("@")[2]
    parts = {key: value.format(where=where) for key, value in change.items()}
    wrong = Own(own.kind, urlunsplit(place._replace(**parts)))
    with (
        pytest.raises(SandboxError, match=message) as caught,
        EmbeddedSandbox(read_pack(wrong.described(tmp_path)), tmp_path / "work"),
    ):
        pass
    assert (place.password or "") not in str(caught.value)


@pytest.mark.docker("postgres")
def test_who_is_in_the_database_and_which_right_lacks_are_named(
    own: Own, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if own.kind != "postgres":
        pytest.skip("MariaDB copies while others are in it")
    monkeypatch.setattr("statediff_postgres.byurl.WAIT_SECONDS", 0.3)
    pack = read_pack(own.described(tmp_path))
    with (
        own.session(),
        pytest.raises(SandboxError, match="while others are in it: agent"),
        EmbeddedSandbox(pack, tmp_path / "work"),
    ):
        pass
    shop = Own(own.kind, own.url.replace("/own", "/shop_db"))
    with (
        pytest.raises(SandboxError, match="has to own it"),
        EmbeddedSandbox(read_pack(shop.described(tmp_path)), tmp_path / "work"),
    ):
        pass


def test_a_definition_names_the_copy_where_it_named_the_database() -> None:
    text = "SELECT `own`.`t`.`a`, 'own.t', \"own.t\", x.own.y FROM own . t -- own.t\n"
    assert renamed(text, "own", "n") == (
        "SELECT `n`.`t`.`a`, 'own.t', \"own.t\", x.own.y FROM `n`. t -- own.t\n"
    )


VERIFIER = """
import sys
from urllib.parse import urlsplit
sys.path[:0] = {path!r}
from sandboxes.containers.tests.docker.test_own_databases import Own
state, host, database = sys.argv[1:]
assert urlsplit(state).hostname == host
assert urlsplit(state).path == "/" + database
with Own({kind!r}, state).session(state) as execute:
    found = execute("SELECT title FROM tasks WHERE id = 1")
    assert {kind!r} == "mariadb" or found.fetchone() == ("Done",)
    assert execute("SELECT * FROM tasks WHERE id = 1 AND title = 'Done'") != 0
    execute("DELETE FROM people")  # what a verifier does is in its copy alone
"""


def test_a_verifier_is_audited_over_copies_of_a_database_that_runs(
    own: Own, tmp_path: Path, statediff: Any
) -> None:
    """Harm is made by the database's own statements; nothing of the copies is left."""
    script = tmp_path / "verify.py"
    script.write_text(VERIFIER.format(path=sys.path, kind=own.kind))
    with EmbeddedSandbox(read_pack(own.described(tmp_path)), tmp_path / "work") as sandbox:
        after = sandbox.access().urls["db"]
        with own.session(after) as execute:
            execute("UPDATE tasks SET title = 'Done' WHERE id = 1")
        words = f"{sys.executable} {script} {{state}} {{state.host}} {{state.database}}"
        given = ("--before", own.url, "--after", after, "--each", "1", "--json")
        said = statediff("lab", "audit", "--verifier", words, *given)
    assert said.code == 1, said.err
    [domain] = said.lines[0]["domains"]
    found = {each["kind"]: (each["wrong"], each["of"]) for each in domain["classes"]}
    assert found["right-run"] == found["null-run"] == found["state-removed"] == (0, 1)
    assert found.get("collateral-damage") == found.get("irreversible-change") == (1, 1), said.out
