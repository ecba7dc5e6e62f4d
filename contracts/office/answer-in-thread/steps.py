"""The parts of the right way, and what agents of this task do wrong with them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as office

QUESTION = "lamps-a3@lindqvist-lighting.example"
WORDS = "Tomas, four on 12 March, please, and two in April.\n\nDana\n"
mailbox = office.Mailbox()


def write(question: str = QUESTION, words: str = WORDS) -> office.EmailMessage:
    """An answer to that message of the inbox."""
    return office.reply(mailbox.find("INBOX", question)[1], words)


def keep(letter: office.EmailMessage) -> None:
    """There is a copy, and the question is marked."""
    mailbox.keep("Sent", letter)
    mark()


def mark(question: str = QUESTION) -> None:
    """It is answered and seen."""
    uid, _ = mailbox.find("INBOX", question)
    mailbox.flag("INBOX", [uid], f"{office.SEEN} {office.ANSWERED}")


def done(question: str = QUESTION) -> None:
    """The answer is handed in."""
    office.answer(in_reply_to=f"<{question}>")
