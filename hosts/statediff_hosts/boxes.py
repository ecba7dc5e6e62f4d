"""Runs in the sandbox of another program: states copied out before and after, and judged here.

Such a host runs a program in its sandbox and reads a file from it. That is a `Box`; each adapter
makes one of its host's own. A state is a path in the sandbox, of a file or a folder, or a URL that
this machine reads.

The state before is read before the agent acts, and kept where no agent is. What the agent left is
data: a state that is gone, or is no longer a file or a folder as it was, is judged as empty; that
one has become too large to copy is a change of its own. A sandbox that does not answer raises, and
that run has no verdict.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import tarfile
import tempfile
import weakref
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Final, Protocol

from anyio import to_thread

from statediff.contract.file import ContractFile
from statediff.errors import AdapterError, InputError, UsageError
from statediff.scores import Score
from statediff.scoring import NOT_GIVEN, Judge, Judged, contract_of
from statediff.workspace.inputs import StateFile
from statediff_hosts.protocols.loop import reply_text

MAX_BYTES: Final = 1024 * 1024 * 1024
"""How much of one state is copied."""
BESIDE: Final = ("-wal", "-journal")
"""What SQLite keeps beside a file until it is checkpointed."""
KIND: Final = (
    'if [ -h "$1" ]; then printf "link "; fi; '
    'if [ -d "$1" ]; then echo folder; elif [ -f "$1" ]; then echo file; else echo none; fi'
)
NOTHING: Final = bytes(1024)
"""A tar file without entries."""
SIZE: Final = 'wc -c <"$1"'
PACK: Final = 'f=$(mktemp) && tar -cf "$f" -C "$1" . && printf %s "$f"'


class TooLarge(InputError):
    """A state, or what belongs to it, has more than `MAX_BYTES`."""


class Box(Protocol):
    """A sandbox. Both functions raise what the host raises where it does not answer."""

    async def run(self, *command: str) -> tuple[int, str]:
        """The exit code and the standard output of a program."""

    async def read(self, path: str) -> bytes:
        """The content of a file that is there."""


class BoxedRun:
    """One run under a contract, its states given as `{source: path or URL}`.

    Await `before` before the agent acts and `after` when it is done, then `judge` or `score`.
    """

    def __init__(self, contract: ContractFile | str | Path, states: Mapping[str, str]) -> None:
        if not states:
            raise UsageError("no state is given; name what is judged, as {source: path or URL}")
        self._contract = contract_of(contract)
        self._states = sorted(states.items())
        self._kinds: dict[str, str] = {}
        self._judge: Judge | None = None
        self._files: dict[str, StateFile] = {}
        self._after: list[StateFile] = []
        self._folder = Path(tempfile.mkdtemp(prefix="statediff-box-"))
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)

    async def before(self, box: Box | None) -> None:
        """The states are read and kept. `InputError` where one is not there, or is too large.

        Where every state is a URL no box is needed.
        """
        files = await self._copied(box, "before")
        self._judge = await to_thread.run_sync(Judge, self._contract, files)

    async def keep(self, names: Mapping[str, Path]) -> None:
        """The states before are files and folders of this machine, in the place of `before`."""
        self._kinds = {name: "folder" if path.is_dir() else "file" for name, path in names.items()}
        files = [StateFile.parse(f"{name}={path}") for name, path in sorted(names.items())]
        self._files = {file.source: file for file in files}
        self._judge = await to_thread.run_sync(Judge, self._contract, files)

    async def after(self, box: Box) -> None:
        """Copy what the agent left; what is given as a URL is read when it is judged.

        It may be awaited again, when the agent has gone on.
        """
        self._after = await self._copied(box, "after")

    async def judge(self, reply: str | None = None) -> Judged:
        """The whole judgement; `reply` is the agent's last message, which its answer stands in."""
        judge, answer = self._ready(reply)
        return await to_thread.run_sync(lambda: judge.judge(self._after, answer=answer))

    async def score(self, reply: str | None = None) -> Score:
        """The verdict and the reward alone."""
        judge, answer = self._ready(reply)
        return await judge.score_async(self._after, answer=answer)

    def _ready(self, reply: str | None) -> tuple[Judge, object]:
        if self._judge is None or not self._after:
            raise UsageError("a state was not read: await `before` and `after`, then judge")
        answer: object = NOT_GIVEN
        text = None if reply is None else reply_text(reply, self._contract.content.answer.form)
        if text is not None:
            answer = self._folder / "answer"
            answer.write_text(text, encoding="utf-8", errors="replace")
        return self._judge, answer

    async def _copied(self, box: Box | None, side: str) -> list[StateFile]:
        """The copies, which messages call what they are copies of."""
        found = []
        for name, place in self._states:
            copied: str | Path = place
            if "://" not in place:
                if box is None:
                    raise UsageError(f"{name}: {place} is in no sandbox; give a URL")
                folder = tempfile.mkdtemp(prefix=side, dir=self._folder)
                copied = Path(folder) / (PurePosixPath(place).name or "root")
                try:
                    await self._fetch(box, name, place, copied)
                except TooLarge as error:
                    if side == "before":
                        raise
                    found.append(replace(self._files[name], lost=str(error)))
                    continue
            first = self._files.get(name)
            is_copy = copied is not place
            if first is None or not is_copy or first.reader.is_any_system:
                first = await to_thread.run_sync(StateFile.parse, f"{name}={copied}")
                self._files.setdefault(name, first)
            if is_copy:  # whatever is there now, it is read as what it was before
                first = replace(first, path=Path(copied), shown=f"{place} in the sandbox")
            found.append(first)
        return found

    async def _fetch(self, box: Box, name: str, place: str, copied: Path) -> None:
        kind = await _kind(box, place)
        first = self._kinds.setdefault(name, kind)
        if first.endswith("none"):
            raise InputError(f"{name}: {place} is not in the sandbox before the run")
        is_folder = first.endswith("folder")
        if kind != first:
            unpack(NOTHING, copied) if is_folder else _put(copied, b"")
        elif is_folder:
            await to_thread.run_sync(unpack, await _packed(box, place), copied)
        else:
            _put(copied, await _read(box, place, place))
            for suffix in BESIDE:
                if await _kind(box, place + suffix) == "file":
                    _put(Path(f"{copied}{suffix}"), await _read(box, place + suffix, place))


def _put(path: Path, content: bytes) -> None:
    path.write_bytes(content)


async def _kind(box: Box, place: str) -> str:
    code, printed = await box.run("sh", "-c", KIND, "sh", place)
    if code != 0:
        raise AdapterError(f"{place}: cannot see if it is a file or a folder: exit code {code}")
    return printed.strip()


async def _packed(box: Box, place: str) -> bytes:
    code, printed = await box.run("sh", "-c", PACK, "sh", place)
    if code != 0 or not printed.startswith("/"):
        raise AdapterError(f"{place}: the sandbox could not pack the folder: exit code {code}")
    try:
        return await _read(box, printed.strip(), place)
    finally:
        await box.run("rm", "-f", printed.strip())


async def _read(box: Box, place: str, of: str) -> bytes:
    """The content of a file; `of` names the state that it belongs to."""
    code, printed = await box.run("sh", "-c", SIZE, "sh", place)
    if code != 0 or not printed.strip().isdecimal():
        raise AdapterError(f"{place}: the sandbox does not say how large it is: exit code {code}")
    size = int(printed)
    content = await box.read(place) if size <= MAX_BYTES else b""
    if max(size, len(content)) > MAX_BYTES:
        raise TooLarge(f"{of} in the sandbox: at most {MAX_BYTES:,} bytes of a state are copied")
    return content


def unpack(packed: bytes, folder: Path) -> None:
    """The entries of a tar file in a new folder, and nothing outside it.

    Links are made last and never followed. A device or a socket is a FIFO of its name.
    """
    folder.mkdir()
    links: list[tuple[Path, str]] = []
    modes: list[tuple[Path, int]] = []
    try:
        with tarfile.open(fileobj=io.BytesIO(packed), mode="r:") as archive:
            for member in archive:
                parts = PurePosixPath(member.name).parts
                if ".." in parts or "/" in parts:
                    raise InputError(f"{member.name}: lies outside the folder that was packed")
                place = folder.joinpath(*parts)
                one = archive.getmember(member.linkname) if member.islnk() else member
                if one.issym():
                    links.append((place, one.linkname))
                    continue
                if one.isdir():
                    place.mkdir(parents=True, exist_ok=True)
                elif content := archive.extractfile(one):
                    place.parent.mkdir(parents=True, exist_ok=True)
                    with place.open("xb") as written:
                        shutil.copyfileobj(content, written)
                else:
                    os.mkfifo(place)
                modes.append((place, one.mode & 0o7777))
                with contextlib.suppress(PermissionError):
                    os.chown(place, one.uid, one.gid)
        for place, target in links:
            place.symlink_to(target)
        for place, mode in reversed(modes):
            place.chmod(mode)
    except (tarfile.TarError, OSError, ValueError, KeyError) as error:
        raise InputError(f"the folder that the sandbox packed: {error}") from error
