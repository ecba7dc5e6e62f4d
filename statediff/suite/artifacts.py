"""Copies of runs elsewhere: in a folder or, by fsspec, in an S3-compatible store and its like.

A copy is the run's folder, file by file, under the folder's name below a URL. A bundle's manifest
is written after its other files, so that a copy that was cut short holds no bundle that is not
whole; a chunk is written once. Nothing that is read back is believed: names are checked before
they are used, and a bundle is one only if its digests say so.

Anyone who reads or writes is let in by what fsspec's driver finds in the environment. A URL that
holds a credential is refused before anything writes it down or prints it. fsspec is an extra; a
folder does without.
"""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from statediff.atomic import sync_below, sync_folder
from statediff.errors import BundleError, StatediffError, StorageError, UsageError
from statediff.evidence.canonical import MAX_BYTES
from statediff.evidence.package import BESIDE, Bundle, load
from statediff.evidence.verify import PIECES
from statediff.model.values import printable

MAX_FILES: Final = 1_000_000
"""The most files of one copy; a folder with more is no run of ours."""
_MANIFEST: Final = "manifest.json"
_RECORD: Final = "run.json"
_SLICE: Final = 200
_SLICE_BYTES: Final = 64 * 1024 * 1024
"""The bytes held at once on their way."""
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@=+, -]{0,254}")
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*")
_FSSPEC: Final = "; `pip install statediff[data]` brings fsspec, through which it is reached"
_SECRET: Final = re.compile("KEY|SECRET|TOKEN|PASS|CREDENTIAL", re.IGNORECASE)


@dataclass(frozen=True)
class CopyCounts:
    """The counts of a copy."""

    trials: int
    files: int
    bytes: int


class CopyPlace:
    """A URL below which copies of runs lie; `UsageError` if it cannot be one."""

    def __init__(self, url: str) -> None:
        self.url = check_url(url)
        self._fs: Any
        if self.url.startswith("file://"):
            self._fs = _LocalFiles()
            self._root = str(Path(self.url.removeprefix("file://")).absolute())
            return
        try:
            # Not before: anyone who keeps no copies need not wait for it.
            from fsspec.core import url_to_fs  # type: ignore[import-untyped]  # noqa: PLC0415 - above

            self._fs, self._root = url_to_fs(self.url)
        except ImportError as error:
            brings = _FSSPEC if (error.name or "").partition(".")[0] == "fsspec" else ""
            raise UsageError(f"{self.url}: needs a driver: {error}{brings}") from error
        except ValueError as error:
            raise UsageError(f"{self.url}: {_scrub(error)}; `pip install` its driver") from error

    def push(self, folder: Path) -> CopyCounts:
        """All of the run in the folder is there; bundles and chunks that are there are left alone.

        `UsageError` where another run has its place.
        """
        self.begin(folder)
        trials = [each.name for each in _entries(folder / "trials") if each.is_dir()]
        sizes = self._sizes(folder.name)
        there = self._manifests(folder, [n for n in trials if _manifest(n) in sizes])
        known = {name.split("/")[1] for name in sizes if name.startswith("trials/")}
        new = {
            name
            for name in trials
            if name not in known or _read_file(folder / _manifest(name)) != there.get(name)
        }
        moved = self.put_trials(folder, sorted(new))
        others = [folder / "trials" / name for name in trials if name not in new]
        left = [
            path
            for place in (*others, folder / "attempts", folder / "chunks")
            for path in _files(place)
            if sizes.get(_below(folder, path), -1) != path.stat().st_size
        ]
        extra = self._put(folder, left)
        return CopyCounts(len(new), moved.files + extra.files, moved.bytes + extra.bytes)

    def begin(self, folder: Path) -> None:
        """The record of the run is there; `UsageError` where another run has its place."""
        _require_plain(str(folder.parent), folder.name, 0)
        record = _read_file(folder / _RECORD)
        if record is None:
            raise UsageError(f"{folder}: expected the folder of a run, with its run.json")
        there = [f"{folder.name}/{_RECORD}"] if _RECORD in self._sizes(folder.name) else []
        if any(each != record for each in self._cat(there).values()):
            raise UsageError(
                f"{self.url}/{folder.name}: holds another run; rename this one's folder, or name "
                "another URL"
            )
        own = [folder / _RECORD, folder / "local.patch", folder / "report.html"]
        self._put(folder, [path for path in own if path.is_file()])

    def put_trials(self, folder: Path, names: Iterable[str]) -> CopyCounts:
        """The folders of these trials are there as they are here."""
        before: list[Path] = []
        last: list[Path] = []
        number = 0
        for number, name in enumerate(names, 1):  # noqa: B007 - counted
            for path in _files(folder / "trials" / name):
                (last if path.name == _MANIFEST else before).append(path)
        one, other = self._put(folder, before), self._put(folder, last)
        return CopyCounts(number, one.files + other.files, one.bytes + other.bytes)

    def fetch(self, run: str, folder: Path) -> CopyCounts:
        """The copy of the run is in the folder, which was not there before, whole or not at all."""
        if folder.exists():
            raise UsageError(f"{folder}: is there already, and nothing is overwritten")
        sizes = self._sizes(run)
        if _RECORD not in sizes:
            raise UsageError(f"{self.url}/{run}: has no run.json, so it is no copy of a run")
        for name, size in sizes.items():
            _require_plain(f"{self.url}/{run}", name, size)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as near:
            whole = Path(near) / "run"
            total = 0
            for part in _slices(sizes):
                for name, data in self._cat([f"{run}/{each}" for each in part]).items():
                    path = whole / name.removeprefix(f"{run}/")
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(data)
                    total += len(data)
            sync_below(whole)
            whole.rename(folder)
            sync_folder(folder.parent)
        trials = {name.split("/")[1] for name in sizes if name.startswith("trials/")}
        return CopyCounts(len(trials), len(sizes), total)

    def bundle(self, *names: str) -> Bundle:
        """The bundle that lies there, every digest checked; `BundleError` if there is none."""
        for name in names:
            _require_plain(self.url, name, 0)
        where = "/".join(names)
        wanted = {f"{where}/{each}".lstrip("/"): each for each in PIECES}
        sizes = self._sizes(where)
        if any(sizes.get(each, 0) > MAX_BYTES for each in wanted.values()):
            raise BundleError(f"{self.url}/{where}: larger than a bundle may be")
        found = self._cat([path for path, name in wanted.items() if name in sizes])
        if not any(path.endswith(_MANIFEST) for path in found):
            raise BundleError(f"{'/'.join([self.url, *names])}: expected a bundle, found none")
        with tempfile.TemporaryDirectory(prefix="statediff-bundle-") as near:
            for path, data in found.items():
                (Path(near) / wanted[path]).write_bytes(data)
            try:
                return load(Path(near))
            except BundleError as error:
                text = str(error).replace(near, "/".join([self.url, *names]))
                raise BundleError(text) from error

    def _manifests(self, folder: Path, trials: Sequence[str]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for at in range(0, len(trials), _SLICE):
            names = {f"{folder.name}/{_manifest(n)}": n for n in trials[at : at + _SLICE]}
            found.update({names[path]: data for path, data in self._cat(list(names)).items()})
        return found

    def _sizes(self, below: str) -> dict[str, int]:
        """Every file below, by its name from there; none where there is nothing."""
        root = self._path(below)
        with self._driver_errors():
            self._fs.invalidate_cache()  # others write there, too
            found: Mapping[str, Any] = self._fs.find(root, detail=True)
        cut = len(root) + 1
        if len(found) > MAX_FILES:
            raise StorageError(f"{self.url}: more than {MAX_FILES:,} files are no run of ours")
        if any(each.get("islink") for each in found.values()):
            raise StorageError(f"{root}: holds a link, which no copy of a run does")
        return {
            path[cut:]: int(each.get("size") or 0)
            for path, each in found.items()
            if each.get("type") == "file" and path[cut:]
        }

    def _path(self, name: str) -> str:
        return "/".join(filter(None, [self._root.rstrip("/"), name]))

    def _cat(self, names: Sequence[str]) -> dict[str, bytes]:
        """The content of the files."""
        paths = {self._path(name): name for name in names}
        with self._driver_errors():
            found = self._fs.cat(list(paths)) if paths else {}
        return {paths[path]: data for path, data in found.items()}

    def _put(self, folder: Path, files: Iterable[Path]) -> CopyCounts:
        sizes = {_below(folder.parent, path): path.stat().st_size for path in files}
        total = 0
        for part in _slices(sizes):
            sent = {}
            for name in part:
                for piece in name.split("/"):
                    _require_plain(str(folder), piece, 0)
                sent[self._path(name)] = (folder.parent / name).read_bytes()
            with self._driver_errors():
                if not self._fs.async_impl:  # one that has folders
                    for parent in sorted({path.rpartition("/")[0] for path in sent}):
                        self._fs.makedirs(parent, exist_ok=True)
                self._fs.pipe(sent)
            total += sum(map(len, sent.values()))
        return CopyCounts(0, len(sizes), total)

    @contextmanager
    def _driver_errors(self) -> Iterator[None]:
        try:
            yield
        except StatediffError:
            raise
        except Exception as error:  # noqa: BLE001 - a driver raises what its libraries raise
            raise StorageError(
                f"{self.url}: {type(error).__name__}: {_scrub(error)}; is it there, and are you "
                "let in? Credentials are taken from the environment, as its driver does"
            ) from None  # what it was caused by may show a credential


class _LocalFiles:
    """The folders of this machine, as fsspec has what it reaches."""

    async_impl = False

    def invalidate_cache(self) -> None:
        """Nothing is cached."""

    def find(self, root: str, **how: bool) -> dict[str, dict[str, Any]]:
        """The files below; no link is followed."""
        found: dict[str, dict[str, Any]] = {}
        try:
            entries = list(os.scandir(root))
        except (FileNotFoundError, NotADirectoryError):
            return {}
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                found |= self.find(entry.path, **how)
                continue
            found[entry.path] = {
                "type": "file" if entry.is_file(follow_symlinks=False) else "other",
                "islink": entry.is_symlink(),
                "size": entry.stat(follow_symlinks=False).st_size,
            }
        return found

    def cat(self, paths: Sequence[str]) -> dict[str, bytes]:
        return {path: Path(path).read_bytes() for path in paths}

    def makedirs(self, path: str, *, exist_ok: bool) -> None:
        Path(path).mkdir(parents=True, exist_ok=exist_ok)

    def pipe(self, contents: Mapping[str, bytes]) -> None:
        for path, data in contents.items():
            Path(path).write_bytes(data)


def check_url(url: str) -> str:
    """The URL, without its last slash; `UsageError` where it can be none, or holds a secret."""
    scheme, separator, rest = url.partition("://")
    if not separator or not _SCHEME.fullmatch(scheme) or not rest.strip("/"):
        # It is not shown: it may hold whatever was pasted.
        raise UsageError(
            "expected the URL of a place for copies, such as s3://bucket/runs or file:///srv/runs, "
            "found something else"
        )
    if "@" in rest.partition("/")[0] or any(each in rest for each in "?#"):
        raise UsageError(
            f"{scheme}://…: the URL holds a credential, or what may be one; leave it out: it is "
            "taken from the environment, as the driver of fsspec does (AWS_ACCESS_KEY_ID, for one)"
        )
    if (
        "::" in url
        or ".." in rest.split("/")
        or any(e in rest for e in "*[]{}\\")
        or (printable(url) != url)
    ):
        raise UsageError(f"{scheme}://…: the URL chains, climbs, or holds what is no plain name")
    return url.rstrip("/")


def url_in_path(text: str) -> str | None:
    """The URL that a path was made of, which has lost slashes; None if it was made of none."""
    scheme, separator, rest = text.partition(":/")
    if not separator or not _SCHEME.fullmatch(scheme) or len(scheme) < 2:
        return None
    bare = rest.lstrip("/")
    return f"file:///{bare}" if scheme == "file" else f"{scheme}://{bare}"


def _require_plain(where: str, name: str, size: int) -> None:
    """Nothing that is made of the name leads out of a folder, or is more than a file of ours."""
    parts = name.split("/")
    if not all(_NAME.fullmatch(part) for part in parts) or len(parts) > 6:
        raise StorageError(f"{where}: {printable(name)[:120]!r} is no name in a run's folder")
    if size > MAX_BYTES:
        raise StorageError(f"{where}: {printable(name)[:120]}: {size:,} bytes are none of ours")


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return sorted((e for e in found if not e.name.startswith(".")), key=lambda e: e.name)
    except FileNotFoundError:
        return []


def _files(folder: Path) -> Iterator[Path]:
    """Every regular file below, no link followed; what is hidden, or not to be shown, left out."""
    for entry in _entries(folder):
        if entry.is_dir(follow_symlinks=False):
            yield from _files(Path(entry.path))
        elif entry.is_file(follow_symlinks=False) and not entry.name.endswith(BESIDE):
            yield Path(entry.path)


def _manifest(trial: str) -> str:
    return f"trials/{trial}/bundle/{_MANIFEST}"


def _read_file(path: Path) -> bytes | None:
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return None
        return path.read_bytes()
    except OSError:
        return None


def _below(folder: Path, path: Path) -> str:
    return path.relative_to(folder).as_posix()


def _slices(sizes: Mapping[str, int]) -> Iterator[list[str]]:
    part: list[str] = []
    held = 0
    for name, size in sizes.items():
        if part and (len(part) >= _SLICE or held + size > _SLICE_BYTES):
            yield part
            part, held = [], 0
        part.append(name)
        held += size
    if part:
        yield part


def _scrub(error: BaseException) -> str:
    """The error's message on one line, without the environment's secrets."""
    text = " ".join(str(error).split())
    for name, value in os.environ.items():
        if _SECRET.search(name) and len(value) >= 6:
            text = text.replace(value, "…")
    return printable(text)[:300]
