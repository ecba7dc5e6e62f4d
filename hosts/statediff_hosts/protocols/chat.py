"""One answer of a model behind an OpenAI-compatible endpoint, streamed or not, with its retries.

What failed by no fault of the request (no connection, a timeout, too many requests, a fault of the
server, an answer that is no JSON or breaks off) is asked again, by the type of the error and never
by its words, a bounded number of times, and as late as the server asks for. No tool has been called
by then, so that a retry repeats nothing. What stays failed is a fault of the harness: no agent is
to blame for it. What the server says is wrong with the request is the run's own failure.

`replies` asks the same question several times, each time with a seed of its own.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import openai

from statediff.agents.trial import Budget, Usage
from statediff.errors import AdapterError, UsageError
from statediff.model.values import printable

MAX_RETRIES: Final = 5
MAX_CONNECTIONS: Final = 4
"""Tries to reach a server at all: mostly nobody listens there."""
MAX_WAIT_SECONDS: Final = 60.0
MAX_ANSWER_CHARACTERS: Final = 1024 * 1024
MAX_CALLS: Final = 64
"""Of tools, in one answer."""


class RequestRefused(Exception):
    """The server finds the request itself wrong, e.g. too long for the model."""


@dataclass(frozen=True)
class ToolCall:
    """A call that the model wants; `arguments` is its own text, which may be no JSON."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class ModelAnswer:
    """One answer of the model."""

    text: str
    calls: tuple[ToolCall, ...]
    usage: Usage

    def as_message(self) -> dict[str, Any]:
        """The answer as it is sent back with the next request."""
        calls = [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
            for c in self.calls
        ]
        return {
            "role": "assistant",
            "content": self.text,
            **({"tool_calls": calls} if calls else {}),
        }


class _BrokenAnswer(Exception):
    """An answer that is not one; the message says why."""


@dataclass(frozen=True)
class Endpoint:
    """A model at an address. The key is in no message and in no record."""

    base_url: str
    model: str
    key: str
    streams: bool = False
    answer_seconds: float = 120.0
    pause: Callable[[float], None] = time.sleep
    seed: int | None = None

    def ask(self, messages: Sequence[Any], tools: Sequence[Any], deadline: float) -> ModelAnswer:
        """The answer. `AdapterError` if none can be had, `RequestRefused` if none will be."""
        tries = 0
        while True:
            try:
                said = self._ask(messages, tools, max(1.0, deadline - time.monotonic()))
            except (
                openai.APIConnectionError,
                openai.RateLimitError,
                openai.InternalServerError,
                openai.APIResponseValidationError,
                json.JSONDecodeError,
                _BrokenAnswer,
            ) as error:
                wait = _wait(error, tries)
                if tries >= _most_retries(error) or time.monotonic() + wait > deadline:
                    raise AdapterError(self._complaint(error, tries + 1)) from error
                tries += 1
                self.pause(wait)
            except (
                openai.AuthenticationError,
                openai.PermissionDeniedError,
                openai.NotFoundError,
            ) as error:
                raise AdapterError(self._complaint(error, tries + 1)) from error
            except openai.APIError as error:
                raise RequestRefused(self._reason(error)) from error
            except (openai.OpenAIError, UnicodeError, ValueError) as error:
                raise AdapterError(self._complaint(error, tries + 1)) from error
            else:
                return ModelAnswer(said.text, said.calls, said.usage + Usage(retries=tries))

    def _ask(self, messages: Sequence[Any], tools: Sequence[Any], seconds: float) -> ModelAnswer:
        given: dict[str, Any] = {"model": self.model, "messages": messages}
        if tools:
            given["tools"] = tools
        if self.seed is not None:
            given["seed"] = self.seed
        if self.streams:
            given |= {"stream": True, "stream_options": {"include_usage": True}}
        with openai.OpenAI(
            base_url=self.base_url,
            api_key=self.key,
            max_retries=0,
            timeout=min(self.answer_seconds, seconds),
        ) as client:
            create: Any = client.chat.completions.create
            completion = create(**given)
            try:
                return _join(completion) if self.streams else _answer_of(completion)
            except (AttributeError, TypeError, IndexError) as error:
                # The library takes an answer of any shape for one of the right shape.
                raise _BrokenAnswer(f"the answer is no chat completion: {error}") from error
            finally:
                if self.streams:
                    completion.close()

    def _complaint(self, error: Exception, tries: int) -> str:
        hint = "check the URL"
        if isinstance(error, (openai.AuthenticationError, openai.PermissionDeniedError)):
            hint = "check the key in the environment (`key_env` names its variable)"
        elif isinstance(error, openai.NotFoundError):
            hint = "check the URL (mostly it ends in /v1) and the model"
        elif isinstance(error, (openai.RateLimitError, openai.InternalServerError)):
            hint = "run again later"
        times = "once" if tries == 1 else f"{tries} times"
        return (
            f"the model {self.model!r} at {self.base_url} gave no answer, asked {times}: "
            f"{self._reason(error)}; {hint}"
        )

    def _reason(self, error: Exception) -> str:
        said = str(error) or type(error).__name__
        cause = error.__cause__
        if isinstance(error, openai.APIConnectionError) and cause is not None:
            said += f" ({cause})"
        return printable(said.replace(self.key, "[key]") if self.key else said)[:500]


def _most_retries(error: Exception) -> int:
    is_unreachable = isinstance(error, openai.APIConnectionError)
    is_late = isinstance(error, openai.APITimeoutError)
    return MAX_CONNECTIONS - 1 if is_unreachable and not is_late else MAX_RETRIES


def _wait(error: Exception, tries: int) -> float:
    """How long until the next try: what the server asks for, within bounds, else ever longer."""
    asked = None
    if isinstance(error, openai.APIStatusError):
        asked = error.response.headers.get("retry-after")
    if asked is not None and asked.isascii() and asked.isdigit():
        return min(float(asked), MAX_WAIT_SECONDS)
    return min(0.5 * 2.0**tries, MAX_WAIT_SECONDS)


def _answer_of(completion: Any) -> ModelAnswer:
    """A whole answer. The library checks no shapes, so this does."""
    choices = getattr(completion, "choices", None)
    if not choices:
        raise _BrokenAnswer("the answer has no `choices`")
    message = choices[0].message
    if message is None:
        raise _BrokenAnswer("the answer has no `message`")
    calls = [
        ToolCall(
            call.id or f"call_{number}", call.function.name or "", call.function.arguments or ""
        )
        for number, call in enumerate(message.tool_calls or ())
        if getattr(call, "function", None) is not None
    ]
    return _require_bounds(message.content or "", calls, _usage(completion))


def _join(pieces: Any) -> ModelAnswer:
    """An answer from its pieces; one that breaks off is broken."""
    text: list[str] = []
    parts: dict[int, list[str]] = {}
    usage = Usage(1, 0, None, None)
    length, is_whole = 0, False
    for piece in pieces:
        if getattr(piece, "usage", None) is not None:
            usage = _usage(piece)
        if not getattr(piece, "choices", None):
            continue
        choice = piece.choices[0]
        is_whole = is_whole or choice.finish_reason is not None
        delta = choice.delta
        if delta is None:
            continue
        text.append(delta.content or "")
        length += len(text[-1])
        for call in delta.tool_calls or ():
            slot = parts.setdefault(call.index, ["", "", ""])
            function = call.function
            texts = (None, None) if function is None else (function.name, function.arguments)
            for at, fragment in enumerate((call.id, *texts)):
                more = fragment or ""
                slot[at] += more
                length += len(more)
        if length > MAX_ANSWER_CHARACTERS or len(parts) > MAX_CALLS:
            break
    if not is_whole and length <= MAX_ANSWER_CHARACTERS and len(parts) <= MAX_CALLS:
        raise _BrokenAnswer("the stream ended before the answer did")
    calls = [
        ToolCall(id_ or f"call_{at}", name, arguments)
        for at, (id_, name, arguments) in sorted(parts.items())
    ]
    return _require_bounds("".join(text), calls, usage)


def _require_bounds(text: str, calls: list[ToolCall], usage: Usage) -> ModelAnswer:
    size = len(text) + sum(len(call.arguments) + len(call.name) for call in calls)
    if size > MAX_ANSWER_CHARACTERS:
        raise RequestRefused(f"the model's answer has more than {MAX_ANSWER_CHARACTERS} characters")
    if len(calls) > MAX_CALLS:
        raise RequestRefused(f"the model wants more than {MAX_CALLS} calls at once")
    clean = (ToolCall(_whole(c.id), _whole(c.name), _whole(c.arguments)) for c in calls)
    return ModelAnswer(_whole(text), tuple(clean), usage)


def _whole(text: str) -> str:
    """Text without half characters: it is sent back, and they cannot be."""
    return text.encode("utf-8", errors="replace").decode("utf-8")


def _usage(completion: Any) -> Usage:
    found = getattr(completion, "usage", None)
    counts = [getattr(found, name, None) for name in ("prompt_tokens", "completion_tokens")]
    known = [n if isinstance(n, int) and n >= 0 else None for n in counts]
    return Usage(1, 0, known[0], known[1])


@dataclass(frozen=True)
class Reply:
    """The model's words under one seed; or None, and why its server refused to ask it."""

    seed: int
    said: str | None
    refusal: str
    usage: Usage


def replies(
    endpoint: Endpoint, messages: Sequence[Any], times: int, seed: int, budget: Budget
) -> Iterator[Reply]:
    """One reply a seed, from `seed` on. `AdapterError` if the model, or money, cannot be had."""
    for each in range(seed, seed + times):
        budget.require_open()
        deadline = time.monotonic() + endpoint.answer_seconds * 2
        try:
            said = replace(endpoint, seed=each).ask(messages, (), deadline)
        except RequestRefused as refused:
            yield Reply(each, None, str(refused), Usage(1))
        else:
            budget.spend(said.usage)
            yield Reply(each, said.text, "", said.usage)


def endpoint_of(
    base_url: str, model: str, key_env: str | None, *, streams: bool = False
) -> Endpoint:
    """The model at the address, with the key that the environment holds; else `UsageError`."""
    if not base_url.startswith(("http://", "https://")):
        raise UsageError(f"URL {base_url!r}: expected http:// or https://")
    variable = key_env or "OPENAI_API_KEY"
    key = os.environ.get(variable, "")
    if not key and key_env is not None:
        raise UsageError(f"`key_env` {variable}: the environment has no such variable")
    # Servers of one's own want no key; the library wants some text.
    return Endpoint(base_url, model, key or "none", streams=streams)
