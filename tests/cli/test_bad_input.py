"""Mistakes of a person or a machine: a clear error, the right exit code, no traceback."""

import ctypes
import fcntl
import json
import os
import signal
import sqlite3
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from statediff.cli import main
from tests.cli.conftest import CONTRACT, JUDGE, PROGRAM, Call, Files, environment
from tests.cli.test_judge import database

STATES = {
    "not UTF-8": (b'{"ticket": [{"id": 7, "status": "\xff"}]}', "not UTF-8"),
    "duplicate key": (b'{"ticket": [{"id": 7, "id": 8}]}', "twice"),
    "duplicate id": (b'{"ticket": [{"id": 7}, {"id": 7}]}', "duplicate id 7"),
    "NaN": (b'{"ticket": [{"id": 7, "status": NaN}]}', "NaN"),
    "not JSON": (b'{"ticket": [', "not JSON"),
    "deep": (b'{"ticket": [{"id": 7, "status": ' + b"[" * 5000 + b"]" * 5000 + b"}]}", "nested"),
    "another shape": (b'{"ticket": {"id": 7}}', "ticket"),
    "empty": (b"", "the file is empty"),
}


@pytest.mark.parametrize("kind", STATES)
def test_a_state_before_that_is_no_state_is_named_with_exit_code_2(
    statediff: Call, files: Files, kind: str
) -> None:
    content, expected = STATES[kind]
    files.write("a.json", content)
    said = statediff(*JUDGE, "--json")
    assert said.code == 2, said.out
    error = said.json["error"]
    assert error["kind"] == "input"
    assert "a.json" in error["message"]
    assert expected in error["message"]
    assert not Path(files.folder, ".statediff").exists()


@pytest.mark.parametrize("kind", STATES)
def test_a_state_after_that_is_no_state_is_judged_and_never_matches(
    statediff: Call, files: Files, kind: str
) -> None:
    files.write("b.json", STATES[kind][0])
    said = statediff(*JUDGE, "--json")
    assert said.code in (1, 3), said.out
    assert said.json["verdict"] in ("DIVERGE", "INCONCLUSIVE")


CONTRACTS = {
    "unknown type": (CONTRACT.replace("update: ticket", "update: tikcet"), "tikcet", 10),
    "unknown field": (CONTRACT.replace("it.id", "it.idd"), "idd", 11),
    "unknown key": (CONTRACT.replace("where:", "wehre:"), "wehre", 11),
    "duplicate key": (CONTRACT + "owner: twice\n", "owner", 13),
    "type error": (CONTRACT.replace("== input.ticket", '== "seven"'), "", 11),
    "anchor": (CONTRACT.replace("owner: support", "owner: &a support"), "", 3),
    "directive": ("%YAML 1.1\n---\n" + CONTRACT, "", 1),
    "no clause": (CONTRACT.split("forbid:", maxsplit=1)[0], "no forbid", None),
    "null run": (CONTRACT.split("require:", maxsplit=1)[0], "would MATCH", 1),
    "not UTF-8": (b"contract: \xff\n", "UTF-8", None),
    "deep": ("[" * 5000 + "]" * 5000, "", None),
    "huge": ("#" * 400_000, "", None),
}


@pytest.mark.parametrize("kind", CONTRACTS)
def test_a_wrong_contract_is_named_with_line_and_column_and_exit_code_2(
    statediff: Call, files: Files, kind: str
) -> None:
    content, expected, line = CONTRACTS[kind]
    files.write("c.yaml", content)
    said = statediff(*JUDGE, "--json")
    assert said.code == 2, said.out
    error = said.json["error"]
    assert error["kind"] == "contract"
    assert expected in error["message"]
    first = error["problems"][0]
    assert set(first) == {"file", "line", "column", "message", "hint", "code"}
    assert first["file"] == "c.yaml"
    assert line in (None, first["line"])
    linted = statediff("check", "c.yaml", "--before", "a.json")
    assert linted.code == 2
    assert linted.out.startswith("c.yaml:")


@pytest.mark.parametrize(
    "arguments",
    [
        (), ("nonsense",), ("judge",), ("judge", "c.yaml"), ("diff", "--before", "a.json"),
        (*JUDGE, "--bogus"), ("judge", "nowhere.yaml", *JUDGE[2:]), ("judge", ".", *JUDGE[2:], "x"),
        ("judge", "c.yaml", "--before", "nowhere.json", "--after", "b.json"),
        (*JUDGE, "--answer", "nowhere.json"), (*JUDGE, "--trace", "nowhere.jsonl"),
        (*JUDGE, "--schema", "nowhere.yaml"), (*JUDGE, "--out", "a.json/x"),
        ("run", "c.yaml"), ("run", "c.yaml", "--agent", "careful"), ("run", "shop/nothing"),
        ("run", "shop/refund-returned-order", "--agent", "nobody"),
        ("run", "shop/refund-returned-order", "--agent-cmd", "no-such-program"),
        ("run", "shop/refund-returned-order", "--agent-cmd", "true", "--agent", "careful"),
        ("run", "shop/refund-returned-order", "--agent", "no_such_module:act"),
        ("run", "shop/refund-returned-order", "--agent-cmd", "true", "-k", "0"),
        ("sandbox",), ("sandbox", "verify", "shop"), ("sandbox", "up", "nothing"), ("schema", "x"),
        ("check", "empty"), ("show",), ("capture", "nowhere.db"),
        ("judge", "c\x00", *JUDGE[2:]), ("judge", "x" * 5000, *JUDGE[2:]),
    ],
)  # fmt: skip
def test_a_usage_error_is_one_message_and_exit_code_2(
    statediff: Call, files: Files, arguments: tuple[str, ...]
) -> None:
    Path(files.folder, "empty").mkdir()
    said = statediff(*arguments)
    assert said.code == 2, said.out + said.err
    assert said.out == ""
    assert said.err
    as_json = statediff(*arguments, "--json")
    assert as_json.code == 2
    if arguments:
        assert as_json.err == ""
        assert as_json.json["error"]["kind"] in ("usage", "input")


def test_a_wrong_answer_or_trace_file_is_named(statediff: Call, files: Files) -> None:
    files.write("answer.json", '{"a": 1, "a": 2}')
    said = statediff(*JUDGE, "--answer", "answer.json")
    assert said.code == 2
    assert "answer.json" in said.err
    files.write("trace.jsonl", '{"tool": "x", "started_at": "2026-01-01T00:00:00"}\n')
    said = statediff(*JUDGE, "--trace", "trace.jsonl")
    assert said.code == 2
    assert "has no zone" in said.err


# ---------------------------------------------------------------- databases

DATABASES = ("judge", "c.yaml", "--before", "a.db", "--after", "b.db", "--json")


@pytest.fixture
def databases(files: Files) -> Path:
    database(files.folder / "a.db", "open")
    database(files.folder / "b.db", "closed")
    return files.folder


def test_a_corrupt_database_after_is_a_change_that_nothing_explains(
    statediff: Call, databases: Path
) -> None:
    (databases / "b.db").write_bytes(b"this is no database at all" * 200)
    said = statediff(*DATABASES)
    assert said.code == 1, said.out
    (found,) = [f for f in said.json["findings"] if f["code"] == "unexplained-change"]
    assert found["deltas"] == ['source.db["the file is not a SQLite database"]']


def test_a_corrupt_database_before_leaves_it_inconclusive(statediff: Call, databases: Path) -> None:
    (databases / "a.db").write_bytes(b"this is no database at all" * 200)
    said = statediff(*DATABASES)
    assert said.code == 3, said.out


def test_two_corrupt_databases_are_an_error_with_exit_code_2(
    statediff: Call, databases: Path
) -> None:
    for name in ("a.db", "b.db"):
        (databases / name).write_bytes(b"this is no database at all" * 200)
    said = statediff(*DATABASES)
    assert said.code == 2
    assert "a.db and b.db: cannot be read as a database" in said.json["error"]["message"]


def test_a_locked_database_leaves_it_inconclusive(statediff: Call, databases: Path) -> None:
    with closing(sqlite3.connect(databases / "b.db", isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        said = statediff(*DATABASES)
    assert said.code == 3, said.out
    assert any("locked" in m for f in said.json["findings"] for m in f["missing"])


# ---------------------------------------------------------------- disks and pipes


@pytest.mark.usefixtures("files")
def test_a_folder_that_cannot_be_written_is_refused_before_judging(statediff: Call) -> None:
    said = statediff(*JUDGE, "--out", "/proc/nowhere/bundle")
    assert said.code == 2
    assert "cannot be written" in said.err


def test_a_full_disk_is_said_and_leaves_no_torn_bundle(statediff: Call, files: Files) -> None:
    said = statediff(*JUDGE, "--out", "small", "--json", limit_bytes=300)
    assert said.code == 4, said.out
    assert said.json["verdict"] == "MATCH"
    assert "could not be written" in said.json["not_kept"][0]
    assert sorted(p.name for p in files.folder.iterdir()) == ["a.json", "b.json", "c.yaml"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_output_is_said(files: Files) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*PROGRAM, *JUDGE, "--json"], cwd=files.folder, env=environment(), stdout=full,
            stderr=subprocess.PIPE, timeout=60, check=False,
        )  # fmt: skip
    assert done.returncode == 4
    assert b"Traceback" not in done.stderr


def test_a_reader_that_goes_away_is_no_error_to_talk_about(files: Files) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [*PROGRAM, *JUDGE], cwd=files.folder, env=environment(), stdout=write,
        stderr=subprocess.PIPE, timeout=60, check=False,
    )  # fmt: skip
    os.close(write)
    assert done.returncode == 141
    assert done.stderr == b""


def waiting(pipe: int) -> int:
    """How many bytes wait in the pipe."""
    return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0]


def test_ctrl_c_while_an_error_is_said_ends_quietly(tmp_path: Path) -> None:
    read, write = os.pipe()
    full = fcntl.fcntl(write, fcntl.F_GETPIPE_SZ)
    os.write(write, b"." * full)
    os.read(read, full // 2)  # a part of the message fits, the rest waits for a reader
    with subprocess.Popen(
        [*PROGRAM, "--" + "x" * full], cwd=tmp_path, env=environment(), stderr=write
    ) as process:
        os.close(write)
        deadline = time.monotonic() + 60
        while waiting(read) < full and time.monotonic() < deadline:
            time.sleep(0.05)
        while process.poll() is None and time.monotonic() < deadline:
            process.send_signal(signal.SIGINT)
            time.sleep(1)
    with os.fdopen(read, "rb") as rest:
        assert b"Traceback" not in rest.read()
    assert process.returncode == 130


def test_an_unexpected_exception_is_our_fault_and_shows_no_traceback(
    statediff: Call, files: Files
) -> None:
    files.write("sitecustomize.py", "import statediff.kernel as e\ne.evaluate = None\n")
    env = {"PYTHONPATH": f"{files.folder}{os.pathsep}{environment()['PYTHONPATH']}"}
    said = statediff(*JUDGE, "--json", env=env)
    assert said.code == 4
    assert said.json["error"]["kind"] == "fault"
    assert "this is a fault of statediff" in said.json["error"]["message"]
    assert json.loads(said.out)


def test_help_is_fast_and_says_the_exit_codes(statediff: Call) -> None:
    said = statediff("--help", env={"COLUMNS": "200"})
    assert said.code == 0
    assert "Exit codes: 0 MATCH" in said.out
    assert "..." not in said.out.partition("\n")[2]
    listed = [name for names in main._SECTIONS.values() for name in names.split()]
    plugged = [
        "approve",
        "attach",
        "expire",
        "gate",
        "hold",
        "lab",
        "log",
        "mcp",
        "mcp-proxy",
        "undo",
    ]
    assert sorted(listed) == sorted([*main._NAMES, *plugged])
    first = main._SECTIONS["Begin"].split()
    assert len(first) <= 12
    assert all(f"\n  {name} " in said.out for name in first)
    every = statediff("help")
    assert "Exit codes: 0 all MATCH" in every.out
    assert all(f"\n  {name} " in every.out for name in listed)
    narrow = statediff("--help", env={"COLUMNS": "80"}).out.splitlines()
    assert (len(narrow) <= 24, max(map(len, narrow)) <= 80) == (True, True)
    run = statediff("run", "--help", env={"COLUMNS": "80"}).out.splitlines()
    assert (len(run) <= 40, max(map(len, run)) <= 80) == (True, True)
    further = statediff("help", "run").out
    assert ("--vault DIR" in further, "--vault" in "\n".join(run)) == (True, False)
    for name in ("judge", "log"):
        asked = statediff(name, "--help").out.partition("\n\n")[2]
        assert statediff("help", name).out.partition("\n\n")[2] == asked
    assert statediff("help", "nothing").code == 2
    heavy = {"pyarrow", "numpy", "pydantic", "networkx", "rich.console", "sqlite3"}
    probe = f"import sys; from statediff.cli import main; print(sorted({heavy} & {{*sys.modules}}))"
    done = subprocess.run(
        [PROGRAM[0], "-c", probe], env=environment(), capture_output=True, check=True
    )
    assert done.stdout == b"[]\n"


def test_json_says_which_stage_an_error_is_about(statediff: Call, files: Files) -> None:
    kept = statediff(*JUDGE, "--out", "trial")
    assert kept.code in (0, 1)
    [judgement] = files.folder.glob("trial/**/judgement.json")
    judgement.write_text("{}")
    damaged = statediff("replay", "trial", "--json").json["error"]
    assert (damaged["kind"], damaged["component"]) == ("bundle", "evidence")
    nothing = statediff("show", "nothing", "--json").json["error"]
    assert (nothing["kind"], nothing["component"]) == ("usage", None)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.json", b'{"t": [{"id" 1}]}', "t.json:1:14: not JSON: Expecting ':' delimiter\n"),
        (
            "t.txt",
            b"hello",
            "a file that ends with .txt is read as JSON, a folder as the files in it",
        ),
        ("t.json", b'{"t": {"id": 1}}', "found an object; write it as [{…}, …], or leave it out"),
        ("t.json", b"", "t.json: the file is empty"),
    ],
)
def test_a_state_that_is_only_looked_at_is_named_by_its_file(
    statediff: Call, files: Files, name: str, content: bytes, message: str
) -> None:
    files.write(name, content)
    said = statediff("capture", f"x={name}")
    assert said.code == 2
    assert message in said.err


def test_the_driver_of_a_url_is_no_part_of_it(statediff: Call) -> None:
    said = statediff("capture", "db=postgresql+psycopg://ada@localhost/app")
    assert said.code == 2
    assert "write postgresql://" in said.err


@contextmanager
def as_an_owner_only() -> Iterator[None]:
    """Root opens what root's permissions allow, and not all: its Python may be for root only."""
    libc = ctypes.CDLL(None, use_errno=True)
    of_this_thread = (ctypes.c_uint32 * 2)(0x20080522, 0)
    held = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; twice 32 capabilities
    assert libc.capget(of_this_thread, held) == 0
    effective = held[0]
    held[0] &= ~0b110  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    assert libc.capset(of_this_thread, held) == 0
    try:
        yield
    finally:
        held[0] = effective
        assert libc.capset(of_this_thread, held) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="capabilities")
def test_a_folder_that_may_not_be_entered_is_no_fault_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    closed = tmp_path / "closed"
    (closed / "inner").mkdir(parents=True)
    closed.chmod(0)
    try:
        with as_an_owner_only():
            assert main.run(("capture", "closed")) == 0
            assert main.run(("show", "closed")) == 2
    finally:
        closed.chmod(0o755)
    said = capsys.readouterr()
    assert "unobserved: closed cannot be opened: Permission denied" in said.out
    assert "Permission denied; check who may use it" in said.err


def test_a_place_whose_folder_is_none_lacks_a_folder_and_no_space(
    statediff: Call, tmp_path: Path
) -> None:
    (tmp_path / "a.json").write_text('{"ticket": [{"id": 7}]}')
    said = statediff("capture", "a.json", "--out", "none/b.json")
    assert said.code == 4
    assert "none/b.json: cannot be written: there is no folder none; make it" in said.err


def test_a_captured_state_and_its_system_need_no_name_to_be_compared(
    statediff: Call, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(tmp_path / "app.db")) as db:
        db.executescript("CREATE TABLE t (id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)")
    (tmp_path / "out").mkdir()
    assert statediff("capture", "app.db", "--out", "app.state").code == 0
    same = statediff("diff", "app.state", "app.db")
    assert (same.code, same.out) == (0, "no change\n")
    other = statediff("diff", "app.db", "out")
    assert (other.code, "one side is a SQLite database, the other a folder" in other.err) == (
        2,
        True,
    )
