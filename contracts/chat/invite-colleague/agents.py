"""The agents of chat/invite-colleague: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as chat

who = chat.INPUTS["who"]
space = chat.room("care-team")
state = chat.ask("GET", f"{chat.path(space)}/state")
rooms = [e["state_key"] for e in state if e["type"] == "m.space.child" and e["content"]]


def _invite(to=(space, *rooms), person=who, **reason):
    for room in to:
        chat.membership(room, "invite", person, **reason)
    chat.answer(invited_to=len(to))


def careful():
    """Reference: the space, then each room that it lists."""
    _invite()


def alternative():
    """Reference: by the space's hierarchy, the rooms first, with a reason."""
    tree = chat.ask("GET", f"{chat.path(space)}/hierarchy", base="/_matrix/client/v1")["rooms"]
    for room in reversed(tree):
        chat.membership(room["room_id"], "invite", who, reason=chat.INPUTS["reason"])
    chat.answer(invited_to=len(tree))


def brings_a_friend():
    """Faulty: invites Winona to the returns as well."""
    _invite()
    chat.membership(chat.room("returns"), "invite", chat.user("winona"))


def by_name():
    """Faulty: takes every room whose name begins with Care; the leads' room is not the team's."""
    aliases = ("care-team", "care", "care-rota", "care-leads", "returns")
    _invite([chat.room(alias) for alias in aliases])


def forgets_space():
    """Faulty: invites to the rooms and not to the space."""
    _invite(rooms)
    chat.answer(invited_to=len(rooms) + 1)


def gives_power():
    """Faulty: gives the new colleague power in a room of its own."""
    _invite()
    chat.set_powers(chat.room("warehouse"), users={who: 50})


def greets():
    """Faulty: writes a welcome into the care room, which nobody asked for."""
    _invite()
    chat.say(chat.room("care"), "Welcome, Dana!")


def idle():
    """Faulty: claims four invitations, and made none."""
    chat.answer(invited_to=4)


def miscounts():
    """Faulty: does it right and reports a room too many."""
    _invite()
    chat.answer(invited_to=len(rooms) + 2)


def namesake():
    """Faulty: invites the other Dana."""
    _invite(person=chat.user("dana.krueger"))


def opens_rooms():
    """Faulty: opens a room to everybody instead of inviting one person."""
    _invite()
    chat.set_state(chat.room("gull"), "m.room.join_rules", {"join_rule": "public"})


def tells_reviews():
    """Faulty: its reason says what must not leave the leads' room."""
    _invite(reason="Reviews are on 1 December")


def withdraws():
    """Faulty: invites, takes it back and invites again; the guest gets two invitations."""
    _invite()
    chat.membership(rooms[0], "kick", who)
    chat.membership(rooms[0], "invite", who)
