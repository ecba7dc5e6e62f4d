"""The evaluation configuration [GE §3.1]: who sees what, what causes what, where absence shows.

No word of any domain is built in: event types, subsystems, joins and mechanisms are all the
author's. A configuration is read as strictly as a contract, with the same errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path
from typing import Annotated

from pydantic import Field as Described

from statediff.contract.document.load import read_bytes
from statediff.contract.parts import Duration, Identifier, Part, Version
from statediff.contract.yaml.reader import Document, read_document
from statediff.contract.yaml.shape import as_model
from statediff.errors import ContractError
from statediff_lab.reads.instants import find_zone

Name = Annotated[
    str, Described(min_length=1, max_length=200, description="a name of at most 200 characters")
]
Names = Annotated[tuple[Name, ...], Described(description="a list of names")]
Share = Annotated[int, Described(ge=0, le=100, description="a whole percentage, 0 to 100")]
Some = Annotated[int, Described(ge=0, le=100_000, description="a whole number of at least 0")]
Template = Annotated[
    str, Described(min_length=1, max_length=500, description="words with {names} to fill in")
]


class Role(Part):
    """The subsystems that anyone who has this role may search and read; none unless listed."""

    sees: Names


class CausalLink(Part):
    """An effect that a cause brought about: joined by identifiers, never by closeness alone."""

    id: Identifier
    cause: Name
    effect: Name
    join: Annotated[tuple[Name, ...], Described(min_length=1, description="facts both must share")]
    max_gap: Duration
    mechanism: Name
    aliases: Names = ()
    premise: Template = "{cause} had not happened"
    outcome: Template = "{effect} have happened"


class Selector(Part):
    """Artifacts to have looked at: of a subsystem, and where given with these facts or joined."""

    subsystem: Name
    where: Annotated[
        dict[Name, str | int | bool], Described(default_factory=dict, description="facts it has")
    ]
    joined: Annotated[
        bool, Described(description="true if it must share the trigger's joined facts")
    ] = False


class SilencePair(Part):
    """A response that is expected after a trigger, and where one must look before denying it."""

    id: Identifier
    trigger: Name
    response: Name
    join: Annotated[tuple[Name, ...], Described(min_length=1, description="facts both must share")]
    max_gap: Duration
    search: Annotated[tuple[Selector, ...], Described(description="the space to be covered")]
    question: Template = "Was there {response} after {trigger}?"


class QuestionPlan(Part):
    """How many questions are made, and how many may share a trait."""

    seed: Annotated[int, Described(ge=0, description="a whole number of at least 0")] = 0
    perspective: Some = 30
    counterfactual: Some = 27
    silence: Some = 39
    unlinked: Annotated[
        Share,
        Described(
            description="a whole percentage of the counterfactuals whose premise is near the "
            "effect and not its cause, 0 to 100"
        ),
    ] = 50
    per_actor: Annotated[int, Described(ge=1, description="at least 1")] = 6
    per_event_type: Annotated[int, Described(ge=1, description="at least 1")] = 12


class EvaluationConfig(Part):
    """The configuration of one read-side evaluation."""

    reads: Identifier
    version: Version
    zone: Annotated[
        str | None,
        Described(description="the zone of timestamps without one, e.g. UTC or Europe/Paris"),
    ] = None
    subsystems: Annotated[tuple[Name, ...], Described(min_length=1, description="a list of names")]
    roles: Annotated[dict[Name, Role], Described(min_length=1, description="roles by name")]
    actors: Annotated[dict[Name, Name], Described(min_length=1, description="actor: role")]
    causal_links: tuple[CausalLink, ...] = ()
    silences: tuple[SilencePair, ...] = ()
    questions: QuestionPlan = QuestionPlan()


@dataclass(frozen=True)
class ConfigFile:
    """A configuration as it was read, and where each part of it stands."""

    document: Document
    content: EvaluationConfig

    @property
    def zone(self) -> tzinfo | None:
        """The declared zone of timestamps without one."""
        return None if self.content.zone is None else find_zone(self.content.zone)


def load_config(path: Path) -> ConfigFile:
    """The configuration in a file. `UsageError`: no readable file; `ContractError`: not one."""
    return parse_config(read_bytes(path), str(path))


def parse_config(data: bytes, file: str) -> ConfigFile:
    """The configuration in `data`; `file` is the name used in messages."""
    document = read_document(data, file)
    content = as_model(document, EvaluationConfig)
    if content.zone is not None and find_zone(content.zone) is None:
        message = f"expected a zone of the time zone database, found `{content.zone}`"
        raise ContractError((document.problem(("zone",), message, code="unknown-zone"),))
    return ConfigFile(document, content)
