"""Faulty: another sign says something else."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as chat

helped = chat.room("help")
asked = chat.message(helped, "Norway again")["event_id"]
text = "CN23, three copies; print them from tray 2."
chat.say(helped, text, thread=asked)
chat.react(helped, asked, "👎")
chat.answer(form="CN23", copies=3)
