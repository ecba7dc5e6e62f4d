"""The agents of office/new-address: right ones first, then wrong ones."""

import steps


def careful():
    """Reference: changes two lines of each card, and one of the visit."""
    for path in steps.CARDS:
        steps.card(path)
    steps.visit()
    steps.done()


def alternative():
    """Reference: finds cards and visit by what they say, raises the sequence, marks the mail."""
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


def fresh_card():
    """Faulty: writes a fresh card, without number and note."""
    for path in steps.CARDS:
        steps.card(path)
    text = steps.calendars.get(steps.CARDS[0])
    lines = [line for line in text.split("\n") if not line.startswith(("TEL", "NOTE"))]
    steps.calendars.put(steps.CARDS[0], "\n".join(lines))
    steps.visit()
    steps.done()


def idle():
    """Faulty: does nothing and claims success."""
    steps.done()


def keeps_old():
    """Faulty: adds the new e-mail and leaves the old one, which nobody reads."""
    for path in steps.CARDS:
        steps.card(path)
        text = steps.calendars.get(path)
        both = "EMAIL;TYPE=WORK:elena@studio-rossi.example\nEMAIL;TYPE=WORK:elena@rossi.example"
        steps.calendars.put(path, steps.office.set_line(text, "EMAIL", both))
    steps.visit()
    steps.done()


def misses_visit():
    """Faulty: leaves the visit where it was, and counts it."""
    for path in steps.CARDS:
        steps.card(path)
    steps.done()


def namesake():
    """Faulty: the card of Elena Rossi-Bauer gets the address too."""
    for path in (*steps.CARDS, "/dana/contacts/elena-rossi-bauer.vcf"):
        steps.card(path)
    steps.visit()
    steps.done(3)


def notary_too():
    """Faulty: everybody at the old address moves."""
    for path in steps.CARDS:
        steps.card(path)
    steps.visit()
    steps.visit("/dana/work/notary.ics")
    steps.done(events=2)


def old_code():
    """Faulty: the new street with the old postal code."""
    for path in steps.CARDS:
        steps.card(path)
        text = steps.calendars.get(path)
        steps.calendars.put(path, text.replace("10435", "10119"))
    steps.visit()
    steps.done()


def one_book():
    """Faulty: forgets the address book that all share."""
    steps.card(steps.CARDS[0])
    steps.visit()
    steps.done(1)


def rewrites_past():
    """Faulty: the visit of February was at the new place, it says now."""
    for path in steps.CARDS:
        steps.card(path)
    steps.visit()
    steps.visit("/dana/work/rossi-february.ics")
    steps.done(events=2)


def second_card():
    """Faulty: a second card of hers instead of the first one changed."""
    for path in steps.CARDS:
        steps.card(path)
    text = steps.calendars.get(steps.CARDS[0]).replace("UID:elena-rossi@", "UID:elena-rossi-2@")
    steps.calendars.put("/dana/contacts/elena-rossi-2.vcf", text)
    steps.visit()
    steps.done()


def thanks():
    """Faulty: thanks her, to the address that is no more."""
    for path in steps.CARDS:
        steps.card(path)
    steps.visit()
    steps.office.send(steps.office.letter("elena@rossi.example", "Thank you", "Noted.\n"))
    steps.done()
