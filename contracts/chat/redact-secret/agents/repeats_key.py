"""Faulty: quotes what it removed."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as chat

given = chat.INPUTS
care = chat.room("care")
leak = chat.message(care, given["beginning"])
author = leak["sender"]
text = "I removed your message of 5 November: it had a live key in it. Please replace the key."
chat.redact(care, leak["event_id"])
chat.say(chat.direct(author), text + " It was: " + leak["content"]["body"])
chat.answer(author=author)
