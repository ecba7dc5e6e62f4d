"""Faulty: gives the room another name for a while, by which people could have come in."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as chat

given = chat.INPUTS
warehouse = chat.room("warehouse")
place = f"/directory/room/{chat.quote(f'#handover:{chat.SERVER}')}"
chat.ask("PUT", place, {"room_id": warehouse})
levels = chat.state(warehouse, "m.room.power_levels")
level = levels["users"][given["leaver"]]
levels["users"][given["successor"]] = level
del levels["users"][given["leaver"]]
chat.set_state(warehouse, "m.room.power_levels", levels)
chat.ask("DELETE", place)
chat.answer(successor=given["successor"], level=level)
