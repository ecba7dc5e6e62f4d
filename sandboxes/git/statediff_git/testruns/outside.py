"""The call into the tested code for tests outside its process: `from outside import outside`.

    parse = outside("unitkit.parse").parse

    def test_a_sign_belongs_to_the_whole():
        found = parse("-1 ft 6 in")
        assert (found.value.numerator, found.unit) == (-3, "ft")

`outside(module)` imports a module in the code's process. Attributes are read and functions called
there. What comes back is a value of an exact type (None, bool, int, float, str, bytes, list, tuple,
dict), which the test judges here; an exception, under the name of its class; or an `Object`, which
stays there and can only be asked further. An `Object` is never equal, true, ordered or in anything:
that would be the word of the code about itself.

Loaded by `program.py` in the process of the tests, never imported by statediff.
"""

from __future__ import annotations

import builtins
import json
import re
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from statediff_git.testruns.code_process import (
    MAX_CONTENT,
    MAX_DEPTH,
    Pipe,
    read_value,
    write_value,
)

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.<>]{0,199}")


class NoValue(Exception):
    """There is no value of the code's to judge. No test passes in which this was raised."""


class CodeRaised(Exception):
    """The code raised an exception; `type` is the full name of its class.

    Where a base of that class is an exception of Python's own, this is one too, so that
    `assertRaises(ValueError)` sees it.
    """

    type: str = ""
    text: str = ""

    def __str__(self) -> str:
        return self.text


def _catchable() -> dict[str, type[Exception]]:
    """Python's exceptions by full name, without those that would end a loop of the test itself."""
    found: dict[str, type[Exception]] = {}
    for name, kind in vars(builtins).items():
        if isinstance(kind, type) and issubclass(kind, Exception):
            try:
                kind("a text")
            except TypeError:
                continue
            found[f"builtins.{name}"] = kind
    for name in ("StopIteration", "StopAsyncIteration"):
        del found[f"builtins.{name}"]
    return found


_CATCHABLE: Final = _catchable()


@dataclass
class Code:
    """The other side of the pipe, and what went wrong there since the last test ended."""

    pipe: Pipe
    process: int = 0
    """Which process answers: they are counted."""
    is_running: bool = False
    fault: str | None = None
    """Why the test that runs now is an error, whatever it makes of it."""
    end: dict[str, Any] | None = None
    """How the process ended where that says nothing of the code, or it used up its CPU time."""

    def renew(self) -> None:
        """The next request meets a process in which nothing was imported."""
        self.pipe.send(b"N", b"")
        self.process += 1
        self.is_running, self.fault, self.end = False, None, None

    def ask(self, *request: Any) -> Any:
        """The value that the code replies. Raises `CodeRaised` and `NoValue`."""
        content = json.dumps(request).encode()
        if len(content) > MAX_CONTENT:
            self.fail(f"the arguments are more than {MAX_CONTENT} bytes")
        if self.end is not None:
            self.fail("the code's process is gone")
        self.is_running = True
        try:
            self.pipe.send(b"Q", content)
            kind, reply = self.pipe.receive()
        except (EOFError, OSError):
            kind, reply = b"E", b'{"status": -9, "spent": false}'
        if kind == b"E":
            self._note_end(json.loads(reply))
        try:
            verb, found = self._read(json.loads(reply, parse_float=_refuse, parse_int=_small))
        except (ValueError, TypeError, RecursionError) as error:
            self.fail(f"its reply is none: {str(error)[:100]}")
        if verb == "raise":
            raise found
        return found if verb == "ok" else self.fail(f"what it returned cannot be sent: {found}")

    def _note_end(self, end: dict[str, Any]) -> NoReturn:
        self.process += 1
        self.is_running = False
        if end["spent"] or end["status"] < 0:
            self.end = end
        self.fail(f"the code ended its process, status {end['status']}")

    def fail(self, why: str) -> NoReturn:
        """The test that runs now is an error, also where it expects an exception."""
        self.fault = self.fault or why
        raise NoValue(why)

    def _read(self, reply: Any) -> tuple[str, Any]:
        """(`ok`, value), (`raise`, exception) or (`no`, why). `ValueError` for anything else."""
        match reply:
            case ["ok", said]:
                return "ok", self._value(said, 0)
            case ["raise", [*names], str(text)]:
                return "raise", _raised([name for name in names if type(name) is str], text)
            case ["no", str(why)]:
                return "no", why[:100]
            case _:
                raise ValueError("it has another form")

    def _value(self, said: Any, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise ValueError("it is nested too deep")
        if said is None or type(said) in (bool, str):
            return said
        if type(said) is not list or not said:
            raise ValueError("a value is of no type that crosses")
        kind, *rest = said
        if kind == "h" and len(rest) == 2 and type(rest[0]) is int and type(rest[1]) is str:
            return Object(self, ["h", rest[0]], rest[1], self.process)
        return read_value(kind, rest, lambda each: self._value(each, depth + 1))

    def say(self, value: Any) -> Any:
        """The argument as it is sent."""
        if type(value) is Object:
            return _place(value)
        said = write_value(value, self.say)
        if said is NotImplemented:
            self.fail(f"an argument of type {type(value).__name__} cannot be sent")
        return said


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"no number crosses as {text[:20]}")


def _small(text: str) -> int:
    return int(text) if len(text) < 10 else _refuse(text)


def _raised(names: list[str], text: str) -> CodeRaised:
    """The exception, of a class that is the nearest of Python's own among those named."""
    own = names[0] if names and _NAME.fullmatch(names[0]) else "builtins.Exception"
    base = next((_CATCHABLE[name] for name in names if name in _CATCHABLE), None)
    module, _, name = own.rpartition(".")
    bases = (CodeRaised,) if base is None or base is Exception else (CodeRaised, base)
    kind = type(name, bases, {"__module__": module, "__qualname__": name})
    error: CodeRaised = kind(text)
    error.type, error.text = own, text
    return error


class Object:
    """An object of the code, or a module of it: attributes are read and calls made over there."""

    def __init__(self, code: Code, at: list[Any], kind: str, process: int) -> None:
        vars(self).update(_code=code, _at=at, _kind=kind, _process=process)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(f"{name}: ask `outside('builtins')` instead")
        code: Code = self._code
        value = code.ask("get", _place(self), name)
        if type(value) is Object and self._at[0] == "p":
            # By its name it is found again, also in the next process.
            return Object(code, [*self._at, name], vars(value)["_kind"], code.process)
        return value

    def __call__(self, *arguments: Any, **names: Any) -> Any:
        code: Code = self._code
        sent = [code.say(each) for each in arguments]
        return code.ask(
            "call", _place(self), sent, [[key, code.say(value)] for key, value in names.items()]
        )

    def __repr__(self) -> str:
        return f"<{self._kind[:100]!a} of the code>"

    def _refuse(self, *_: object) -> NoReturn:
        code: Code = self._code
        code.fail(
            f"{self!r} is no value: what it says of itself proves nothing; "
            "compare values that it returns, e.g. its attributes"
        )

    def __setattr__(self, name: str, value: object) -> None:
        self._refuse()

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __bool__ = __len__ = __iter__ = __contains__ = __hash__ = _refuse
    __getitem__ = __int__ = __float__ = __index__ = __add__ = __neg__ = _refuse


def _place(of: Object) -> list[Any]:
    """The object's place in the process that answers now."""
    state = vars(of)
    code: Code = state["_code"]
    if state["_at"][0] == "h" and state["_process"] != code.process:
        code.fail("the process that had this object is gone")
    place: list[Any] = state["_at"]
    return place


_codes: Final[list[Code]] = []
"""The one code whose tests this process runs."""


def connect(pipe: Pipe) -> Code:
    """The code behind `pipe`; `outside` asks it from now on."""
    _codes[:] = [Code(pipe)]
    return _codes[0]


def outside(module: str) -> Object:
    """The module, imported in the code's process. Raises what importing it raises."""
    code = _codes[0]
    try:
        code.ask("import", module)
    except CodeRaised as error:
        # Also where the test expects an exception: it is not that of the call it is about.
        code.fault = f"{module} cannot be imported: {error}"[:200]
        raise
    return Object(code, ["p", module], module, code.process)
