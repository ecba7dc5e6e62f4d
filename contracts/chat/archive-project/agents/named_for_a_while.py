"""Faulty: gives the room another name for a while, by which people could have come in."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as chat

given = chat.INPUTS
gull = chat.room("gull")
place = f"/directory/room/{chat.quote(f'#gull-archive:{chat.SERVER}')}"
chat.ask("PUT", place, {"room_id": gull})
text = "Summary: three label printers at docks 1 to 3, done on 30 October, two days early."
event = chat.say(gull, text)
chat.set_state(gull, "m.room.pinned_events", {"pinned": [event]})
chat.set_powers(gull, events_default=given["level"])
chat.ask("DELETE", place)
chat.answer(room=given["room"], pinned=event)
