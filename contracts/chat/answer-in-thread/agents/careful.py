"""Reference: looks the answer up, gives it in the thread, marks the question."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as chat

given = chat.INPUTS
helped = chat.room("help")
earlier = chat.message(helped, "to Norway?")["event_id"]
known = chat.thread(helped, earlier)[0]["content"]["body"]
asked = chat.message(helped, "Norway again")["event_id"]
chat.say(helped, f"As in October: {known}", thread=asked)
chat.react(helped, asked, given["sign"])
chat.answer(form="CN23", copies=3)
