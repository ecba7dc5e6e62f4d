"""Faulty: first says two copies, and edits that."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as chat

given = chat.INPUTS
helped = chat.room("help")
asked = chat.message(helped, "Norway again")["event_id"]
text = "CN23, three copies; print them from tray 2."

own = chat.say(helped, text.replace("three", "two"), thread=asked)
chat.edit(helped, own, text)
chat.react(helped, asked, given["sign"])
chat.answer(form="CN23", copies=3)
