"""Faulty: claims to have announced it, and said nothing."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as chat

given = chat.INPUTS
chat.answer(change=given["change"], room=given["room"])
