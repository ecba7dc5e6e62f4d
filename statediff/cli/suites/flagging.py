"""`flag`: a case that is not to be relied on, whatever its verdict; signed, and told beside it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from statediff.cli.evidence.adjudicating import KeyOption
from statediff.cli.output import JsonFlag

FLAGGED = "statediff/flagged/1"


def flag(
    target: Annotated[
        Path, typer.Argument(metavar="BUNDLE|RUN", help="A bundle's folder, a trial's, or a run's.")
    ],
    because: Annotated[
        str, typer.Option("--because", metavar="TEXT", help="Why it cannot be relied on.")
    ],
    key: KeyOption,
    contract: Annotated[
        list[str] | None,
        typer.Option("--contract", metavar="PATTERN", help="Of a run: trials of contracts so."),
    ] = None,
    withdraw: Annotated[
        bool, typer.Option("--withdraw", help="Your flag no longer stands; both stay on record.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Flag trials as unreliable, signed; told apart by `stats`, `compare` and `open` --trust.

    No verdict changes, and every trial is still counted.
    """
    from statediff.cli.output import emit, results, shown
    from statediff.cli.suites.running import fits
    from statediff.errors import UsageError
    from statediff.evidence.keys import load_key
    from statediff.suite.labels import keep, sign_flag
    from statediff.workspace.runfolders import is_run
    from statediff.workspace.sampling import drawn

    signing = load_key(key)
    if contract is not None and not is_run(target):
        raise UsageError("--contract is for a run; this is one bundle")
    found = [
        trial
        for trial in drawn([target], None, 0)
        if contract is None or fits(str(trial.read().manifest["contract"]), contract)
    ]
    if not found:
        raise UsageError(f"{target}: no trial with a bundle is of such a contract")
    for trial in found:
        now = datetime.now(UTC).replace(microsecond=0)
        signed = sign_flag(trial.digest, because, now, signing, is_unreliable=not withdraw)
        path = keep(trial.folder, signed)
        if as_json:
            emit({
                "schema": FLAGGED, "bundle": trial.digest, "unreliable": not withdraw,
                "kept": shown(path),
            })  # fmt: skip
        else:
            word = "withdrawn" if withdraw else "unreliable"
            results().print(f"{word}: {shown(path)}", soft_wrap=True)
