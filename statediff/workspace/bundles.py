"""Bundles by a path or URL that a user named, copies of runs at a URL, and samples for reviewers.

A bundle is in a folder, in a trial's folder, in a sealed or kept copy, or in a copied run.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from statediff.errors import BundleError, InputError, StatediffError, UsageError
from statediff.evidence.keys import load_trust
from statediff.evidence.package import FILES, Bundle, load
from statediff.evidence.raw import decrypted, encrypted, withheld_piece
from statediff.evidence.seal import Sealed, is_sealed, opened
from statediff.evidence.seal import load as load_sealed
from statediff.evidence.vault import SUFFIX, Kept, Vault, read_kept, restored
from statediff.evidence.verify import UNDISCLOSED, Rejected, Verified, verify
from statediff.model.values import printable
from statediff.suite.artifacts import CopyPlace, url_in_path
from statediff.workspace.folders import bundle_folder, keep_bundle, shown
from statediff.workspace.runfolders import is_run

if TYPE_CHECKING:
    from statediff.evidence.leaf_partition import Piece
    from statediff.suite.store import Store

SHOWN_TRIALS: Final = 5
_BELOW: Final = (
    "*",
    "*/bundle",
    "bundles/*",
    ".statediff/bundles/*",
    "trials/*/bundle",
    "*/trials/*/bundle",
    "runs/*/trials/*/bundle",
)
"""Patterns of the bundles below a folder."""


def load_bundle(
    path: Path,
    trust: Path | None = None,
    vault: Path | None = None,
    identity: Path | None = None,
) -> tuple[Bundle, Path]:
    """The bundle at a path that a user named, and its folder; a sealed copy is verified first.

    With an auditor's `identity` of age, what the copy does not show is at hand too.
    """
    if (copy := bundle_at_url(path)) is not None:
        return copy
    if is_batch(path):
        raise UsageError(
            f"{printable(str(path))}: many rollouts; `statediff batch open` makes a bundle of one"
        )
    if is_sealed(path):
        return _unsealed(path, trust, vault, identity), path
    if (trust, vault, identity) != (None, None, None):
        raise UsageError(
            f"{printable(str(path))}: is not sealed, as --trust, --vault and --identity say"
        )
    if not path.is_dir():
        found = "a file" if path.exists() else "nothing"
        raise UsageError(f"{printable(str(path))}: expected a bundle's folder, found {found}")
    is_bundle = (path / "manifest.json").exists()
    folder = path / "bundle" if (path / "bundle").is_dir() and not is_bundle else path
    if folder == path and not is_bundle:
        if is_run(path):
            raise UsageError(f"{printable(str(path))}: {_trials_of(path)}")
        raise _no_bundle(path)
    try:
        return load(folder), folder
    except InputError as error:
        raise BundleError(f"{printable(str(folder))}: {error}") from error


def _no_bundle(path: Path) -> StatediffError:
    """That a folder is none: a part of one, or a folder with bundles below it, which are named."""
    name = printable(str(path))
    if any((path / each).exists() for each in FILES if each != "contract.yaml"):
        return BundleError(f"{name}: no bundle; its manifest.json is missing")
    below = [found for pattern in _BELOW for found in path.glob(f"{pattern}/manifest.json")]
    if not below:
        return UsageError(
            f"{name}: not a bundle, and none is in it; `judge`, `watch` and `run` print where "
            "they keep theirs"
        )
    newest = max(below, key=lambda found: (found.stat().st_mtime_ns, str(found))).parent
    newest = newest.parent if newest.name == "bundle" else newest
    return UsageError(
        f"{name}: not a bundle; the newest of {len(below)} below it: {printable(str(newest))}"
    )


def _trials_of(run: Path) -> str:
    """That it is a run, and which bundles are in it."""
    kept = run / "trials"
    names = sorted(entry.name for entry in kept.iterdir()) if kept.is_dir() else []
    found = [printable(str(kept / name)) for name in names[:SHOWN_TRIALS]]
    more = [f"{len(names) - SHOWN_TRIALS} more"] if len(names) > SHOWN_TRIALS else []
    listed = ", ".join([*found, *more]) or "none yet"
    return f"a run; name one of its trials: {listed}"


def is_batch(path: Path) -> bool:
    """True if `path` looks like the evidence of a batch, finished or not."""
    return (path / "rollouts").is_file()


def _unsealed(path: Path, trust: Path | None, vault: Path | None, identity: Path | None) -> Bundle:
    name = printable(str(path))
    if trust is None:
        raise UsageError(f"{name}: a sealed copy; say with --trust FILE whose keys count")
    with verifying(path):
        return unseal(verify(load_copy(path, vault).files, load_trust(trust)), identity)


@contextmanager
def verifying(path: Path) -> Iterator[None]:
    """Within it, a copy that does not verify is a `BundleError` that names its path."""
    try:
        yield
    except Rejected as error:
        raise BundleError(printable(f"INVALID: {shown(path)}: {error}")) from error


def partial_copy(path: Path, trust: Path | None, vault: Path | None) -> Verified | None:
    """A sealed copy that withholds parts, verified; None for a whole one and for any other path."""
    if trust is None or not is_sealed(path):
        return None
    with verifying(path):
        found = verify(load_copy(path, vault).files, load_trust(trust))
    return None if found.status == "VALID" else found


def unseal(found: Verified, identity: Path | None) -> Bundle:
    """The bundle of a verified copy; with what it does not show, for an identity of an auditor."""
    bundle = opened(found)
    if identity is None:
        return bundle
    for leaf in found.leaves:
        if leaf.tag == UNDISCLOSED:
            told = read_file(identity).decode("utf-8", errors="replace")
            return replace(bundle, undisclosed=decrypted(leaf, told)[1])
    raise UsageError("--identity: this copy has nothing that is encrypted to auditors to replay by")


def load_copy(path: Path, vault: Path | None) -> Sealed:
    """The copy that a user named, not yet verified: with what the vault still has keys for."""
    if path.suffix != SUFFIX:
        if vault is not None:
            raise UsageError("--vault is for kept bundles (.kept)")
        return load_sealed(path)
    kept = load_kept(path)
    return kept.copy if vault is None else restored(kept, Vault(vault))


def raw_pieces(bundle: Bundle, files: list[Path], recipients: list[str]) -> list[Piece]:
    """The pieces that carry these files and what the bundle does not show, encrypted.

    `UsageError` for a file that cannot be.
    """
    if recipients and not files and bundle.undisclosed is None:
        raise UsageError(
            "--raw-to: nothing to encrypt: the bundle shows all; name raw captures with --raw"
        )
    names = [path.name for path in files]
    if any(name.startswith(".") for name in names):
        raise UsageError("--raw: a name that begins with a point would hide what is handed over")
    if len(set(names)) != len(names):
        raise UsageError("--raw: two files have one name")
    fresh = secrets.token_bytes
    found = [encrypted(path.name, read_file(path), recipients, fresh) for path in files]
    if bundle.undisclosed is not None:
        found.append(withheld_piece(bundle.undisclosed, recipients, fresh))
    return found


def load_kept(path: Path) -> Kept:
    """The kept bundle (.kept) in a file; `UsageError` where it cannot be read."""
    return read_kept(read_file(path))


def read_file(path: Path) -> bytes:
    """The content of a file that a user named; `UsageError` where it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error


# ---------------------------------------------------------------- copies of runs


@dataclass
class RunCopy:
    """Copies a run's trials to a place. Once that fails it says so, and the run goes on."""

    folder: Path
    place: CopyPlace | None
    tell: Callable[[str], None]

    def trials(self, names: Sequence[str]) -> None:
        """The trials are there, as far as that can be."""
        if names:
            self._try(lambda place: place.put_trials(self.folder, names))

    def whole(self) -> None:
        """All of the run is there, as far as that can be."""
        self._try(lambda place: place.push(self.folder))

    def _try(self, copy: Callable[[CopyPlace], object]) -> None:
        if self.place is None:
            return
        try:
            copy(self.place)
        except StatediffError as error:
            place, self.place = self.place, None
            self.tell(
                f"not copied: {error}; the run goes on, and "
                f"`statediff store push {shown(self.folder)} {place.url}` copies it later"
            )


def begin_copy(
    url: str | None, folder: Path, store: Store, run: str, tell: Callable[[str], None]
) -> RunCopy:
    """The run's record is at the URL, and the store knows where; None copies nothing."""
    if url is None:
        return RunCopy(folder, None, tell)
    place, folder = CopyPlace(url), folder.resolve()
    place.begin(folder)
    store.put_copy(run, place.url)
    return RunCopy(folder, place, tell)


def bundle_at_url(path: Path) -> tuple[Bundle, Path] | None:
    """The bundle at the URL that the path was made of, and the folder it was put in; None if none.

    The folder is the one that `judge` would use.
    """
    url = url_in_path(str(path))
    if url is None:
        return None
    bundle = CopyPlace(url).bundle()
    folder = bundle_folder(bundle)
    keep_bundle(bundle, folder)
    return bundle, folder


def bundle_in_copies(urls: Iterable[str], location: str, trial: str) -> Bundle | None:
    """The bundle of a trial in the first copy of its run that has it; None where none has."""
    run = unquote(location.rpartition("/")[2])
    for url in urls:
        try:
            return CopyPlace(url).bundle(run, "trials", trial, "bundle")
        except StatediffError:
            continue  # another may have it; the caller says what is missing
    return None
