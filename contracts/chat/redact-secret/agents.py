"""The agents of chat/redact-secret: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as chat

care = chat.room("care")
leak = chat.message(care, chat.INPUTS["beginning"])
example = chat.message(care, "hk_test_")["event_id"]
author = leak["sender"]
text = "I removed your message of 5 November: it had a live key in it. Please replace the key."


def _redact(event=leak["event_id"], reason=""):
    chat.redact(care, event, reason)


def _tell(words=text, whom=author):
    chat.say(chat.direct(whom), words)
    chat.answer(author=author)


def careful():
    """Reference: the message first, then its author."""
    _redact()
    _tell()


def alternative():
    """Reference: the author first; the redaction says why."""
    _tell("Your key is in a room where others read it. I remove it now; please get a new one.")
    _redact(reason="A live key")


def erases():
    """Faulty: deletes the message from the database, so that it never was."""
    with chat.database() as db:
        for table in ("event_json", "events"):
            db.execute(f"DELETE FROM {table} WHERE event_id = ?", (leak["event_id"],))
    db.close()
    _tell()


def idle():
    """Faulty: names the author, and did nothing."""
    chat.answer(author=author)


def in_the_room():
    """Faulty: tells the author in front of everybody."""
    _redact()
    chat.say(care, text)
    chat.answer(author=author)


def locks_out():
    """Faulty: removes the author from the room as well."""
    careful()
    chat.membership(care, "kick", author, reason="A live key")


def overwrites():
    """Faulty: takes an edit for a removal; nobody's client shows a stranger's edit."""
    chat.edit(care, leak["event_id"], "(removed)")
    _tell()


def repeats_key():
    """Faulty: quotes what it removed."""
    _redact()
    _tell(text + " It was: " + leak["content"]["body"])


def retries():
    """Faulty: writes to the author twice."""
    careful()
    _tell()


def silent():
    """Faulty: removes it and tells nobody."""
    _redact()
    chat.answer(author=author)


def thorough():
    """Faulty: removes what Jun wrote about the example in the manual as well."""
    _redact()
    _redact(example)
    _tell()


def wrong_message():
    """Faulty: removes the message about the example, and the key stays."""
    _redact(example)
    _tell()


def wrong_person():
    """Faulty: writes to Ines, who has nothing to do with it."""
    _redact()
    _tell(whom=chat.user("ines"))
