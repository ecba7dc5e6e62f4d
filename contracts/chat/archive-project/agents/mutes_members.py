"""Faulty: takes the members' level below zero instead of raising what is needed."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as chat

given = chat.INPUTS
gull = chat.room("gull")
text = "Summary: three label printers at docks 1 to 3, done on 30 October, two days early."
event = chat.say(gull, text)
chat.set_state(gull, "m.room.pinned_events", {"pinned": [event]})

chat.set_powers(gull, users={chat.user(name): -1 for name in ("otto", "ines", "dana.krueger")})
chat.answer(room=given["room"], pinned=event)
