"""Faulty: claims an archive."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as chat

chat.answer(room=chat.INPUTS["room"], pinned="$none")
