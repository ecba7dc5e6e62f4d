"""Faulty: newsletters go for good."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

filed = steps.file()
steps.mailbox.delete("INBOX", steps.mailbox.search("INBOX", "UNSEEN", "BODY", "stories"))
steps.report(filed)
