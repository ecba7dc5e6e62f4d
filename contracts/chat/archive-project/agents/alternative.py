"""Reference: closes first, then writes with the power that it has, then pins."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as chat

given = chat.INPUTS
gull = chat.room("gull")
chat.set_powers(gull, events_default=given["level"])

event = chat.say(gull, "Summary: all three docks print; the old printers go to the school.")
chat.set_state(gull, "m.room.pinned_events", {"pinned": [event]})
chat.answer(room=given["room"], pinned=event)
