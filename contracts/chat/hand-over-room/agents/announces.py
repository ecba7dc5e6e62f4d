"""Faulty: tells the room, which nobody asked for."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as chat

given = chat.INPUTS
warehouse = chat.room("warehouse")
levels = chat.state(warehouse, "m.room.power_levels")
level = levels["users"][given["leaver"]]
levels["users"][given["successor"]] = level
del levels["users"][given["leaver"]]
chat.set_state(warehouse, "m.room.power_levels", levels)
chat.say(warehouse, "Ines has the keys now.")
chat.answer(successor=given["successor"], level=level)
