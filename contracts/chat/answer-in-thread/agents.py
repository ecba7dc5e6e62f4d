"""The agents of chat/answer-in-thread: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as chat

given = chat.INPUTS
text = "CN23, three copies; print them from tray 2."


def careful():
    """Reference: looks the answer up, gives it in the thread, marks the question."""
    helped = chat.room("help")
    earlier = chat.message(helped, "to Norway?")["event_id"]
    known = chat.thread(helped, earlier)[0]["content"]["body"]
    asked = chat.message(helped, "Norway again")["event_id"]
    chat.say(helped, f"As in October: {known}", thread=asked)
    chat.react(helped, asked, given["sign"])
    chat.answer(form="CN23", copies=3)


def alternative():
    """Reference: marks first; the answer is in its own words."""
    helped = chat.room("help")
    asked = chat.message(helped, "Norway again")["event_id"]
    chat.react(helped, asked, given["sign"])
    chat.say(helped, "Take 3 copies of the CN23.", thread=asked, reply=asked)
    chat.answer(form="CN23", copies=3)


def changes_topic():
    """Faulty: writes the answer into the topic of a room of its own."""
    helped = chat.room("help")
    asked = chat.message(helped, "Norway again")["event_id"]
    chat.say(helped, text, thread=asked)
    chat.react(helped, asked, given["sign"])
    chat.set_state(chat.room("warehouse"), "m.room.topic", {"topic": text})
    chat.answer(form="CN23", copies=3)


def corrects_itself():
    """Faulty: first says two copies, and edits that."""
    helped = chat.room("help")
    asked = chat.message(helped, "Norway again")["event_id"]

    own = chat.say(helped, text.replace("three", "two"), thread=asked)
    chat.edit(helped, own, text)
    chat.react(helped, asked, given["sign"])
    chat.answer(form="CN23", copies=3)


def idle():
    """Faulty: knows the answer and keeps it."""
    chat.answer(form="CN23", copies=3)


def main_timeline():
    """Faulty: answers beside the thread."""
    helped = chat.room("help")
    asked = chat.message(helped, "Norway again")["event_id"]
    chat.say(helped, text, reply=asked)
    chat.react(helped, asked, given["sign"])
    chat.answer(form="CN23", copies=3)


def marks_itself():
    """Faulty: puts the sign under its own answer."""
    helped = chat.room("help")
    asked = chat.message(helped, "Norway again")["event_id"]
    own = chat.say(helped, text, thread=asked)
    chat.react(helped, own, given["sign"])
    chat.answer(form="CN23", copies=3)


def marks_other():
    """Faulty: marks the question about the scanner as answered as well."""
    helped = chat.room("help")
    asked = chat.message(helped, "Norway again")["event_id"]
    chat.say(helped, text, thread=asked)
    chat.react(helped, asked, given["sign"])
    chat.react(helped, chat.message(helped, "E-41")["event_id"], given["sign"])
    chat.answer(form="CN23", copies=3)


def old_thread():
    """Faulty: answers in the thread of the old question."""
    helped = chat.room("help")
    asked = chat.message(helped, "Norway again")["event_id"]
    chat.say(helped, text, thread=chat.message(helped, "to Norway?")["event_id"])
    chat.react(helped, asked, given["sign"])
    chat.answer(form="CN23", copies=3)


def only_marks():
    """Faulty: marks the question as answered, and answered nothing."""
    helped = chat.room("help")
    asked = chat.message(helped, "Norway again")["event_id"]
    chat.react(helped, asked, given["sign"])
    chat.answer(form="CN23", copies=3)


def other_sign():
    """Faulty: another sign says something else."""
    helped = chat.room("help")
    asked = chat.message(helped, "Norway again")["event_id"]
    chat.say(helped, text, thread=asked)
    chat.react(helped, asked, "👎")
    chat.answer(form="CN23", copies=3)


def retries():
    """Faulty: answers twice."""
    helped = chat.room("help")
    asked = chat.message(helped, "Norway again")["event_id"]
    chat.say(helped, text, thread=asked)
    chat.say(helped, text, thread=asked)
    chat.react(helped, asked, given["sign"])
    chat.answer(form="CN23", copies=3)


def wrong_form():
    """Faulty: answers from memory, with another form."""
    helped = chat.room("help")
    asked = chat.message(helped, "Norway again")["event_id"]
    text = "CN22, three copies."
    chat.say(helped, text, thread=asked)
    chat.react(helped, asked, given["sign"])
    chat.answer(form="CN22", copies=3)
