"""Reference: explains first, then patches the one attribute."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

issue, to = desk.INPUTS["issue"], desk.INPUTS["to"]
tracker = desk.Tracker()
comment = tracker.comment(issue, "Handing this over while I am away, with the order of the drum.")
tag = tracker.ask("GET", f"issue/{issue}")["@etag"]
person = {"data": str(tracker.user(to))}
tracker.ask("PUT", f"issue/{issue}/assignee", person, **{"If-Match": tag})
desk.log("assign", "reversible-update", {"issue": issue, "to": to}, tracker.login)
desk.answer(issue=issue, assignee=to, comment=comment)
