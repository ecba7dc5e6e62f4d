"""The parts of the right way, and what agents of this task do wrong with them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as office

PATH = "/dana/work/quarterly-review.ics"
PEOPLE = (
    "milo@brightwater.example",
    "priya@brightwater.example",
    "tomas@lindqvist-lighting.example",
)
NEWS = "The quarterly review is on Thursday, 12 March, at 14:00, in the Spree room.\n\nDana\n"
calendars, mailbox = office.Calendars(), office.Mailbox()


def move(day: str = "20260312", path: str = PATH) -> None:
    """The event is on that day."""
    text = calendars.get(path).replace("20260311T", f"{day}T")
    calendars.put(path, text.replace("SEQUENCE:1", "SEQUENCE:2"))


def tell(*people: str, news: str = NEWS) -> None:
    """They all got one letter."""
    office.send(office.letter(", ".join(people), "Quarterly review moved", news))
