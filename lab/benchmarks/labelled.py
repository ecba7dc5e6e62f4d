"""The labelled study: what was registered, the blind packets, and the labels as they came.

    python -m lab.benchmarks.labelled register FOLDER  draws the sample from FOLDER/agent-diff, bfcl
                                                      and tau2, cuts its runs out of them into
                                                      fixtures/study/runs, writes the registration
    python -m lab.benchmarks.labelled packets TARGET A B  blind packets of two passes: TARGET/A, /B
    python -m lab.benchmarks.labelled dispute TARGET C  a blind packet of what the passes differ on
    python -m lab.benchmarks.labelled collect TARGET  the labels of all passes, as the study reads
                                                      them: fixtures/study/labels

The sample is drawn before a label exists. No packet holds a verdict, a published result, a contract
or the name of a run.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from statediff_lab.importers.recorded import BadLine, Suite, open_suite, read_lines
from statediff_lab.labels import Label
from statediff_lab.statistics.draws import lot
from statediff_lab.study.importing import contracts_digest, population
from statediff_lab.study.passes import (
    MAX_REASON,
    GivenLabel,
    LabelFile,
    Labeller,
    Part,
    labelling,
)
from statediff_lab.study.planning import (
    PlannedRun,
    Registration,
    draw,
    read_registration,
)

from lab.benchmarks.labelled_text import run_text
from statediff.kernel import KERNEL

ROOT: Final = Path(__file__).parents[2]
STUDY: Final = ROOT / "fixtures" / "study"
RUNS: Final = STUDY / "runs"
LABELS: Final = STUDY / "labels"
REGISTERED: Final = STUDY / "registration.json"
INSTRUCTIONS: Final = STUDY / "instructions.md"
SUITES: Final = ("agent-diff", "bfcl", "tau2")
SEED: Final = 20261124
WITHIN: Final = "0.0875"
EXPECTED: Final = "0.9"
PER_FILE: Final = 25
EVALUATORS: Final = (
    "official",
    "final-text",
    "per-turn",
    "assertions",
    "raw-equality",
    "contract-diff",
    "statediff",
    "without-canonicalization",
    "without-labels",
    "without-evidence",
    "without-frame",
)
MEASURES: Final = (
    "agreement of the two passes, and Cohen's kappa, by domain",
    "agreement: the verdict is the settled label's, among correct and incorrect runs",
    "false acceptance: MATCH among incorrect runs",
    "false rejection: DIVERGE among correct runs",
    "inconclusive: INCONCLUSIVE among all runs; MATCH among unresolvable ones",
    (
        "each by domain with a 95 % interval of a bootstrap over tasks and runs, 2,000 resamples, "
        "seed 0; nothing is pooled over domains"
    ),
    "what each ablation gets wrong that the whole judge gets right",
)
PROTOCOL: Final = {
    "who": "two passes that neither wrote a contract nor saw one, each by a language model in a "
    "session of its own; no times are taken; this is no study with people",
    "what they see": "task, policy, calls and replies, what is recorded of the state before, and "
    "the recorded differences of state as text; no verdict, no published result, no contract, no "
    "name of a run, of an agent or of a stratum; each pass has an order of its own",
    "label": "pass is correct, fail is incorrect, cannot say is unresolvable; a reason in one "
    "sentence and a class of failure",
    "settling": "what both say alike is settled; the rest is read a third time by a language model "
    "that had seen the registration and both reasons without names, and no verdict; before that "
    "reading it counts as unresolvable",
    "left out": "no drawn run is left out; a run that an evaluator cannot judge is counted",
    "sample": "of each domain a share of what was published as passed and as failed, in "
    "proportion, so that shares need no weights; of BFCL the runs are made ones of the category "
    "base, right or wrong by how they were made",
}


# ---------------------------------------------------------------- registration


def register(folder: Path) -> Registration:
    """The registration of the sample of these cases; its runs are cut out into `RUNS`."""
    everything = [run for name in SUITES for run in population(open_suite(name, folder / name))]
    strata, sample = draw(everything, Fraction(WITHIN), Fraction(EXPECTED), SEED)
    cut(folder, sample)
    instructions = hashlib.sha256(INSTRUCTIONS.read_bytes()).hexdigest()
    found = Registration(
        seed=SEED,
        within=WITHIN,
        expected=EXPECTED,
        contracts=contracts_digest({name: opened(name) for name in SUITES}, sample),
        kernel=str(KERNEL),
        evaluators=EVALUATORS,
        measures=MEASURES,
        protocol={
            **PROTOCOL,
            "instructions": f"fixtures/study/instructions.md, SHA-256 {instructions}",
        },
        strata=strata,
        sample=sample,
    )
    REGISTERED.write_bytes(found.written())
    return found


@lru_cache
def opened(name: str) -> Suite:
    """The cut-out suite."""
    return open_suite(name, RUNS / name)


def cut(folder: Path, sample: Sequence[PlannedRun]) -> None:
    """The drawn runs, line by line as they were, with what their suites need and the licenses."""
    shutil.rmtree(RUNS, ignore_errors=True)
    drawn = {(each.domain, each.digest) for each in sample}
    for name in SUITES:
        suite, target = open_suite(name, folder / name), RUNS / name
        kept = {file.path for file in suite.files}
        for path in sorted((folder / name).rglob("*")):
            if path.is_file() and path not in kept and _is_needed(path):
                place = target / path.relative_to(folder / name)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(path.read_bytes())
        for file in suite.files:
            place = target / file.path.relative_to(folder / name)
            place.parent.mkdir(parents=True, exist_ok=True)
            lines = _lines_of(f"{name} {file.domain}", file.path, drawn)
            data = b"".join(line + b"\n" for line in lines)
            place.write_bytes(gzip.compress(data, mtime=0) if place.suffix == ".gz" else data)
    _keep_tasks(sample)


def _is_needed(path: Path) -> bool:
    """No mutants, no other judges, no suite without runs."""
    left = ("mutants", "llm_judge", "slack")
    return not any(word in path.name for word in left)


def _lines_of(domain: str, path: Path, drawn: set[tuple[str, str]]) -> list[bytes]:
    lines = [line.data for line in read_lines(path) if not isinstance(line, BadLine)]
    return [data for data in lines if (domain, hashlib.sha256(data).hexdigest()) in drawn]


def _keep_tasks(sample: Sequence[PlannedRun]) -> None:
    """Only tasks that a drawn run is of: how the others begin is known from their runs."""
    for domain in sorted({each.domain for each in sample}):
        suite, _, name = domain.partition(" ")
        wanted = {each.task for each in sample if each.domain == domain}
        if suite == "bfcl":
            path = RUNS / suite / "tasks" / f"{name}.jsonl"
            lines = [json.loads(each) for each in path.read_text("utf-8").splitlines()]
            kept = [each for each in lines if each["id"] in wanted]
            path.write_text("".join(f"{json.dumps(each)}\n" for each in kept), "utf-8")
        path = RUNS / suite / f"tasks_{name}.json.gz"
        if suite == "tau2" and path.exists():
            known = json.loads(gzip.decompress(path.read_bytes()))
            kept = [each for each in known if each["task_id"] in wanted]
            path.write_bytes(gzip.compress(json.dumps(kept).encode(), mtime=0))


# ---------------------------------------------------------------- packets


def recorded_lines() -> dict[tuple[str, str], Mapping[str, Any]]:
    """Every cut-out run as it was recorded, by domain and name."""
    return {
        (f"{name} {file.domain}", str(raw["run_id"])): raw
        for name in SUITES
        for file in opened(name).files
        for line in read_lines(file.path)
        if not isinstance(line, BadLine)
        for raw in [json.loads(line.data)]
    }


def blind_names(registration: Registration, reviewer: str) -> dict[str, PlannedRun]:
    """What each run is called in a reviewer's packet, in the reviewer's order."""
    order = registration.order_of(reviewer)
    return {f"{reviewer}-{number:03}": run for number, run in enumerate(order, 1)}


def packets(target: Path, reviewers: Sequence[str]) -> None:
    """A folder for each reviewer, with files of at most `PER_FILE` runs."""
    registration = read_registration(REGISTERED.read_bytes())
    lines = recorded_lines()
    for reviewer in reviewers:
        texts = [
            f"=== RUN {name}\n{run_text(run.domain, lines[run.domain, run.run], RUNS)}"
            for name, run in blind_names(registration, reviewer).items()
        ]
        _write_packet(target / reviewer, texts)
    shutil.copyfile(INSTRUCTIONS, target / "INSTRUCTIONS.md")
    for policy in sorted((STUDY / "policies").iterdir()):
        shutil.copyfile(policy, target / f"POLICY-{policy.name}")


def _write_packet(folder: Path, texts: Sequence[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, at in enumerate(range(0, len(texts), PER_FILE), 1):
        whole = "\n\n".join(texts[at : at + PER_FILE])
        (folder / f"runs-{number:02}.txt").write_text(f"{whole}\n", "utf-8")


# ---------------------------------------------------------------- labels

SAID: Final = {"pass": Label.CORRECT, "fail": Label.INCORRECT, "cannot say": Label.UNRESOLVABLE}
MODEL: Final = "a language model in a session of its own; its name and version were not recorded"
SAW: Final = {
    Part.PASS: "instructions.md, the policies and the packet that `packets` writes, nothing else",
    Part.SETTLING: "the same of each run that the passes differ on, and both reasons without "
    "names; had seen the registration, how packets are made, and no verdict",
}


def answers(target: Path, reviewer: str, registration: Registration) -> LabelFile | None:
    """The labels in the reviewer's answers; None where there are none yet."""
    path = target / reviewer / "answers.jsonl"
    if not path.exists():
        return None
    part = Part.SETTLING if (target / reviewer / "disputed.json").exists() else Part.PASS
    named = blind_names(registration, reviewer)
    labels = []
    for line in path.read_text("utf-8").splitlines():
        if not line.strip():
            continue
        said = json.loads(line)
        run = named[said["id"]]
        given = GivenLabel(
            domain=run.domain,
            run=run.run,
            label=SAID[said["label"]],
            kind=str(said["class"]),
            reason=str(said["reason"])[:MAX_REASON],
        )
        labels.append(given)
    return LabelFile(
        registration=registration.digest,
        name=reviewer,
        part=part,
        by=Labeller.MODEL,
        version=MODEL,
        saw=SAW[part],
        labels=tuple(labels),
    )


def collect(target: Path) -> list[LabelFile]:
    """The labels of every folder of the target, checked against each other and written."""
    registration = read_registration(REGISTERED.read_bytes())
    names = sorted(each.name for each in target.iterdir() if each.is_dir())
    files = [found for name in names if (found := answers(target, name, registration))]
    labelling(registration, files)
    LABELS.mkdir(exist_ok=True)
    for file in files:
        (LABELS / f"{file.name}.json").write_bytes(file.written())
    return files


def dispute(target: Path, reviewer: str) -> int:
    """The runs that two passes label otherwise, with both reasons; gives how many there are."""
    registration = read_registration(REGISTERED.read_bytes())
    passes = [p for name in ("A", "B") if (p := answers(target, name, registration))]
    found = labelling(registration, passes)
    lines, texts = recorded_lines(), []
    said = [{(e.domain, e.run): e for e in each.labels} for each in passes]
    words = {label: word for word, label in SAID.items()}
    for name, run in blind_names(registration, reviewer).items():
        key = (run.domain, run.run)
        both = [each[key] for each in said if key in each]
        if len(both) == 2 and both[0].label is both[1].label:
            continue
        both.sort(key=lambda e: lot(registration.seed, "reason", e.reason))
        reasons = [f"ONE READER: {words[e.label]} ({e.kind}): {e.reason}" for e in both]
        text = run_text(run.domain, lines[key], RUNS)
        texts.append("\n".join([f"=== RUN {name}", text, *reasons]))
    _write_packet(target / reviewer, texts)
    (target / reviewer / "disputed.json").write_text(f"{len(texts)}\n", "utf-8")
    if found.missing:
        print(f"{found.missing} runs have no label")
    return len(texts)


def main() -> None:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("register", "packets", "collect", "dispute"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    asked = parser.parse_args()
    if asked.what == "register":
        found = register(asked.folder)
        print(f"{len(found.sample)} runs, {found.digest}")
    elif asked.what == "packets":
        packets(asked.folder, asked.names)
    elif asked.what == "collect":
        for file in collect(asked.folder):
            print(f"{file.name}: {len(file.labels)} labels, {file.digest}")
    else:
        print(f"{dispute(asked.folder, asked.names[0])} runs to settle")


if __name__ == "__main__":
    main()
