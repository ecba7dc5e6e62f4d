"""Writing and reading a bundle: a directory of canonical JSON files under one manifest.

Every file is canonical JSON, as `documents.DOCUMENTS` says, but the contract, which is kept as it
was written. The manifest has the SHA-256 of every other file.

What a bundle does not show of the calls and the answer (`undisclosed`) lies beside its folder, in a
file of its own for the owner only, which nothing that copies or seals bundles takes.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from statediff.atomic import write_atomically
from statediff.errors import BundleError, StorageError
from statediff.evidence.canonical import MAX_BYTES, read, write
from statediff.evidence.verify import BOUND, OBSERVATION, PARTS, STATE_ROOTS, UNBOUND

RUN_FORM: Final = "statediff.run/1"
"""The form of the record of a run, which holds bundles."""
FILES: Final = tuple(name for name in PARTS if name != "manifest.json")
UNDISCLOSED: Final = "undisclosed"
"""The member of a manifest that says how much a bundle does not show."""
BESIDE: Final = ".undisclosed.json"
"""The end of the name of the file that has it, after the name of the bundle's folder."""


@dataclass(frozen=True)
class Bundle:
    """The files of a bundle by name, without the manifest, and the manifest's document."""

    manifest: Mapping[str, Any]
    files: Mapping[str, bytes]
    undisclosed: bytes | None = field(default=None, repr=False)
    """The judged part of the run that is not shown; None where all is, or it is not at hand."""

    @property
    def digest(self) -> str:
        """SHA-256 of the manifest, which fixes every other file."""
        return hashlib.sha256(write(dict(self.manifest))).hexdigest()

    def document(self, name: str) -> Any:
        """The JSON in one of the files."""
        return read(self.data(name), name)

    def data(self, name: str) -> bytes:
        """The bytes of one of the files; `BundleError` if the bundle has no such file."""
        try:
            return self.files[name]
        except KeyError:
            raise BundleError(f"{name}: missing from the bundle") from None


NO_BUNDLE: Final = Bundle({}, {})
"""The placeholder of a bundle that is made later."""


def make(
    documents: Mapping[str, Any],
    contract: bytes,
    facts: Mapping[str, Any],
    undisclosed: bytes | None = None,
) -> Bundle:
    """A bundle of the given documents, or their bytes; `facts` go into the manifest."""
    files = {
        name: document if isinstance(document, bytes) else write(document)
        for name, document in documents.items()
    }
    files["contract.yaml"] = contract
    if not _is_complete(files, BOUND):
        raise ValueError(f"a bundle has exactly the files {', '.join(FILES)} and {STATE_ROOTS}")
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())}
    return Bundle({"format": BOUND, **facts, "files": digests}, files, undisclosed)


def save(bundle: Bundle, folder: Path) -> None:
    """The bundle in a folder for its owner only, the manifest last: a torn write is no bundle."""
    save_undisclosed(bundle, folder)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, data in bundle.files.items():
            (folder / name).write_bytes(data)
        (folder / "manifest.json").write_bytes(write(dict(bundle.manifest)))
    except OSError as error:
        raise StorageError(
            f"{folder}: the bundle could not be written: {error.strerror}; "
            "free some space or choose another folder with --out"
        ) from error


def save_undisclosed(bundle: Bundle, folder: Path) -> None:
    """Write what the bundle does not show, if anything, beside `folder`, for its owner only."""
    if bundle.undisclosed is None:
        return
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(_beside(folder), bundle.undisclosed, mode=0o600, durable=True)
    except OSError as error:
        raise StorageError(
            f"{_beside(folder)}: cannot be written: {error.strerror}; free some space or choose "
            "another folder with --out"
        ) from error


def _beside(folder: Path) -> Path:
    whole = Path(os.path.abspath(folder))  # noqa: PTH100 - no link is followed: it is beside that
    return whole.with_name(f"{whole.name}{BESIDE}")


def _read_undisclosed(folder: Path, manifest: Mapping[str, Any]) -> bytes | None:
    """Read what lies beside the folder, if the bundle does not show all and we may."""
    if UNDISCLOSED not in manifest:
        return None
    try:
        return file_bytes(_beside(folder))
    except BundleError:
        return None


def load(folder: Path) -> Bundle:
    """The bundle in `folder`, every digest checked. `BundleError` names what does not fit."""
    manifest = read(file_bytes(folder / "manifest.json"), "manifest.json")
    digests = files_of(manifest, str(folder))
    extra = sorted({entry.name for entry in folder.iterdir()} - set(digests) - {"manifest.json"})
    if extra:
        raise BundleError(f"{folder}: holds a file that is not part of it: {extra[0]!r}")
    files: dict[str, bytes] = {}
    for name in sorted(digests):
        data = file_bytes(folder / name)
        if hashlib.sha256(data).hexdigest() != digests[name]:
            raise BundleError(f"{folder}/{name}: its digest is not the one in the manifest")
        files[name] = data
    return Bundle(manifest, files, _read_undisclosed(folder, manifest))


def files_of(manifest: Any, where: str) -> Mapping[str, Any]:
    """The files that a manifest lists, with their digests: those of a bundle. `BundleError`."""
    if not isinstance(manifest, dict) or manifest.get("format") not in (BOUND, UNBOUND):
        raise BundleError(f"{where}: not a bundle of format {BOUND}")
    digests = manifest.get("files")
    if not isinstance(digests, dict) or not _is_complete(digests, manifest["format"]):
        raise BundleError(f"{where}: the manifest does not list the files of a bundle")
    return digests


def _is_complete(names: Iterable[str], form: str) -> bool:
    expected = {*FILES, STATE_ROOTS} if form == BOUND else {*FILES}
    return set(names) - ({OBSERVATION} if form == BOUND else set()) == expected


def file_bytes(path: Path, most: int = MAX_BYTES) -> bytes:
    """The bytes of a regular file of at most so many. `BundleError`."""
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > most:
            raise BundleError(f"{path}: not a regular file of at most {most} bytes")
        return path.read_bytes()
    except OSError as error:
        raise BundleError(f"{path}: cannot be read: {error.strerror}") from error
