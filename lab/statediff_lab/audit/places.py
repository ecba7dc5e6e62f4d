"""Commands over states: where they find one, and a folder at the path that they ask for.

A task whose tests name `/app` gets its state there, in a view that only its command has.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import unquote, urlsplit

from statediff.errors import UsageError
from statediff.model.values import printable
from statediff.systems.external.commands import Ended, end_of

STATE: Final = "STATEDIFF_STATE"
BEFORE: Final = "STATEDIFF_BEFORE"
ANSWER: Final = "STATEDIFF_ANSWER"
_UNSHARE: Final = ("unshare", "--user", "--map-root-user", "--mount")
Place = Path | str
"""Where a state is: its path, or the URL of a database that runs."""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """The places that a verifier may look at, each state by the name of its source."""

    before: Mapping[str, Place]
    state: Mapping[str, Place]
    """A state that was taken away is named, and not there."""
    answer: Path | None = None


def words_of(text: str, option: str) -> list[str]:
    """The words of a command. `UsageError` where there are none."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{option} {printable(text)}: cannot be split: {error}") from error
    if not words:
        raise UsageError(f"{option}: expected a command, found nothing")
    return words


def run_over(words: Sequence[str], shown: Shown, seconds: float, at: str) -> Ended:
    """How the command ended that has the paths of what is shown. `OSError` if it cannot start."""
    environment = {**os.environ, **variables(shown)}
    placed = [_placed(word, shown) for word in words]
    if not at:
        return end_of(placed, Path.cwd(), seconds, environment)
    _require_view(at)
    folders = [place for place in shown.state.values() if isinstance(place, Path)]
    if len(folders) != 1 or len(shown.state) != 1:
        raise UsageError(f"at {at}: expected one state, and a folder")
    with tempfile.TemporaryDirectory(prefix="statediff-view-") as root:
        script = "\n".join(_view(Path(root), folders[0].absolute(), at))
        view = [*_UNSHARE, "sh", "-ec", script, "sh", *placed]
        return end_of(view, Path.cwd(), seconds, environment)


@cache
def _require_view(at: str) -> None:
    if not PurePosixPath(at).is_absolute() or {".", ".."} & {*PurePosixPath(at).parts} or at == "/":
        raise UsageError(f"at {printable(at)}: expected the absolute path of a folder")
    try:
        done = subprocess.run([*_UNSHARE, "true"], capture_output=True, text=True, check=False)
        why = done.stderr.strip() if done.returncode else ""
    except OSError as error:
        why = str(error)
    if why:
        raise UsageError(f"at {at}: no folder can be put at another path here: {printable(why)}")


def _view(root: Path, state: Path, at: str) -> Iterator[str]:
    """The script that sees this machine with the state at the path, and runs the command there."""

    def quoted(*paths: Path) -> str:
        return " ".join(shlex.quote(str(path)) for path in paths)

    yield f"mount -t tmpfs none {quoted(root)}"
    folder = Path("/")
    for part in PurePosixPath(at).parts[1:]:
        for each in sorted(folder.iterdir()) if folder.is_dir() else ():
            to = root / each.relative_to("/")
            if each.name == part:
                continue
            if each.is_symlink():
                yield f"ln -s {quoted(each.readlink(), to)}"
            elif each.is_dir():
                yield f"mkdir {quoted(to)}; mount --rbind {quoted(each, to)}"
            elif each.is_file():
                yield f": > {quoted(to)}; mount --bind {quoted(each, to)}"
        folder /= part
        yield f"mkdir {quoted(root / folder.relative_to('/'))}"
    if state.exists():
        yield f"mount --bind {quoted(state, root / folder.relative_to('/'))}"
    yield f"""exec chroot {quoted(root)} sh -c 'cd "$0" && exec "$@"' {quoted(Path.cwd())} "$@\""""


def _placed(word: str, shown: Shown) -> str:
    """The word, with the paths for their names; of several sources each has its own."""
    states = {"state": shown.state, "before": shown.before}
    places: dict[str, object] = {"answer": shown.answer or ""}
    for name, held in states.items():
        for source, place in held.items():
            names = (f"{name}.{source}", *((name,) if len(held) == 1 else ()))
            for each in names:
                places[each] = place
                places |= {f"{each}.{part}": value for part, value in parts(place).items()}
    for name, value in places.items():
        word = word.replace(f"{{{name}}}", str(value))
    return word


def parts(place: Place) -> dict[str, object]:
    """The parts of a URL that programs ask for one by one."""
    if isinstance(place, Path):
        return {}
    url = urlsplit(place)
    return {
        "host": url.hostname or "localhost",
        "port": url.port or "",
        "user": unquote(url.username or ""),
        "password": unquote(url.password or ""),
        "database": unquote(url.path.removeprefix("/")),
    }


def variables(shown: Shown) -> dict[str, str]:
    """The paths by variable: of one source also without its name."""
    found = {}
    for name, states in ((STATE, shown.state), (BEFORE, shown.before)):
        for source, path in states.items():
            letters = "".join(c if c.isalnum() else "_" for c in source).upper()
            found[f"{name}_{letters}"] = str(path)
        if len(states) == 1:
            found[name] = str(next(iter(states.values())))
    return found if shown.answer is None else {**found, ANSWER: str(shown.answer)}
