"""Two captures compared without a contract: all of both, under the equality of their types."""

from __future__ import annotations

from statediff.canonicalize import equality_of_types
from statediff.diff import diff
from statediff.model.delta import Diff
from statediff.model.readings import Capture
from statediff.resolve import resolve


def compare(before: Capture, after: Capture) -> Diff:
    """Everything that changed, with nothing excluded; entities are paired by their keys alone."""
    resolution = resolve(before, after)
    matching = resolution.matchings[0]
    rules = equality_of_types(matching.before.schema, matching.after.schema)
    evidence = {name: (one, two) for name, one, two in resolution.readings_of}
    return diff(
        matching.before, matching.after, rules, rule_names=rules.rules_on, evidence=evidence
    )
