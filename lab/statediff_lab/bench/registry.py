"""The registry of measures, their rows, and runs that are interleaved and checked."""

from __future__ import annotations

import gc
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from statediff.contract.file import ContractFile
from statediff.errors import HarnessError, UsageError
from statediff.model.verdict import Verdict

PEERS: Final = ("datacompy", "deepdiff", "fleet-python", "jsonpatch", "polars", "reladiff")
KINDS: Final = ("capture", "delta", "diff", "reset", "reward", "verify")
T = TypeVar("T")


class Scored(Protocol):
    """The part that is read of a score, or of a judged pair."""

    @property
    def verdict(self) -> Verdict: ...


class KeptJudge(Protocol):
    """The part that is measured of a judge that is kept."""

    def score(self, after: Any) -> Scored: ...

    def score_many(self, afters: Any, *, workers: int = 1) -> Sequence[Scored]: ...


@dataclass(frozen=True)
class Judging:
    """The doors whose rewards are measured: a judge that is kept, and one judgement of a pair."""

    keep: Callable[[ContractFile, Any], KeptJudge]
    once: Callable[[ContractFile, Any, Any], Scored]


class NotRun(Exception):
    """A measure that cannot be taken here; its text says why and what to do."""


class Wrong(HarnessError):
    """A contender gave a wrong result: no time of it counts, and the run ends."""


@dataclass(frozen=True)
class BenchPlan:
    """The plan of a measurement: sizes, the number of changes, and how often."""

    rows: int = 1_000_000
    slow_rows: int = 100_000
    """For peers that need minutes where others need seconds."""
    large_rows: int = 10_000_000
    changes: int = 10
    repeats: int = 5
    folder: Path = field(default=Path())
    """A scratch folder, removed by its maker."""
    judging: Judging | None = None
    """The doors whose rewards are measured; they are above this package, and handed in."""

    def __post_init__(self) -> None:
        for name in ("rows", "slow_rows", "large_rows"):
            if getattr(self, name) < 20 * self.changes:
                option = name.replace("_", "-")
                raise UsageError(
                    f"--{option} {getattr(self, name)}: too few for {self.changes} changes spread "
                    f"over them; take {20 * self.changes} or more"
                )
        if self.changes < 1 or self.repeats < 1:
            raise UsageError("--changes and --repeats are numbers from 1 on")


@dataclass(frozen=True)
class BenchLimit:
    """The limit of a row: of its value, or of its ratio; at most, or at least."""

    number: float
    of: str = "ratio"
    is_most: bool = True

    def __str__(self) -> str:
        return f"{self.of} {'<=' if self.is_most else '>='} {self.number:g}"

    def holds(self, row: BenchRow) -> bool | None:
        """True if the row keeps to it; None where it has no such number."""
        found = row.ratio if self.of == "ratio" else row.value
        if found is None:
            return None
        return found <= self.number if self.is_most else found >= self.number


@dataclass(frozen=True)
class BenchRow:
    """One measured number. `floor` is what `ratio` relates it to, in the same unit."""

    measure: str
    kind: str
    value: float | None
    unit: str
    _: KW_ONLY
    floor: float | None = None
    ratio: float | None = None
    target: BenchLimit | None = None
    low: float | None = None
    high: float | None = None
    note: str = ""

    @property
    def ok(self) -> bool | None:
        """True if the target is kept; None where there is none, or nothing was measured."""
        return None if self.target is None else self.target.holds(self)

    def document(self) -> dict[str, Any]:
        """The row as `--json` prints it."""
        return {
            "measure": self.measure,
            "kind": self.kind,
            "value": self.value,
            "unit": self.unit,
            "floor": self.floor,
            "ratio": self.ratio,
            "target": None if self.target is None else str(self.target),
            "ok": self.ok,
            "low": self.low,
            "high": self.high,
            "note": self.note,
        }


@dataclass(frozen=True)
class Measure:
    """One entry of the registry."""

    name: str
    kind: str
    take: Callable[[BenchPlan], Iterable[BenchRow]]


MEASURES: Final[list[Measure]] = []


def measure(
    name: str, kind: str
) -> Callable[
    [Callable[[BenchPlan], Iterable[BenchRow]]], Callable[[BenchPlan], Iterable[BenchRow]]
]:
    """The function is a measure, after those registered before it."""
    if kind not in KINDS or any(known.name == name for known in MEASURES):
        raise ValueError(f"{name!r} of kind {kind!r}: a taken name, or none of {', '.join(KINDS)}")

    def register(
        take: Callable[[BenchPlan], Iterable[BenchRow]],
    ) -> Callable[[BenchPlan], Iterable[BenchRow]]:
        MEASURES.append(Measure(name, kind, take))
        return take

    return register


def run(plan: BenchPlan, wanted: Iterable[str], say: Callable[[str], None]) -> Iterator[BenchRow]:
    """The rows of the measures that are wanted by kind or by name (none named: of all)."""
    asked = set(wanted)
    known = {m.name for m in MEASURES} | {m.kind for m in MEASURES}
    if asked - known:
        raise UsageError(
            f"there is no measure {', '.join(sorted(asked - known))}; "
            f"known are {', '.join(sorted(known))}"
        )
    for chosen in MEASURES:
        if asked and not asked & {chosen.name, chosen.kind}:
            continue
        say(chosen.name)
        try:
            yield from chosen.take(plan)
        except NotRun as reason:
            yield BenchRow(chosen.name, chosen.kind, None, "", note=f"not run: {reason}")


def time_in_turn(
    contenders: Mapping[str, Callable[[], T]],
    repeats: int,
    check: Callable[[str, T], object],
) -> dict[str, list[float]]:
    """Seconds of each contender, one after the other in every round; the first round warms up.

    `check` raises `Wrong` for a result that is not right.
    """
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for repeat in range(repeats + 1):
        for name, contender in contenders.items():
            gc.collect()
            started = time.perf_counter()
            found = contender()
            elapsed = time.perf_counter() - started
            check(name, found)
            if repeat:
                taken[name].append(elapsed)
    return taken


def time_row(
    name: str,
    kind: str,
    seconds: list[float],
    *,
    floor: list[float] | None = None,
    peer: list[float] | None = None,
    target: BenchLimit | None = None,
    note: str = "",
) -> BenchRow:
    """A row of milliseconds: over a floor (ratio: how many times it), or beside a slower peer."""
    value = statistics.median(seconds)
    beside = floor or peer
    other = statistics.median(beside) if beside else None
    ratio = None if other is None else (value / other if floor else other / value)
    return BenchRow(
        name,
        kind,
        _ms(value),
        "ms",
        floor=None if other is None else _ms(other),
        ratio=None if ratio is None else float(f"{ratio:.4g}"),
        target=target,
        low=_ms(min(seconds)),
        high=_ms(max(seconds)),
        note=note,
    )


def _ms(seconds: float) -> float:
    return float(f"{seconds * 1000:.4g}")


def import_peer(package: str) -> Any:
    """The peer's module, or `NotRun` with what to do."""
    import importlib  # noqa: PLC0415 - only peers are named at run time

    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise NotRun(f"{package} is not installed; `pip install 'statediff[bench]'`") from error


def machine() -> dict[str, Any]:
    """The machine that the numbers were measured on, and how busy it was."""
    versions: dict[str, str | None] = {}
    for package in ("pyarrow", "numpy", *PEERS):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = None
    return {
        "system": platform.system(),
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "load": [round(load, 2) for load in os.getloadavg()],
        "python": platform.python_version(),
        "packages": versions,
    }
