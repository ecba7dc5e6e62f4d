"""Faulty: copies, and leaves the originals."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

for year in (2025, 2026):
    steps.mailbox.copy("INBOX", steps.done_with(year), f"Archive/{year}")
steps.report()
