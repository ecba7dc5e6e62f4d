"""The seed's story as objects of localstripe: each entry is a request that was made at an instant.

In the server's process. An entry says `at`, `post` (a path of the API) and `with`, or opens what no
client can: a `dispute`. Objects made by it are called by its `name`, or are numbered through, so
that ids are the same in every sandbox. `fails: true` says that the request is refused, as the
payment with a card that is declined is: what it left stays.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Any

from localstripe import resources
from localstripe.errors import UserError
from localstripe.server import extra_apis

from statediff_payments.layer import ApiKey, Clock, Dispute, digest_of


class _Names:
    """Ids for what one entry makes, and for what makes none: the same in every sandbox."""

    def __init__(self) -> None:
        self.name = ""
        self._counts: Counter[str] = Counter()

    def next(self, prefix: str) -> str:
        if not self.name:
            self._counts[""] += 1
            return f"{prefix}{self._counts['']:06}"
        stem = prefix + self.name
        self._counts[stem] += 1
        return stem if self._counts[stem] == 1 else f"{stem}_{self._counts[stem]}"


def seconds(instant: str) -> int:
    """The instant as the API says it."""
    return int(datetime.fromisoformat(instant).timestamp())


def plant(seed: Mapping[str, Any], salt: str, clock: Clock) -> None:
    """The store holds the seed's story. Raises `ValueError` with the entry that cannot be made.

    Secrets of keys follow from `salt`, which nobody is given.
    """
    for entry in seed["keys"]:
        clock.stand_at(seconds(entry["at"]))
        with _named(_Names(), entry["name"]):
            ApiKey(entry["name"], entry["rights"], f"sk_{digest_of(salt + entry['name'])}")
    names = _Names()
    asyncio.run(_tell(seed["story"], names, clock))
    clock.stand_at(seconds(seed["now"]))


async def _tell(story: list[Mapping[str, Any]], names: _Names, clock: Clock) -> None:
    for entry in story:
        clock.stand_at(seconds(entry["at"]))
        with _named(names, str(entry.get("name", ""))):
            refusal = _act(entry)
        if (refusal is not None) != bool(entry.get("fails")):
            raise ValueError(f"{dict(entry)}: {refusal or 'was not refused'}")


def _act(entry: Mapping[str, Any]) -> str | None:
    """Does what the entry says; why it was refused, if it was."""
    given = dict(entry.get("with", {}))
    try:
        if "dispute" in entry:
            Dispute(entry["dispute"], given["reason"], seconds(given["due_by"]))
        else:
            _acts_at(entry["post"])(**given)
    except UserError as error:
        return str(error.body)
    return None


def _acts_at(path: str) -> Callable[..., Any]:
    """The function that a POST to the path calls, with what the path says."""
    for method, template, act in extra_apis:
        pattern = re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", template)
        found = re.fullmatch(pattern, path)
        if method == "POST" and found is not None:
            named = found.groupdict()
            return lambda **given: act(**named, **given)
    for cls in resources.StripeObject.__subclasses__():
        found = re.fullmatch(f"/v1/{cls.object}s(?:/([^/]+))?", path)
        if found is not None:
            return cls._api_create if found[1] is None else partial(cls._api_update, found[1])
    raise ValueError(f"{path}: no path of the API")


@contextmanager
def _named(names: _Names, name: str) -> Iterator[None]:
    """Objects that are made meanwhile get their ids from `names`."""
    usual, usual_id = resources.StripeObject.__init__, resources.random_id
    names.name = name

    def make(self: Any, id: str | None = None) -> None:  # noqa: A002 - localstripe's name
        prefix = getattr(type(self), "_id_prefix", None)
        usual(self, names.next(prefix) if id is None and prefix is not None else id)

    resources.StripeObject.__init__ = make
    resources.random_id = lambda _length: names.next("")
    try:
        yield
    finally:
        resources.StripeObject.__init__, resources.random_id = usual, usual_id
