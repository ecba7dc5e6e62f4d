"""Shapes of JSON: what a document holds, how it is made of our values, and how it is read again.

A shape has four uses: it writes, reads and checks a document, and says in words what that is.
`evidence.documents` is the table of those of a bundle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from operator import attrgetter
from typing import Annotated, Any, NamedTuple, NotRequired, TypeAlias

from pydantic import AfterValidator, StrictBool, StrictInt, StrictStr, TypeAdapter, ValidationError
from pydantic import Field as Bounded
from typing_extensions import TypedDict

from statediff.errors import BundleError
from statediff.evidence.canonical import write
from statediff.model.values import printable

Json: TypeAlias = Any
Convert: TypeAlias = Callable[[Any], Any]
Text: TypeAlias = StrictStr
Encoded: TypeAlias = list[Any]
"""A value as `model.values.encode` writes it."""
Key: TypeAlias = list[Encoded]
Count: TypeAlias = Annotated[StrictInt, Bounded(ge=0)]


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True, eq=False)
class Shape:
    """One kind of JSON."""

    words: str
    """As the specification says it."""
    annotation: Callable[[], Any]
    """The type by which pydantic checks it; made when it is asked for, as only a replay does."""
    encode: Convert = _same
    decode: Convert = _same
    members: Mapping[str, Member] = field(default_factory=dict)
    """Those of an object, by name."""
    item: Shape | None = None
    """That of each item of an array."""


def plain(annotation: Any, words: str) -> Shape:
    """JSON that is written and read as it is."""
    return Shape(words, lambda: annotation)


TEXT, FLAG, NUMBER = plain(Text, "text"), plain(StrictBool, "flag"), plain(StrictInt, "number")
COUNT, ANYTHING = plain(Count, "number from 0"), plain(Any, "any")


class Member(NamedTuple):
    """A member of an object: its shape, and where its value comes from."""

    shape: Shape
    source: str | Convert
    """The attribute that holds it, or what makes it."""
    is_sparse: bool = False
    """True where the member is left out if its value is `default`."""
    default: Any = None
    is_read: bool = True
    """True if any reader needs it."""


def maybe(of: Shape) -> Shape:
    """Null, or that."""
    return Shape(
        f"{of.words} or null",
        lambda: of.annotation() | None,
        lambda value: None if value is None else of.encode(value),
        lambda document: None if document is None else of.decode(document),
    )


def many(of: Shape) -> Shape:
    """An array of any length of that; a tuple."""
    encode, decode = of.encode, of.decode
    return Shape(
        f"[{of.words}, …]",
        lambda: list[of.annotation()],  # type: ignore[misc]  # worked out when it is asked for
        list if encode is _same else lambda values: [encode(each) for each in values],
        tuple if decode is _same else lambda document: tuple(map(decode, document)),
        item=of,
    )


def written(shape: Shape, value: Any) -> bytes:
    """The canonical bytes of the value; a long array is never held as JSON."""
    if shape.item is not None:
        return b"[%b]" % b",".join([write(shape.item.encode(each)) for each in value])
    parts = []
    for name, one in sorted(shape.members.items()):
        held = attrgetter(one.source)(value) if isinstance(one.source, str) else one.source(value)
        if not (one.is_sparse and held == one.default):
            parts.append(write(name) + b":" + written(one.shape, held))
    return b"{%b}" % b",".join(parts) if shape.members else write(shape.encode(value))


def row(
    *of: Shape, words: str = "", make: Callable[..., Any] | None = None, take: Convert = _same
) -> Shape:
    """An array of exactly these: a tuple, or what `make` makes of them and `take` takes apart."""
    encoders, decoders = [each.encode for each in of], [each.decode for each in of]

    def decode(document: Json) -> Any:
        found = (decode(each) for decode, each in zip(decoders, document, strict=True))
        return tuple(found) if make is None else make(*found)

    return Shape(
        words or f"[{', '.join(each.words for each in of)}]",
        lambda: tuple[tuple(each.annotation() for each in of)],  # type: ignore[misc]  # as above
        lambda value: [e(each) for e, each in zip(encoders, take(value), strict=True)],
        decode,
    )


def choice(of: type[Enum]) -> Shape:
    """The text of a member of an enumeration."""
    return Shape("text", lambda: of, attrgetter("value"), of)


def each(names: str, of: Shape) -> dict[str, Shape | Member]:
    """Members of one shape, each held by the attribute of its name."""
    return {name: Member(of, name) for name in names.split()}


def sparse(names: str, of: Shape, default: Any = None) -> dict[str, Shape | Member]:
    """Members that are left out where their value is the default."""
    return {name: Member(of, name, is_sparse=True, default=default) for name in names.split()}


def unread(names: str, of: Shape) -> dict[str, Shape | Member]:
    """Members that no reader needs."""
    return {name: Member(of, name, is_read=False) for name in names.split()}


def record(
    make: Callable[..., Any] | None,
    *members: Mapping[str, Shape | Member],
    called: str = "",
    check: Convert | None = None,
    annotation: Any = None,
) -> Shape:
    """An object with at least these members, of a value that `make` makes of them again.

    A shape stands for the member that the attribute of its name holds. The specification says
    `called` in its place, if it has a name. `check` raises `ValueError`.
    """
    every = {
        name: Member(one, name) if isinstance(one, Shape) else one
        for group in members
        for name, one in group.items()
    }
    writers = [
        (name, attrgetter(one.source) if isinstance(one.source, str) else one.source, one)
        for name, one in every.items()
    ]
    readers = [
        (name, one.source if isinstance(one.source, str) else name, one.shape.decode, one.is_sparse)
        for name, one in every.items()
    ]

    def encode(value: Any) -> Json:
        found = {}
        for name, get, member in writers:
            held = get(value)
            if not (member.is_sparse and held == member.default):
                found[name] = member.shape.encode(held)
        return found

    def decode(document: Json) -> Any:
        if make is None:
            raise TypeError(f"nothing is made of {called or 'this object'}")
        return make(**{
            attribute: read(document[name])
            for name, attribute, read, is_sparse in readers
            if not is_sparse or name in document
        })  # fmt: skip

    return Shape(
        called or object_words(every),
        lambda: annotation or _typed(called, every, check),
        encode,
        decode,
        every,
    )


def object_words(members: Mapping[str, Member]) -> str:
    """An object with these members, in words."""
    parts = (
        f"{name}{'?' if each.is_sparse else ''}: {each.shape.words}"
        for name, each in members.items()
    )
    return f"{{{', '.join(parts)}}}"


def _typed(called: str, members: dict[str, Member], check: Convert | None) -> Any:
    typed: Any = TypedDict
    fields = {
        name: NotRequired[each.shape.annotation()] if each.is_sparse else each.shape.annotation()
        for name, each in members.items()
        if each.is_read
    }
    found = typed(called.title().replace(" ", "") or "Object", fields)
    return found if check is None else Annotated[found, AfterValidator(check)]


def require_distinct(names: Iterable[str], what: str) -> None:
    """Raises `ValueError` where two of the names are one."""
    listed = list(names)
    if len({*listed}) != len(listed):
        raise ValueError(f"the same {what} twice")


def check(document: Json, adapter: TypeAdapter[Any], name: str) -> Any:
    """The document in that shape; else `BundleError` names the place."""
    try:
        return adapter.validate_python(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = printable(".".join(str(step) for step in first["loc"]))[:120]
        raise BundleError(f"{name}: {place or 'the whole'}: {first['msg']}") from error
