"""Faulty: puts it where it will be thrown away."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

steps.mailbox.move("INBOX", steps.corvid("INBOX"), "Trash")
steps.tell()
steps.done()
