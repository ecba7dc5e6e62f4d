"""`watch`: a program of the caller's on states of the caller's."""

from __future__ import annotations

import csv
import json
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from statediff.agents.isolation import NONE, isolation
from tests.cli.conftest import PROGRAM, Call, environment
from tests.cli.test_trials import wait_for
from tests.workspace.test_watching import CONTRACT

AGENT = """
import os, sqlite3, sys
with sqlite3.connect("app.sqlite") as connection:
    connection.execute(sys.argv[1])
print("from the agent", os.environ.get("STATEDIFF_TASK"))
sys.exit(int(sys.argv[2]))
"""
PROMOTE = "UPDATE user SET role = 'admin' WHERE id = 2"
RENAME = "UPDATE user SET name = 'Robert' WHERE id = 2"


@pytest.fixture(autouse=True)
def application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with closing(sqlite3.connect("app.sqlite")) as connection:
        connection.executescript(
            "CREATE TABLE user(id INTEGER PRIMARY KEY, name TEXT, role TEXT);"
            "INSERT INTO user VALUES (1, 'Ada', 'admin'), (2, 'Bob', 'user');"
        )
    Path("agent.py").write_text(AGENT)
    Path("contract.yaml").write_text(CONTRACT)
    return tmp_path


def watch(call: Call, *options: str, statement: str = RENAME, code: int = 0):
    program = (sys.executable, "agent.py", statement, str(code))
    return call("watch", "--state", "db=app.sqlite", "--settle", "0", *options, "--", *program)


def test_it_shows_what_the_program_changed_and_not_its_exit_code(statediff: Call) -> None:
    done = watch(statediff, code=3)
    assert done.code == 0
    assert "Robert" in done.out
    assert "from the agent" not in done.out
    assert "from the agent" in done.err
    assert "the program ended with exit code 3" in done.err


def test_the_program_finds_each_state_at_the_url_that_a_sandbox_would_give(
    statediff: Call, application: Path
) -> None:
    (application / "out").mkdir()
    where = f"u=sqlite:///{application}/app.sqlite"
    states = ("--state", "db=app.sqlite", "--state", "files=out", "--state", where)
    done = statediff("watch", *states, "--settle", "0", "--", "env")
    found = dict(line.split("=", 1) for line in done.err.splitlines() if "_URL=" in line)
    assert (
        found["STATEDIFF_DB_URL"]
        == found["STATEDIFF_U_URL"]
        == f"sqlite:///{application}/app.sqlite"
    )
    assert found["STATEDIFF_FILES_URL"] == (application / "out").as_uri()


@pytest.mark.parametrize(
    ("statement", "code"),
    [(RENAME, 0), ("UPDATE user SET name = 'Robert'", 1), ("SELECT 1", 1)],
)
def test_under_a_contract_its_exit_code_is_that_of_the_verdict(
    statediff: Call, statement: str, code: int
) -> None:
    done = watch(statediff, "--contract", "contract.yaml", statement=statement, code=0)
    assert done.code == code
    bundle = next(line for line in done.out.splitlines() if line.startswith("bundle: "))
    folder = bundle.removeprefix("bundle: ")
    assert statediff("replay", folder).code == code
    assert '"agent.py"' in Path(folder, "trial.json").read_text()


@pytest.mark.parametrize("options", [(), ("--isolate",)])
def test_a_program_is_isolated_only_where_that_is_asked_for(
    statediff: Call, application: Path, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    if isolation() == NONE:
        pytest.skip("this machine isolates nothing")
    monkeypatch.setenv("PGPASSWORD", "the evaluator's")
    folder = application / "elsewhere"
    folder.mkdir()
    elsewhere = folder / "file"
    Path("state").mkdir()
    Path("app.sqlite").rename("state/app.sqlite")
    Path("agent.py").write_text(
        f"import os, pathlib, sqlite3\nprint('password', os.environ.get('PGPASSWORD'))\n"
        f"db = sqlite3.connect('state/app.sqlite')\ndb.execute({RENAME!r})\ndb.commit()\n"
        f"try: pathlib.Path({str(elsewhere)!r}).write_text('x')\nexcept OSError: pass\n"
    )
    done = statediff(
        *("watch", "--state", "db=state/app.sqlite", "--settle", "0", *options),
        *("--", sys.executable, "agent.py"),
    )
    assert (done.code, "Robert" in done.out) == (0, True)
    assert elsewhere.exists() is not bool(options)
    assert f"password {None if options else 'the evaluator'}" in done.err
    monkeypatch.setenv("STATEDIFF_ISOLATION", "none")
    assert statediff("watch", "--state", "db=state/app.sqlite", "--isolate", "--", "true").code == 2


def test_what_cannot_start_is_no_verdict(statediff: Call) -> None:
    done = statediff("watch", "--state", "db=app.sqlite", "--", "no-such-program")
    assert done.code == 4
    assert "there is no such program" in done.err
    assert statediff("watch", "--state", "db=app.sqlite", "--").code == 2


def test_a_draft_of_the_run_matches_the_run_that_is_made_again(statediff: Call) -> None:
    base = Path("app.sqlite").read_bytes()
    assert watch(statediff, "--draft", "drafts").code == 0
    assert statediff("check", "drafts").code == 0
    Path("app.sqlite").write_bytes(base)
    assert watch(statediff, "--contract", "drafts").code == 0
    Path("app.sqlite").write_bytes(base)
    wrong = "UPDATE user SET name = 'Robert', role = 'admin' WHERE id = 2"
    assert watch(statediff, "--contract", "drafts", statement=wrong).code == 1
    again = watch(statediff, "--draft", "drafts")
    assert again.code == 2
    assert "nothing is overwritten" in again.err


def test_json_holds_the_changes_and_how_the_program_ended(statediff: Call) -> None:
    done = watch(statediff, "--json", code=7)
    found = json.loads(done.out)
    assert [delta["path"] for delta in found["deltas"]] == ["name"]
    assert found["program"]["exit_code"] == 7
    assert found["other_sessions"] == []


def test_the_answer_that_the_program_leaves_is_judged(statediff: Call) -> None:
    body = CONTRACT + "answer:\n  fields:\n    name: {type: text, is: '\"Robert\"'}\n"
    Path("contract.yaml").write_text(body)
    Path("said.json").write_text('{"name": "Bob"}')
    done = watch(statediff, "--contract", "contract.yaml", "--answer", "said.json")
    assert done.code in (1, 2), done.err


def test_a_program_that_does_not_end_is_ended(statediff: Call) -> None:
    program = (sys.executable, "-c", "import time; time.sleep(60)")
    options = ("--state", "db=app.sqlite", "--settle", "0", "--timeout", "0.5")
    done = statediff("watch", *options, "--", *program)
    assert done.code == 0
    assert "did not end within 0.5 s" in done.err


def test_the_schema_beside_a_contract_is_used(statediff: Call) -> None:
    Path("schema.yaml").write_text(
        "schema: app\nversion: 1.0.0\nentities:\n  person: {table: user, source: db}\n"
    )
    Path("contract.yaml").write_text(CONTRACT.replace("update: user", "update: person"))
    assert statediff("check", "contract.yaml").code == 0
    assert watch(statediff, "--contract", "contract.yaml").code == 0


def test_a_file_that_is_no_program_is_not_called_missing(statediff: Call) -> None:
    done = statediff("watch", "--state", "db=app.sqlite", "--", "./agent.py")
    assert done.code == 4
    assert "this file cannot be executed" in done.err
    assert "-- python ./agent.py" in done.err
    Path("agent.sh").write_text("#!/bin/sh\n")
    assert "-- sh ./agent.sh" in statediff("watch", "--state", "app.sqlite", "--", "./agent.sh").err
    run = statediff("run", "shop/refund-returned-order", "--agent-cmd", "./agent.sh")
    assert run.code == 2
    assert "cannot be executed; name what runs it, e.g. sh " in run.err


def test_a_state_is_called_what_the_schema_of_the_contract_calls_it(statediff: Call) -> None:
    assert watch(statediff, "--draft", "drafted").code == 0
    program = (sys.executable, "agent.py", RENAME, "0")
    done = statediff("watch", "--state", "data=app.sqlite", "--contract", "drafted", "--", *program)
    assert done.code == 2
    wanted = "drafted/schema.yaml describes db, but the state is called data; the two names must"
    assert wanted in done.err
    assert statediff("init", "db=app.sqlite", "--sandbox", "--out", "task").code == 0
    done = statediff("watch", "--state", "data=app.sqlite", "--contract", "task", "--", *program)
    assert done.code == 2
    assert "the sandbox task describes db, but the state is called data" in done.err


SEEN = {
    "empty": ([], [{"id": 1, "customer_id": 1, "at": "2026-03-01T10:00:00Z", "active": 0}]),
    "null": (
        [{"id": 1, "customer_id": None, "at": None, "active": None}],
        [{"id": 1, "customer_id": 1, "at": "2026-03-01T10:00:00Z", "active": 1}],
    ),
    "keyless": (
        [],
        [{"ticketId": "a", "total": "1.50", "open": True}, {"ticketId": "b", "total": "2.25"}],
    ),
}
"""The tickets before and after a run: nothing says what they are until the run has shown it."""
KINDS = {
    **dict.fromkeys(("name", "at", "ticketId", "total"), "TEXT"),
    **dict.fromkeys(("id", "customer_id", "active", "open"), "INTEGER"),
}


def write_state(
    folder: str, form: str, tickets: list[dict[str, Any]], every: list[dict[str, Any]]
) -> str:
    """Writes the state into the folder and returns its path."""
    names = list(dict.fromkeys(name for each in every for name in each))
    tables = {"customer": [{"id": 1, "name": "Ada"}], "ticket": tickets}
    columns = {"customer": ["id", "name"], "ticket": names}
    Path(folder).mkdir()
    if form == "json":
        Path(folder, "desk.json").write_text(json.dumps(tables))
        return f"{folder}/desk.json"
    if form == "csv":
        for table, rows in tables.items():
            with Path(folder, f"{table}.csv").open("w", newline="") as file:
                writer = csv.DictWriter(file, columns[table])
                writer.writeheader()
                writer.writerows(rows)
        return f"tables://{folder}"
    with closing(sqlite3.connect(f"{folder}/desk.sqlite")) as db:
        for table, rows in tables.items():
            db.execute(
                f"CREATE TABLE {table}({', '.join(f'{n} {KINDS[n]}' for n in columns[table])})"
            )
            for row in rows:
                values = [row.get(name) for name in columns[table]]
                db.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})", values)
        db.commit()
    return f"{folder}/desk.sqlite"


@pytest.mark.parametrize("seen", sorted(SEEN))
@pytest.mark.parametrize("form", ["sqlite", "json", "csv"])
def test_a_draft_is_inferred_from_what_the_run_showed_as_init_infers_it_from_both_states(
    statediff: Call, form: str, seen: str
) -> None:
    before, after = SEEN[seen]
    state = write_state("now", form, before, after)
    ended = write_state("ended", form, after, after)
    shutil.copytree("now", "begun")
    init = ("init", f"db={state.replace('now', 'begun')}", "--after", f"db={ended}")
    assert statediff(*init, "--name", "drafts/it", "--out", "it").code == 0
    Path("it").rename("inited")
    run = ("--settle", "0", "--", "cp", "-r", "ended/.", "now")
    done = statediff("watch", "--state", f"db={state}", "--draft", "it", *run)
    assert done.code == 0, done.err
    drafted, inited = ({f.name: f.read_text() for f in Path(n).iterdir()} for n in ("it", "inited"))
    assert drafted == inited
    shutil.rmtree("now")
    shutil.copytree("begun", "now")
    judged = statediff("watch", "--state", f"db={state}", "--contract", "it", *run)
    assert judged.code == 0, judged.out + judged.err


@pytest.mark.parametrize("seen", sorted(SEEN))
@pytest.mark.parametrize("form", ["sqlite", "json", "csv"])
def test_a_watched_run_changed_what_its_two_states_differ_in(
    statediff: Call, form: str, seen: str
) -> None:
    before, after = SEEN[seen]
    state = write_state("now", form, before, after)
    ended = write_state("ended", form, after, after)
    differ = statediff("diff", "--before", f"db={state}", "--after", f"db={ended}", "--json")
    run = ("--json", "--settle", "0", "--", "cp", "-r", "ended/.", "now")
    done = statediff("watch", "--state", f"db={state}", *run)
    assert done.code == 0, done.err
    assert plain_changes(done.out) == plain_changes(differ.out) != []


def plain_changes(text: str) -> list[dict[str, Any]]:
    """The deltas, without the evidence that they cite."""
    return [{**each, "evidence": None} for each in json.loads(text)["deltas"]]


def place_of(kind: str, rows: bool) -> str:
    """A state of that kind, with a table or without one."""
    if kind == "sqlite":
        with closing(sqlite3.connect("place.sqlite")) as db:
            db.executescript("CREATE TABLE user(id INTEGER PRIMARY KEY)" if rows else "")
        return "place.sqlite"
    if kind == "json":
        Path("place.json").write_text('{"user": []}' if rows else "{}")
        return "place.json"
    Path("place").mkdir()
    if rows:
        Path("place/user.csv").write_text("id\n1\n")
    return "tables://place" if kind == "csv" else "place"


@pytest.mark.parametrize("command", ["watch", "draft", "capture", "diff", "judge", "init"])
@pytest.mark.parametrize(
    ("kind", "is_empty"),
    [("sqlite", True), ("json", True), ("csv", True), ("folder", False)]
    + [(kind, False) for kind in ("sqlite", "json", "csv")],
)
def test_a_state_in_which_nothing_can_be_is_remarked_on_and_no_error(
    statediff: Call, command: str, kind: str, is_empty: bool
) -> None:
    place = place_of(kind, rows=not is_empty)
    Path("any.yaml").write_text(
        "contract: a/b\nversion: 1.0.0\nowner: desk\nintent: Nothing happens at all.\nnoop: true\n"
        "frame: {open: it is not about that}\nrequire:\n  - that: 1 == 1\n"
    )
    pair = ("--before", f"db={place}", "--after", f"db={place}")
    done = statediff(
        *{
            "watch": ("watch", "--state", f"db={place}", "--settle", "0", "--", "true"),
            "draft": ("watch", "--state", f"db={place}", "--draft", "d", "--", "true"),
            "capture": ("capture", f"db={place}"),
            "diff": ("diff", *pair),
            "judge": ("judge", "any.yaml", *pair),
            "init": ("init", f"db={place}", "--out", "d"),
        }[command]
    )
    assert done.code == 0, done.err
    note = f"note: {place.removeprefix('tables://')} shows no table"
    assert (note in done.err) is is_empty


def test_a_second_run_over_what_the_first_left_is_told_why_nothing_matches(
    statediff: Call,
) -> None:
    shutil.copyfile("app.sqlite", "before.sqlite")
    assert watch(statediff, "--contract", "contract.yaml").code == 0
    again = watch(statediff, "--contract", "contract.yaml")
    note = "asks for a change that was there before the run (user 2); put the state back"
    assert again.code == 1
    assert note in again.err
    judged = statediff(
        *("judge", "contract.yaml", "--before", "db=app.sqlite", "--after", "db=app.sqlite")
    )
    assert note in judged.err
    shutil.copyfile("before.sqlite", "app.sqlite")
    other = watch(statediff, "--contract", "contract.yaml", statement=PROMOTE)
    assert other.code == 1
    assert "there before the run" not in other.err


def test_a_source_of_evidence_that_no_state_is_called_as_is_remarked_on(statediff: Call) -> None:
    Path("other.yaml").write_text(CONTRACT + "evidence:\n  app: {}\n")
    note = "`evidence` names app, and no state is called so (there is db): write app=STATE"
    done = watch(statediff, "--contract", "other.yaml")
    assert (done.code, note in done.err) == (3, True)
    pair = ("--before", "db=app.sqlite", "--after", "db=app.sqlite")
    assert note in statediff("judge", "other.yaml", *pair).err
    assert "names" not in statediff("judge", "contract.yaml", *pair).err


@pytest.mark.parametrize("command", ["capture", "diff", "watch", "init"])
@pytest.mark.parametrize("others", [0, 1, 2])
def test_a_folder_of_tables_that_is_read_as_files_is_remarked_on(
    statediff: Call, command: str, others: int
) -> None:
    folder = Path("out put")
    folder.mkdir()
    for name in ("loans", "books"):
        (folder / f"{name}.csv").write_text("id,title\n1,Emma\n")
    for name in ("README.md", "notes.txt")[:others]:
        (folder / name).write_text("For the reader.\n")
    (folder / ".hidden").write_text("")
    done = statediff(
        *{
            "capture": ("capture", f"lib={folder}"),
            "diff": ("diff", "--before", f"lib={folder}", "--after", f"lib={folder}"),
            "watch": ("watch", "--state", f"lib={folder}", "--settle", "0", "--", "true"),
            "init": ("init", f"lib={folder}", "--out", "d"),
        }[command]
    )
    assert done.code == 0
    note = f"{folder} is read as a folder, and most of its files are tables; "
    assert done.err.count(f"note: {note}write lib=tables://{folder} to have") == (others < 2)
    tables = statediff("capture", f"lib=tables://{folder}")
    assert ("note:" in tables.err, "loans" in tables.out) == (False, True)


def test_ctrl_c_ends_the_program_and_says_what_stays() -> None:
    Path("slow.py").write_text(f"{AGENT.partition('print')[0]}\nimport time\ntime.sleep(60)\n")
    command = ("watch", "--state", "db=app.sqlite", "--", sys.executable, "slow.py", RENAME)
    with subprocess.Popen(
        [*PROGRAM, *command], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        wait_for(lambda: rows_of("app.sqlite")[1][1] == "Robert")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, b"")
    said = "the program was ended; what it changed stays, and nothing was judged\ninterrupted\n"
    assert err.decode() == said


def rows_of(path: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute("SELECT * FROM user ORDER BY id").fetchall()


def test_what_is_watched_is_an_option_and_a_draft_has_a_next_step(statediff: Call) -> None:
    for command in (("app.sqlite", "--", "true"), ("--", "true")):
        done = statediff("watch", *command)
        assert done.code == 2
        assert "add --state [NAME=]STATE" in done.err
    done = watch(statediff, "--draft", "drafted")
    assert "next: read drafted/contract.yaml, say what must change" in done.err


def test_a_draft_takes_further_runs_and_puts_the_system_back_between_them(
    statediff: Call,
) -> None:
    shutil.copyfile("app.sqlite", "base.sqlite")
    stamped = "ALTER TABLE user ADD COLUMN seen TEXT"
    with closing(sqlite3.connect("base.sqlite")) as connection:
        connection.execute(stamped)
    shutil.copyfile("base.sqlite", "app.sqlite")
    now = "strftime('%Y-%m-%dT%H:%M:%SZ', 'now')"
    right = f"UPDATE user SET name = 'Robert', seen = {now} WHERE id = 2"
    idle = f'{sys.executable} agent.py "UPDATE user SET seen = {now} WHERE id = 1" 0'
    further = ("-k", "2", "--reset", "cp base.sqlite app.sqlite", "--idle", idle)
    assert watch(statediff, "--draft", "task", *further, statement=right).code == 0
    text = Path("task/contract.yaml").read_text()
    assert "new.seen - run.start >= -2 and new.seen - run.end <= 2" in text
    assert "because: an idle run does it too" in text
    shutil.copyfile("base.sqlite", "app.sqlite")
    assert watch(statediff, "--contract", "task", statement=right).code == 0
    shutil.copyfile("base.sqlite", "app.sqlite")
    forged = right.replace(now, "'9999-01-01T00:00:00Z'")
    assert watch(statediff, "--contract", "task", statement=forged).code == 1


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--draft", "task"), 3, "the agent ended with exit code 3, so nothing was drafted"),
        (("--draft", "task", "-k", "2"), 0, "several runs take --reset COMMAND"),
        (("--draft", "task", "-k", "2", "--reset", "false"), 0, "--reset ended with exit code 1"),
        (("-k", "2"), 0, "go with --draft"),
    ],
)
def test_nothing_is_drafted_from_a_program_that_failed_or_over_what_was_not_put_back(
    statediff: Call, options: tuple[str, ...], code: int, said: str
) -> None:
    done = watch(statediff, *options, code=code)
    assert done.code == 2
    assert said in done.err
    assert not Path("task").exists()
