"""`report` and `open`: the HTML pages of trials and runs, written or served."""

from __future__ import annotations

import webbrowser
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from statediff.cli.faults import FAULT
from statediff.cli.options import CopyTrustOption, JsonFlag, PageOptions, StoreOption, Tier
from statediff.cli.output import emit, print_result, progress, results, shown
from statediff.errors import BundleError, UsageError
from statediff.reports.said import said
from statediff.workspace.pages import Page, beside_of, page_of, run_page, write_page
from statediff.workspace.stores import bundle_at

if TYPE_CHECKING:
    from statediff.reports.loopback import LoopbackServer
    from statediff.suite.store import Store

REPORT: Final = "statediff/report/1"
DASHBOARD: Final = "statediff/dashboard/1"
PORTS: Final = 2**16
Target = Annotated[
    Path,
    typer.Argument(
        metavar="BUNDLE|RUN", help="A bundle's folder, a trial's, a run's, or a sealed copy."
    ),
]


@dataclass(frozen=True, kw_only=True)
class CopyView:
    """Of a sealed copy: by whose keys, and as whom it is looked at."""

    trust: CopyTrustOption = None
    tier: Annotated[
        Tier | None,
        typer.Option("--tier", help="Of a sealed copy: what this tier may see, and nothing else."),
    ] = None


def report(
    target: Target,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="The page [default: beside the bundle]."),
    ] = None,
    *,
    view: CopyView,
    as_json: JsonFlag = False,
) -> int:
    """Write the HTML report of a bundle, or of a run and each of its trials.

    Of a sealed copy the page carries the copy, and verifies it in the browser.
    """
    made = _make(target, out, view)
    print_result(_document(made), shown(made.path), as_json=as_json)
    for trial in () if as_json else made.unreadable[:20]:
        progress().print(f"{said(trial)}: its bundle cannot be read; the report says why")
    return FAULT if made.unreadable else 0


def _open_report(target: Path, view: CopyView, *, as_json: bool) -> int:
    """The HTML report of a bundle is written, and open in the browser."""
    made = _make(target, None, view)
    if not webbrowser.open(made.path.absolute().as_uri()):
        raise UsageError(f"no browser could be started; open {shown(made.path)} in one")
    print_result(_document(made), f"opened {shown(made.path)}", as_json=as_json)
    return 0


def _make(target: Path, out: Path | None, view: CopyView) -> Page:
    from statediff.evidence.seal import is_sealed
    from statediff.reports.html import trial_html
    from statediff.workspace.bundles import load_bundle

    if is_sealed(target):
        path = out or page_of(target)
        text = _copy_page(target, view)
        return Page(path, "sealed", write_page(path, text, is_asked=out is not None), 1)
    if view.trust is not None or view.tier is not None:
        raise UsageError("--trust and --tier are for a sealed copy; this is none")
    if target.is_dir() and (target / "run.json").exists():
        return run_page(target, out, tell_no_page, with_trials=out is None)
    bundle, folder = load_bundle(target)
    path = out or page_of(folder)
    size = write_page(
        path,
        trial_html(bundle, str(folder), beside_of(folder, has_links=out is None)),
        is_asked=out is not None,
    )
    return Page(path, "trial", size, 1)


def _copy_page(target: Path, view: CopyView) -> str:
    """The page of a sealed copy, or of what a tier may see of it; verified first."""
    from statediff.evidence.keys import load_trust
    from statediff.evidence.seal import at_tier, load, opened, redact
    from statediff.evidence.verify import Rejected, verify
    from statediff.reports.html import copy_html, sealed_html

    if view.trust is None:
        raise UsageError(f"{target}: a sealed copy; say with --trust FILE whose keys count")
    keys = load_trust(view.trust)
    try:
        sealed = load(target)
        verified = verify(sealed.files, keys)
        if view.tier is not None:
            sealed = redact(sealed, verified, at_tier(view.tier.value))
            verified = verify(sealed.files, keys)
    except Rejected as error:
        raise BundleError(f"{target}: INVALID: {error}") from error
    if verified.status != "VALID":
        return copy_html(sealed, verified, str(target))
    return sealed_html(opened(verified), sealed, verified, str(target))


def tell_no_page(error: Exception) -> None:
    """Standard error says why there is no page."""
    progress().print(f"no report: {said(error, 2000)}", soft_wrap=True)


def _document(made: Page) -> dict[str, Any]:

    return {
        "schema": REPORT,
        "report": shown(made.path),
        "of": made.of,
        "bytes": made.size,
        "trials": made.trials,
        "unreadable": list(made.unreadable),
    }


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
    *,
    page: PageOptions,
    view: CopyView,
    as_json: JsonFlag = False,
) -> int:
    """Open a bundle's report in the browser, or serve the dashboard of runs until Ctrl-C."""
    require_port(page.port)
    given = list(targets or [])
    runs = _runs(given)
    if runs is None:
        if len(given) > 1:
            raise UsageError(f"{given[0]}: is no run; of other things one is opened at a time")
        if out is not None or store is not None:
            raise UsageError("--out and --store are for runs; `report --out` writes a report")
        return _open_report(given[0], view, as_json=as_json)
    if view.tier is not None:
        raise UsageError("--tier is for a sealed copy; these are runs")
    return _dashboard(runs, store, out, page, view.trust, as_json=as_json)


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
    page: PageOptions,
    trust: Path | None,
    *,
    as_json: bool,
) -> int:
    from statediff.evidence.keys import load_trust
    from statediff.reports.dashboard.page import board_page
    from statediff.reports.dashboard.server import DashboardServer
    from statediff.workspace.folders import write_file
    from statediff.workspace.stores import find_run, open_store, signed_opinions

    with ExitStack() as stack:
        index: Store = stack.enter_context(open_store(url))
        every = {run.id: run for run in (find_run(index, folder) for folder in folders)}
        ids = list(every) or None
        signed_opinions(index, list(every.values()), trust)  # as of now
        keys = () if trust is None else load_trust(trust)
        title = folders[0].absolute().name if len(folders) == 1 else _title(index, ids)
        if out is None:

            def start_server(at: int) -> DashboardServer:
                return DashboardServer(index, ids, title, partial(bundle_at, index), at, keys)

            serve(start_server, page, "it", DASHBOARD, {}, as_json=as_json)
            return 0
        content = board_page(index, ids, title, trust=keys).encode("utf-8")
        write_file(out, content)
        document = {"schema": DASHBOARD, "page": shown(out), "bytes": len(content)}
        print_result(document, shown(out), as_json=as_json)
    return 0


def _title(index: Store, ids: Sequence[str] | None) -> str:
    return f"{len(ids)} runs" if ids is not None else f"every run of {index.name}"


def require_port(port: int) -> None:
    """The number can be a port's; else `UsageError`."""
    if not 0 <= port < PORTS:
        raise UsageError(f"--port {port}: expected a number up to {PORTS - 1}")


def serve(
    start: Callable[[int], LoopbackServer],
    page: PageOptions,
    what: str,
    schema: str,
    facts: Mapping[str, object],
    *,
    as_json: bool,
) -> None:
    """Shows the page's link and serves the page until Ctrl-C."""
    try:
        server = start(page.port)
    except OSError as error:
        raise UsageError(f"--port {page.port}: cannot be used: {error.strerror}") from error
    try:
        if as_json:
            emit({"schema": schema, "link": server.link, **facts})
        else:
            results().print(server.link, soft_wrap=True)
            progress().print(f"this link works once; Ctrl-C ends {what}", soft_wrap=True)
        if page.start:
            webbrowser.open(server.link)  # where there is none, the link was shown
        server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()
