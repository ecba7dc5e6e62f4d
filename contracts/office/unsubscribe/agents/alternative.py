"""Reference: reads the header, copies and removes one by one, writes last, keeps a copy."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

mailbox = steps.mailbox
found = steps.issues()
header = mailbox.messages("INBOX")[found[-1]]["List-Unsubscribe"]
place, _, asked = header.strip("<> ").removeprefix("mailto:").partition("?subject=")
for uid in found:
    mailbox.copy("INBOX", [uid], "Trash")
    mailbox.delete("INBOX", [uid])
letter = steps.leave(place, asked.replace("%20", " "))
mailbox.keep("Sent", letter)
steps.done(len(found), place)
