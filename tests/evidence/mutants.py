"""Mutants of sealed bundles: of their bytes, and of their structure in canonical form.

    python -m tests.evidence.mutants [BYTES] [STRUCTURES]

runs so many (by default a million and ten thousand) and says what came of them.
"""

from __future__ import annotations

import copy
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from statediff_lab.commands.conforming import read_vectors

from statediff.errors import BundleError
from statediff.evidence import verify as v
from statediff.evidence.canonical import write
from statediff.evidence.seal import Sealed

Files = Mapping[str, bytes]


_SIGNED = "\n\u2014 ".encode()


@cache
def seeds() -> tuple[tuple[str, Files, tuple[v.Signer, ...]], ...]:
    """Every public vector that is genuine, which is what mutants are made of.

    None with a time stamp: who signed that is seen with the authority's certificates alone. None
    with more signatures on a checkpoint than the log's two: those of strangers say nothing.
    """
    return tuple(
        (name, dict(files), v.read_trust(trust))
        for name, files, trust, expected in read_vectors()
        if expected != "INVALID"
        and v.STAMP not in files
        and files.get(v.PROOF, b"").count(_SIGNED) in (0, 2)
    )


@dataclass
class Outcome:
    """What became of mutants: how many of each status, the slowest, and those that went wrong."""

    statuses: Counter[str] = field(default_factory=Counter)
    slowest_seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)

    def note(self, name: str, status: str, seconds: float) -> None:
        """One mutant, judged."""
        self.statuses[status] += 1
        self.slowest_seconds = max(self.slowest_seconds, seconds)
        if status != "INVALID" and len(self.wrong) < 20:
            self.wrong.append(f"{name}: {status}")


def judged(what: Files | bytes, trust: tuple[v.Signer, ...]) -> str:
    """The status of a copy, given as its files or as a zip."""
    try:
        files = v.unzipped(what) if isinstance(what, bytes) else what
        return v.verify(files, trust).status
    except (v.Rejected, BundleError):
        return "INVALID"
    except Exception as error:  # noqa: BLE001 - that it is none of the two is what is looked for
        return f"uncaught {error!r}"


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


def of_bytes(count: int, seed: int) -> Outcome:
    """So many mutants of the bytes of a file or of the zip, none of them what it was."""
    draw, outcome = random.Random(seed), Outcome()
    while outcome.statuses.total() < count:
        name, files, trust = draw.choice(seeds())
        other = draw.choice(seeds())[1]
        if draw.randrange(8) == 0:
            whole = Sealed(files).archive()
            mutant: Files | bytes = changed(whole, draw, Sealed(other).archive())
            is_same = mutant == whole
        else:
            file = draw.choice(sorted(files))
            data = changed(files[file], draw, other.get(file, b""))
            mutant, is_same = {**files, file: data}, data == files[file]
        if not is_same:
            _judge(outcome, name, mutant, trust)
    return outcome


def of_structure(count: int, seed: int) -> Outcome:
    """So many mutants of the documents, written canonically: only their meaning is wrong."""
    draw, outcome = random.Random(seed), Outcome()
    while outcome.statuses.total() < count:
        name, files, trust = draw.choice(seeds())
        file = draw.choice(v.FILES)
        document = json.loads(files[file])
        where = list(places(document))
        for _ in range(draw.choice((1, 1, 1, 2, 4))):
            document = altered(document, draw, where)
        try:
            data = write(document)
        except (ValueError, RecursionError):
            continue
        if data != files[file]:
            _judge(outcome, name, {**files, file: data}, trust)
    return outcome


def _judge(outcome: Outcome, name: str, mutant: Files | bytes, trust: tuple[v.Signer, ...]) -> None:
    start = time.thread_time()  # the machine's other work is not the verifier's
    status = judged(mutant, trust)
    outcome.note(name, status, time.thread_time() - start)


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
            parent[path[-1]] = draw.choice(ODD)
    return document


def main(bytes_: int = 1_000_000, structures: int = 10_000) -> int:
    """What became of so many mutants, printed; 1 if one was accepted, uncaught or slow."""
    failed = False
    for name, run, count in (("bytes", of_bytes, bytes_), ("structure", of_structure, structures)):
        found = run(count, 7)
        failed |= bool(found.wrong) or found.slowest_seconds >= 1
        sys.stdout.write(
            f"{name}: {count} mutants, {dict(found.statuses)}, slowest "
            f"{1000 * found.slowest_seconds:.0f} ms of CPU {found.wrong}\n"
        )  # fmt: skip
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
