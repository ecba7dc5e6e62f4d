"""Faulty: names both days, to be sure."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as chat

parcel = chat.INPUTS["parcel"]
care = chat.room("care")
asked = chat.message(care, parcel)["event_id"]
to, day = "folake.adeyemi@mail.example", "15 November"
text = f"Dear Ms Adeyemi,\n\nyour replacement parcel {parcel} arrives on Saturday {day}."
text += " It was to be 14 November at first."
chat.letter(to, f"Your parcel {parcel}", text)
chat.say(care, "Done, the letter is out.", thread=asked)
chat.answer(to=to, day=day)
