"""Reference: looks the person up, reassigns, explains in one comment."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

issue, to = desk.INPUTS["issue"], desk.INPUTS["to"]
tracker = desk.Tracker()
tracker.change("issue", issue, assignee=str(tracker.user(to)))
comment = tracker.comment(
    issue, "I am away from Monday. Mara Lindt takes over; the drum arrives next week."
)
desk.answer(issue=issue, assignee=to, comment=comment)
