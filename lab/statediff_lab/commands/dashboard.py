"""`lab dashboard`: the pages of many runs, served or written."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from statediff.cli.options import CopyTrustOption, JsonFlag, PageOptions, StoreOption
from statediff.cli.output import print_result
from statediff.cli.serving import require_port, serve
from statediff.errors import UsageError
from statediff.workspace.folders import shown

if TYPE_CHECKING:
    from statediff.suite.store import Store

DASHBOARD: Final = "statediff/dashboard/1"


def dashboard(
    targets: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[RUN...]", help="Runs, or folders of runs [default: every run of the store]."
        ),
    ] = None,
    store: StoreOption = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write one page, and serve nothing."),
    ] = None,
    trust: CopyTrustOption = None,
    *,
    page: PageOptions,
    as_json: JsonFlag = False,
) -> int:
    """Serve the dashboard of runs until Ctrl-C."""
    require_port(page.port)
    return _dashboard(_runs(targets or []), store, out, page, trust, as_json=as_json)


def _runs(targets: Sequence[Path]) -> list[Path]:
    """The folders of runs that are meant, each once."""
    from statediff.workspace.runfolders import is_run

    found: dict[Path, None] = {}
    for target in targets:
        inside = sorted(target.iterdir()) if target.is_dir() else []
        own = [target] if is_run(target) else [each for each in inside if is_run(each)]
        if not own:
            raise UsageError(f"{target}: is no run, and no folder of runs")
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
    from statediff.workspace.folders import write_file
    from statediff.workspace.stores import find_run, open_store
    from statediff_lab.dashboard.page import board_page
    from statediff_lab.dashboard.server import DashboardServer, bundle_at
    from statediff_lab.opinions import signed_opinions

    with ExitStack() as stack:
        index: Store = stack.enter_context(open_store(url))
        every = {run.id: run for run in (find_run(index, folder) for folder in folders)}
        ids = list(every) or None
        if trust is not None:
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
