"""A bare git repository behind the gate: a push whose objects are in quarantine.

Git runs the hook `pre-receive` (`hooks`) once all objects of a push have come, in a folder of their
own, and before any ref moves. The gate judges the state that the refs of the push would lead to
with these objects; git drops the folder where the hook says no.

Each push is a process of its own, so a file beside the records lists each ref that the agent's
pushes moved, as they found it and as they left it. Somebody else made any other move.

Git may move the refs of one push one by one, and leave one out, e.g. by a hook `update`. So the
hook `reference-transaction` asks before each move (`may_move`) that exactly what was judged moves:
the first refs of the push as they came, or all of them at once.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeAlias

from statediff_git.refs import Ref, Refs, read_refs
from statediff_git.source import GitSource

from statediff.atomic import write_atomically
from statediff.capture.source import SourceUnavailable, clock
from statediff.errors import InputError, UsageError
from statediff.model.schema import Schema
from statediff.model.state import MemoryChunks, State
from statediff.model.values import printable
from statediff.systems.base.plugin import Refinement
from statediff.systems.files.tree import Folder, NotRead, shown
from statediff.systems.relational.tools import Scalar
from statediff_gate.course import Course, Prepared
from statediff_gate.participant import Answer, Participant, Refused
from statediff_gate.statements import Rewrite, RowEdit, columns_of

Step: TypeAlias = tuple[str, str | None, str | None]
"""A ref, what it leads to before and after; None where it is not there."""
Places: TypeAlias = Mapping[str, str]
"""Ref → what its file says."""
_REPLACED: Final = "refs/replace/"
_HEAD: Final = "HEAD"
_FOLLOWING: Final = frozenset({"git.commit", "git.file", "git.tag"})
"""Types whose rows are what the refs lead to."""


@dataclass
class Pushes:
    """The known facts of the pushes of one run."""

    path: Path
    base: dict[str, str] = field(default_factory=dict)
    """The refs without the agent's part."""
    own: dict[str, tuple[str | None, str | None]] = field(default_factory=dict)
    """Ref → where the agent found it, and where it left it."""
    steps: list[Step] = field(default_factory=list)
    """Those of the last push that was allowed; whether they were made, the refs say."""
    refs: dict[str, str] = field(default_factory=dict)
    """The refs that it was judged with."""
    is_whole: bool = True
    """It may only be made at once."""
    owner: tuple[int, str] | None = None
    """The process that git receives it with, and since when that is there."""
    conflict: str | None = None

    @staticmethod
    def read(path: Path) -> Pushes | None:
        """The content of the file; None where there is none."""
        try:
            said = json.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: cannot be read: {error}") from error
        owner = said.pop("owner")
        return Pushes(path=path, owner=None if owner is None else tuple(owner), **said)

    def write(self) -> None:
        """The file says it, whatever happens next."""
        said = {name: value for name, value in vars(self).items() if name != "path"}
        write_atomically(self.path, json.dumps(said).encode("ascii"), durable=True)

    def follow(self, refs: Places) -> None:
        """Take over what moved since: the last push's steps are the agent's, all else others'.

        A step was made where its ref is not as it was before; somebody may have gone on from there.
        """
        for name, old, new in self.steps:
            if refs.get(name) != old:
                first = self.own[name][0] if name in self.own else self.base.get(name)
                self.own[name] = first, new
        self.steps, self.owner = [], None
        self.own = {name: sides for name, sides in self.own.items() if sides[0] != sides[1]}
        for name in {**self.base, **self.own, **refs}:
            expected = self.own[name][1] if name in self.own else self.base.get(name)
            if refs.get(name) == expected:
                continue
            if name in self.own:
                self.conflict = f"{name}: the agent and others moved the same ref in turns"
            elif name in refs:
                self.base[name] = refs[name]
            else:
                del self.base[name]

    def is_under_way(self, refs: Places) -> bool:
        """True while git may still make steps of the last push."""
        if self.owner is None or self.owner != process(self.owner[0]):
            return False
        return any(refs.get(name) != new for name, _, new in self.steps)


def process(pid: int) -> tuple[int, str] | None:
    """A process that is there: its number, and since when it has it where the system says that."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("latin-1").rpartition(")")[2].split()
        return None if stat[0] == "Z" else (pid, stat[19])
    except OSError:
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return None if Path("/proc/self/stat").exists() else (pid, "")


def refs_of(path: Path) -> Refs:
    """The refs as they are. Raises `Refused`."""
    try:
        with Folder.open(path) as folder:
            return read_refs(folder)
    except NotRead as error:
        raise Refused(f"the refs cannot be read: {error}") from error


def places(refs: Refs) -> dict[str, str]:
    """The content of each ref's file, as text."""
    return {
        os.fsdecode(name): ref.oid or (f"ref: {shown(ref.symbolic)}" if ref.symbolic else "?")
        for name, ref in refs.by_name.items()
    }


class GitGate(Participant):
    """One bare repository behind the gate.

    `incoming` names the folder below `objects` with the objects of the push, and `owner` is the
    process that git receives it with; without these it is only looked at.
    """

    def __init__(
        self,
        name: str,
        path: Path,
        refine: Refinement | None,
        kept: Path,
        incoming: bytes = b"",
        owner: tuple[int, str] | None = None,
    ) -> None:
        self.name = name
        self._path, self._owner, self._moves_refs = path, owner, False
        self._source = GitSource(name, path, refine, is_bare=True, incoming=incoming)
        try:
            self._whole = self._source.read(MemoryChunks(), clock, None).state
            self._refs = refs_of(path)
        except (Refused, SourceUnavailable) as error:
            raise InputError(f"{name}: no gate can stand before it: {error}") from error
        for each in self._whole.schema.types:
            enumeration = self._whole.tables[each.name].enumeration
            if not enumeration.is_complete:
                raise InputError(f"{name}: no gate can stand before it: {enumeration.cause}")
        now = places(self._refs)
        self._pushes = Pushes.read(kept) or Pushes(kept, base=dict(now))
        self._pushes.follow(now)
        self._begin_course()

    def _begin_course(self) -> None:
        pushes, now = self._pushes, places(self._refs)
        self._course = Course(self.name, self._state(pushes.base))
        state = self._state(now)
        self._course.accept(state, self._course.part_of(state)[0])
        self._course.conflict = pushes.conflict
        self._updates: list[Step] = []

    def _state(self, wanted: Places) -> State:
        """The repository where the refs are at these places. Raises `Refused`."""
        known = places(self._refs)
        by_name = {}
        for name in sorted(wanted, key=os.fsencode):
            key, place = os.fsencode(name), wanted[name]
            same = self._refs.by_name[key] if known.get(name) == place else None
            by_name[key] = same or Ref(key, place)
        if wanted == known:
            by_name = self._refs.by_name
        refs = replace(self._refs, by_name=by_name)
        try:
            return self._source.led_to(refs, MemoryChunks(), self._whole)
        except SourceUnavailable as error:
            raise Refused(f"{self.name}: {error}") from error

    def begin_run(self) -> None:
        self._pushes = Pushes(self._pushes.path, base=places(self._refs))
        self._pushes.write()
        self._begin_course()

    def begin(self, transaction: str) -> None:
        self._updates = []

    def rewriting(self, edits: Sequence[RowEdit], schema: Schema) -> Iterable[Rewrite]:
        self._moves_refs = True
        return ((f"{name} {old or 0} {new or 0}", ()) for name, old, new in moves(edits))

    def run(self, statement: str, values: Sequence[Scalar] = ()) -> Answer:
        if self._owner is None and not self._moves_refs:
            raise Refused(
                f"{self.name}: refs move by a push: with an approval in the folder `approvals` of "
                "the records the same push passes once"
            )
        name, old, new = statement.split(" ")
        step = name, *(None if {*oid} == {"0"} else oid for oid in (old, new))
        known = places(self._refs)
        if not name.isprintable():
            raise Refused("the name of a ref is no plain text")
        if not name.startswith("refs/") or name.startswith(_REPLACED):
            raise Refused(f"{name}: what stands there changes what every other ref leads to")
        if known.get(name, "").startswith("ref: "):
            raise Refused(f"{name}: leads to another ref; push to that one")
        if known.get(name) != step[1]:
            raise Refused(f"{name}: has moved since it was fetched")
        if any(each[0] == name for each in self._updates):
            raise Refused(f"{name}: is moved twice by one push")
        self._updates.append(step)  # type: ignore[arg-type]  # three of them
        return Answer()

    def prepare(self) -> Prepared:
        after = places(self._refs)
        for name, _, new in self._updates:
            _make(after, name, new)
        state = self._state(after)
        own, changes = self._course.part_of(state)
        self._proposed = state, own
        return self._course.prepared(state, changes)

    def look_again(self) -> Prepared | None:
        if places(refs_of(self._path)) != places(self._refs):
            raise Refused(f"{self.name}: others pushed in this moment; push again")
        return None

    def commit(self) -> None:
        """Nothing keeps git from moving the refs any more, at once."""
        if self._moves_refs:
            move_refs(self._path, self._updates)
            self._course.accept(*self._proposed)
            return
        pushes = self._pushes
        pushes.steps, pushes.owner, pushes.is_whole = [*self._updates], self._owner, True
        pushes.refs = places(self._refs)
        pushes.write()
        self._course.accept(*self._proposed)

    def allow_one_by_one(self) -> None:
        """Git may move the refs of the push one after the other."""
        self._pushes.is_whole = False
        self._pushes.write()

    def abort(self) -> None:
        self._updates, self._moves_refs = [], False


def moves(edits: Iterable[RowEdit]) -> Iterator[Step]:
    """The moves of refs that make the edits. `UsageError` for what follows no ref."""
    for edit in edits:
        table = edit.entity.source_table
        if table == "git.ref":
            before, after = (columns_of(edit.entity, each) for each in (edit.before, edit.after))
            name = before.get("name") or after["name"]
            yield str(name), *(row.get("target") for row in (before, after))  # type: ignore[misc]
        elif table not in _FOLLOWING:
            raise UsageError(f"{edit.entity.name}: is nothing that a ref leads to")


def move_refs(path: Path, steps: Iterable[Step], *settings: str) -> None:
    """All refs move, or none does where one is not as it was. Raises `Refused`."""
    text = "".join(
        f"create {name}\0{new}\0" if old is None else
        f"delete {name}\0{old}\0" if new is None else f"update {name}\0{new}\0{old}\0"
        for name, old, new in steps
    )  # fmt: skip
    run_git(path, text, *settings, "update-ref", "--no-deref", "-z", "--stdin")


def run_git(path: Path, text: str, *words: str) -> None:
    """Git does it in the repository. Raises `Refused`."""
    command = ["git", f"--git-dir={path}", *words]
    done = subprocess.run(command, input=os.fsencode(text), check=False, capture_output=True)
    if done.returncode:
        raise Refused(f"git does not do it: {printable(os.fsdecode(done.stderr.strip()[:300]))}")


def may_move(kept: Path, path: Path, owner: int, lines: Sequence[str]) -> str | None:
    """Why git may not move these refs now; None where it may.

    `owner` is the process that asks: refs that move by no push that was judged are not asked about.
    """
    pushes = Pushes.read(kept)
    if pushes is None or pushes.owner is None or pushes.owner != process(owner):
        return None
    listed = [line.split(" ", 2) for line in lines if line.strip()]
    moved = {name: None if {*new} == {"0"} else new for _, new, name in listed if name != _HEAD}
    made, now = dict(pushes.refs), places(refs_of(path))
    for at, (name, _, new) in enumerate(pushes.steps):
        left = {each[0]: each[2] for each in pushes.steps[at:]}
        is_part = not pushes.is_whole and moved == {name: new}
        if now == made and (moved == left or is_part):
            return None
        _make(made, name, new)
    if pushes.is_whole and len(pushes.steps) > 1:
        return "its refs may only move together: push again with --atomic"
    return "not all that was judged has moved; push again"


def _make(refs: dict[str, str], name: str, new: str | None) -> None:
    """The step is made."""
    if new is None:
        refs.pop(name, None)
    else:
        refs[name] = new
