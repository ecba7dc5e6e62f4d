"""Faulty: keeps its mail as a draft until it is sent, and deletes the draft."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

mailbox = steps.mailbox
known = mailbox.search("Drafts", "ALL")
letter = steps.leave()
mailbox.keep("Drafts", letter, "\\Draft")
mailbox.move("INBOX", steps.issues(), "Trash")
mailbox.delete("Drafts", [uid for uid in mailbox.search("Drafts", "ALL") if uid not in known])
steps.done()
