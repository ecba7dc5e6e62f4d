"""`open`: the report of a bundle in the browser, or a dashboard of runs or of a whole store."""

from __future__ import annotations

import webbrowser
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from statediff.cli.bundles import TrustOption
from statediff.cli.output import JsonFlag
from statediff.cli.suites.listing import StoreOption
from statediff.cli.suites.reporting import TierOption
from statediff.workspace.stores import bundle_at

if TYPE_CHECKING:
    from statediff.suite.store import Store

DASHBOARD = "statediff/dashboard/1"


def open_pages(
    targets: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[BUNDLE|RUN...]",
            help="One bundle, trial or sealed copy; or runs, or folders of runs "
            "[default: every run of the store].",
        ),
    ] = None,
    store: StoreOption = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Of runs: write one page, and serve nothing."),
    ] = None,
    port: Annotated[
        int,
        typer.Option(
            "--port", help="On 127.0.0.1 [default: any that is free].", show_default=False
        ),
    ] = 0,
    start: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in the browser.")
    ] = True,
    trust: TrustOption = None,
    tier: TierOption = None,
    as_json: JsonFlag = False,
) -> int:
    """Open a bundle's report in the browser, or serve the dashboard of runs until Ctrl-C."""
    from statediff.cli.suites.reporting import open_report
    from statediff.errors import UsageError

    if not 0 <= port < 2**16:
        raise UsageError(f"--port {port}: expected a number up to {2**16 - 1}")
    named = list(targets or [])
    runs = _runs(named)
    if runs is None:
        if len(named) > 1:
            raise UsageError(f"{named[0]}: is no run; of other things one is opened at a time")
        if out is not None or store is not None:
            raise UsageError("--out and --store are for runs; `report --out` writes a report")
        return open_report(named[0], trust, tier, as_json)
    if tier is not None:
        raise UsageError("--tier is for a sealed copy; these are runs")
    return _dashboard(runs, store, out, port, trust, start=start, as_json=as_json)


def _runs(targets: Sequence[Path]) -> list[Path] | None:
    """The folders of runs that are meant, each once; None if something else is meant."""
    from statediff.workspace.runfolders import is_run

    found: dict[Path, None] = {}
    for target in targets:
        inside = sorted(target.iterdir()) if target.is_dir() else []
        own = [target] if is_run(target) else [each for each in inside if is_run(each)]
        if not own:
            return None
        found.update(dict.fromkeys(own))
    return list(found)


def _dashboard(
    folders: Sequence[Path],
    url: str | None,
    out: Path | None,
    port: int,
    trust: Path | None,
    *,
    start: bool,
    as_json: bool,
) -> int:
    from statediff.cli.output import emit, progress, results, shown
    from statediff.errors import UsageError
    from statediff.evidence.keys import load_trust
    from statediff.reports.dashboard.page import board_page
    from statediff.reports.dashboard.server import DashboardServer
    from statediff.workspace.folders import write_file
    from statediff.workspace.stores import named, opened_store, signed_of

    with ExitStack() as stack:
        index: Store = stack.enter_context(opened_store(url))
        every = {run.id: run for run in (named(index, folder) for folder in folders)}
        ids = list(every) or None
        signed_of(index, list(every.values()), trust)  # as of now
        keys = () if trust is None else load_trust(trust)
        title = folders[0].absolute().name if len(folders) == 1 else _title(index, ids)
        if out is not None:
            content = board_page(index, ids, title, trust=keys).encode("utf-8")
            write_file(out, content)
            if as_json:
                emit({"schema": DASHBOARD, "page": shown(out), "bytes": len(content)})
            else:
                results().print(shown(out), soft_wrap=True)
            return 0
        try:
            server = DashboardServer(index, ids, title, partial(bundle_at, index), port, keys)
        except OSError as error:
            raise UsageError(f"--port {port}: cannot be used: {error.strerror}") from error
        stack.callback(server.server_close)
        if as_json:
            emit({"schema": DASHBOARD, "link": server.link})
        else:
            results().print(server.link, soft_wrap=True)
            progress().print("this link works once; Ctrl-C ends it", soft_wrap=True)
        if start:
            webbrowser.open(server.link)  # where there is none, the link was told
        try:
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            return 0  # how a dashboard ends
    return 0


def _title(index: Store, ids: Sequence[str] | None) -> str:
    return f"{len(ids)} runs" if ids is not None else f"every run of {index.name}"
