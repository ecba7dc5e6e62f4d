"""Profiles: what a framework does beside every task, as a file that a person reads and writes.

`use: django@1` adds the clauses of a profile to a contract, behind its own; they are judged like
these, and hide nothing. `{NAME}` in an expression of theirs is the text of an input. A profile is
one of ours, one under `profiles` in the contract, or a file `profiles/NAME@VERSION.yaml` beside it,
which is written into what is judged, so that a bundle replays without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Annotated, Any

from pydantic import Field

from statediff.contract.clauses.effects import Effect
from statediff.contract.clauses.patterns import Clauses
from statediff.contract.parts import Part
from statediff.contract.yaml.reader import Document, read_document
from statediff.contract.yaml.shape import as_model
from statediff.model.schema import EntityType

ProfileName = Annotated[
    str,
    Field(
        pattern=r"^[a-z][a-z0-9_-]{0,60}@[0-9]{1,4}$", description="name@version, e.g. `django@1`"
    ),
]


class Profile(Part):
    """The changes that a framework makes beside every task, in the names of its tables."""

    inputs: Annotated[dict[str, Any], Field(default_factory=dict)]
    """The inputs with their defaults; null where a contract has to give one."""
    forbid: Clauses = ()
    allow: Clauses = ()
    effects: tuple[Effect, ...] = ()


class WhoseRun(Part):
    """The input that says in whose name an agent acts, and where a run shows it."""

    input: str
    field: Annotated[str, Field(description="TYPE.PATH of a row that every login leaves")]
    when: Annotated[dict[str, str], Field(default_factory=dict)]
    """Values of other fields of that row."""


class Shipped(Profile):
    """A profile of ours: drafts find the databases that it is for, and the user of a run."""

    about: str
    tables: tuple[str, ...]
    """TYPE or TYPE.FIELD; a database with all of them uses it."""
    user: WhoseRun
    packed: Annotated[dict[str, str], Field(default_factory=dict)]
    """TYPE.FIELD → how what is in its texts is packed."""

    def fits(self, types: Mapping[str, EntityType]) -> bool:
        """True where the database has all of its tables."""
        places = (place.partition(".") for place in self.tables)
        return all(t in types and (not f or f in types[t].by_name) for t, _, f in places)


@cache
def shipped() -> Mapping[str, Shipped]:
    """Our profiles, by name and version."""
    folder = files("statediff.contract") / "profiles"
    found = sorted(folder.iterdir(), key=lambda each: each.name)
    return {
        each.name.removesuffix(".yaml"): as_model(
            read_document(each.read_bytes(), each.name), Shipped
        )
        for each in found
        if each.name.endswith(".yaml")
    }


def missing_files(document: Document) -> Iterator[str]:
    """The profiles that a contract uses, and that neither it nor statediff has."""
    used = document.value.get("use", ())
    own = document.value.get("profiles") or {}
    for name in (used,) if isinstance(used, str) else used or ():
        if re.fullmatch(r"[a-z][a-z0-9_-]*@[0-9]+", str(name)) and name not in {**shipped(), **own}:
            yield name


def with_files(data: bytes, texts: Mapping[str, bytes]) -> bytes:
    """The contract with profiles written in behind it; what stood there stays where it is."""
    lines = ["", "profiles:"]
    for name, text in texts.items():
        lines += [
            f"  {name}:",
            *(f"    {x}" for x in text.decode().splitlines() if x not in ("", "---")),
        ]
    return data + "\n".join([*lines, ""]).encode()
