"""NeMo Gym: a resources server whose reward is the verdict of a contract.

    class Desk(ContractServer):
        def contract(self, body): return "close-ticket.yaml"
        def state(self, session_id): return self.desks[session_id]

        async def seed_session(self, request, body):
            self.desks[request.session[SESSION_ID_KEY]] = …
            return await super().seed_session(request, body)

The state before is read at the end of `seed_session`, that after in `verify`. MATCH has the reward
1.0 and DIVERGE 0.0. NeMo Gym knows no missing reward: an INCONCLUSIVE rollout says `mask_sample`
and its `failure_reason`, and the number beside them means nothing.
"""

from abc import abstractmethod
from typing import Any

from anyio import to_thread
from fastapi import Request
from nemo_gym.base_resources_server import (
    BaseSeedSessionRequest,
    BaseSeedSessionResponse,
    BaseVerifyRequest,
    BaseVerifyResponse,
    SimpleResourcesServer,
)
from nemo_gym.server_utils import SESSION_ID_KEY
from pydantic import ConfigDict, PrivateAttr

from statediff.errors import UsageError
from statediff.scoring import NOT_GIVEN, Judge


class ContractSeedRequest(BaseSeedSessionRequest):
    """A row of the data set, with whatever its environment needs."""

    model_config = ConfigDict(extra="allow")


class ContractVerifyRequest(BaseVerifyRequest):
    """The same row, with the model's response."""

    model_config = ConfigDict(extra="allow")


class ContractVerifyResponse(BaseVerifyResponse):
    """A reward, or the reason why the sample is masked."""

    model_config = ConfigDict(extra="allow")
    verdict: str
    mask_sample: bool
    failure_reason: str | None = None
    reward_components: dict[str, float]


class ContractServer(SimpleResourcesServer):
    """A resources server of yours with `contract` and `state`."""

    _judges: dict[str, Judge] = PrivateAttr(default_factory=dict)

    @abstractmethod
    def contract(self, body: ContractSeedRequest) -> Any:
        """The contract of a row: a path, a name, a text or one that was loaded."""

    @abstractmethod
    def state(self, session_id: str) -> Any:
        """The state of a session, as `statediff.judge` takes it."""

    def answer(self, body: ContractVerifyRequest) -> Any:
        """The agent's answer, as JSON; nothing unless a server says so."""
        return NOT_GIVEN

    async def seed_session(
        self, request: Request, body: ContractSeedRequest
    ) -> BaseSeedSessionResponse:
        session = request.session[SESSION_ID_KEY]
        judge = await to_thread.run_sync(Judge, self.contract(body), self.state(session))
        self._judges[session] = judge
        return BaseSeedSessionResponse()

    async def verify(self, request: Request, body: ContractVerifyRequest) -> ContractVerifyResponse:
        session = request.session[SESSION_ID_KEY]
        judge = self._judges.pop(session, None)
        if judge is None:
            raise UsageError("the session was not seeded, or is verified already")
        score = await judge.score_async(self.state(session), answer=self.answer(body))
        is_decided = score.reward is not None
        return ContractVerifyResponse(
            **body.model_dump(),
            reward=score.reward if is_decided else 0.0,
            verdict=score.verdict.value,
            mask_sample=not is_decided,
            failure_reason=None if is_decided else score.why,
            reward_components=dict(score.parts),
        )
