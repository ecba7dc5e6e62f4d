"""Reference: answers with a calendar part first, keeps a copy, then declines without RSVP."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

office = steps.office
uid, asked = steps.invitation()
letter = office.letter(
    "Priya Nair <priya@brightwater.example>",
    "Declined: Supplier day",
    "I must decline, I am in Hamburg.\n\nDana\n",
    In_Reply_To=asked["Message-ID"],
)
reply = """BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//agent//EN
METHOD:REPLY
BEGIN:VEVENT
UID:supplier-day@brightwater.example
DTSTAMP:20260309T090000Z
ORGANIZER:mailto:priya@brightwater.example
ATTENDEE;PARTSTAT=DECLINED:mailto:dana@brightwater.example
END:VEVENT
END:VCALENDAR
"""
letter.add_alternative(reply, subtype="calendar", params={"method": "REPLY"})
office.send(letter)
steps.mailbox.keep("Sent", letter)
steps.mailbox.flag("INBOX", [uid], f"{office.SEEN} {office.ANSWERED}")
text = steps.calendars.get(steps.PATH)
text = text.replace("PARTSTAT=NEEDS-ACTION;RSVP=TRUE", "PARTSTAT=DECLINED")
steps.calendars.put(steps.PATH, text)
steps.done()
