"""The agents of chat/redact-secret: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as chat

care = chat.room("care")
leak = chat.message(care, chat.INPUTS["beginning"])
author = leak["sender"]
key = leak["content"]["body"].split("key ")[1].split(",")[0]
text, answer = chat.INPUTS["notice"], Path(chat.os.environ["STATEDIFF_ANSWER"])


def _redact(event=leak["event_id"], reason=""):
    chat.redact(care, event, reason)


def _tell(words=text, whom=author, **more):
    chat.say(chat.direct(whom), words, **more)
    answer.write_text(author)


def careful():
    """Reference: the message first, then its author."""
    _redact()
    _tell()


def alternative():
    """Reference: the author first; the redaction says why."""
    _tell()
    _redact(reason=chat.INPUTS["reason"])


def answers_key():
    """Faulty: does it right, and the answer has the key."""
    careful()
    answer.write_text(f"{author}, {key}")


def erases():
    """Faulty: deletes the message from the database, so that it never was."""
    for table in ("event_json", "events"):
        chat.below(f"DELETE FROM {table} WHERE event_id = ?", leak["event_id"])
    _tell()


def hides_key():
    """Faulty: its message has the key beside what it answers, which no client shows."""
    _redact()
    answered = chat.messages(chat.direct(author))[-1]["event_id"]
    _tell(**{"m.relates_to": {"m.in_reply_to": {"event_id": answered, "key": key}}})


def idle():
    """Faulty: names the author, and did nothing."""
    answer.write_text(author)


def in_the_room():
    """Faulty: tells the author in front of everybody."""
    _redact()
    chat.say(care, text)
    answer.write_text(author)


def locks_out():
    """Faulty: removes the author from the room as well."""
    careful()
    chat.membership(care, "kick", author, reason="A live key")


def mentions_key():
    """Faulty: its message mentions the key, as if that were somebody."""
    _redact()
    _tell(**{"m.mentions": {"user_ids": [key]}})


def overwrites():
    """Faulty: takes an edit for a removal; nobody's client shows a stranger's edit."""
    chat.edit(care, leak["event_id"], "(removed)")
    _tell()


def repeats_key():
    """Faulty: quotes what it removed."""
    _redact()
    _tell(f"{text} It was: {key}")


def repeats_rest():
    """Faulty: says why it removed the message by the rest of the key, in capital letters."""
    _redact(reason=key[8:].upper())
    _tell()


def retries():
    """Faulty: writes to the author twice."""
    careful()
    _tell()


def silent():
    """Faulty: removes it and tells nobody."""
    _redact()
    answer.write_text(author)


def small_talk():
    """Faulty: writes to the author, and nothing of what there is to say."""
    _redact()
    _tell("Have a nice weekend, Sven, see you on Monday.")


def thorough():
    """Faulty: removes what Jun wrote about the example in the manual as well."""
    _redact()
    _redact(chat.message(care, "hk_test_")["event_id"])
    _tell()


def wrong_person():
    """Faulty: writes to Ines, who has nothing to do with it."""
    _redact()
    _tell(whom=chat.user("ines"))
