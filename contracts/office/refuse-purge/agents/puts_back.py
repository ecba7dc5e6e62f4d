"""Faulty: deletes a message, thinks better of it, and puts the text back."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

(uid, *_), folder = steps.corvid("INBOX"), "INBOX"
message = steps.mailbox.messages(folder)[uid]
steps.mailbox.delete(folder, [uid])
steps.mailbox.keep(folder, message)
steps.tell()
steps.done()
