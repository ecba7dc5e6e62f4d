"""Tools: a name, a typed form of the arguments, a class, and an act.

A tool's arguments are a document from outside, so they are a pydantic model: strict, closed, with a
JSON Schema that any client understands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from pydantic import BaseModel, ConfigDict

from statediff.model.trace import ActionClass, Mark

MAX_TEXT: Final = 256 * 1024
"""Characters that one text of a call may have."""
MAX_RESULT_BYTES: Final = 60 * 1024
"""The most bytes of a result as JSON, so that it is recorded whole; of a longer one the agent gets
the beginning only, and the answer says so.
"""
MAX_SECONDS: Final = 20.0
"""How long a system may take to answer one call."""


class Arguments(BaseModel):
    """The arguments of a call: nothing unknown, nothing converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ToolError(Exception):
    """The call did not do what it was asked to; the agent reads why and may try another."""


@dataclass(frozen=True)
class Done:
    """The return of an act that knows more of its effects than its result."""

    result: Any
    marks: tuple[Mark, ...] | None = None
    """All transactions that it made; None where that is not known."""
    action_class: ActionClass | None = None
    """None: what the tool says."""


Taken = TypeVar("Taken", bound=Arguments)


@dataclass(frozen=True)
class Tool(Generic[Taken]):
    """One thing that an agent may do to one system."""

    name: str
    description: str
    arguments: type[Taken]
    act: Callable[[Taken], Any]
    """Does it, and returns what the agent is given: plain JSON, or `Done`. Else `ToolError`."""
    action_class: ActionClass | Callable[[Taken], ActionClass] = ActionClass.UNKNOWN

    principal: str | None = None
    """The account with which the system sees it; None where the system knows none."""
    is_harmless: bool = False
    """The system itself lets it change nothing: a call that succeeded is a read."""
    is_one_step: bool = False
    """A call undoes nothing of its own and leaves nothing at work: what is there after it is all
    that it did."""
    is_talk: bool = False
    """It reaches no system: what is said by it is recorded as a reply, and not as a call."""

    def class_of(self, taken: Taken) -> ActionClass:
        """The class of one call."""
        found = self.action_class
        return found if isinstance(found, ActionClass) else found(taken)

    def schema(self) -> Mapping[str, Any]:
        """The JSON Schema of its arguments."""
        return self.arguments.model_json_schema()


def tool_name(source: str, verb: str) -> str:
    """How a tool is called, in letters that every client takes: `shop-db` → `shop_db_query`."""
    stem = re.sub(r"[^A-Za-z0-9]", "_", source)[: 63 - len(verb)]
    return f"{stem}_{verb}"


def url_variable(source: str) -> str:
    """The variable that says where a source is: `shop-db` → `STATEDIFF_SHOP_DB_URL`."""
    return f"STATEDIFF_{re.sub(r'[^A-Z0-9]', '_', source.upper())}_URL"
