"""What a bundle rests on, checked against what lies elsewhere: the contract, and a run's chunks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from statediff.evidence.package import Bundle


def require_contract(bundle: Bundle, contract: str) -> None:
    """The bundle was judged under these very bytes of the contract. `BundleError`."""
    from statediff.errors import BundleError
    from statediff.workspace.contracts import contract_path

    path = contract_path(contract)
    if path.read_bytes() != bundle.data("contract.yaml"):
        named = f"{bundle.manifest['contract']}@{bundle.manifest['contract_version']}"
        raise BundleError(f"contract.yaml: {named} was judged by other bytes than those of {path}")


def require_chunks(bundle: Bundle, run: Path) -> None:
    """The bundle's state roots are those of the states that the run kept of its trial.

    They are made anew of every row, under the run's secret. `BundleError` where they differ,
    `UsageError` where the run or the bundle has none.
    """
    from statediff.capture.bounds import bound_captures
    from statediff.capture.store import DiskChunks
    from statediff.errors import BundleError, UsageError
    from statediff.evidence import documents as doc
    from statediff.evidence.roots import Roots
    from statediff.evidence.states import states_from
    from statediff.model.readings import Capture, SourceCapture
    from statediff.workspace.runfolders import run_secret

    expected = bundle.document("captures.json").get("roots")
    if expected is None:
        raise UsageError("the bundle has no state roots; it was written before there were any")
    name = str(bundle.manifest["trial"])
    folder = run / "trials" / name
    if Path(name).name != name or not folder.is_dir():
        raise UsageError(f"{run}: holds no such trial as the bundle's")
    captures = _document(folder / "captures.json")
    try:
        states = states_from(_document(folder / "states.json"), DiskChunks(run / "chunks"))
        before, after = (
            Capture(
                tuple(
                    SourceCapture(doc.reading_from(each["reading"]), states[each["state"]])
                    for each in captures[side]
                )
            )
            for side in ("before", "after")
        )
    except (LookupError, TypeError, ValueError) as error:
        raise BundleError(f"{folder}: its states cannot be read: {error!r}") from error
    found = Roots.of(*bound_captures(before, after), run_secret(run)).by_side
    if dict(found) != expected:
        raise BundleError(f"captures.json: the state roots are not those of the chunks of {run}")


def _document(path: Path) -> Any:
    from statediff.evidence.canonical import read
    from statediff.workspace.bundles import read_file

    return read(read_file(path).removesuffix(b"\n"), path.name)
