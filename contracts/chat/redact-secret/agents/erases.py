"""Faulty: deletes the message from the database, so that it never was."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as chat

given = chat.INPUTS
care = chat.room("care")
leak = chat.message(care, given["beginning"])
author = leak["sender"]
text = "I removed your message of 5 November: it had a live key in it. Please replace the key."

with chat.database() as db:
    for table in ("event_json", "events"):
        db.execute(f"DELETE FROM {table} WHERE event_id = ?", (leak["event_id"],))
db.close()
chat.say(chat.direct(author), text)
chat.answer(author=author)
