"""One place where errors end: a short message or one JSON object, and the exit code it stands for.

| code | meaning |
|---|---|
| 0, 1, 3 | the verdict: all MATCH; any DIVERGE; INCONCLUSIVE and no DIVERGE |
| 2 | usage, or an invalid contract: the caller can fix it |
| 4 | a fault of the harness or of the evaluator |
| 130 | interrupted |
| 141 | the reader closed the pipe; nothing is said |

A traceback is shown only when STATEDIFF_TRACEBACK is 1.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import typer

from statediff.errors import (
    BundleError,
    ContractError,
    HarnessError,
    InputError,
    Problem,
    StatediffError,
    UsageError,
)
from statediff.model.values import printable

if TYPE_CHECKING:
    from statediff.model.verdict import Verdict

USAGE: Final = 2
FAULT: Final = 4
INTERRUPTED: Final = 130
GONE: Final = 141
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_DENIED: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
# The parser's own errors, whichever package the installed typer takes them from.
ParserError: Final[type[Exception]] = typer.BadParameter.__mro__[2]


def exit_code(verdicts: Iterable[Verdict], *, has_fault: bool = False) -> int:
    """0 all MATCH, 1 any DIVERGE, 3 INCONCLUSIVE and no DIVERGE (docs/design.md §11).

    4 where something was not judged at all (`has_fault`) and no other run diverged.
    """
    from statediff.model.verdict import Verdict

    found = set(verdicts)
    if Verdict.DIVERGE in found:
        return 1
    if has_fault:
        return FAULT
    return 3 if Verdict.INCONCLUSIVE in found else 0


@dataclass(frozen=True)
class Failed:
    """A contract or sandbox that failed, and that the command went on without."""

    name: str
    why: str

    @staticmethod
    def documents(failed: Sequence[Failed]) -> dict[str, Any]:
        """The failures as members of a JSON object; empty where there are none."""
        found = [{"name": each.name, "fault": each.why} for each in failed]
        return {"failed": found} if found else {}

    @staticmethod
    def show(failed: Sequence[Failed]) -> int:
        """The exit code for them; each is named on standard error, after what the others show."""
        for each in failed:
            message = f"error: {printable(each.name)}: {printable(each.why)}"
            sys.stderr.write(f"{message}\n")
        return FAULT if failed else 0


def left_out(absent: Mapping[str, str], *, forgiven: bool) -> int:
    """The exit code for what was left out since it is not installed; each is named, with a cure."""
    for name, extra in absent.items():
        sys.stderr.write(f"not tried: {printable(name)}: not installed; pip install {extra}\n")
    return FAULT if absent and not forgiven else 0


class Interrupted(Exception):
    """Ctrl-C, or a request to end; commands clean up on its way out."""


class Gone(Exception):
    """The reader closed the pipe."""


def exit_code_of(command: Callable[[], object], *, as_json: bool) -> int:
    """The exit code of `command`, whatever it raises; errors are reported, without tracebacks."""
    try:
        return _exit_code(command, as_json=as_json)
    except KeyboardInterrupt:  # in the middle of a message: no words are needed then
        _abandon_output()
        return INTERRUPTED


def _exit_code(command: Callable[[], object], *, as_json: bool) -> int:
    try:
        returned = command()
        sys.stdout.flush()
        return returned if isinstance(returned, int) else 0
    except (BrokenPipeError, Gone):
        _abandon_output()
        return GONE
    except (Interrupted, KeyboardInterrupt):
        return _tell("interrupted", "interrupted", INTERRUPTED, as_json=as_json)
    except StatediffError as error:
        _maybe_traceback()
        problems = error.problems if isinstance(error, ContractError) else ()
        code = USAGE if isinstance(error, UsageError) else FAULT
        about = problems, error.component
        return _tell(kind_of(error), str(error), code, *about, as_json=as_json)
    except ParserError as error:
        usage = getattr(error, "ctx", None)
        said = error.format_message()  # type: ignore[attr-defined]  # every parser error has it
        if not said and usage is not None:
            said = "expected a command"
        hint = f" See `{usage.command_path} --help`." if usage is not None else ""
        return _tell("usage", f"{said}{hint}", USAGE, as_json=as_json)
    except OSError as error:
        _maybe_traceback()
        if error.errno in _FULL:
            message = "no space left to write to; free some and run again"
            return _tell("harness", message, FAULT, as_json=as_json)
        if error.errno in _DENIED and error.filename is not None:
            message = f"{os.fsdecode(error.filename)}: {error.strerror}; check who may use it"
            return _tell("input", message, USAGE, as_json=as_json)
        return _tell("fault", _fault(error), FAULT, as_json=as_json)
    except (typer.Abort, EOFError):
        return _tell("interrupted", "interrupted", INTERRUPTED, as_json=as_json)
    except Exception as error:  # noqa: BLE001 - the outermost door; the fault is reported
        _maybe_traceback()
        return _tell("fault", _fault(error), FAULT, as_json=as_json)


def kind_of(error: StatediffError) -> str:
    """The family of an error, as `--json` names it."""
    families: tuple[tuple[type[StatediffError], str], ...] = (
        (ContractError, "contract"),
        (InputError, "input"),
        (UsageError, "usage"),
        (BundleError, "bundle"),
        (HarnessError, "harness"),
    )
    return next((name for family, name in families if isinstance(error, family)), "fault")


def _fault(error: Exception) -> str:
    return (
        f"this is a fault of statediff, not of your contract or agent: {type(error).__name__}: "
        f"{error}; set STATEDIFF_TRACEBACK=1 to see where, and please report it"
    )


def _tell(
    kind: str,
    message: str,
    code: int,
    problems: Sequence[Problem] = (),
    component: str = "",
    *,
    as_json: bool,
) -> int:
    """Report the error; `component` is null in JSON where it is about no stage, or several."""
    try:
        if as_json:
            from statediff.cli.output import emit
            from statediff.reports.plain import plain_problem

            listed = [plain_problem(problem) for problem in problems]
            said = {"kind": kind, "component": component or None, "message": message}
            emit({"error": {**said, "problems": listed}})
        else:
            lines = [printable(line) for line in message.split("\n")]
            lead = "" if kind == "interrupted" or problems else "error: "
            sys.stderr.write(lead + "\n".join(lines) + "\n")
            sys.stderr.flush()
    except OSError:
        _abandon_output()  # nobody reads it; the exit code still says it
    return code


def _maybe_traceback() -> None:
    if os.environ.get("STATEDIFF_TRACEBACK") == "1":
        traceback.print_exc()


def _abandon_output() -> None:
    """Drop what is still buffered, so that the interpreter does not complain at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
        except (OSError, ValueError):
            continue
