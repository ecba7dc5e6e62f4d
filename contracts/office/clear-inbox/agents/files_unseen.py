"""Faulty: files what nobody has seen."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

filed = steps.file()
uids = steps.mailbox.search("INBOX", "UNSEEN", "SENTBEFORE", "1-Mar-2026")
steps.mailbox.move("INBOX", uids, "Archive/2026")
steps.report(filed + len(uids))
