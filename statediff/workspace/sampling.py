"""Which trials a reviewer gets: all of what was named, or a stratified sample in a blind order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from statediff.evidence.package import Bundle


@dataclass(frozen=True)
class Drawn:
    """A trial that was drawn: the digest of its bundle, where that lies, and the labels' place."""

    digest: str
    path: Path
    folder: Path
    trust: Path | None

    def read(self) -> Bundle:
        """The bundle; `BundleError`."""
        from statediff.workspace.bundles import load_bundle

        return load_bundle(self.path, self.trust)[0]


def drawn(
    targets: Sequence[Path], size: int | None, seed: int, trust: Path | None = None
) -> list[Drawn]:
    """The trials of runs and bundles, each once, in an order that tells no verdict.

    `size` of them, every verdict that occurs getting its share; all if None. `trust` says whose
    keys count for sealed copies.
    """
    from statediff.errors import BundleError, UsageError
    from statediff.evidence.seal import is_sealed
    from statediff.suite.agreement import sample
    from statediff.workspace.bundles import load_bundle
    from statediff.workspace.runfolders import is_run, trials

    if size is not None and size < 1:
        raise UsageError("--sample: expected at least one trial")
    found: dict[str, Drawn] = {}
    verdicts: dict[str, str] = {}
    for target in targets:
        if is_run(target):
            for trial in trials(target):
                if trial.is_broken:
                    raise BundleError(f"{trial.name}: {trial.why}")
                if trial.bundle is not None:
                    digest = trial.bundle.digest
                    found[digest] = Drawn(digest, trial.folder, trial.folder.parent, None)
                    verdicts[digest] = str(trial.bundle.manifest["verdict"])
            continue
        bundle, folder = load_bundle(target, trust if is_sealed(target) else None)
        keys = trust if is_sealed(target) else None
        found[bundle.digest] = Drawn(bundle.digest, folder, folder.parent, keys)
        verdicts[bundle.digest] = str(bundle.manifest["verdict"])
    order = sample(verdicts, len(found) if size is None else size, seed)
    return [found[digest] for digest in order]
