"""What reviewers say of trials: signed labels, kept beside the bundle and apart from the verdict.

A label says whether the agent's run was right: `correct`, `incorrect` or `unresolvable` [SSD §V].
Where it contradicts the verdict it may name the cause: agent failure, evaluator failure (at which
stage, and whether a reviewer could tell from the evidence), contract ambiguity or environment
failure [SSD §VI], and in which ways the evaluation failed [TV §3.4]. A resolution settles labels
that disagree; it names each label that it settles. A flag says that a case is not to be relied on,
and why, whatever its verdict [TV §3.6].
None of them ever changes a verdict.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from statediff.atomic import write_atomically
from statediff.errors import BundleError, StorageError, UsageError
from statediff.evidence.keys import SigningKey
from statediff.evidence.statements import open_statement, sign_statement
from statediff.evidence.verify import Signer
from statediff.suite.review_terms import Cause, Component, Failure, Label

Json = Any
LABEL: Final = "statediff/label/2"
RESOLUTION: Final = "statediff/resolution/1"
FLAG: Final = "statediff/flag/1"
FOLDER: Final = "labels"
REVIEWER: Final = "reviewer"
"""The role a key needs for its labels to count."""
MAX_NOTE: Final = 4000
MAX_BYTES: Final = 64 * 1024
_LABEL: Final = (
    "at", "blind", "bundle", "cause", "failures", "form", "is_correctable", "label", "note",
    "seconds", "stage",
)  # fmt: skip
_FIRST: Final = tuple(name for name in _LABEL if name != "failures")
"""What a label of the first form says; it is still read."""
_FLAGGED: Final = ("at", "because", "bundle", "form", "is_unreliable")
_RESOLVED: Final = ("at", "because", "bundle", "form", "label", "settles")


@dataclass(frozen=True)
class Given:
    """What a reviewer says of one bundle; `seconds` is how long the review took."""

    label: Label
    seconds: int
    blind: bool
    _: KW_ONLY
    cause: Cause | None = None
    stage: Component | None = None
    is_correctable: bool | None = None
    note: str = ""
    failures: tuple[Failure, ...] = ()
    """Sorted, each once."""

    def problem(self) -> str | None:
        """Why it cannot stand as it is; None if it can."""
        if self.cause is not Cause.EVALUATOR and (
            self.stage is not None or self.is_correctable is not None
        ):
            return "a stage, and whether it could be told, belong to an evaluator failure"
        if self.failures and self.cause not in (Cause.EVALUATOR, Cause.CONTRACT):
            return "kinds of failure belong to an evaluator failure or a contract ambiguity"
        if list(self.failures) != sorted(set(self.failures)):
            return "kinds of failure are named once each, in order"
        if len(self.note) > MAX_NOTE:
            return f"the note has {len(self.note)} characters, more than {MAX_NOTE}"
        if not 0 <= self.seconds < 2**31:
            return f"{self.seconds} seconds are no time"
        return None


@dataclass(frozen=True)
class Labelled:
    """A label whose signature was checked."""

    digest: str
    """SHA-256 of the file: how a resolution names it."""
    bundle: str
    reviewer: str
    at: datetime
    given: Given


@dataclass(frozen=True)
class Resolved:
    """A resolution whose signature was checked."""

    bundle: str
    by: str
    at: datetime
    label: Label
    because: str
    settles: tuple[str, ...]


@dataclass(frozen=True)
class Flagged:
    """A flag whose signature was checked; one that is withdrawn says so in a file of its own."""

    bundle: str
    by: str
    at: datetime
    is_unreliable: bool
    because: str


Signed = Labelled | Resolved | Flagged


def sign_label(bundle: str, given: Given, at: datetime, key: SigningKey) -> bytes:
    """The signed label over the bundle of that digest. `UsageError` if it cannot stand."""
    problem = given.problem()
    if problem is not None:
        raise UsageError(problem)
    return sign_statement(
        {
            "form": LABEL, "bundle": bundle, "at": at.isoformat(), "label": given.label.value,
            "seconds": given.seconds, "blind": given.blind, "note": given.note,
            "cause": None if given.cause is None else given.cause.value,
            "stage": None if given.stage is None else given.stage.value,
            "is_correctable": given.is_correctable,
            "failures": [each.value for each in given.failures],
        },
        "label", key,
    )  # fmt: skip


def sign_resolution(
    labels: Iterable[Labelled], label: Label, because: str, at: datetime, key: SigningKey
) -> bytes:
    """The signed resolution of labels over one bundle. `UsageError` if there is none to settle."""
    settled = sorted(labels, key=lambda each: each.digest)
    if len({each.bundle for each in settled}) != 1:
        raise UsageError("a resolution settles the labels of one bundle; there are none, or more")
    if not because.strip() or len(because) > MAX_NOTE:
        raise UsageError(f"a resolution says why, in at most {MAX_NOTE} characters")
    return sign_statement(
        {
            "form": RESOLUTION, "bundle": settled[0].bundle, "at": at.isoformat(),
            "label": label.value, "because": because, "settles": [e.digest for e in settled],
        },
        "label", key,
    )  # fmt: skip


def sign_flag(
    bundle: str, because: str, at: datetime, key: SigningKey, *, is_unreliable: bool = True
) -> bytes:
    """The signed flag over the bundle of that digest. `UsageError` if it does not say why."""
    if not because.strip() or len(because) > MAX_NOTE:
        raise UsageError(f"a flag says why, in at most {MAX_NOTE} characters")
    return sign_statement(
        {
            "form": FLAG, "bundle": bundle, "at": at.isoformat(), "because": because,
            "is_unreliable": is_unreliable,
        },
        "label", key,
    )  # fmt: skip


def read_signed(data: bytes, trust: Sequence[Signer]) -> Signed:
    """What a reviewer signed in a file, trusted at its time. `BundleError`."""
    if len(data) > MAX_BYTES:
        raise BundleError(f"label: more than {MAX_BYTES} bytes")
    payload, at, signer = open_statement(data, "label", REVIEWER, trust)
    digest = hashlib.sha256(data.removesuffix(b"\n")).hexdigest()
    try:
        return _payload(payload, at, signer, digest)
    except (KeyError, TypeError, ValueError) as error:
        raise BundleError(f"label: {error}") from error


def keep(folder: Path, data: bytes) -> Path:
    """The file's place under `labels` in the trial's folder; nothing is overwritten."""
    path = folder / FOLDER / f"{hashlib.sha256(data).hexdigest()[:16]}.json"
    try:
        path.parent.mkdir(exist_ok=True)
        write_atomically(path, data + b"\n", exclusive=True)
    except OSError as error:
        raise StorageError(f"{path}: the label cannot be kept: {error.strerror}") from error
    return path


def kept(
    folder: Path, bundle: str, trust: Sequence[Signer]
) -> tuple[tuple[Labelled, ...], tuple[Resolved, ...]]:
    """The labels and resolutions of a bundle in its trial's folder, by time. `BundleError`.

    Of several labels by one reviewer the newest counts: a reviewer may change their mind, and both
    stay on record.
    """
    found: list[Signed] = []
    place = folder / FOLDER
    for path in sorted(place.glob("*.json")) if place.is_dir() else ():
        try:
            entry = read_signed(path.read_bytes(), trust)
        except OSError as error:
            raise StorageError(f"{path}: cannot be read: {error.strerror}") from error
        except BundleError as error:
            raise BundleError(f"{path}: {error}") from error
        if entry.bundle == bundle:  # another judgement of the trial has labels of its own
            found.append(entry)
    labels = {
        each.reviewer: each
        for each in sorted(
            (e for e in found if isinstance(e, Labelled)), key=lambda e: (e.at, e.digest)
        )
    }
    resolutions = sorted((e for e in found if isinstance(e, Resolved)), key=lambda e: e.at)
    return tuple(labels[name] for name in sorted(labels)), tuple(resolutions)


def by_key(folder: Path, bundle: str, public: bytes) -> Labelled | None:
    """The newest label of the bundle by one key; the labels of others are not opened up.

    A reviewer is shown nobody else's label before they have signed their own.
    """
    own = Signer("you", public, (REVIEWER,), None, None)
    found: list[Labelled] = []
    place = folder / FOLDER
    for path in sorted(place.glob("*.json")) if place.is_dir() else ():
        try:
            entry = read_signed(path.read_bytes(), (own,))
        except OSError as error:
            raise StorageError(f"{path}: cannot be read: {error.strerror}") from error
        except BundleError:
            continue  # another's, or damaged: `agreement` says which
        if isinstance(entry, Labelled) and entry.bundle == bundle:
            found.append(entry)
    return max(found, key=lambda each: (each.at, each.digest), default=None)


def settled(labels: Sequence[Labelled], resolutions: Sequence[Resolved]) -> Label | None:
    """What holds of the trial: the label all agree on, or the resolution of exactly these labels.

    Labels that disagree and are not settled count as unresolvable; None where there are none.
    """
    if not labels:
        return None
    now = {each.digest for each in labels}
    for resolution in reversed(resolutions):
        if now <= set(resolution.settles):
            return resolution.label
    found = {each.given.label for each in labels}
    return found.pop() if len(found) == 1 else Label.UNRESOLVABLE


def unreliable(flags: Iterable[Flagged]) -> tuple[Flagged, ...]:
    """The flags that stand, by name of who set them: of several by one reviewer the newest."""
    newest = {each.by: each for each in sorted(flags, key=lambda each: each.at)}
    return tuple(newest[name] for name in sorted(newest) if newest[name].is_unreliable)


def _payload(payload: Mapping[str, Json], at: datetime, name: str, digest: str) -> Signed:
    bundle = str(payload["bundle"])
    if payload.get("form") == FLAG:
        return _flagged(payload, name, at)
    label = Label(payload["label"])
    match payload.get("form"), tuple(sorted(payload)):
        case "statediff/label/1" | "statediff/label/2" as form, keys if keys == (
            _LABEL if form == LABEL else _FIRST
        ):
            given = _given(payload, label)
            return Labelled(digest, bundle, name, at, given)
        case "statediff/resolution/1", keys if keys == _RESOLVED:
            settles = tuple(str(entry) for entry in payload["settles"])
            return Resolved(bundle, name, at, label, str(payload["because"]), settles)
    raise ValueError("neither a label nor a resolution of this version")


def _flagged(payload: Mapping[str, Json], name: str, at: datetime) -> Flagged:
    if tuple(sorted(payload)) != _FLAGGED:
        raise ValueError("no flag of this version")
    is_unreliable, because = payload["is_unreliable"], payload["because"]
    if not isinstance(is_unreliable, bool) or not isinstance(because, str):
        raise TypeError("is_unreliable is true or false, and why is text")
    return Flagged(str(payload["bundle"]), name, at, is_unreliable, because[:MAX_NOTE])


def _given(payload: Mapping[str, Json], label: Label) -> Given:
    cause, stage = payload["cause"], payload["stage"]
    correctable = payload["is_correctable"]
    if not isinstance(payload["blind"], bool) or not isinstance(correctable, bool | None):
        raise TypeError("blind and is_correctable are true or false")
    if not isinstance(payload["seconds"], int) or not isinstance(payload["note"], str):
        raise TypeError("seconds are a number, the note is text")
    given = Given(
        label,
        payload["seconds"],
        payload["blind"],
        cause=None if cause is None else Cause(cause),
        stage=None if stage is None else Component(stage),
        is_correctable=correctable,
        note=payload["note"],
        failures=tuple(Failure(each) for each in payload.get("failures", ())),
    )
    problem = given.problem()
    if problem is not None:
        raise ValueError(problem)
    return given
