"""The parts of the right way, and what agents of this task do wrong with them."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as office

PATH = "/dana/work/supplier-day.ics"
calendars, mailbox = office.Calendars(), office.Mailbox()
WHY = "Dana declines: she is in Hamburg on the 13th.\n"


def decline(status: str = "DECLINED", who: str = "Dana Okafor") -> None:
    """The one called so has this status."""
    text = calendars.get(PATH)
    old = re.search(rf"CN={who};PARTSTAT=([A-Z-]+)", text)
    assert old is not None
    calendars.put(PATH, text.replace(old[0], f"CN={who};PARTSTAT={status}"))


def invitation() -> tuple[int, office.EmailMessage]:
    """Priya's mail and its UID."""
    return mailbox.find("INBOX", "invite-supplier-day@brightwater.example")


def tell(body: str = WHY) -> office.EmailMessage:
    """Priya got an answer in her thread."""
    letter = office.reply(invitation()[1], body)
    office.send(letter)
    return letter


def done(told: int = 1, decision: str = "declined") -> None:
    """The answer is handed in."""
    office.answer(decision=decision, told=told)
