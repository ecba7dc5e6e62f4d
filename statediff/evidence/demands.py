"""Demands of a verifier on a copy, beyond that it is genuine.

A policy file is YAML with one or more of these keys, and no other:

    contract: "18badab6ea0c905781e991853c6e05d4d7900e0157422f3e25e331192c86b403"
    min_kernel: 8
    isolation: container

What a copy withholds meets no demand.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from statediff.contract.yaml.reader import read_document
from statediff.contract.yaml.shape import as_model
from statediff.errors import UsageError
from statediff.evidence.verify import OBSERVABLE, UNSHOWN, Verified

DIGEST: Final = r"^[0-9a-f]{64}$"
ISOLATION: Final = r"^[a-z]+(\+[a-z]+)*$"


class Demands(BaseModel):
    """The demands on a copy; None demands nothing."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    contract: Annotated[str, Field(pattern=DIGEST)] | None = None
    """SHA-256 of the bytes of the contract, in hex."""
    min_kernel: Annotated[int, Field(ge=1, strict=True)] | None = None
    isolation: Annotated[str, Field(pattern=ISOLATION)] | None = None
    """Kinds of isolation joined by `+`; a program that was kept apart in more ways will do."""
    observed: StrictBool = False
    """An observer's key signed what was judged, and the copy shows all of that; of two readings
    beside others the one that leaves open whose a change was. Also what `bound` asks for."""
    bound: StrictBool = False
    """All that clauses read of states is under the state roots. What is not follows from the
    contract's clauses, which are not read here."""

    def unmet(self, found: Verified) -> Iterator[str]:
        """Each demand that the copy does not meet, or does not show that it meets."""
        at = {leaf.path: leaf.value for leaf in found.leaves}
        if self.contract is not None:
            text = _rest(at.get("contract.yaml#"))
            if not isinstance(text, str):
                yield "the contract is withheld from this copy"
            elif (digest := hashlib.sha256(text.encode()).hexdigest()) != self.contract:
                yield f"the contract is {digest}, not {self.contract}"
        kernel = str(found.manifest["kernel"])
        if self.min_kernel is not None and not (
            kernel.isascii() and kernel.isdecimal() and int(kernel) >= self.min_kernel
        ):
            yield f"the kernel is {kernel}, not {self.min_kernel} or later"
        if self.isolation is not None:
            trial = _rest(at.get("trial.json#"))
            kind = trial.get("isolation") if isinstance(trial, dict) else None
            if not isinstance(kind, str):
                yield "how the program was kept apart is withheld from this copy"
            elif not set(self.isolation.split("+")) <= set(kind.split("+")):
                yield f"the isolation was {kind}, not {self.isolation}"

        if self.observed and found.observed is None:
            yield "nobody but its signer signed what was observed, or this copy withholds that"
        elif self.observed and found.observed is not None:
            shown = {*found.observed.shown, "ending", UNSHOWN}
            if missing := [each for each in OBSERVABLE if each not in shown]:
                yield f"withheld from this copy, so not compared: {', '.join(missing)}"
            for name, which, count in found.observed.of_several:
                if which < count:  # who seals chose it, and may have chosen the verdict with it
                    yield f"{name}: {which} of the {count} that were signed; only the last decides"


def _rest(value: object) -> object:
    return value[0] if isinstance(value, list) and value else None


def read_policy(path: Path) -> Demands:
    """The demands in a file. `UsageError` where it cannot be read, is none, or demands nothing."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    demands = as_model(read_document(data, str(path)), Demands)
    if demands == Demands():
        raise UsageError(
            f"{path}: demands nothing; say contract, min_kernel, isolation, bound or observed"
        )
    return demands
