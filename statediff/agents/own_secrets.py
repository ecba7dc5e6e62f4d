"""The evaluator's own secrets, which never enter a record: known by their values, all of each.

What an agent said is judged as it said it, but for these; no other character is changed, and no
word beside one. A value is a secret of ours where

* it is the password of a system's URL or of one in the environment, or a model's key;
* an agent is given the variable by name, and it is named as secrets are *or* looks drawn at random;
* it is in the environment, and has the form in which issuers give keys, or its variable is named as
  secrets are *and* it looks drawn at random (`is_drawn`).

A folder, a file, a language, an ordinary word are none, whatever the variable is called: such a
password is kept from nobody, and taking the word out of what an agent did would keep that from the
judge.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from statediff.agents.trial import Agent, AgentRun, Entrusted
from statediff.evidence.disclosure.rewriting import Rewriting
from statediff.evidence.disclosure.rules import MARK, is_drawn, is_issued, is_unguessed
from statediff.systems.base.urls import PASSWORD_PREFIX

OWN: Final = f"{MARK}own"
"""The text in place of own secrets."""
_NAMED: Final = re.compile(r"(?:^|_)(?:PASSWORD|PASSWD|PWD|SECRET|TOKEN|KEY|CREDENTIALS?)(?:_|$)")


@dataclass(frozen=True)
class OwnSecrets(Rewriting):
    """Takes secrets out of a run; `values` are the secrets, the longest first."""

    values: tuple[str, ...] = ()

    @staticmethod
    def of(urls: Iterable[str] = (), entrusted: Iterable[str] = ()) -> OwnSecrets:
        """The secrets of the systems' URLs, of the environment, and those given to the agent."""
        given = [*entrusted, *(each for url in urls for each in _passwords(url))]
        found = {*filter(_is_no_word, given), *_of_environment()}
        found |= {quote(value, safe="") for value in found}
        return OwnSecrets(tuple(sorted(found, key=lambda value: (-len(value), value))))

    def text(self, text: str) -> str:
        """The text without them."""
        for value in self.values:
            if value in text:
                text = text.replace(value, OWN)
        return text

    def run(self, run: AgentRun) -> AgentRun:
        """The run of an agent, without the secrets."""
        if not self.values:
            return run
        return replace(
            run,
            answer=self.value(run.answer),
            trace=self.trace(run.trace),
            error=None if run.error is None else self.text(run.error),
            stdout=replace(run.stdout, text=self.text(run.stdout.text)),
            stderr=replace(run.stderr, text=self.text(run.stderr.text)),
        )


def entrusted_in(variables: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """The values that may be secrets among variables that somebody is given by name."""
    return tuple(v for name, v in variables if _NAMED.search(name.upper()) or is_drawn(v))


def own_secrets(agent: Agent, urls: Iterable[str]) -> OwnSecrets:
    """The secrets that this agent may have met, at the systems with these URLs."""
    return OwnSecrets.of(urls, agent.entrusted if isinstance(agent, Entrusted) else ())


def _of_environment() -> Iterator[str]:
    for name, value in os.environ.items():
        yield from filter(_is_no_word, _passwords(value))
        is_ours = name.startswith(PASSWORD_PREFIX)
        is_likely = is_ours or (_NAMED.search(name.upper()) is not None and is_drawn(value))
        if is_issued(value) or (is_likely and _is_no_word(value)):
            yield value


def _passwords(url: str) -> tuple[str, ...]:
    """The password of a URL, as it is written and as it is meant."""
    try:
        password = urlsplit(url).netloc.rpartition("@")[0].partition(":")[2]
    except ValueError:  # no URL
        return ()
    return (password, unquote(password)) if password else ()


def _is_no_word(value: str) -> bool:
    """No word that stands anywhere for something else, and no place of a file."""
    is_place = value.startswith(("/", "~", ".")) or os.path.lexists(value)
    return (is_unguessed(value) or is_drawn(value)) and not is_place
