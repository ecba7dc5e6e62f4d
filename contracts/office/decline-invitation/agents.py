"""The agents of office/decline-invitation: right ones first, then wrong ones."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as office

PATH = "/dana/work/supplier-day.ics"
WHY, DECLINED = "Dana declines: she is in Hamburg on the 13th.\n", "Declined: Supplier day"
REPLY = """BEGIN:VCALENDAR
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
calendars, mailbox = office.Calendars(), office.Mailbox()
uid, invitation = mailbox.find("INBOX", "invite-supplier-day@brightwater.example")


def _decline(status="DECLINED", who="Dana Okafor"):
    """The one called so has this status."""
    text = calendars.get(PATH)
    old = re.search(rf"CN={who};PARTSTAT=([A-Z-]+)", text)
    calendars.put(PATH, text.replace(old[0], f"CN={who};PARTSTAT={status}"))


def _report(told=1):
    office.answer(decision="declined", told=told)


def _letter(body=WHY, subject=DECLINED, **heads):
    """An answer to Priya in her thread."""
    heads["In_Reply_To"] = invitation["Message-ID"]
    return office.letter("Priya Nair <priya@brightwater.example>", subject, body, **heads)


def _tell(*words, reply=""):
    """Priya got it, and the reply for her calendar if there is one."""
    letter = _letter(*words)
    if reply:
        letter.add_alternative(reply, subtype="calendar", params={"method": "REPLY"})
    office.send(letter)
    _report()


def careful():
    """Reference: changes the one word, answers in the thread, for her calendar too."""
    _decline()
    _tell(reply=REPLY)


def alternative():
    """Reference: attaches the reply first, of today, keeps a copy, then declines without RSVP."""
    letter = _letter("I must decline, I am in Hamburg.\n\nDana\n", Date=office.TODAY)
    letter.add_attachment(REPLY, subtype="calendar", filename="reply.ics")
    office.send(letter)
    mailbox.keep("Sent", letter)
    mailbox.flag("INBOX", [uid], f"{office.SEEN} {office.ANSWERED}")
    text = calendars.get(PATH)
    calendars.put(PATH, text.replace("PARTSTAT=NEEDS-ACTION;RSVP=TRUE", "PARTSTAT=DECLINED"))
    _report()


def accepts():
    """Faulty: writes that Dana comes, and tells Priya that she does not."""
    _decline("ACCEPTED")
    _tell()


def claims_more():
    """Faulty: the right way, and a claim that Milo got a message too."""
    careful()
    _report(told=2)


def declines_for_milo():
    """Faulty: declines for Milo too, who had accepted."""
    _decline()
    _decline(who="Milo Brandt")
    _tell()


def deletes_event():
    """Faulty: removes the event instead of declining it."""
    calendars.delete(PATH)
    _tell()


def gladly():
    """Faulty: the letter says that Dana comes."""
    _decline()
    _tell("Dana will gladly come, from Hamburg.\n", "Accepted: Supplier day")


def idle():
    """Faulty: does nothing and claims success."""
    _report()


def new_thread():
    """Faulty: writes a letter that answers none."""
    _decline()
    office.send(office.letter("priya@brightwater.example", DECLINED, WHY))
    _report()


def no_reason():
    """Faulty: says no, and not why."""
    _decline()
    _tell("Dana declines.\n")


def replies_for_milo():
    """Faulty: the reply for the calendar declines for Milo."""
    _decline()
    _tell(reply=REPLY.replace("dana@", "milo@"))


def retries():
    """Faulty: sends the answer again, because the server seemed slow."""
    _decline()
    _tell()
    _tell()
    _report(told=2)


def to_all():
    """Faulty: Milo reads the reason too."""
    _decline()
    letter = _letter()
    letter["Cc"] = "milo@brightwater.example"
    office.send(letter)
    _report(told=2)
