"""Released contracts: a version, once released, is the bytes that were signed off.

`released.yaml` lies beside the contract files it speaks of and names, for `contract@version`, the
SHA-256 of the file, who released it and when, and who other than the author reviewed those bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import date
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, model_validator

from statediff.contract.parts import Part
from statediff.contract.yaml.reader import read_document
from statediff.contract.yaml.shape import as_model
from statediff.errors import ContractError, UsageError

FILE: Final = "released.yaml"
FORMAT: Final = "statediff/released/1"
_DAY: Final = r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$"


def _day(text: str) -> str:
    try:
        date.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"there is no such day: {error}") from error
    return text


Person = Annotated[
    str,
    Field(min_length=2, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$", description="a name"),
]
Day = Annotated[
    str,
    Field(pattern=_DAY, description="a day, e.g. 2026-01-31, in quotes"),
    AfterValidator(_day),
]
Name = Annotated[str, Field(pattern=r"^[^@]+@[^@]+$", description="contract@version")]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="a SHA-256 in hex")]


Found = Annotated[
    str,
    Field(
        min_length=10,
        max_length=1000,
        pattern=r"^[^\x00-\x1f\x7f]+$",
        description="what the reading found, in words",
    ),
]


Signed = Annotated[
    str, Field(min_length=1, max_length=4000, description="a signed statement of the same")
]


class SignOff(Part):
    """The word of a person, or of a second reading, that these bytes say what the task permits.

    A second reading was made by somebody who did not write the contract, and names nobody: it says
    what it found.
    """

    kind: Literal["person", "second-reading"] = "person"
    by: Person | None = None
    found: Found | None = None
    on: Day
    signed: Signed | None = None

    @model_validator(mode="after")
    def _is_of_its_kind(self) -> SignOff:
        if self.kind == "person" and (self.by is None or self.found is not None):
            raise ValueError("a sign-off by a person says `by`, and `found` of nobody")
        if self.kind == "second-reading" and (self.found is None or self.by is not None):
            raise ValueError("a second reading says what it `found`, and names nobody under `by`")
        return self


class Release(Part):
    """One released version. Not to be used for gating before `reviewed`."""

    digest: Digest
    released_by: Person
    on: Day
    reviewed: SignOff | None = None
    signed: Signed | None = None


class ReleasesDocument(Part):
    """`released.yaml`: every released version of the contracts beside it."""

    released: Literal["statediff/released/1"]
    contracts: Annotated[
        dict[Name, Release], Field(description="a mapping of contract@version to its release")
    ] = Field(default_factory=dict)


Releases = Mapping[str, Release]
"""The released versions, by `contract@version`."""


def written(releases: Releases) -> bytes:
    """The file: sorted, one line a fact, so that a change shows as one."""
    lines = [
        "# Released versions: the digest is of the contract file's bytes. Written by",
        "# `statediff contract release` and `statediff contract sign-off`.",
        f"released: {FORMAT}",
        "contracts:" if releases else "contracts: {}",
    ]
    for name, entry in sorted(releases.items()):
        lines += [
            f"  {_text(name)}:",
            f"    digest: {_text(entry.digest)}",
            f"    released_by: {_text(entry.released_by)}",
            f"    on: {_text(entry.on)}",
        ]
        if entry.signed is not None:
            lines.append(f"    signed: {_text(entry.signed)}")
        if entry.reviewed is not None:
            lines += _review_lines(entry.reviewed)
    return ("\n".join(lines) + "\n").encode()


def _review_lines(review: SignOff) -> list[str]:
    if review.by is not None and review.signed is None:
        return [f"    reviewed: {{by: {_text(review.by)}, on: {_text(review.on)}}}"]
    facts = {"by": review.by, "on": review.on, "found": review.found, "signed": review.signed}
    said = [f"      {name}: {_text(text)}" for name, text in facts.items() if text is not None]
    return ["    reviewed:", f"      kind: {review.kind}", *said]


def _text(text: str) -> str:
    """Always quoted: a digest of digits, or a day, is text."""
    return json.dumps(text, ensure_ascii=False)


def read_releases(data: bytes, file: str) -> Releases:
    """The releases in `data`; `ContractError` with places for anything else."""
    document = read_document(data, file)
    releases = as_model(document, ReleasesDocument).contracts
    problems = tuple(
        document.problem(
            ("contracts", name, "reviewed"),
            f"{name} is signed off by {entry.released_by}, who released it",
            code="self-reviewed",
            hint="somebody else must review it",
        )
        for name, entry in releases.items()
        if entry.reviewed is not None
        and entry.reviewed.by is not None
        and same_person(entry.reviewed.by, entry.released_by)
    )
    if problems:
        raise ContractError(problems)
    return releases


def same_person(a: str, b: str) -> bool:
    """True if two names are one but for case and spaces."""
    return " ".join(a.split()).casefold() == " ".join(b.split()).casefold()


def identifier(contract: str, version: str) -> str:
    """How a released version is named."""
    return f"{contract}@{version}"


def add_release(releases: Releases, name: str, digest: str, by: str, on: str) -> Releases:
    """With a further version; `UsageError` if that version was released with other bytes."""
    known = releases.get(name)
    if known is not None:
        if known.digest == digest:
            raise UsageError(
                f"{name} is released already, by {known.released_by} on {known.on}"
                f"{'' if known.signed else '; the same with --key FILE signs that'}"
            )
        raise UsageError(
            f"{name} was released with digest {known.digest[:12]}, the file now has {digest[:12]}; "
            "raise its version"
        )
    _require_day(on)
    return {**releases, name: Release(digest=digest, released_by=by, on=on)}


def add_sign_off(releases: Releases, name: str, digest: str, review: SignOff) -> Releases:
    """With a review of those bytes by somebody other than who released them; else `UsageError`."""
    known = releases.get(name)
    if known is None:
        raise UsageError(f"{name} is not released; run `statediff contract release` first")
    if known.digest != digest:
        raise UsageError(
            f"{name} was released with digest {known.digest[:12]}, the file now has {digest[:12]}; "
            "what is reviewed is what was released"
        )
    if review.by is not None and same_person(review.by, known.released_by):
        raise UsageError(f"{review.by} released {name}; somebody else must review it")
    if known.reviewed is not None:
        raise UsageError(
            f"{name} is signed off already, by {known.reviewed.by or 'a second reading'}"
        )
    _require_day(review.on)
    return {**releases, name: known.model_copy(update={"reviewed": review})}


def _require_day(on: str) -> None:
    try:
        is_day = re.fullmatch(_DAY, on) is not None and bool(_day(on))
    except ValueError:
        is_day = False
    if not is_day:
        raise UsageError(f"{on!r} is no day; write it like 2026-01-31")
