"""Contracts and schemas from files: read, checked for shape, every clause with an id of its own.

Nothing is waited for: a path that is no regular file (a FIFO, a device, a directory) is refused
before it is read.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from statediff.contract.clauses.patterns import Clause
from statediff.contract.document.contract import KINDS, ContractDocument
from statediff.contract.document.profiles import shipped
from statediff.contract.parts import PLACEHOLDER
from statediff.contract.yaml.reader import MAX_BYTES, Document, NodePath, read_document, too_large
from statediff.contract.yaml.shape import as_model, renamed
from statediff.errors import ContractError, Problem, UsageError

_SAFE: Final = re.compile(r"[\w.@+-]{1,200}")
"""An input that means itself between quotes."""


def clause_ids(contract: ContractDocument) -> dict[str, tuple[str, ...]]:
    """Every clause's id in the order of the document, by kind; `claim-2` for one without an id."""
    return {
        kind.name: tuple(
            getattr(clause, "id", None) or f"{kind.label or kind.name}-{number}"
            for number, clause in enumerate(kind.written(contract), 1)
        )
        for kind in KINDS
        if kind.listed is not None
    }


def parse_document(data: bytes, file: str) -> tuple[Document, ContractDocument]:
    """The contract in `data`, with ids distinct; `file` is the name used in messages."""
    document = read_document(data, file)
    return document, checked(document)


def fixed(data: bytes, file: str) -> bytes:
    """The contract with its keys under the names that they have now; other mistakes stay."""
    while True:
        try:
            parse_document(data, file)
        except ContractError as error:
            text = data.decode(errors="surrogateescape")
            new = renamed(text, error.problems)
            if new != text:
                data = new.encode(errors="surrogateescape")
                continue
        return data


def checked(document: Document) -> ContractDocument:
    """The contract that a file holds, with ids distinct."""
    contract = _expanded(document, as_model(document, ContractDocument))
    if repeated := tuple(_repeated_ids(document, contract)):
        raise ContractError(repeated)
    return contract


def _expanded(document: Document, contract: ContractDocument) -> ContractDocument:
    """The contract with the clauses of its profiles, and their inputs where it gives none."""
    if not contract.use:
        return contract
    known, inputs = {**shipped(), **contract.profiles}, dict(contract.inputs)
    added, effects = {"forbid": contract.forbid, "allow": contract.allow}, contract.effects
    for at, name in enumerate(contract.use):
        path: NodePath = ("use", at)
        if name not in known:
            message = f"expected a profile, found `{name}`; there are {', '.join(known)}"
            hint = f"write it under `profiles:`, or as profiles/{name}.yaml beside the contract"
            problem = document.problem(path, message, code="unknown-profile", hint=hint)
            raise ContractError((problem,))
        profile = known[name]
        inputs = {**profile.inputs, **inputs}
        missing = [given for given in profile.inputs if inputs[given] is None]
        if missing:
            message = f"`{name}` expects the input `{missing[0]}`, found none"
            hint = f"say it under `inputs:`, e.g. `{missing[0]}: 1`"
            problem = document.problem(path, message, code="missing-input", hint=hint)
            raise ContractError((problem,))
        for section in added:
            clauses = getattr(profile, section)
            added[section] += tuple(_written_in(document, path, c, inputs) for c in clauses)
        effects += profile.effects
    return contract.model_copy(
        update={**added, "effects": effects, "inputs": inputs, "use": (), "profiles": {}}
    )


def _written_in(
    document: Document, path: NodePath, clause: Clause, inputs: Mapping[str, Any]
) -> Clause:
    """The clause with the text of each input that is named in its expressions."""

    def text_of(found: re.Match[str]) -> str:
        given = inputs.get(found[2])
        text = "nothing" if given is None else str(given)
        if given is None or not _SAFE.fullmatch(text):
            message = f"expected a plain word or number as the input `{found[2]}`, found `{text}`"
            raise ContractError((document.problem(path, message, code="wrong-input"),))
        return text

    texts = {key: getattr(clause, key) for key in ("where", "that")}
    written = {key: PLACEHOLDER.sub(text_of, text) for key, text in texts.items() if text}
    return clause.model_copy(update=written)


def read_bytes(path: Path, max_bytes: int = MAX_BYTES) -> bytes:
    """The bytes of a regular file of at most so many; `UsageError` or `ContractError` otherwise."""
    try:
        # Not blocking, so that opening a FIFO returns; asked again once open, so that a file
        # exchanged in between is not read either.
        _require_regular(path, path.stat())
        with open(path, "rb", opener=_opened_without_waiting) as stream:
            status = os.fstat(stream.fileno())
            _require_regular(path, status)
            data = stream.read(max_bytes + 1)
    except FileNotFoundError as error:
        raise UsageError(f"{path}: expected a file, found nothing; check the path") from error
    except (OSError, ValueError) as error:  # ValueError: a NUL byte in the path
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"{path!s}: cannot be read: {reason}") from error
    if len(data) > max_bytes > MAX_BYTES:
        raise UsageError(f"{path}: expected at most {max_bytes:,} bytes, found more")
    if len(data) > max_bytes:
        raise ContractError((too_large(str(path), max(status.st_size, len(data))),))
    return data


def read_beside(contract: Path, name: str, max_bytes: int = MAX_BYTES) -> bytes:
    """The bytes of a file in or below the contract's folder, links followed; else `UsageError`."""
    folder = contract.parent.resolve()
    try:
        path = (folder / name).resolve()
    except (OSError, RuntimeError) as error:
        raise UsageError(f"{name}: cannot be found: {error}") from error
    if not path.is_relative_to(folder):
        raise UsageError(f"{name}: lies outside the contract's folder; copy the file into it")
    return read_bytes(path, max_bytes)


def _opened_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))


def _require_regular(path: Path, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise UsageError(f"{path}: expected a file, found a directory; name the file in it")
    if not stat.S_ISREG(status.st_mode):
        raise UsageError(f"{path}: expected a regular file, found a device, FIFO or socket")


def _repeated_ids(document: Document, contract: ContractDocument) -> Iterator[Problem]:
    ids = clause_ids(contract)
    places = [
        (clause_id, (*kind.listed, index))
        for kind in KINDS
        if kind.listed is not None
        for index, clause_id in enumerate(ids[kind.name])
    ]
    # Ids that were given first, so that the problem stands where one was written.
    places.sort(key=lambda place: (*place[1], "id") in document.positions)
    first: dict[str, NodePath] = {}
    for clause_id, path in places:
        known = first.setdefault(clause_id, path)
        if known != path:
            line = document.position(known).line
            yield document.problem(
                (*path, "id"),
                f"expected an id of its own, found `{clause_id}` again; the clause "
                f"on line {line} has it",
                code="duplicate-id",
                hint="rename one of them",
            )
