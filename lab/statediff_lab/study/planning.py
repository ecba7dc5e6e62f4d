"""A labelled study planned before anybody labels: strata, sizes, the sample, and its registration.

The sample is stratified by domain and by what is known of a run before it is labelled, each stratum
with its share: every share measured on it is one of the domain, without weights. How many runs a
domain needs follows from the interval that is wanted. A registration says all this beforehand, with
the digests of the runs and of the contracts that will judge them; what was changed later shows.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final, TypeVar

from pydantic import TypeAdapter, ValidationError

from statediff.errors import BundleError, InputError, UsageError
from statediff.evidence.canonical import read, write
from statediff.model.values import printable
from statediff_lab.statistics.draws import lot

FORM: Final = "statediff/study-registration/1"
Of = TypeVar("Of")
_DEVIATIONS: Final = Fraction(1_959_964, 1_000_000)
"""Standard deviations to each side of a mean that an interval of 95 % reaches."""


@dataclass(frozen=True, order=True)
class PlannedRun:
    """One run that may be drawn, or was."""

    domain: str
    run: str
    task: str
    stratum: str
    """What is known of it before it is labelled, such as its published verdict."""
    digest: str
    """SHA-256 of the run as recorded."""


@dataclass(frozen=True)
class Stratum:
    """How many of the runs of one kind in one domain were drawn."""

    domain: str
    stratum: str
    runs: int
    drawn: int


@dataclass(frozen=True, kw_only=True)
class Registration:
    """The plan of a study, stated before it is done."""

    seed: int
    within: str
    """Half the width of the wanted interval, as a decimal: `0.1` is ten points to each side."""
    expected: str
    """The share that is expected, as a decimal; of 0.5 the interval is widest."""
    contracts: str
    """SHA-256 over the contracts of the drawn runs' tasks."""
    kernel: str
    evaluators: tuple[str, ...]
    measures: tuple[str, ...]
    protocol: Mapping[str, str]
    """Who labels, what they see, how disagreements are settled: a text by heading."""
    strata: tuple[Stratum, ...]
    sample: tuple[PlannedRun, ...]
    """By domain and run: no order in which anybody is shown them."""
    form: str = FORM

    def written(self) -> bytes:
        """The file's bytes: canonical JSON and a newline."""
        return write(asdict(self)) + b"\n"

    @property
    def digest(self) -> str:
        """SHA-256 of the file, by which a log names it."""
        return hashlib.sha256(self.written()).hexdigest()


@lru_cache
def _shape() -> TypeAdapter[Registration]:
    return TypeAdapter(Registration)


def read_registration(data: bytes) -> Registration:
    """The registration in a file's bytes. `InputError` where it is none of this form."""
    found = read_file_of(_shape(), data, "registration")
    if found.form != FORM or found.written() != data:
        raise InputError("registration: of a form that this version does not know")
    return found


def read_file_of(shape: TypeAdapter[Of], data: bytes, name: str) -> Of:
    """The content of a file's canonical JSON, in its shape. `InputError`."""
    try:
        read(data.removesuffix(b"\n"), name)
        return shape.validate_json(data, strict=True)
    except BundleError as error:
        raise InputError(str(error)) from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = printable(".".join(str(step) for step in first["loc"]))[:120]
        raise InputError(f"{name}: {place or 'the whole'}: {first['msg']}") from error


def wanted_size(runs: int, within: Fraction, expected: Fraction) -> int:
    """How many of so many runs give an interval of 95 % that reaches `within` to each side.

    By the normal approximation, with the correction for a finite population; runs of one task are
    taken as independent, so that an interval over tasks may be wider. `UsageError`.
    """
    if not 0 < within < 1 or not 0 < expected < 1:
        raise UsageError("expected a half width and a share between 0 and 1")
    if not runs:
        return 0
    endless = _DEVIATIONS**2 * expected * (1 - expected) / within**2
    return min(runs, math.ceil(endless / (1 + (endless - 1) / runs)))


def draw(
    runs: Iterable[PlannedRun], within: Fraction, expected: Fraction, seed: int
) -> tuple[tuple[Stratum, ...], tuple[PlannedRun, ...]]:
    """The strata, and a sample that has of each stratum its share; whatever the order of the runs.

    `UsageError` where a domain has two runs of one name.
    """
    domains: dict[str, list[PlannedRun]] = {}
    for run in runs:
        domains.setdefault(run.domain, []).append(run)
    strata: list[Stratum] = []
    sample: list[PlannedRun] = []
    for domain, members in sorted(domains.items()):
        if len({each.run for each in members}) < len(members):
            raise UsageError(f"{domain}: two runs have one name")
        sizes = Counter(each.stratum for each in members)
        shares = _shares(sizes, wanted_size(len(members), within, expected))
        for name in sorted(sizes):
            own = sorted(
                (each for each in members if each.stratum == name),
                key=lambda each: lot(seed, "draw", each.domain, each.run),
            )
            strata.append(Stratum(domain, name, len(own), shares[name]))
            sample += own[: shares[name]]
    return tuple(strata), tuple(sorted(sample))


def _shares(sizes: Mapping[str, int], wanted: int) -> dict[str, int]:
    """Whole numbers in proportion to the sizes that add up to `wanted`: the largest rests first."""
    total = sum(sizes.values())
    exact = {name: Fraction(wanted * size, total) for name, size in sizes.items()}
    shares = {name: math.floor(each) for name, each in exact.items()}
    rests = sorted(sizes, key=lambda name: (shares[name] - exact[name], name))
    for name in rests[: wanted - sum(shares.values())]:
        shares[name] += 1
    return shares


def digest_over(parts: Sequence[bytes]) -> str:
    """One SHA-256 over the digests of the parts, each once, in order of their digests."""
    digests = sorted({hashlib.sha256(part).hexdigest() for part in parts})
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()
