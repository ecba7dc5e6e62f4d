"""Faulty: asks twice."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

steps.leave()
steps.leave()
steps.mailbox.move("INBOX", steps.issues(), "Trash")
steps.done()
