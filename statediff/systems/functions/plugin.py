"""The plug-in of functions: `python://module:function` is the state that the function returns.

A function takes no argument and returns `{type: [record, …]}`: what a system shows, read by the
caller's own code. A record is a mapping from names to values: null, truth values, numbers, texts,
lists and mappings stay what they are; instants, dates and times become ISO text, bytes base64,
UUIDs text.
Whatever else is in it is an error that names the place. What a function cannot read it raises.
"""

from __future__ import annotations

import base64
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID
from weakref import WeakValueDictionary

from statediff.entrypoints import named_function
from statediff.errors import InputError
from statediff.model.strictjson import spelling
from statediff.model.values import MAX_DEPTH, printable
from statediff.systems.base.plugin import Refinement, StateInput, StateReader, SystemPlugin

if TYPE_CHECKING:
    from statediff.capture.source import Clock, Source
    from statediff.model.readings import SourceCapture
    from statediff.model.schema import Schema
    from statediff.model.state import ChunkStore, State

SCHEME: Final = "python"
_lent: WeakValueDictionary[str, Callable[[], Any]] = WeakValueDictionary()
_numbers = itertools.count(1)


def url_of(function: Callable[[], Any]) -> str:
    """The URL by which a function at hand is a state, as long as there is the function."""
    name = printable(getattr(function, "__name__", type(function).__name__))
    url = f"{SCHEME}://{name}~{next(_numbers)}"
    _lent[url] = function
    return url


def content_of(url: str) -> bytes:
    """The return of the function as JSON tables. `InputError` where it fails or returns others."""
    function = _lent.get(url) or named_function(url.partition("://")[2], "the function of a source")
    try:
        tables = function()
    except Exception as error:
        raise InputError(
            f"{printable(url)} raised {type(error).__name__}: {printable(str(error)[:300])}"
        ) from error
    return tables_as_json(url, tables)


def tables_as_json(place: str, tables: Any) -> bytes:
    """Tables of Python values as JSON tables; `InputError` names the place of another value."""
    tree = {name: [*records] for name, records in _checked_tables(place, tables)}
    return spelling(tree).encode(errors="surrogatepass")


def _checked_tables(url: str, tables: Any) -> Iterable[tuple[str, Iterable[dict[str, Any]]]]:
    if not isinstance(tables, Mapping):
        raise _wrong(url, "{type: [record, …]}", tables)
    for name, records in tables.items():
        if not isinstance(name, str):
            raise _wrong(url, "a name of a type as text", name)
        if isinstance(records, str | bytes | Mapping) or not isinstance(records, Iterable):
            raise _wrong(f"{url}: {name}", "records", records)
        yield name, _checked_records(f"{url}: {name}", records)


def _checked_records(place: str, records: Iterable[Any]) -> Iterable[dict[str, Any]]:
    for number, record in enumerate(records):
        if not isinstance(record, Mapping):
            raise _wrong(f"{place}, record {number}", "a mapping", record)
        yield _checked(f"{place}, record {number}", record, 0)


def _checked(place: str, value: Any, depth: int) -> Any:
    match value:
        case Mapping() if depth < MAX_DEPTH:
            odd = next((name for name in value if not isinstance(name, str)), None)
            if odd is not None:
                raise _wrong(place, "names as text", odd)
            return {n: _checked(f"{place}, {n}", each, depth + 1) for n, each in value.items()}
        case list() | tuple() if depth < MAX_DEPTH:
            return [_checked(place, each, depth + 1) for each in value]
        case float() | Decimal() if not math.isfinite(value):
            raise _wrong(place, "a finite number", value)
        case None | bool() | int() | float() | str():
            return value
        case Decimal():
            return Decimal(f"{value:f}")  # a whole number is one, however it is written
        case date() | time():
            return value.isoformat()
        case bytes():
            return base64.b64encode(value).decode()
        case UUID():
            return str(value)
        case _:
            raise _wrong(
                place, "a value of JSON, an instant, a date, a time, a UUID or bytes", value
            )


def _wrong(place: str, expected: str, found: Any) -> InputError:
    kind = type(found).__name__
    return InputError(f"{printable(place)}: expected {expected}, found {printable(kind)}")


def _held(state: StateInput) -> StateInput:
    if state.content is not None:
        return state
    return replace(state, content=content_of(state.url or ""))


def _source(name: str, state: StateInput, refine: Refinement | None) -> Source:
    from statediff.systems.tables.source import TablesSource

    return TablesSource(name, _held(state).content or b"", refine)


def _series(name: str, states: Sequence[StateInput], refine: Refinement | None) -> Sequence[Source]:
    """All states; one that the function cannot give after the run is unobserved."""
    from statediff.systems.tables.plugin import series

    before, *others = states
    read = [_held(before)]
    failed: dict[int, str] = {}
    for place, state in enumerate(others, 1):
        try:
            read.append(_held(state))
        except InputError as error:
            failed[place] = str(error)
            read.append(read[0])
    found = series(name, read, refine)
    return [_Failed(source, failed[n]) if n in failed else source for n, source in enumerate(found)]


class _Failed:
    """A source that its function could not give."""

    def __init__(self, other: Source, cause: str) -> None:
        self._other = other
        self._cause = cause

    @property
    def name(self) -> str:
        return self._other.name

    def schema(self) -> Schema:
        return self._other.schema()

    def read(self, _store: ChunkStore, _clock: Clock, _like: State | None) -> SourceCapture:
        from statediff.capture.source import SourceUnavailable

        raise SourceUnavailable(self._cause)


PLUGIN: Final = SystemPlugin(
    interface=1,
    states=StateReader(
        name="tables",
        description="what a function returns",
        schemes=frozenset({SCHEME}),
        source=_source,
        series=_series,
        keep=_held,
    ),
)
