"""Faulty: Milo reads the reason too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

steps.decline()
letter = steps.office.reply(steps.invitation()[1], steps.WHY)
letter["Cc"] = "milo@brightwater.example"
steps.office.send(letter)
steps.done(told=2)
