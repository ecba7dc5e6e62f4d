"""`show` and `replay`: what a bundle says, and whether it can be decided again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from statediff.cli.keeping import VaultOption
from statediff.cli.output import JsonFlag

if TYPE_CHECKING:
    from statediff.evidence.package import Bundle

BundleArgument = Annotated[
    Path,
    typer.Argument(
        metavar="BUNDLE", help="A bundle's folder, a trial's that holds one, or a sealed copy."
    ),
]
TrustOption = Annotated[
    Path | None,
    typer.Option("--trust", metavar="FILE", help="For a sealed copy: whose keys count."),
]
REPLAY = "statediff/replay/1"


def show(
    bundle: BundleArgument,
    trust: TrustOption = None,
    vault: VaultOption = None,
    as_json: JsonFlag = False,
) -> int:
    """Show a bundle: verdict, clauses, findings with witnesses, changes, readings."""
    from statediff.cli.output import emit, results, shown

    found, folder = load_bundle(bundle, trust, vault)
    if as_json:
        from statediff.reports.plain import plain_judgement

        emit(plain_judgement(found, shown(folder)))
    else:
        from statediff.reports.text import trial_report

        results().print(trial_report(found, shown(folder)))
    return 0


def replay(
    bundle: BundleArgument,
    trust: TrustOption = None,
    vault: VaultOption = None,
    as_json: JsonFlag = False,
) -> int:
    """Decide a bundle again from nothing but itself; the exit code is the verdict's."""
    from statediff.cli.output import emit, results, shown
    from statediff.errors import BundleError, UsageError
    from statediff.evaluate import exit_code
    from statediff.evaluate import replay as decide_again

    found, folder = load_bundle(bundle, trust, vault)
    try:
        judgement = decide_again(found)
    except UsageError as error:  # what is wrong with a bundle's parts is wrong with the bundle
        raise BundleError(f"{shown(folder)}: cannot be replayed: {error}") from error
    verdict = judgement.verdict
    if as_json:
        emit({
            "schema": REPLAY, "bundle": shown(folder), "reproduced": True,
            "verdict": verdict.value, "contract": found.manifest["contract"],
            "version": found.manifest["contract_version"], "kernel": found.manifest["kernel"],
            "digest": found.digest,
        })  # fmt: skip
    else:
        from statediff.reports.text import verdict_text

        line = verdict_text(verdict.value)
        line.append(f"  reproduced from {shown(folder)} by kernel {found.manifest['kernel']}", "")
        results().print(line, soft_wrap=True)
    return exit_code([verdict])


def load_bundle(
    path: Path, trust: Path | None = None, vault: Path | None = None
) -> tuple[Bundle, Path]:
    """The bundle at a path that a user named, and its folder; a sealed copy is verified first."""
    from statediff.cli.copying import bundle_at_url
    from statediff.errors import BundleError, InputError, UsageError
    from statediff.evidence.package import load
    from statediff.evidence.seal import is_sealed
    from statediff.model.values import printable

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
    from statediff.cli.keeping import load_copy
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
