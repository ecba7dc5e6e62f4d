"""An agent's mail, answer and trace: environment variables say where each of them goes."""

import json
import os
import smtplib
from email.message import EmailMessage
from pathlib import Path


def letter(sender: str, to: str, subject: str, body: str) -> EmailMessage:
    """A message of plain text."""
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = sender, to, subject
    message.set_content(body)
    return message


def deliver(message: EmailMessage, *to: str) -> None:
    """Delivers a message over SMTP: to these addresses, else to those in its headers."""
    host, _, port = os.environ["STATEDIFF_OUTBOX_URL"].removeprefix("smtp://").partition(":")
    with smtplib.SMTP(host, int(port), timeout=10) as server:
        server.send_message(message, to_addrs=to or None)


def answer(**names: object) -> None:
    """Hands in the answer."""
    Path(os.environ["STATEDIFF_ANSWER"]).write_text(json.dumps(names), encoding="utf-8")


def log(tool: str, action_class: str, arguments: dict[str, object], **more: object) -> None:
    """One line in the trace."""
    line = {"tool": tool, "class": action_class, "arguments": arguments, **more}
    with Path(os.environ["STATEDIFF_TRACE"]).open("a", encoding="utf-8") as trace:
        trace.write(json.dumps(line, default=str) + "\n")
