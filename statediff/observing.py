"""An observer, who captured and recorded a trial, signs what there was before it is judged.

The key is apart from the evaluator's, who cannot leave a call out then, or state another answer,
other times, another schema or another isolation.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from statediff.capture.bounds import bound_captures
from statediff.capture.source import Clock
from statediff.evidence import documents as doc
from statediff.evidence import verify as v
from statediff.evidence.canonical import write
from statediff.evidence.disclosure.undisclosed import Shown
from statediff.evidence.histories import seen_document
from statediff.evidence.keys import SigningKey
from statediff.evidence.observation import SAID, with_observation
from statediff.evidence.roots import Roots
from statediff.evidence.seal import enveloped
from statediff.kernel import Evaluated, TrialFacts, schema_of
from statediff.model.readings import Capture, Timeline
from statediff.model.trace import NoAnswer, Trace
from statediff.model.values import Value

Json = Any
Ends = tuple[Capture, Capture]
"""The captures before and after."""
_KNOWN: Final = ("configuration", "model", "version")
_SALT_BYTES: Final = 16


@dataclass(frozen=True, kw_only=True)
class Observer:
    """Who signs, by which clock, and what is known of the agent beside its name."""

    key: SigningKey = field(repr=False)
    clock: Clock
    known: Mapping[str, str | None] = field(default_factory=dict)
    """`version`, `model` and `configuration`, the SHA-256 of its options, as far as known."""
    files: tuple[Path, ...] = ()
    """Where its secrets are; an isolated agent does not see them."""
    salt: Callable[[], str] = lambda: secrets.token_hex(_SALT_BYTES)

    def observe(
        self, ends: Sequence[Ends], facts: TrialFacts, trace: Trace, answer: Value | NoAnswer,
        timeline: Timeline | None, roots: Roots | None = None,
    ) -> Json:  # fmt: skip
        """The signed observation of a trial; of several pairs of captures one will be judged."""
        pairs = [bound_captures(*pair) for pair in ends]
        shown, trial = Shown(trace, answer), facts.as_json()
        said = shown.said()
        parts = {
            v.AGENT: [{**dict.fromkeys(_KNOWN), **self.known, "name": facts.agent}],
            "answer": [said["answer.json"]],
            "ending": [trial.get("ending")],
            "schema": [doc.schema_document(schema_of(*pair)) for pair in pairs],
            "states": [_states(*pair, roots or Roots.of(*pair, facts.secret)) for pair in pairs],
            "times": [doc.timeline_document(timeline)],
            "trace": [said["trace.json"]],
            "trial": [v.part_of("trial", trial)],
        }
        if shown.is_other:
            judged = doc.answer_document(answer), doc.trace_document(trace)
            parts[v.UNSHOWN] = [dict(zip(SAID, judged, strict=True))]
        return self._signed(facts.id, parts)

    def _signed(self, trial: str, parts: Mapping[str, Sequence[Json]]) -> Json:
        subject, opened = [], []
        for name, values in sorted(parts.items()):
            salt = self.salt()
            digests = dict.fromkeys(v.part_digest(salt, value) for value in values)
            for number, digest in enumerate(digests):
                called = f"{name}/{number}" if number else name
                subject.append({"digest": {"sha256": digest}, "name": called})
            opened.append([name, salt, *(values if name == v.AGENT else ())])
        payload = write({
            "_type": v.STATEMENT, "predicate": {"at": self.clock().isoformat(), "trial": trial},
            "predicateType": v.OBSERVED, "subject": subject,
        })  # fmt: skip
        envelope = json.loads(enveloped(payload, self.key.public, self.key.sign))
        return {"envelope": envelope, "opened": opened}


def observed_as(evaluated: Evaluated, signed: Json | None) -> Evaluated:
    """The judged trial, whose bundle has what was signed of it. `BundleError` where it cannot."""
    if signed is None:
        return evaluated
    return replace(evaluated, bundle=with_observation(evaluated.bundle, signed))


def _states(before: Capture, after: Capture, roots: Roots) -> Json:
    return {
        "after": doc.capture_document(after),
        "before": doc.capture_document(before),
        "history": seen_document(after.history),
        "roots": dict(roots.by_side),
    }
