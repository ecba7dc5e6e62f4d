"""Faulty: answers the mail of Elena, whose subject is the same."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

other = "lamps-b1@rossi.example"
letter = steps.write(other)
steps.office.send(letter)
steps.mailbox.keep("Sent", letter)
steps.mark(other)
steps.done(other)
