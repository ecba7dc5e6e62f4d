"""The state schema file: logical names and promises laid over what a source's catalogue says.

`parse_schema_file` reads the file and checks what can be checked without a catalogue;
`refinement.refine` lays it over one. A file may serve several sources and is applied to one of
them at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from statediff.contract.document.load import read_bytes
from statediff.contract.document.schema import (
    StateSchemaDocument,
)
from statediff.contract.yaml.reader import Document, NodePath, read_document
from statediff.contract.yaml.shape import shaped
from statediff.errors import ContractError, Problem
from statediff.model.schema import SCHEMA_OBJECT_PREFIXES


@dataclass(frozen=True)
class SchemaFile:
    """A state schema file, read and checked as far as it can be without a catalogue."""

    document: Document
    content: StateSchemaDocument


def load_schema_file(path: Path) -> SchemaFile:
    """The state schema in a file. `UsageError`: no readable file; `ContractError`: no schema."""
    return parse_schema_file(read_bytes(path), str(path))


def parse_schema_file(data: bytes, file: str) -> SchemaFile:
    """The state schema in `data`; `file` is the name used in messages."""
    with _PARSING:  # whoever starts many sandboxes at once asks for the same one many times
        return _parsed(data, file)


_PARSING: Final = Lock()


@lru_cache(maxsize=16)
def _parsed(data: bytes, file: str) -> SchemaFile:
    document = read_document(data, file)
    content = shaped(document, StateSchemaDocument)
    if problems := tuple(_standing_alone(document, content)):
        raise ContractError(problems)
    return SchemaFile(document, content)


def zone_exists(name: str) -> bool:
    """Whether `name` is UTC or in the time zone database."""
    try:
        return name == "UTC" or bool(ZoneInfo(name).key)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # OSError: a folder such as `America`
        return False


def _standing_alone(document: Document, content: StateSchemaDocument) -> Iterator[Problem]:
    for name, entity in content.entities.items():
        at: NodePath = ("entities", name)
        if name.startswith(SCHEMA_OBJECT_PREFIXES) and entity.table not in (None, name):
            yield document.problem(
                at,
                f"expected a name of your own, found `{name}`: names that begin with "
                f"{' or '.join(f'`{p}`' for p in SCHEMA_OBJECT_PREFIXES)} are reserved",
                code="reserved-name",
                at_key=True,
            )
        for field_name, field in entity.fields.items():
            if field.zone is not None and not zone_exists(field.zone):
                yield document.problem(
                    (*at, "fields", field_name, "zone"),
                    f"expected a zone of the time zone database, found `{field.zone}`",
                    code="unknown-zone",
                    hint="e.g. UTC or Europe/Paris",
                )
            if field.optional and field.type is None:
                yield document.problem(
                    (*at, "fields", field_name, "optional"),
                    f"expected `type` with `optional`, found none for `{name}.{field_name}`: "
                    "no catalogue says what a column holds that is not there",
                    code="missing-type",
                    hint="e.g. `type: int`",
                )
        if entity.key not in (None, "none") and len(set(entity.key or ())) < len(entity.key or ()):
            yield document.problem(
                (*at, "key"),
                "expected each field once in a key, found one twice",
                code="duplicate-field",
            )
