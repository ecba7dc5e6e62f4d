"""Faulty: asks for nobody in private, and books over an appointment of Milo."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

begin = steps.first_hour(steps.busy("work"))
steps.book(begin)
steps.done(begin)
