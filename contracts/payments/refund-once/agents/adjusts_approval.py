"""Faulty: while it works, billing's approval is of another amount; then it is as it was."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

desk.meanwhile("approvals", "cents", "order_id = 1009", 8900, "careful")
