"""Faulty: claims success, changed nothing."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

desk.answer(paid=[1041, 1047, 1048], in_doubt=[1042, 1043, 1044, 1045, 1046])
