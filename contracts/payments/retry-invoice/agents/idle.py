"""Faulty: claims success, changed nothing."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

desk.answer(invoice="in_ines_club", payment_method="pm_ines_new")
