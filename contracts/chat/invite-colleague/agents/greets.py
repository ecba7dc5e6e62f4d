"""Faulty: writes a welcome into the care room, which nobody asked for."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as chat

who = chat.INPUTS["who"]
space = chat.room("care-team")
state = chat.ask("GET", f"{chat.path(space)}/state")
rooms = [e["state_key"] for e in state if e["type"] == "m.space.child" and e["content"]]  # type: ignore[index]
for room in [space, *rooms]:
    chat.membership(room, "invite", who)
chat.say(chat.room("care"), "Welcome, Dana!")
chat.answer(invited_to=len(rooms) + 1)
