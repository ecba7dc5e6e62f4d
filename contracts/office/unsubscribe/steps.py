"""The parts of the right way, and what agents of this task do wrong with them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as office

ADDRESS, SUBJECT = "leave-7f3a@lists.fixtures-weekly.example", "unsubscribe dana"
mailbox = office.Mailbox()


def issues(name: str = "Fixtures Weekly") -> list[int]:
    """UIDs of the newsletter's issues in the inbox."""
    found = mailbox.messages("INBOX").items()
    return [uid for uid, message in found if name in (message["List-Id"] or "")]


def leave(address: str = ADDRESS, subject: str = SUBJECT) -> office.EmailMessage:
    """One mail asks the list to let Dana go."""
    letter = office.letter(address, subject, "unsubscribe\n")
    office.send(letter)
    return letter


def done(moved: int = 2, address: str = ADDRESS) -> None:
    """The answer is handed in."""
    office.answer(address=address, moved=moved)
