"""`user`: a model that speaks for the user in a conversation."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from statediff.errors import AdapterError
from statediff.model.trace import NoAnswer
from statediff.model.values import Value, printable, show
from statediff_hosts.protocols.chat import Endpoint, RequestRefused, endpoint_of

MAX_MESSAGE: Final = 20_000
"""Characters of a message of the user, and of what a simulated one is shown of a reply."""
DONE: Final = "DONE"
PLAYED: Final = (
    "You play a user who talks with an assistant. In this part of the conversation the user wants "
    "this and nothing else:\n\n{aim}\n\nAnswer the assistant's questions from that alone. Make "
    "nothing up, and do no work of the assistant's. Write the user's next message and nothing "
    "else. Where the assistant asks for nothing, write the single word DONE."
)


@dataclass(frozen=True)
class ModelUser:
    """A model that plays the user: it answers what the agent asks, and knows of no gate."""

    endpoint: Endpoint
    seconds: float = 120.0

    def answer(self, aim: str, said: Sequence[tuple[str, Value | NoAnswer]]) -> str | None:
        """The model's next message; None where it says that there is none."""
        messages = [{"role": "system", "content": PLAYED.format(aim=aim)}]
        for message, reply in said:
            heard = reply if isinstance(reply, str) else _text(reply)
            messages.append({"role": "assistant", "content": message})
            messages.append({"role": "user", "content": heard[:MAX_MESSAGE]})
        try:
            found = self.endpoint.ask(messages, (), time.monotonic() + self.seconds).text.strip()
        except RequestRefused as refused:
            raise AdapterError(f"the simulated user's server refuses it: {refused}") from refused
        is_over = not found or found.strip(".!\"' ").upper() == DONE
        return None if is_over else printable(found[:MAX_MESSAGE])


def _text(reply: Value | NoAnswer) -> str:
    return "(nothing)" if isinstance(reply, NoAnswer) else show(reply, limit=MAX_MESSAGE)


def model_user(base_url: str, model: str, key_env: str | None) -> ModelUser:
    """The model at the address, as the user; `UsageError` as of `endpoint_of`."""
    return ModelUser(endpoint_of(base_url, model, key_env))
