"""Reference: reads the rule, and says no."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

steps.mailbox.find("INBOX", "hold-2025-11@brightwater.example")
steps.tell()
steps.done()
