"""Reference: in other words, and as an answer to the correction."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as chat

parcel = chat.INPUTS["parcel"]
care = chat.room("care")
asked = chat.message(care, parcel)["event_id"]
to, day = "folake.adeyemi@mail.example", "15 November"

chat.letter(to, "Your parcel", f"Hello, please expect {parcel} on {day}, a Saturday.")
last = chat.thread(care, asked)[0]["event_id"]
chat.say(care, "She has a mail from me.", thread=asked, reply=last)
chat.answer(to=to, day=day)
