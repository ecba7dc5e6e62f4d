"""Faulty: the older issue stays, and the answer says that it does not."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

steps.leave()
steps.mailbox.move("INBOX", steps.issues()[1:], "Trash")
steps.done()
