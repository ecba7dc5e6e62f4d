"""Mutants of sealed bundles before three verifiers: ours, that in JavaScript, the independent one.

    python -m tests.evidence.agreement [BYTES] [STRUCTURES] [SIGNED] [BESIDE] [SEED]

changes so many bundles in their bytes, in the structure of a document, in the structure of what is
then signed again by a key that is trusted, and in which leaves there are, signed again too: rows
beside the fragments, arrays of other lengths than the files say. Each verifier refuses the first
two kinds and the last. Of what is signed again much is genuine, since its owner may say what he
likes: of these the three must say the same. The independent one, which is the slowest, sees each of
what is signed again and every tenth of the other kinds.
"""

from __future__ import annotations

import base64
import importlib
import json
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from statediff.evidence import verify as v
from statediff.evidence.canonical import write
from statediff.evidence.keys import SigningKey, trust_entry
from statediff.evidence.seal import enveloped
from tests.evidence.mutants import (
    ZIP,
    Files,
    Maker,
    Mutant,
    Outcome,
    Seed,
    judged,
    of_bytes,
    of_structure,
    places,
    restructured,
    seeds,
)

HERE: Final = Path(__file__).parent
BATCH: Final = 200
THIRD_SEES: Final = 10
"""The independent verifier sees one in so many of the mutants that nobody signed."""
KEY: Final = SigningKey(Ed25519PrivateKey.from_private_bytes(b"agreement of three verifiers key"))
RITA: Final = Ed25519PrivateKey.from_private_bytes(bytes(range(4, 36)))
ENTRIES: Final = [trust_entry("own", KEY.public, ["evaluator"]),
                  trust_entry("Rita", SigningKey(RITA).public, ["observer"])]  # fmt: skip
OWN_TRUST: Final = write({"format": v.TRUST, "keys": ENTRIES})


def signed_seeds() -> tuple[Seed, ...]:
    """Those without a proof, which speaks of the envelope, under our own trust file."""
    return tuple(
        Seed(seed.name, _signed(seed.files, seed.files["manifest.json"]), OWN_TRUST)
        for seed in seeds()
        if set(seed.files) == set(v.FILES)
    )


def of_signed(draw: random.Random, known: tuple[Seed, ...]) -> Iterator[Mutant]:
    """Without end: a manifest or a leaf that is another, with all that follows, signed anew."""
    while True:
        of = draw.randrange(len(known))
        files = known[of].files
        if draw.randrange(3) == 0:
            manifest = restructured(files["manifest.json"], draw)
            if manifest is not None and manifest != files["manifest.json"]:
                yield Mutant(of, _signed(files, manifest))
            continue
        leaves = json.loads(files["leaves.json"])
        if not leaves["disclosed"]:
            continue
        at = draw.randrange(len(leaves["disclosed"]))
        leaf = restructured(v.canonical(leaves["disclosed"][at]), draw)
        if leaf is not None:
            leaves["disclosed"][at] = json.loads(leaf)
            try:
                yield Mutant(of, _sealed_again(files, leaves))
            except (ValueError, RecursionError, v.Rejected):
                continue


def of_beside(draw: random.Random, known: tuple[Seed, ...]) -> Iterator[Mutant]:
    """Without end: leaves that no file has, or files that have no such leaves, signed anew."""
    while True:
        of = draw.randrange(len(known))
        files = known[of].files
        copy = Copy(json.loads(files["manifest.json"])["tree"]["tags"], files["leaves.json"])
        if copy.rests and draw.choice(BESIDE)(copy, draw):
            leaves = {"disclosed": copy.leaves, "withheld": sorted(copy.withheld)}
            yield Mutant(of, _sealed_again(files, leaves, copy.tags))


class Copy:
    """The leaves of a copy, to be changed, and how many of each tag there are."""

    def __init__(self, tags: dict[str, int], data: bytes) -> None:
        document = json.loads(data)
        self.tags, self.withheld = tags, document["withheld"]
        self.leaves: list[Any] = document["disclosed"]
        self.at = {leaf[2][0]: leaf for leaf in self.leaves}
        self.rests = [name for name, cut in v.PIECES.items() if cut and f"{name}#" in self.at]

    def cut(self, draw: random.Random) -> tuple[str, list[Any]]:
        """A file whose rest is there, and one of its [pointer, length]."""
        name = draw.choice(self.rests)
        return name, draw.choice(self.at[f"{name}#"][2][1][1])

    def add(self, path: str, draw: random.Random, tag: str = "") -> None:
        """One leaf more, like one of its file, which the copy discloses or withholds."""
        name = path.partition("#")[0]
        like = draw.choice([leaf for at, leaf in self.at.items() if at.startswith(f"{name}#")])
        leaf = [tag or like[0], f"{draw.getrandbits(128):032x}", [path, like[2][1]]]
        self.tags[leaf[0]] = self.tags.get(leaf[0], 0) + 1
        if draw.randrange(3):
            self.leaves.append(leaf)
        else:
            self.withheld.append(v.leaf_hash(v.canonical(leaf)).hex())


def _behind(copy: Copy, draw: random.Random) -> bool:
    name, (pointer, length) = copy.cut(draw)
    copy.add(f"{name}#{pointer}/{length + draw.choice((0, 0, 1, 7, 1000))}", draw)
    return True


def _moved(copy: Copy, draw: random.Random) -> bool:
    name, (pointer, length) = copy.cut(draw)
    found = copy.at.get(f"{name}#{pointer}/{draw.randrange(length)}") if length else None
    if found is not None:
        number = draw.choice((length, length + 3, f"0{length - 1}", "-1", "x", ""))
        found[2][0] = f"{name}#{pointer}/{number}"
    return found is not None


def _in_no_array(copy: Copy, draw: random.Random) -> bool:
    name, (pointer, _) = copy.cut(draw)
    other = draw.choice(("/7/rows", "/00/rows", "/0", "", "/0/scans", f"{pointer}/0", "/more"))
    copy.add(f"{name}#{other}/{draw.randrange(3)}", draw)
    return True


def _of_no_file(copy: Copy, draw: random.Random) -> bool:
    name, _ = copy.cut(draw)
    leaf = copy.at[f"{name}#"]
    other = draw.choice(("notes.json", f"{name}.bak", "counterexample.json"))
    kind = other.partition(".")[0]
    path = draw.choice((f"{other}#", f"{other}#/0/rows/0"))
    tag = f"{draw.choice(v.TIERS)}/{kind}"
    copy.leaves.append([tag, f"{draw.getrandbits(128):032x}", [path, leaf[2][1]]])
    copy.tags[tag] = copy.tags.get(tag, 0) + 1
    return True


def _of_another_length(copy: Copy, draw: random.Random) -> bool:
    _, cut = copy.cut(draw)
    cut[1] += draw.choice((1, 2, -1)) if cut[1] else 1
    return True


def _in_the_rest(copy: Copy, draw: random.Random) -> bool:
    name, (pointer, length) = copy.cut(draw)
    array: Any = copy.at[f"{name}#"][2][1][0]
    for step in pointer.split("/")[1:]:
        array = (
            array[int(step)]
            if isinstance(array, list) and int(step) < len(array)
            else (array.get(step) if isinstance(array, dict) else None)
        )
    if not isinstance(array, list):
        return False  # it is in a piece
    found = copy.at.get(f"{name}#{pointer}/{length - 1}")
    array.append({} if found is None else found[2][1])
    if found is not None and draw.randrange(2):  # counted anew, as somebody does who covers it up
        copy.leaves.remove(found)
        copy.tags[found[0]] -= 1
        if not copy.tags[found[0]]:
            del copy.tags[found[0]]
        next(cut for cut in copy.at[f"{name}#"][2][1][1] if cut[0] == pointer)[1] -= 1
    return True


def _cut_elsewhere(copy: Copy, draw: random.Random) -> bool:
    name, _ = copy.cut(draw)
    document, cuts = copy.at[f"{name}#"][2][1]
    known = {pointer for pointer, _ in cuts}
    empty = ["/" + "/".join(map(str, path)) for path in places(document) if path]
    cuts.insert(0, [draw.choice([each for each in empty if each not in known] or ["/more"]), 0])
    return True


def _of_another_matching(copy: Copy, draw: random.Random) -> bool:
    if copy.withheld or not {"index.json#", "captures.json#", "resolution.json#"} <= copy.at.keys():
        return False
    index, captures, resolution = (
        copy.at[f"{name}.json#"][2][1][0] for name in ("index", "captures", "resolution")
    )
    array = draw.choice((index, captures["enumerations"], resolution["mappings"]))
    array.append([] if array is not index else copy.at["index.json#"][2][1][0][0])
    return True


BESIDE: Final = (
    _behind, _behind, _moved, _in_no_array, _of_no_file, _of_another_length, _in_the_rest,
    _cut_elsewhere, _of_another_matching,
)  # fmt: skip


def _sealed_again(
    files: Files, leaves: dict[str, Any], tags: dict[str, int] | None = None
) -> Files:
    """The bundle of these leaves, in order, under their own root; with other tags, if any."""
    manifest = json.loads(files["manifest.json"])
    if tags is not None:
        manifest["tree"].update(tags=tags, leaves=sum(tags.values()))
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
        self._sending: threading.Thread | None = None
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

    def ask(self, batch: list[Mutant]) -> Callable[[], list[str]]:
        """It begins to judge these; calling what is returned waits for what it says of each."""
        lines = ({"of": mutant.of, "change": _text(mutant.change)} for mutant in batch)
        data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        if self._sending is not None:
            self._sending.join()  # what is asked first is answered first
        self._sending = threading.Thread(target=self._write, args=(data,))
        self._sending.start()

        def answers() -> list[str]:
            assert self._child.stdout is not None
            return [json.loads(self._child.stdout.readline()) for _ in batch]

        return answers

    def _send(self, what: dict[str, Any]) -> None:
        self._write(json.dumps(what).encode() + b"\n")

    def _write(self, data: bytes) -> None:
        assert self._child.stdin is not None
        self._child.stdin.write(data)
        self._child.stdin.flush()


def independent(known: tuple[Seed, ...]) -> Callable[[Mutant], str]:
    """The answers of the verifier that was written from the specification."""
    place = str(HERE / "independent")
    sys.path.insert(0, place)
    try:
        run = importlib.import_module("verifier.run")
        trust = importlib.import_module("verifier.trust")
        sealed = importlib.import_module("verifier.sealed")
        refused = importlib.import_module("verifier.basics").Refused
        answer = importlib.import_module("verifier.answer")
    finally:
        sys.path.remove(place)
    trusts = [trust.read_trust(seed.trust) for seed in known]

    def status(mutant: Mutant) -> str:
        files = {**known[mutant.of].files, **mutant.change}
        try:
            copy = sealed.read_zip(files[ZIP]) if ZIP in files else files
            return str(answer.verify(copy, trusts[mutant.of])[1])
        except refused:
            return "INVALID"
        except run.FAULTS as error:
            return f"uncaught {error!r}"

    return status


class Panel:
    """The three verifiers, each in a process that lives on, before the mutants of some bundles."""

    def __init__(self, known: tuple[Seed, ...], second: JavaScript) -> None:
        self._known, self._second, self._third = known, second, independent(known)
        self._trusts = [v.read_trust(seed.trust) for seed in known]

    def compare(
        self, mutants: Iterator[Mutant], count: int, every: int, say: Callable[[str], None]
    ) -> Outcome:
        """The outcome of the first `count`, of which the third sees one in `every`.

        While those in Python judge, the other goes ahead.
        """
        outcome = Outcome()
        asked: tuple[list[Mutant], Callable[[], list[str]]] | None = None
        for batch in (*_batches(mutants, count), []):
            following = (batch, self._second.ask(batch))
            if asked is not None:
                ours = [self._judged(mutant, at % every == 0) for at, mutant in enumerate(asked[0])]
                for mutant, said, theirs in zip(asked[0], ours, asked[1](), strict=True):
                    self._note(outcome, mutant, {**said, "verify.mjs": theirs}, say)
            asked = following
        return outcome

    def _judged(self, mutant: Mutant, is_for_third: bool) -> dict[str, str]:
        files = {**self._known[mutant.of].files, **mutant.change}
        said = {"verify.py": judged(files, self._trusts[mutant.of])[0]}
        return {**said, "third": self._third(mutant)} if is_for_third else said

    def _note(
        self,
        outcome: Outcome,
        mutant: Mutant,
        answers: Mapping[str, str],
        say: Callable[[str], None],
    ) -> None:
        outcome.statuses[answers["verify.py"]] += 1
        if len(set(answers.values())) > 1:
            outcome.differences.append(f"{self._known[mutant.of].name}: {answers}")
            say(f"{outcome.differences[-1]} {_text(mutant.change)}")


def _batches(mutants: Iterator[Mutant], count: int) -> Iterator[list[Mutant]]:
    for first in range(0, count, BATCH):
        yield list(islice(mutants, min(BATCH, count - first)))


def _text(files: Files) -> dict[str, str]:
    return {name: _text64(data) for name, data in files.items()}


def _text64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def run_all(
    bytes_: int, structures: int, signed: int, beside: int, seed: int, say: Callable[[str], None]
) -> dict[str, Outcome]:
    """The outcome of each kind."""
    plain, own = seeds(), signed_seeds()
    kinds: tuple[tuple[str, Maker, tuple[Seed, ...], int, int], ...] = (
        ("beside", of_beside, own, beside, 1),
        ("signed again", of_signed, own, signed, 1),
        ("structure", of_structure, plain, structures, THIRD_SEES),
        ("bytes", of_bytes, plain, bytes_, THIRD_SEES),
    )
    found = {}
    for kind, make, known, count, every in kinds:
        with JavaScript(known) as second:
            mutants = make(random.Random(f"{seed} {kind}"), known)
            found[kind] = Panel(known, second).compare(mutants, count, every, say)
    return found


def main(
    bytes_: int = 1_000_000,
    structures: int = 100_000,
    signed: int = 30_000,
    beside: int = 100_000,
    seed: int = 7,
) -> int:
    """Prints what became of them; 1 if verifiers differ, or one accepts what nobody signed."""

    def say(line: str) -> None:
        sys.stderr.write(f"{line}\n")

    found = run_all(bytes_, structures, signed, beside, seed, say)
    failed = False
    for name, outcome in found.items():
        failed |= bool(outcome.differences)
        failed |= name != "signed again" and not set(outcome.statuses) <= {"INVALID"}
        sys.stdout.write(
            f"{name}: {dict(outcome.statuses)}, {len(outcome.differences)} differences\n"
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:6])))
