"""A help desk as a resources server of NeMo Gym, and three rollouts over HTTP."""

from typing import Any

from fastapi import Request
from fastapi.testclient import TestClient
from nemo_gym.base_resources_server import BaseResourcesServerConfig
from nemo_gym.config_types import BaseServerConfig
from nemo_gym.server_utils import SESSION_ID_KEY, ServerClient
from omegaconf import OmegaConf
from statediff_hosts.nemo_gym import ContractSeedRequest, ContractServer


class Desk(ContractServer):
    """Each session has two open tickets."""

    desks: dict[str, Any] = {}  # noqa: RUF012 - pydantic copies it

    def contract(self, body: ContractSeedRequest) -> str:
        """The same for every row."""
        return "close-ticket.yaml"

    def state(self, session_id: str) -> Any:
        """What the session's tickets are now."""
        return self.desks[session_id]

    def setup_webserver(self) -> Any:
        """The endpoints of NeMo Gym, and the tools that the model calls."""
        app = super().setup_webserver()
        app.post("/close")(self.close)
        app.post("/go_down")(self.go_down)
        return app

    async def seed_session(self, request: Request, body: ContractSeedRequest) -> Any:
        """The tickets are there before they are read."""
        tickets = [{"id": number, "status": "open"} for number in (7, 8)]
        self.desks[request.session[SESSION_ID_KEY]] = {"ticket": tickets}
        return await super().seed_session(request, body)

    async def close(self, request: Request, ticket: int) -> None:
        """One ticket."""
        for each in self.desks[request.session[SESSION_ID_KEY]]["ticket"]:
            each["status"] = "closed" if each["id"] == ticket else each["status"]

    async def go_down(self, request: Request) -> None:
        """The application restarts without its tickets."""
        self.desks[request.session[SESSION_ID_KEY]] = {"user": []}


config = BaseResourcesServerConfig(host="127.0.0.1", port=1, entrypoint="desk.py", name="desk")
head = ServerClient(
    head_server_config=BaseServerConfig(host="127.0.0.1", port=2),
    global_config_dict=OmegaConf.create({}),
)
app = Desk(config=config, server_client=head).setup_webserver()
asked: dict[str, Any] = {"responses_create_params": {"input": "Close ticket 7."}}
response = {
    "id": "1", "created_at": 0, "model": "scripted", "object": "response", "output": [],
    "parallel_tool_calls": False, "tool_choice": "auto", "tools": [],
}  # fmt: skip
for calls in (["/close?ticket=7"], ["/close?ticket=7", "/close?ticket=8"], ["/go_down"]):
    with TestClient(app) as client:
        client.post("/seed_session", json=asked).raise_for_status()
        for call in calls:
            client.post(call).raise_for_status()
        found = client.post("/verify", json={**asked, "response": response}).json()
    print(found["verdict"], found["reward"], found["reward_components"], found["mask_sample"])
    print(" ", found["failure_reason"])
