"""The bundle of a trial that the store knows."""

from __future__ import annotations

from statediff.errors import BundleError
from statediff.evidence.package import Bundle
from statediff.model.values import printable
from statediff.suite.indexing import folder_of
from statediff.suite.store import Store
from statediff.workspace.bundles import bundle_in_copies
from statediff.workspace.runfolders import read_trial


def bundle_at(store: Store, location: str, name: str) -> Bundle:
    """The bundle of a trial of the run at a location; `BundleError` says why there is none."""
    where = f"{printable(location)}: trial {printable(name)}"
    if "/" in name or name in ("", ".", ".."):
        raise BundleError(f"{where}: no trial of a run has such a name")
    folder = folder_of(location)
    if folder is None or not folder.is_dir():
        copy = bundle_in_copies(store.copies_of(location), location, name)
        if copy is None:
            raise BundleError(
                f"{where}: the run's folder is on another machine, or gone; open it there, or "
                "copy it to where this one can read it: `statediff store push RUN URL`"
            )
        return copy
    kept = read_trial(folder / "trials" / name)
    if kept.bundle is None:
        raise BundleError(f"{where}: {kept.why}")
    return kept.bundle
