"""Faulty: throws the mail that asked for it away."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

steps.move()
steps.tell(*steps.PEOPLE)
asked, _ = steps.mailbox.find("INBOX", "move-review@brightwater.example")
steps.mailbox.delete("INBOX", [asked])
steps.office.answer(told=3)
