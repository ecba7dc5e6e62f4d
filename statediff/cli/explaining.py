"""`explain`: a contract in English, for whoever owns the workflow to read and sign."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from statediff.cli.judging import SchemaFileOption
from statediff.cli.output import JsonFlag

EXPLAINED = "statediff/explanation/1"


class Format(StrEnum):
    """What an explanation can be written as."""

    TEXT = "text"
    MARKDOWN = "markdown"
    HTML = "html"


def explain(
    contract: Annotated[
        str, typer.Argument(metavar="CONTRACT", help="Contract file, its folder, or a pack's name.")
    ],
    schema: SchemaFileOption = None,
    before: Annotated[
        list[str] | None,
        typer.Option("--before", metavar="[NAME=]STATE", help="A state it speaks of."),
    ] = None,
    form: Annotated[
        Format, typer.Option("--format", help="The form to write.", metavar="text|markdown|html")
    ] = Format.TEXT,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write it there.")
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Explain a contract in English, clause by clause, with its boundary drawn.

    The types come from --before or --schema, or else from the contract's sandbox.
    """
    from statediff.cli.output import emit
    from statediff.contract.authoring.explain import explain as explained
    from statediff.errors import UsageError
    from statediff.evaluate import compile_contract, schema_of
    from statediff.reports.explained import RENDERERS
    from statediff.workspace.contracts import contract_file
    from statediff.workspace.folders import write_file
    from statediff.workspace.linting import States

    file = contract_file(contract)
    over, base = States(schema, before or []).of(file)
    if base is not None:
        over = schema_of(base)
    if over is None:
        raise UsageError(
            f"{file.source.file}: what its names mean is not known; give --before or --schema"
        )
    words = explained(file.source, compile_contract(file, over).contract)
    text = RENDERERS[form.value](words)
    if out is not None:
        write_file(out, text.encode())
    if as_json:
        emit(
            {
                "schema": EXPLAINED, "contract": words.name, "version": words.version,
                "format": form.value, "text": text,
                "clauses": [
                    {"id": line.id, "sentence": line.sentence, "because": line.because or None}
                    for section in words.sections for line in section.lines
                ],
            }
        )  # fmt: skip
    elif out is None:
        sys.stdout.write(text)
    return 0
