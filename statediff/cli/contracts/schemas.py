"""`schema`: the JSON Schema of each document that people or programs read and write."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Document(StrEnum):
    """The documents with a published schema."""

    CONTRACT = "contract"
    STATE = "state"
    JUDGEMENT = "judgement"


def schema(
    document: Annotated[Document, typer.Argument(metavar="contract|state|judgement")],
    as_json: Annotated[
        bool, typer.Option("--json", help="One line instead of an indented document.")
    ] = False,
) -> int:
    """Print the JSON Schema of a contract, a state schema file, or a judgement."""
    from statediff.cli.output import emit, emit_pretty
    from statediff.contract.document.jsonschema import contract_schema, state_schema_schema
    from statediff.reports.formats.published import judgement_schema

    made = {
        Document.CONTRACT: contract_schema,
        Document.STATE: state_schema_schema,
        Document.JUDGEMENT: judgement_schema,
    }[document]()
    (emit if as_json else emit_pretty)(made)
    return 0
