"""Clauses from libraries: `use: FILE#NAME` in a list of clauses, expanded before judging.

A library is a file in the contract's folder or below it, pinned under `libraries` by its SHA-256,
so the contract's own digest covers every word that is judged. A clause of a library has parameters
of three kinds: a `name` of a type or field, a `value`, and an `expression`. `${parameter}` stands
for one; in an expression a value becomes a literal, never code. Libraries use no libraries.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from statediff.contract.language.kinds import suggest
from statediff.contract.language.parser import is_whole
from statediff.contract.language.written import type_text
from statediff.contract.parts import Identifier, Part
from statediff.contract.yaml.composer import holds_an_expression
from statediff.contract.yaml.reader import Document, Insertion, NodePath, read_document
from statediff.contract.yaml.shape import as_model
from statediff.errors import ContractError, Problem, UsageError

MAX_USES: Final = 200
MAX_VALUE: Final = 1000
"""Characters of an argument as it is written into a text."""
MAX_EXPANDED: Final = 1 << 20
"""Characters of all the clauses that come from libraries."""
CODE: Final = "library"

LISTS: Final = frozenset(
    ("forbid", "require", "allow", "derive", "effects", "steps", "exclude", "canonicalize")
)
"""The lists of a contract, or of a branch of it, in which a clause of a library may be."""
_USE: Final = re.compile(r"([^#]+)#([A-Za-z0-9][A-Za-z0-9_.-]{0,99})")
_PLACE: Final = re.compile(r"\$\{([^{}]*)\}")
_NAME: Final = re.compile(r"[^\x00-\x1f\x7f]{1,200}")
Beside = Callable[[str], bytes]


class LibraryClause(Part):
    """One clause for many contracts, and the parameters that differ."""

    parameters: Annotated[
        dict[
            Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]{0,99}$", description="a name")],
            Literal["name", "value", "expression"],
        ],
        Field(max_length=50, description="a mapping of names to `name`, `value` or `expression`"),
    ] = Field(default_factory=dict)
    clause: Annotated[dict[str, Any], Field(min_length=1, description="a clause")]


class Use(Part):
    """A clause of a library, in the place of one that is written out."""

    use: Annotated[
        str,
        Field(
            pattern=f"^{_USE.pattern}$",
            description="FILE#NAME: a file under `libraries`, and the name of a clause in it",
        ),
    ]
    with_: Annotated[
        dict[str, Any],
        Field(
            alias="with",
            default_factory=dict,
            description="a mapping of the clause's parameters to what they are here",
        ),
    ]
    id: Annotated[Identifier | None, Field(description="the id that the clause has here")] = None


_KEYS: Final = frozenset(each.alias or name for name, each in Use.model_fields.items())


class Library(Part):
    """A file of clauses that contracts use."""

    library: Annotated[
        str,
        Field(
            pattern=r"^[a-z0-9][a-z0-9_/.-]{0,199}$",
            description="a name in lower case, e.g. shop/common",
        ),
    ]
    clauses: Annotated[
        dict[Identifier, LibraryClause], Field(description="a mapping of names to clauses")
    ]


def expand(document: Document, beside: Beside | None) -> Document:
    """The document with the clause in place of each `use: FILE#NAME` in a list of clauses.

    Raises `ContractError` with every problem.

    `beside` reads a file of the contract's folder.
    """
    uses = list(_uses(document.value))
    if not uses:
        return document
    if len(uses) > MAX_USES:
        place = uses[MAX_USES]
        raise ContractError((_problem(document, place, f"more than {MAX_USES} uses"),))
    return _Expansion(document, beside).expanded(uses)


def libraries_of(document: Document) -> dict[str, bytes]:
    """The libraries that an expanded document uses, as read."""
    return {part.name: part.document.data for part in document.inserted.values()}


def _problem(document: Document, path: NodePath, message: str, hint: str = "") -> Problem:
    return document.problem(path, message, code=CODE, hint=hint)


def _uses(value: dict[str, Any]) -> Iterator[NodePath]:
    """Where a clause of a library is used, in the order of the document."""
    for path, items in _lists(value):
        for index, item in enumerate(items):
            if isinstance(item, dict) and "#" in str(item.get("use", "")):
                yield (*path, index)


def _lists(value: dict[str, Any]) -> Iterator[tuple[NodePath, list[Any]]]:
    for name, held in value.items():
        if name in LISTS and isinstance(held, list):
            yield (name,), held
        elif name == "answer" and isinstance(held, dict):
            if isinstance(held.get("claims"), list):
                yield ("answer", "claims"), held["claims"]
        elif name in ("any_of", "disputed") and isinstance(held, dict):
            branches = held.get("readings") if name == "disputed" else held
            at: NodePath = (name, "readings") if name == "disputed" else (name,)
            for branch, clauses in branches.items() if isinstance(branches, dict) else ():
                for section, listed in clauses.items() if isinstance(clauses, dict) else ():
                    if section in LISTS and isinstance(listed, list):
                        yield (*at, branch, section), listed


class _Expansion:
    def __init__(self, document: Document, beside: Beside | None) -> None:
        self._document = document
        self._beside = beside
        self._problems: list[Problem] = []
        self._read: dict[str, tuple[Document, Library] | None] = {}
        self._size = 0

    def expanded(self, uses: list[NodePath]) -> Document:
        value = json_copy(self._document.value)
        inserted: dict[NodePath, Insertion] = {}
        for path in uses:
            holder = value
            for step in path[:-1]:
                holder = holder[step]
            found = self._clause(path, holder[path[-1]])
            if found is not None:
                holder[path[-1]], inserted[path] = found
        if self._problems:
            raise ContractError(tuple(self._problems))
        return self._document.with_insertions(value, inserted)

    def _wrong(self, path: NodePath, message: str, hint: str = "") -> None:
        self._problems.append(_problem(self._document, path, message, hint))

    def _clause(self, path: NodePath, use: dict[str, Any]) -> tuple[Any, Insertion] | None:
        named = _USE.fullmatch(str(use["use"]))
        if named is None:
            self._wrong((*path, "use"), "expected FILE#NAME", "e.g. `use: common.yaml#closed`")
            return None
        if others := sorted(set(use) - _KEYS):
            hint = "a use has `use`, `with` and `id`; what else differs is a parameter"
            self._wrong((*path, others[0]), f"unknown key `{others[0]}`", hint)
            return None
        known = self._library(path, named[1])
        if known is None:
            return None
        source, library = replace(known[0], file=self._label(path, named[1])), known[1]
        clause = library.clauses.get(named[2])
        if clause is None:
            hint = suggest(named[2], library.clauses) or f"known: {', '.join(library.clauses)}"
            self._wrong((*path, "use"), f"{named[1]} has no clause `{named[2]}`", hint[:200])
            return None
        arguments = self._arguments(path, use.get("with"), clause)
        if arguments is None:
            return None
        at: NodePath = ("clauses", named[2], "clause")
        written = source.value["clauses"][named[2]]["clause"]
        substitution = _Substitution(source, at, clause.parameters, arguments)
        made = substitution.of(written, (), path)
        self._size += substitution.size
        self._problems += substitution.problems
        if self._size > MAX_EXPANDED:
            self._wrong(path, f"libraries make more than {MAX_EXPANDED} characters of clauses")
            return None
        if path[0] not in ("exclude", "canonicalize", "effects"):
            made["id"] = use.get("id") or made.get("id") or named[2]
        return made, Insertion(source, at, named[1])

    def _library(self, path: NodePath, name: str) -> tuple[Document, Library] | None:
        if name not in self._read:
            self._read[name] = self._load(path, name)
        return self._read[name]

    def _load(self, path: NodePath, name: str) -> tuple[Document, Library] | None:
        place = (*path, "use")
        pins = self._document.value.get("libraries")
        if not isinstance(pins, dict) or name not in pins:
            hint = f'add `libraries: {{{name}: "…"}}` with the SHA-256 of the file'
            self._wrong(place, f"{name} is not pinned under `libraries`", hint)
            return None
        if self._beside is None:
            self._wrong(place, "a contract from no folder has no library beside it")
            return None
        try:
            data = self._beside(name)
        except UsageError as error:
            self._wrong(place, str(error))
            return None
        digest = hashlib.sha256(data).hexdigest()
        if digest != pins[name]:
            hint = "if the library was changed on purpose, release a new version with the digest"
            self._wrong(("libraries", name), f"{name} has another digest, {digest}", hint)
            return None
        source = read_document(data, self._label(path, name))
        library = as_model(source, Library)
        return source, library

    def _label(self, path: NodePath, name: str) -> str:
        """What messages call the library: where it is used, and its name."""
        return f"{self._document.file}:{self._document.position(path).line}: {name}"

    def _arguments(
        self, path: NodePath, given: Any, clause: LibraryClause
    ) -> dict[str, Any] | None:
        arguments = {} if given is None else given
        if not isinstance(arguments, dict):
            self._wrong((*path, "with"), "expected a mapping of parameters to what they are")
            return None
        before = len(self._problems)
        for name in arguments:
            if name not in clause.parameters:
                hint = suggest(name, clause.parameters) or "; ".join(clause.parameters)
                self._wrong((*path, "with", name), f"the clause has no parameter `{name}`", hint)
        for name, kind in clause.parameters.items():
            if name not in arguments:
                self._wrong((*path, "with"), f"the parameter `{name}` ({kind}) is not given")
            elif (why := _unfit(kind, arguments[name])) is not None:
                self._wrong((*path, "with", name), f"`{name}`: {why}")
        return arguments if len(self._problems) == before else None


def _unfit(kind: str, value: Any) -> str | None:
    """Why the value is none of the kind; None where it is."""
    if kind == "name":
        fits = isinstance(value, str) and _NAME.fullmatch(value)
        return None if fits else "expected the name of a type or field"
    if kind == "expression":
        if not isinstance(value, str) or len(value) > MAX_VALUE or not value.strip():
            return f"expected an expression of at most {MAX_VALUE} characters"
        return None if is_whole(value) else "expected a whole expression, this is a part of one"
    return None if _is_bounded(value) else f"expected a value of at most {MAX_VALUE} characters"


def _is_bounded(value: Any) -> bool:
    return len(json.dumps(value, default=str, ensure_ascii=False)) <= MAX_VALUE


def json_copy(value: Any) -> Any:
    """A copy of plain values that may be changed."""
    if isinstance(value, dict):
        return {key: json_copy(item) for key, item in value.items()}
    return [json_copy(item) for item in value] if isinstance(value, list) else value


class _Substitution:
    """The values of a library's clause with the arguments in it."""

    def __init__(
        self,
        source: Document,
        at: NodePath,
        parameters: Mapping[str, str],
        arguments: Mapping[str, Any],
    ) -> None:
        self._source = source
        self._at = at
        self._parameters = parameters
        self._arguments = arguments
        self.problems: list[Problem] = []
        self.size = 0

    def of(self, value: Any, inner: NodePath, path: NodePath) -> Any:
        """`inner` is the way in the library's clause, `path` the one in the contract."""
        if isinstance(value, dict):
            if "use" in value and "#" in str(value["use"]):
                self._wrong((*inner, "use"), "a library uses no library; write the clause out")
            return {
                self._key(key, (*inner, key)): self.of(item, (*inner, key), (*path, key))
                for key, item in value.items()
            }
        if isinstance(value, list):
            return [
                self.of(item, (*inner, index), (*path, index)) for index, item in enumerate(value)
            ]
        if not isinstance(value, str):
            return value
        is_expression = holds_an_expression(path) or path[-1] == "is"
        whole = _PLACE.fullmatch(value)
        if whole and not is_expression and self._parameters.get(whole[1]) != "expression":
            made = json_copy(self._argument(whole[1], inner))
        else:
            made = _PLACE.sub(lambda m: self._text(m[1], inner, is_expression), value)
        self.size += len(made) if isinstance(made, str) else MAX_VALUE
        return made

    def _key(self, key: str, inner: NodePath) -> str:
        """A key may have the name of a field in it, as in `set: {${field}: 1}`."""
        return _PLACE.sub(lambda m: self._text(m[1], inner, False, names_only=True), key)

    def _argument(self, name: str, inner: NodePath) -> Any:
        if name not in self._parameters:
            hint = suggest(name, self._parameters) or "declare it under `parameters`"
            self._wrong(inner, f"`${{{name[:40]}}}` is no parameter of the clause", hint)
            return None
        return self._arguments[name]

    def _text(
        self, name: str, inner: NodePath, is_expression: bool, *, names_only: bool = False
    ) -> str:
        value, kind = self._argument(name, inner), self._parameters.get(name, "name")
        if kind == "name" and is_expression:
            return type_text(str(value))
        if kind == "name" or (names_only and kind == "value" and isinstance(value, str)):
            return str(value)
        if names_only or (kind == "expression" and not is_expression):
            self._wrong(inner, f"`${{{name}}}` is {kind} and stands where none can be")
            return ""
        if kind == "expression":
            return f"({' '.join(value.split())})"
        if is_expression:
            written = _literal(value)
            if written is None:
                self._wrong(inner, f"`${{{name}}}` is no value that an expression can hold")
            return written or ""
        return value if isinstance(value, str) else json.dumps(value, default=str)

    def _wrong(self, inner: NodePath, message: str, hint: str = "") -> None:
        problem = self._source.problem((*self._at, *inner), message, code=CODE, hint=hint)
        self.problems.append(problem)


def _literal(value: Any) -> str | None:
    """A plain value as a literal of the language; None where it has none."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case int() | Decimal():
            return f"({value})" if value < 0 else str(value)
        case str():
            return json.dumps(value, ensure_ascii=False)
        case list():
            items = [_literal(item) for item in value]
            return None if None in items else f"[{', '.join(item or '' for item in items)}]"
        case _:
            return None
