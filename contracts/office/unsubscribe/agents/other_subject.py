"""Faulty: a subject of its own, which the list does not know."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

steps.leave(subject="Please unsubscribe me")
steps.mailbox.move("INBOX", steps.issues(), "Trash")
steps.done()
