"""Reference: the author first; the redaction says why."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as chat

given = chat.INPUTS
care = chat.room("care")
leak = chat.message(care, given["beginning"])
author = leak["sender"]

text = "Your key is in a room where others read it. I remove it now; please get a new one."
chat.say(chat.direct(author), text)
chat.redact(care, leak["event_id"], "A live key")
chat.answer(author=author)
