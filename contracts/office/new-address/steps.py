"""The parts of the right way, and what agents of this task do wrong with them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as office

calendars, mailbox = office.Calendars(), office.Mailbox()
CARDS = ("/dana/contacts/elena-rossi.vcf", "/shared/people/rossi.vcf")
VISIT = "/dana/work/rossi-march.ics"
PLACE = r"LOCATION:Kastanienallee 40\, 10435 Berlin"


def card(path: str) -> None:
    """The card has the new address and e-mail."""
    text = calendars.get(path)
    address = "ADR;TYPE=WORK:;;Kastanienallee 40;Berlin;;10435;Germany"
    email = "EMAIL;TYPE=WORK:elena@studio-rossi.example"
    text = office.set_line(text, "ADR", address)
    calendars.put(path, office.set_line(text, "EMAIL", email))


def visit(path: str = VISIT) -> None:
    """The visit is at the new place."""
    calendars.put(path, office.set_line(calendars.get(path), "LOCATION", PLACE))


def done(cards: int = 2, events: int = 1) -> None:
    """The answer is handed in."""
    office.answer(cards=cards, events=events)
