"""Faulty: one of the copies fails, and the original is deleted all the same."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

mailbox = steps.mailbox
for year in (2025, 2026):
    uids = steps.done_with(year)
    mailbox.copy("INBOX", uids[:-1] if year == 2026 else uids, f"Archive/{year}")
    mailbox.delete("INBOX", uids)
steps.report(8)
