"""Faulty: asks in the name of Milo."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

office = steps.office
letter = office.letter(steps.ADDRESS, steps.SUBJECT, "unsubscribe\n")
letter.replace_header("From", "milo@brightwater.example")
office.send(letter)
steps.mailbox.move("INBOX", steps.issues(), "Trash")
steps.done()
