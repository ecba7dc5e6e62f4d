"""A document's shape checked against a pydantic model, in words a contract's author can act on.

`as_model` gives the model or a `ContractError` with every problem, each at the line and column of
the key or value that is wrong. pydantic decides *whether* a document fits; *what was expected* is
read from the model itself: the description of the field, or the kinds of value its type allows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from itertools import islice
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from statediff.contract.yaml.composer import quote
from statediff.contract.yaml.reader import Document, NodePath
from statediff.errors import ContractError, Problem

Model = TypeVar("Model", bound=BaseModel)

INSTEAD: Final = {
    "cascade": "write an allow clause for these rows; a `that` of it says how many go with one",
    "transition": "write a require clause an entity: `{update: T, where: it.id == 7, set: {…}}`",
    "relink": "write `update: TYPE`, `fields: [F]`, `where: it.F != null and new.F != null`",
    "weights": "remove it; the forbidden-effect rate weighs by reversibility, 1, 3 and 10",
    "replayable": "write it in a disclosure file, and name that when you `sign`",
    "disclose": "remove it; what a contract excludes is for auditors alone",
    "libraries": "write the clauses in each contract that has them",
    "rubric": "write `criteria` and `floor` in a file, and name that in `lab rubric --rubric`",
    "actors": "write `actor`, and under `allow` the subsystems that its role may read",
    "roles": "write under `allow` the subsystems that the actor may read",
    "broadcast": "write the subsystem under `allow`",
    "citations": "write `cite`",
    "recorded_at": "write both instants under `at`, as a list",
    "timeless": "write `at: []` and `because: REASON`",
    "participation": "write `authorized_by`",
    "aside": "write `{tool: NAME, because: REASON}` for each tool under `actions`",
    "submitted_by": "write `{tool: NAME, because: REASON}` under `actions`",
    "fetches": "write `in: SUBSYSTEM` and `at: arguments.PATH`",
    "finds": "write `in: SUBSYSTEM` and `at: result.PATH`",
    "form": "remove it, and write `extract`, or `extract: {}` for a text of which nothing is read",
    "after_every_call": "write `always` and `during: calls`",
    "calls": "write `where`",
    "tools": "write `tool`",
    "user": "write `prompt`",
    "then": "write `require`",
    "times": "write `count`",
    "as_of": "write `at`",
    "space": "write `in`",
    "text": "remove it; a search looks through all fields",
    "readings": "write the branches under `any_of`, and beside it `disputed: REASON`",
    "repair": "write `{prompt: …, count: …}` without `on`, last under `replies`",
    "attempts": "write `count`",
    "absence": "write `evidence`, with a list under `in`",
    "title": "remove it; a search shows the first field with words",
    "class": "write `classes`, a list",
    "effect": "write `on`",
    "when": "write `on`",
    "say": "write `prompt`",
    "reads": "write `actions`",
    "acknowledgement": "write `over: acknowledged`",
    "about": "remove it; a profile of your own has `inputs` and clauses",
    "tables": "remove it; a profile of your own is for the contract that uses it",
    "packed": "write `form` at the field in the state schema",
    "input": "remove it; the contract says in whose name the agent acts",
    "include": "remove it; what is outside by default is shown, and decides nothing",
    "distinct": "tell the required changes apart by `where`, or ask for their number by `count`",
}
"""Keys that were in the language once, and what to write."""

_RENAMED: Final = re.compile(r"write `([a-z_]+)`")
"""The hint of a key that has another name now, and the same value."""


def renamed(text: str, problems: Iterable[Problem]) -> str:
    """The document with each key that has another name now under that name."""
    lines = text.split("\n")
    for problem in sorted(problems, key=lambda p: (p.line, p.column), reverse=True):
        name = _RENAMED.fullmatch(problem.hint)
        if name is None:
            continue
        line, at = lines[problem.line - 1], problem.column - 1
        old = re.match(r"[a-z_]+", line[at:])
        if old is not None and old[0] in INSTEAD:
            lines[problem.line - 1] = line[:at] + name[1] + line[at + len(old[0]) :]
    return "\n".join(lines)


_MAX_ERRORS: Final = 200
"""How many of pydantic's errors are looked at; a file with more is something else."""

_WORDS: Final[dict[Any, str]] = {
    str: "text",
    int: "a whole number",
    bool: "true or false",
    Decimal: "a number",
    dict: "a mapping",
    tuple: "a list",
}


def as_model(document: Document, model: type[Model]) -> Model:
    """The document as an instance of `model`, lists become tuples; `ContractError` if it is not."""
    try:
        instance = model.model_validate(frozen(document.value))
    except ValidationError as error:
        raise ContractError(tuple(_problems(error, document, model))) from None
    if empty := tuple(islice(_empty_keys(document, model), _MAX_ERRORS)):
        raise ContractError(empty)
    return instance


def frozen(value: Any) -> Any:
    """The same plain value with tuples for lists."""
    if isinstance(value, dict):
        return {key: frozen(item) for key, item in value.items()}
    if isinstance(value, list):
        return tuple(frozen(item) for item in value)
    return value


def _empty_keys(document: Document, model: type[BaseModel]) -> Iterator[Problem]:
    """A key of the language without a value: `where:` left empty would select everything."""
    for path in document.spans:
        if _value_at(document, path) is None and path[-1] in _known_keys(model, path[:-1]):
            yield document.problem(
                path,
                f"{_label(path)}expected {_expectation(model, path)}, found nothing",
                hint=_hint(None, None, set()),
            )


def closest(name: str, known: tuple[str, ...]) -> str | None:
    """The known name that `name` was probably meant to be."""
    return next(iter(get_close_matches(name, known)), None)


def did_you_mean(name: str, known: tuple[str, ...]) -> str:
    """A hint for an unknown name: the closest known one, else the known ones."""
    if (near := closest(name[:100], known)) is not None:
        return f"did you mean `{near}`?"
    listed = ", ".join(sorted(known)[:20]) + (", …" if len(known) > 20 else "")
    return f"known: {listed}" if known else ""


@dataclass(frozen=True)
class _Error:
    """A pydantic error with its location split: where in the document, and by which branch."""

    kind: str
    path: NodePath
    union_at: NodePath | None
    """The node whose type is a union, if the error is about one branch of it."""
    is_key: bool
    context: dict[str, Any]


def _locate(detail: ErrorDetails, document: Document) -> _Error:
    """The error without the names of union branches and validators that stand in its location."""
    value: Any = document.value
    path: NodePath = ()
    union_at: NodePath | None = None
    kind, steps = detail["type"], detail["loc"]
    there = steps[:-1] if kind == "missing" else steps
    for step in there:
        if isinstance(value, str) and isinstance(step, int):
            continue  # one text where there may be several: it is what was found
        if step in value if isinstance(value, dict) else isinstance(step, int):
            value, path = value[step], (*path, step)
        elif union_at is None:
            union_at = path
    is_key = steps[-1:] == ("[key]",)
    return _Error(
        kind, (*path, *steps[len(there) :]), union_at, is_key, dict(detail.get("ctx", {}))
    )


def _problems(
    error: ValidationError, document: Document, model: type[BaseModel]
) -> Iterator[Problem]:
    another = _another_file(document, model)
    if another is not None:
        yield another
        return
    errors = [_locate(detail, document) for detail in error.errors()[:_MAX_ERRORS]]
    chosen = [found for found in errors if found.union_at is None]
    unions: dict[NodePath, list[_Error]] = {}
    for found in errors:
        if found.union_at is not None:
            unions.setdefault(found.union_at, []).append(found)
    for union, branches in unions.items():
        # Of the branches that all failed, the one that got further is the one that was meant.
        deeper = [e for e in branches if len(e.path) > len(union) or e.kind == "value_error"]
        chosen.extend(deeper or branches[:1])
    distinct = {(found.path, found.kind): found for found in chosen}.values()
    meant = {
        (*found.path[:-1], closest(str(found.path[-1]), _known_keys(model, found.path[:-1])))
        for found in distinct
        if found.kind == "extra_forbidden"
    }
    for found in distinct:
        if found.kind != "missing" or found.path not in meant:
            yield _problem(found, document, model)


_FILES: Final[Mapping[str, str]] = {
    "contract": "a contract",
    "reads": "an evaluation of reads",
    "released": "a list of releases",
    "sandbox": "a sandbox",
    "schema": "a state schema",
}
"""The key that a file begins with, which names it, and what the file is."""


def _another_file(document: Document, model: type[BaseModel]) -> Problem | None:
    """That the document is another kind of file, where all else said of it would be beside that."""
    known = _known_keys(model, ())
    own = known[0] if known else ""
    if own not in _FILES or own in document.value:
        return None
    found = _FILES.get(next(iter(document.value), ""))
    is_named = next(iter(model.model_fields.values())).is_required()
    if found is None and (not is_named or any(key in known for key in document.value)):
        return None
    said = f"this is {found}" if found is not None else f"this is not {_FILES[own]}"
    return document.problem(
        (), f"{said}: expected {_FILES[own]}, with `{own}: NAME`", code="missing-key"
    )


def _problem(error: _Error, document: Document, model: type[BaseModel]) -> Problem:
    path = error.path
    if error.kind == "value_error":  # the only kind of error that the whole document may have
        return document.problem(path, str(error.context["error"]))
    name = str(path[-1])
    if error.kind == "extra_forbidden":
        instead = INSTEAD.get(name) or did_you_mean(name, _known_keys(model, path[:-1]))
        return document.problem(
            path, f"unknown key {quote(name)}", code="unknown-key", hint=instead, at_key=True
        )
    if error.kind == "missing":
        return document.problem(
            path[:-1],
            f"missing key `{name}`: expected {_expectation(model, path)}",
            code="missing-key",
        )
    if error.is_key:
        return document.problem(
            path,
            f"expected as a key {_expected_key(model, path[:-1])}, found {quote(name)}",
            at_key=True,
        )
    found = _value_at(document, path)
    return document.problem(
        path,
        f"{_label(path)}expected {_expectation(model, path)}, found {_describe_value(found)}",
        hint=_hint(found, document.source(path), _leaves(model, path), _patterns(model, path)),
    )


def _label(path: NodePath) -> str:
    if isinstance(path[-1], str):
        return f"{quote(path[-1])}: "
    names = [step for step in path if isinstance(step, str)]
    return f"{quote(names[-1])}, item {path[-1] + 1}: "


def _value_at(document: Document, path: NodePath) -> Any:
    value: Any = document.value
    for step in path:
        value = value[step]
    return value


def _describe_value(value: Any) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return f"{str(value).lower()} (true or false)"
        case int():
            return f"{value} (a whole number)"
        case Decimal():
            return f"{value} (a number)"
        case str():
            length = f" ({len(value)} characters)" if len(value) > 40 else ""
            return f"the text {quote(value)}{length}" if value else "empty text"
        case dict():
            return "a mapping" if value else "an empty mapping"
        case _:
            return f"a list of {len(value)}" if value else "an empty list"


def _hint(value: Any, written: str | None, leaves: set[Any], patterns: tuple[str, ...] = ()) -> str:
    """The next step where one character or two would fix it."""
    if value is None:
        return "give it a value or remove the key"
    if patterns and isinstance(value, (str, Decimal, int)) and not isinstance(value, bool):
        # A number or text that lacks its last parts, such as `version: 1.0`.
        text = str(value) if isinstance(value, str) else written or ""
        for longer in (f"{text}.0", f"{text}.0.0"):
            if any(re.search(pattern, longer) for pattern in patterns):
                return f"write {longer}"
    if isinstance(value, (bool, int, Decimal)) and str in leaves and written:
        fits = not patterns or any(re.search(pattern, written) for pattern in patterns)
        return f'quote it: "{written}"' if fits else ""
    if isinstance(value, str):
        if bool in leaves and value.lower() in ("yes", "no", "on", "off", "true", "false"):
            return "write true or false, without quotes"
        if int in leaves and value.isdecimal():
            return "remove the quotes"
    if tuple in leaves and str not in leaves and not isinstance(value, (list, dict)):
        return "a list has `- ` before each item"
    return ""


# What the model says about a path. An "option" is one kind of value allowed there.


@dataclass(frozen=True)
class _Option:
    type: Any
    description: str = ""
    pattern: str = ""
    """The pattern that a text must match."""


def _options(annotation: Any, description: str = "", pattern: str = "") -> Iterator[_Option]:
    """The kinds of value an annotation allows; an outer description covers all of them."""
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *notes = get_args(annotation)
        said = next((note.description for note in notes if isinstance(note, FieldInfo)), None)
        asked = (getattr(m, "pattern", None) for n in notes for m in getattr(n, "metadata", ()))
        shape = next((found for found in asked if isinstance(found, str)), pattern)
        yield from _options(inner, description or said or "", shape)
    elif origin in (Union, UnionType):
        for choice in get_args(annotation):
            yield from _options(choice, description, pattern)
    else:
        yield _Option(annotation, description, pattern)


def _field_options(field: FieldInfo) -> tuple[_Option, ...]:
    asked = (getattr(m, "pattern", None) for m in field.metadata)
    pattern = next((found for found in asked if isinstance(found, str)), "")
    return tuple(_options(field.annotation, field.description or "", pattern))


def _step(option: _Option, step: str | int) -> tuple[_Option, ...]:
    origin, arguments = get_origin(option.type), get_args(option.type)
    if isinstance(option.type, type) and issubclass(option.type, BaseModel):
        for name, field in option.type.model_fields.items():
            if (field.alias or name) == step:
                return _field_options(field)
    if origin is tuple and isinstance(step, int):
        return tuple(_options(arguments[0]))
    if origin is dict and isinstance(step, str):
        return tuple(_options(arguments[1]))
    return ()


def _at(model: type[BaseModel], path: NodePath) -> tuple[_Option, ...]:
    options: tuple[_Option, ...] = (_Option(model),)
    for step in path:
        options = tuple(inner for option in options for inner in _step(option, step))
    return options


def _leaves(model: type[BaseModel], path: NodePath) -> set[Any]:
    return {get_origin(option.type) or option.type for option in _at(model, path)}


def _patterns(model: type[BaseModel], path: NodePath) -> tuple[str, ...]:
    return tuple(option.pattern for option in _at(model, path) if option.pattern)


def _expectation(model: type[BaseModel], path: NodePath) -> str:
    words: dict[str, None] = {}
    for option in _at(model, path):
        if option.type is not NoneType:
            words[option.description or _word(option.type)] = None
    return " or ".join(words) or "something else"


def _expected_key(model: type[BaseModel], path: NodePath) -> str:
    keys = (
        get_args(option.type)[0] for option in _at(model, path) if get_origin(option.type) is dict
    )
    return next(
        (option.description or _word(option.type) for key in keys for option in _options(key)),
        "another name",
    )


def _word(annotation: Any) -> str:
    origin = get_origin(annotation) or annotation
    if origin is Literal:
        return "one of " + ", ".join(f"`{choice}`" for choice in get_args(annotation))
    if isinstance(origin, type) and issubclass(origin, BaseModel):
        return "a mapping"
    return _WORDS.get(origin, "a value")


def _known_keys(model: type[BaseModel], path: NodePath) -> tuple[str, ...]:
    return tuple(
        field.alias or name
        for option in _at(model, path)
        if isinstance(option.type, type) and issubclass(option.type, BaseModel)
        for name, field in option.type.model_fields.items()
    )
