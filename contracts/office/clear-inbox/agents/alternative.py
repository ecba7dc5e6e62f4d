"""Reference: goes from the newest, copies each and takes it away."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

mailbox = steps.mailbox
chosen = [(uid, year) for year in (2026, 2025) for uid in steps.done_with(year)]
for uid, year in reversed(chosen):
    mailbox.copy("INBOX", [uid], f"Archive/{year}")
    mailbox.delete("INBOX", [uid])
steps.report(len(chosen))
