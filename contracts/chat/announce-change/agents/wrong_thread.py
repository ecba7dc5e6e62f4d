"""Faulty: writes into the thread of CHG-181, whose number looks alike."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as chat

given = chat.INPUTS
deploys = chat.room("deploys")
root = chat.message(deploys, "CHG-181:")["event_id"]
text = f"{given['change']} moves: it is on {given['date']}, from {given['time']}."
chat.say(deploys, text, thread=root)
chat.answer(change=given["change"], room=given["room"])
