"""A recorded judgement with its sentences, as reports and `--json` show it.

Bundles hold explanations and no English. Here each finding gets its sentence, its causes and its
comparisons in words, and each clause the sentence of its contract.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias

from statediff.contract.binding.bound import Contract
from statediff.contract.clauses.effects import BoundEffect
from statediff.contract.language.calls import TRACE
from statediff.contract.language.english import in_a_row, words
from statediff.errors import AdapterError, BundleError, UsageError
from statediff.evidence import documents as doc
from statediff.evidence.canonical import read
from statediff.evidence.documents import check_shape, key_from
from statediff.evidence.package import Bundle
from statediff.kernel import compile_contract, contract_in
from statediff.model.codes import FindingCode, Truth
from statediff.model.components import component_of
from statediff.model.explanation import Reason, shown_key
from statediff.model.sentences import sentence_of
from statediff.reports.wording.naming import named, natural_names
from statediff.reports.wording.origins import origins_in

Json: TypeAlias = Any


def worded_judgement(bundle: Bundle) -> Json:
    """The judgement in a bundle, worded; `BundleError` or `InputError` for what is none."""
    judged = bundle.document("judgement.json")
    names = natural_names(bundle)
    judged = named(judged, names) if names else judged
    asked = _asked(bundle.files)
    hidden = {entry["delta"]["id"]: entry["delta"] for entry in judged["hidden"]}
    whose = origins_in(bundle)
    return {
        **judged,
        "clauses": [
            {**c, "sentence": asked.get(c["clause"], c["clause"])} for c in judged["clauses"]
        ],
        "findings": [
            {
                **worded_finding(_as_captured(f, hidden), asked.get(f["clause"], "")),
                "component": component_of(f),
                "origin": whose(f),
            }
            for f in judged["findings"]
        ],
    }


def worded_finding(finding: Json, asked: str) -> Json:
    """A finding as a bundle holds it, worded; `asked` is the sentence of its clause."""
    explanation, witness = finding["explanation"], finding["witness"]
    is_clause = explanation["is"] == Reason.AS_ASKED and asked
    worded = {
        **finding,
        "sentence": asked if is_clause else sentence_of(_placed(finding)),
        "missing": [sentence_of(cause) for cause in finding["missing"]],
        "witness": {
            **witness,
            "comparisons": [
                {**each, "left": sentence_of(each["left"]), "right": sentence_of(each["right"])}
                for each in witness["comparisons"]
            ],
        },
    }
    del worded["explanation"]
    return worded


def _as_captured(finding: Json, hidden: Mapping[str, Json]) -> Json:
    """The finding, with what was captured of a first change whose sides a rule makes equal."""
    explanation = finding.get("explanation", {})
    first = explanation.get("first", {})
    if first.get("is") != Reason.UPDATE or first["before"] != first["after"]:
        return finding
    about = (hidden[name] for name in finding["deltas"] if name in hidden)
    delta = next((each for each in about if each["path"] == first["path"]), None)
    if delta is None:
        return finding
    sides = {
        side: Reason.VALUE(value=delta[f"raw_{side}"]["value"]).document()
        for side in ("before", "after")
    }
    return {**finding, "explanation": {**explanation, "first": {**first, **sides}}}


_BARE: Final = {Reason.WRITTEN, Reason.COMPARED, Reason.TEST}
"""The finding about a condition, without its entities."""

_MAX_NAMED: Final = 3


def _placed(finding: Json) -> Json:
    """The explanation of a finding, behind the entities that its one comparison is about.

    What is undefined names no field; the comparison in which it is does.
    """
    explanation, witness = finding["explanation"], finding["witness"]
    is_undefined = finding["code"] == FindingCode.UNDEFINED
    is_bare = finding["truth"] == Truth.FAILS.value and explanation["is"] in _BARE
    if not (is_bare or is_undefined) or len(witness["comparisons"]) != 1:
        return explanation
    about = [_entity(row) for row in witness["rows"] if row["side"] != TRACE]
    names = list(dict.fromkeys(map(sentence_of, about)))
    said = sentence_of(explanation)
    if len(names) > _MAX_NAMED or any(name in said for name in names):
        return explanation
    entities = [next(e for e in about if sentence_of(e) == name) for name in names]
    [compared] = witness["comparisons"]
    if is_undefined and compared["text"] != compared["operator"]:
        explanation = Reason.WRITTEN(text=f"{compared['text']}: {said}").document()
    return {"is": Reason.BROKEN_BY, "entities": entities, "because": [explanation]}


def _entity(row: Json) -> Json:
    key = shown_key(key_from(row["key"]))
    if "named" in row:
        key = (Reason.WRITTEN(text=row["named"]),)
    return Reason.ENTITY(entity_type=row["type"], key=key).document()


def clause_sentence(files: Mapping[str, bytes], clause: str) -> str:
    """The sentence of a clause; empty where the contract or the schema is not among the files."""
    return _asked(files).get(clause, "")


def intent_of(files: Mapping[str, bytes]) -> str | None:
    """The contract's own words for the task; None where they are not among the files."""
    try:
        file = contract_in({"contract.yaml": files["contract.yaml"]})
    except (KeyError, UsageError, AdapterError, BundleError):
        return None
    return " ".join(file.content.intent.split())


def _asked(files: Mapping[str, bytes]) -> Mapping[str, str]:
    contract, schema = files.get("contract.yaml"), files.get("schema.json")
    if contract is None or schema is None:
        return {}
    return _sentences(contract, schema)


@lru_cache(maxsize=64)
def _sentences(contract: bytes, schema: bytes) -> Mapping[str, str]:
    """The sentences of a contract's clauses; none where this version cannot read it."""
    try:
        document = read(schema, "schema.json")
        check_shape(document, "schema.json")
        file = contract_in({"contract.yaml": contract})
        return clause_sentences(compile_contract(file, doc.schema_from(document)).contract)
    except (UsageError, AdapterError, BundleError):
        return {}


# ---------------------------------------------------------------- what each clause asks


def clause_sentences(contract: Contract) -> dict[str, str]:
    """The sentence of every clause that a judgement by this contract may have, by its id."""
    found = {"frame": _frame(contract)}
    schema = contract.document.answer.asked
    if schema:
        found["answer"] = f"The answer states {in_a_row(f'“{name}”' for name in schema)}."
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
