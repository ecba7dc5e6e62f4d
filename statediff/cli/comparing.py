"""`capture` and `diff`: what a state is, and what changed, without a contract."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from statediff.cli.judging import After, Before, SchemaFileOption
from statediff.cli.output import JsonFlag

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
    from statediff.cli.output import emit, progress, results
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
    from statediff.errors import UsageError
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


def diff(
    before: Before,
    after: After,
    schema: SchemaFileOption = None,
    as_json: JsonFlag = False,
) -> int:
    """Show what changed between two states, without a contract; the exit code is 0."""
    from statediff.cli.output import emit, results
    from statediff.diff import diff as compare
    from statediff.resolve import resolve
    from statediff.workspace.inputs import capture_pair, refinements

    one, two = capture_pair(before, after, refinements(schema))
    resolution = resolve(one, two)
    matching = resolution.matchings[0]
    found = compare(
        matching.before, matching.after,
        evidence={name: (b, a) for name, b, a in resolution.readings_of},
    )  # fmt: skip
    if as_json:
        from statediff.reports.plain import plain_diff

        emit(plain_diff(found))
    else:
        from statediff.reports.tables import diff_report

        results().print(diff_report(found))
    return 0
