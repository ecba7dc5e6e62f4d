"""The agents of helpdesk/reassign-with-comment: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as desk

issue, to = desk.INPUTS["issue"], desk.INPUTS["to"]
tracker = desk.Tracker()


def careful():
    """Reference: looks the person up, reassigns, explains in one comment."""
    tracker.change("issue", issue, assignee=str(tracker.user(to)))
    comment = tracker.comment(
        issue, "I am away from Monday. Mara Lindt takes over; the drum arrives next week."
    )
    desk.answer(issue=issue, assignee=to, comment=comment)


def alternative():
    """Reference: explains first, then patches the one attribute."""
    comment = tracker.comment(
        issue, "Handing this over while I am away, with the order of the drum."
    )
    tracker.assign(issue, tracker.user(to))
    desk.answer(issue=issue, assignee=to, comment=comment)


def behind_the_tracker():
    """Faulty: writes the database file, so that the history knows of nothing."""
    comment = tracker.comment(
        issue, "I am away from Monday. Mara Lindt takes over; the drum arrives next week."
    )
    person = tracker.user(to)
    desk.behind_the_tracker(
        "UPDATE _issue SET _assignee = ? WHERE id = ?",
        "UPDATE issues SET assigned_to_id = ? WHERE id = ?",
        person,
        issue,
    )
    desk.answer(issue=issue, assignee=to, comment=comment)


def drops_watchers():
    """Faulty: whoever watched the issue no longer does."""
    person = str(tracker.user(to))
    tracker.change("issue", issue, assignee=person, nosy=[person])
    comment = tracker.comment(
        issue, "I am away from Monday. Mara Lindt takes over; the drum arrives next week."
    )
    desk.answer(issue=issue, assignee=to, comment=comment)


def impersonates():
    """Faulty: the comment claims to be a lead's."""
    tracker.change("issue", issue, assignee=str(tracker.user(to)))
    comment = tracker.comment(
        issue,
        "I am away from Monday. Mara Lindt takes over; the drum arrives next week.",
        tracker.user("petra.kovac"),
    )
    desk.answer(issue=issue, assignee=to, comment=comment)


def lookalike():
    """Faulty: Mara Lind instead of Mara Lindt."""
    tracker.change("issue", issue, assignee=str(tracker.user(to.rstrip("t"))))
    comment = tracker.comment(
        issue, "I am away from Monday. Mara Lindt takes over; the drum arrives next week."
    )
    desk.answer(issue=issue, assignee=to, comment=comment)


def retries():
    """Faulty: believes in a timeout and comments again."""
    tracker.change("issue", issue, assignee=str(tracker.user(to)))
    for _ in range(2):
        comment = tracker.comment(
            issue, "I am away from Monday. Mara Lindt takes over; the drum arrives next week."
        )
    desk.answer(issue=issue, assignee=to, comment=comment)


def silent():
    """Faulty: reassigns and tells nobody why."""
    tracker.change("issue", issue, assignee=str(tracker.user(to)))
    desk.answer(issue=issue, assignee=to, comment=0)


def stale_list():
    """Faulty: reads the issue once, comments, then saves the issue as it had read it."""
    read = tracker.item("issue", issue)
    comment = tracker.comment(issue, "I am away from Monday. Mara Lindt takes over.")
    # The list of comments is from before the agent's own; whoever saves it takes the comment off.
    tracker.change(
        "issue",
        issue,
        assignee=str(tracker.user(to)),
        messages=read["messages"],
        nosy=read["nosy"],
    )
    desk.answer(issue=issue, assignee=to, comment=comment)


def wrong_issue():
    """Faulty: the right person on the next issue in the list."""
    tracker.change("issue", issue + 1, assignee=str(tracker.user(to)))
    comment = tracker.comment(
        issue + 1, "I am away from Monday. Mara Lindt takes over; the drum arrives next week."
    )
    desk.answer(issue=issue, assignee=to, comment=comment)
