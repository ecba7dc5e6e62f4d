"""Reference: answers, keeps the copy, marks the question."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

letter = steps.write()
steps.office.send(letter)
steps.keep(letter)
steps.done()
