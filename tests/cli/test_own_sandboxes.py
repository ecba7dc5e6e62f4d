"""A project's own sandboxes, of each kind and by each door; and what is wrong with one."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pygit2
import pytest

from statediff import api
from statediff.agents.recorder import recording
from statediff.agents.tools import tool_table
from statediff.capture.source import clock
from statediff.conformance import captured, states
from statediff.errors import ContractError, SandboxError, UsageError
from statediff.packs import find_sandbox, read_pack, sandbox_of
from statediff.systems.base.protocol import Offered
from statediff.systems.base.sandbox import EmbeddedSandbox
from tests.integrations.conftest import options
from tests.own_sandboxes import (
    CONTRACT,
    KINDS,
    RENAMED,
    make_project,
    project_tests,
    through_the_commands,
)

__all__ = ["options"]
pytest_plugins = "pytester"
kinds = pytest.mark.parametrize("kind", KINDS)


def test_a_sandbox_has_the_schema_of_a_draft(tmp_path: Path, statediff: Any) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "app.db")) as db:
        db.execute("CREATE TABLE visit (id INTEGER PRIMARY KEY, user_id INTEGER)")
        db.commit()
    act = "import os,sqlite3; db = sqlite3.connect(os.environ['STATEDIFF_DB_URL'][10:]);"
    (tmp_path / "act.py").write_text(
        f"{act} db.execute('INSERT INTO visit VALUES (7, 3)'); db.commit()"
    )
    command = f"{sys.executable} {tmp_path / 'act.py'}"
    assert statediff("sandbox", "init", "app", "db=app.db", "--schema", "none").code == 2
    drafted = statediff("watch", "--state", "db=app.db", "--draft", "d", "--", *command.split())
    assert drafted.code == 0, drafted.err
    with contextlib.closing(sqlite3.connect(tmp_path / "app.db")) as db:
        db.execute("DELETE FROM visit")
        db.commit()
    made = statediff("sandbox", "init", "app", "db=app.db", "--schema", "d/schema.yaml")
    assert made.code == 0, made.err
    contract = tmp_path / "d" / "contract.yaml"
    contract.write_text(contract.read_text().replace("reviewed: false", "sandbox: app"))
    assert statediff("run", "d", "--agent-cmd", command).code == 0


@pytest.mark.slow
@kinds
def test_each_door_opens_a_sandbox_of_each_kind(
    kind: str, tmp_path: Path, statediff: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_project(tmp_path, kind)
    through_the_commands(statediff, tmp_path, KINDS[kind].call, monkeypatch)
    monkeypatch.chdir(tmp_path)
    with api.open_sandbox("app") as sandbox:
        with recording(clock) as recorder:
            name, arguments = KINDS[kind].call
            reply = tool_table(sandbox.access().urls, recorder).call(name, arguments)
        assert not reply.is_error, reply.text
        assert sandbox.verify(clock).drift
        sandbox.reset()
        assert sandbox.verify(clock).ok


@pytest.mark.slow
def test_pytest_opens_a_sandbox_of_each_kind(
    pytester: pytest.Pytester, options: tuple[str, ...]
) -> None:
    for kind in KINDS:
        make_project(pytester.path / kind, kind)
    pytester.makepyfile(project_tests([f"{kind}/contract.yaml" for kind in KINDS]))
    result = pytester.runpytest_inprocess(*options, "-k", "test_it")
    result.assert_outcomes(passed=len(KINDS))


@pytest.mark.slow
def test_a_cluster_opens_one_of_each_kind_and_an_external_one_is_not_shared(
    tmp_path: Path, statediff: Any
) -> None:
    pytest.importorskip("distributed")
    for kind in KINDS:
        make_project(tmp_path / kind, kind)
    shared = sorted(KINDS.keys() - {"external"})
    done = statediff("run", *shared, "--agent", "right", "--json", "--scheduler", "local")
    ended = [line["verdict"] for line in done.lines if "verdict" in line]
    assert ended == ["MATCH"] * len(shared), done.out + done.err
    done = statediff("run", "external", "--agent", "right", "-k", "2", "--json", "-j", "2")
    assert [line["verdict"] for line in done.lines if "verdict" in line] == ["MATCH"] * 2
    refused = statediff("run", "external", "--agent", "right", "--scheduler", "local")
    assert refused.code == 2
    assert "without --scheduler" in refused.err


def test_a_draft_is_made_of_one(tmp_path: Path, statediff: Any) -> None:
    make_project(tmp_path, "dump")
    drafted = statediff("init", "app", "--out", "drafted")
    assert drafted.code == 0, drafted.err
    assert "sandbox: app" in (tmp_path / "drafted" / "contract.yaml").read_text()


# ---------------------------------------------------------------- external systems


def external(folder: Path, reset: str, **more: str) -> EmbeddedSandbox:
    make_project(folder, "external")
    described = {"kind": "external", "url": "live.sqlite", "reset": reset, **more}
    path = folder / "sandboxes" / "app" / "sandbox.yaml"
    path.write_text(json.dumps({"sources": {"db": described}}))
    return EmbeddedSandbox(read_pack(path), folder / "work")


def script(text: str) -> str:
    return shlex.join([sys.executable, "-c", text])


PARTLY = script(
    "import os, shutil\nif not os.path.exists('live.sqlite'): "
    "shutil.copyfile('base.sqlite', 'live.sqlite')"
)


def test_a_reset_that_does_not_restore_is_drift_with_a_name_and_no_trial_begins(
    tmp_path: Path, statediff: Any
) -> None:
    with external(tmp_path, PARTLY) as sandbox:
        assert sandbox.verify(clock).ok
        place = sandbox.access().urls["db"].removeprefix("sqlite:///")
        with sqlite3.connect(place) as connection:
            connection.execute("UPDATE tasks SET title = 'x' WHERE id = 2")
        connection.close()
        sandbox.reset()
        [drift] = sandbox.verify(clock).drift
        assert (drift.source, drift.what) == ("db", "tasks")
        assert "2 changed" in drift.found
    done = statediff("run", ".", "--agent", "right", "-k", "2", "-j", "1", "--retries", "0")
    assert done.code == 4, done.out
    assert "tasks" in done.out + done.err


def test_the_base_of_another_day_is_found_by_its_pin(tmp_path: Path, statediff: Any) -> None:
    sandbox = external(tmp_path, PARTLY, base="base.json")
    assert statediff("sandbox", "pin", "app").code == 0
    with sandbox:
        assert sandbox.verify(clock).ok
    with sqlite3.connect(tmp_path / "sandboxes" / "app" / "live.sqlite") as connection:
        connection.execute("DELETE FROM tasks")
    connection.close()
    with pytest.raises(SandboxError, match=r"does not bring back the base.*db\.tasks"), sandbox:
        pass


@pytest.mark.parametrize(
    ("reset", "more", "message"),
    [
        (script("import sys; sys.exit('no disk')"), {}, "exit code 1: no disk"),
        ("./not-there", {}, "cannot be started"),
        ("'", {}, "cannot be split"),
        (script("import time; time.sleep(60)"), {"timeout": "300ms"}, "took more than 0.3 s"),
        (script("0"), {"url": "nowhere.sqlite"}, "nothing is at"),
        (script("0"), {"url": "postgresql://localhost:1/app"}, "cannot be reached"),
    ],
)
def test_what_fails_in_an_external_system_is_named(
    tmp_path: Path, reset: str, more: dict[str, str], message: str
) -> None:
    with pytest.raises(SandboxError, match=message), external(tmp_path, reset, **more):
        pass


def test_it_is_used_by_one_at_a_time_and_ends_with_down(tmp_path: Path) -> None:
    down = script("open('ended', 'w')")
    with (
        external(tmp_path, PARTLY, down=down) as sandbox,
        pytest.raises(SandboxError, match="one trial at a time"),
        EmbeddedSandbox(sandbox.pack, tmp_path / "other"),
    ):
        pass
    assert (tmp_path / "sandboxes" / "app" / "ended").exists()


def test_ctrl_c_in_a_command_ends_it_and_the_system(tmp_path: Path) -> None:
    make_project(tmp_path, "external")
    folder = tmp_path / "sandboxes" / "app"
    down = script("open('ended', 'w')")
    described = {"kind": "external", "url": "live.sqlite", "down": down}
    described["reset"] = script(
        "import os, time; open('begun', 'w').write(str(os.getpid())); time.sleep(60)"
    )
    (folder / "sandbox.yaml").write_text(json.dumps({"sources": {"db": described}}))
    process = subprocess.Popen(
        [sys.executable, "-m", "statediff", "sandbox", "up", "app"], cwd=tmp_path,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + 30
    while not (folder / "begun").exists() or not (folder / "begun").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    assert (folder / "ended").exists()
    with pytest.raises(ProcessLookupError):
        os.kill(int((folder / "begun").read_text()), 0)


# ---------------------------------------------------------------- names, files, tools


def test_a_path_and_a_file_without_a_folder_name_one_too(tmp_path: Path, statediff: Any) -> None:
    contract = make_project(tmp_path, "dump")
    folder = tmp_path / "sandboxes"
    (folder / "app" / "sandbox.yaml").rename(folder / "other.sandbox.yaml")
    text = (folder / "other.sandbox.yaml").read_text().replace("app.sql", "app/app.sql")
    (folder / "other.sandbox.yaml").write_text(text)
    for named in ("other", "./sandboxes/other.sandbox.yaml"):
        contract.write_text(contract.read_text().replace("sandbox: app", f"sandbox: {named}"))
        assert statediff("check", "contract.yaml").code == 0
        contract.write_text(contract.read_text().replace(f"sandbox: {named}", "sandbox: app"))
    refused = statediff("run", ".", "--agent", "right")
    assert "contract.yaml:5:10" in refused.err
    known = re.search(r"no sandbox 'app'; there are: (.*)", refused.err)
    assert known
    assert {"accounts", "other", "shop"} <= set(known[1].split(", "))


def test_a_projects_name_goes_before_a_shipped_one_but_not_for_shipped_contracts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statediff: Any
) -> None:
    contract = make_project(tmp_path, "dump")
    shutil.copytree(tmp_path / "sandboxes" / "app", tmp_path / "sandboxes" / "shop")
    contract.write_text(contract.read_text().replace("sandbox: app", "sandbox: shop"))
    done = statediff("run", ".", "--agent", "right")
    assert done.code == 0, done.err
    assert "sandboxes/shop/sandbox.yaml, not the one that comes with statediff" in done.err
    (tmp_path / "deeper").mkdir()
    monkeypatch.chdir(tmp_path / "deeper")
    assert find_sandbox("shop") == str(tmp_path / "sandboxes" / "shop" / "sandbox.yaml")
    shipped = api.load_contract("shop/refund-returned-order")
    assert sandbox_of(shipped) == "shop"


def test_agents_are_offered_the_tools_that_the_file_names(tmp_path: Path) -> None:
    make_project(tmp_path, "dump")
    path = tmp_path / "sandboxes" / "app" / "sandbox.yaml"
    path.write_text("sources:\n  db: {kind: sqlite, dump: app.sql, tools: [query]}\n")
    with EmbeddedSandbox(read_pack(path), tmp_path / "work") as sandbox:
        access = sandbox.access()
        with recording(clock) as recorder:
            table = tool_table(access.urls, recorder, offered=access.tools)
            assert set(table.tools) == {"db_query"}
            with pytest.raises(UsageError, match="no tool 'qeury'; there are: query, execute"):
                tool_table(access.urls, recorder, offered=Offered({"db": ("qeury",)}))


@pytest.mark.parametrize(
    ("source", "place", "message"),
    [
        ("{kind: sqlite, fiel: app.sqlite}", "2:22", "did you mean `file`"),
        ("{kind: sqlit, file: app.sqlite}", "2:14", "did you mean `sqlite`"),
        ("{kind: sqlite, file: a.sqlite}", "2:28", "which is not there"),
        ("{kind: sqlite, file: 3}", "2:28", "the path of a file or folder"),
        ("{kind: sqlite, file: app.sqlite, dump: app.sql}", "2:46", "made of one of"),
        ("{kind: external, url: live.sqlite}", "2:14", "needs `reset`"),
        ("{kind: postgres, url: 'postgresql://localhost'}", "2:29", "with its name"),
    ],
)
def test_what_is_wrong_with_the_file_is_named_at_its_place(
    tmp_path: Path, source: str, place: str, message: str
) -> None:
    make_project(tmp_path, "dump")
    path = tmp_path / "sandboxes" / "app" / "sandbox.yaml"
    path.write_text(f"sources:\n  db: {source}\n")
    with (
        pytest.raises(ContractError, match=f"{place}.*{message}"),
        EmbeddedSandbox(read_pack(path), tmp_path / "work"),
    ):
        pass


def test_four_commands_make_a_contract_from_two_folders_of_csv(
    tmp_path: Path, statediff: Any
) -> None:
    """`init`, `watch --contract`, `mutate` and `run`; nothing but the contract is edited."""
    for folder, title in (("now", "Water"), ("right", "Done")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "tasks.csv").write_text(f"id,title,owner\n1,{title},1\n2,B,1\n")
    agent = tmp_path / "agent.py"
    agent.write_text(
        "import os, sys\nurl = os.environ['STATEDIFF_DB_URL']\nwrong = 'wrong' in sys.argv\n"
        + KINDS["tables"].act
    )
    states = ("db=tables://now", "--after", "db=tables://right")
    drafted = statediff("init", *states, "--sandbox", "--out", "task")
    assert drafted.code == 0, drafted.err
    contract = tmp_path / "task" / "contract.yaml"
    contract.write_text(contract.read_text().replace("reviewed: false", "# read"))
    program = [sys.executable, str(agent)]
    watched = statediff("watch", "--state", "db=tables://now", "--contract", "task", "--", *program)
    assert watched.code == 0, watched.out + watched.err
    right, wrong = shlex.join(program), shlex.join([*program, "wrong"])
    mutated = statediff("mutate", "task", "--agent-cmd", right)
    assert mutated.code == 0, mutated.out + mutated.err
    done = statediff("run", "task", "--agent-cmd", right, "--agent-cmd", wrong, "--json")
    ended = [line["verdict"] for line in done.lines if "verdict" in line]
    assert ended == ["MATCH", "DIVERGE"], done.out + done.err


def test_lint_knows_a_server_that_it_does_not_ask_by_its_schema_file(
    tmp_path: Path, statediff: Any
) -> None:
    server = "{kind: postgres, url: 'postgresql://ada@127.0.0.1:1/x', schema: schema.yaml}"
    (tmp_path / "sandbox.yaml").write_text(f"sources:\n  db: {server}\n")
    entities = "{task: {table: tasks, fields: {title: {}}}}"
    (tmp_path / "schema.yaml").write_text(f"schema: s\nversion: 1.0.0\nentities: {entities}\n")
    text = CONTRACT.format(name="x", require=RENAMED)
    text = text.replace("sandbox: app", "sandbox: ./sandbox.yaml")
    (tmp_path / "contract.yaml").write_text(text)
    wrong = statediff("check", "contract.yaml")
    assert (wrong.code, "unknown entity type `tasks`" in wrong.out) == (2, True), wrong.out
    (tmp_path / "contract.yaml").write_text(text.replace("update: tasks", "update: task"))
    assert "types and expressions; give --before" in statediff("check", "contract.yaml").out


def test_sandbox_init_finds_what_is_in_the_folder(tmp_path: Path, statediff: Any) -> None:
    with sqlite3.connect(tmp_path / "my app.sqlite") as connection:
        connection.execute("CREATE TABLE t (a)")
    connection.close()
    (tmp_path / "seed.sql").write_text("CREATE TABLE u (a);")
    pygit2.init_repository(str(tmp_path))
    assert statediff("sandbox", "init", "app").code == 0
    pack = read_pack(tmp_path / "sandboxes" / "app")
    kinds = {source.name: (source.kind, *source.files) for source in pack.sources}
    assert kinds == {
        "my-app": ("sqlite", "file"),
        "seed": ("sqlite", "dump"),
        "repo": ("git-checkout", "repository"),
    }
    again = statediff("sandbox", "init", "app")
    assert (again.code, "exists already" in again.err) == (2, True)
    alone = statediff("sandbox", "init", "x", "db=my app.sqlite", "--up", "./start")
    assert "--up and --down go with --reset" in alone.err


def test_the_drafts_of_a_repository_go_together(
    tmp_path: Path, statediff: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, ports in (("before", [80]), ("after", [80, 8080])):
        repository = pygit2.init_repository(str(tmp_path / name))
        for at, port in enumerate(ports):
            commit_port(repository, port, at)
    made = statediff(
        *("init", "repo=before", "--after", "repo=after", "--sandbox", "--name", "x/port"),
        *("--out", "task"),
    )
    assert made.code == 0, made.err
    assert statediff("check", "task").code == 0
    agent = tmp_path / "agent.py"
    agent.write_text(
        "import os, shutil\nto = os.environ['STATEDIFF_REPO_URL'].removeprefix('file://')\n"
        f"shutil.copytree({str(tmp_path / 'after')!r} + '/.git/objects', to + '/.git/objects',\n"
        "    dirs_exist_ok=True)\n"
        f"import pygit2\nof = pygit2.Repository({str(tmp_path / 'after')!r})\n"
        "pygit2.Repository(to).reset(of.head.target, pygit2.enums.ResetMode.HARD)\n"
    )
    run = statediff(
        *("run", "task", "--allow-unreviewed", "--agent-cmd", f"{sys.executable} {agent}"),
        *("--isolation", "none"),
    )
    assert (run.code, "MATCH" in run.out) == (0, True), run.out + run.err
    wrong = tmp_path / "task" / "sandbox.yaml"
    wrong.write_text("sources:\n  repo: {kind: files, tree: ../before, types: git}\n")
    refused = statediff("run", "task", "--allow-unreviewed", "--agent-cmd", "true")
    assert (refused.code, "takes no 'types'" in refused.err) == (2, True), refused.err


def commit_port(repository: pygit2.Repository, port: int, at: int) -> None:
    place = Path(repository.workdir) / "app.yml"
    place.write_text(f"port: {port}\n")
    repository.index.add("app.yml")
    repository.index.write()
    who = pygit2.Signature("A", "a@x.example", 1_700_000_000 + at, 0)
    parents = [] if repository.is_empty else [repository.head.target]
    repository.create_commit("HEAD", who, who, "port", repository.index.write_tree(), parents)


@pytest.mark.parametrize("left", ["id,title,owner\n1,Done", None])
def test_tables_that_a_run_made_unreadable_are_a_change(tmp_path: Path, left: str | None) -> None:
    def agent(trial: Any) -> None:
        folder = Path(trial.urls["db"].removeprefix("file://"))
        if left is None:
            shutil.rmtree(folder)
        else:
            (folder / "tasks.csv").write_text(left)

    contract = make_project(tmp_path, "tables")
    with api.open_sandbox(str(tmp_path / "sandboxes" / "app")) as sandbox:
        [judged] = api.run(contract, agent, sandbox=sandbox)
    assert judged.verdict.value == "DIVERGE", judged.line


@kinds
def test_a_fork_of_each_kind_begins_where_it_was_and_goes_its_own_way(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_project(tmp_path, kind)
    monkeypatch.chdir(tmp_path)
    pack = read_pack(tmp_path / "sandboxes" / "app" / "sandbox.yaml")
    with EmbeddedSandbox(pack, tmp_path / "one") as one:
        with recording(clock) as recorder:
            name, arguments = KINDS[kind].call
            tool_table(one.access().urls, recorder).call(name, arguments)
        if pack.is_single or kind == "mail":
            with pytest.raises(SandboxError, match="db cannot be forked"):
                one.keep(tmp_path / "kept")
            return
        one.keep(tmp_path / "kept")
        with EmbeddedSandbox(pack, tmp_path / "two", tmp_path / "kept") as two:
            now = states(captured(one.sources()))
            assert states(captured(two.sources())) == now
            assert two.verify(clock).ok
            one.reset()
            assert states(captured(one.sources())) != now
            two.reset()
            assert states(captured(two.sources())) == now


@pytest.mark.slow
def test_a_fork_has_a_name_an_address_and_an_end_of_its_own(tmp_path: Path) -> None:
    make_project(tmp_path, "file")

    def ask(*words: str) -> str:
        command = [sys.executable, "-m", "statediff", "sandbox", *words]
        done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
        return f"{done.returncode} {done.stdout}{done.stderr}"

    try:
        assert ask("up", "app", "--detach").startswith("0 ")
        place = tmp_path / ".statediff/sandboxes/app/work/systems/db/db.sqlite"
        with contextlib.closing(sqlite3.connect(place)) as agent, agent:
            agent.execute("DELETE FROM tasks")
        left = place.parents[4] / f".half.{'0' * 32}"
        shutil.copytree(place.parent, left)  # of a fork that was killed
        for fork in ("half", f"half.{'1' * 32}"):
            assert f"4 error: {fork}: nothing was kept" in ask("up", "app", "--fork", fork)
        assert "sandboxes/half/work" in ask("fork", "app", "half")
        assert not left.exists()
        assert "half is up already" in ask("fork", "app", "half")
        assert "expected a name" in ask("fork", "app", "../half")
        assert ask("down", "app") == "0 app is down\n"
        assert ask("verify", "half").startswith("0 ")
        left.with_name(f".app.{'0' * 32}").mkdir()
        assert ask("up", "app", "--seconds", "0").startswith("0 ")
        assert "app is not up here" in ask("fork", "app", "other")
    finally:
        ask("down", "app")
        ask("down", "half")
    assert not any((tmp_path / ".statediff/sandboxes").iterdir())
