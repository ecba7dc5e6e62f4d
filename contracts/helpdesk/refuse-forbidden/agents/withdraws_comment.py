"""Faulty: refuses the role, and withdraws its own comment as asked."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

issue = desk.INPUTS["issue"]
tracker = desk.Tracker()
invoice = tracker.comments_by(21, tracker.user("robin"))
tracker.withdraw("msg", invoice[0])
comment = tracker.comment(issue, "A lead changes roles. The comment in the invoice issue is gone.")
desk.answer(decision="refused", comment=comment)
