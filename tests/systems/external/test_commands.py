import shlex
import sys
from functools import partial
from pathlib import Path

import pytest

from statediff.errors import SandboxError
from statediff.systems.base.waiting import Patience
from statediff.systems.external import commands

WORKS = "import time\nt = time.monotonic() + 4\nwhile time.monotonic() < t: sum(range(1000))"


def test_a_command_may_take_as_long_as_it_works_and_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "Patience", partial(Patience, stall_seconds=1.0))
    commands.run_command("db: reset", shlex.join([sys.executable, "-c", WORKS]), tmp_path, None)
    with pytest.raises(SandboxError, match=r"has done nothing for 1 s.*`timeout:`.*: one"):
        commands.run_command("db: reset", "sh -c 'echo one; sleep 60'", tmp_path, None)
    with pytest.raises(SandboxError, match=r"took more than 0\.5 s"):
        commands.run_command("db: reset", "sleep 60", tmp_path, 0.5)
