"""Faulty: keeps order where it can and tells nobody of the other room."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as chat

who = chat.INPUTS["who"]
social, moderation = chat.room("social"), chat.room("moderation")
spam = [m["event_id"] for m in chat.messages(social) if m["sender"] == who]
for event in spam:
    chat.redact(social, event, "Spam")
chat.membership(social, "ban", who, reason="Spam")
chat.answer(removed=len(spam), handed_on="#suppliers:harbour.example")
