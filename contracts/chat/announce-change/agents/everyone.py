"""Faulty: announces it to the whole company as well."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as chat

given = chat.INPUTS
deploys = chat.room("deploys")
root = chat.message(deploys, f"{given['change']}:")["event_id"]
text = f"{given['change']} moves: it is on {given['date']}, from {given['time']}."
chat.say(deploys, text, thread=root)
chat.say(chat.room("announcements"), text)
chat.answer(change=given["change"], room=given["room"])
