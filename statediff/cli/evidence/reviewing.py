"""`review`: trials one after the other in a browser, labelled and signed."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from statediff.cli.evidence.adjudicating import KeyOption
from statediff.cli.output import JsonFlag

if TYPE_CHECKING:
    from statediff.evidence.keys import SigningKey
    from statediff.evidence.verify import Signer

REVIEW = "statediff/review/1"
REVIEWED = "statediff/reviewed/1"


def review(  # noqa: PLR0913, PLR0917 - one parameter an option
    targets: Annotated[
        list[Path],
        typer.Argument(
            metavar="BUNDLE|RUN...", help="Bundles, trials, runs, sealed copies; any number."
        ),
    ],
    key: KeyOption,
    blind: Annotated[
        bool,
        typer.Option("--blind", help="Verdict and findings are hidden until the label is signed."),
    ] = False,
    size: Annotated[
        int | None, typer.Option("--sample", metavar="N", help="So many trials, stratified.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of the sample, and of the order.")] = 0,
    trust: Annotated[
        Path | None,
        typer.Option(
            "--trust",
            metavar="FILE",
            help="Whose keys count: for sealed copies, and to show what others said afterwards.",
        ),
    ] = None,
    port: Annotated[
        int,
        typer.Option(
            "--port", help="On 127.0.0.1 [default: any that is free].", show_default=False
        ),
    ] = 0,
    start: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in the browser.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Review trials on a local page; every label is signed and kept at once. Ctrl-C ends it."""
    import webbrowser

    from statediff.cli.output import emit, progress, results
    from statediff.errors import UsageError
    from statediff.evidence.keys import load_key, load_trust
    from statediff.reports.review.desk import Case, Desk
    from statediff.reports.review.server import DeskServer
    from statediff.workspace.sampling import drawn

    signing = load_key(key)
    trusted = () if trust is None else load_trust(trust)
    if trust is not None:
        _require_reviewer(signing, trusted, trust)
    if not 0 <= port < 2**16:
        raise UsageError(f"--port {port}: expected a number up to {2**16 - 1}")
    found = drawn(targets, size, seed, trust)
    if not found:
        raise UsageError("there is no trial to review; name a run or a bundle that holds one")
    desk = Desk(
        [Case(each.digest, each.folder, each.read) for each in found], signing, is_blind=blind,
        clock=time.monotonic, now=_now, trust=trusted,
    )  # fmt: skip
    try:
        server = DeskServer(desk, port)
    except OSError as error:
        raise UsageError(f"--port {port}: cannot be used: {error.strerror}") from error
    try:
        if as_json:
            emit({"schema": REVIEW, "link": server.link, "trials": len(found), "blind": blind})
        else:
            results().print(server.link, soft_wrap=True)
            progress().print("this link works once; Ctrl-C ends the review", soft_wrap=True)
        if start:
            webbrowser.open(server.link)
        server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        pass  # how a review ends; what was signed is kept
    finally:
        server.server_close()
    signed = sum(each is not None for each in desk.labels())
    if as_json:
        emit({"schema": REVIEWED, "trials": len(found), "signed": signed})
    else:
        results().print(f"{signed} of {len(found)} signed", soft_wrap=True)


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


def _require_reviewer(key: SigningKey, trusted: tuple[Signer, ...], trust: Path) -> None:
    """The key's labels will count; it is better known before the work than after."""
    from statediff.errors import UsageError
    from statediff.suite.labels import REVIEWER

    if not any(each.key == key.public and REVIEWER in each.roles for each in trusted):
        raise UsageError(
            f"{trust}: does not trust this key as {REVIEWER}, so its labels would not count; "
            "make one with `statediff keygen KEY --name NAME --role reviewer`"
        )
