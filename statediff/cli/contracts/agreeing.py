"""`agree`: two contracts for one task, and the runs on which they differ."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from statediff.cli.output import JsonFlag
from statediff.cli.recordedoptions import After, Answer, Before
from statediff.workspace.references import recorded_run

if TYPE_CHECKING:
    from statediff.evaluate import ContractFile
    from statediff.meta.agree import Agreement, Opinion
    from statediff.meta.reference import Reference

AGREE: Final = "statediff/agree/1"


def agree(  # noqa: PLR0913, PLR0917 — one argument an option
    a: Annotated[
        str, typer.Argument(metavar="A", help="Contract file, its folder, or a pack's name.")
    ],
    b: Annotated[str, typer.Argument(metavar="B", help="Another contract for the same task.")],
    agents: Annotated[
        list[str] | None,
        typer.Option(
            "--agent", metavar="AGENT",
            help="An agent of A's folder to run [default: every one in its cases.yaml].",
        ),
    ] = None,
    before: Before = None,
    after: After = None,
    answer: Answer = None,
    sample: Annotated[
        int,
        typer.Option(
            "--sample", metavar="N", min=0, help="Seeded faults of each run that gets MATCH."
        ),
    ] = 20,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Picks the faults.")] = 0,
    as_json: JsonFlag = False,
) -> int:  # fmt: skip
    """Say on which runs two contracts for one task differ, and by which clauses; 1 if on any.

    Both judge the runs of the task's agents, right and wrong, or a recorded run, and seeded faults.
    """
    from statediff.cli.output import emit
    from statediff.errors import UsageError
    from statediff.evaluate import load_contract
    from statediff.meta.agree import agreement, with_faults
    from statediff.workspace.contracts import contract_path

    path = contract_path(a)
    one, two = load_contract(path), load_contract(contract_path(b))
    if bool(before) != bool(after) or (before and agents) or (answer is not None and not before):
        raise UsageError("a recorded run is --before and --after, maybe --answer, and no --agent")
    with ExitStack() as stack:
        if before and after:
            runs = [recorded_run(one, before, after, answer)]
        else:
            runs = list(_live(one, path, agents, stack))
        found = agreement(one, two, with_faults(runs, seed, sample))
    if as_json:
        emit(_document(found))
    else:
        _print(found)
    return 1 if found.differing else 0


def _live(
    file: ContractFile, path: Path, agents: list[str] | None, stack: ExitStack
) -> Iterator[Reference]:
    from statediff.meta.cases import read_cases
    from statediff.workspace.references import live_references

    names = tuple(agents or read_cases(path.parent).agents)
    return live_references(file, path, names, {}, stack)


# ---------------------------------------------------------------- rendering


def _document(found: Agreement) -> dict[str, Any]:
    return {
        "schema": AGREE,
        "a": found.a,
        "b": found.b,
        "cases": len(found.cases),
        "agree": len(found.cases) - len(found.differing),
        "differ": [
            {
                "case": case.case,
                "sentence": case.sentence,
                "a": _opinion(case.a),
                "b": _opinion(case.b),
            }
            for case in found.differing
        ],
        "clauses_of_a": dict(found.deciding(of_a=True)),
        "clauses_of_b": dict(found.deciding(of_a=False)),
    }


def _opinion(opinion: Opinion) -> dict[str, Any]:
    return {
        "verdict": None if opinion.verdict is None else opinion.verdict.value,
        "clauses": list(opinion.clauses),
        "error": opinion.error or None,
    }


def _print(found: Agreement) -> None:
    from rich.text import Text

    from statediff.cli.output import results
    from statediff.reports.record import said

    agreed = len(found.cases) - len(found.differing)
    mark = "✘" if found.differing else "✔"
    lines = [f"{mark} {found.a} and {found.b} agree on {agreed} of {len(found.cases)} runs"]
    for case in found.differing:
        lines.append(f"  {said(case.case, 200)}: {said(case.sentence, 300)}")
        for name, opinion in (("A", case.a), ("B", case.b)):
            by = ", ".join(said(clause, 80) for clause in opinion.clauses)
            lines.append(f"    {name} {opinion.said}{f' by {by}' if by else ''}")
    for name, of_a in (("A", True), ("B", False)):
        deciding = ", ".join(f"{said(c, 80)} ({n})" for c, n in found.deciding(of_a))
        if deciding:
            lines.append(f"  clauses of {name} that decide: {deciding}")
    for line in lines:
        results().print(Text(line), soft_wrap=True)
