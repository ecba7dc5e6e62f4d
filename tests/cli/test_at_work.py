"""Long work shows on a terminal that it goes on; a pipe gets nothing of it."""

import os
import pty
import subprocess
import sys

WORK = """
import time
from statediff.cli import output
output.PATIENCE = 0.05
with output.at_work("reading") as count:
    time.sleep(0.3)
    count("faults judged")
    time.sleep(0.4)
print("done")
"""


def test_it_is_shown_on_a_terminal_and_nowhere_else() -> None:
    command = [sys.executable, "-c", WORK]
    leader, terminal = pty.openpty()
    with os.fdopen(leader, "rb", buffering=0) as screen:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=terminal, check=True,
            env={**os.environ, "TERM": "xterm"},
        )  # fmt: skip
        os.close(terminal)
        shown = b""
        try:
            while part := screen.read(65536):
                shown += part
        except OSError:  # so a terminal says that nobody writes to it any more
            pass
    assert done.stdout == b"done\n"
    assert b"reading" in shown
    assert b"1 faults judged" in shown
    piped = subprocess.run(command, capture_output=True, check=True)
    assert (piped.stdout, piped.stderr) == (b"done\n", b"")
