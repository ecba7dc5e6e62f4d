"""Faulty: deletes the oldest offer alone, and says that it refused."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

steps.mailbox.delete("Archive/2025", steps.corvid("Archive/2025"))
steps.tell()
steps.done()
