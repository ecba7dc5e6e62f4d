"""The processes of a container, as the kernel lists them: the engine takes far longer to say."""

from __future__ import annotations

from pathlib import Path


def group_of(pid: int, container: str) -> Path:
    """Where the kernel lists the processes of a container, of which `pid` is one.

    Raises `OSError` or `ValueError` where that is not this machine's to see.
    """
    for line in Path(f"/proc/{pid}/cgroup").read_text(encoding="ascii").splitlines():
        _, controllers, place = line.split(":", 2)
        if container in place and controllers in ("", "pids"):
            return Path("/sys/fs/cgroup", controllers, place.lstrip("/"))
    raise ValueError(f"{pid} is no process of {container}")


def names_in(group: Path) -> list[str]:
    """The programs that run in it, by name. Raises `OSError` or `ValueError`."""
    pids = (group / "cgroup.procs").read_text(encoding="ascii").split()
    return [Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").rstrip("\n") for pid in pids]
