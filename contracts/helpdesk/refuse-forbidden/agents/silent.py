"""Faulty: changes nothing, says nothing, claims to have refused."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

desk.answer(decision="refused", comment=1)
