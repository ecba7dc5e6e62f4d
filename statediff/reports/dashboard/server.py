"""The dashboard of a store behind the loopback address; who may see it: `reports.loopback`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from http import HTTPStatus

from statediff.evidence.package import Bundle
from statediff.evidence.verify import Signer
from statediff.reports.dashboard.page import KIND, Choice, board_page, trials_page
from statediff.reports.html import trial_html
from statediff.reports.html.page import REPORT, render
from statediff.reports.loopback import Answering, LoopbackServer, Query, Refused, whole
from statediff.reports.review.pages import Trouble
from statediff.suite.records import Ended
from statediff.suite.store import RunCounts, Store

Fetch = Callable[[str, str], Bundle]
"""The bundle of a trial, by the location of its run and its name; `BundleError` says why not."""


class DashboardServer(LoopbackServer):
    """The server of one store, or of some of its runs; it only reads."""

    def __init__(
        self,
        store: Store,
        runs: Sequence[str] | None,
        title: str,
        fetch: Fetch,
        port: int = 0,
        trust: Sequence[Signer] = (),
    ) -> None:
        """`OSError` if the port is taken; 0 takes any that is free."""
        self.trust = trust
        self.store = store
        self.runs = runs
        self.title = title
        self.fetch = fetch
        super().__init__(_Answer, port)

    def listed(self) -> dict[str, RunCounts]:
        """The runs that it shows, by id."""
        return {
            run.id: run for run in self.store.runs() if self.runs is None or run.id in self.runs
        }


class _Answer(Answering):
    server: DashboardServer
    kind = KIND
    most_fields = 6
    cannot = "This trial cannot be shown"

    def trouble(self, title: str, why: str, root: str) -> str:
        return render("trouble.html", Trouble(title, why, root), KIND)

    def get(self, path: str, query: Query) -> None:
        server = self.server
        match path:
            case "":
                page = board_page(
                    server.store, server.runs, server.title, server.root, server.trust
                )
                self.send(HTTPStatus.OK, page)
            case "trials":
                names = {run.id: run.name for run in server.listed().values()}
                at = whole(_one(query, "page") or "0")
                chosen = _choice(query)
                if chosen.run is not None and chosen.run not in names:
                    raise Refused(HTTPStatus.NOT_FOUND, "there is no such run on this dashboard")
                page = trials_page(server.store, server.runs, chosen, server.root, at, names)
                self.send(HTTPStatus.OK, page)
            case "report":
                run = server.listed().get(_one(query, "run") or "")
                name = _one(query, "name")
                if run is None or name is None:
                    raise Refused(HTTPStatus.NOT_FOUND, "there is no such trial on this dashboard")
                bundle = server.fetch(run.location, name)
                self.send(HTTPStatus.OK, trial_html(bundle, name), kind=REPORT)
            case _:
                raise Refused(HTTPStatus.NOT_FOUND, "there is nothing here")


def _choice(query: Query) -> Choice:
    ended = _one(query, "ended")
    if ended is not None and ended not in list(Ended):
        raise Refused(HTTPStatus.BAD_REQUEST, "expected how a trial can end")
    run, contract, agent, clause = (
        _one(query, key) for key in ("run", "contract", "agent", "clause")
    )
    return Choice(run, contract, agent, None if ended is None else Ended(ended), clause)


def _one(query: Query, key: str) -> str | None:
    return query[key][0] if key in query else None
