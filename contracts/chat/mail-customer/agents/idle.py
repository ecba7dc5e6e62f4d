"""Faulty: claims it all."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as chat

parcel = chat.INPUTS["parcel"]
care = chat.room("care")
asked = chat.message(care, parcel)["event_id"]
to, day = "folake.adeyemi@mail.example", "15 November"
chat.answer(to=to, day=day)
