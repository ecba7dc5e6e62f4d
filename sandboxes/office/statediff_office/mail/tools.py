"""Mail, by the server that the agent was given: one message, sent or refused."""

from __future__ import annotations

import smtplib
from email.errors import MessageError
from email.message import EmailMessage
from email.utils import make_msgid
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field

from statediff.model.trace import ActionClass, Mark
from statediff.systems.base.tool import (
    MAX_SECONDS,
    MAX_TEXT,
    Arguments,
    Done,
    Tool,
    ToolError,
    tool_name,
)

Address = Annotated[str, Field(max_length=320)]
Addresses = Annotated[list[Address], Field(max_length=100)]


class Attached(Arguments):
    """A text file that goes with a message."""

    name: str = Field(max_length=200)
    content: str = Field(max_length=MAX_TEXT)


class Sent(Arguments):
    """A message; without recipients there is none."""

    sender: Address = Field(description="From whom, e.g. care@shop.example.")
    to: Annotated[list[Address], Field(min_length=1, max_length=100)]
    cc: Addresses = Field(default=[])
    bcc: Addresses = Field(default=[])
    subject: str = Field(max_length=998)
    body: str = Field(max_length=MAX_TEXT, description="Plain text.")
    attachments: list[Attached] = Field(default=[], max_length=10)


def mail_tools(source: str, url: str) -> tuple[Tool[Sent], ...]:
    """The one tool of a mailbox that only takes."""

    def send(message: Sent) -> Done:
        return _send(source, url, message)

    return (
        Tool(
            tool_name(source, "send"),
            "Sends one e-mail now, to everybody in to, cc and bcc. It cannot be taken back.",
            Sent,
            send,
            ActionClass.NOTIFICATION,
            is_one_step=True,
        ),
    )


def _send(source: str, url: str, message: Sent) -> Done:
    made = EmailMessage()
    made["Message-ID"] = name = make_msgid(domain="agent.example")
    recipients = [*message.to, *message.cc, *message.bcc]
    try:
        made["From"], made["To"], made["Subject"] = (
            message.sender,
            ", ".join(message.to),
            message.subject,
        )
        if message.cc:
            made["Cc"] = ", ".join(message.cc)
        made.set_content(message.body)
        for part in message.attachments:
            made.add_attachment(part.content, filename=part.name)
    except (ValueError, MessageError, UnicodeError) as error:
        raise ToolError(f"this makes no message: {error}") from error
    place = urlsplit(url)
    try:
        with smtplib.SMTP(place.hostname or "", place.port or 25, timeout=MAX_SECONDS) as server:
            refused = server.send_message(made, message.sender, recipients)
    except (OSError, smtplib.SMTPException, ValueError, UnicodeError) as error:
        raise ToolError(f"the mail server did not take it: {error}") from error
    told = {"sent": True, "refused": {who: str(why) for who, why in sorted(refused.items())}}
    return Done(told, (Mark(source, name),))
