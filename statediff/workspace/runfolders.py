"""The folder of a run, read: what was scheduled, and every trial whose folder is there."""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from statediff.atomic import write_atomically
from statediff.errors import BundleError, InputError, StatediffError, StorageError, UsageError
from statediff.evidence.canonical import read
from statediff.evidence.package import RUN_FORM, Bundle, load
from statediff.model.values import printable
from statediff.reports.ending import AgentRecord, Ending, agent_record

FAULT_NAME: Final = "fault.txt"
AGENT_NAME: Final = "agent.json"
MAX_BYTES: Final = 8 * 1024 * 1024


@dataclass(frozen=True)
class TrialFolder:
    """A trial's folder: its bundle, or why it has none."""

    name: str
    folder: Path
    """The folder of its bundle, also where it has none."""
    bundle: Bundle | None
    why: str = ""
    is_broken: bool = False
    """True if there is something in the place of a bundle that cannot be read."""


def is_run(folder: Path) -> bool:
    """True if the folder is that of a run."""
    return folder.is_dir() and (folder / "run.json").exists()


def run_of(place: Path) -> Path | None:
    """The run whose folder this is, or whose trial's or bundle's it is; None for anything else."""
    above = [place, *place.absolute().parents[:4]]
    return next((folder for folder in above if is_run(folder)), None)


def facts_of(folder: Path) -> bytes:
    """The bytes of the run's `run.json`. `BundleError` if it is larger than any that is one."""
    return _bounded(folder / "run.json")


def facts_digest(folder: Path) -> str:
    """SHA-256 of the run's `run.json`, as an entry of a log names it."""
    return hashlib.sha256(facts_of(folder)).hexdigest()


def trials(folder: Path) -> Iterator[TrialFolder]:
    """Every trial of the run whose folder is there, by name."""
    kept = folder / "trials"
    names = sorted(entry.name for entry in kept.iterdir()) if kept.is_dir() else []
    yield from (read_trial(kept / name) for name in names)


def read_trial(trial: Path) -> TrialFolder:
    """The content of a trial's folder."""
    place = trial / "bundle"
    # A link could lead anywhere, and a page would be written there.
    if trial.is_symlink() or not trial.is_dir() or place.is_symlink():
        why = "expected the folder of a trial, found something else"
        return TrialFolder(trial.name, place, None, why, is_broken=True)
    if not place.is_dir():
        return TrialFolder(trial.name, place, None, _why(trial))
    try:
        bundle = load(place)
    except (BundleError, InputError) as error:
        return TrialFolder(
            trial.name, place, None, f"the bundle is damaged: {error}", is_broken=True
        )
    return TrialFolder(trial.name, place, bundle)


def ending_of(bundle_folder: Path) -> Ending | None:
    """How the agent of the trial failed, if it did and `agent.json` beside the bundle says so."""
    return agent_of(bundle_folder).ending


def agent_of(bundle_folder: Path) -> AgentRecord:
    """The record of the agent in `agent.json` beside the bundle."""
    try:
        place = bundle_folder.absolute().parent / AGENT_NAME
        return agent_record(read(_bounded(place).removesuffix(b"\n"), str(place)))
    except StatediffError:
        return agent_record(None)


def run_facts(folder: Path) -> dict[str, Any]:
    """The facts in `run.json`; `BundleError` if it is not what a run writes."""
    where = printable(str(folder / "run.json"))
    found = read(_bounded(folder / "run.json").removesuffix(b"\n"), where)
    if not isinstance(found, dict) or found.get("form") != RUN_FORM:
        raise BundleError(f"{where}: expected the record of a run ({RUN_FORM}); found another form")
    return found


def make_secret(folder: Path) -> None:
    """The run has a secret for the salts of its state roots; only its owner reads it.

    `StorageError`.
    """
    data = secrets.token_hex(32).encode() + b"\n"
    try:
        write_atomically(folder / "secret", data, mode=0o600, exclusive=True, durable=True)
    except OSError as error:
        raise StorageError(f"{folder}: no secret can be kept: {error.strerror}") from error


def run_secret(folder: Path) -> bytes:
    """The secret of a run, empty where it has none. `StorageError`."""
    path = folder / "secret"
    try:
        return bytes.fromhex(path.read_text("ascii").strip())
    except FileNotFoundError:
        return b""
    except (OSError, ValueError) as error:
        raise StorageError(f"{path}: the run's secret cannot be read: {error}") from error


def count_scheduled(facts: dict[str, Any], there: int) -> int:
    """How many trials were scheduled: as many as asked, of every contract."""
    settings, contracts = facts.get("settings"), facts.get("contracts")
    times = settings.get("trials") if isinstance(settings, dict) else None
    if isinstance(times, bool) or not isinstance(times, int) or not isinstance(contracts, dict):
        return there
    return max(times * len(contracts), there)


def _bounded(path: Path) -> bytes:
    """The bytes of a regular file that is not huge; `UsageError` or `BundleError` says what it is.

    Whatever loads contracts could read it too, and takes longer to load than a list of runs takes.
    """
    where = printable(str(path))
    try:
        # Not blocking: opening a pipe would wait for ever.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise UsageError(f"{where}: expected a regular file, found another kind")
            found = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise UsageError(f"{where}: cannot be read: {error}") from error
    if len(found) > MAX_BYTES:
        raise BundleError(f"{where}: more than {MAX_BYTES:,} bytes are none of ours")
    return found


def _why(trial: Path) -> str:
    """Why a trial has no bundle, as it was reported when it ended; nothing may be known of it."""
    try:
        return _bounded(trial / FAULT_NAME).decode("utf-8", "replace").strip()
    except (UsageError, BundleError):
        return "it was interrupted, or ended with a fault that was not recorded"
