"""Outlives a process that has sandboxes, and removes what it left: run as a program, `… FOLDER`.

It waits for the end of its standard input, which is the end of that process, however it came
about: neither `kill -9` nor a crash leaves an agent running or a sandbox's folder behind. Whatever
runs with its working folder, its home or its temporary files below FOLDER belongs to a sandbox.

It is started by its file's name, without statediff's packages: it is small while it waits.
"""

import contextlib
import os
import shutil
import signal
import sys
import time

TRIES = 20
_PAUSE_SECONDS = 0.1


def main(folder: str) -> None:
    """Nothing is left of the folder, nor of what ran in it, once standard input has ended."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while os.read(0, 4096):
        pass
    for _ in range(TRIES):
        for pid in inhabitants(folder):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.lexists(folder) and not inhabitants(folder):
            return
        time.sleep(_PAUSE_SECONDS)


def inhabitants(folder: str) -> list[int]:
    """The processes that live below the folder, as far as the kernel tells us."""
    found = []
    below = os.fsencode(folder) + b"/"
    homes = tuple(name + below for name in (b"HOME=", b"TMPDIR="))
    try:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - no pathlib in here
    except OSError:
        return []  # a system without it: what its parent could not end lives on
    for pid in pids:
        with contextlib.suppress(OSError):
            place = os.readlink(os.fsencode(f"/proc/{pid}/cwd"))  # noqa: PTH115 - as above
            with open(f"/proc/{pid}/environ", "rb") as stream:  # noqa: PTH123 - as above
                told = stream.read().split(b"\0")
            if (place + b"/").startswith(below) or any(each.startswith(homes) for each in told):
                found.append(pid)
    return [pid for pid in found if pid != os.getpid()]


if __name__ == "__main__":
    main(sys.argv[1])
