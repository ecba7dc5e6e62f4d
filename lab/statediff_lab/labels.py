"""Reviewers' labels of trials: signed, kept beside the bundle and apart from the verdict.

A label says whether the agent's run was right: `correct`, `incorrect` or `unresolvable` [SSD §V].
Where it contradicts the verdict it may name the cause: agent failure, evaluator failure (at which
stage, and whether a reviewer could tell from the evidence), contract ambiguity or environment
failure [SSD §VI], and in which ways the evaluation failed [TV §3.4]. A resolution settles labels
that disagree; it names each label that it settles. A flag says that a case is not to be relied on,
and why, whatever its verdict [TV §3.6]. None of them ever changes a verdict.

The second half measures how far reviewers agree with each other, and verdicts with the settled
labels. It is exact: every figure is a fraction, or None where it is not defined (nobody labelled
the same trial, or chance alone explains everything).
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from statediff.atomic import sync_folder, write_atomically
from statediff.errors import BundleError, StorageError, UsageError
from statediff.evidence.statements import REVIEWER, open_statement, payload_of, sign_statement
from statediff.evidence.verify import Signer
from statediff.statistics.binomial import Share, clopper_pearson
from statediff.suite.records import domain_of

if TYPE_CHECKING:
    from statediff.evidence.keys import SigningKey
    from statediff.evidence.log import Record

Json = Any
LABEL: Final = "statediff/label/2"
LOOK: Final = "statediff/label/3"
"""The form of a label by somebody who saw only what one evaluator shows."""
RESOLUTION: Final = "statediff/resolution/1"
FLAG: Final = "statediff/flag/1"
FOLDER: Final = "labels"
MAX_NOTE: Final = 4000
MAX_SHOWN: Final = 100
MAX_BYTES: Final = 64 * 1024
_LABEL: Final = (
    "at",
    "blind",
    "bundle",
    "cause",
    "failures",
    "form",
    "is_correctable",
    "label",
    "note",
    "seconds",
    "stage",
)
_LOOK: Final = tuple(sorted((*_LABEL, "shown")))
"""What a label of the first form says; it is still read."""
_FLAGGED: Final = ("at", "because", "bundle", "form", "is_unreliable")
_RESOLVED: Final = ("at", "because", "bundle", "form", "label", "settles")


class Label(StrEnum):
    """A reviewer's decision on whether the run was right."""

    CORRECT = "correct"
    INCORRECT = "incorrect"
    UNRESOLVABLE = "unresolvable"


class Cause(StrEnum):
    """Whose fault it is where run, verdict and contract do not agree."""

    AGENT = "agent-failure"
    EVALUATOR = "evaluator-failure"
    CONTRACT = "contract-ambiguity"
    ENVIRONMENT = "environment-failure"


class Component(StrEnum):
    """The stage at which the evaluator failed."""

    CAPTURE = "capture"
    RESOLVE = "resolve"
    CANONICALIZE = "canonicalize"
    DIFF = "diff"
    POLICY = "policy"
    EVIDENCE = "evidence"


class Failure(StrEnum):
    """How an evaluation went wrong [TV §3.4]; one case may show several."""

    EXACT_MATCH = "exact-match"
    OVER_SPECIFICATION = "state-over-specification"
    LOCK_IN = "trajectory-lock-in"
    ANNOTATION = "annotation-error"
    REWARD = "reward-misalignment"
    DRIFT = "rubric-drift"
    VARIANCE = "judge-variance"
    HALLUCINATED = "hallucinated-completion"
    MISMATCH = "implementation-specification-mismatch"


@dataclass(frozen=True)
class Review:
    """A reviewer's statement about one bundle; `seconds` is how long the review took."""

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
    shown: str | None = None
    """The evaluator of which alone the reviewer saw what it shows; such a label settles nothing."""

    def problem(self) -> str | None:
        """Why it cannot stand as it is; None if it can."""
        if self.cause is not Cause.EVALUATOR and (
            self.stage is not None or self.is_correctable is not None
        ):
            return "a stage, and whether it could be known, belong to an evaluator failure"
        if self.failures and self.cause not in (Cause.EVALUATOR, Cause.CONTRACT):
            return "kinds of failure belong to an evaluator failure or a contract ambiguity"
        if list(self.failures) != sorted(set(self.failures)):
            return "kinds of failure are named once each, in order"
        if self.shown is not None and (not self.shown or len(self.shown) > MAX_SHOWN):
            return f"an evaluator has a name of at most {MAX_SHOWN} characters"
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
    given: Review


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


def sign_label(bundle: str, given: Review, at: datetime, key: SigningKey) -> bytes:
    """The signed label over the bundle of that digest. `UsageError` if it cannot stand."""
    problem = given.problem()
    if problem is not None:
        raise UsageError(problem)
    look = {} if given.shown is None else {"shown": given.shown}
    return sign_statement(
        {
            **look,
            "form": LOOK if look else LABEL,
            "bundle": bundle,
            "at": at.isoformat(),
            "label": given.label.value,
            "seconds": given.seconds,
            "blind": given.blind,
            "note": given.note,
            "cause": None if given.cause is None else given.cause.value,
            "stage": None if given.stage is None else given.stage.value,
            "is_correctable": given.is_correctable,
            "failures": [each.value for each in given.failures],
        },
        "label",
        key,
    )


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
            "form": RESOLUTION,
            "bundle": settled[0].bundle,
            "at": at.isoformat(),
            "label": label.value,
            "because": because,
            "settles": [e.digest for e in settled],
        },
        "label",
        key,
    )


def sign_flag(
    bundle: str, because: str, at: datetime, key: SigningKey, *, is_unreliable: bool = True
) -> bytes:
    """The signed flag over the bundle of that digest. `UsageError` if it does not say why."""
    if not because.strip() or len(because) > MAX_NOTE:
        raise UsageError(f"a flag says why, in at most {MAX_NOTE} characters")
    return sign_statement(
        {
            "form": FLAG,
            "bundle": bundle,
            "at": at.isoformat(),
            "because": because,
            "is_unreliable": is_unreliable,
        },
        "label",
        key,
    )


def read_signed(data: bytes, trust: Sequence[Signer]) -> Signed:
    """Read what a reviewer signed in a file, trusted at its time. `BundleError`."""
    if len(data) > MAX_BYTES:
        raise BundleError(f"label: more than {MAX_BYTES} bytes")
    payload, at, signer = open_statement(data, "label", REVIEWER, trust)
    digest = hashlib.sha256(data.removesuffix(b"\n")).hexdigest()
    try:
        return _signed_from(payload, at, signer, digest)
    except (KeyError, TypeError, ValueError) as error:
        raise BundleError(f"label: {error}") from error


def keep_signed(folder: Path, data: bytes) -> Path:
    """The file's place under `labels` in the trial's folder; nothing is overwritten."""
    path = folder / FOLDER / f"{hashlib.sha256(data).hexdigest()[:16]}.json"
    try:
        path.parent.mkdir(exist_ok=True)
        write_atomically(path, data + b"\n", exclusive=True, durable=True)
        sync_folder(folder)
    except OSError as error:
        raise StorageError(f"{path}: the label cannot be kept: {error.strerror}") from error
    return path


def labels_in(
    folder: Path, bundle: str, trust: Sequence[Signer]
) -> tuple[tuple[Labelled, ...], tuple[Resolved, ...]]:
    """The labels and resolutions of a bundle in its trial's folder, by time. `BundleError`.

    Of several labels by one reviewer the newest counts: a reviewer may change their mind, and both
    stay on record. What was said of one evaluator's view alone is in `looks_in`.
    """
    found = list(_signed_in(folder, bundle, trust))
    whole = (e for e in found if isinstance(e, Labelled) and e.given.shown is None)
    labels = {each.reviewer: each for each in sorted(whole, key=lambda e: (e.at, e.digest))}
    resolutions = sorted((e for e in found if isinstance(e, Resolved)), key=lambda e: e.at)
    return tuple(labels[name] for name in sorted(labels)), tuple(resolutions)


def looks_in(folder: Path, bundle: str, trust: Sequence[Signer]) -> tuple[Labelled, ...]:
    """Labels by reviewers who saw one evaluator's view alone: of each reviewer the first counts.

    A second look knows what the first has shown. `BundleError`.
    """
    found = _signed_in(folder, bundle, trust)
    looks = (e for e in found if isinstance(e, Labelled) and e.given.shown is not None)
    latest_first = sorted(looks, key=lambda e: (e.at, e.digest), reverse=True)
    return tuple({each.reviewer: each for each in latest_first}.values())


def _signed_in(
    folder: Path, bundle: str, trust: Sequence[Signer], *, only_trusted: bool = False
) -> Iterator[Signed]:
    """The signed statements on the bundle; with `only_trusted` all by others are passed over."""
    place = folder / FOLDER
    for path in sorted(place.glob("*.json")) if place.is_dir() else ():
        try:
            entry = read_signed(path.read_bytes(), trust)
        except OSError as error:
            raise StorageError(f"{path}: cannot be read: {error.strerror}") from error
        except BundleError as error:
            if only_trusted:
                continue  # another's, or damaged: `agreement` says which
            raise BundleError(f"{path}: {error}") from error
        if entry.bundle == bundle:  # another judgement of the trial has labels of its own
            yield entry


def own_label(folder: Path, bundle: str, public: bytes) -> Labelled | None:
    """The newest label of the bundle by one key; the labels of others are not opened up.

    A reviewer is shown nobody else's label before they have signed their own.
    """
    own = Signer("you", public, (REVIEWER,), None, None)
    signed = _signed_in(folder, bundle, (own,), only_trusted=True)
    found = [e for e in signed if isinstance(e, Labelled) and e.given.shown is None]
    return max(found, key=lambda each: (each.at, each.digest), default=None)


def settled_label(labels: Sequence[Labelled], resolutions: Sequence[Resolved]) -> Label | None:
    """The trial's label: the one all agree on, or the resolution of exactly these labels.

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


def standing_flags(flags: Iterable[Flagged]) -> tuple[Flagged, ...]:
    """The flags that stand, by name of who set them: of several by one reviewer the newest."""
    newest = {each.by: each for each in sorted(flags, key=lambda each: each.at)}
    return tuple(newest[name] for name in sorted(newest) if newest[name].is_unreliable)


def _signed_from(payload: Mapping[str, Json], at: datetime, name: str, digest: str) -> Signed:
    bundle = payload["bundle"]
    if not isinstance(bundle, str):
        raise TypeError("the bundle is named by a text")
    if payload.get("form") == FLAG:
        return _flag_from(payload, name, at)
    label = Label(payload["label"])
    match payload.get("form"), tuple(sorted(payload)):
        case "statediff/label/2" | "statediff/label/3" as form, keys if (
            keys == {LOOK: _LOOK, LABEL: _LABEL}[form]
        ):
            given = _review_from(payload, label)
            return Labelled(digest, bundle, name, at, given)
        case "statediff/resolution/1", keys if keys == _RESOLVED:
            because, settles = payload["because"], payload["settles"]
            if not isinstance(settles, list):
                raise TypeError("what is settled is a list")
            if not all(isinstance(text, str) for text in (because, *settles)):
                raise TypeError("why, and what is settled, are texts")
            return Resolved(bundle, name, at, label, because, tuple(settles))
    raise ValueError("neither a label nor a resolution of this version")


def _flag_from(payload: Mapping[str, Json], name: str, at: datetime) -> Flagged:
    if tuple(sorted(payload)) != _FLAGGED:
        raise ValueError("no flag of this version")
    is_unreliable, because = payload["is_unreliable"], payload["because"]
    if not isinstance(is_unreliable, bool) or not isinstance(because, str):
        raise TypeError("is_unreliable is true or false, and why is text")
    return Flagged(payload["bundle"], name, at, is_unreliable, because[:MAX_NOTE])


def _review_from(payload: Mapping[str, Json], label: Label) -> Review:
    cause, stage = payload["cause"], payload["stage"]
    correctable = payload["is_correctable"]
    if not isinstance(payload["blind"], bool) or not isinstance(correctable, bool | None):
        raise TypeError("blind and is_correctable are true or false")
    if type(payload["seconds"]) is not int or not isinstance(payload["note"], str):
        raise TypeError("seconds are a number, the note is text")
    shown = payload.get("shown")
    if "shown" in payload and not isinstance(shown, str):
        raise TypeError("the evaluator that was shown is named by a text")
    failures = payload["failures"]
    if not isinstance(failures, list):
        raise TypeError("kinds of failure are a list")
    given = Review(
        label,
        payload["seconds"],
        payload["blind"],
        cause=None if cause is None else Cause(cause),
        stage=None if stage is None else Component(stage),
        is_correctable=correctable,
        note=payload["note"],
        failures=tuple(map(Failure, failures)),
        shown=shown,
    )
    problem = given.problem()
    if problem is not None:
        raise ValueError(problem)
    return given


EXPECTED: Final = {"MATCH": Label.CORRECT, "DIVERGE": Label.INCORRECT}
"""The label that a verdict should meet; INCONCLUSIVE claims nothing."""

_DISAGREEMENTS: Final = {
    ("DIVERGE", Label.CORRECT): "false-negative",
    ("MATCH", Label.INCORRECT): "false-positive",
}
Votes = Sequence[Mapping[str, Label]]
"""For each trial, reviewer → label."""


@dataclass(frozen=True)
class ReviewerPair:
    """Two reviewers over the trials that both labelled."""

    one: str
    other: str
    trials: int
    agree: int
    kappa: Fraction | None
    """Cohen's."""


@dataclass(frozen=True)
class VerdictAgreement:
    """Verdicts beside settled labels, INCONCLUSIVE and unresolvable apart."""

    trials: int
    agree: int
    false_acceptances: int
    """MATCH where the run was incorrect."""
    false_rejections: int
    """DIVERGE where the run was correct."""
    inconclusive: int
    unresolvable: int

    @property
    def decided(self) -> int:
        """Trials with a MATCH or a DIVERGE and a label that says right or wrong."""
        return self.trials - self.inconclusive - self.unresolvable


@dataclass(frozen=True, kw_only=True)
class SettledTrial:
    """A trial whose label is settled, and its verdict."""

    trial: str
    contract: str
    version: str
    digest: str
    kernel: str
    verdict: str
    label: Label
    bundle: str
    """The digest of its bundle."""

    @property
    def disagreement(self) -> str | None:
        """How its verdict contradicts the label [TV eq. 5]; None where it does not."""
        return _DISAGREEMENTS.get((self.verdict, self.label))


@dataclass(frozen=True)
class DisagreementRates:
    """How often verdicts of one kernel contradict the labels of one domain [TV eqs. 5–6].

    Each share is None where a contract of the domain is there in two forms: they are two
    evaluators, and have no common rate.
    """

    domain: str
    kernel: str
    contracts: tuple[str, ...]
    decided: int
    """Trials with a MATCH or a DIVERGE and a label that says right or wrong."""
    error: Share | None
    """Of the decided ones."""
    false_negatives: Share | None
    """DIVERGE, of the decided runs that were correct."""
    false_positives: Share | None
    """MATCH, of the decided runs that were incorrect."""


def rates(settled: Sequence[SettledTrial]) -> tuple[DisagreementRates, ...]:
    """By domain and kernel; there is no figure over all of them."""
    groups: dict[tuple[str, str], list[SettledTrial]] = defaultdict(list)
    for each in settled:
        groups[domain_of(each.contract), each.kernel].append(each)
    return tuple(_rates(*key, members) for key, members in sorted(groups.items()))


def _rates(domain: str, kernel: str, members: Sequence[SettledTrial]) -> DisagreementRates:
    forms = {(each.contract, each.version, each.digest) for each in members}
    decided = [e for e in members if e.verdict in EXPECTED and e.label is not Label.UNRESOLVABLE]
    is_one = len({contract for contract, _, _ in forms}) == len(forms)

    def share(of: Sequence[SettledTrial]) -> Share | None:
        wrong = sum(each.disagreement is not None for each in of)
        return clopper_pearson(wrong, len(of)) if is_one else None

    return DisagreementRates(
        domain,
        kernel,
        tuple(sorted({f"{contract} {version}" for contract, version, _ in forms})),
        len(decided),
        share(decided),
        share([each for each in decided if each.label is Label.CORRECT]),
        share([each for each in decided if each.label is Label.INCORRECT]),
    )


def pairs(votes: Votes) -> tuple[ReviewerPair, ...]:
    """Every two reviewers who labelled a trial both, by name."""
    names = sorted({name for each in votes for name in each})
    found = []
    for one, other in itertools.combinations(names, 2):
        both = [(each[one], each[other]) for each in votes if one in each and other in each]
        if both:
            agree = sum(a == b for a, b in both)
            found.append(ReviewerPair(one, other, len(both), agree, cohen(both)))
    return tuple(found)


def cohen(both: Sequence[tuple[Label, Label]]) -> Fraction | None:
    """Cohen's kappa over pairs of labels; None where chance alone would agree always."""
    if not both:
        return None
    total = len(both)
    observed = Fraction(sum(a == b for a, b in both), total)
    one, other = Counter(a for a, _ in both), Counter(b for _, b in both)
    chance = sum((Fraction(one[x] * other[x], total * total) for x in Label), Fraction(0))
    return None if chance == 1 else (observed - chance) / (1 - chance)


def fleiss(votes: Votes) -> tuple[int, Fraction | None]:
    """(trials, Fleiss' kappa) over the trials that as many reviewers as possible labelled."""
    most = max((len(each) for each in votes), default=0)
    counted = [Counter(each.values()) for each in votes if len(each) == most]
    if most < 2:
        return 0, None
    total = len(counted)
    within = sum(
        (Fraction(sum(n * n for n in each.values()) - most, most * (most - 1)) for each in counted),
        Fraction(0),
    )
    shares = [Fraction(sum(each[x] for each in counted), total * most) for x in Label]
    chance = sum((share * share for share in shares), Fraction(0))
    return total, None if chance == 1 else (within / total - chance) / (1 - chance)


def against(verdicts: Sequence[tuple[str, Label]]) -> VerdictAgreement:
    """Verdicts and the labels that were settled for them, trial by trial."""
    decided = [
        (verdict, label)
        for verdict, label in verdicts
        if verdict in EXPECTED and label is not Label.UNRESOLVABLE
    ]
    return VerdictAgreement(
        trials=len(verdicts),
        agree=sum(EXPECTED[verdict] is label for verdict, label in decided),
        false_acceptances=sum(pair == ("MATCH", Label.INCORRECT) for pair in decided),
        false_rejections=sum(pair == ("DIVERGE", Label.CORRECT) for pair in decided),
        inconclusive=sum(verdict not in EXPECTED for verdict, _ in verdicts),
        unresolvable=sum(
            verdict in EXPECTED and label is Label.UNRESOLVABLE for verdict, label in verdicts
        ),
    )


def median_seconds(seconds: Sequence[int]) -> float | None:
    """The median time of a review; None without any."""
    return float(median(seconds)) if seconds else None


def record_of(data: bytes, trust: Sequence[Signer] | None, secret: bytes) -> Record | None:
    """A log's record of a label or a resolution; None of other files. `BundleError`, `UsageError`.

    The bundle that it is about is named under the log's secret.
    """
    from statediff.evidence.log import Record, keyed  # noqa: PLC0415 - commands load labels

    try:
        form = json.loads(payload_of(data, "record"))["form"]
    except (BundleError, ValueError, RecursionError, TypeError, KeyError):
        return None
    if trust is None or form not in (LABEL, LOOK, FLAG, RESOLUTION):
        return None
    found = read_signed(data, trust)
    if isinstance(found, Flagged):
        raise UsageError("a flag is kept beside its bundle, and is no record of a log")
    if isinstance(found, Labelled):
        kind, said = "adjudication", {"by": found.reviewer, "label": found.given.label.value}
        if found.given.cause is not None:
            said["cause"] = found.given.cause.value
    else:
        kind, said = "resolution", {"by": found.by, "label": found.label.value}
        said["because"] = found.because
    digest = hashlib.sha256(data.removesuffix(b"\n")).hexdigest()
    return Record(kind, keyed(secret, found.bundle), digest, said)
