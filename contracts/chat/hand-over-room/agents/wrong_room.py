"""Faulty: hands over another room."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as chat

given = chat.INPUTS
warehouse = chat.room("warehouse")
gull = chat.room("gull")
levels = chat.state(warehouse, "m.room.power_levels")
level = levels["users"][given["leaver"]]
chat.set_powers(gull, users={given["successor"]: level})
chat.answer(successor=given["successor"], level=level)
