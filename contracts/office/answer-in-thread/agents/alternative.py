"""Reference: builds the heads itself, keeps first, marks in two steps, sends last."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from email.utils import make_msgid

import steps

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
