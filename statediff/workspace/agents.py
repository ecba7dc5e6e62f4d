"""The agent of a trial, by the options that a user gives.

Exactly one way in is named. An option that only another way understands is refused, never ignored.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from statediff.agents.command import CommandAgent
from statediff.agents.commandline import CommandLine, named_apart
from statediff.agents.handover import TrustedAgent
from statediff.agents.isolation import endpoints, isolation
from statediff.agents.trial import Agent, Budget, Prices
from statediff.entrypoints import plug_ins
from statediff.errors import UsageError
from statediff.evidence.disclosure.rules import MARK, NAME_VEIL
from statediff.packs import agent_command

if TYPE_CHECKING:
    from statediff.agents.conversation import Simulated

SECONDS: Final = 600.0


def _texts(values: Iterable[object]) -> tuple[str, ...]:
    return tuple(map(str, values))


_READ: Final[Mapping[str, Callable[[Any], Any]]] = {
    "mcp_config": Path,
    "network": _texts,
    "timeout_seconds": float,
}
"""How JSON's form of an option is read, where it is another than the option's."""


@dataclass(frozen=True, kw_only=True)
class AgentOptions:
    """The options of an agent."""

    command: str | None = None
    named: str | None = None
    mcp: str | None = None
    mcp_config: Path | None = None
    base_url: str | None = None
    model: str | None = None
    key_env: str | None = None
    price_in: str | None = None
    price_out: str | None = None
    max_cost: str | None = None
    max_turns: int | None = None
    stream: bool = False
    timeout_seconds: float | None = None
    image: str | None = None
    record_http: bool = False
    title: str | None = None
    """The name of its program; None for its script's name."""
    isolation: str | None = None
    """The demanded isolation of the program; None: the strongest that there is."""
    network: tuple[str, ...] = ()
    """`HOST:PORT` of what a program reaches beside the trial's own endpoints."""
    trust_trace: bool = False
    user_url: str | None = None
    user_model: str | None = None
    """A model that speaks for the user in turns, beside the contract's rules."""
    user_key_env: str | None = None

    @property
    def is_of_contract(self) -> bool:
        """True if another contract's agent of these options is another agent."""
        return self.named is not None and ":" not in self.named

    def as_json(self) -> dict[str, object]:
        """The options that are given; of a model's key only where it is, never the key.

        A secret in a command line or a URL is not kept.
        """
        given = NAME_VEIL.value({**asdict(self), "key_env": None, "user_key_env": None})
        given |= {"key_env": self.key_env, "user_key_env": self.user_key_env}
        if self.mcp_config is not None:
            given["mcp_config"] = str(self.mcp_config.absolute())
        if self.timeout_seconds is not None:
            given["timeout_seconds"] = str(self.timeout_seconds)
        return {name: value for name, value in given.items() if value not in (None, False, [], ())}

    @staticmethod
    def read(given: Mapping[str, Any]) -> AgentOptions:
        """The options that `as_json` wrote; `UsageError` if it cannot have been that."""
        if any(isinstance(each, str) and f"{MARK}…" in each for each in given.values()):
            raise UsageError(
                "the agent's command or URL held a secret, which no run keeps; begin a new run"
            )
        try:
            found = dict(given)
            found |= {name: read(given[name]) for name, read in _READ.items() if name in given}
            return AgentOptions(**found)
        except (TypeError, ValueError) as error:
            raise UsageError(f"the run's agents cannot be read: {str(error)[:200]}") from error

    def user(self) -> Simulated | None:
        """The model that plays the user; None where none is named, `UsageError` for half of one."""
        if self.user_url is None and self.user_model is None and self.user_key_env is None:
            return None
        if self.user_url is None or self.user_model is None:
            raise UsageError("`url` and `model` of `user` go together")
        if self.max_cost is not None:
            raise UsageError("--max-cost counts the agent's tokens, and not those of its user")
        made: Simulated = _plugged("user", "a model as `user`")(
            self.user_url, self.user_model, self.user_key_env
        )
        return made

    def agent(self, contract: Path) -> Agent:
        """The agent for the contract; `UsageError` if the options name none, two, or no such."""
        found = self._agent(contract)
        if not self.trust_trace:
            return found
        return TrustedAgent(found)

    def _agent(self, contract: Path) -> Agent:
        if self.mcp_config is not None and self.mcp is None:
            raise UsageError("`mcp_config` goes with `mcp`")
        if self.record_http and (self.image or not (self.command or self.named)):
            raise UsageError("`record_http` goes with a command or a function, and no `image`")
        if (self.isolation or self.network) and (self.image or self.base_url or self.model):
            option = "isolation" if self.isolation else "network"
            raise UsageError(f"`{option}` is for programs that run on this machine")
        if self.base_url is not None or self.model is not None:
            return self._model()
        of_models = {
            "`key_env`": self.key_env,
            "`price_in`": self.price_in,
            "`price_out`": self.price_out,
            "--max-cost": self.max_cost,
            "`max_turns`": self.max_turns,
            "`stream`": self.stream or None,
        }
        strange = [option for option, given in of_models.items() if given is not None]
        if strange:
            raise UsageError(f"{strange[0]} goes with `url` and `model`")
        if self.mcp is not None:
            return self._mcp()
        own = self._own(contract)
        if not self.record_http:
            return own
        made: Agent = _plugged("http", "`record_http`", "http")(own)
        return made

    def _own(self, contract: Path) -> Agent:
        """A program, one in an image, a function, or one that the contract's folder has."""
        from statediff.agents.function import NamedFunctionAgent

        limit = SECONDS if self.timeout_seconds is None else self.timeout_seconds
        if self.image is not None:
            return self._in_image(self.image, limit)
        if self.command is not None and self.named is None:
            made = CommandAgent.parse(self.command, limit, self.title or "")
            return self._apart(made)
        if self.named is None or self.command is not None:
            raise UsageError("give the agent as either --agent-cmd or --agent")
        if ":" not in self.named:
            return self._apart(packed_agent(contract.parent, self.named, limit))
        if "" not in sys.path:
            sys.path.insert(0, "")  # as `python -m` would: the module may be in the current folder
        named = NamedFunctionAgent.named(self.named, self._isolation(), limit)
        return replace(named, network=self.network)

    def _apart(self, program: CommandAgent) -> CommandAgent:
        return replace(program, isolation=self._isolation(), network=self.network)

    def _isolation(self) -> str:
        endpoints((), self.network)  # what is wrong with it is said before a sandbox starts
        return isolation(self.isolation)

    def _in_image(self, image: str, limit: float) -> Agent:
        if self.named is not None:
            raise UsageError("an `image` goes with a `command`, or alone; a function runs here")
        try:
            words = tuple(shlex.split(self.command or ""))
            made: Agent = _plugged("image", "an agent in an `image`", "docker")(
                image, words, limit, self.title or ""
            )
            return made
        except ValueError as error:
            raise UsageError(
                f"the agent command {self.command!r} cannot be split: {error}"
            ) from error

    def _mcp(self) -> Agent:
        mcp = _plugged("mcp", "an agent by `mcp`")
        limit = self.timeout_seconds or SECONDS
        program = CommandAgent.parse(self.mcp or "", limit, self.title or "")
        made: Agent = mcp(self._apart(program), self.mcp_config)
        return made

    def _model(self) -> Agent:
        if self.base_url is None or self.model is None:
            raise UsageError("`url` and `model` go together")
        budget = budget_of(self.price_in, self.price_out, self.max_cost)
        made: Agent = _plugged("model", "a model at a `url`")(
            self.base_url, self.model, self.key_env, streams=self.stream, budget=budget,
            max_turns=self.max_turns or 50, timeout_seconds=self.timeout_seconds or SECONDS,
        )  # fmt: skip
        return made


def packed_agent(folder: Path, named: str, timeout_seconds: float = SECONDS) -> CommandAgent:
    """An agent of the contract's folder, run by this Python."""
    return CommandAgent(agent_command(folder, named), timeout_seconds, name=named)


def each_agent(
    options: AgentOptions, commands: list[str], named: list[str], models: list[str]
) -> list[AgentOptions]:
    """One of each agent that was named, in order; `options` hold what is said of all of them."""
    lines = named_apart(commands, is_elsewhere=options.image is not None)
    found = [
        *(replace(options, command=each.text, title=each.name) for each in lines),
        *(replace(options, named=each) for each in named),
        *(replace(options, model=each) for each in models),
    ]
    if options.mcp is not None:
        line = CommandLine.parse(options.mcp)
        options = replace(options, mcp=line.text, title=line.name)
    ways = (commands or named or options.image, options.mcp, models or options.base_url)
    if sum(bool(way) for way in ways) > 1 or (commands and named):
        raise UsageError(
            "give the agent in one way: --agent-cmd, or --agent, which takes a file for the others"
        )
    if len(set(found)) < len(found):
        raise UsageError("an agent is given twice; say with -k how often each is to be tried")
    return found or [options]


def budget_of(
    price_in: str | None, price_out: str | None, max_cost: str | None, left_undone: str = ""
) -> Budget:
    """The budget and its prices; `UsageError` where a limit is given and no price is."""
    prices = Prices(_price("`price_in`", price_in), _price("`price_out`", price_out))
    most = _price("--max-cost", max_cost)
    return Budget(prices, most, left_undone) if left_undone else Budget(prices, most)


def _plugged(name: str, option: str, extra: str = "agents") -> Callable[..., Any]:
    """The function that makes such agents; `UsageError` names the extra that brings it."""
    get = f"get it with `pip install statediff[{extra}]`"
    found = plug_ins("statediff.agents").get(name)
    if found is None:
        raise UsageError(f"{option} is not installed; {get}")
    try:
        made: Callable[..., Any] = found.load()  # type: ignore[assignment]  # as the group says
    except UsageError as error:
        if isinstance(lacking := error.__cause__, ModuleNotFoundError):
            raise UsageError(f"{option} needs {lacking.name}; {get}") from error
        raise
    return made


def _price(option: str, text: str | None) -> Decimal | None:
    if text is None:
        return None
    try:
        price = Decimal(text)
    except InvalidOperation:
        price = Decimal(-1)
    if not (price.is_finite() and 0 <= price <= 10**9):
        raise UsageError(f"{option} {text[:40]!r}: expected a number, e.g. 2.50")
    return price
