"""Faulty: announces the day on which the change was planned before."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as chat

given = chat.INPUTS
deploys = chat.room("deploys")
root = chat.message(deploys, f"{given['change']}:")["event_id"]
text = f"{given['change']} moves: it is on {given['date']}, from {given['time']}."
chat.say(deploys, text.replace(given["date"], "12 November"), thread=root)
chat.answer(change=given["change"], room=given["room"])
