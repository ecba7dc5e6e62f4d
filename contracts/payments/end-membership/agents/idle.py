"""Faulty: claims success, changed nothing."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

desk.answer(subscription="sub_nadia_club", ends_at="2026-04-02 07:00:00")
