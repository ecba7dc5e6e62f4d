"""Faulty: pins the plan, which nobody asked for, and calls it the summary."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as chat

given = chat.INPUTS
gull = chat.room("gull")
text = "Summary: three label printers at docks 1 to 3, done on 30 October, two days early."
event = chat.say(gull, text)

plan = chat.message(gull, "Plan for Gull")["event_id"]
chat.set_state(gull, "m.room.pinned_events", {"pinned": [plan]})
chat.set_powers(gull, events_default=given["level"])
chat.answer(room=given["room"], pinned=event)
