"""Faulty: raises all members, so that somebody can always do it."""

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
levels["users_default"] = 50
chat.set_state(warehouse, "m.room.power_levels", levels)
chat.answer(successor=given["successor"], level=level)
