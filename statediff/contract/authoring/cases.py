"""One contract over many inputs: a case is the contract with inputs of its own written into it.

The text that comes out is a whole contract: a bundle holds it, and anyone can replay it without the
file that the case came from. Lines stay where they were, so problems name the author's lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from statediff.contract.authoring.formatting import double_quote
from statediff.contract.language.kinds import suggest
from statediff.contract.yaml.reader import MAX_BYTES, Document, read_document
from statediff.errors import ContractError, InputError

MAX_NAME: Final = 64
_NAME: Final = re.compile(rf"[a-z0-9][a-z0-9_.-]{{0,{MAX_NAME - 1}}}")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,39})(?:\.[0-9]{1,40})?")
_CODE: Final = "cases"


@dataclass(frozen=True)
class Case:
    """A case's differences from the contract: its name's last part, and inputs.

    `inputs` are JSON values: `None`, `bool`, `int`, `Decimal`, `str`, lists and dicts of them.
    """

    name: str
    inputs: Mapping[str, Any]


def case_name(written: str, where: str) -> str:
    """The name of a case as contracts and folders have it. Raises `InputError`."""
    name = written.strip().lower()
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{where}: a case's name has 1 to {MAX_NAME} letters, digits, `.`, `_` and `-`; "
            f"found {written[:80]!r}"
        )
    return name


def case_inputs(document: Document, given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The inputs of a case, each of the kind that it has in the contract. Raises `InputError`."""
    known = document.value.get("inputs") or {}
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            hint = suggest(name, known) or (
                f"the inputs are {', '.join(known)}" if known else "it has no inputs"
            )
            raise InputError(f"{where}: the contract has no input `{name}`; {hint}")
        found[name] = value if known[name] is None else _alike(value, known[name], name, where)
    return found


def input_of_text(document: Document, name: str, text: str, where: str) -> Any:
    """The input that a text means: of the kind of the contract's own value.

    Raises `InputError`. An unknown input keeps its text; `case_inputs` refuses it.
    """
    own = (document.value.get("inputs") or {}).get(name)
    if own is None or isinstance(own, str):
        return text
    if isinstance(own, (list, dict)):
        raise InputError(f"{where}: input `{name}` is a {_kind(own)}; give it in a JSONL file")
    is_truth = isinstance(own, bool)
    if is_truth and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if not is_truth and _NUMBER.fullmatch(text):
        return Decimal(text) if "." in text else int(text)
    raise InputError(f"{where}: input `{name}` is a {_kind(own)}; found {text[:80]!r}")


def case_texts(document: Document, cases: Iterable[Case]) -> Iterator[tuple[Case, bytes]]:
    """Each case with its contract: `NAME/CASE`, without `cases`, its inputs written in.

    `document` is the contract as read. Raises `ContractError` where it
    has no place for inputs, and `InputError` where a contract cannot hold those of a case.
    """
    values = document.value
    own = values.get("inputs") or {}
    lines = document.text.split("\n")
    for key in ("cases", "inputs", "contract"):
        if key in values:
            first, end = _block(document, key, lines)
            lines[first:end] = [f"\0{key}", *[""] * (end - first - 1)]
    form = "\n".join(lines)
    is_proven = False
    for case in cases:
        inputs, name = {**own, **case.inputs}, f"{values['contract']}/{case.name}"
        text = (
            form.replace("\0cases", "")
            .replace("\0contract", f"contract: {name}")
            .replace("\0inputs", f"inputs: {_flow(inputs)}")
        )
        data = text.encode()
        _require_readable(case, len(data))
        if not is_proven:
            expected = {k: v for k, v in values.items() if k != "cases"} | {"contract": name}
            expected |= {"inputs": inputs} if "inputs" in values else {}
            _require(document, data, expected)
            is_proven = True
        yield case, data


def _require_readable(case: Case, size: int) -> None:
    """Every value reads back from a contract; numbers and texts on one line always do."""
    if size > MAX_BYTES:
        raise InputError(f"case {case.name}: more than {MAX_BYTES:,} bytes of contract")
    if all(_is_short(value) for value in case.inputs.values()):
        return
    try:
        read_document(f"inputs: {_flow(case.inputs)}".encode(), f"case {case.name}")
    except ContractError as error:
        raise InputError(f"case {case.name}: {error.problems[0].message}") from error


def _is_short(value: Any) -> bool:
    if isinstance(value, int):
        return abs(value) < 10**18
    return value is None or (isinstance(value, str) and value.isprintable())


def _require(document: Document, data: bytes, expected: Mapping[str, Any]) -> None:
    """The text of the first case has what it must have; that of the next differs in values only."""
    try:
        is_right = read_document(data, document.file).value == expected
    except ContractError:
        is_right = False
    if not is_right:
        message = "the inputs of a case cannot be written into this contract"
        hint = "write `contract`, `inputs` and `cases` each at the margin, on lines of their own"
        raise ContractError((document.problem((), message, code=_CODE, hint=hint),))


def _block(document: Document, key: str, lines: list[str]) -> tuple[int, int]:
    """The lines of a key at the top and of its value, from 0; comments below it stay."""
    starts = sorted(document.position((name,)).key_line - 1 for name in document.value)
    first = document.position((key,)).key_line - 1
    end = next((start for start in starts if start > first), len(lines))
    while end > first + 1 and (not lines[end - 1].strip() or lines[end - 1].startswith("#")):
        end -= 1
    return first, end


def _alike(value: Any, own: Any, name: str, where: str) -> Any:
    if value is None or _kind(value) == _kind(own):
        return value
    raise InputError(
        f"{where}: input `{name}` is a {_kind(own)} in the contract, and a {_kind(value)} here"
    )


def _kind(value: Any) -> str:
    kinds = ((bool, "true or false"), ((int, Decimal), "number"), (str, "text"), (list, "list"))
    return next((word for kind, word in kinds if isinstance(value, kind)), "mapping")


def _flow(value: Any) -> str:
    """The value on one line of YAML."""
    match value:
        case dict():
            return "{" + ", ".join(f"{double_quote(k)}: {_flow(v)}" for k, v in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_flow, value)) + "]"
        case str():
            return double_quote(value)
        case bool() | None:
            return {None: "null", True: "true", False: "false"}[value]
        case _:
            return f"{value:f}" if isinstance(value, Decimal) else str(value)
