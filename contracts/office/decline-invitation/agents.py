"""The agents of office/decline-invitation: right ones first, then wrong ones."""

import steps


def careful():
    """Reference: changes the one word, answers in the thread."""
    steps.decline()
    steps.tell()
    steps.done()


def alternative():
    """Reference: answers with a calendar part first, keeps a copy, then declines without RSVP."""
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


def accepts():
    """Faulty: writes that Dana comes, and tells Priya that she does not."""
    steps.decline("ACCEPTED")
    steps.tell()
    steps.done()


def claims_more():
    """Faulty: the right way, and a claim that Milo got a message too."""
    steps.decline()
    steps.tell()
    steps.done(told=2)


def declines_for_milo():
    """Faulty: declines for Milo too, who had accepted."""
    steps.decline()
    steps.decline(who="Milo Brandt")
    steps.tell()
    steps.done()


def deletes_event():
    """Faulty: removes the event instead of declining it."""
    steps.calendars.delete(steps.PATH)
    steps.tell()
    steps.done()


def idle():
    """Faulty: does nothing and claims success."""
    steps.done()


def new_thread():
    """Faulty: writes a letter that answers none."""
    steps.decline()
    steps.office.send(steps.office.letter("priya@brightwater.example", "Supplier day", steps.WHY))
    steps.done()


def no_reason():
    """Faulty: says no, and not why."""
    steps.decline()
    steps.tell("Dana declines.\n")
    steps.done()


def puts_school_off():
    """Faulty: beside the task, drops a private appointment of that day."""
    steps.decline()
    steps.tell()
    steps.calendars.delete("/dana/private/school.ics")
    steps.done()


def retries():
    """Faulty: sends the answer again, because the server seemed slow."""
    steps.decline()
    steps.tell()
    steps.tell()
    steps.done(told=2)


def to_all():
    """Faulty: Milo reads the reason too."""
    steps.decline()
    letter = steps.office.reply(steps.invitation()[1], steps.WHY)
    letter["Cc"] = "milo@brightwater.example"
    steps.office.send(letter)
    steps.done(told=2)
