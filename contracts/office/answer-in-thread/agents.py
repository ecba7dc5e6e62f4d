"""The agents of office/answer-in-thread: right ones first, then wrong ones."""

from email.utils import make_msgid

import steps


def careful():
    """Reference: answers, keeps the copy, marks the question."""
    letter = steps.write()
    steps.office.send(letter)
    steps.keep(letter)
    steps.done()


def alternative():
    """Reference: builds the heads itself, keeps first, marks in two steps, sends last."""
    office, mailbox = steps.office, steps.mailbox
    uid, asked = mailbox.find("INBOX", steps.QUESTION)
    letter = office.letter(
        "tomas@lindqvist-lighting.example",
        "Re: Pendant lamps",
        "Dear Tomas,\n\nfour now, on the 12th, then two in April.\n",
        In_Reply_To=asked["Message-ID"],
        References=f"{asked['References']} {asked['Message-ID']}",
        Message_ID=make_msgid(domain="brightwater.example"),
    )
    mailbox.keep("Sent", letter)
    mailbox.flag("INBOX", [uid], office.ANSWERED)
    mailbox.flag("INBOX", [uid], office.SEEN)
    office.send(letter)
    steps.done()


def copy_unsent():
    """Faulty: keeps a copy in Sent of what was never sent."""
    steps.keep(steps.write())
    steps.done()


def idle():
    """Faulty: does nothing and claims success."""
    steps.done()


def no_copy():
    """Faulty: keeps no copy."""
    steps.office.send(steps.write())
    steps.mark()
    steps.done()


def no_thread():
    """Faulty: a letter with the right subject that answers none."""
    letter = steps.office.letter(
        "tomas@lindqvist-lighting.example", "Re: Pendant lamps", steps.WORDS
    )
    steps.office.send(letter)
    steps.keep(letter)
    steps.done()


def older_mail():
    """Faulty: answers the first mail of the thread, which is answered already."""
    letter = steps.write("lamps-a1@lindqvist-lighting.example")
    steps.office.send(letter)
    steps.keep(letter)
    steps.done()


def other_copy():
    """Faulty: the copy says something else than the letter."""
    steps.office.send(steps.write())
    steps.keep(steps.write(words="Tomas, two on 12 March, please, and four in April.\n"))
    steps.done()


def other_thread():
    """Faulty: answers the mail of Elena, whose subject is the same."""
    other = "lamps-b1@rossi.example"
    letter = steps.write(other)
    steps.office.send(letter)
    steps.mailbox.keep("Sent", letter)
    steps.mark(other)
    steps.done(other)


def retries():
    """Faulty: sends it again, because the server seemed slow."""
    letter = steps.write()
    steps.office.send(letter)
    steps.office.send(letter)
    steps.keep(letter)
    steps.done()


def sends_draft():
    """Faulty: sends the draft that lies there along."""
    letter = steps.write()
    steps.office.send(letter)
    steps.keep(letter)
    _, draft = steps.mailbox.find("Drafts", "draft-fair@brightwater.example")
    steps.office.send(draft)
    steps.done()


def tells_elena():
    """Faulty: a blind copy goes to Elena."""
    letter = steps.write()
    people = ["tomas@lindqvist-lighting.example", "elena@rossi.example"]
    steps.office.send(letter, people)
    steps.keep(letter)
    steps.done()
