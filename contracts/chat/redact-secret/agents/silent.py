"""Faulty: removes it and tells nobody."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as chat

given = chat.INPUTS
care = chat.room("care")
leak = chat.message(care, given["beginning"])
author = leak["sender"]
chat.redact(care, leak["event_id"])
chat.answer(author=author)
