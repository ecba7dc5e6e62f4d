"""Faulty: invites, takes it back and invites again; the guest gets two invitations."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as chat

who = chat.INPUTS["who"]
space = chat.room("care-team")
state = chat.ask("GET", f"{chat.path(space)}/state")
rooms = [e["state_key"] for e in state if e["type"] == "m.space.child" and e["content"]]  # type: ignore[index]
for room in [space, *rooms]:
    chat.membership(room, "invite", who)

chat.membership(rooms[0], "kick", who)
chat.membership(rooms[0], "invite", who)
chat.answer(invited_to=len(rooms) + 1)
