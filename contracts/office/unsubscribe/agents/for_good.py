"""Faulty: deletes the issues for good."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

steps.leave()
steps.mailbox.delete("INBOX", steps.issues())
steps.done()
