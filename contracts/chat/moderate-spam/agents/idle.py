"""Faulty: claims order, and kept none."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as chat

chat.answer(removed=3, handed_on="#suppliers:harbour.example")
