"""Reference: answers the last message of the thread, in other words."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as chat

given = chat.INPUTS
deploys = chat.room("deploys")
root = chat.message(deploys, f"{given['change']}:")["event_id"]

last = chat.thread(deploys, root)[-1]["event_id"]
words = f"New date for {given['change']}: {given['date']}, {given['time']}."
chat.say(deploys, words, thread=root, reply=last)
chat.answer(change=given["change"], room=given["room"])
