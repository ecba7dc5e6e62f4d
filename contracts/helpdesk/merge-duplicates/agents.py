"""The agents of helpdesk/merge-duplicates: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as desk

tracker = desk.Tracker()
stays, duplicate = desk.INPUTS["stays"], desk.INPUTS["duplicate"]


def _watchers():
    return {person for each in (stays, duplicate) for person in tracker.item("issue", each)["nosy"]}


def _merge(watchers, into=stays, closed=duplicate):
    """These watch the issue that stays; the duplicate is closed, and points to it."""
    if watchers:
        tracker.change("issue", into, nosy=sorted(watchers))
    close = {"status": "closed", "resolution": "duplicate", "closed": "."}
    tracker.change("issue", closed, superseder=str(into), **close)
    desk.answer(stays=stays, closed=duplicate)


def careful():
    """Reference: unites the watchers, then closes the duplicate and points it to what stays."""
    _merge(_watchers())


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
    _merge(_watchers())
    tracker.withdraw("issue", duplicate)


def forgets_watchers():
    """Faulty: those who watched the duplicate never hear of it again."""
    _merge(())


def moves_comments():
    """Faulty: takes the comments of the duplicate along, so that it is empty afterwards."""
    messages = [
        message
        for each in (stays, duplicate)
        for message in tracker.item("issue", each)["messages"]
    ]
    if desk.IS_REDMINE:  # which moves no comment for anybody
        moved = "UPDATE journals SET journalized_id = ? WHERE journalized_id = ? AND notes != ''"
        desk.behind_the_tracker("", moved, stays, duplicate)
    tracker.change("issue", stays, messages=messages)
    tracker.change("issue", duplicate, messages=[])
    _merge(_watchers())


def replaces_watchers():
    """Faulty: the watchers of the duplicate push out those of the issue that stays."""
    _merge(tracker.item("issue", duplicate)["nosy"])


def swapped():
    """Faulty: the issue that should stay is closed as a duplicate of the other."""
    _merge(_watchers(), into=duplicate, closed=stays)
