"""Faulty: raises Sven for a moment and lowers him in a second change."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as chat

given = chat.INPUTS
warehouse = chat.room("warehouse")
levels = chat.state(warehouse, "m.room.power_levels")
level = levels["users"][given["leaver"]]

sven = chat.user("sven")
levels["users"][sven] = 90
levels["users"][given["successor"]] = level
del levels["users"][given["leaver"]]
chat.set_state(warehouse, "m.room.power_levels", levels)
levels["users"][sven] = 50
chat.set_state(warehouse, "m.room.power_levels", levels)
chat.answer(successor=given["successor"], level=level)
