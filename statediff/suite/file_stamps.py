"""By what an indexed trial is known again; many are looked at by a process of its own.

A trial's stamp is where its bundle's manifest lies on the disk, how long it is and when it was
changed. To look at a hundred thousand takes about as long as it takes to load what reads a store,
so that on a second core it costs nothing: run as a program with the folders of runs as arguments,
this file prints one digest a run, of all stamps beside their trials' names.

It imports nothing but the standard library, and little of that: it has to begin at once.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256

MANY_LINKS = 4_000
MANY_BYTES = 128 * 1024
"""The size of a folder of thousands: by links on some file systems, by length on others."""


def stamp(trial: str, folder: int | None = None) -> str:
    """The stamp of the manifest of the trial's bundle; empty where there is none.

    The trial's folder is relative to `folder`, a descriptor, if that is given.
    """
    try:
        found = os.lstat(f"{trial}/bundle/manifest.json", dir_fd=folder)
    except OSError:
        return ""
    return f"{found.st_ino}:{found.st_size}:{found.st_mtime_ns}:{found.st_ctime_ns}"


def digest_of(stamps: Iterable[tuple[str, str]]) -> str:
    """The digest of names and stamps, sorted by name; empty if a stamp is."""
    pairs = list(stamps)
    if not all(found for _, found in pairs):
        return ""
    text = "\n".join(f"{name}\0{found}" for name, found in pairs)
    return sha256(text.encode(errors="surrogatepass")).hexdigest()


class AheadLook:
    """Runs that a process of its own looks at. Without its report the caller looks for itself."""

    def __init__(self, runs: Sequence[str]) -> None:
        self._waiting = list(runs)
        self._known: dict[str, str] = {}
        self._process: subprocess.Popen[str] | None = None
        if runs:
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", __file__, *runs],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    text=True,
                )
            except OSError:
                self._waiting.clear()

    def digest(self, run: str) -> str:
        """The run's `digest_of` as it is on the disk; empty where that is not known."""
        while run in self._waiting:
            line = "" if self._process is None else self._process.stdout.readline()  # type: ignore[union-attr]  # a pipe
            self._known[self._waiting.pop(0)] = line.strip()
        return self._known.pop(run, "")

    def end(self) -> None:
        """Nothing is looked at any more."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()


@contextmanager
def look_ahead(runs: Iterable[os.PathLike[str] | str]) -> Iterator[AheadLook]:
    """Those of the runs' folders that hold thousands of trials are looked at meanwhile."""
    is_worth_it = (os.cpu_count() or 1) > 1
    ahead = AheadLook([os.fspath(run) for run in runs if is_worth_it and _holds_many(run)])
    try:
        yield ahead
    finally:
        ahead.end()


def _holds_many(run: os.PathLike[str] | str) -> bool:
    try:
        found = os.stat(f"{os.fspath(run)}/trials")  # noqa: PTH116 - no pathlib, see above
    except (OSError, ValueError):
        return False
    return found.st_nlink > MANY_LINKS or found.st_size > MANY_BYTES


def _on_disk(run: str) -> str:
    folder = os.open(f"{run}/trials", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208 - as above
        return digest_of((name, stamp(name, folder)) for name in names)
    finally:
        os.close(folder)


if __name__ == "__main__":
    for each in sys.argv[1:]:
        try:
            told = _on_disk(each)
        except OSError:
            told = ""
        sys.stdout.write(f"{told}\n")
        sys.stdout.flush()
