"""The tasks of an audit, as a YAML file lists them: where the states lie, and who judges them.

What stands beside `tasks` holds for every task that does not say otherwise. In all texts, `{task}`
stands for the task's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from statediff.errors import UsageError
from statediff.meta.cases import document_of
from statediff.model.values import printable

WRONG_RUN: Final = "wrong-run"
"""The class of a wrong run that was given without one."""
_PATHS: Final = frozenset({"answer", "contract", "schema"})
_STATES: Final = frozenset({"before", "after"})
_TEXTS: Final = frozenset({"verifier", "solution", "domain", "server", "at"})
_RUNS: Final = frozenset({"after", "solution"})
_SHARED: Final = _PATHS | _STATES | _TEXTS
_KEYS: Final = _SHARED | {"task", "right", "wrong"}


@dataclass(frozen=True, kw_only=True)
class WrongRun:
    """The state after a run that is known to be wrong."""

    after: str
    run: str = ""
    """Whose, or which; the file's name without one."""
    kind: str = WRONG_RUN


@dataclass(frozen=True, kw_only=True)
class FileTask:
    """One task: where its states lie, and who judges it."""

    name: str
    verifier: str
    before: tuple[str, ...]
    after: tuple[str, ...] = ()
    """States after a right run; empty where a solution makes it."""
    solution: str = ""
    """The command that makes the right run, in a copy of the state before."""
    at: str = ""
    """The path at which commands find the state that they are shown; empty: where it is."""
    server: str = ""
    """The URL of the server in which dumps are loaded."""
    answer: Path | None = None
    right: tuple[str, ...] = ()
    """States after other right runs; of tasks with one source only."""
    wrong: tuple[WrongRun, ...] = ()
    """Runs that are known to be wrong; of tasks with one source only."""
    domain: str = ""
    """What it is counted with; without one, it is counted alone."""
    contract: Path | None = None
    """Instead of a draft: the contract that says what in the task is harm."""
    schema: Path | None = None

    @property
    def states(self) -> tuple[str, ...]:
        """Every state that is named."""
        return (*self.before, *self.after, *self.right, *(each.after for each in self.wrong))


def tasks_in(path: Path, verifier: str | None) -> tuple[FileTask, ...]:
    """The tasks that a YAML file lists; paths are from its folder. `UsageError` for what is odd."""
    document = document_of(path)
    listed = document.get("tasks")
    shared = {name: value for name, value in document.items() if name != "tasks"}
    if not isinstance(listed, list) or not listed or not shared.keys() <= _SHARED:
        raise UsageError(
            f"{printable(str(path))}: expected `tasks`, a list, and for all of them maybe "
            f"{', '.join(sorted(_SHARED))}"
        )
    given = {} if verifier is None else {"verifier": verifier}
    found = [_task(path, _whole({**shared, **given}, entry)) for entry in listed]
    names = [task.name for task in found]
    if len(set(names)) < len(names):
        raise UsageError(f"{printable(str(path))}: two tasks have one name")
    return tuple(found)


def _whole(shared: Mapping[str, Any], entry: Any) -> Any:
    """The entry with what holds for all; of `after` and `solution`, its own."""
    if not isinstance(entry, Mapping):
        return entry
    left = frozenset() if _RUNS.isdisjoint(entry) else _RUNS
    return {**{name: value for name, value in shared.items() if name not in left}, **entry}


def _task(path: Path, entry: Any) -> FileTask:
    known = entry if isinstance(entry, Mapping) else {}
    right, wrong = known.get("right") or [], known.get("wrong") or []
    is_well = (
        known.keys() <= _KEYS
        and known.keys() >= {"task", "verifier", "before"}
        and len(known.keys() & _RUNS) == 1
        and isinstance(right, list)
        and isinstance(wrong, list)
        and all(isinstance(known[name], str) for name in known.keys() - {"right", "wrong"})
        and all(isinstance(state, str) for state in right)
        and all(isinstance(each, str) or _is_wrong_run(each) for each in wrong)
    )
    if not is_well:
        raise UsageError(
            f"{printable(str(path))}: a task has texts under `task`, `verifier`, `before`, and "
            f"`after` or `solution`, and maybe {', '.join(sorted(_KEYS))}; found "
            f"{printable(str(entry))[:200]}"
        )

    texts = {n: known[n].replace("{task}", known["task"]) for n in _SHARED & known.keys()}

    def state(text: str) -> str:
        return text if "://" in text else str(path.parent / text)

    def wrong_run(each: Any) -> WrongRun:
        run = WrongRun(after=each) if isinstance(each, str) else WrongRun(**each)
        return replace(run, after=state(run.after))

    named: dict[str, Any] = {
        **{name: (state(texts[name]),) for name in _STATES & texts.keys()},
        **{name: path.parent / texts[name] for name in _PATHS & texts.keys()},
        **{name: texts[name] for name in _TEXTS & texts.keys()},
        "right": tuple(map(state, right)),
        "wrong": tuple(map(wrong_run, wrong)),
    }
    return FileTask(name=known["task"], **named)


def _is_wrong_run(entry: object) -> bool:
    return (
        isinstance(entry, Mapping)
        and "after" in entry
        and entry.keys() <= {"after", "run", "kind"}
        and all(isinstance(value, str) for value in entry.values())
    )
