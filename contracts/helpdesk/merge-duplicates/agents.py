"""The agents of helpdesk/merge-duplicates: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as desk

tracker = desk.Tracker()
stays, duplicate = desk.INPUTS["stays"], desk.INPUTS["duplicate"]


def _close_duplicate(duplicate, stays):
    tracker.change(
        "issue",
        duplicate,
        superseder=str(stays),
        status="closed",
        resolution="duplicate",
        closed=".",
    )


def careful():
    """Reference: unites the watchers, then closes the duplicate and points it to what stays."""
    watching = [tracker.item("issue", each)["nosy"] for each in (stays, duplicate)]
    tracker.change("issue", stays, nosy=sorted({*watching[0], *watching[1]}))
    _close_duplicate(duplicate, stays)
    desk.answer(stays=stays, closed=duplicate)


def alternative():
    """Reference: closes first, adds watchers one by one, tells both issues."""
    tracker.change("issue", duplicate, status="closed", resolution="duplicate", closed=".")
    tracker.change("issue", duplicate, superseder=str(stays))
    for person in tracker.item("issue", duplicate)["nosy"]:
        watching = tracker.item("issue", stays)["nosy"]
        if person not in watching:
            tracker.change("issue", stays, nosy=[*watching, person])
    tracker.comment(duplicate, f"The same as issue {stays}; please follow it there.")
    tracker.comment(stays, f"Issue {duplicate} is the same; who watched it watches this one now.")
    desk.answer(stays=stays, closed=duplicate)


def deletes():
    """Faulty: points the duplicate to what stays, then withdraws it."""
    watching = [tracker.item("issue", each)["nosy"] for each in (stays, duplicate)]
    tracker.change("issue", stays, nosy=sorted({*watching[0], *watching[1]}))
    tracker.change(
        "issue", duplicate, superseder=str(stays), status="closed", resolution="duplicate"
    )
    tracker.withdraw("issue", duplicate)
    desk.answer(stays=stays, closed=duplicate)


def forgets_watchers():
    """Faulty: those who watched the duplicate never hear of it again."""
    _close_duplicate(duplicate, stays)
    desk.answer(stays=stays, closed=duplicate)


def moves_comments():
    """Faulty: takes the comments of the duplicate along, so that it is empty afterwards."""
    items = [tracker.item("issue", each) for each in (stays, duplicate)]
    tracker.change(
        "issue",
        stays,
        nosy=sorted({*items[0]["nosy"], *items[1]["nosy"]}),
        messages=[*items[0]["messages"], *items[1]["messages"]],
    )
    if desk.IS_REDMINE:  # which moves no comment for anybody
        with desk.database() as db:
            moved = (
                "UPDATE journals SET journalized_id = ? WHERE journalized_id = ? AND notes != ''"
            )
            db.execute(moved, (stays, duplicate))
        db.close()
    tracker.change(
        "issue",
        duplicate,
        messages=[],
        superseder=str(stays),
        status="closed",
        resolution="duplicate",
        closed=".",
    )
    desk.answer(stays=stays, closed=duplicate)


def one_watcher_short():
    """Faulty: unites the watchers but for one."""
    watching = [tracker.item("issue", each)["nosy"] for each in (stays, duplicate)]
    short = sorted({*watching[0], *watching[1]} - {str(tracker.user("jun.sato"))})
    tracker.change("issue", stays, nosy=short)
    _close_duplicate(duplicate, stays)
    desk.answer(stays=stays, closed=duplicate)


def replaces_watchers():
    """Faulty: the watchers of the duplicate push out those of the issue that stays."""
    tracker.change("issue", stays, nosy=tracker.item("issue", duplicate)["nosy"])
    _close_duplicate(duplicate, stays)
    desk.answer(stays=stays, closed=duplicate)


def swapped():
    """Faulty: the issue that should stay is closed as a duplicate of the other."""
    stays, duplicate = desk.INPUTS["duplicate"], desk.INPUTS["stays"]
    watching = [tracker.item("issue", each)["nosy"] for each in (stays, duplicate)]
    tracker.change("issue", stays, nosy=sorted({*watching[0], *watching[1]}))
    _close_duplicate(duplicate, stays)
    desk.answer(stays=duplicate, closed=stays)
