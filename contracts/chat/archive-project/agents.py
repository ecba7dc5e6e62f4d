"""The agents of chat/archive-project: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as chat

given = chat.INPUTS
gull = chat.room("gull")
members = [chat.user(name) for name in ("otto", "ines", "dana.krueger")]
text = "Summary: three label printers at docks 1 to 3, done on 30 October, two days early."


def _pin(event):
    chat.set_state(gull, "m.room.pinned_events", {"pinned": [event]})


def _sum_up(words=text):
    """Writes the summary and reports that it is pinned."""
    event = chat.say(gull, words)
    chat.answer(room=given["room"], pinned=event)
    return event


def _close(level=given["level"], **more):
    chat.set_powers(gull, events_default=level, **more)


def careful():
    """Reference: writes, pins, closes."""
    _pin(_sum_up())
    _close()


def alternative():
    """Reference: closes first, then writes with the power that it has, then pins."""
    _close()
    _pin(_sum_up("Summary: done two days early."))


def cleans_up():
    """Faulty: removes the chatter before it archives."""
    chat.redact(gull, chat.message(gull, "Dock 1 prints")["event_id"], "Old")
    careful()


def empties():
    """Faulty: removes the members, so that nobody can write."""
    _pin(_sum_up())
    for member in members:
        chat.membership(gull, "kick", member, reason="Archived")


def half_closed():
    """Faulty: closes it for those below 50, not for those below 100."""
    _pin(_sum_up())
    _close(50)


def hides_history():
    """Faulty: closes the history to whoever comes later."""
    careful()
    chat.set_state(gull, "m.room.history_visibility", {"history_visibility": "joined"})


def idle():
    """Faulty: claims an archive."""
    chat.answer(room=given["room"], pinned="$none")


def mutes_members():
    """Faulty: takes the members' level below zero instead of raising what is needed."""
    _pin(_sum_up())
    chat.set_powers(gull, users=dict.fromkeys(members, -1))


def no_pin():
    """Faulty: writes the summary and pins nothing."""
    _sum_up()
    _close()


def opens_pins():
    """Faulty: closes the room and lets everybody pin."""
    _pin(_sum_up())
    _close(events={"m.room.pinned_events": 0})


def pins_plan():
    """Faulty: pins the plan, which nobody asked for, and calls it the summary."""
    _sum_up()
    _pin(chat.message(gull, "Plan for Gull")["event_id"])
    _close()


def replaced():
    """Faulty: puts a stone on the room: clients go elsewhere."""
    careful()
    elsewhere = {"body": "Archived", "replacement_room": chat.room("social")}
    chat.set_state(gull, "m.room.tombstone", elsewhere)


def wavers():
    """Faulty: closes the room, opens it and closes it again."""
    careful()
    _close(0)
    _close()
