"""Faulty: marks the question as answered, and answered nothing."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as chat

given = chat.INPUTS
helped = chat.room("help")
asked = chat.message(helped, "Norway again")["event_id"]
chat.react(helped, asked, given["sign"])
chat.answer(form="CN23", copies=3)
