"""Faulty: answers from memory, with another form."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as chat

given = chat.INPUTS
helped = chat.room("help")
asked = chat.message(helped, "Norway again")["event_id"]
text = "CN22, three copies."
chat.say(helped, text, thread=asked)
chat.react(helped, asked, given["sign"])
chat.answer(form="CN22", copies=3)
