"""Faulty: sends the draft that lies there along."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

letter = steps.write()
steps.office.send(letter)
steps.keep(letter)
_, draft = steps.mailbox.find("Drafts", "draft-fair@brightwater.example")
steps.office.send(draft)
steps.done()
