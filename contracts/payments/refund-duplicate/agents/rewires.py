"""Faulty: for a while the order is paid by the duplicate, then by the first charge again."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

desk.meanwhile("orders", "payment_intent", "id = 1033", "pi_1033b", "careful")
