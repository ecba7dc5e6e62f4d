"""`judge`: a contract, a state before and a state after, offline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from statediff.cli.output import JsonFlag

Before = Annotated[
    list[str],
    typer.Option(
        "--before", metavar="[NAME=]STATE",
        help="State before: plain JSON tables or a SQLite file; once a source.",
    ),
]  # fmt: skip
After = Annotated[
    list[str],
    typer.Option("--after", metavar="[NAME=]STATE", help="State after, for the same sources."),
]
During = Annotated[
    list[str] | None,
    typer.Option(
        "--during", metavar="[NAME=]STATE",
        help="Every state a source was in between, in order: one option a state. "
        "Name the state after itself if there was none.",
    ),
]  # fmt: skip
SchemaFileOption = Annotated[
    Path | None, typer.Option("--schema", metavar="FILE", help="State schema file.")
]


def judge(  # noqa: PLR0913, PLR0917 — one argument an option
    contract: Annotated[
        str, typer.Argument(metavar="CONTRACT", help="Contract file, its folder, or a pack's name.")
    ],
    before: Before,
    after: After,
    during: During = None,
    schema: SchemaFileOption = None,
    answer: Annotated[
        Path | None, typer.Option("--answer", metavar="FILE", help="The agent's answer, JSON.")
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            "--trace",
            metavar="FILE",
            help="The agent's calls: JSON lines, a log of statediff's, or OpenTelemetry.",
        ),
    ] = None,
    complete_trace: Annotated[
        bool,
        typer.Option(
            "--complete-trace", help="The trace holds every call, and the agent did not write it."
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Folder for the bundle [default: .statediff/bundles/CONTRACT-DIGEST].",
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Judge two states under a contract, offline, and keep the bundle."""
    from statediff.cli.output import emit, results, shown
    from statediff.cli.suites.reporting import tell_no_page
    from statediff.evaluate import TrialFacts, evaluate, exit_code
    from statediff.workspace import folders
    from statediff.workspace.contracts import contract_file
    from statediff.workspace.inputs import answer_from, capture_pair, refinements, trace_from
    from statediff.workspace.pages import keep_trial_report

    file = contract_file(contract)
    folders.require_writable(out or folders.BUNDLES)
    refined = refinements(schema, file.content.sandbox)
    captures = capture_pair(before, after, refined, during or ())
    evaluated = evaluate(
        file, *captures, trace=trace_from(trace, complete_trace), answer=answer_from(answer),
        facts=TrialFacts("offline", agent="unknown", isolation="unknown"),
    )  # fmt: skip
    folder = out or folders.bundle_folder(evaluated.bundle)
    folders.keep_bundle(evaluated.bundle, folder)
    page = keep_trial_report(evaluated.bundle, folder, tell_no_page)
    if as_json:
        from statediff.reports.plain import plain_judgement

        emit(plain_judgement(evaluated.bundle, shown(folder)))
    else:
        from statediff.reports.text import trial_report

        console = results()
        console.print(trial_report(evaluated.bundle))
        console.print(f"bundle: {shown(folder)}", soft_wrap=True)
        if page is not None:
            console.print(f"report: {shown(page)}", soft_wrap=True)
    return exit_code([evaluated.judgement.verdict])
