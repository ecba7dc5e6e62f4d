"""The values of calls and answer that a bundle does not show, and bundles made whole by them.

Judged is what was recorded. The bundle's documents show it without its secrets (`disclosure`), and
the document here has what was in their place: `[file, pointer, JSON]` for each. With it the bundle
is the one that was judged; so a replay needs it, and needs none of the rules by which a secret is
known. It is no file of the bundle: it lies beside it, readable by its owner only, and in a sealed
copy it is encrypted to auditors.

The document names what is shown by its digest, so that another bundle's is refused. The manifest
says how many values there are. Where the trial has a secret (`roots`), it binds them by a digest
keyed from it; a plain digest would let anyone try guesses, and a drawn key would make two bundles
of the same trial.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from statediff.errors import BundleError, InputError, NotReplayable
from statediff.evidence.canonical import read, write
from statediff.evidence.disclosure.rules import Disclosure
from statediff.evidence.documents import answer_document, judgement_document, trace_document
from statediff.evidence.observation import is_as_judged
from statediff.evidence.package import UNDISCLOSED, Bundle
from statediff.model.trace import NoAnswer, Trace
from statediff.model.values import Value
from statediff.model.verdict import Finding, Judgement

Json = Any
FORM: Final = "statediff/undisclosed/1"


@dataclass(frozen=True)
class Shown:
    """A trial as it is shown to people; worked out when somebody asks."""

    trace: Trace
    answer: Value | NoAnswer

    @cached_property
    def _documents(self) -> tuple[Disclosure, Trace, Value | NoAnswer]:
        disclosure = Disclosure()
        return disclosure, disclosure.trace(self.trace), disclosure.value(self.answer)

    def findings(self, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
        """The findings, which show no more than the calls and the answer do."""
        return self._documents[0].findings(findings)

    def said(self) -> dict[str, Json]:
        """The documents of calls and answer as they are shown."""
        _, trace, answer = self._documents
        return {"trace.json": trace_document(trace), "answer.json": answer_document(answer)}

    @property
    def is_other(self) -> bool:
        """True where something was judged that is not shown."""
        return bool(self._documents[0].names)

    def documents(self, judgement: Judgement) -> dict[str, Json]:
        """The documents of a bundle that are shown otherwise than they were judged, if any are."""
        if not self.is_other:
            return {}
        return {**self.said(), "judgement.json": judgement_document(judgement)}


def withheld(
    judged: Mapping[str, Json], shown: Mapping[str, Json], trial: str = "", secret: bytes = b""
) -> tuple[Json, bytes] | None:
    """The manifest's facts about what is not shown, and the document with it; None if all is.

    `secret` is the trial's, empty where it has none.
    """
    values = [
        [name, pointer, value]
        for name, document in sorted(shown.items())
        for pointer, value in _differing(judged[name], document, "")
    ]
    if not values:
        return None
    said: dict[str, Json] = {"values": len(values)}
    of = _shown_digest(trial, {name: shown[name] for name, _, _ in values})
    content: dict[str, Json] = {"form": FORM, "of": of, "values": values}
    if secret:
        key = hmac.new(secret, f"{FORM}\x00{trial}".encode(), hashlib.sha256).hexdigest()
        content["key"] = key
        said["digest"] = _digest(key, values)
    return said, write(content)


def whole(bundle: Bundle) -> Bundle:
    """The bundle with every document as it was judged.

    `NotReplayable` where it does not show all and what it withholds is not at hand, `BundleError`
    where that is of another bundle.
    """
    said = bundle.manifest.get(UNDISCLOSED)
    if said is None:
        return bundle
    if bundle.undisclosed is None:
        raise NotReplayable(
            f"this copy withholds {_count(said)} of what the run said, which may be secrets and on "
            "which the decision rests. They lie beside the bundle that was judged, readable by its "
            "owner only, and in a sealed copy for the auditors whom `sign --raw-to` named: replay "
            "there, or with --identity"
        )
    try:
        document = read(bundle.undisclosed, "what is not shown")
        values = document["values"]
        if document["form"] != FORM or said["values"] != len(values):
            raise ValueError("it is of another form or length")
        if "digest" in said and _digest(document["key"], values) != said["digest"]:
            raise ValueError("it is not what the manifest binds")
        documents = {name: bundle.document(name) for name in sorted({v[0] for v in values})}
        if document["of"] != _shown_digest(bundle.manifest["trial"], documents):
            raise ValueError("it is of a bundle that shows something else")
        for name, pointer, value in values:
            documents[name] = _with(documents[name], pointer.split("/")[1:], value)
        if not is_as_judged(bundle, documents):
            raise ValueError("it is not what was observed")
    except (BundleError, InputError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise BundleError(f"what is not shown belongs to another bundle: {error}") from error
    return replace(bundle, files={**bundle.files, **{n: write(d) for n, d in documents.items()}})


def _count(said: Json) -> str:
    number = said.get("values") if isinstance(said, dict) else None
    return "1 value" if number == 1 else f"{number} values"


def _shown_digest(trial: str, documents: Mapping[str, Json]) -> str:
    """The digest of documents as they are shown, by their names, in the trial."""
    return hashlib.sha256(write([trial, dict(documents)])).hexdigest()


def _digest(key: str, values: Json) -> str:
    return hmac.new(key.encode("ascii"), write(values), hashlib.sha256).hexdigest()


def _differing(judged: Json, shown: Json, pointer: str) -> Iterator[tuple[str, Json]]:
    """(pointer, JSON) of each place where another value was judged than is shown."""
    if type(judged) is type(shown) and isinstance(judged, (list, tuple)):
        if len(judged) == len(shown):
            for number, (one, other) in enumerate(zip(judged, shown, strict=True)):
                yield from _differing(one, other, f"{pointer}/{number}")
            return
    elif isinstance(judged, dict) and isinstance(shown, dict) and judged.keys() == shown.keys():
        for name in sorted(judged):
            yield from _differing(judged[name], shown[name], f"{pointer}/{name}")
        return
    if judged != shown:
        yield pointer, judged


def _with(document: Json, steps: list[str], value: Json) -> Json:
    """The document with the value in its place."""
    if not steps:
        return value
    place = document
    for step in steps[:-1]:
        place = place[int(step)] if isinstance(place, list) else place[step]
    last = steps[-1]
    if isinstance(place, list):
        place[int(last)] = value
    elif last in place:
        place[last] = value
    else:
        raise KeyError(last)
    return document
