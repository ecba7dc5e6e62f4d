"""Mistakes of a contract that show over a state before, whatever the state after will be.

A run may add types, fields and, where the source's form says no types, other kinds of values; what
a contract says of them is an error only if the state after lacks them, too. So a contract is bound
to the schema of the state before, and to several in which every name that the contract has is a
type or field: a problem that all of them have lies with the contract alone.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any, Final

from statediff.contract.file import ContractFile
from statediff.errors import ContractError, Problem
from statediff.kernel.contracts import compile_contract, schema_of
from statediff.model.readings import Capture
from statediff.model.schema import EntityType, Field, Kind, Schema

_NAME: Final = re.compile(r'"(?:[^"\\]|\\.)+"|\w+(?:\.\w+)*')
_KEYS: Final = ((), ("id",), ("id", "id_"))
"""How rows that nobody has seen may be named."""


def binding_error(
    file: ContractFile, before: Capture, *, untyped: Collection[str] = ()
) -> ContractError | None:
    """The `ContractError` that every judgement over the state before raises; None without one.

    `untyped` are the sources whose types both states of a run decide.
    """
    schema = schema_of(before)
    certain = _problems(file, schema)
    for other in _wider(file, before, schema, untyped) if certain else ():
        known = {_place(problem) for problem in _problems(file, other)}
        certain = [problem for problem in certain if _place(problem) in known]
    return ContractError(tuple(certain)) if certain else None


def _problems(file: ContractFile, schema: Schema) -> list[Problem]:
    try:
        compile_contract(file, schema)
    except ContractError as error:
        return list(error.problems)
    return []


def _place(problem: Problem) -> tuple[int, int, str]:
    """The place in the contract that it is about; its hint may name what only one schema has."""
    return problem.line, problem.column, problem.message


def _wider(
    file: ContractFile, before: Capture, schema: Schema, untyped: Collection[str]
) -> Iterator[Schema]:
    """Schemas that the state before may have together with a state after."""
    written = set(_names(file.source.value))
    names = {*written, *(part for name in written for part in name.split("."))}
    tables = {name: each for part in before.parts for name, each in part.state.tables.items()}
    open_ = {name for source in untyped for name in _types_of(before, source)}
    for key in _KEYS:
        types = [
            _untyped(each, None if tables[each.name].row_count else key)
            if each.name in open_ and each.name in tables
            else replace(each, is_open=True)
            for each in schema.types
        ]
        types += [_untyped(EntityType(name, (), ()), key) for name in names - schema.by_name.keys()]
        yield replace(schema, types=tuple(sorted(types, key=lambda each: each.name)))


def _names(value: Any) -> Iterator[str]:
    """All that may name a type or field: each text of the document, and each word in one."""
    if isinstance(value, dict | list):
        for inner in (*value, *value.values()) if isinstance(value, dict) else value:
            yield from _names(inner)
    elif isinstance(value, str):
        yield from (value, value.partition(" ")[2])  # `create Order Details`
        for word in _NAME.findall(value):
            yield word.strip('"')


def _types_of(before: Capture, source: str) -> Iterator[str]:
    for part in before.parts:
        if part.reading.source == source:
            yield from part.state.schema.by_name


def _untyped(entity: EntityType, key: tuple[str, ...] | None) -> EntityType:
    """The type with fields of any kind, and another key unless that is None."""
    named = entity.key if key is None else key
    fields = {name: Field(name, Kind.ANY) for name in (*entity.by_name, *named)}
    return replace(entity, key=named, fields=tuple(fields.values()), is_open=True)
