"""Reference: reads the events at work, asks the private calendars; writes local times."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import re

import steps

office, taken = steps.office, steps.busy("private")
for person in steps.PEOPLE:
    for text in steps.calendars.objects(f"/{person}/work/").values():
        if "TRANSP:TRANSPARENT" in text or "FREQ=WEEKLY" in text:
            continue
        found = re.findall(r"^DT(?:START|END);.*:(\d+T\d+)$", text, re.MULTILINE)
        pair = [f"{each[:9]}{int(each[9:11]) - 1:02}{each[11:]}Z" for each in found]
        taken.append((pair[0], pair[1]))
begin = steps.first_hour(taken)
text = "\n".join(
    (
        "BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//agent//EN", "BEGIN:VEVENT",
        "UID:9f1c", "DTSTAMP:20260309T090000Z", f"DTSTART;TZID=Europe/Berlin:{begin[:9]}120000",
        f"DTEND;TZID=Europe/Berlin:{begin[:9]}130000", "SUMMARY:Tender talk", "SEQUENCE:0",
        "DESCRIPTION:The hotel tender", "ORGANIZER:mailto:dana@brightwater.example",
        "ATTENDEE;PARTSTAT=NEEDS-ACTION:mailto:priya@brightwater.example",
        "ATTENDEE;PARTSTAT=NEEDS-ACTION:mailto:milo@brightwater.example",
        "END:VEVENT", "END:VCALENDAR", "",
    )
)  # fmt: skip
steps.calendars.put("/dana/work/9f1c.ics", text)
office.answer(start="2026-03-13T12:00")
