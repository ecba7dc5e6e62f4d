"""Faulty: claims four invitations, and made none."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as chat

chat.answer(invited_to=4)
