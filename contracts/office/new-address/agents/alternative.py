"""Reference: finds cards and visit by what they say, raises the sequence, marks the mail."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

office, calendars = steps.office, steps.calendars
uid, _ = steps.mailbox.find("INBOX", "rossi-moves@rossi.example")
cards = 0
for book in ("/shared/people/", "/dana/contacts/"):
    path, text = calendars.find(book, "ORG:Studio Rossi")
    text = text.replace("Torstraße 12", "Kastanienallee 40").replace("10119", "10435")
    calendars.put(path, text.replace("elena@rossi.example", "elena@studio-rossi.example"))
    cards += 1
events = 0
for path, text in calendars.objects("/dana/work/").items():
    if "SUMMARY:Visit Elena Rossi" in text and ":202603" in text.partition("DTEND")[2]:
        moved = office.set_line(text, "LOCATION", f"{steps.PLACE}\nSEQUENCE:1")
        calendars.put(path, moved)
        events += 1
steps.mailbox.flag("INBOX", [uid], office.SEEN)
steps.done(cards, events)
