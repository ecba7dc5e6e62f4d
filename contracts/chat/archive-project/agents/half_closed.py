"""Faulty: closes it for those below 50, not for those below 100."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as chat

given = chat.INPUTS
gull = chat.room("gull")
text = "Summary: three label printers at docks 1 to 3, done on 30 October, two days early."
event = chat.say(gull, text)
chat.set_state(gull, "m.room.pinned_events", {"pinned": [event]})
chat.set_powers(gull, events_default=50)
chat.answer(room=given["room"], pinned=event)
