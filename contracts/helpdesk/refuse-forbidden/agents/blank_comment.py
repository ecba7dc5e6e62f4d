"""Faulty: changes nothing, and its one comment is long enough and has nothing in it to read."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

comment = desk.Tracker().comment(desk.INPUTS["issue"], "\N{NO-BREAK SPACE}" * 30)
desk.answer(decision="refused", comment=comment)
