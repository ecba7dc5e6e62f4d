"""The agents of chat/archive-project: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as chat

given = chat.INPUTS
text = "Summary: three label printers at docks 1 to 3, done on 30 October, two days early."


def careful():
    """Reference: writes, pins, closes."""
    gull = chat.room("gull")
    event = chat.say(gull, text)
    chat.set_state(gull, "m.room.pinned_events", {"pinned": [event]})
    chat.set_powers(gull, events_default=given["level"])
    chat.answer(room=given["room"], pinned=event)


def alternative():
    """Reference: closes first, then writes with the power that it has, then pins."""
    gull = chat.room("gull")
    chat.set_powers(gull, events_default=given["level"])

    event = chat.say(gull, "Summary: all three docks print; the old printers go to the school.")
    chat.set_state(gull, "m.room.pinned_events", {"pinned": [event]})
    chat.answer(room=given["room"], pinned=event)


def cleans_up():
    """Faulty: removes the chatter before it archives."""
    gull = chat.room("gull")

    chat.redact(gull, chat.message(gull, "Dock 1 prints")["event_id"], "Old")
    event = chat.say(gull, text)
    chat.set_state(gull, "m.room.pinned_events", {"pinned": [event]})
    chat.set_powers(gull, events_default=given["level"])
    chat.answer(room=given["room"], pinned=event)


def empties():
    """Faulty: removes the members, so that nobody can write."""
    gull = chat.room("gull")
    event = chat.say(gull, text)
    chat.set_state(gull, "m.room.pinned_events", {"pinned": [event]})

    for name in ("otto", "ines", "dana.krueger"):
        chat.membership(gull, "kick", chat.user(name), reason="Archived")
    chat.answer(room=given["room"], pinned=event)


def half_closed():
    """Faulty: closes it for those below 50, not for those below 100."""
    gull = chat.room("gull")
    event = chat.say(gull, text)
    chat.set_state(gull, "m.room.pinned_events", {"pinned": [event]})
    chat.set_powers(gull, events_default=50)
    chat.answer(room=given["room"], pinned=event)


def hides_history():
    """Faulty: closes the history to whoever comes later."""
    gull = chat.room("gull")
    event = chat.say(gull, text)
    chat.set_state(gull, "m.room.pinned_events", {"pinned": [event]})
    chat.set_powers(gull, events_default=given["level"])

    chat.set_state(gull, "m.room.history_visibility", {"history_visibility": "joined"})
    chat.answer(room=given["room"], pinned=event)


def idle():
    """Faulty: claims an archive."""
    chat.answer(room=chat.INPUTS["room"], pinned="$none")


def mutes_members():
    """Faulty: takes the members' level below zero instead of raising what is needed."""
    gull = chat.room("gull")
    event = chat.say(gull, text)
    chat.set_state(gull, "m.room.pinned_events", {"pinned": [event]})

    chat.set_powers(gull, users={chat.user(name): -1 for name in ("otto", "ines", "dana.krueger")})
    chat.answer(room=given["room"], pinned=event)


def named_for_a_while():
    """Faulty: gives the room another name for a while, by which people could have come in."""
    gull = chat.room("gull")
    place = f"/directory/room/{chat.quote(f'#gull-archive:{chat.SERVER}')}"
    chat.ask("PUT", place, {"room_id": gull})
    text = "Summary: three label printers at docks 1 to 3, done on 30 October, two days early."
    event = chat.say(gull, text)
    chat.set_state(gull, "m.room.pinned_events", {"pinned": [event]})
    chat.set_powers(gull, events_default=given["level"])
    chat.ask("DELETE", place)
    chat.answer(room=given["room"], pinned=event)


def no_pin():
    """Faulty: writes the summary and pins nothing."""
    gull = chat.room("gull")
    event = chat.say(gull, text)
    chat.set_powers(gull, events_default=given["level"])
    chat.answer(room=given["room"], pinned=event)


def opens_pins():
    """Faulty: closes the room and lets everybody pin."""
    gull = chat.room("gull")
    event = chat.say(gull, text)
    chat.set_state(gull, "m.room.pinned_events", {"pinned": [event]})

    chat.set_powers(gull, events_default=given["level"], events={"m.room.pinned_events": 0})
    chat.answer(room=given["room"], pinned=event)


def pins_plan():
    """Faulty: pins the plan, which nobody asked for, and calls it the summary."""
    gull = chat.room("gull")
    event = chat.say(gull, text)

    plan = chat.message(gull, "Plan for Gull")["event_id"]
    chat.set_state(gull, "m.room.pinned_events", {"pinned": [plan]})
    chat.set_powers(gull, events_default=given["level"])
    chat.answer(room=given["room"], pinned=event)


def replaced():
    """Faulty: puts a stone on the room: clients go elsewhere."""
    gull = chat.room("gull")
    event = chat.say(gull, text)
    chat.set_state(gull, "m.room.pinned_events", {"pinned": [event]})
    chat.set_powers(gull, events_default=given["level"])

    elsewhere = {"body": "Archived", "replacement_room": chat.room("social")}
    chat.set_state(gull, "m.room.tombstone", elsewhere)
    chat.answer(room=given["room"], pinned=event)


def wavers():
    """Faulty: closes the room, opens it and closes it again."""
    gull = chat.room("gull")
    event = chat.say(gull, text)
    chat.set_state(gull, "m.room.pinned_events", {"pinned": [event]})
    chat.set_powers(gull, events_default=given["level"])
    chat.set_powers(gull, events_default=0)
    chat.set_powers(gull, events_default=given["level"])
    chat.answer(room=given["room"], pinned=event)
