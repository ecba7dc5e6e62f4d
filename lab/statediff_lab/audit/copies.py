"""Copies of states to show and to write in, and the right run that a solution makes in one."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from statediff.errors import UsageError
from statediff.model.values import printable
from statediff.workspace.inputs import StateFile, distinct_states
from statediff_lab.audit import files
from statediff_lab.audit.dumps import Dumps
from statediff_lab.audit.places import Place, Shown, run_over, words_of
from statediff_lab.audit.served import Served
from statediff_lab.audit.tasks import FileTask


class Copies:
    """Copies of states, of each source one at a time; `close` leaves none on a server."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._served: dict[tuple[str, str], Served] = {}

    def made(self, states: Mapping[str, Place], folder: str = "shown") -> dict[str, Place]:
        """Copies of the states, each in a folder of its own; the last ones are gone."""
        shutil.rmtree(self._folder / folder, ignore_errors=True)
        found: dict[str, Place] = {}
        for source, path in states.items():
            if isinstance(path, str):
                found[source] = self.serving(source, path).fresh()
                continue
            place = self._folder / folder / source
            place.mkdir(parents=True)
            found[source] = files.copied(path, place)
        return found

    def serving(self, source: str, url: str) -> Served:
        """Who makes the copies of the database at the URL."""
        if (source, url) not in self._served:
            self._served[source, url] = Served(StateFile.parse(f"{source}={url}"))
        return self._served[source, url]

    def close(self) -> None:
        """No copy is left on a server."""
        for each in self._served.values():
            each.close()


def with_states(task: FileTask, seconds: float, folder: Path, stack: ExitStack) -> FileTask:
    """The task with its dumps loaded and its right run made, for as long as the stack is open."""
    dumps = Dumps(task.server)
    stack.callback(dumps.close)
    loaded = replace(
        task,
        before=tuple(map(dumps.place, task.before)),
        after=tuple(map(dumps.place, task.after)),
        right=tuple(map(dumps.place, task.right)),
        wrong=tuple(replace(each, after=dumps.place(each.after)) for each in task.wrong),
    )
    if not task.solution:
        return loaded
    copies = Copies(folder)
    stack.callback(copies.close)
    first = places_of(loaded.before, "--before")
    made = copies.made(first, "solved")
    words = words_of(task.solution, "solution")
    try:
        ended = run_over(words, Shown(before=first, state=made), seconds, task.at)
    except OSError as error:
        raise UsageError(f"the solution cannot be started: {error.strerror}") from error
    if ended.code != 0:
        how = "took too long" if ended.code is None else f"ended with {ended.code}"
        raise UsageError(f"{printable(task.name)}: the solution {how}: {ended.said}")
    return replace(loaded, after=tuple(f"{source}={place}" for source, place in made.items()))


def places_of(states: tuple[str, ...], option: str) -> dict[str, Place]:
    """The place of each state, by its source. `UsageError`."""
    return {file.source: file.url or file.path for file in distinct_states(states, option)}
