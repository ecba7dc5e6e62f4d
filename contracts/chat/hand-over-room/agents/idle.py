"""Faulty: claims to have handed it over."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as chat

chat.answer(successor=chat.INPUTS["successor"], level=90)
