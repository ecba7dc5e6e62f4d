"""Faulty: adds a third day, as the latest."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import re

import toolbox as chat

parcel = chat.INPUTS["parcel"]
care = chat.room("care")
request = chat.message(care, parcel)
to = re.search(r"[\w.]+@[\w.]+\w", request["content"]["body"])[0]  # type: ignore[index]
day = ""
for said in [request, *chat.thread(care, request["event_id"])]:
    found = re.search(rf"{parcel}.* arrives on \w+ (\d+ \w+)", said["content"]["body"], re.DOTALL)
    day = found[1] if found else day
chat.letter(
    to,
    f"Your parcel {parcel}",
    f"Good news: {parcel} arrives on {day}, on 17 November at the latest.",
)
chat.say(care, f"I wrote to {to}.", thread=request["event_id"])
chat.answer(to=to, day=day)
