"""An agent's own log of its calls, written while they are made: `Trial.tool` and the adapters.

A line says that a call begins before anything of it is carried out, another one how it ended; each
is one append to the trial's trace file. So threads, tasks and processes of the agent share the log,
and what ends the agent does not take a call out of it. `handover.read_trace` reads it. It is the
agent's word, as every log is that an agent can write.

Values are bounded. What cannot be kept is unobserved, with the cause, and no value stops a call:
only a call whose beginning cannot be written is not made.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import inspect
import json
import os
import uuid
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum
from pathlib import Path, PurePath
from typing import Any, Final, get_type_hints

from statediff.errors import InputError, UsageError
from statediff.model.strictjson import read_json
from statediff.model.trace import ActionClass
from statediff.model.values import Unobserved

MAX_LOG_BYTES: Final = 16 * 1024 * 1024
"""The bytes of an agent's own log that are read."""
MAX_DEPTH: Final = 31
"""The most depth of a value: the line around it is one level more."""
MAX_VALUE_BYTES: Final = 64 * 1024
MAX_ERROR: Final = 2000
MAX_NAME: Final = 200
_FLAGS: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_KINDS: Final = {kind.value for kind in ActionClass}

Clock = Callable[[], datetime]


def now() -> datetime:
    """The clock of a process that was given none."""
    return datetime.now(UTC)


@dataclass(frozen=True, kw_only=True)
class OwnLog:
    """The log in one file. Safe to use from threads and from processes that were forked."""

    path: Path
    clock: Clock = now
    classes: Mapping[str, str] = field(default_factory=dict)
    """Tool → the class of its calls, e.g. `read`; of others it is not known."""

    def __post_init__(self) -> None:
        for class_ in self.classes.values():
            if class_ not in _KINDS:
                known = ", ".join(sorted(_KINDS))
                raise UsageError(f"no class of calls: {class_!r}; there are: {known}")

    def begin(
        self,
        tool: str,
        arguments: object,
        *,
        principal: str | None = "agent",
    ) -> str:
        """A call begins; its id in this log. `OSError`: nothing could be written, do not call."""
        call = uuid.uuid4().hex
        kind = self.classes.get(tool, ActionClass.UNKNOWN.value)
        self._write(
            {"begin": call, "tool": bounded(tool, MAX_NAME) or "(no name)", "class": kind}
            | ({} if principal is None else {"principal": bounded(principal, MAX_NAME)})
            | {"started_at": self.clock().isoformat()},
            ("arguments", arguments),
        )
        return call

    def end(self, call: str, *, result: object = None, error: BaseException | str | None) -> None:
        """The call is over. Nothing is raised: without this line it is one that did not end."""
        known = {"end": call, "finished_at": self.clock().isoformat()}
        if error is not None:
            known["error"] = error_text(error)
        with contextlib.suppress(OSError):
            self._write(known, ("result", result))

    def miss(self, cause: str) -> None:
        """Calls were made, or may be, that the log does not hold."""
        self._write({"missed": bounded(cause, MAX_ERROR)})

    @contextlib.contextmanager
    def call(self, tool: str, arguments: object) -> Iterator[Outcome]:
        """One call, made in the block; what the block raises is its error and goes on."""
        begun, outcome = self.begin(tool, arguments), Outcome()
        try:
            yield outcome
        except BaseException as error:
            self.end(begun, error=error)
            raise
        self.end(begun, result=outcome.result, error=outcome.error)

    def _write(self, known: Mapping[str, str], value: tuple[str, object] | None = None) -> None:
        file = os.open(self.path, _FLAGS, 0o600)
        try:
            members = {name: json.dumps(text) for name, text in known.items()}
            if value is not None:
                members |= _kept(*value, is_full=os.fstat(file).st_size > MAX_LOG_BYTES // 2)
            line = "{" + ",".join(f'"{name}":{text}' for name, text in members.items()) + "}\n"
            raw = line.encode("utf-8")
            if os.write(file, raw) != len(raw):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        finally:
            os.close(file)


@dataclass
class Outcome:
    """The outcome of a call."""

    result: object = None
    error: BaseException | str | None = None


def recorded(
    function: Callable[..., Any],
    log: OwnLog,
    *,
    name: str | None = None,
    principal: str | None = "agent",
    without: Collection[str] = (),
) -> Callable[..., Any]:
    """The function, each call of which is in the log; its name, signature and hints are the same.

    What it raises goes on unchanged. `without` names parameters that are no argument of a call,
    e.g. a framework's context. Of a generator the call is recorded, and not what it gives.
    """
    if isinstance(function, (staticmethod, classmethod)):
        inner = recorded(function.__func__, log, name=name, principal=principal, without=without)
        return type(function)(inner)
    if not callable(function):
        raise UsageError(f"expected a function to record, found a {type(function).__name__}")
    tool = name or name_of(function)
    arguments = _Arguments(function, frozenset(without))

    def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        return log.begin(tool, arguments.of(args, kwargs), principal=principal)

    async def finish(call: str, result: Awaitable[Any]) -> Any:
        try:
            returned = await result
        except BaseException as error:
            log.end(call, error=error)
            raise
        log.end(call, result=returned, error=None)
        return returned

    # Of an object, what it holds is no attribute of the function that calls it.
    updated = functools.WRAPPER_UPDATES if inspect.isroutine(function) else ()

    @functools.wraps(function, updated=updated)
    async def in_time(*args: Any, **kwargs: Any) -> Any:
        return await finish(begin(args, kwargs), function(*args, **kwargs))

    @functools.wraps(function, updated=updated)
    def at_once(*args: Any, **kwargs: Any) -> Any:
        call = begin(args, kwargs)
        try:
            returned = function(*args, **kwargs)
        except BaseException as error:
            log.end(call, error=error)
            raise
        if inspect.iscoroutine(returned):
            return finish(call, returned)
        log.end(call, result=returned, error=None)
        return returned

    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - of an object, its method
    )
    wrapper = in_time if is_async else at_once
    if not inspect.isroutine(function):
        _describe(wrapper, function, tool)
    return wrapper


def _describe(wrapper: Any, function: Any, name: str) -> None:
    """Attributes of a function that frameworks read, where a partial or an object lacks them."""
    wrapper.__name__ = wrapper.__qualname__ = name
    called = function.__call__
    while isinstance(function, functools.partial):
        called = function = function.func
    wrapper.__doc__ = function.__doc__
    hints: dict[str, Any] = {}
    with contextlib.suppress(Exception):  # hints may name what is not there
        left = {*inspect.signature(wrapper).parameters, "return"}
        hints = get_type_hints(called, include_extras=True)
        hints = {name: hint for name, hint in hints.items() if name in left}
    wrapper.__annotations__ = hints


def name_of(function: Callable[..., Any]) -> str:
    """The name of a callable: its own, or that of its function or class."""
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, "__name__", None) or type(function).__name__)


class _Arguments:
    """The arguments of a call by the names of the parameters, with the defaults."""

    def __init__(self, function: Callable[..., Any], without: frozenset[str]) -> None:
        self._signature: inspect.Signature | None = None
        self._without = without
        with contextlib.suppress(TypeError, ValueError):
            self._signature = inspect.signature(function)
            first = next(iter(self._signature.parameters), None)
            # A method that is wrapped where its class is defined: its object is no argument.
            if first in ("self", "cls") and not inspect.ismethod(function):
                self._without |= {first}

    def of(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """By name; as they came where they do not fit, which the call itself will say."""
        try:
            bound = None if self._signature is None else self._signature.bind(*args, **kwargs)
        except TypeError:
            bound = None
        if self._signature is None or bound is None:
            return {"args": args, **kwargs} if args else dict(kwargs)
        bound.apply_defaults()
        found: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            kind = self._signature.parameters[name].kind
            if name in self._without:
                continue
            if kind is inspect.Parameter.VAR_KEYWORD and not value.keys() & bound.arguments.keys():
                found |= {key: each for key, each in value.items() if key not in self._without}
            elif kind is not inspect.Parameter.VAR_POSITIONAL or value:
                found[name] = value
        return found


def error_text(error: BaseException | str) -> str:
    """An error as a log keeps it, whatever its own text does."""
    if isinstance(error, str):
        return bounded(error, MAX_ERROR)
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - a text of the agent's own code
        said = "(it cannot be shown)"
    return bounded(f"{type(error).__name__}: {said}" if said else type(error).__name__, MAX_ERROR)


def _kept(name: str, value: object, *, is_full: bool) -> dict[str, str]:
    """The member that holds the value, or the one that says why none does."""
    if is_full:
        value = Unobserved(f"the log has more than {MAX_LOG_BYTES // 2} bytes and keeps no values")
    kept = value if isinstance(value, Unobserved) else _json(value)
    if isinstance(kept, Unobserved):
        return {"unobserved": json.dumps({name: bounded(kept.cause, 200)})}
    return {name: kept}


def _json(value: object) -> str | Unobserved:
    """The value as JSON that `read_json` reads, or why there is none."""
    text, size = [], 0
    if isinstance(value, str) and len(value) > MAX_VALUE_BYTES:
        return Unobserved(f"{len(value)} characters; the log keeps {MAX_VALUE_BYTES} bytes")
    try:
        # Piece by piece: of what is too large, no more is made than can be kept.
        for piece in _ENCODER.iterencode(value):
            size += len(piece)
            if size > MAX_VALUE_BYTES:
                return Unobserved(f"more than the {MAX_VALUE_BYTES} bytes that the log keeps")
            text.append(piece)
        made = "".join(text)
        read_json(made.encode("utf-8"), "value", max_bytes=MAX_VALUE_BYTES, max_depth=MAX_DEPTH)
    except InputError as error:
        return Unobserved(str(error))
    except Exception as error:  # noqa: BLE001 - values have code of their own; none may end a call
        return Unobserved(f"not JSON: {error_text(error)}")
    return made


def _plain(value: object) -> object:
    """A value in place of one that JSON does not have; `TypeError` where there is none."""
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    if callable(dump := getattr(value, "model_dump", None)) and not isinstance(value, type):
        return dump(mode="json")
    match value:
        case datetime() | date() | time():
            return value.isoformat()
        case Decimal() | uuid.UUID() | PurePath():
            return str(value)
        case Enum():
            return value.value
        case set() | frozenset():
            return sorted(value, key=repr)
        case Mapping():
            return dict(value)
        case _:
            raise TypeError(f"a {type(value).__name__}")


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=_plain)


def bounded(text: str, limit: int) -> str:
    """Text that can be written: bounded, and without half characters."""
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return cut.encode("utf-8", errors="replace").decode("utf-8")


def json_arguments(given: object) -> object:
    """A model's arguments, an object or its JSON text, as the recorder of tools keeps them."""
    found = given
    if isinstance(given, str):
        with contextlib.suppress(ValueError, RecursionError):
            found = json.loads(given or "{}")
    return found if isinstance(found, dict) else {"unparsed": found}
