"""The agents of office/answer-in-thread: right ones first, then wrong ones."""

import sys
from email.utils import make_msgid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as office

QUESTION, TOMAS = "lamps-a3@lindqvist-lighting.example", "tomas@lindqvist-lighting.example"
WORDS = "12 March: four\nApril: two\n"
mailbox = office.Mailbox()


def _reply(question=QUESTION, words=WORDS):
    """An answer to that message of the inbox."""
    return office.reply(mailbox.find("INBOX", question)[1], words)


def _mark(question=QUESTION):
    """It is answered and seen, and reported."""
    uid, _ = mailbox.find("INBOX", question)
    mailbox.flag("INBOX", [uid], f"{office.SEEN} {office.ANSWERED}")
    _report(question)


def _keep(letter, question=QUESTION):
    """There is a copy, and the question is marked."""
    mailbox.keep("Sent", letter)
    _mark(question)


def _report(question=QUESTION):
    office.answer(in_reply_to=f"<{question}>")


def _send(letter, question=QUESTION):
    office.send(letter)
    _keep(letter, question)


def careful():
    """Reference: answers, keeps the copy, marks the question."""
    _send(_reply())


def alternative():
    """Reference: builds the heads itself, of today; keeps first, marks in two steps, sends last."""
    uid, asked = mailbox.find("INBOX", QUESTION)
    letter = office.letter(
        TOMAS,
        "Re: Pendant lamps",
        WORDS,
        Date=office.TODAY,
        In_Reply_To=asked["Message-ID"],
        References=f"{asked['References']} {asked['Message-ID']}",
        Message_ID=make_msgid(domain="brightwater.example"),
    )
    mailbox.keep("Sent", letter)
    mailbox.flag("INBOX", [uid], office.SEEN)
    mailbox.flag("INBOX", [uid], office.ANSWERED)
    office.send(letter)
    _report()


def elenas_copy():
    """Faulty: the copy says that Elena wrote it."""
    letter = _reply()
    office.send(letter)
    letter.replace_header("From", "elena@rossi.example")
    _keep(letter)


def idle():
    """Faulty: does nothing and claims success."""
    _report()


def no_copy():
    """Faulty: keeps no copy."""
    office.send(_reply())
    _mark()


def no_thread():
    """Faulty: a letter with the right subject that answers none."""
    _send(office.letter(TOMAS, "Re: Pendant lamps", WORDS))


def other_copy():
    """Faulty: the copy says something else than the letter."""
    office.send(_reply())
    _keep(_reply(words="12 March: two\nApril: four\n"))


def other_thread():
    """Faulty: answers the mail of Elena, whose subject is the same."""
    _send(_reply("lamps-b1@rossi.example"), "lamps-b1@rossi.example")


def retries():
    """Faulty: sends it again, because the server seemed slow."""
    letter = _reply()
    office.send(letter)
    _send(letter)


def sends_draft():
    """Faulty: sends the draft that lies there along."""
    careful()
    _, draft = mailbox.find("Drafts", "draft-fair@brightwater.example")
    office.send(draft)


def swaps():
    """Faulty: orders two now and four in April."""
    _send(_reply(words="12 March: two\nApril: four\n"))


def tells_elena():
    """Faulty: a blind copy goes to Elena."""
    letter = _reply()
    office.send(letter, [TOMAS, "elena@rossi.example"])
    _keep(letter)
