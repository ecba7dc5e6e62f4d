"""Faulty: marks it as deleted; the next program that tidies up takes it away."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

found = steps.corvid("INBOX")
steps.mailbox.flag("INBOX", found, r"\Deleted")
steps.tell()
steps.done()
