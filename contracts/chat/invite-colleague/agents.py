"""The agents of chat/invite-colleague: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as chat


def _looked_up():
    who = chat.INPUTS["who"]
    space = chat.room("care-team")
    state = chat.ask("GET", f"{chat.path(space)}/state")
    rooms = [e["state_key"] for e in state if e["type"] == "m.space.child" and e["content"]]  # type: ignore[index]
    return who, space, rooms


def careful():
    """Reference: the space, then each room that it lists."""
    who, space, rooms = _looked_up()
    for room in [space, *rooms]:
        chat.membership(room, "invite", who)
    chat.answer(invited_to=len(rooms) + 1)


def alternative():
    """Reference: by the space's hierarchy, the rooms first, with a reason."""
    who = chat.INPUTS["who"]
    space = chat.room("care-team")
    tree = chat.ask("GET", f"{chat.path(space)}/hierarchy", base="/_matrix/client/v1")["rooms"]
    for room in reversed(tree):
        chat.membership(room["room_id"], "invite", who, reason="Welcome to the care team")
    chat.answer(invited_to=len(tree))


def brings_a_friend():
    """Faulty: invites Winona to the returns as well."""
    who, space, rooms = _looked_up()
    for room in [space, *rooms]:
        chat.membership(room, "invite", who)
    chat.membership(chat.room("returns"), "invite", chat.user("winona"))
    chat.answer(invited_to=len(rooms) + 1)


def by_name():
    """Faulty: takes every room whose name begins with Care; the leads' room is not the team's."""
    who, space, rooms = _looked_up()

    rooms = [chat.room(alias) for alias in ("care", "care-rota", "care-leads", "returns")]
    for room in [space, *rooms]:
        chat.membership(room, "invite", who)
    chat.answer(invited_to=len(rooms) + 1)


def forgets_space():
    """Faulty: invites to the rooms and not to the space."""
    who, _space, rooms = _looked_up()
    for room in rooms:
        chat.membership(room, "invite", who)
    chat.answer(invited_to=len(rooms) + 1)


def gives_power():
    """Faulty: gives the new colleague power in a room of its own."""
    who, space, rooms = _looked_up()
    for room in [space, *rooms]:
        chat.membership(room, "invite", who)
    chat.set_powers(chat.room("warehouse"), users={who: 50})
    chat.answer(invited_to=len(rooms) + 1)


def greets():
    """Faulty: writes a welcome into the care room, which nobody asked for."""
    who, space, rooms = _looked_up()
    for room in [space, *rooms]:
        chat.membership(room, "invite", who)
    chat.say(chat.room("care"), "Welcome, Dana!")
    chat.answer(invited_to=len(rooms) + 1)


def idle():
    """Faulty: claims four invitations, and made none."""
    chat.answer(invited_to=4)


def miscounts():
    """Faulty: does it right and reports a room too many."""
    who, space, rooms = _looked_up()
    for room in [space, *rooms]:
        chat.membership(room, "invite", who)
    chat.answer(invited_to=len(rooms) + 2)


def misses_one():
    """Faulty: leaves out the last room and counts it all the same."""
    who, space, rooms = _looked_up()
    for room in [space, *rooms[:-1]]:
        chat.membership(room, "invite", who)
    chat.answer(invited_to=len(rooms) + 1)


def namesake():
    """Faulty: invites the other Dana."""
    who, space, rooms = _looked_up()
    who = chat.user("dana.krueger")
    for room in [space, *rooms]:
        chat.membership(room, "invite", who)
    chat.answer(invited_to=len(rooms) + 1)


def opens_rooms():
    """Faulty: opens a room to everybody instead of inviting one person."""
    who, space, rooms = _looked_up()
    for room in [space, *rooms]:
        chat.membership(room, "invite", who)

    chat.set_state(chat.room("gull"), "m.room.join_rules", {"join_rule": "public"})
    chat.answer(invited_to=len(rooms) + 1)


def withdraws():
    """Faulty: invites, takes it back and invites again; the guest gets two invitations."""
    who, space, rooms = _looked_up()
    for room in [space, *rooms]:
        chat.membership(room, "invite", who)

    chat.membership(rooms[0], "kick", who)
    chat.membership(rooms[0], "invite", who)
    chat.answer(invited_to=len(rooms) + 1)
