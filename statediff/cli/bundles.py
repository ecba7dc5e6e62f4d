"""`show` and `replay`: what a bundle says, and whether it can be decided again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from statediff.cli.evidence.retention import VaultOption
from statediff.cli.output import JsonFlag

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
    from statediff.workspace.bundles import load_bundle

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
    from statediff.workspace.bundles import load_bundle

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
