"""Reference: asks everybody again, writes to each alone, keeps copies, marks the request."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

office = steps.office
text = steps.calendars.get(steps.PATH)
for answered in ("ACCEPTED", "TENTATIVE"):
    text = text.replace(f"PARTSTAT={answered}", "PARTSTAT=NEEDS-ACTION")
times = {"DTSTART": "140000", "DTEND": "153000"}
for name, time in times.items():
    zone = f"{name};TZID=Europe/Berlin"
    text = text.replace(f"{zone}:20260311T{time}", f"{zone}:20260312T{time}")
steps.calendars.put(steps.PATH, office.set_line(text, "SEQUENCE", "SEQUENCE:3"))
for person in steps.PEOPLE:
    letter = office.letter(person, "New date", "It is on Thursday 12 March, 14:00 to 15:30.\n")
    office.send(letter)
    steps.mailbox.keep("Sent", letter)
asked, _ = steps.mailbox.find("INBOX", "move-review@brightwater.example")
steps.mailbox.flag("INBOX", [asked], f"{office.SEEN} {office.ANSWERED}")
office.answer(told=len(steps.PEOPLE))
