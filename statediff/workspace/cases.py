"""The cases of a contract: a file with inputs per row (JSON lines, CSV, TSV), or one by hand.

A column `case` names each row, unless the contract has an input of that name; then `case_id` does.
Rows without a name are numbered. A case becomes a contract of its own, `NAME/CASE`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from statediff.contract.authoring.cases import (
    Case,
    case_inputs,
    case_name,
    case_texts,
    input_of_text,
)
from statediff.contract.document.load import read_beside, read_bytes
from statediff.contract.file import ContractFile, load_contract, parse_contract
from statediff.contract.yaml.reader import Document
from statediff.errors import InputError, UsageError
from statediff.model.strictjson import Flaw, Limits, read_tree
from statediff.model.values import printable
from statediff.systems.tables.exports import delimited

MAX_BYTES: Final = 64 << 20
MAX_CASES: Final = 100_000
GIVEN: Final = "given"
"""The name of a case whose inputs are given by hand, without a row."""
_NAME, _OTHER_NAME = "case", "case_id"
_SHOWN: Final = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class Chosen:
    """The chosen cases of contracts."""

    file: Path | None = None
    """The rows; None for the file that the contract names under `cases`."""
    names: Sequence[str] = ()
    """Patterns of names of cases; all cases where there is none."""
    given: Sequence[str] = ()
    """`NAME=VALUE`: inputs that replace those of every chosen case."""
    inputs: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """As `given`, with values as JSON has them. `as_json` leaves them out."""

    def as_json(self) -> dict[str, Any]:
        """The form in `run.json`, so that `retry` chooses the same."""
        file = None if self.file is None else str(self.file.absolute())
        return {"file": file, "names": list(self.names), "given": list(self.given)}

    @classmethod
    def read(cls, kept: Any) -> Chosen:
        """The choice that `as_json` wrote; `UsageError` for anything else."""
        match kept:
            case None:
                return cls()
            case {"file": None | str() as file, "names": list() as names, "given": list() as given}:
                where = None if file is None else Path(file)
                return cls(file=where, names=tuple(map(str, names)), given=tuple(map(str, given)))
            case _:
                pass
        raise UsageError("run.json: its cases are not what `run` writes; begin a new run")


def cases_of(path: Path, file: ContractFile, chosen: Chosen) -> tuple[Case, ...]:
    """The chosen cases of a contract; none for a contract without any.

    Raises `InputError` where rows or inputs do not fit, and `UsageError` where no case has a name
    that was asked for.
    """
    given = {
        **dict(_given(file.source, chosen.given)),
        **case_inputs(file.source, chosen.inputs, "inputs"),
    }
    rows = tuple(_rows(path, file, chosen.file))
    if not rows:
        if chosen.names:
            raise UsageError(f"{printable(str(path))}: the contract has no cases")
        return (Case(GIVEN, given),) if given else ()
    for pattern in chosen.names:
        if not any(fnmatchcase(row.name, pattern.lower()) for row in rows):
            shown = ", ".join(row.name for row in rows[:_SHOWN])
            raise UsageError(f"no case is named {printable(pattern)}; the first are {shown}")
    return tuple(
        dataclasses.replace(row, inputs={**row.inputs, **given})
        for row in rows
        if not chosen.names or any(fnmatchcase(row.name, each.lower()) for each in chosen.names)
    )


def load_case(path: Path, chosen: Chosen) -> ContractFile:
    """The contract of the one case that is meant; that of the file where nothing is chosen.

    `UsageError` where several cases are meant.
    """
    file = load_contract(path)
    if chosen == Chosen():
        return file
    found = cases_of(path, file, chosen)
    if len(found) != 1:
        shown = ", ".join(case.name for case in found[:_SHOWN])
        raise UsageError(f"{len(found)} cases are meant; name one with --case: {shown}")
    ((_, data),) = texts_of(file, found)
    return parse_contract(data, str(path))


def load_cases(path: Path, chosen: Chosen) -> tuple[ContractFile, ...]:
    """The contracts of the chosen cases; that of the file where it has none."""
    return tuple(load_named_cases(path, chosen).values()) or (load_contract(path),)


def load_named_cases(path: Path, chosen: Chosen) -> dict[str, ContractFile]:
    """The chosen cases by name, each with its contract; empty where the contract has no cases."""
    file = load_contract(path)
    found = cases_of(path, file, chosen)
    return {case.name: parse_contract(data, str(path)) for case, data in texts_of(file, found)}


def texts_of(file: ContractFile, cases: Sequence[Case]) -> Iterator[tuple[Case, bytes]]:
    """Each case with the text of its contract; `ContractError` and `InputError` as of `case_texts`.

    `parse_contract` makes the contract of one.
    """
    yield from case_texts(file.source, cases)


def _given(document: Document, given: Sequence[str]) -> Iterator[tuple[str, Any]]:
    texts = {}
    for each in given:
        name, sign, text = each.partition("=")
        if not sign or name in texts:
            raise UsageError(f"--input {printable(each)!r}: expected NAME=VALUE, each name once")
        texts[name] = text
    where = "--input"
    values = {name: input_of_text(document, name, text, where) for name, text in texts.items()}
    yield from case_inputs(document, values, where).items()


def _rows(path: Path, file: ContractFile, given: Path | None) -> Iterator[Case]:
    own = file.content.cases
    if given is not None:
        data, where = read_bytes(given, MAX_BYTES), given
    elif own is not None:
        data, where = read_beside(path, own, MAX_BYTES), path.parent / own
    else:
        return
    document, column = file.source, _NAME if _NAME not in file.content.inputs else _OTHER_NAME
    seen: dict[str, str] = {}
    for line, row in _read(document, data, where):
        place = f"{printable(str(where))}, line {line}"
        if not isinstance(row, dict):
            raise InputError(f"{place}: expected an object with inputs by their names")
        name = case_name(str(row.pop(column, len(seen) + 1)), place)
        if name in seen:
            raise InputError(f"{place}: the case {name} is there already ({seen[name]})")
        seen[name] = f"line {line}"
        if len(seen) > MAX_CASES:
            raise InputError(f"{place}: more than {MAX_CASES:,} cases")
        yield Case(name, case_inputs(document, row, place))
    if not seen:
        raise InputError(f"{printable(str(where))}: expected one case a line; found none")


def _read(document: Document, data: bytes, where: Path) -> Iterator[tuple[int, Any]]:
    """Each row with its line."""
    suffix = where.suffix.lower()
    if suffix in (".csv", ".tsv"):
        header, rows = delimited(where, _text(data, where), "," if suffix == ".csv" else "\t")
        for line, cells in rows:
            place = f"{printable(str(where))}, line {line}"
            named = zip(header, cells, strict=True)
            yield line, {n: _cell(document, n, text, place) for n, text in named}
        return
    for line, text in enumerate(data.splitlines(), 1):
        if text.strip():
            try:
                yield line, read_tree(text, Limits())
            except Flaw as flaw:
                raise InputError(f"{printable(str(where))}, line {line}: {flaw}") from flaw


def _cell(document: Document, name: str, text: str, place: str) -> Any:
    return text if name in (_NAME, _OTHER_NAME) else input_of_text(document, name, text, place)


def _text(data: bytes, where: Path) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{printable(str(where))}: not UTF-8 text") from error
