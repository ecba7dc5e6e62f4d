"""Faulty: reads the issue once, comments, then saves the issue as it had read it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

issue, to = desk.INPUTS["issue"], desk.INPUTS["to"]
tracker = desk.Tracker()
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
