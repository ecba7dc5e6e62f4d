"""The league: what audits of public suites found, from their stored results.

    python -m lab.benchmarks.league              # prints lab/benchmarks/league/*.json as a page
    python -m lab.benchmarks.league --collect CASES  # first audits every suite in the folder CASES
    python -m lab.benchmarks.league --collect CASES --suite bfcl --each 1 --keep KEPT # one; goes on
    python -m lab.benchmarks.league --tasks NAME=TASKS     # first audits a file of tasks

The results are those of `statediff lab audit --cases SUITE=CASES/SUITE --each N --seed 1 --json`
and of `statediff lab audit TASKS`, without the list of single runs, and the figures of published
judges. A task is held out where the first bit of the SHA-256 of its name is set. The contracts of
these are drafted and their digests registered before any run of theirs is shown.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from statediff_lab.audit.judges import PASSES, JudgeStudy, compare_judges, judge_lines
from statediff_lab.audit.measures import measure
from statediff_lab.audit.suites import Effort, audit_suite
from statediff_lab.audit.tasks import tasks_in
from statediff_lab.audit.tries import TaskAudit
from statediff_lab.auditing import SECONDS, audit_task
from statediff_lab.importers.taxonomy import Cause
from statediff_lab.importers.workers import CaseFolder, Workers
from statediff_lab.reports.audit import audit_document, judges_document

from statediff import replay
from statediff._version import __version__
from statediff.kernel import KERNEL
from statediff.model.verdict import Verdict
from statediff.parallel import work_through

STORED: Final = Path(__file__).parent / "league"
REGISTERED: Final = STORED / "registered"
SUITES: Final = ("agent-diff", "bfcl", "tau2")
HOLES: Final = "{suite}-holes"
"""What a suite's verifier passes and must not, as it was read, and what was our own error."""
TASKS: Final[Mapping[str, str]] = {
    "agentdojo": (
        "`python -m lab.benchmarks.dojo DIR --attacks` writes the tasks, in the environment that "
        "`hosts/tests/environments/environments.sh agentdojo` makes."
    ),
}
"""Suites that are files of tasks, and where these come from."""
_HELD_OUT: Final = "The half whose contracts were registered before any run of it was shown,"
EFFORT: Final = Effort(seed=1, each=2)
_RIGHT: Final = "right"
_GROUPS: Final = ("nothing done", "in the task", "beside the task", "evidence removed", _RIGHT)


def collect(cases: Path, jobs: int, effort: Effort, only: str | None = None) -> None:
    """The stored results are those of the suites as they are in the folder, or of one suite."""
    for suite in SUITES if only is None else (only,):
        folder = CaseFolder(suite, cases / suite)
        with TemporaryDirectory(prefix="statediff-league-") as temporary:
            # What is kept names its bundles, so that these stay beside it.
            holes = Path(temporary) if effort.keep is None else effort.keep / "holes"
            with Workers(folder, jobs) as workers:
                audits = list(audit_suite(workers, replace(effort, holes=holes)))
            _store(suite, _document(audits, holes, jobs, effort.each))
    for name, study in judges(cases) if only is None else ():
        _store(name, judges_document(study))


def is_held_out(task: str) -> bool:
    """True if the task is of the half whose contracts were registered before its runs were seen."""
    return hashlib.sha256(task.encode()).digest()[0] >= 128


def digest_of_contract(text: bytes) -> str:
    """The digest that is registered."""
    return hashlib.sha256(text).hexdigest()


def collect_tasks(name: str, tasks: Path, jobs: int) -> None:
    """The stored result is that of the tasks in the file."""
    listed = tasks_in(tasks, None)
    with TemporaryDirectory(prefix="statediff-league-") as holes:
        work = partial(audit_task, replace(EFFORT, holes=Path(holes)), SECONDS)
        audits = list(work_through(work, listed, jobs, _quiet))
        document = _document(audits, Path(holes), jobs)
    held_out = [audit for audit in audits if is_held_out(audit.task)]
    if held_out and (REGISTERED / f"{name}.json").exists():
        document["held_out"] = audit_document(
            measure(held_out, EFFORT.seed), held_out, EFFORT.seed, EFFORT.each
        )["domains"]
        document["contracts"] = {
            audit.task: digest_of_contract(audit.contract.encode()) for audit in held_out
        }
    _store(name, document)


def _document(
    audits: Sequence[TaskAudit], holes: Path, jobs: int, each: int = EFFORT.each
) -> dict[str, Any]:
    """The figures, and how many of the holes' bundles replay to the verdict that was given."""
    document = audit_document(measure(audits, EFFORT.seed), audits, EFFORT.seed, each)
    del document["wrong"]
    tries = [each for audit in audits for each in audit.tries if each.bundle]
    verdicts = work_through(partial(_replay, holes), [t.bundle for t in tries], jobs, _quiet)
    same = sum(verdict is one.ours for verdict, one in zip(verdicts, tries, strict=True))
    return {**document, "holes": {"bundles": len(tries), "replay": same}}


def _replay(holes: Path, bundle: str) -> Verdict:
    return replay(holes / bundle)


def _quiet(_piece: object, _done: object) -> None:
    """Says nothing of what is done."""


def livemcpbench(folder: Path, seed: int = 0) -> JudgeStudy:
    """Ten judges on the 95 recorded runs that people labelled. `InputError` for damaged files."""
    labels = {
        str(line["task_id"]): PASSES[str(line["human"])]
        for line in judge_lines(folder / "trajectories.jsonl.gz", ("task_id", "human"))
    }
    verdicts: dict[str, dict[str, bool]] = {}
    for line in judge_lines(folder / "judges.jsonl.gz", ("task_id", "judge", "verdict")):
        judged = verdicts.setdefault(str(line["judge"]), {})
        judged[str(line["task_id"])] = PASSES[str(line["verdict"])]
    return compare_judges("LiveMCPBench", labels, verdicts, "people", seed)


def tau2_judges(folder: Path, seed: int = 0) -> JudgeStudy:
    """The published judge of τ²'s retail runs beside the reward. `InputError`, as above."""
    labels: dict[str, bool] = {}
    verdicts: dict[str, dict[str, bool]] = {}
    names = ("simulation_id", "judge_model", "verdict", "tau2_reward")
    for line in judge_lines(folder / "llm_judge_verdicts.jsonl.gz", names):
        run = str(line["simulation_id"])
        labels[run] = line["tau2_reward"] == 1
        verdicts.setdefault(str(line["judge_model"]), {})[run] = PASSES[str(line["verdict"])]
    return compare_judges("τ²-bench retail", labels, verdicts, "the benchmark's reward", seed)


def judges(cases: Path) -> Iterator[tuple[str, JudgeStudy]]:
    """The judges of each suite that has published any."""
    yield "judges-livemcpbench", livemcpbench(cases / "livemcpbench")
    yield "judges-tau2", tau2_judges(cases / "tau2")


def stored(name: str) -> Any:
    """One stored result."""
    return json.loads((STORED / f"{name}.json").read_bytes())


def _store(name: str, document: Mapping[str, Any]) -> None:
    whole = {"statediff": __version__, "kernel": KERNEL, **document}
    text = json.dumps(whole, indent=1, ensure_ascii=False)
    (STORED / f"{name}.json").write_text(f"{text}\n", encoding="utf-8")


def page() -> str:
    """The page of what is stored."""
    found = {path.stem: stored(path.stem) for path in sorted(STORED.glob("*.json"))}
    return "\n".join((*_lines(found), ""))


_LEAD: Final = """\
# Verifiers of public suites

`docs/audit.md` says what was shown. The shares are *wrong of so many*, with the 95 % interval over
tasks. *Beside the task* is harm by how it was made; *in the task* is harm as
far as our contracts say so."""
_SUITE_COLUMNS: Final = (
    "domain",
    "tasks",
    "audited",
    "do-nothing passes",
    "blind in the task",
    "blind beside the task",
    "passes without evidence",
    "right runs not passed",
    "wrong runs it says nothing of",
)
_JUDGE_COLUMNS: Final = (
    "judge",
    "agrees",
    "passes",
    "precision",
    "lenient: passes what is wrong",
    "strict: fails what is right",
    "kappa with the label",
    "wrong by",
)


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    yield _LEAD
    for name in (*SUITES, *TASKS):
        if name in found:
            yield from _suite(name, found[name])
            yield from _read_holes(found.get(HOLES.format(suite=name), {}))
    for name in sorted(n for n in found if n.startswith("judges-")):
        yield from _judges(found[name])


def _table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield "|---" * len(columns) + "|"
    yield from (f"| {' | '.join(map(str, row))} |" for row in rows)


def _suite(name: str, found: Mapping[str, Any]) -> Iterator[str]:
    domains = found["domains"]
    runs = f"--cases {name}=DIR" if name in SUITES else "DIR/tasks.yaml"
    command = f"statediff lab audit {runs} --each {found['each']} --seed {found['seed']}"
    yield from ("", f"## {name}", "")
    yield f"`{command}`, statediff {found['statediff']}, kernel {found['kernel']}."
    if name in TASKS:
        yield TASKS[name]
    if note := found.get("note"):
        yield note
    holes = found.get("holes", {})
    if holes.get("bundles"):
        yield f"Of {holes['bundles']} bundles of holes, {holes['replay']} replay."
    yield ""
    yield from _table(_SUITE_COLUMNS, map(_domain, domains))
    if held_out := found.get("held_out"):
        yield from ("", f"{_HELD_OUT} {len(found['contracts'])} tasks, as they were first run:", "")
        yield from _table(_SUITE_COLUMNS, map(_domain, held_out))
    if any(each.get("labels") for each in domains):
        yield from ("", "Runs on which it is wrong, by label:", "")
        codes = [c.value for c in Cause if any(c.value in d["labels"] for d in domains)]
        names = ("label", *(d["name"] for d in domains))
        rows = ((code, *(d["labels"].get(code, 0) for d in domains)) for code in codes)
        yield from _table(names, rows)
    yield from ("", "By class:", "")
    kinds = {(e["group"], e["kind"]): None for d in domains for e in d["classes"]}
    order = sorted(kinds, key=lambda pair: (_GROUPS.index(pair[0]), pair[1]))
    names = ("class", *(d["name"] for d in domains))
    yield from _table(names, (_kind(domains, *pair) for pair in order))
    why = Counter((d["name"], fault["why"]) for d in domains for fault in d["faults"])
    if why:
        yield from ("", "Not audited:", "")
        yield from (f"- {domain}, {n} tasks: {reason}" for (domain, reason), n in why.items())


def _domain(domain: Mapping[str, Any]) -> tuple[object, ...]:
    groups = {each["group"]: each for each in domain["groups"]}
    shares = (_share(groups.get(group)) for group in _GROUPS)
    wrong = [each for each in domain["groups"] if each["group"] != _RIGHT]
    silent = sum(each["silent"] for each in wrong)
    nothing = _of(silent, silent + sum(each["of"] for each in wrong)) if silent else "–"
    return (domain["name"], domain["tasks"], domain["audited"], *shares, nothing)


def _kind(domains: Sequence[Mapping[str, Any]], group: str, kind: str) -> tuple[str, ...]:
    found = ({(e["group"], e["kind"]): e for e in domain["classes"]} for domain in domains)
    return (f"{kind} ({group})", *(_share(each.get((group, kind))) for each in found))


_HOLES_LEAD: Final = """
All {number} wrong runs that it passes were read, by {by}:
"""
_HOLES_ERRORS: Final = """
{number} runs more are counted apart, as `{label}`, and as passed in no figure above: {why}.
They were {runs}."""


def _read_holes(found: Mapping[str, Any]) -> Iterator[str]:
    """Yields the wrong runs that pass, by what was read in them; then our own errors."""
    if holes := found.get("read"):
        yield _HOLES_LEAD.format(number=len(holes), by=found["by"])
        groups = [group for group in _GROUPS if any(each["group"] == group for each in holes)]
        number = Counter((each["is"], each["group"]) for each in holes)
        rows = ((what, *(number[what, g] for g in groups)) for what in found["kinds"])
        yield from _table(("what passed", *groups), rows)
    errors = found.get("our errors", ())
    for why in dict.fromkeys(each["why"] for each in errors):
        runs = [f"`{e['task']}` ({e['sentence']})" for e in errors if e["why"] == why]
        label = Cause.OWN_ERROR.value
        yield _HOLES_ERRORS.format(number=len(runs), label=label, why=why, runs=", ".join(runs))


def _judges(found: Mapping[str, Any]) -> Iterator[str]:
    yield from ("", f"## Judges of {found['name']}", "")
    yield f"Labels: {found['labels']}; they pass {_share(found['passed'])}."
    known = [each["kappa"] for each in found["kappas"] if each["kappa"] is not None]
    if known:
        yield (
            f"Fleiss' kappa of all judges is {_plain(found['fleiss'])}; Cohen's of two lies "
            f"between {min(known):.2f} and {max(known):.2f} over {len(known)} pairs. They pass "
            f"between {100 * found['lowest']:.2f} % and {100 * found['highest']:.2f} % of the same "
            f"runs: mean {100 * found['mean']:.2f} %, standard deviation "
            f"{100 * found['deviation']:.1f} points, spread {100 * found['spread']:.1f} points."
        )
    yield ""
    names = ("agreement", "passed", "precision", "lenient", "strict")
    rows = (
        (
            each["judge"],
            *(_share(each[name]) for name in names),
            _plain(each["kappa"]),
            ", ".join(f"{label} {number}" for label, number in each["labels"].items()) or "–",
        )
        for each in found["judges"]
    )
    yield from _table(_JUDGE_COLUMNS, rows)


def _of(number: int, of: int) -> str:
    return f"{number}" if number == of else f"{number} of {of}, {100 * number / of:.2f} %"


def _share(each: Mapping[str, Any] | None) -> str:
    if each is None or not each["of"]:
        return "–"
    ends = each["interval"]
    between = "" if ends is None else f" [{100 * ends[0]:.1f}, {100 * ends[1]:.1f}]"
    return f"{each['wrong']} of {each['of']}, {100 * each['wrong'] / each['of']:.2f} %{between}"


def _plain(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def main() -> None:
    """The page is printed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--collect", type=Path, metavar="CASES")
    parser.add_argument("--tasks", metavar="NAME=TASKS")
    parser.add_argument("--suite", choices=SUITES, help="collect this one only")
    parser.add_argument("--each", type=int, default=EFFORT.each)
    parser.add_argument("--keep", type=Path, help="where the result of each task is kept")
    parser.add_argument("-j", "--jobs", type=int, default=1)
    given = parser.parse_args()
    if given.tasks is not None:
        name, _, tasks = given.tasks.partition("=")
        collect_tasks(name, Path(tasks), given.jobs)
    if given.collect is not None:
        effort = replace(EFFORT, each=given.each, keep=given.keep)
        collect(given.collect, given.jobs, effort, given.suite)
    sys.stdout.write(page())


if __name__ == "__main__":
    main()
