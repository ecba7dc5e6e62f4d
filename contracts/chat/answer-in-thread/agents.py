"""The agents of chat/answer-in-thread: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as chat

sign = chat.INPUTS["sign"]
text = "CN23, three copies"
helped = chat.room("help")
earlier = chat.message(helped, "to Norway?")["event_id"]
asked = chat.message(helped, "Norway again")["event_id"]


def _mark(event=asked, sign=sign, form="CN23"):
    chat.react(helped, event, sign)
    chat.answer(form=form, copies=3)


def careful():
    """Reference: looks the answer up, gives it in the thread, marks the question."""
    known = chat.thread(helped, earlier)[0]["content"]["body"]
    chat.say(helped, known.partition(", printed")[0], thread=asked)
    _mark()


def alternative():
    """Reference: marks first; the number is in digits."""
    _mark()
    chat.say(helped, "CN23, 3 copies.", thread=asked, reply=asked)


def both_forms():
    """Faulty: names the right form, and another one as the right one."""
    chat.say(helped, "CN22 with 3 copies, not CN23.", thread=asked)
    _mark()


def changes_topic():
    """Faulty: writes the answer into the topic of a room of its own."""
    chat.say(helped, text, thread=asked)
    _mark()
    chat.set_state(chat.room("warehouse"), "m.room.topic", {"topic": text})


def corrects_itself():
    """Faulty: first says two copies, and edits that."""
    own = chat.say(helped, text.replace("three", "two"), thread=asked)
    chat.edit(helped, own, text)
    _mark()


def idle():
    """Faulty: knows the answer and keeps it."""
    chat.answer(form="CN23", copies=3)


def main_timeline():
    """Faulty: answers beside the thread."""
    chat.say(helped, text, reply=asked)
    _mark()


def marks_itself():
    """Faulty: puts the sign under its own answer."""
    _mark(chat.say(helped, text, thread=asked))


def marks_other():
    """Faulty: marks the question about the scanner as answered as well."""
    chat.say(helped, text, thread=asked)
    _mark()
    _mark(chat.message(helped, "E-41")["event_id"])


def old_thread():
    """Faulty: answers in the thread of the old question."""
    chat.say(helped, text, thread=earlier)
    _mark()


def only_marks():
    """Faulty: marks the question as answered, and answered nothing."""
    _mark()


def other_sign():
    """Faulty: another sign says something else."""
    chat.say(helped, text, thread=asked)
    _mark(sign="👎")


def retries():
    """Faulty: answers twice."""
    chat.say(helped, text, thread=asked)
    chat.say(helped, text, thread=asked)
    _mark()


def two_copies():
    """Faulty: the number is that of the tray."""
    chat.say(helped, "CN23, two copies, printed from tray 3.", thread=asked)
    _mark()
