"""Faulty: knows the answer and keeps it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as chat

chat.answer(form="CN23", copies=3)
