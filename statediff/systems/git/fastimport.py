"""A repository's history from text: the part of git's fast-import format that a pack needs.

A pack's `history.fi` is read by people in review and by `git fast-import` alike; both make the same
objects. Understood are `commit`, `tag`, `reset`, `mark`, `author`, `committer`, `tagger`, `from`,
`merge`, `M <mode> inline <path>`, `D <path>`, `data <<END`, comments and blank lines. Everything
else is refused with its line. Built with libgit2, so that no git needs to be installed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final

import pygit2

from statediff.errors import SandboxError

_PERSON: Final = re.compile(r"(.+) <([^<>]+)> ([0-9]{1,12}) ([+-])([0-9]{2})([0-9]{2})")
_MODES: Final = {
    "100644": pygit2.enums.FileMode.BLOB,
    "100755": pygit2.enums.FileMode.BLOB_EXECUTABLE,
    "120000": pygit2.enums.FileMode.LINK,
}

Files = dict[str, tuple[pygit2.enums.FileMode, pygit2.Oid]]
"""Path → mode and blob, of one commit."""


def import_history(text: str, file: str, repository: pygit2.Repository) -> None:
    """All objects and refs of the stream are in `repository`.

    Raises `SandboxError` naming `file`, the line, and what was expected there.
    """
    _Import(_Lines(text, file), repository).run()


@dataclass
class _Lines:
    """The stream, a line at a time; errors name the line last taken."""

    text: str
    file: str
    number: int = 0
    _lines: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self._lines = self.text.split("\n")

    def peek(self) -> str | None:
        """The next line that says something, not yet taken; None at the end."""
        while self.number < len(self._lines):
            line = self._lines[self.number]
            if line and not line.startswith("#"):
                return line
            self.number += 1
        return None

    def take(self, word: str) -> str | None:
        """What follows `word` where the next line begins with it; None where it does not."""
        line = self.peek()
        if line is None or not (line == word or line.startswith(f"{word} ")):
            return None
        self.number += 1
        return line[len(word) + 1 :]

    def need(self, word: str) -> str:
        rest = self.take(word)
        if rest is None:
            self.number += 1
            raise self.error(f"expected `{word} …`, found {self._found()!r}")
        return rest

    def block(self) -> str:
        """The text of `data <<END` up to the line that is `END`, each line with its newline."""
        opening = self.need("data")
        end = opening.removeprefix("<<")
        if not opening.startswith("<<") or not end:
            raise self.error(f"expected `data <<END`, found `data {opening}`")
        try:
            stop = self._lines.index(end, self.number)
        except ValueError:
            raise self.error(f"expected a line `{end}` that ends the data, found none") from None
        lines = self._lines[self.number : stop]
        self.number = stop + 1
        return "".join(f"{line}\n" for line in lines)

    def error(self, message: str) -> SandboxError:
        return SandboxError(f"{self.file}, line {self.number}: {message}")

    def _found(self) -> str:
        return self._lines[self.number - 1] if self.number <= len(self._lines) else "the end"


class _Import:
    """One pass over the stream. What a mark or a ref names is known once its command is read."""

    def __init__(self, lines: _Lines, repository: pygit2.Repository) -> None:
        self.lines = lines
        self.repository = repository
        self.marks: dict[str, pygit2.Oid] = {}
        self.files: dict[pygit2.Oid, Files] = {}
        self.refs: dict[str, pygit2.Oid] = {}

    def run(self) -> None:
        while self.lines.peek() is not None:
            if (ref := self.lines.take("commit")) is not None:
                self._commit(ref)
            elif (ref := self.lines.take("reset")) is not None:
                self._set(ref, self._object(self.lines.need("from")))
            else:
                self._tag(self.lines.need("tag"))
        for ref, target in sorted(self.refs.items()):
            self.repository.references.create(ref, target, force=True)

    def _commit(self, ref: str) -> None:
        mark = self.lines.take("mark")
        author = self._person("author")
        committer = self._person("committer")
        message = self.lines.block()
        first = self.lines.take("from")
        start = self.refs.get(ref) if first is None else self._object(first)
        parents = [] if start is None else [start]
        while (merged := self.lines.take("merge")) is not None:
            parents.append(self._object(merged))
        files = dict(self.files[start]) if start is not None else {}
        self._change(files)
        oid = self.repository.create_commit(
            None, author, committer, message, self._tree(files), parents
        )
        self.files[oid] = files
        self._set(ref, oid)
        if mark is not None:
            self.marks[mark] = oid

    def _change(self, files: Files) -> None:
        while True:
            if (changed := self.lines.take("M")) is not None:
                mode, _, rest = changed.partition(" ")
                where, _, path = rest.partition(" ")
                if mode not in _MODES or where != "inline":
                    raise self.lines.error(f"expected `M 100644 inline PATH`, found `M {changed}`")
                name = self._path(path)
                content = self.lines.block()
                if mode == "120000":
                    content = content.removesuffix("\n")
                files[name] = (_MODES[mode], self.repository.create_blob(content.encode()))
            elif (removed := self.lines.take("D")) is not None:
                if files.pop(self._path(removed), None) is None:
                    raise self.lines.error(f"expected a file to delete, found none at {removed!r}")
            else:
                return

    def _tag(self, name: str) -> None:
        target = self._object(self.lines.need("from"))
        tagger = self._person("tagger")
        kind = pygit2.enums.ObjectType.COMMIT
        oid = self.repository.create_tag(name, target, kind, tagger, self.lines.block())
        self.refs[f"refs/tags/{name}"] = oid  # libgit2 has made the ref as well

    def _set(self, ref: str, target: pygit2.Oid) -> None:
        if not ref.startswith("refs/") or not pygit2.reference_is_valid_name(ref):
            raise self.lines.error(f"expected the name of a ref, e.g. refs/heads/main, not {ref!r}")
        self.refs[ref] = target

    def _object(self, name: str) -> pygit2.Oid:
        found = self.marks.get(name) or self.refs.get(name)
        if found is None:
            raise self.lines.error(f"expected a mark or ref named above, found {name!r}")
        return found

    def _person(self, role: str) -> pygit2.Signature:
        found = _PERSON.fullmatch(self.lines.need(role))
        if found is None:
            raise self.lines.error(f"expected `{role} NAME <EMAIL> SECONDS +ZONE`")
        sign = -1 if found[4] == "-" else 1
        minutes = sign * (int(found[5]) * 60 + int(found[6]))
        return pygit2.Signature(found[1], found[2], int(found[3]), minutes, "utf-8")

    def _path(self, path: str) -> str:
        parts = PurePosixPath(path).parts
        if not parts or path.startswith("/") or {"..", ".git"} & set(parts):
            raise self.lines.error(f"expected a path inside the repository, found {path!r}")
        return "/".join(parts)

    def _tree(self, files: Files) -> pygit2.Oid:
        builder = self.repository.TreeBuilder()
        for name, entries in _by_first_part(files):
            if "" in entries:
                mode, oid = entries[""]
                builder.insert(name, oid, mode)
            else:
                builder.insert(name, self._tree(entries), pygit2.enums.FileMode.TREE)
        return builder.write()


def _by_first_part(files: Files) -> Iterator[tuple[str, Files]]:
    """Each name of a folder with what lies under it; a file is `{"": …}`."""
    found: dict[str, Files] = {}
    for path, entry in files.items():
        name, _, rest = path.partition("/")
        found.setdefault(name, {})[rest] = entry
    yield from found.items()
