"""Mutants of sealed bundles: of their bytes, and of their structure in canonical form."""

from __future__ import annotations

import copy
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from statediff_lab.commands.conforming import read_vectors

from statediff.errors import BundleError
from statediff.evidence import verify as v
from statediff.evidence.canonical import write
from statediff.evidence.seal import Sealed

Files = Mapping[str, bytes]
ZIP: Final = "sealed.zip"
"""The name of a file that stands for the copy as a zip."""


@dataclass(frozen=True)
class Seed:
    """A genuine bundle, and the trust file under which it is one."""

    name: str
    files: Files
    trust: bytes


@dataclass(frozen=True)
class Mutant:
    """The files of a seed that are others now."""

    of: int
    change: Files


@dataclass
class Outcome:
    """The outcome of mutants: how many of each status, the slowest, where verifiers differ."""

    statuses: Counter[str] = field(default_factory=Counter)
    slowest_seconds: float = 0.0
    differences: list[str] = field(default_factory=list)


def seeds() -> tuple[Seed, ...]:
    """Every public vector that is genuine, which is what mutants are made of.

    None with a time stamp: who signed that is seen with the authority's certificates alone. None
    with more signatures on a checkpoint than the log's two: those of strangers say nothing.
    """
    return tuple(
        Seed(name, dict(files), trust)
        for name, files, trust, expected in read_vectors()
        if expected != "INVALID"
        and v.STAMP not in files
        and files.get(v.PROOF, b"").count("\n\u2014 ".encode()) in (0, 2)
    )


def judged(files: Files, trust: tuple[v.Signer, ...]) -> tuple[str, float]:
    """The status of a copy by `verify.py`, and the seconds that took."""
    start = time.thread_time()  # the machine's other work is not the verifier's
    try:
        status = v.verify(v.unzipped(files[ZIP]) if ZIP in files else files, trust).status
    except (v.Rejected, BundleError):
        status = "INVALID"
    except Exception as error:  # noqa: BLE001 - that it is none of the two is what is looked for
        status = f"uncaught {error!r}"
    return status, time.thread_time() - start


def changed(data: bytes, draw: random.Random, other: bytes) -> bytes:
    """The bytes after one to five small changes."""
    found = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 1, 2, 5))):
        at = draw.randrange(len(found) + 1)
        end = min(len(found), at + draw.choice((1, 1, 2, 8, 40)))
        match draw.randrange(7):
            case 0 if at < len(found):
                found[at] ^= 1 << draw.randrange(8)
            case 1 if at < len(found):
                found[at] = draw.choice(b'"\\[]{},:0123456789eE.-+/=\x00\n \xff\xc3')
            case 2:
                found.insert(at, draw.choice(b'"\\[]{},:0 \n\x00\xef') if at % 2 else at % 256)
            case 3:
                del found[at:end]
            case 4:
                found[at:at] = found[at:end] * draw.choice((1, 2, 300))
            case 5:
                found[at:end] = other[at:end]
            case _ if at < len(found):
                found[at:] = found[at:][::-1] if at % 2 else b""
    return bytes(found)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of each value in a document, its own first."""
    yield path
    if isinstance(value, dict | list):
        steps = value.items() if isinstance(value, dict) else enumerate(value)
        for step, inner in steps:
            yield from places(inner, (*path, step))


ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**53 - 1, "", "0", "0" * 64, "x" * 5000, [], {}, [[]], "\u0000",
    "public/summary", "NOT_REPLAYABLE_AT_TIER", "2026-03-01T12:00:00+00:00", "\U0001f600",
    10**6, {"a": 1}, [1, 2, 3], ["int", "x"], ["int", "5"], ["text", "zz"], ["absent"],
    ["unobserved", "why"],
)  # fmt: skip


def altered(document: Any, draw: random.Random, places: list[tuple[Any, ...]]) -> Any:
    """The document with one place dropped, doubled, swapped, moved, nested or made another."""
    path = draw.choice(places)
    if not path:
        return draw.choice((document, [document], {"payload": document}))
    try:
        parent: Any = document
        for step in path[:-1]:
            parent = parent[step]
        value = parent[path[-1]]
        parent[path[-1]] = value
    except (LookupError, TypeError):
        return document  # an earlier change took the place away
    match draw.randrange(7):
        case 0:
            del parent[path[-1]]
        case 1 if isinstance(parent, list):
            parent.insert(draw.randrange(len(parent) + 1), copy.deepcopy(value))
        case 2 if isinstance(parent, list):
            draw.shuffle(parent)
        case 3 if isinstance(value, str) and value:
            at = draw.randrange(len(value))
            parent[path[-1]] = value[:at] + draw.choice("aA0+/= é") + value[at + 1 :]
        case 4 if isinstance(value, int):
            parent[path[-1]] = value + draw.choice((-1, 1, 1000))
        case 5:
            for _ in range(draw.choice((1, 3, 200))):
                value = [value]
            parent[path[-1]] = value
        case _:
            parent[path[-1]] = copy.deepcopy(draw.choice(ODD))
    return document


Maker = Callable[[random.Random, tuple[Seed, ...]], Iterator[Mutant]]


def of_bytes(draw: random.Random, known: tuple[Seed, ...]) -> Iterator[Mutant]:
    """Without end: one file of a bundle, or its zip, with other bytes."""
    zips = [Sealed(seed.files).archive() for seed in known]
    while True:
        of, other = draw.randrange(len(known)), draw.randrange(len(known))
        files = known[of].files
        file = ZIP if draw.randrange(8) == 0 else draw.choice(sorted(files))
        was = zips[of] if file == ZIP else files[file]
        beside = zips[other] if file == ZIP else known[other].files.get(file, b"")
        data = changed(was, draw, beside)
        if data != was:
            yield Mutant(of, {file: data})


def of_structure(draw: random.Random, known: tuple[Seed, ...]) -> Iterator[Mutant]:
    """Without end: one document with another structure, in canonical form."""
    while True:
        of = draw.randrange(len(known))
        file = draw.choice(v.FILES)
        data = restructured(known[of].files[file], draw)
        if data is not None and data != known[of].files[file]:
            yield Mutant(of, {file: data})


def restructured(data: bytes, draw: random.Random) -> bytes | None:
    """The document with one to four places altered; None where it has no canonical form."""
    document = json.loads(data)
    where = list(places(document))
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        document = altered(document, draw, where)
    try:
        return write(document)
    except (ValueError, RecursionError):
        return None


def outcome_of(make: Maker, count: int, seed: int) -> Outcome:
    """The outcome of so many mutants by `verify.py`."""
    known, outcome = seeds(), Outcome()
    trusts = [v.read_trust(seed.trust) for seed in known]
    for mutant in islice(make(random.Random(seed), known), count):
        files = {**known[mutant.of].files, **mutant.change}
        status, seconds = judged(files, trusts[mutant.of])
        outcome.statuses[status] += 1
        outcome.slowest_seconds = max(outcome.slowest_seconds, seconds)
    return outcome
