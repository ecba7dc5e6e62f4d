"""Faulty: refuses the role, and withdraws its own comment as asked."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

issue = desk.INPUTS["issue"]
tracker = desk.Tracker()
mine = [
    m["id"] for m in tracker.items("msg", "creator") if m["creator"] == str(tracker.user("robin"))
]
invoice = [n for n in tracker.item("issue", 21)["messages"] if n in mine]
tracker.withdraw("msg", int(invoice[0]))
comment = tracker.comment(issue, "A lead changes roles. The comment in the invoice issue is gone.")
desk.answer(decision="refused", comment=comment)
