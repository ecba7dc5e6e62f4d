"""Faulty: for a while the shop says that somebody else received the parcel."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

desk.meanwhile("shipments", "received_by", "order_id = 1021", "the neighbor", "careful")
