"""The dashboard of a store behind the loopback address; who may see it: `reports.loopback`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from http import HTTPStatus

from statediff.errors import BundleError
from statediff.evidence.package import Bundle
from statediff.evidence.verify import Signer
from statediff.model.values import printable
from statediff.reports.html import trial_html
from statediff.reports.html.page import REPORT, render
from statediff.reports.loopback import Answering, LoopbackServer, Query, Refused, whole
from statediff.suite.indexing import folder_of
from statediff.suite.overview import LEVELS, SORTS
from statediff.suite.records import Ended
from statediff.suite.store import RunCounts, Store
from statediff.workspace.bundles import bundle_in_copies
from statediff.workspace.runfolders import read_trial
from statediff_lab.comparison import CaseChange
from statediff_lab.dashboard.comparing import JudgedSide, Pair, case_page, comparison_page
from statediff_lab.dashboard.page import board_page
from statediff_lab.dashboard.parts import KIND, Choice
from statediff_lab.dashboard.trials import report_link, trials_page
from statediff_lab.review.pages import Trouble

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
    most_fields = 16
    cannot = "This trial cannot be shown"

    def trouble(self, title: str, why: str, root: str) -> str:
        return render("trouble.html", Trouble(title, why, root), KIND)

    def get(self, path: str, query: Query) -> None:
        server = self.server
        root = server.root
        match path:
            case "":
                run = self._run(query, "run")
                runs, title = server.runs, server.title
                title = title if run is None else run.name
                one = None if run is None else run.id
                page = board_page(server.store, runs, title, root, server.trust, one)
            case "trials":
                self._run(query, "run")
                page = trials_page(
                    server.store, server.runs, choice_of(query), root, _page(query), self._names()
                )
            case "compare":
                pair = self._pair(query)
                page = comparison_page(server.store, pair, root, _page(query), self._names())
            case "case":
                self._run(query, "b")  # refused before any bundle is fetched
                page = case_page(
                    self._side(query, "a", "name_a"), self._side(query, "b", "name_b"), root
                )
            case "report":
                trial = self._side(query, "run", "name")
                page = trial_html(trial.bundle, trial.title)
                self.send(HTTPStatus.OK, page, kind=REPORT)
                return
            case _:
                raise Refused(HTTPStatus.NOT_FOUND, "there is nothing here")
        self.send(HTTPStatus.OK, page)

    def _names(self) -> dict[str, str]:
        return {run.id: run.name for run in self.server.listed().values()}

    def _run(self, query: Query, key: str) -> RunCounts | None:
        """The run that is named; None where none is. Refused if it is not on this dashboard."""
        given = _one(query, key)
        if given is None:
            return None
        run = self.server.listed().get(given)
        if run is None:
            raise Refused(HTTPStatus.NOT_FOUND, "there is no such run on this dashboard")
        return run

    def _pair(self, query: Query) -> Pair | None:
        a, b = self._run(query, "a"), self._run(query, "b")
        change = _one(query, "change")
        if change is not None and change not in list(CaseChange):
            raise Refused(HTTPStatus.BAD_REQUEST, "expected what can become of a case")
        if a is None or b is None:
            return None
        return Pair(
            a.id,
            b.id,
            _one(query, "agent_a"),
            _one(query, "agent_b"),
            None if change is None else CaseChange(change),
        )

    def _side(self, query: Query, key: str, trial: str) -> JudgedSide:
        """A trial, with its bundle."""
        run, name = self._run(query, key), _one(query, trial)
        if run is None or name is None:
            raise Refused(HTTPStatus.NOT_FOUND, "there is no such trial on this dashboard")
        bundle = self.server.fetch(run.location, name)
        return JudgedSide(name, report_link(self.server.root, run.id, name), bundle)


def choice_of(query: Query) -> Choice:
    """The choice of an address, as `Choice.link` writes it; refused if it is none."""
    ended, levels, sort = (_one(query, key) for key in ("ended", "levels", "sort"))
    if ended is not None and ended not in list(Ended):
        raise Refused(HTTPStatus.BAD_REQUEST, "expected how a trial can end")
    if levels is not None and levels not in LEVELS:
        raise Refused(HTTPStatus.BAD_REQUEST, "expected how levels can disagree")
    if sort is not None and sort not in SORTS:
        raise Refused(HTTPStatus.BAD_REQUEST, "expected by what trials can be sorted")
    return Choice(
        run=_one(query, "run"),
        domain=_one(query, "domain"),
        contract=_one(query, "contract"),
        agent=_one(query, "agent"),
        ended=None if ended is None else Ended(ended),
        clause=_one(query, "clause"),
        code=_one(query, "code"),
        levels=levels,
        sort=sort or "case",
        is_down=_one(query, "down") is not None,
    )


def _page(query: Query) -> int:
    return whole(_one(query, "page") or "0")


def _one(query: Query, key: str) -> str | None:
    """The field; None where a form left it empty."""
    return query[key][0] or None if key in query else None


def bundle_at(store: Store, location: str, name: str) -> Bundle:
    """The bundle of a trial of the run at a location; `BundleError` says why there is none."""
    where = f"{printable(location)}: trial {printable(name)}"
    if "/" in name or name in ("", ".", ".."):
        raise BundleError(f"{where}: no trial of a run has such a name")
    folder = folder_of(location)
    if folder is None or not folder.is_dir():
        copy = bundle_in_copies(store.copies_of(location), location, name)
        if copy is None:
            raise BundleError(
                f"{where}: the run's folder is on another machine, or gone; open it there, or "
                "copy it to where this one can read it: `statediff store push RUN URL`"
            )
        return copy
    kept = read_trial(folder / "trials" / name)
    if kept.bundle is None:
        raise BundleError(f"{where}: {kept.why}")
    return kept.bundle
