"""Command lines of agents: the words as they were written, and the program's name.

A program runs in a folder of its own, so its file is looked for in the caller's folder, and so is
the script after an interpreter. No other word is touched, whatever else is called like it.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from os.path import exists, isfile  # unlike those of `Path`, false for names too long
from pathlib import Path
from typing import Final

from statediff.errors import UsageError
from statediff.model.values import printable

_TITLE: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]{0,39})=(.*)", re.DOTALL)
_LONGEST_NAME: Final = 80
_EMPTY: Final = "the agent command is empty; expected a program and its arguments"
_WRITE_PATH: Final = "write its absolute path"
_INTERPRETER: Final = re.compile(
    r"(?:(?P<cm>(?:python|pypy)w?[\d.]*t?)|(?P<cs>(?:ba|da|z|k|a)?sh)"
    r"|(?P<eEp>node|nodejs|tsx|ts-node|(?:ruby|perl|php|lua)[\d.]*|Rscript|julia))"
)
"""A group is called as the options after which there is no script, but code or a module."""
_RUNNERS: Final = re.compile(
    r"env|nice|nohup|setsid|stdbuf|time|timeout|uv|poetry|pdm|hatch|pipenv|conda|mamba"
)
"""Programs that run another one, which comes later among their words."""


def _places(words: Sequence[str], folder: Path) -> tuple[int, int]:
    """The places of the program that does the work and of its script; the same without a script."""
    at = 0
    if _RUNNERS.fullmatch(Path(words[0]).name):
        early = words[: words.index("-m")] if "-m" in words else words
        runs = (n for n, word in enumerate(early) if n and _can_be_run(word, folder))
        at = next(runs, 0)
    known = _INTERPRETER.fullmatch(Path(words[at]).name)
    for place in range(at + 1, len(words) if known else 0):
        word, last = words[place], words[place - 1]
        if word.startswith("-"):
            codes = str(known and known.lastgroup)
            if word == "-" or word[1] in codes or (len(word) < 5 and word[-1] in codes):
                break
        elif last == "--" or not last.startswith("-") or _can_be_run(word, folder):
            return at, place  # else the value of an option
    return at, at


def _can_be_run(word: str, folder: Path) -> bool:
    is_path = "/" in word or Path(word).suffix != ""
    is_interpreter = _INTERPRETER.fullmatch(Path(word).name) is not None
    return is_interpreter or (is_path and _is_script(folder, word))


def _is_script(folder: Path, word: str) -> bool:
    """True of a file, and of a folder that Python runs."""
    return any(isfile(folder / word / program) for program in ("", "__main__.py"))  # noqa: PTH113


def resolved(words: Sequence[str], folder: Path) -> tuple[str, ...]:
    """The words as written, but for the program and its script: they are found in the folder."""
    if not words:
        return ()
    found = list(words)
    program, script = _places(words, folder)
    for at in {0, program, script}:
        is_known = at in (0, program) and shutil.which(words[at]) is not None
        if "/" in words[at] or (not is_known and _is_script(folder, words[at])):
            found[at] = str(folder / words[at])
    return tuple(found)


def program_name(command: Sequence[str], folder: Path | None = None) -> str:
    """Name the program as people do: by its script or module rather than by its interpreter."""
    program, script = _places(command, folder or Path())
    if program == script and "-m" in command[program + 1 : -1]:
        script = command.index("-m", program) + 1
    return printable(Path(command[script]).name or command[script])[:_LONGEST_NAME]


def _hint(words: Sequence[str], folder: Path) -> str:
    """Says which word may be a file of the caller's that the program does not find."""
    places, where = _places(words, folder), printable(str(folder))
    for at, word in enumerate(words):
        shown, name = printable(word)[:_LONGEST_NAME], word.partition("=")[2]
        value = name if word.startswith("-") else word
        if at in places[1:] and at and not _is_script(folder, word):
            return f"`{shown}` is no file of {where}; {_WRITE_PATH}"
        if words[at - 1 : at] == ["-m"] and _is_script(folder, word.replace(".", "/") + ".py"):
            return f"for a module of yours, begin with `env PYTHONPATH={where}`"
        is_path = value not in ("", ".", "..") and not Path(value).is_absolute()
        if is_path and at not in (0, *places) and exists(folder / value):  # noqa: PTH110
            return f"`{shown}` is passed as written; if it is a file of yours, {_WRITE_PATH}"
    return ""


def how_to_run(program: str, after: str = "") -> str:
    """Advice on a program's file that cannot be executed."""
    by = {".sh": "sh", ".js": "node", ".rb": "ruby"}.get(Path(program).suffix, "python")
    return f"name what runs it, e.g. {after}{by} {program}, or make it executable (chmod +x)"


def require_program(words: Sequence[str]) -> None:
    """The program can be executed; else `UsageError`."""
    if not words:
        raise UsageError(_EMPTY)
    program = printable(words[0])
    if shutil.which(words[0]) is None:
        is_file = Path(words[0]).is_file()
        why = f"cannot be executed; {how_to_run(program)}" if is_file else "is not found"
        raise UsageError(f"the agent program '{program}' {why}")


@dataclass(frozen=True)
class CommandLine:
    """A command line that can be run from any folder."""

    words: tuple[str, ...]
    name: str
    hint: str = ""
    """A hint, if it fails."""

    @staticmethod
    def parse(text: str, folder: Path | None = None, *, is_elsewhere: bool = False) -> CommandLine:
        """`NAME=COMMAND`, or a command, split as a shell would, run by none, from the folder.

        None is the current one. Where a file is called like all of the first word, it is no name.
        What runs elsewhere, in an image, is found there.
        """
        folder = Path.cwd() if folder is None else folder
        words, title, named = _split(text), "", _TITLE.fullmatch(text)
        if named is not None and not _is_script(folder, words[0]):
            title, words = named[1], _split(named[2])
        name = title or program_name(words, folder)
        if is_elsewhere:
            return CommandLine(tuple(words), name)
        return CommandLine(resolved(words, folder), name, _hint(words, folder))

    @property
    def text(self) -> str:
        """The command, to be split again."""
        return shlex.join(self.words)


def _split(text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"the agent command {text!r} cannot be split: {error}") from error
    if not words:
        raise UsageError(_EMPTY)
    return words


def named_apart(texts: Sequence[str], *, is_elsewhere: bool = False) -> tuple[CommandLine, ...]:
    """The command lines, in their order; a name that several have gets a number in each.

    `UsageError` where one is given twice.
    """
    lines = [CommandLine.parse(text, is_elsewhere=is_elsewhere) for text in texts]
    if len(set(lines)) < len(lines):
        raise UsageError("an agent is given twice; say with -k how often each is to be tried")
    counted = Counter(line.name for line in lines)
    taken, made = set(counted), list[CommandLine]()
    for line in lines:
        name, number = line.name, 1
        while counted[line.name] > 1 and name in taken:
            name, number = f"{line.name}-{number}", number + 1
        taken.add(name)
        made.append(replace(line, name=name))
    return tuple(made)
