"""Who may see which field: what is called personal or secret, and what a disclosure file says.

A disclosure file lies beside contracts (`disclosure.yaml`) and is for people who sign. Without one
the default is safe: free text and keys are withheld from reviewers, and so is every field whose
name says that it is about a person or holds a secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from statediff.contract.document.load import read_bytes
from statediff.contract.file import ContractFile
from statediff.contract.parts import Part
from statediff.contract.yaml.reader import read_document
from statediff.contract.yaml.shape import as_model
from statediff.evidence.disclosure.rules import is_secret_name
from statediff.evidence.verify import TIERS
from statediff.model.boundary import locate
from statediff.model.schema import Schema

FILE: Final = "disclosure.yaml"
"""The name of the file beside contracts."""


class Why(StrEnum):
    """Why a reviewer does not see a value."""

    TEXT = "free text"
    PERSONAL = "personal"
    SECRET = "secret"  # noqa: S105 - a word of the page
    EXCLUDED = "outside the boundary"


Places = Annotated[
    tuple[Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]{1,200}$")], ...],
    Field(description="a list of TYPE.FIELD, or of FIELD for that field of every type"),
]


class DisclosureDocument(Part):
    """A disclosure file: the fields that reviewers' copies show or withhold."""

    shown: Places = ()
    personal: Places = ()
    secret: Places = ()
    replayable: Annotated[
        dict[Literal["MATCH", "DIVERGE", "INCONCLUSIVE"], Literal["reviewer", "auditor"]],
        Field(
            default_factory=dict,
            description="a mapping of verdicts to the tier whose copy must suffice to replay",
        ),
    ]


_PERSONAL: Final = re.compile(
    r"(?:^|_)(?:salary|wages?|income|birth(?:day|date)?|dob|age|gender|sex|phone|telephone|tel|mobile"
    r"|fax|ssn|iban|passport|latitude|longitude|lat|lon|lng|zip|postcode|postal|address|street"
    r"|email|mail|first_?name|last_?name|full_?name|surname|religion|ethnicity|nationality|health"
    r"|diagnosis|blood|disability|ip)(?:_|$)"
)
_WORDS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")


def is_personal_name(name: str) -> bool:
    """True where a field or a member of the name is about a person, whatever its kind."""
    return bool(_PERSONAL.search(_WORDS.sub("_", name).lower()))


@dataclass(frozen=True)
class Settings:
    """The default and one disclosure file over it."""

    shown: frozenset[str] = frozenset()
    personal: frozenset[str] = frozenset()
    secret: frozenset[str] = frozenset()
    replayable: Mapping[Any, str] = field(default_factory=dict, compare=False)
    """Verdict → the tier whose copy must suffice to replay it; `sign` refuses to break that."""
    names: dict[str, Why | None] = field(default_factory=dict, compare=False, repr=False)
    """The reasons that names give by themselves, as far as they were asked for."""

    def why(self, type_name: str, field_name: str) -> Why | None:
        """Why fewer may see the field, whatever is in it; None where its kind decides."""
        places = {f"{type_name}.{field_name}", field_name}
        if places & self.secret:
            return Why.SECRET
        if places & self.personal:
            return Why.PERSONAL
        return None if places & self.shown else self.of_name(field_name)

    def of_name(self, name: str) -> Why | None:
        """The reason that a name gives by itself."""
        if name not in self.names:
            said = Why.SECRET if is_secret_name(name) else None
            self.names[name] = said or (Why.PERSONAL if is_personal_name(name) else None)
        return self.names[name]

    def is_shown(self, type_name: str, field_name: str) -> bool:
        """True where the file opens the field's text to reviewers."""
        return bool({f"{type_name}.{field_name}", field_name} & self.shown)

    def document(self) -> dict[str, Any]:
        """The JSON of what the file says."""
        said = {"shown": self.shown, "personal": self.personal, "secret": self.secret}
        return {name: sorted(places) for name, places in said.items() if places}


def settings_of(document: Any) -> Settings:
    """The settings in this JSON, or in a file's content."""
    shown, personal, secret = (
        frozenset(document.get(name, ())) for name in ("shown", "personal", "secret")
    )
    return Settings(shown, personal, secret, dict(document.get("replayable", {})))


def read_settings(path: Path | None) -> Settings:
    """The settings of a disclosure file; the default without one. `UsageError`, `ContractError`."""
    if path is None:
        return Settings()
    document = read_document(read_bytes(path), str(path))
    return settings_of(as_model(document, DisclosureDocument).model_dump())


def settings_beside(contract: Path) -> Settings:
    """The settings of the file beside a contract, or in the folder above it; else the default."""
    for folder in (contract.parent, contract.parent.parent):
        if (path := folder / FILE).is_file():
            return read_settings(path)
    return Settings()


def opened_to(file: ContractFile, schema: Schema, source: str) -> str:
    """The tier that sees all of a source: what the contract excludes is for auditors alone."""
    types = {name for each, names in schema.sources if each == source for name in names}
    excluded = {locate(schema, each.what, 0)[0].name for each in file.content.exclude}
    rule = file.content.evidence.get(source)
    return TIERS[-1] if rule is None or types & excluded else rule.disclose
