"""The documents do not lag: every command they show is run.

A ```` ```lang file=NAME ```` block is written to NAME first. In a ```` ```console ```` block, lines
that begin with `$ ` are run by a shell, one after the other, in one folder for the whole document;
what they print must match the lines below them, where `…` stands for anything, and a line `…` for
any lines. `[exit code N]` is the code of the last command; without it, it is 0.
"""

import os
import re
import shlex
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]
README = CHECKOUT / "README.md"
CLI = CHECKOUT / "docs" / "cli.md"
PAGES = (
    "access",
    "audit",
    "cli",
    "drafting",
    "first-contract",
    "graph",
    "hosts/index",
    "isolation",
    "metatest",
    "others",
    "own-system",
    "pytest",
    "python",
    "quality",
    "reads",
    "rejudge",
    "review",
    "reward",
    "sealing",
    "states",
    "study",
    "suites",
    "test-runs",
)
SHOWN = [
    README,
    *(pytest.param(CHECKOUT / "docs" / f"{name}.md", marks=pytest.mark.slow) for name in PAGES),
]
BLOCK = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(document: Path) -> list[tuple[str, str, str]]:
    return BLOCK.findall(document.read_text(encoding="utf-8"))


@pytest.mark.timeout(600)  # every command of a page, one after the other
@pytest.mark.parametrize(
    "document", SHOWN, ids=[README.name, *(Path(name).name + ".md" for name in PAGES)]
)
def test_every_command_shown_prints_what_is_shown(
    document: Path, tmp_path: Path, forked: Path
) -> None:
    make_program(tmp_path, forked)
    shown = lay_out(document, tmp_path)
    assert shown
    for content in shown:
        check(content, tmp_path)


def lay_out(document: Path, folder: Path) -> list[str]:
    """The consoles of a document; the files that it and README name are in the folder."""
    for source in (README, CLI, document):
        for _, name, content in blocks(source):
            if name:
                (folder / name).write_text(content, encoding="utf-8")
    (folder / "fixtures").symlink_to(CHECKOUT / "fixtures")
    (folder / "reads").symlink_to(CHECKOUT / "docs" / "examples" / "reads")
    (folder / "hosts").symlink_to(CHECKOUT / "docs" / "examples" / "hosts")
    return [content for language, _, content in blocks(document) if language == "console"]


def make_program(folder: Path, forked: Path) -> None:
    """`statediff` is a program in `bin` of the folder, see `tests/forked.py`; so is Python."""
    forking = CHECKOUT / "tests" / "forked.py"
    arguments = f"-IS {shlex.quote(str(forking))} call {shlex.quote(str(forked))}"
    put_programs(folder, {"statediff": arguments, **python_programs(str(CHECKOUT))})


def python_programs(path: str) -> dict[str, str]:
    """`python` and `pytest`, with the plugin of the statediff in `path`."""
    plugin = "statediff.integrations.pytest_plugin"
    installed = distributions(path=[path, *sys.path])
    is_known = any(point.value == plugin for each in installed for point in each.entry_points)
    loads = "" if is_known else f" -p {plugin}"
    return {
        "python": "-B",
        "pytest": f"-m pytest -p no:cacheprovider -c /dev/null --rootdir .{loads}",
    }


def put_programs(folder: Path, programs: dict[str, str], python: str = sys.executable) -> None:
    """Each is a program in `bin` of the folder: this Python with these arguments."""
    (folder / "bin").mkdir()
    for name, arguments in programs.items():
        program = folder / "bin" / name
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(python)} {arguments} "$@"\n')
        program.chmod(0o755)


def check(content: str, folder: Path, path: str = str(CHECKOUT), own: bool = False) -> None:
    """`own` says that the programs have all they import, and nothing of this Python's."""
    lines = content.splitlines()
    commands = [line[2:] for line in lines if line.startswith("$ ")]
    codes = [line for line in lines if line.startswith("[exit code ")]
    expected = [line for line in lines if not line.startswith(("$ ", "[exit code "))]
    ours = () if own else sys.path
    environment = {
        "COLUMNS": "80",  # as a terminal would show it
        "PATH": f"{folder / 'bin'}:/usr/local/bin:/usr/bin:/bin",
        "PYTHONPATH": os.pathsep.join([path, *(p for p in ours if p and Path(p) != CHECKOUT)]),
        "PYTHONUTF8": "1", "HOME": str(folder),
        "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache"),
    }  # fmt: skip
    done = subprocess.run(
        ["/bin/sh", "-c", "\n".join(commands)], cwd=folder, env=environment, check=False,
        capture_output=True, timeout=300,
    )  # fmt: skip
    printed = [line.rstrip() for line in done.stdout.decode().splitlines()]
    code = int(re.findall(r"\d+", codes[0])[0]) if codes else 0
    assert done.returncode == code, f"{content}\n{done.stdout.decode()}\n{done.stderr.decode()}"
    assert matches(expected, printed), "\n".join([content, "but it printed:", *printed])


def matches(expected: list[str], printed: list[str]) -> bool:
    pattern = "".join(
        r"(?:.*\n)*" if line == "…" else ".*".join(map(re.escape, line.split("…"))) + r"\n"
        for line in expected
    )
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in printed)) is not None
