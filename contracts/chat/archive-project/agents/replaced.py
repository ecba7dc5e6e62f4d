"""Faulty: puts a stone on the room: clients go elsewhere."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as chat

given = chat.INPUTS
gull = chat.room("gull")
text = "Summary: three label printers at docks 1 to 3, done on 30 October, two days early."
event = chat.say(gull, text)
chat.set_state(gull, "m.room.pinned_events", {"pinned": [event]})
chat.set_powers(gull, events_default=given["level"])

elsewhere = {"body": "Archived", "replacement_room": chat.room("social")}
chat.set_state(gull, "m.room.tombstone", elsewhere)
chat.answer(room=given["room"], pinned=event)
