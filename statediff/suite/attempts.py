"""The attempts at a trial: each in a folder of its own, and the one that counts under its name.

An attempt is made under `attempts/TRIAL/…` of the run's folder and moved to `trials/TRIAL` when it
has ended, whole and at once: two who make the same trial, or one who is killed, never leave
half of one there, and whoever comes second changes nothing. An attempt that no longer counts is
moved back, and kept.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from statediff.atomic import write_atomically
from statediff.errors import AdapterError, HarnessError, SandboxError, StorageError

FORM: Final = "statediff.attempt/1"
NAME: Final = "attempt.json"
_MAX_BYTES: Final = 64 * 1024


class FaultKind(StrEnum):
    """Why an attempt has no verdict; what the agent did wrong is never among them."""

    ENVIRONMENT = "environment"
    """A sandbox, or a system in it, did not start, reset, or stay up."""
    WORKER = "worker-lost"
    """Who made the attempt ended in the middle of it."""
    ADAPTER = "adapter"
    """An agent could not be started, a limit on its cost was reached, or a part broke its word."""
    STORAGE = "storage"
    HARNESS = "harness"

    @property
    def is_retried(self) -> bool:
        """Whether another attempt may well end otherwise."""
        return self in (FaultKind.ENVIRONMENT, FaultKind.WORKER)


def kind_of(error: HarnessError) -> FaultKind:
    """By the error's type, never by its words."""
    kinds = (
        (SandboxError, FaultKind.ENVIRONMENT), (AdapterError, FaultKind.ADAPTER),
        (StorageError, FaultKind.STORAGE),
    )  # fmt: skip
    return next((kind for family, kind in kinds if isinstance(error, family)), FaultKind.HARNESS)


@dataclass(frozen=True)
class Attempt:
    """What is known of an attempt beside its bundle."""

    number: int = 1
    is_retried: bool = False
    cost_nano: int | None = None
    fault: FaultKind | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "form": FORM, "attempt": self.number, "retried": self.is_retried,
            "cost_nano": self.cost_nano, "fault": None if self.fault is None else self.fault.value,
        }  # fmt: skip


def nano(cost: Decimal | None) -> int | None:
    """The cost in billionths."""
    return None if cost is None else int((cost * 10**9).to_integral_value())


def place(run: Path, trial: str) -> Path:
    """Where an attempt may be made; nothing is there yet."""
    return run / "attempts" / trial / uuid.uuid4().hex[:12]


def write(folder: Path, attempt: Attempt) -> None:
    """The folder of the attempt says what is known of it."""
    document = json.dumps(attempt.as_json(), sort_keys=True)
    write_atomically(folder / NAME, document.encode("ascii"))


def read(folder: Path) -> Attempt:
    """What the folder says of its attempt; a first one where it says nothing that makes sense."""
    try:
        with (folder / NAME).open("rb") as stream:
            found = json.loads(stream.read(_MAX_BYTES))
        if not isinstance(found, Mapping) or found.get("form") != FORM:
            return Attempt()
        number, cost, fault = found["attempt"], found["cost_nano"], found["fault"]
        if type(number) is not int or not 1 <= number < 10**6 or type(found["retried"]) is not bool:
            return Attempt()
        if cost is not None and (type(cost) is not int or not 0 <= cost < 2**62):
            return Attempt()
        return Attempt(number, found["retried"], cost, None if fault is None else FaultKind(fault))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return Attempt()


def keep(attempt: Path, run: Path, trial: str) -> bool:
    """The attempt counts for the trial from now on, unless another one does already."""
    final = run / "trials" / trial
    try:
        final.parent.mkdir(exist_ok=True)
        # Onto a folder that holds something it fails, onto an empty or missing one it does not.
        attempt.rename(final)
    except OSError as error:
        if (final / "bundle").is_dir():
            return False
        if (attempt / "bundle").is_dir() and final.is_dir():
            set_aside(run, trial)  # a verdict takes the place of a fault
            return keep(attempt, run, trial)
        if final.is_dir():
            return False
        raise StorageError(f"{final} cannot be written: {error.strerror}") from error
    _tidy(attempt.parent)
    return True


def set_aside(run: Path, trial: str) -> int:
    """No attempt counts for the trial; how many there were that counted once."""
    final, kept = run / "trials" / trial, run / "attempts" / trial
    number = 1
    while (kept / str(number)).exists():
        number += 1
    if not final.is_dir():
        return number - 1
    try:
        kept.mkdir(parents=True, exist_ok=True)
        final.rename(kept / str(number))
    except OSError as error:
        raise StorageError(f"{final} cannot be moved to {kept}: {error.strerror}") from error
    return number


def discard(attempt: Path) -> None:
    """The attempt is gone: another one counts, and this one came too late."""
    shutil.rmtree(attempt, ignore_errors=True)
    _tidy(attempt.parent)


def _tidy(folder: Path) -> None:
    try:
        os.rmdir(folder)  # noqa: PTH106 - beside the call below
        os.rmdir(folder.parent)  # noqa: PTH106
    except OSError:
        return  # others are in it
