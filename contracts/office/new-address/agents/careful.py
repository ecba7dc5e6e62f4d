"""Reference: changes two lines of each card, and one of the visit."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

for path in steps.CARDS:
    steps.card(path)
steps.visit()
steps.done()
