"""`capture`, `diff` and `judge`: states that are at hand, read, compared and judged, offline."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from statediff.cli.options import ContractArgument, JsonFlag, SchemaFileOption, StatePair
from statediff.cli.output import emit, progress, results, shown
from statediff.errors import UsageError

if TYPE_CHECKING:
    from statediff.model.readings import Capture

CAPTURE = "statediff/capture/1"


def capture(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME=]STATE...", help="Plain JSON tables or SQLite files; `-` is stdin."
        ),
    ],
    schema: SchemaFileOption = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write the state as plain JSON tables."),
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Read states: print what was found, or write it as plain JSON tables."""
    from statediff.workspace.inputs import one_capture, refinements

    captured = one_capture(sources, refinements(schema))
    summary = _summary(captured)
    if out is not None:
        _write_tables(captured, out)
    if as_json:
        emit({**summary, "out": None if out is None else str(out)})
        return 0
    from statediff.reports.tables import capture_report

    results().print(capture_report(summary))
    if out is not None:
        progress().print(f"written: {out}", soft_wrap=True)
    return 0


def _summary(captured: Capture) -> dict[str, Any]:
    return {
        "schema": CAPTURE,
        "sources": [
            {
                "source": part.reading.source,
                "digest": part.reading.digest,
                "is_complete": part.reading.is_complete,
                "cause": part.reading.cause,
                "entities": part.state.entity_count,
                "types": [
                    {
                        "type": name,
                        "key": list(table.type.key),
                        "entities": table.row_count,
                        "coverage": table.enumeration.coverage.value,
                        "cause": table.enumeration.cause or None,
                    }
                    for name, table in sorted(part.state.tables.items())
                ],
            }
            for part in captured.parts
        ],
    }


def _write_tables(captured: Capture, out: Path) -> None:
    """`{type: [record, …]}` in `out`, whole or not at all; schema objects are left out.

    Absent fields are left out. `UsageError` where a type was not read completely, for the file
    would say that nothing else is there, or where two sources deliver one type.
    """
    from statediff.model.schema import SCHEMA_OBJECT_PREFIXES
    from statediff.model.values import ABSENT
    from statediff.reports.plain import dumps, plain
    from statediff.workspace.folders import write_file

    tables: dict[str, list[Any]] = {}
    for part in captured.parts:
        for name, table in part.state.tables.items():
            if name.startswith(SCHEMA_OBJECT_PREFIXES):
                continue
            if not table.enumeration.is_complete:
                raise UsageError(
                    f"{name} was not read completely ({table.enumeration.cause}); "
                    "JSON tables cannot say so, so nothing was written"
                )
            if name in tables:
                raise UsageError(
                    f"two sources deliver {name}; write each source to a file of its own"
                )
            tables[name] = [
                {field: plain(value) for field, value in row.items() if value is not ABSENT}
                for _, row in table.rows()
            ]
    lines = [
        f'"{name}": [\n' + ",\n".join(dumps(row) for row in rows) + "\n]"
        for name, rows in sorted(tables.items())
    ]
    write_file(out, ("{" + ",\n".join(lines) + "}\n").encode())


def diff(states: StatePair, schema: SchemaFileOption = None, as_json: JsonFlag = False) -> int:
    """Show what changed between two states, without a contract; the exit code is 0."""
    from statediff.evaluate.comparing import compare
    from statediff.workspace.inputs import capture_pair, refinements

    found = compare(*capture_pair(states.before, states.after, refinements(schema)))
    if as_json:
        from statediff.reports.plain import plain_diff

        emit(plain_diff(found))
    else:
        from statediff.reports.tables import diff_report

        results().print(diff_report(found))
    return 0


@dataclass(frozen=True, kw_only=True)
class AgentRecord:
    """What is known of the run between the two states."""

    answer: Annotated[
        Path | None, typer.Option("--answer", metavar="FILE", help="The agent's answer, JSON.")
    ] = None
    trace: Annotated[
        Path | None,
        typer.Option(
            "--trace",
            metavar="FILE",
            help="The agent's calls: JSON lines, a log of statediff's, or OpenTelemetry.",
        ),
    ] = None
    complete_trace: Annotated[
        bool,
        typer.Option(
            "--complete-trace", help="The trace holds every call, and the agent did not write it."
        ),
    ] = False


def judge(
    contract: ContractArgument,
    states: StatePair,
    during: Annotated[
        list[str] | None,
        typer.Option(
            "--during",
            metavar="[NAME=]STATE",
            help="Every state a source was in between, in order: one option a state. "
            "Name the state after itself if there was none.",
        ),
    ] = None,
    schema: SchemaFileOption = None,
    *,
    record: AgentRecord,
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
    from statediff.cli.suites.reporting import tell_no_page
    from statediff.evaluate import TrialFacts, evaluate, exit_code
    from statediff.workspace import folders
    from statediff.workspace.contracts import contract_file
    from statediff.workspace.inputs import answer_from, capture_pair, refinements, trace_from
    from statediff.workspace.pages import keep_trial_report

    file = contract_file(contract)
    folders.require_writable(out or folders.BUNDLES)
    refined = refinements(schema, file.content.sandbox)
    captures = capture_pair(states.before, states.after, refined, during or ())
    evaluated = evaluate(
        file,
        *captures,
        trace=trace_from(record.trace, record.complete_trace),
        answer=answer_from(record.answer),
        facts=TrialFacts("offline", agent="unknown", isolation="unknown"),
    )
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
