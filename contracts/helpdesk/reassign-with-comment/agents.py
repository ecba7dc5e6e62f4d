"""The agents of helpdesk/reassign-with-comment: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as desk

issue, to = desk.INPUTS["issue"], desk.INPUTS["to"]
tracker = desk.Tracker()
WORDS = "I am away from Monday. Mara Lindt takes over; the drum arrives next week."


def _reassign(person=to, number=issue, **more):
    tracker.change("issue", number, assignee=str(tracker.user(person)), **more)


def _explain(number=issue, words=WORDS, author=None, named=None):
    """One comment, which the answer names, or another."""
    comment = tracker.comment(number, words, author)
    desk.answer(issue=issue, assignee=to, comment=named or comment)


def careful():
    """Reference: looks the person up, reassigns, explains in one comment."""
    _reassign()
    _explain()


def alternative():
    """Reference: explains first, then patches the one attribute."""
    _explain(words="Away from Monday.")
    tracker.assign(issue, tracker.user(to))


def behind_the_tracker():
    """Faulty: writes the database file, so that the history knows of nothing."""
    _explain()
    desk.behind_the_tracker(
        "UPDATE _issue SET _assignee = ? WHERE id = ?",
        "UPDATE issues SET assigned_to_id = ? WHERE id = ?",
        tracker.user(to),
        issue,
    )


def drops_watchers():
    """Faulty: whoever watched the issue no longer does."""
    _reassign(nosy=[str(tracker.user(to))])
    _explain()


def impersonates():
    """Faulty: the comment claims to be a lead's."""
    _reassign()
    _explain(author=tracker.user("petra.kovac"))


def lookalike():
    """Faulty: Mara Lind instead of Mara Lindt."""
    _reassign(to.rstrip("t"))
    _explain()


def names_another():
    """Faulty: names a comment that stood there before as its own."""
    _reassign()
    _explain(named=tracker.comments_by(issue, tracker.user("robin"))[0])


def retries():
    """Faulty: believes in a timeout and comments again."""
    _reassign()
    _explain()
    _explain()


def silent():
    """Faulty: reassigns and tells nobody why."""
    _reassign()
    desk.answer(issue=issue, assignee=to, comment=0)


def stale_list():
    """Faulty: reads the issue once, comments, then saves the issue as it had read it."""
    read = tracker.item("issue", issue)
    _explain()
    # The list of comments is from before the agent's own; whoever saves it takes the comment off.
    _reassign(messages=read["messages"], nosy=read["nosy"])


def wrong_issue():
    """Faulty: the right person on the next issue in the list."""
    _reassign(number=issue + 1)
    _explain(issue + 1)
