"""Bundles and copies of them, by a path or URL that a user named."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from statediff.evidence.leaf_partition import Piece
    from statediff.evidence.package import Bundle
    from statediff.evidence.seal import Sealed
    from statediff.evidence.vault import Kept


def load_bundle(
    path: Path, trust: Path | None = None, vault: Path | None = None
) -> tuple[Bundle, Path]:
    """The bundle at a path that a user named, and its folder; a sealed copy is verified first."""
    from statediff.errors import BundleError, InputError, UsageError
    from statediff.evidence.package import load
    from statediff.evidence.seal import is_sealed
    from statediff.model.values import printable
    from statediff.workspace.copies import bundle_at_url

    if (copy := bundle_at_url(path)) is not None:
        return copy
    if is_sealed(path):
        return _unsealed(path, trust, vault), path
    if trust is not None or vault is not None:
        raise UsageError(f"{printable(str(path))}: is not sealed, as --trust and --vault say")
    if not path.is_dir():
        found = "a file" if path.exists() else "nothing"
        raise UsageError(f"{printable(str(path))}: expected a bundle's folder, found {found}")
    is_trial = (path / "bundle").is_dir() and not (path / "manifest.json").exists()
    folder = path / "bundle" if is_trial else path
    try:
        return load(folder), folder
    except InputError as error:
        raise BundleError(f"{printable(str(folder))}: {error}") from error


def _unsealed(path: Path, trust: Path | None, vault: Path | None) -> Bundle:
    from statediff.errors import BundleError, UsageError
    from statediff.evidence.keys import load_trust
    from statediff.evidence.seal import opened
    from statediff.evidence.verify import Rejected, verify
    from statediff.model.values import printable

    name = printable(str(path))
    if trust is None:
        raise UsageError(f"{name}: a sealed copy; say with --trust FILE whose keys count")
    try:
        return opened(verify(load_copy(path, vault).files, load_trust(trust)))
    except Rejected as error:
        raise BundleError(f"{name}: INVALID: {error}") from error


def load_copy(path: Path, vault: Path | None) -> Sealed:
    """The copy that a user named, not yet verified: with what the vault still has keys for."""
    from statediff.errors import UsageError
    from statediff.evidence.seal import load
    from statediff.evidence.vault import SUFFIX, Vault, restored

    if path.suffix != SUFFIX:
        if vault is not None:
            raise UsageError("--vault is for kept bundles (.kept)")
        return load(path)
    kept = kept_copy(path)
    return kept.copy if vault is None else restored(kept, Vault(vault))


def raw_pieces(files: list[Path], recipients: list[str]) -> list[Piece]:
    """The pieces that carry these files, encrypted. `UsageError` for one that cannot be."""
    import secrets

    from statediff.errors import UsageError
    from statediff.evidence.raw import encrypted

    if recipients and not files:
        raise UsageError("--raw-to: nothing to encrypt; name the raw captures with --raw")
    names = [path.name for path in files]
    if any(name.startswith(".") for name in names):
        raise UsageError("--raw: a name that begins with a point would hide what is handed over")
    if len(set(names)) != len(names):
        raise UsageError("--raw: two files have one name")
    return [
        encrypted(path.name, read_file(path), recipients, secrets.token_bytes) for path in files
    ]


def kept_copy(path: Path) -> Kept:
    """The kept bundle (.kept) in a file; `UsageError` where it cannot be read."""
    from statediff.evidence.vault import read_kept

    return read_kept(read_file(path))


def read_file(path: Path) -> bytes:
    """The content of a file that a user named; `UsageError` where it cannot be read."""
    from statediff.errors import UsageError

    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
