"""Mutants of sealed bundles before three verifiers: ours, that in JavaScript, the independent one.

    python -m tests.evidence.agreement [BYTES] [STRUCTURES] [SIGNED] [SEED]

changes so many bundles in their bytes, in the structure of a document, and in the structure of what
is then signed again by a key that is trusted. The first two kinds are refused by each verifier. Of
what is signed again much is genuine, since its owner may say what he likes: of these the three must
say the same.
"""

from __future__ import annotations

import base64
import importlib
import json
import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from statediff.cli.validity.conforming import read_vectors
from statediff.evidence import verify as v
from statediff.evidence.canonical import write
from statediff.evidence.keys import SigningKey
from statediff.evidence.seal import enveloped
from tests.evidence.mutants import altered, changed, judged, places

HERE: Final = Path(__file__).parent
BATCH: Final = 400
KEY: Final = SigningKey(Ed25519PrivateKey.from_private_bytes(b"agreement of three verifiers key"))
OWN_TRUST: Final = write({
    "format": v.TRUST,
    "keys": [{"name": "own", "key": KEY.public.hex(), "roles": ["evaluator"],
              "from": None, "until": None}],
})  # fmt: skip

Files = Mapping[str, bytes]


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
    """What became of mutants: how many of each status, and where two verifiers differ."""

    statuses: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)


def seeds() -> tuple[Seed, ...]:
    """The public vectors that are genuine; see `mutants.seeds` for those left out."""
    return tuple(
        Seed(name, dict(files), trust)
        for name, files, trust, expected in read_vectors()
        if expected != "INVALID"
        and v.STAMP not in files
        and files.get(v.PROOF, b"").count("\n\u2014 ".encode()) in (0, 2)
    )


def signed_seeds() -> tuple[Seed, ...]:
    """Those without a proof, which speaks of the envelope, under our own trust file."""
    return tuple(
        Seed(seed.name, _signed(seed.files, seed.files["manifest.json"]), OWN_TRUST)
        for seed in seeds()
        if set(seed.files) == set(v.FILES)
    )


def of_bytes(draw: random.Random, known: tuple[Seed, ...]) -> Iterator[Mutant]:
    """Without end: one file of a bundle with other bytes."""
    while True:
        of = draw.randrange(len(known))
        files = known[of].files
        file = draw.choice(sorted(files))
        data = changed(files[file], draw, draw.choice(known).files.get(file, b""))
        if data != files[file]:
            yield Mutant(of, {file: data})


def of_structure(draw: random.Random, known: tuple[Seed, ...]) -> Iterator[Mutant]:
    """Without end: one document with another structure, in canonical form."""
    while True:
        of = draw.randrange(len(known))
        file = draw.choice(v.FILES)
        data = _mutated(known[of].files[file], draw)
        if data is not None and data != known[of].files[file]:
            yield Mutant(of, {file: data})


def of_signed(draw: random.Random, known: tuple[Seed, ...]) -> Iterator[Mutant]:
    """Without end: a manifest or a leaf that is another, with all that follows, signed anew."""
    while True:
        of = draw.randrange(len(known))
        files = known[of].files
        if draw.randrange(3) == 0:
            manifest = _mutated(files["manifest.json"], draw)
            if manifest is not None and manifest != files["manifest.json"]:
                yield Mutant(of, _signed(files, manifest))
            continue
        leaves = json.loads(files["leaves.json"])
        if not leaves["disclosed"]:
            continue
        at = draw.randrange(len(leaves["disclosed"]))
        leaf = _mutated(v.canonical(leaves["disclosed"][at]), draw)
        if leaf is not None:
            leaves["disclosed"][at] = json.loads(leaf)
            try:
                yield Mutant(of, _sealed_again(files, leaves))
            except (ValueError, RecursionError, v.Rejected):
                continue


def _mutated(data: bytes, draw: random.Random) -> bytes | None:
    document = json.loads(data)
    where = list(places(document))
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        document = altered(document, draw, where)
    try:
        return write(document)
    except (ValueError, RecursionError):
        return None


def _sealed_again(files: Files, leaves: dict[str, Any]) -> Files:
    """The bundle of these leaves, in order, under their own root."""
    manifest = json.loads(files["manifest.json"])
    disclosed = sorted(map(v.canonical, leaves["disclosed"]), key=v.leaf_hash)
    hashes = [*map(v.leaf_hash, disclosed), *map(bytes.fromhex, leaves["withheld"])]
    manifest["tree"]["root"] = v.root(hashes)
    made = {**files, "leaves.json": v.leaves_file(disclosed, leaves["withheld"])}
    signed = _signed(made, write(manifest))
    return {"leaves.json": made["leaves.json"], **signed}


def _signed(files: Files, manifest: bytes) -> dict[str, bytes]:
    """All three files, the manifest signed by our key; the predicate as it was, if one was."""
    payload = json.loads(base64.b64decode(json.loads(files["envelope.json"])["payload"]))
    said = payload["predicate"] or None
    statement = v.statement(manifest, said, payload["predicateType"])
    envelope = enveloped(statement, KEY.public, KEY.sign)
    return {**files, "envelope.json": envelope, "manifest.json": manifest}


class JavaScript:
    """`verify.mjs` in a process of Node.js."""

    def __init__(self, known: tuple[Seed, ...]) -> None:
        self._child = subprocess.Popen(
            ["node", str(HERE / "agreement.mjs")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for at, seed in enumerate(known):
            self._send({"seed": at, "files": _text(seed.files), "trust": _text64(seed.trust)})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._child.kill()
        self._child.communicate()

    def statuses(self, batch: list[Mutant]) -> list[str]:
        """What it says of each."""
        sending = threading.Thread(target=self._send_all, args=(batch,))
        sending.start()
        stream = self._child.stdout
        assert stream is not None
        found = [json.loads(stream.readline()) for _ in batch]
        sending.join()
        return found

    def _send_all(self, batch: list[Mutant]) -> None:
        for mutant in batch:
            self._send({"of": mutant.of, "change": _text(mutant.change)})

    def _send(self, what: dict[str, Any]) -> None:
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps(what).encode() + b"\n")
        self._child.stdin.flush()


def independent(known: tuple[Seed, ...]) -> Callable[[Mutant], str]:
    """What the verifier that was written from the specification says."""
    place = str(HERE / "independent")
    sys.path.insert(0, place)
    try:
        run = importlib.import_module("verifier.run")
        trust = importlib.import_module("verifier.trust")
        refused = importlib.import_module("verifier.basics").Refused
        answer = importlib.import_module("verifier.answer")
    finally:
        sys.path.remove(place)
    trusts = [trust.read_trust(seed.trust) for seed in known]

    def status(mutant: Mutant) -> str:
        files = {**known[mutant.of].files, **mutant.change}
        try:
            return str(answer.verify(files, trusts[mutant.of])[1])
        except refused:
            return "INVALID"
        except run.FAULTS as error:
            return f"uncaught {error!r}"

    return status


def compare(
    mutants: Iterator[Mutant], known: tuple[Seed, ...], count: int, say: Callable[[str], None]
) -> Outcome:
    """So many mutants, before all three."""
    outcome, third = Outcome(), independent(known)
    trusts = [v.read_trust(seed.trust) for seed in known]
    with JavaScript(known) as second:
        while outcome.statuses.total() < count:
            size = min(BATCH, count - outcome.statuses.total())
            batch = [next(mutants) for _ in range(size)]
            for mutant, theirs in zip(batch, second.statuses(batch), strict=True):
                seed = known[mutant.of]
                ours = judged({**seed.files, **mutant.change}, trusts[mutant.of])
                answers = {"verify.py": ours, "verify.mjs": theirs, "third": third(mutant)}
                outcome.statuses[ours] += 1
                if len(set(answers.values())) > 1:
                    outcome.differences.append(f"{seed.name}: {answers}")
                    say(outcome.differences[-1])
    return outcome


def _text(files: Files) -> dict[str, str]:
    return {name: _text64(data) for name, data in files.items()}


def _text64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def run_all(
    bytes_: int, structures: int, signed: int, seed: int, say: Callable[[str], None]
) -> dict[str, Outcome]:
    """What became of each kind."""
    draw = random.Random(seed)
    plain, own = seeds(), signed_seeds()
    return {
        "bytes": compare(of_bytes(draw, plain), plain, bytes_, say),
        "structure": compare(of_structure(draw, plain), plain, structures, say),
        "signed again": compare(of_signed(draw, own), own, signed, say),
    }


def main(
    bytes_: int = 1_000_000, structures: int = 70_000, signed: int = 30_000, seed: int = 7
) -> int:
    """Prints what became of them; 1 if verifiers differ, or one accepts what nobody signed."""

    def say(line: str) -> None:
        sys.stderr.write(f"{line}\n")

    found = run_all(bytes_, structures, signed, seed, say)
    failed = False
    for name, outcome in found.items():
        failed |= bool(outcome.differences)
        failed |= name != "signed again" and set(outcome.statuses) != {"INVALID"}
        sys.stdout.write(
            f"{name}: {dict(outcome.statuses)}, {len(outcome.differences)} differences\n"
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
