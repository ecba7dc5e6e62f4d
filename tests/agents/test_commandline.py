import os
import shlex
from pathlib import Path

import pytest

from statediff.agents.commandline import CommandLine, named_apart, program_name, resolved
from statediff.errors import UsageError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with programs, and with folders and files that are called like plain words."""
    for name in ("agent.py", "script.sh", "agent.js", "own", "dev"):
        (tmp_path / name).write_text("")
    for name in ("cancel", "python", "sh", "env", "run", "-x", "bots", "1009", "X=1"):
        (tmp_path / name).mkdir()
    (tmp_path / "bots" / "agent.py").write_text("")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    for name in ("python", "python3.11", "sh", "env", "node", "uv", "timeout"):
        program = tmp_path / "bin" / name
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "absolute"),
    [
        ("python agent.py cancel 1009 run -x", 1),
        ("python -u agent.py", 2),
        ("python -X dev -W ignore -- agent.py dev", 6),
        ("python ./bots/../agent.py", 1),
        ("python missing.py agent.py", None),
        ("python -c cancel agent.py", None),
        ("python -Ic cancel agent.py", None),
        ("python - agent.py", None),
        ("python -um bots.agent agent.py", None),
        ("python3.11 agent.py agent.py", 1),
        ("sh -e -o pipefail script.sh cancel", 4),
        ("sh -c own agent.py", None),
        ("node agent.js", 1),
        ("node -e own agent.js", None),
        ("env X=1 python agent.py X=1", 3),
        ("timeout -k 5 1009 env X=1 python -u agent.py cancel", 8),
        ("env X=1 ./own cancel", 2),
        ("uv run agent.py cancel", 2),
        ("uv run -m bots.agent agent.py", None),
        ("uv pip install dev", None),
        ("./own agent.py", 0),
        ("own python agent.py", 0),
        ("/bin/own agent.py", None),
    ],
)
def test_only_what_is_run_is_looked_for_in_the_callers_folder(
    command: str, absolute: int | None, folder: Path
) -> None:
    words = shlex.split(command)
    expected = list(words)
    if absolute is not None:
        expected[absolute] = str(folder / words[absolute])
    assert list(resolved(words, folder)) == expected
    assert list(resolved(expected, Path("/"))) == expected


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python agent.py wrong", "agent.py"),
        ("/usr/bin/python3.11 -u -W ignore ./bots/agent.py", "agent.py"),
        ("python -m bots.refund", "bots.refund"),
        ("env MODE=fast python agent.py", "agent.py"),
        ("uv run agent.py", "agent.py"),
        ("./agent --run python", "agent"),
        ("python -c pass", "python"),
        ("sh 'my agent.sh'", "my agent.sh"),
    ],
)
def test_a_program_is_called_as_its_script_and_not_as_its_interpreter(
    command: str, name: str, folder: Path
) -> None:
    assert program_name(shlex.split(command), folder) == name


def test_a_name_may_be_given_and_a_file_called_so_is_no_name(folder: Path) -> None:
    (folder / "a=b").write_text("#!/bin/sh\n")
    assert CommandLine.parse("careful=python agent.py") == CommandLine(
        ("python", str(folder / "agent.py")), "careful"
    )
    assert CommandLine.parse("a=b cancel").name == "a=b"
    assert CommandLine.parse("env X=1 python agent.py").name == "agent.py"
    with pytest.raises(UsageError, match="is empty"):
        CommandLine.parse("careful=")


def test_two_agents_of_one_name_are_told_apart(folder: Path) -> None:
    commands = ["python agent.py", "python bots/agent.py", "x=python agent.py", "own"]
    lines = named_apart(commands)
    assert [line.name for line in lines] == ["agent.py-1", "agent.py-2", "x", "own"]
    assert named_apart(["python agent.py"])[0].name == "agent.py"
    with pytest.raises(UsageError, match="given twice"):
        named_apart(["python agent.py", f"python {folder}/agent.py"])


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        ("python agent.py cancel", "`cancel` is passed as written"),
        ("python agent.py --orders=dev", "`--orders=dev` is passed as written"),
        ("python -m bots.agent", "begin with `env PYTHONPATH="),
        ("python missing.py", "`missing.py` is no file of "),
        ("node --require ./own agent.js", "`agent.js` is passed as written"),
        ("python agent.py 7", ""),
        (f"python agent.py {os.sep}", ""),
    ],
)
def test_an_argument_that_may_be_a_file_of_the_caller_is_hinted_at(
    command: str, hint: str, folder: Path
) -> None:
    found = CommandLine.parse(command, folder).hint
    assert hint in found if hint else not found
