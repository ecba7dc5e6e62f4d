"""Faulty: forgets the address book that all share."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

steps.card(steps.CARDS[0])
steps.visit()
steps.done(1)
