"""Every single item of evidence is taken away, and no verdict may become MATCH, or stay it unseen.

`python -m lab.benchmarks.removals [CONTRACT...] --cases 6 --items 40 -j 2`: the right runs of each
contract and a few seeded ones are judged anew, each time

- without one reading (its source was not read), or without one type of it, before or after:
  a MATCH must become INCONCLUSIVE, unless the type lies outside the boundary so that no clause
  asks for it; no other verdict may become MATCH;
- without one item of the bundle, the manifest made to agree as a forger would: the replay must
  refuse it, or say the same.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

from statediff_lab.study.cases import seed_cases

from statediff.capture.take import unobserved_state
from statediff.contract.file import load_contract
from statediff.errors import BundleError, StatediffError
from statediff.evidence.leaf_partition import pieces
from statediff.kernel import compile_contract, replay, schema_of
from statediff.meta.cases import read_cases
from statediff.meta.reference import Reference, with_state
from statediff.meta.stage_cases import bundle_of, without_item
from statediff.model.readings import Capture, SourceCapture
from statediff.model.state import MemoryChunks, State
from statediff.model.verdict import Verdict
from statediff.parallel import work_through
from statediff.suite.campaign import SandboxPool
from statediff.workspace.contracts import contract_paths
from statediff.workspace.installed import served_tasks
from statediff.workspace.references import live_references


def removed(run: Reference) -> Iterator[tuple[str, str, Reference]]:
    """(what was removed, its type or nothing, the run without it): each reading, each type."""
    for side, capture in (("before", run.before), ("after", run.after)):
        for at, part in enumerate(capture.parts):
            place = f"{side}/{part.reading.source}"
            yield place, "", _with(run, side, capture, at, _unread(part))
            for name, table in part.state.tables.items():
                tables = {**part.state.tables, name: table.unobserved("withheld")}
                dark = with_state(part, State(part.state.schema, tables))
                yield f"{place}/{name}", name, _with(run, side, capture, at, dark)


def _with(run: Reference, side: str, capture: Capture, at: int, part: SourceCapture) -> Reference:
    parts = tuple(part if n == at else each for n, each in enumerate(capture.parts))
    if side == "after":
        return run.with_parts(parts)
    return replace(run, before=replace(capture, parts=parts))


def _unread(part: SourceCapture) -> SourceCapture:
    dark = unobserved_state(part.state.schema, MemoryChunks(), "withheld", part.state)
    return SourceCapture(
        replace(part.reading, is_complete=False, digest=None, cause="withheld"), dark
    )


def swept(run: Reference, items: int, draw: random.Random, found: Counter[str]) -> list[str]:
    """What went wrong: no line if every removal was noticed where it had to be."""
    try:
        was = run.judged().verdict
    except StatediffError:
        return []  # the seed made a run that the contract does not fit
    contract = compile_contract(run.contract, schema_of(run.before, run.after)).contract
    found[was.value] += 1
    wrong = []
    for place, name, less in removed(run):
        try:
            now = less.judged().verdict
        except StatediffError:
            found["readings refused"] += 1
            continue
        found[f"readings {was.value} to {now.value}"] += 1
        is_outside = bool(name) and contract.excluded(name, "") is not None
        if now is Verdict.MATCH and not (was is Verdict.MATCH and is_outside):
            wrong.append(f"{was.value} without {place} is MATCH")
    whole = bundle_of(run)
    places = [piece.path for piece in pieces(whole) if not piece.path.endswith("#")]
    for place in draw.sample(places, min(items, len(places))):
        try:
            now = replay(without_item(whole, place)).verdict
        except BundleError:
            found["items refused"] += 1
            continue
        found["items not read, verdict unchanged"] += 1
        if now is not was:
            wrong.append(f"{was.value} without {place} is {now.value}")
    return wrong


def swept_contract(cases: int, items: int, seed: int, path: Path) -> tuple[Counter[str], list[str]]:
    """What was counted of the contract's right runs and so many seeded ones, and what was wrong."""
    found: Counter[str] = Counter()
    wrong: list[str] = []
    file, beside = load_contract(path), read_cases(path.parent)
    draw = random.Random(f"{seed} {file.digest}")
    with closing(SandboxPool()) as pool:
        right = tuple(live_references(file, path, beside.references, pool))
    seeded = [c.run for c in seed_cases(right[:1], seed, beside.argued, 1) if c.fault]
    for run in (*right, *draw.sample(seeded, min(cases, len(seeded)))):
        lines = swept(run, items, draw, found)
        wrong += (f"{file.content.contract}, {run.name}: {line}" for line in lines)
    return found, wrong


def main(arguments: Sequence[str]) -> int:
    """The sweep, its counts printed; 1 if a removal went unnoticed."""
    parser = argparse.ArgumentParser(prog="python -m lab.benchmarks.removals", description=__doc__)
    parser.add_argument("contracts", nargs="*", metavar="CONTRACT")
    parser.add_argument("--cases", type=int, default=6, help="seeded cases of each contract")
    parser.add_argument("--items", type=int, default=40, help="items of each bundle")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-j", "--jobs", type=int, default=1, help="processes")
    asked = parser.parse_args(arguments)
    paths = contract_paths(asked.contracts or [f.name for f in served_tasks()])
    work = partial(swept_contract, asked.cases, asked.items, asked.seed)
    done = work_through(work, paths, asked.jobs, _told)
    counts = sum((found for found, _ in done), Counter[str]())
    wrong = [line for _, lines in done for line in lines]
    sys.stdout.write(f"contracts: {len(paths)}\n")
    sys.stdout.write("".join(f"{name}: {count}\n" for name, count in sorted(counts.items())))
    sys.stdout.write("".join(f"WRONG {line}\n" for line in wrong))
    return bool(wrong)


def _told(path: Path, done: tuple[Counter[str], list[str]]) -> None:
    found, wrong = done
    counts = ", ".join(f"{name}: {count}" for name, count in sorted(found.items()))
    sys.stderr.write(f"{path.parent.parent.name}/{path.parent.name}: {counts}\n")
    sys.stderr.write("".join(f"WRONG {line}\n" for line in wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
