"""Scores of recorded reads [GE §6]: many traces at once, each the same as alone.

    combined = w_a · answer + w_t · trajectory        adjusted = combined · (1 − v)²

v is the share of the gated calls (searches and fetches) that break a rule; a call counts once,
however many rules it breaks, and also if the gate refused it: attempting is what is measured, and
`leaked` counts what came through. Where nothing was read at all no part of a trajectory is earned.

Trajectories, each part from 0 to 1 (weights of the code released with [GE], docs/facts.md §H):

* Perspective: .30 calls within V_a, .25 permitted among the subsystems touched, .20 grounding (the
  evidence fetched; where there is none to find, that every citation was validly fetched), .15 calls
  within the horizon, .10 dead ends that were recovered from.
* Counterfactual: .20 cause fetched, .20 effect fetched, .35 evidence fetched, .15 calls within the
  horizon, .10 mechanism of the vocabulary named.
* Silence: .80 search space covered, .20 calls within the horizon.

Answers score by the formulas of [GE] and the code released with it. Shares of a set are recalls:
what was asked for and is there. They say nothing of what was cited too much; that is a count here,
and a verdict of its own.

Counts are exact; scores are sums of a few products in IEEE double precision, in a fixed order, and
shown rounded to six decimals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, repeat
from operator import gt, ne, not_
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from statediff_lab.reads.cone import Policy
from statediff_lab.reads.config import EvaluationConfig
from statediff_lab.reads.gate import CallKind, ReadOutcome, ReadTrace
from statediff_lab.reads.log import Corpus
from statediff_lab.reads.questions import (
    CounterfactualTruth,
    PerspectiveTruth,
    Question,
    SilenceTruth,
    Track,
    fold_mechanism,
)

CAUSE_TO_EFFECT: Final = "cause_to_effect"
_CORRECT_FROM: Final = {
    Track.PERSPECTIVE: (3, 5),
    Track.COUNTERFACTUAL: (4, 5),  # [GE §5.2]
    Track.SILENCE: (1, 1),
}
MAX_CITATIONS: Final = 10_000


def listed_texts(answer: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """The texts of a list in an answer, each once, in order; nothing where it is no list."""
    found = answer.get(name, ())
    if not found or not isinstance(found, list | tuple):
        return ()
    return tuple(dict.fromkeys(x for x in found[:MAX_CITATIONS] if isinstance(x, str)))


def names_mechanism(question: Question, answer: Mapping[str, Any]) -> bool:
    """True if the answer names a mechanism of the configured vocabulary."""
    truth = question.truth
    return (
        isinstance(truth, CounterfactualTruth)
        and fold_mechanism(answer.get("mechanism")) in truth.mechanisms
    )


def answer_share(
    question: Question, answer: Mapping[str, Any] | None, listed: tuple[str, ...] | None = None
) -> tuple[int, int]:
    """How right the answer is, exactly, as numerator and denominator; 0 where there is none.

    `listed` is what it cites, where that is known already.
    """
    if answer is None:
        return 0, 1
    truth = question.truth
    if isinstance(truth, SilenceTruth):
        return int(answer.get("exists") is truth.exists), 1
    listed = listed_texts(answer, "evidence") if listed is None else listed
    cited, all_cited = _recall(listed, truth.evidence)
    if isinstance(truth, PerspectiveTruth):
        if answer.get("could_actor_have_known") is not truth.known:
            return 0, 1
        named, all_named = _recall(listed_texts(answer, "blocked_subsystems"), truth.blocked)
        fifths = 3 * all_cited * all_named + cited * all_named + named * all_cited
        return fifths, 5 * all_cited * all_named
    twentieths = (
        4 * (answer.get("outcome_changed") is truth.outcome_changed)
        + 4 * names_mechanism(question, answer)
        + 4 * (answer.get("cause") == truth.cause)
        + 4 * (answer.get("effect") == truth.effect)
        + 2 * (answer.get("direction") == CAUSE_TO_EFFECT)
    )
    people, all_people = _recall(listed_texts(answer, "actors"), truth.actors)
    both = all_cited * all_people
    return twentieths * both + cited * all_people + people * all_cited, 20 * both


def is_correct(question: Question, share: tuple[int, int]) -> bool:
    """True if an answer of this share counts as correct on the question's track."""
    right, whole = share
    numerator, denominator = _CORRECT_FROM[question.asked.track]
    return right * denominator >= whole * numerator


def _recall(given: tuple[str, ...], wanted: frozenset[str]) -> tuple[int, int]:
    """The share of what was wanted that was given; all of it where nothing was."""
    return (len(wanted.intersection(given)), len(wanted)) if wanted else (1, 1)


WEIGHTS: Final = {
    Track.PERSPECTIVE: (0.40, 0.60),
    Track.COUNTERFACTUAL: (0.50, 0.50),
    Track.SILENCE: (0.30, 0.70),
}
TRACKS: Final = tuple(WEIGHTS)
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class ReadRun:
    """One run: which question, what was read, what was answered (None: no answer)."""

    question: int
    trace: ReadTrace
    answer: Mapping[str, Any] | None


@dataclass(frozen=True)
class PreparedRuns:
    """Runs as arrays: a row each, and a row for each call with `run` saying whose it is."""

    question: Ints
    run: Ints
    kind: Ints
    outcome: Ints
    artifact: Ints
    subsystem: Ints
    other_actor: Flags
    beyond: Flags
    """The call asked for a later horizon than the question's."""
    empty: Flags
    """A search that named nothing."""
    cited_run: Ints
    cited: Ints
    """Citations: whose, and the artifact's code."""
    answer: Floats
    correct: Flags
    mechanism: Flags


@dataclass(frozen=True)
class Scores:
    """A row for each run; counts are of gated calls unless they say otherwise."""

    question: Ints
    track: Ints
    answer: Floats
    correct: Flags
    trajectory: Floats
    combined: Floats
    adjusted: Floats
    calls: Ints
    actor_violations: Ints
    subsystem_violations: Ints
    horizon_violations: Ints
    violating: Ints
    blocked: Ints
    """Violating calls that the gate refused."""
    leaked: Ints
    """Violating calls that delivered something."""
    others: Ints
    """Calls that are neither search nor fetch."""
    needed: Ints
    """Artifacts to be fetched: the search space of a silence, else the evidence."""
    fetched: Ints
    """Those of them that were fetched validly."""
    cited: Ints
    cited_unknown: Ints
    """Citations of what is not in the corpus."""
    cited_outside: Ints
    """Citations outside V_a or T_t."""
    cited_unread: Ints
    """Citations in the cone that were not fetched."""

    @cached_property
    def rate(self) -> Floats:
        """v, the violation rate; 0 where there were no calls."""
        return self.violating / np.maximum(self.calls, 1)


@dataclass(frozen=True, kw_only=True)
class _Calls:
    """What holds of each call, and which artifacts were read validly."""

    gated: Flags
    touched: Ints
    """The subsystem's code."""
    seen: Flags
    """The actor may see what the call touched."""
    delivered: Flags
    by_actor: Flags
    by_subsystem: Flags
    by_horizon: Flags
    violating: Flags
    reads: Ints
    """Of each valid read, run and artifact as one key."""
    read_for: Ints
    """Of each valid read, question and artifact as one key."""


@dataclass(frozen=True)
class _Citations:
    """What holds of each citation."""

    unknown: Flags
    inside: Flags
    unread: Flags


class Scorer:
    """Scores runs of a fixed set of questions over one corpus."""

    def __init__(
        self, corpus: Corpus, config: EvaluationConfig, questions: Sequence[Question]
    ) -> None:
        self.questions = tuple(questions)
        self._codes = {name: code for code, name in enumerate(sorted(corpus.artifacts))}
        self._none = len(self._codes)
        ordered = [corpus.artifacts[name] for name in self._codes]
        self._subsystems = {name: code for code, name in enumerate(sorted(config.subsystems))}
        strange, unnamed = len(self._subsystems), len(self._subsystems) + 1
        policy = Policy(config)
        actors = sorted({question.asked.actor for question in self.questions})
        sees = np.zeros((len(actors), unnamed + 1), dtype=np.bool_)
        for row, actor in enumerate(actors):
            for name in policy.sees(actor):
                sees[row, self._subsystems[name]] = True
        sees[:, unnamed] = True
        self._sees = sees
        rows = {actor: row for row, actor in enumerate(actors)}
        self._actor = _ints(rows[q.asked.actor] for q in self.questions)
        self._as_of = _ints(q.asked.as_of for q in self.questions)
        self._tracks = _ints(TRACKS.index(q.asked.track) for q in self.questions)
        self._artifact_subsystem = _ints(
            [*(self._subsystems.get(a.subsystem, strange) for a in ordered), unnamed]
        )
        self._readable = _ints([*(a.readable_from for a in ordered), np.iinfo(np.int64).min])
        attended = [
            self._key(rows[actor], self._codes[a.id])
            for a in ordered
            if config.visibility.participation
            for actor in a.people
            if actor in rows and policy.attended(actor, a)
        ]
        self._attended = np.unique(_ints(attended))
        truths = [q.truth for q in self.questions]
        wanted = [t.space if isinstance(t, SilenceTruth) else t.evidence for t in truths]
        ends = [
            (t.cause_evidence, t.effect_evidence)
            if isinstance(t, CounterfactualTruth)
            else (frozenset[str](), frozenset[str]())
            for t in truths
        ]
        self._wanted = self._keys(wanted)
        self._cause = self._keys([cause for cause, _ in ends])
        self._effect = self._keys([effect for _, effect in ends])
        self._size = _ints(len(each) for each in wanted)
        self._deniable = _flags(isinstance(t, PerspectiveTruth) and not t.known for t in truths)

    def prepare(self, cases: Sequence[ReadRun]) -> PreparedRuns:
        """The runs as arrays; what a call names and is not known gets a code of its own."""
        none, strange = self._none, len(self._subsystems)
        traces = [case.trace for case in cases]
        questions = [self.questions[case.question] for case in cases]
        lengths = [len(trace.kinds) for trace in traces]
        cited = [listed_texts(case.answer, "evidence") if case.answer else () for case in cases]
        answers = [
            answer_share(question, case.answer, listed)
            for question, case, listed in zip(questions, cases, cited, strict=True)
        ]
        subsystems: dict[str | None, int] = {None: strange + 1}
        subsystems.update(self._subsystems.items())
        return PreparedRuns(
            question=_ints([case.question for case in cases]),
            run=np.repeat(np.arange(len(cases)), lengths),
            kind=_flat(trace.kinds for trace in traces),
            outcome=_flat(trace.outcomes for trace in traces),
            artifact=_name_codes((trace.artifacts for trace in traces), self._codes, none),
            subsystem=_name_codes((trace.subsystems for trace in traces), subsystems, strange),
            other_actor=_own_flags(
                [trace.actors for trace in traces], [q.asked.actor for q in questions], ne
            ),
            beyond=_own_flags(
                [trace.as_of for trace in traces], [q.asked.as_of for q in questions], gt
            ),
            empty=np.fromiter(
                map(not_, chain.from_iterable(trace.found for trace in traces)), dtype=np.bool_
            ),
            cited_run=np.repeat(np.arange(len(cases)), [len(each) for each in cited]),
            cited=_name_codes(cited, self._codes, none),
            answer=np.asarray([right / whole for right, whole in answers], dtype=np.float64),
            correct=_flags(map(is_correct, questions, answers)),
            mechanism=_flags(
                case.answer is not None and names_mechanism(question, case.answer)
                for question, case in zip(questions, cases, strict=True)
            ),
        )

    def score(self, p: PreparedRuns) -> Scores:
        """The scores of all runs."""
        runs = len(p.question)
        calls = self._judge_calls(p)
        cited = self._judge_citations(p, calls)

        def count(flags: Flags) -> Ints:
            return np.bincount(p.run[flags], minlength=runs)

        def cites(flags: Flags) -> Ints:
            return np.bincount(p.cited_run[flags], minlength=runs)

        gated, violating = count(calls.gated), count(calls.violating)
        fetched, needed = self._fetched(p, calls, self._wanted), self._size[p.question]
        coverage = np.where(needed > 0, fetched / np.maximum(needed, 1), (gated > 0) * 1.0)
        strayed = cites(cited.unknown | ~cited.inside | cited.unread)
        track = self._tracks[p.question]
        trajectory = np.choose(track, self._trajectories(p, calls, coverage, strayed))
        weights = np.asarray([WEIGHTS[each] for each in TRACKS])
        combined = weights[track, 0] * p.answer + weights[track, 1] * trajectory
        rate = violating / np.maximum(gated, 1)
        return Scores(
            question=p.question,
            track=track,
            answer=p.answer,
            correct=p.correct,
            trajectory=trajectory,
            combined=combined,
            adjusted=combined * (1 - rate) ** 2,
            calls=gated,
            actor_violations=count(calls.by_actor),
            subsystem_violations=count(calls.by_subsystem),
            horizon_violations=count(calls.by_horizon),
            violating=violating,
            blocked=count(calls.violating & ~calls.delivered),
            leaked=count(calls.violating & calls.delivered),
            others=count(~calls.gated),
            needed=needed,
            fetched=fetched,
            cited=cites(np.ones(len(p.cited), dtype=np.bool_)),
            cited_unknown=cites(cited.unknown),
            cited_outside=cites(~cited.unknown & ~cited.inside),
            cited_unread=cites(cited.unread),
        )

    def _judge_calls(self, p: PreparedRuns) -> _Calls:
        question = p.question[p.run]
        actor, as_of = self._actor[question], self._as_of[question]
        fetch, gated = p.kind == CallKind.FETCH, p.kind != CallKind.OTHER
        known = fetch & (p.artifact != self._none)
        touched = np.where(fetch, self._artifact_subsystem[p.artifact], p.subsystem)
        attended = known & _member(self._key(actor, p.artifact), self._attended)
        seen = self._sees[actor, touched] | attended
        by_actor = gated & (p.other_actor | (known & ~seen))
        by_subsystem = gated & ~seen
        by_horizon = gated & (p.beyond | (known & (self._readable[p.artifact] > as_of)))
        violating = by_actor | by_subsystem | by_horizon
        delivered = p.outcome == ReadOutcome.DELIVERED
        valid = known & delivered & ~violating
        return _Calls(
            gated=gated,
            touched=touched,
            seen=seen,
            delivered=delivered,
            by_actor=by_actor,
            by_subsystem=by_subsystem,
            by_horizon=by_horizon,
            violating=violating,
            reads=self._key(p.run[valid], p.artifact[valid]),
            read_for=self._key(question[valid], p.artifact[valid]),
        )

    def _judge_citations(self, p: PreparedRuns, calls: _Calls) -> _Citations:
        citing = self._actor[p.question[p.cited_run]]
        unknown = p.cited == self._none
        inside = (
            self._sees[citing, self._artifact_subsystem[p.cited]]
            | _member(self._key(citing, p.cited), self._attended)
        ) & (self._readable[p.cited] <= self._as_of[p.question[p.cited_run]])
        citations = self._key(p.cited_run, p.cited)
        backed = np.unique(calls.reads[_member(calls.reads, np.unique(citations))])
        return _Citations(unknown, inside, ~unknown & inside & ~_member(citations, backed))

    def _fetched(self, p: PreparedRuns, calls: _Calls, wanted: Ints) -> Ints:
        """How many of the wanted artifacts each run fetched validly."""
        distinct = np.unique(calls.reads[_member(calls.read_for, wanted)])
        return np.bincount(distinct // (self._none + 1), minlength=len(p.question))

    def _trajectories(
        self, p: PreparedRuns, calls: _Calls, coverage: Floats, strayed: Ints
    ) -> tuple[Floats, Floats, Floats]:
        """The trajectory of each run by the formula of each track, in the order of TRACKS."""
        runs = len(p.question)
        gated = np.bincount(p.run[calls.gated], minlength=runs)
        some = gated > 0

        def share_within(breaking: Flags) -> Floats:
            broken = np.bincount(p.run[breaking], minlength=runs)
            return np.where(some, 1 - broken / np.maximum(gated, 1), 0.0)

        horizon = share_within(calls.by_horizon)
        denied = np.where(some & (strayed == 0), 1.0, 0.0)
        grounding = np.where(self._deniable[p.question], denied, coverage)
        return (
            0.30 * share_within(calls.by_actor)
            + 0.25 * self._permitted(p, calls)
            + 0.20 * grounding
            + 0.15 * horizon
            + 0.10 * (some * _recovery_share(p, calls)),
            0.20 * (self._fetched(p, calls, self._cause) > 0)
            + 0.20 * (self._fetched(p, calls, self._effect) > 0)
            + 0.35 * coverage
            + 0.15 * horizon
            + 0.10 * (some & p.mechanism),
            0.80 * coverage + 0.20 * horizon,
        )

    def _permitted(self, p: PreparedRuns, calls: _Calls) -> Floats:
        """The share of the subsystems a run touched that it may touch; 0 where it touched none."""
        runs, width = len(p.question), self._sees.shape[1]
        gated, touched = calls.gated, calls.touched
        named = gated & (touched < width - 1)

        def distinct(flags: Flags) -> Ints:
            keys = p.run[flags] * width + touched[flags]
            there = np.bincount(keys, minlength=runs * width) > 0
            return np.asarray(np.count_nonzero(there.reshape(runs, width), axis=1))

        all_of, wrong_of = distinct(named), distinct(named & ~calls.seen)
        shares = np.where(all_of > 0, 1 - wrong_of / np.maximum(all_of, 1), 0.0)
        # Searching everywhere at once touches only what the gate grants.
        everywhere = np.bincount(p.run[gated & (touched == width - 1)], minlength=runs) > 0
        return np.where((all_of == 0) & everywhere, 1.0, shares)

    def _key(self, group: Any, artifact: Any) -> Any:
        return group * (self._none + 1) + artifact

    def _keys(self, sets: Sequence[frozenset[str]]) -> Ints:
        """Question and artifact of each set's members, sorted; what is not in the corpus too."""
        return np.unique(
            _ints(
                self._key(row, self._codes[name])
                for row, names in enumerate(sets)
                for name in names
                if name in self._codes
            )
        )


def _recovery_share(p: PreparedRuns, calls: _Calls) -> Floats:
    """The share of dead ends (nothing found, or nothing delivered) that something good followed."""
    search = p.kind == CallKind.SEARCH
    runs = len(p.question)
    good = calls.delivered & ~calls.violating & calls.gated & ~(search & p.empty)
    dead = calls.gated & ~good
    at = np.arange(len(p.run))
    last = np.full(runs, -1, dtype=np.int64)
    np.maximum.at(last, p.run[good], at[good])
    dead_of = np.bincount(p.run[dead], minlength=runs)
    left = np.bincount(p.run[dead & (at > last[p.run])], minlength=runs)
    return np.where(dead_of > 0, 1 - left / np.maximum(dead_of, 1), 1.0)


def _member(keys: Ints, within: Ints) -> Flags:
    """Which keys are in a sorted array."""
    if not len(within):
        return np.zeros(len(keys), dtype=np.bool_)
    at = np.searchsorted(within, keys)
    found: Flags = within[np.minimum(at, len(within) - 1)] == keys
    return found


def _flat(columns: Iterable[Iterable[int]]) -> Ints:
    return np.fromiter(chain.from_iterable(columns), dtype=np.int64)


def _name_codes(
    columns: Iterable[Iterable[str | None]], codes: Mapping[Any, int], unknown: int
) -> Ints:
    """The code of each name, `unknown` for one that has none."""
    names = chain.from_iterable(columns)
    return np.asarray(list(map(codes.get, names, repeat(unknown))), dtype=np.int64)


def _own_flags(
    columns: Sequence[tuple[Any, ...]], own: Sequence[Any], strays: Callable[[Any, Any], bool]
) -> Flags:
    """Which calls say something of their own that strays from what is the question's."""
    flags = np.zeros(sum(map(len, columns)), dtype=np.bool_)
    at = 0
    for column, mine in zip(columns, own, strict=True):
        if column.count(None) < len(column):
            flags[at : at + len(column)] = [x is not None and strays(x, mine) for x in column]
        at += len(column)
    return flags


def _ints(values: Any) -> Ints:
    return np.asarray(list(values), dtype=np.int64)


def _flags(values: Any) -> Flags:
    return np.asarray(list(values), dtype=np.bool_)
