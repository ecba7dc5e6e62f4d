"""The desk: which trials lie on it, what of each may be seen, and what the reviewer signs.

1. A reviewer sees no label of another before they have signed their own.
2. A blind reviewer sees no verdict and no finding of a trial before they have signed its label;
   afterwards the label stands, and only a cause may still be given.
3. Whatever is signed is kept at once, beside the bundle. A desk that is left and opened again by
   the same key goes on where it was left.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from statediff.errors import BundleError, UsageError
from statediff.evidence.documents import key_from
from statediff.evidence.keys import SigningKey
from statediff.evidence.package import Bundle
from statediff.evidence.verify import Signer
from statediff.reports.html.cells import cut, entity, first, name, rest
from statediff.reports.html.changes import STANDINGS, Standings, View
from statediff.reports.html.trial import trial_view
from statediff.reports.html.words import Sign
from statediff.reports.record import Parsed, parsed, reading
from statediff.reports.wording.worded import worded_judgement
from statediff_lab.labels import Labelled, Review, keep_signed, labels_in, own_label, sign_label

Json = Any
MAX_PAIRS: Final = 200
MAX_ALONE: Final = 200


_OPEN: Final = next(sign for sign in STANDINGS if sign.style == "open")
_HIDDEN: Final = "not shown"
CHANGED: Final = Sign(_OPEN.style, _OPEN.mark, "changed")


class Unjudged(Standings):
    """Every change is a change, and a place nobody saw is one, and nothing else."""

    doubt = Sign("unknown", "?", "not observed")

    def of(self, delta: Json) -> Sign:
        """That it is a change."""
        return CHANGED


def unjudged(bundle: Bundle, where: str) -> Parsed:
    """The bundle as if nobody had judged it [SSD §V]; `BundleError` if it contradicts itself.

    What is hidden is taken out of the documents before a page is made of them, so no template can
    show it: the verdict, the truth of clauses, the findings, what explains a change, the labels and
    the numbers. What stays is what was asked, what was read and what changed.
    """
    with reading(where):
        documents: Mapping[str, Json] = {
            "judgement.json": _without_judgement(worded_judgement(bundle)),
            # The names of an agent and of a trial often tell what was expected of them.
            "trial.json": {**bundle.document("trial.json"), "agent": _HIDDEN, "id": _HIDDEN},
        }
        manifest = {**bundle.manifest, "verdict": "INCONCLUSIVE", "trial": _HIDDEN}
        files = {name: data for name, data in bundle.files.items() if name not in documents}
        return Parsed(manifest, files, documents=dict(documents))


def _without_judgement(judged: Json) -> Json:
    return {
        "verdict": "INCONCLUSIVE", "findings": [], "explained_by": [],
        "clauses": [{**clause, "truth": "UNKNOWN"} for clause in judged["clauses"]],
        "results": dict.fromkeys(judged["results"]), "metrics": dict.fromkeys(judged["metrics"]),
        "deltas": [{**delta, "label": ""} for delta in judged["deltas"]],
        "during": [{**delta, "label": ""} for delta in judged["during"]],
        "hidden": [{**each, "delta": {**each["delta"], "label": ""}} for each in judged["hidden"]],
        "doubts": judged["doubts"],
    }  # fmt: skip


@dataclass(frozen=True)
class Matched:
    """Two entities taken for one, and the rule that says so."""

    before: str
    after: str
    rule: str


@dataclass(frozen=True)
class Identities:
    """The matching that the decision rests on."""

    matched: tuple[Matched, ...]
    more_matched: str
    by_key: tuple[tuple[str, int], ...]
    """Type → how many changed entities were found on both sides under one key."""
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    more_alone: str
    ambiguous: tuple[str, ...]


def identities(bundle: Bundle, where: str) -> Identities:
    """Identities, as `resolution.json` and the changes say; `BundleError`."""
    with reading(where):
        resolved = bundle.document("resolution.json")
        deltas = bundle.document("judgement.json")["deltas"]
        pairs = resolved["mappings"][0]
        gone = [_name(d) for d in deltas if d["op"] in ("delete", "unlink") and not d["path"]]
        new = [_name(d) for d in deltas if d["op"] in ("create", "link") and not d["path"]]
        both = {(d["type"], str(d["key"])) for d in deltas if d["path"]}
        return Identities(
            tuple(
                Matched(
                    entity(pair["type"], key_from(pair["before"])),
                    entity(pair["type"], key_from(pair["after"])),
                    cut(pair["rule"]),
                )
                for pair in first(pairs, MAX_PAIRS)
            ),
            rest(pairs, MAX_PAIRS, "matched entities"),
            tuple((name(t), n) for t, n in sorted(Counter(t for t, _ in both).items())),
            tuple(gone[:MAX_ALONE]),
            tuple(new[:MAX_ALONE]),
            rest([*gone, *new], 2 * MAX_ALONE, "entities on one side only")
            if max(len(gone), len(new)) > MAX_ALONE
            else "",
            tuple(cut(f"{of}: {cause}") for of, cause in resolved["ambiguous"][:MAX_PAIRS]),
        )


def _name(delta: Json) -> str:
    return entity(delta["type"], key_from(delta["key"]))


_KEPT_VIEWS = 4


@dataclass(frozen=True)
class Case:
    """A trial on the desk: its bundle by digest, how it is read, and where its labels go."""

    digest: str
    folder: Path
    read: Callable[[], Bundle]


@dataclass(frozen=True)
class Seen:
    """The part of a trial that may be shown now."""

    trial: View
    identities: Identities
    is_judged: bool
    """True if verdict and findings are in it."""


class Desk:
    """One reviewer's trials. Its methods may be called from several threads."""

    def __init__(
        self,
        cases: Sequence[Case],
        key: SigningKey,
        *,
        is_blind: bool,
        clock: Callable[[], float],
        now: Callable[[], datetime],
        trust: Sequence[Signer] = (),
    ) -> None:
        """`clock` measures reviews in seconds, `now` is aware UTC for what is signed."""
        self.cases = tuple(cases)
        self.is_blind = is_blind
        self._key = key
        self._clock, self._now = clock, now
        self._trust = tuple(trust)
        self._lock = threading.RLock()
        self._labels = [own_label(case.folder, case.digest, key.public) for case in self.cases]
        self._spent = [0.0] * len(self.cases)
        self._open: tuple[int, float] | None = None
        self._seen = lru_cache(_KEPT_VIEWS)(self._view)

    def label(self, number: int) -> Labelled | None:
        """The label that this reviewer signed of a trial."""
        with self._lock:
            return self._labels[number]

    def labels(self) -> tuple[Labelled | None, ...]:
        """The same of every trial, in the order of the desk."""
        with self._lock:
            return tuple(self._labels)

    def is_judged(self, number: int) -> bool:
        """True if verdict and findings of a trial may be shown."""
        return not self.is_blind or self.label(number) is not None

    def look(self, number: int) -> Seen:
        """Open what may be shown of a trial, whose time runs from now on. `BundleError`."""
        with self._lock:
            seen = self._seen(number, self.is_judged(number))
            self._stop()
            self._open = number, self._clock()
            return seen

    def leave(self) -> None:
        """No trial is being looked at; no time runs."""
        with self._lock:
            self._stop()

    def sign(self, number: int, given: Review) -> Labelled:
        """The label is signed and kept; `seconds` and `blind` are filled in here.

        `UsageError` if it cannot stand, or would change a label that was given blind.
        """
        with self._lock:
            before = self._labels[number]
            self._stop()
            spent = 0 if before is None else before.given.seconds
            seconds = spent + round(self._spent[number])
            if before is not None and before.given.blind and given.label is not before.given.label:
                raise UsageError(
                    f"this trial was labelled {before.given.label.value} blind; that label stands"
                )
            is_blind = self.is_blind if before is None else before.given.blind
            if is_blind and before is None and _says_why(given):
                raise UsageError("who is at fault is said after the label, once the verdict shows")
            now = self._now()
            if before is not None:  # the newest counts, also within one second
                now = max(now, before.at + timedelta(seconds=1))
            case = self.cases[number]
            whole = replace(given, seconds=seconds, blind=is_blind)
            keep_signed(case.folder, sign_label(case.digest, whole, now, self._key))
            signed = own_label(case.folder, case.digest, self._key.public)
            if signed is None:
                raise BundleError(f"{case.folder}: the label was kept and cannot be read again")
            self._labels[number] = signed
            self._spent[number] = 0.0
            return signed

    def next(self, number: int) -> int | None:
        """The next trial after a trial that has no label yet, round the desk; None if all have."""
        found = self.labels()
        order = [*range(number + 1, len(found)), *range(number + 1)]
        return next((at for at in order if found[at] is None), None)

    def others(self, number: int) -> tuple[Labelled, ...]:
        """The labels of other reviewers that the trust file knows, once one's own is signed."""
        own = self.label(number)
        if own is None or not self._trust:
            return ()
        case = self.cases[number]
        labels, _ = labels_in(case.folder, case.digest, self._trust)
        return tuple(each for each in labels if each.digest != own.digest)

    def _stop(self) -> None:
        if self._open is not None:
            number, since = self._open
            self._spent[number] += max(0.0, self._clock() - since)
            self._open = None

    def _view(self, number: int, is_judged: bool) -> Seen:
        case = self.cases[number]
        bundle = case.read()
        if bundle.digest != case.digest:
            raise BundleError(f"{case.folder}: the bundle is another than when the review began")
        where = str(case.folder)
        shown = parsed(bundle) if is_judged else unjudged(bundle, where)
        view = trial_view(shown, where, Standings if is_judged else Unjudged)
        return Seen(view, identities(shown, where), is_judged)


def _says_why(given: Review) -> bool:
    return given.cause is not None or bool(given.failures)
