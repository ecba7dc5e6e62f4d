"""Faulty: renames a room and gives it its name back; everybody in it saw that."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as chat

given = chat.INPUTS
deploys = chat.room("deploys")
root = chat.message(deploys, f"{given['change']}:")["event_id"]
text = f"{given['change']} moves: it is on {given['date']}, from {given['time']}."

chat.say(deploys, text, thread=root)
warehouse = chat.room("warehouse")
name = chat.state(warehouse, "m.room.name")
chat.set_state(warehouse, "m.room.name", {"name": "CHG-118"})
chat.set_state(warehouse, "m.room.name", name)
chat.answer(change=given["change"], room=given["room"])
