"""Every text of a run's calls, messages and values put through one function, the rest as it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from statediff.model.trace import Action, Excerpt, Trace, Turn
from statediff.model.values import Map, Unordered

_Any = TypeVar("_Any")


class Rewriting(ABC):
    """Puts other texts in the place of some."""

    @abstractmethod
    def text(self, text: str) -> str:
        """The text as it is shown or kept."""

    def value(self, value: _Any) -> _Any:
        """The value, JSON or of a state, with its texts rewritten; of the same kind otherwise."""
        found: Any = self._value(value, is_query=False)
        return found  # type: ignore[no-any-return]  # of the kind of what was given

    def trace(self, trace: Trace) -> Trace:
        """The calls, messages and replies; what histories tell is no call, and stays."""
        return replace(
            trace,
            actions=tuple(map(self._action, trace.actions)),
            cause=self.text(trace.cause),
            turns=None if trace.turns is None else tuple(map(self._turn, trace.turns)),
        )

    def _action(self, action: Action) -> Action:
        return replace(
            action,
            tool=self.text(action.tool),
            arguments=self.value(action.arguments),
            result=self.value(action.result),
            error=None if action.error is None else self.text(action.error),
            principal=None if action.principal is None else self._principal(action.principal),
            context=self._excerpt(action.context),
            messages=self._excerpt(action.messages),
        )

    def _principal(self, name: str) -> str:
        return self.text(name)

    def _excerpt(self, excerpt: Excerpt | None) -> Excerpt | None:
        """The excerpt rewritten; its digest is of the new beginning, where that is another."""
        if excerpt is None or (shown := self.text(excerpt.beginning)) == excerpt.beginning:
            return excerpt
        return replace(Excerpt.of(shown), characters=excerpt.characters)

    def _turn(self, turn: Turn) -> Turn:
        return replace(turn, message=self.text(turn.message), reply=self.value(turn.reply))

    def _value(self, value: Any, *, is_query: bool) -> Any:
        """`is_query`: it is below what names the parts of a request, such as its headers."""
        match value:
            case str():
                return self.text(value)
            case Map():
                return Map.of(self._members(dict(value.items), is_query=is_query))
            case dict():
                return self._members(value, is_query=is_query)
            case Unordered():
                return Unordered([self._value(e, is_query=is_query) for e in value], value.key)
            case [str(name), str(each)] if is_query:
                return type(value)((name, self._member(name, each, is_query=True)))
            case tuple() | list():
                return type(value)(self._value(each, is_query=is_query) for each in value)
            case _:
                return value

    def _members(self, members: Mapping[Any, Any], *, is_query: bool) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for name, each in members.items():
            shown = self.text(name) if isinstance(name, str) else name
            while shown in found:
                shown = f"{shown}'"  # two of them made one name
            found[shown] = self._member(str(name), each, is_query=is_query)
        # Of a text that is there in part: where the part is another now, of what is in its place.
        if "digest" in found and found.get("beginning") != members.get("beginning"):
            found["digest"] = Excerpt.of(str(found["beginning"])).digest
        return found

    def _member(self, name: str, value: Any, *, is_query: bool) -> Any:
        return self._value(value, is_query=is_query)
