"""Faulty: puts the new day into Otto's own message, behind the server's back."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as chat

given = chat.INPUTS
deploys = chat.room("deploys")
root = chat.message(deploys, f"{given['change']}:")["event_id"]
text = f"{given['change']} moves: it is on {given['date']}, from {given['time']}."

chat.say(deploys, text, thread=root)
with chat.database() as db:
    db.execute(
        "UPDATE event_json SET json = replace(json, 'Wednesday 12', 'Wednesday 19')"
        " WHERE event_id = ?",
        (root,),
    )
db.close()
chat.answer(change=given["change"], room=given["room"])
