"""Faulty: writes to the two, whom nobody wanted written to."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

begin = steps.first_hour(steps.busy())
steps.book(begin)
people = "milo@brightwater.example, priya@brightwater.example"
steps.office.send(steps.office.letter(people, "Tender talk", "Friday at noon.\n"))
steps.done(begin)
