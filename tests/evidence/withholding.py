"""Generated trials from whose bundles leaves are withheld: no verdict may become another.

    python -m tests.evidence.withholding [TRIALS]

Twice over: as redaction does it, where the copy says NOT_REPLAYABLE_AT_TIER; and as a forger would,
who takes elements out of the files and makes the manifest agree, so that only the replay can tell.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
from collections import Counter
from collections.abc import Collection
from typing import Any

from statediff.errors import BundleError, ContractError, NotReplayable
from statediff.evidence import verify as v
from statediff.evidence.canonical import write
from statediff.evidence.leaf_partition import pieces
from statediff.evidence.package import Bundle
from statediff.evidence.seal import opened, redact, seal
from statediff.kernel import replay
from tests.growing_logs import ADA, NOON, TRUST
from tests.judging import CUT, DARK, run, state

FORBID = (
    "{delete: user}", "{create: item, where: 'it.n > 4'}", "{update: user, fields: [role]}",
    "{that: 'any(u.role == \"admin\" for u in after.user)'}",
    "{that: 'count(i for i in after.item) > 3'}", "{create: item, count: {min: 3}}",
)  # fmt: skip
REQUIRE = (
    "{create: item, count: {min: 1}}", "{update: item, where: 'it.id == 1'}",
    "{create: item, where: 'it.owner.role == \"user\"', count: {min: 1, max: 3}}",
    "{that: 'all(i.n >= 0 for i in after.item)'}", "{that: 'exists(after.user[2])'}",
    "{that: 'sum(i.n for i in after.item) >= sum(i.n for i in before.item)'}",
)  # fmt: skip
ALLOW = ("{create: item}", "{update: item}", "{delete: item}", "{update: user, fields: [name]}")


def bundle(draw: random.Random) -> Bundle:
    """The bundle of a random trial; its contract means something, for it is judged."""
    while True:
        lines = []
        for section, clauses in (("forbid", FORBID), ("require", REQUIRE), ("allow", ALLOW)):
            chosen = draw.sample(clauses, draw.randint(section != "allow", 2))
            lines += [f"{section}:", *(f"  - {clause}" for clause in chosen)] if chosen else []
        before = _rows(draw)
        after = {name: list(rows) for name, rows in before.items()}
        for _ in range(draw.randint(0, 3)):
            _changed(draw, after)
        coverage = {
            name: draw.choice((CUT, DARK)) for name in ("user", "item") if draw.random() < 0.12
        }
        try:
            return run("\n".join(lines), before, state(after, coverage)).bundle
        except ContractError:
            continue  # two clauses that contradict each other, or one that decides nothing


def _rows(draw: random.Random) -> dict[str, list[dict[str, Any]]]:
    users = [
        {"id": n, "name": f"u{n}", "role": draw.choice(("user", "admin", "user"))}
        for n in range(1, draw.randint(1, 3) + 1)
    ]
    items = [
        {"id": n, "n": draw.randint(0, 6), "t": "a", "owner": draw.choice(users)["id"]}
        for n in range(1, draw.randint(0, 3) + 1)
    ]
    return {"user": users, "item": items}


def _changed(draw: random.Random, after: dict[str, list[dict[str, Any]]]) -> None:
    rows = after[draw.choice(("item", "item", "user"))]
    is_item = rows is after["item"]
    match draw.randrange(3):
        case 0 if is_item:
            number = max((row["id"] for row in rows), default=0) + 1
            rows.append({"id": number, "n": draw.randint(0, 6), "t": "b", "owner": 1})
        case 1 if len(rows) > 1:
            del rows[draw.randrange(len(rows))]
        case _ if rows:
            at = draw.randrange(len(rows))
            field, value = draw.choice(
                [("n", draw.randint(0, 6)), ("t", "c")] if is_item
                else [("role", "admin"), ("name", "x")]
            )  # fmt: skip
            rows[at] = {**rows[at], field: value}
        case _:
            pass


def without(whole: Bundle, gone: Collection[str]) -> Bundle:
    """The bundle without the elements at these places, its manifest made to agree."""
    files = dict(whole.files)
    places: dict[str, list[list[Any]]] = {}
    for path in gone:
        name, _, pointer = path.partition("#")
        steps = [int(s) if s.isdigit() else s for s in pointer.split("/")[1:]]
        places.setdefault(name, []).append(steps)
    for name, all_steps in places.items():
        document = json.loads(files[name])
        for steps in sorted(all_steps, key=lambda steps: steps[-1], reverse=True):
            holder = document
            for step in steps[:-1]:
                holder = holder[step]
            del holder[steps[-1]]
        files[name] = write(document)
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())}
    return Bundle({**whole.manifest, "files": digests}, files)


def check(draw: random.Random, found: Counter[str]) -> None:
    """One trial: any one leaf, some twos and larger sets; `AssertionError` for another verdict."""
    whole = bundle(draw)
    verdict = whole.manifest["verdict"]
    found[verdict] += 1
    sealed = seal(whole, draw.randbytes(32), NOON, ADA.public, ADA.sign)
    verified = v.verify(sealed.files, TRUST)
    every = [leaf.path for leaf in verified.leaves]
    elements = [piece.path for piece in pieces(whole) if not piece.path.endswith("#")]
    for gone in _choices(draw, every):
        copy = v.verify(
            redact(sealed, verified, lambda leaf, g=gone: leaf.path not in g).files, TRUST
        )
        assert copy.status == "NOT_REPLAYABLE_AT_TIER", gone
        found["withheld"] += 1
        try:
            opened(copy)
        except NotReplayable:
            continue
        raise AssertionError(f"a copy without {gone} was opened")
    for gone in _choices(draw, elements):
        try:
            again = replay(without(whole, gone)).verdict.value
        except BundleError:  # NotReplayable among them
            found["refused"] += 1
            continue
        found["same verdict"] += 1
        assert again == verdict, f"{verdict} became {again} without {gone}"


def _choices(draw: random.Random, paths: list[str]) -> list[frozenset[str]]:
    twos = [frozenset(draw.sample(paths, 2)) for _ in range(8) if len(paths) > 1]
    more = [frozenset(draw.sample(paths, draw.randint(1, len(paths)))) for _ in range(4)]
    return [*(frozenset([path]) for path in paths), *twos, *more]


def main(trials: int = 2_000) -> int:
    """So many trials, and what came of them, printed."""
    found: Counter[str] = Counter()
    for number in range(trials):
        check(random.Random(number), found)
        if number % 100 == 99:
            sys.stderr.write(f"{number + 1} {dict(found)}\n")
    sys.stdout.write(f"{trials} trials: {dict(sorted(found.items()))}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
