"""The database with which the ERP begins is made by the pack's program, and kept for later."""

import subprocess
import sys
from pathlib import Path

import pytest
from statediff_erp import base

from statediff.errors import SandboxError
from statediff.packs import sandbox_folders

PROGRAM = sandbox_folders()["erp"] / "build.py"


@pytest.mark.pack("statediff[erp]")
@pytest.mark.timeout(900)
def test_what_is_made_again_has_the_same_rows_and_the_schema_file_of_the_pack(
    tmp_path: Path,
) -> None:
    kept, again = tmp_path / "kept.sqlite", tmp_path / "again.sqlite"
    kept.write_bytes(base.base_of(PROGRAM))
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(again), "--like", str(kept)],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "build.py"
    path.write_text(
        "import pathlib, sys\n"
        f"log = pathlib.Path({str(tmp_path / 'log')!r})\n"
        "with log.open('a') as made: made.write('made ')\n"
        "pathlib.Path(sys.argv[1]).write_bytes(b'base')\n"
    )
    return path


def test_a_base_is_made_once(program: Path, tmp_path: Path) -> None:
    assert base.base_of(program) == base.base_of(program) == b"base"
    assert (tmp_path / "log").read_text() == "made "
    program.write_text(program.read_text() + "# another program\n")
    base.base_of(program)
    assert (tmp_path / "log").read_text() == "made made "


@pytest.mark.parametrize("how", ["open to others", "a link"])
def test_a_base_that_somebody_else_could_have_written_is_made_anew(
    program: Path, tmp_path: Path, how: str
) -> None:
    base.base_of(program)
    (kept,) = (tmp_path / "cache" / "statediff" / "erp").glob("*.sqlite")
    if how == "a link":
        kept.unlink()
        other = tmp_path / "other"
        other.write_bytes(b"another")
        kept.symlink_to(other)
    else:
        kept.write_bytes(b"another")
        kept.chmod(0o666)
    assert base.base_of(program) == b"base"


def test_a_program_that_fails_says_why(program: Path) -> None:
    program.write_text("raise SystemExit('no module named trytond')")
    with pytest.raises(SandboxError, match="could not be made: no module named trytond"):
        base.base_of(program)
