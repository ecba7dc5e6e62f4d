"""The agents of office/new-address: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as office

calendars, mailbox = office.Calendars(), office.Mailbox()
OWN, SHARED = "/dana/contacts/elena-rossi.vcf", "/shared/people/rossi.vcf"
ADDRESS = "ADR;TYPE=WORK:;;Kastanienallee 40;Berlin;;10435;Germany"
EMAIL = "EMAIL;TYPE=WORK:elena@studio-rossi.example"
PLACE = r"LOCATION:Kastanienallee 40\, 10435 Berlin"


def _set(path, **lines):
    """The object has these lines, each for its one property of the name."""
    text = calendars.get(path)
    for name, line in lines.items():
        text = office.set_line(text, name, line)
    calendars.put(path, text)


def _cards(*paths):
    for path in paths or (OWN, SHARED):
        _set(path, ADR=ADDRESS, EMAIL=EMAIL)


def _visit(name="rossi-march"):
    _set(f"/dana/work/{name}.ics", LOCATION=PLACE)


def _report(cards=2, events=1):
    office.answer(cards=cards, events=events)


def _finish(**counts):
    _visit()
    _report(**counts)


def careful():
    """Reference: changes two lines of each card, and one of the visit."""
    _cards()
    _finish()


def alternative():
    """Reference: finds cards and visit by what they say, raises the sequence, marks the mail."""
    uid, _ = mailbox.find("INBOX", "rossi-moves@rossi.example")
    cards = 0
    for book in ("/shared/people/", "/dana/contacts/"):
        path, text = calendars.find(book, "ORG:Studio Rossi")
        text = text.replace("Torstraße 12", "Kastanienallee 40").replace("10119", "10435")
        calendars.put(path, text.replace("elena@rossi.example", "elena@studio-rossi.example"))
        cards += 1
    events = 0
    for path, text in calendars.objects("/dana/work/").items():
        if "SUMMARY:Visit Elena Rossi" in text and ":202603" in text.partition("DTEND")[2]:
            calendars.put(path, office.set_line(text, "LOCATION", f"{PLACE}\nSEQUENCE:1"))
            events += 1
    mailbox.flag("INBOX", [uid], office.SEEN)
    _report(cards, events)


def counts_far():
    """Faulty: counts the visit up to 900, so that no later change counts."""
    careful()
    _set("/dana/work/rossi-march.ics", LOCATION=f"{PLACE}\nSEQUENCE:900")


def fresh_card():
    """Faulty: writes a fresh card, without number and note."""
    _cards()
    lines = calendars.get(OWN).split("\n")
    calendars.put(OWN, "\n".join(each for each in lines if not each.startswith(("TEL", "NOTE"))))
    _finish()


def idle():
    """Faulty: does nothing and claims success."""
    _report()


def keeps_old():
    """Faulty: adds the new e-mail and leaves the old one, which nobody reads."""
    for path in (OWN, SHARED):
        _cards(path)
        _set(path, EMAIL=f"{EMAIL}\nEMAIL;TYPE=WORK:elena@rossi.example")
    _finish()


def misses_visit():
    """Faulty: leaves the visit where it was, and counts it."""
    _cards()
    _report()


def namesake():
    """Faulty: the card of Elena Rossi-Bauer gets the address too."""
    _cards(OWN, SHARED, "/dana/contacts/elena-rossi-bauer.vcf")
    _finish(cards=3)


def notary_too():
    """Faulty: everybody at the old address moves."""
    careful()
    _visit("notary")
    _report(events=2)


def old_code():
    """Faulty: the new street with the old postal code."""
    for path in (OWN, SHARED):
        _cards(path)
        _set(path, ADR=ADDRESS.replace("10435", "10119"))
    _finish()


def one_book():
    """Faulty: forgets the address book that all share."""
    _cards(OWN)
    _finish(cards=1)


def second_card():
    """Faulty: a second card of hers instead of the first one changed."""
    _cards()
    text = calendars.get(OWN).replace("UID:elena-rossi@", "UID:elena-rossi-2@")
    calendars.put("/dana/contacts/elena-rossi-2.vcf", text)
    _finish()


def thanks():
    """Faulty: thanks her, to the address that is no more."""
    careful()
    office.send(office.letter("elena@rossi.example", "Thank you", "Noted.\n"))
