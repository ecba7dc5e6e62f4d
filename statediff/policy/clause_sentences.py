"""What each judged clause asks, in English: a matter of its contract, never of a judgement."""

from __future__ import annotations

from statediff.contract.binding.bound import Contract
from statediff.contract.clauses.effects import BoundEffect
from statediff.contract.language.english import in_a_row, words
from statediff.policy.transition import ID as TRANSITION


def clause_sentences(contract: Contract) -> dict[str, str]:
    """The sentence of every clause that a judgement by this contract may have, by its id."""
    found = {"frame": _frame(contract)}
    schema = contract.document.answer.asked
    if schema:
        found["answer"] = f"The answer states {in_a_row(f'“{name}”' for name in schema)}."
    if contract.transition is not None:
        found[TRANSITION] = contract.transition.sentence
    if contract.alternatives is not None:
        found[contract.alternatives.id] = contract.alternatives.sentence
    if contract.access is not None:
        found[contract.access.id] = contract.access.sentence
        found |= {clause.id: clause.sentence for clause in contract.access.clauses}
    for rule in contract.effects:
        found[rule.id] = rule.sentence
        found[rule.retry_id] = _retry(rule)
    expressed = (*contract.forbid, *contract.derived, *contract.require, *contract.claims)
    found |= {clause.id: clause.sentence for clause in expressed}
    conduct = (*contract.steps, *contract.turns, *contract.actions)
    return found | {clause.id: clause.sentence for clause in conduct}


def _retry(rule: BoundEffect) -> str:
    return f"No retried call brings about the same {words(rule.type)} twice."


def _frame(contract: Contract) -> str:
    if contract.frame_is_open:
        return "Every source that must report has reported."
    watched = [rule.source for rule in contract.evidence if rule.needs_history]
    if watched:
        return f"Nothing else changes, not for a moment in {' and '.join(watched)} either."
    return "Nothing else changes."
