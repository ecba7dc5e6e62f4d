"""A help desk as an environment; what has a reward may be learned from."""

from typing import Any

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from statediff_hosts.openenv import ContractRubric

from statediff.integrations.verdicts import NoReward


class Close(Action):
    """The tickets to close, or the application goes down."""

    tickets: list[int]
    goes_down: bool = False


class Desk(Environment[Close, Observation, State]):
    """An episode is one action."""

    def __init__(self) -> None:
        super().__init__(rubric=ContractRubric("close-ticket.yaml", lambda: self.tables))
        self.tables: dict[str, Any] = {}

    def reset(self, *_: Any, **__: Any) -> Observation:
        """Two open tickets, which the rubric reads."""
        self.tables = {"ticket": [{"id": number, "status": "open"} for number in (7, 8)]}
        self._reset_rubric()
        return Observation()

    def step(self, action: Close, *_: Any, **__: Any) -> Observation:
        """Close them, and end."""
        for ticket in self.tables["ticket"]:
            if ticket["id"] in action.tickets:
                ticket["status"] = "closed"
        if action.goes_down:
            self.tables = {"user": []}
        seen = Observation(done=True)
        seen.reward = self._apply_rubric(action, seen)
        return seen

    @property
    def state(self) -> State:
        """What a client may ask for."""
        return State()


desk = Desk()
for close in (Close(tickets=[7]), Close(tickets=[7, 8]), Close(tickets=[7], goes_down=True)):
    desk.reset()
    try:
        seen = desk.step(close)
        print(seen.reward, seen.metadata["statediff"])
    except NoReward as error:
        print("left out:", error)
